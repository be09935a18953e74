"""Loops without what nobody needs, and without what every step computes alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from tawny.loops.building import LoopResults, LoopStep, build_loop, written_out
from tawny.node import Constant, Node, Part, make_parts, part, remake, source_scope, toposort
from tawny.op import Op
from tawny.ops.loops import BodyOp, DrawNumbering, ScanLoop, Switch, WhileLoop
from tawny.ops.subgraph import Subgraph
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo

TRIM: Final = RuleInfo(
    "trim_loops", Kind.EXACT, "a loop without what nobody reads, and what each step computes alike"
)


SHARE: Final = RuleInfo(
    "share_loops", Kind.EXACT, "a loop whose results another one computes too = that one"
)


def trim_loops(flow: Flow, context: Context) -> Flow:
    """Loops that compute only what is read, and what differs from step to step."""
    replacements: dict[Node, Node] = {}
    for node, wanted in _loops(flow):
        with source_scope(node.sources):
            made = _TRIMMED[type(node.op)](node, wanted)
        if made is not None:
            context.recorder.record(TRIM, (node,), tuple(made.values()))
            replacements |= {part(node, index): new for index, new in made.items()}
    return flow.replace_nodes(replacements)


TRIM_LOOPS: Final = Pass(
    "trim_loops", (TRIM,), trim_loops, frozenset({ScanLoop, Switch, WhileLoop})
)


def _loops(flow: Flow) -> Iterator[tuple[Node, list[int]]]:
    """Each loop or branch, and which of its results are read."""
    read: dict[Node, list[int]] = {}
    for node in flow.order():
        if isinstance(node.op, Part) and isinstance(node.inputs[0].op, BodyOp):
            read.setdefault(node.inputs[0], []).append(node.op.index)
    for node, wanted in read.items():
        yield node, sorted(wanted)


def trim_loop(node: Node, wanted: Sequence[int]) -> dict[int, Node] | None:
    """The results wanted of a loop that gives no others; None where it is this one."""
    op = node.op
    assert isinstance(op, ScanLoop)
    carries = _needed_carries(op, wanted)
    rows = [index for index in wanted if index >= op.carries]
    step, inside = written_out(op, node.inputs)
    own = LoopStep(
        step.place,
        tuple([step.carries[i] for i in carries]),
        step.rows,
        tuple([step.new_carries[i] for i in carries]),
        tuple([step.new_rows[i - op.carries] for i in rows]),
    )
    first = [node.inputs[i] for i in carries]
    stacked = node.inputs[op.carries : op.first_shared]
    made = build_loop(own, first, stacked, op.length, reverse=op.reverse, inside=inside)
    if _is_same(made, node, len(op.body.results)):
        return None
    results = dict(zip([*carries, *rows], [*made.carries, *made.rows], strict=True))
    return {index: results[index] for index in wanted}


def trim_while(node: Node, wanted: Sequence[int]) -> dict[int, Node] | None:
    """The results wanted of a loop of unknown length that carries no others than it needs."""
    op = node.op
    assert isinstance(op, WhileLoop)
    needed = {0, *[1 + i for i in wanted]}
    own = {a: 1 + i for i, a in enumerate(op.body.arguments[1 : 1 + op.carries])}
    while True:
        found = {own[n] for n in toposort([op.body.results[i] for i in needed]) if n in own}
        if found <= needed:
            break
        needed |= found
    flag, *carries = sorted(needed)
    if len(carries) in (0, op.carries):
        return None
    results = [op.body.results[i] for i in (flag, *carries)]
    place, *given = op.body.arguments
    kept = [i for i in range(len(given)) if i >= op.carries or i + 1 in needed]
    body = Subgraph((place, *[given[i] for i in kept]), tuple(results))
    begins, *operands = node.inputs
    parts = make_parts(WhileLoop(body, len(carries)), (begins, *[operands[i] for i in kept]))
    made = {i - 1: new for i, new in zip(carries, parts, strict=True)}
    return {i: made[i] for i in wanted}


def trim_switch(node: Node, wanted: Sequence[int]) -> dict[int, Node] | None:
    """The results wanted of a choice between branches that give no others."""
    op = node.op
    assert isinstance(op, Switch)
    if len(wanted) == len(op.branches[0].results):
        return None
    cut = [
        Subgraph(branch.arguments, tuple([branch.results[i] for i in wanted]))
        for branch in op.branches
    ]
    used = {i for body in cut for i, x in enumerate(body.arguments) if x in frozenset(body.order)}
    bodies = [Subgraph(tuple([b.arguments[i] for i in sorted(used)]), b.results) for b in cut]
    index, *operands = node.inputs
    given = (index, *[operands[i] for i in sorted(used)])
    return dict(zip(wanted, make_parts(Switch(tuple(bodies)), given), strict=True))


_TRIMMED: Final[dict[type[Op], Callable[[Node, Sequence[int]], dict[int, Node] | None]]] = {
    ScanLoop: trim_loop,
    Switch: trim_switch,
    WhileLoop: trim_while,
}


def _is_same(made: LoopResults, node: Node, count: int) -> bool:
    """Whether the results are those of a loop, all of them in order."""
    results = [*made.carries, *made.rows]
    return len(results) == count and all(
        isinstance(r.op, Part)
        and r.op.index == i
        and r.inputs[0].op == node.op
        and r.inputs[0].inputs == node.inputs
        for i, r in enumerate(results)
    )


def _needed_carries(op: ScanLoop, wanted: Collection[int]) -> list[int]:
    """The carries that some wanted result depends on, or is."""
    needed = {i for i in wanted if i < op.carries}
    results = [op.body.results[i] for i in wanted]
    own = {a: i for i, a in enumerate(op.body.arguments[1 : 1 + op.carries])}
    while True:
        found = {own[n] for n in toposort(results) if n in own}
        if found <= needed:
            return sorted(needed)
        needed |= found
        results = [op.body.results[i] for i in needed]
        results += [op.body.results[i] for i in wanted]


# ------------------------------------------------------------------- branches


BRANCH: Final = RuleInfo("known_branch", Kind.EXACT, "switch(constant, branches) = that branch")


def choose_branches(flow: Flow, context: Context) -> Flow:
    """The branch that is always taken in place of a choice."""
    replacements: dict[Node, Node] = {}
    for node in flow.order():
        if not isinstance(node.op, Switch):
            continue
        index, *operands = node.inputs
        if type(index.op) is not Constant or index.value is None:
            continue
        number = min(max(int(index.value), 0), len(node.op.branches) - 1)
        branch = node.op.branches[number]
        with source_scope(node.sources):
            made = branch.apply(operands)
            results = [made[r] for r in branch.results]
            replacements |= {part(node, i): new for i, new in enumerate(results)}
        context.recorder.record(BRANCH, (node,), tuple(results))
    return flow.replace_nodes(replacements)


CHOOSE_BRANCHES: Final = Pass("choose_branches", (BRANCH,), choose_branches, frozenset({Switch}))


# ------------------------------------------------------------------- sharing


def share_loops(flow: Flow, context: Context) -> Flow:
    """One loop in place of another that computes nothing else: a derivative computes both."""
    alike: dict[tuple[int, bool, DrawNumbering], list[Node]] = {}
    for node in flow.order():
        if isinstance(node.op, ScanLoop):
            key = node.op.length, node.op.reverse, node.op.numbering
            alike.setdefault(key, []).append(node)
    replacements: dict[Node, Node] = {}
    gone: set[Node] = set()
    for loops in alike.values():
        for node in loops if len(loops) > 1 else ():
            for other in loops:
                found = None if other is node or other in gone else _results_in(other, node)
                if found is None or node in toposort([other]):
                    continue
                gone.add(node)
                with source_scope(node.sources):
                    made = [part(other, index) for index in found]
                context.recorder.record(SHARE, (node,), (other,))
                replacements |= {part(node, i): new for i, new in enumerate(made)}
                break
    return flow.replace_nodes(replacements)


SHARE_LOOPS: Final = Pass("share_loops", (SHARE,), share_loops, frozenset({ScanLoop}))


def _results_in(other: Node, node: Node) -> list[int] | None:
    """Which results of another loop are all those of a loop, in order."""
    op, theirs = node.op, other.op
    assert isinstance(op, ScanLoop)
    assert isinstance(theirs, ScanLoop)
    carries = _matches(node.inputs[: op.carries], other.inputs[: theirs.carries])
    rows = _matches(
        node.inputs[op.carries : op.first_shared],
        other.inputs[theirs.carries : theirs.first_shared],
    )
    if carries is None or rows is None:
        return None
    step, _ = written_out(op, node.inputs)
    whole, inside = written_out(theirs, other.inputs)
    places = {step.place: whole.place}
    places |= {step.carries[i]: whole.carries[j] for i, j in enumerate(carries)}
    places |= {step.rows[i]: whole.rows[j] for i, j in enumerate(rows)}
    impure = {(n.op, n.inputs): n for n in inside.impure or ()}
    made = _written_there((*step.new_carries, *step.new_rows), places, impure)
    if any(
        made[n] is not whole.new_carries[j] for n, j in zip(step.new_carries, carries, strict=True)
    ):
        return None
    given = {n: theirs.carries + j for j, n in reversed(list(enumerate(whole.new_rows)))}
    found = [given.get(made[n]) for n in step.new_rows]
    return None if None in found else [*carries, *[j for j in found if j is not None]]


def _matches(nodes: Sequence[Node], others: Sequence[Node]) -> list[int] | None:
    """For each node the first equal one of others that is not taken; None where one has none."""
    left: dict[Node, list[int]] = {}
    for number, node in enumerate(others):
        left.setdefault(node, []).append(number)
    found: list[int] = []
    for node in nodes:
        if not left.get(node):
            return None
        found.append(left[node].pop(0))
    return found


def _written_there(
    results: Sequence[Node],
    places: dict[Node, Node],
    impure: dict[tuple[Op, tuple[Node, ...]], Node],
) -> dict[Node, Node]:
    """What nodes become with others in place of some, and draws that are there already."""
    made = dict(places)
    for node in toposort(results, made.__contains__):
        if node in made:
            continue
        inputs = tuple([made.get(x, x) for x in node.inputs])
        there = impure.get((node.op, inputs)) if node.op.facts().impure else None
        made[node] = there or (node if inputs == node.inputs else remake(node, inputs))
    return made
