"""Which update edges need no copy: their source is computed in the variable's own memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from tawny.engine.lowering import LoweredGraph, Place, is_leaf, overwrites, result_of, views_of
from tawny.graph.incremental import VOLATILE, Dependence
from tawny.memory.ordering.model import predecessors
from tawny.memory.schedule import Schedule
from tawny.node import Node, make, source_scope
from tawny.ops.indexing import Scatter
from tawny.ops.movement import Copy
from tawny.rewrite.flow import Flow
from tawny.shape import size

MAX_ORDER_PAIRS: Final = 50_000
"""The most pairs of steps whose order is asked for; with more, sources lie where they happen to
fit.  Chosen by hand: the planner follows each pair."""

MAX_SINGLE_ROUNDS: Final = 30
"""The most sources that are given up one by one; then all that are in each other's way are."""


@dataclass(frozen=True)
class InPlaceUpdates:
    """Updates computed in their variables' memory, and what that asks of the order of steps."""

    variable: Mapping[Node, Node]
    """The variable each source lies in."""
    after: Mapping[Node, frozenset[Node]]
    """For each step that computes some of them those that must not run once it has."""


NO_UPDATES: Final = InPlaceUpdates({}, {})
"""No update is computed in its variable's memory."""


def separate_outputs(flow: Flow, targets: Collection[Node]) -> Flow:
    """The graph with memory of their own for outputs that lie in an updated variable.

    The last of them are what the targets take: so all take it at once, whatever the order, and
    others see what the variables were.  A variable that takes its own value stays as it is.
    """
    results = flow.outputs
    if not any(_view_root(node) in targets for node in results):
        return flow
    views, first = views_of(flow.order()), len(results) - len(targets)
    same = [None] * first + [*targets]
    return flow.with_outputs(
        tuple(
            _copy_of(node) if views.get(node, node) in targets and node is not kept else node
            for node, kept in zip(results, same, strict=True)
        )
    )


def _view_root(node: Node) -> Node:
    """What a node may share memory with, seen through all ops that may be views."""
    while not is_leaf(node) and node.op.facts().view:
        node = node.inputs[0]
    return node


def _copy_of(node: Node) -> Node:
    with source_scope(node.sources):
        return make(Copy(), (node,))


@final
class UpdateAnalysis:
    """Finds which updates may be computed in their variables' memory, schedule by schedule."""

    def __init__(
        self, updates: Sequence[tuple[Node, Node]], lowered: LoweredGraph, known: Dependence
    ) -> None:
        """What no schedule changes is found here: who reads what, what can fail."""
        self._lowered = lowered
        self._readers = _readers(lowered)
        self._fallible = {n: _failure_cause(n) for n in lowered.steps if n.op.may_fail(n.dtype)}
        """The steps that can fail, and what decides it."""
        lone = _nodes_read_once(updates, lowered)
        self._chains = [
            (target, [c for c in _chains(source, target, lone) if self._may_overwrite(c, target)])
            for target, source in _candidates(updates, lowered, known)
        ]

    def _may_overwrite(self, chain: Sequence[Node], target: Node) -> bool:
        """Whether the steps of a chain may write over a variable, as far as they know.

        The first, if it fails, must leave the variable as it was: one that fails first does where
        it writes over the variable itself; otherwise it copies.
        """
        first = result_of(chain[0])[0]
        if first not in self._lowered.step_of:
            return False
        cause = self._fallible.get(first)
        if cause is first or (cause is not None and first.inputs[0] is not target):
            return False
        return _chain_may_write_over(chain, target, self._readers)

    def possible_updates(self) -> InPlaceUpdates:
        """The sources that lie in their variables if the steps run in an order that lets them."""
        first: dict[Hashable, Node] = {}
        for node, asked in self._fallible.items():
            first.setdefault(asked, node)
        fallible = frozenset(first.values())
        found: dict[Node, Node] = {}
        after: dict[Node, frozenset[Node]] = {}
        mates: dict[Node, Sequence[Node]] = {}
        for target, chains in self._chains:
            for chain in chains:
                if any(result_of(n)[0] in fallible for n in chain[1:]):
                    continue
                others = {reader for reader, _ in self._readers.get(target, ())}
                own = {result_of(n)[0] for n in chain}
                found.update(dict.fromkeys(chain, target))
                after.update(dict.fromkeys(chain, frozenset[Node]()))
                mates.update(dict.fromkeys(chain, chain))
                after[chain[0]] = (fallible | others) - own
                break
        if sum(map(len, after.values())) > MAX_ORDER_PAIRS:
            return NO_UPDATES
        for source in conflicting_sources(self._lowered, after):
            for node in mates[source]:
                found.pop(node, None)
                after.pop(node, None)
        steps: dict[Node, frozenset[Node]] = {}
        for source, earlier in after.items():
            node = result_of(source)[0]
            steps[node] = steps.get(node, frozenset()) | earlier
        return InPlaceUpdates(found, steps)

    def updates_in(self, schedule: Schedule) -> dict[Node, Node]:
        """For each source that a schedule may compute in its variable's memory, that variable.

        Safe means: the source runs in every run; every other reader of the variable is done before,
        and the op may overwrite it if it reads it itself; nobody else wants the variable's old
        value; and no later step can fail, which would leave the variable changed by half a run.
        """
        lowered = self._lowered
        safe_from = self._safe_from(schedule)
        last = {lowered.steps[s]: position for position, s in enumerate(schedule.sequence)}
        runs = Counter(schedule.sequence)
        out: dict[Node, Node] = {}
        for target, chains in self._chains:
            for chain in chains:
                steps = [result_of(n)[0] for n in chain]
                place = last.get(steps[0])
                if place is None or place < safe_from:
                    continue
                once = all(runs[lowered.step_of[n]] == 1 for n in steps)
                reads = self._readers.get(target, ())
                if once and all(last[r] < place for r, _ in reads if r not in steps):
                    out.update(dict.fromkeys(chain, target))
                    break
        return out

    def _safe_from(self, schedule: Schedule) -> int:
        """The first position at which a variable may be written: no later step can fail.

        Where the last that can does so before it writes, it may write to one itself.
        """
        asked: set[Hashable] = set()
        last = 0
        for position, s in enumerate(schedule.sequence):
            node = self._lowered.steps[s]
            if node in self._fallible and self._fallible[node] not in asked:
                asked.add(self._fallible[node])
                last = position + (self._fallible[node] is node)
        return last


