"""Which update edges need no copy: their source is computed in the variable's own memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Final

from tawny.graph.failing import fails_first, infallible, question
from tawny.graph.incremental import VOLATILE, Dependence
from tawny.graph.lowering import Lowered, Place, is_leaf, overwrites, result_of, views_of
from tawny.memory.model import predecessors
from tawny.memory.schedule import Schedule
from tawny.node import Node, make, toposort, written_at
from tawny.ops.creation import Copy
from tawny.ops.scatter import Scatter
from tawny.record import record
from tawny.shape import size

MOST_AFTER: Final = 50_000
"""Above so many pairs of steps an order is not asked for; sources lie where they happen to fit."""

MOST_ROUNDS: Final = 30
"""So many sources are given up one by one, then all that are in the way of each other."""


@record
class Homes:
    """Sources of updates that lie in the variables they update, and what that asks of the order."""

    variable: Mapping[Node, Node]
    """By source."""
    after: Mapping[Node, frozenset[Node]]
    """For each step that computes some of them those that must not run once it has."""


NOWHERE: Final = Homes({}, {})
"""No source lies in a variable."""


def apart(results: Sequence[Node], targets: Collection[Node]) -> tuple[Node, ...]:
    """Results with memory of their own in place of those that lie in an updated variable.

    The last of them are what the targets take: so all take it at once, whatever the order, and
    others see what the variables were.  A variable that takes its own value stays as it is.
    """
    views, first = views_of(results), len(results) - len(targets)
    same = [None] * first + [*targets]
    return tuple(
        _copied(node) if views.get(node, node) in targets and node is not kept else node
        for node, kept in zip(results, same, strict=True)
    )


def _copied(node: Node) -> Node:
    with written_at(node.sources):
        return make(Copy(), (node,))


def possible_homes(
    updates: Sequence[tuple[Node, Node]],
    results: Sequence[Node],
    lowered: Lowered,
    known: Dependence,
) -> Homes:
    """The sources that lie in their variables if the steps run in an order that lets them."""
    readers = _readers(lowered)
    first: dict[Hashable, Node] = {}
    for node in lowered.steps:
        if not infallible(node):
            first.setdefault(question(node), node)
    fallible = frozenset(first.values())
    found: dict[Node, Node] = {}
    after: dict[Node, frozenset[Node]] = {}
    mates: dict[Node, Sequence[Node]] = {}
    lone = _read_once(results, updates)
    for target, source in _free(updates, results, lowered, known):
        if result_of(source)[0] not in lowered.step_of:
            continue
        for chain in _chains(source, target, lone):
            if not _fails_unwritten(chain, target) or not _overwrites(chain, target, readers):
                continue
            if any(result_of(n)[0] in fallible for n in chain[1:]):
                continue
            others = {reader for reader, _ in readers.get(target, ())}
            own = {result_of(n)[0] for n in chain}
            found.update(dict.fromkeys(chain, target))
            after.update(dict.fromkeys(chain, frozenset[Node]()))
            mates.update(dict.fromkeys(chain, chain))
            after[chain[0]] = (fallible | others) - own
            break
    if sum(map(len, after.values())) > MOST_AFTER:
        return NOWHERE
    for source in cyclic(lowered, after):
        for node in mates[source]:
            found.pop(node, None)
            after.pop(node, None)
    steps: dict[Node, frozenset[Node]] = {}
    for source, earlier in after.items():
        node = result_of(source)[0]
        steps[node] = steps.get(node, frozenset()) | earlier
    return Homes(found, steps)


def homes(
    updates: Sequence[tuple[Node, Node]],
    results: Sequence[Node],
    lowered: Lowered,
    schedule: Schedule,
    known: Dependence,
) -> dict[Node, Node]:
    """For each source that a schedule may compute in its variable's memory, that variable.

    Safe means: the source runs in every run; every other reader of the variable is done before,
    and the op may overwrite it if it reads it itself; nobody else wants the variable's old value;
    and no later step can fail, which would leave the variable changed by half a run.
    """
    readers = _readers(lowered)
    safe_from = _safe_from(lowered, schedule)
    last = {lowered.steps[s]: position for position, s in enumerate(schedule.sequence)}
    runs = Counter(schedule.sequence)
    out: dict[Node, Node] = {}
    lone = _read_once(results, updates)
    for target, source in _free(updates, results, lowered, known):
        for chain in _chains(source, target, lone):
            steps = [result_of(n)[0] for n in chain]
            place = last.get(steps[0])
            if place is None or place < safe_from or not _fails_unwritten(chain, target):
                continue
            if not _overwrites(chain, target, readers):
                continue
            once = all(runs[lowered.step_of[n]] == 1 for n in steps)
            reads = readers.get(target, ())
            if once and all(last[r] < place for r, _ in reads if r not in steps):
                out.update(dict.fromkeys(chain, target))
                break
    return out


def _read_once(results: Sequence[Node], updates: Sequence[tuple[Node, Node]]) -> frozenset[Node]:
    """The nodes that one other reads, once, and that are no results; none if no source scatters."""
    if not any(isinstance(source.op, Scatter) for _, source in updates):
        return frozenset()
    uses = Counter(i for n in toposort(results, is_leaf) if not is_leaf(n) for i in n.inputs)
    uses.update(results)
    return frozenset(node for node, count in uses.items() if count == 1) - {*results}


def _chains(source: Node, target: Node, lone: Collection[Node]) -> Iterator[Sequence[Node]]:
    """What may lie in a variable for a source: scatters into it, the first first, or it alone."""
    chain, node = [source], source
    while isinstance(node.op, Scatter) and node.inputs[0] in lone:
        node = node.inputs[0]
        if not isinstance(node.op, Scatter):
            break
        chain.insert(0, node)
    if len(chain) > 1 and chain[0].inputs[0] is target:
        yield chain
    yield [source]


def _fails_unwritten(chain: Sequence[Node], target: Node) -> bool:
    """Whether the first step of a chain, if it fails, leaves the variable as it was.

    One that fails first does where it writes over the variable itself; otherwise it copies.
    """
    first = result_of(chain[0])[0]
    return infallible(first) or (fails_first(first) and first.inputs[0] is target)


def _overwrites(
    chain: Sequence[Node], target: Node, readers: Mapping[Node, list[tuple[Node, Node]]]
) -> bool:
    """Whether the steps of a chain that read a variable may overwrite it: the first alone."""
    first, *rest = [result_of(n) for n in chain]
    later = [node for node, _ in rest]
    return all(
        reader not in later and (reader is not first[0] or _overwritten(read, first, target))
        for reader, read in readers.get(target, ())
    )


def cyclic(lowered: Lowered, after: Mapping[Node, Collection[Node]]) -> list[Node]:
    """Sources to give up, the smallest first, so that some order has all steps `after` others."""
    index, left = lowered.step_of, dict(after)
    reads = predecessors(lowered.problem)
    out: list[Node] = []
    while True:
        before = [set(row) for row in reads]
        for source, earlier in left.items():
            before[index[result_of(source)[0]]].update(index[n] for n in earlier)
        stuck = in_cycles(before)
        within = [source for source in left if index[result_of(source)[0]] in stuck]
        if not within:
            return out
        within.sort(key=lambda n: size(n.shape) * n.dtype.itemsize)
        for source in within[: 1 if len(out) < MOST_ROUNDS else None]:
            out.append(source)
            del left[source]


def in_cycles(before: Sequence[Collection[int]]) -> set[int]:
    """The vertices of a graph on cycles or between them, given what each comes after."""
    behind: list[list[int]] = [[] for _ in before]
    for v, row in enumerate(before):
        for u in row:
            behind[u].append(v)
    rest = set(range(len(before)))
    for forth, back in ((before, behind), (behind, before)):
        waits = [sum(u in rest for u in row) for row in forth]
        free = [v for v in rest if not waits[v]]
        for v in free:
            rest.discard(v)
            for w in back[v]:
                waits[w] -= 1
                if not waits[w] and w in rest:
                    free.append(w)
    return rest


def _readers(lowered: Lowered) -> Mapping[Node, list[tuple[Node, Node]]]:
    """For each leaf the steps that read it, through views or not, and what they read."""
    problem = lowered.problem
    owner = {value: node for (node, _), value in lowered.values.items()}
    out: dict[Node, list[tuple[Node, Node]]] = {}
    for node, step in zip(lowered.steps, problem.steps, strict=True):
        for value in step.inputs:
            root = owner[problem.roots[value]]
            if is_leaf(root):
                out.setdefault(root, []).append((node, owner[value]))
    return out


def _safe_from(lowered: Lowered, schedule: Schedule) -> int:
    """The first position at which a variable may be written: no later step can fail.

    Where the last that can does so before it writes, it may write to one itself.
    """
    asked: set[Hashable] = set()
    last = 0
    for position, s in enumerate(schedule.sequence):
        node = lowered.steps[s]
        if not infallible(node) and question(node) not in asked:
            asked.add(question(node))
            last = position + (not fails_first(node))
    return last


def _free(
    updates: Sequence[tuple[Node, Node]],
    results: Sequence[Node],
    lowered: Lowered,
    known: Dependence,
) -> Iterator[tuple[Node, Node]]:
    """The updates whose source runs in every run and is no other result, nor the variable one."""
    times, roots = Counter(results), lowered.problem.roots
    wanted = {roots[lowered.value(n)] for n in results}
    for target, source in updates:
        value = lowered.values.get((target, 0))
        if known.moment(source) == VOLATILE and times[source] == 1 and value not in wanted:
            yield target, source


def _overwritten(read: Node, made: Place, target: Node) -> bool:
    """Whether the step that makes a source may overwrite the variable, which it reads itself."""
    node, result = made
    allowed = overwrites(node)
    return read is target and all(
        (p, result) in allowed for p, source in enumerate(node.inputs) if source is target
    )