def _failure_cause(node: Node) -> Hashable:
    """What decides whether a node fails: the node itself, unless it fails before it writes."""
    cause = node.op.failure_cause(node.inputs)
    return node if cause is None else cause


def _nodes_read_once(
    updates: Sequence[tuple[Node, Node]], lowered: LoweredGraph
) -> frozenset[Node]:
    """The nodes that one other reads, once, and that are no results; none if no source scatters."""
    if not any(isinstance(source.op, Scatter) for _, source in updates):
        return frozenset()
    uses = Counter(i for n in lowered.order if not is_leaf(n) for i in n.inputs)
    uses.update(lowered.results)
    return frozenset(node for node, count in uses.items() if count == 1) - {*lowered.results}


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


def _chain_may_write_over(
    chain: Sequence[Node], target: Node, readers: Mapping[Node, list[tuple[Node, Node]]]
) -> bool:
    """Whether the steps of a chain that read a variable may overwrite it: the first alone."""
    first, *rest = [result_of(n) for n in chain]
    later = [node for node, _ in rest]
    return all(
        reader not in later and (reader is not first[0] or _may_write_over(read, first, target))
        for reader, read in readers.get(target, ())
    )


def conflicting_sources(
    lowered: LoweredGraph, after: Mapping[Node, Collection[Node]]
) -> list[Node]:
    """Sources to give up, the smallest first, so that some order has all steps `after` others."""
    index, left = lowered.step_of, dict(after)
    reads = predecessors(lowered.problem)
    out: list[Node] = []
    while True:
        before = [set(row) for row in reads]
        for source, earlier in left.items():
            before[index[result_of(source)[0]]].update(index[n] for n in earlier)
        stuck = vertices_in_cycles(before)
        within = [source for source in left if index[result_of(source)[0]] in stuck]
        if not within:
            return out
        within.sort(key=lambda n: size(n.shape) * n.dtype.itemsize)
        for source in within[: 1 if len(out) < MAX_SINGLE_ROUNDS else None]:
            out.append(source)
            del left[source]


def vertices_in_cycles(before: Sequence[Collection[int]]) -> set[int]:
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


def _readers(lowered: LoweredGraph) -> Mapping[Node, list[tuple[Node, Node]]]:
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


def _candidates(
    updates: Sequence[tuple[Node, Node]], lowered: LoweredGraph, known: Dependence
) -> Iterator[tuple[Node, Node]]:
    """The updates whose source runs in every run and is no other result, nor the variable one."""
    times, roots = Counter(lowered.results), lowered.problem.roots
    wanted = {roots[lowered.value(n)] for n in lowered.results}
    for target, source in updates:
        value = lowered.values.get((target, 0))
        if known.run_key(source) == VOLATILE and times[source] == 1 and value not in wanted:
            yield target, source


def _may_write_over(read: Node, made: Place, target: Node) -> bool:
    """Whether the step that makes a source may overwrite the variable, which it reads itself."""
    node, result = made
    allowed = overwrites(node)
    return read is target and all(
        (p, result) in allowed for p, source in enumerate(node.inputs) if source is target
    )
