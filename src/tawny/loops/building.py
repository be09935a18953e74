"""Loops made of nodes: what the steps share is computed once, before them.

A step is written with variables that stand for its place, carries and rows.  Whatever depends on
none of them is an operand of the loop, be it an array that a function was closed over or something
that it computes alike in each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, final
from weakref import WeakSet

from tawny.errors import OF_A_STEP
from tawny.node import Constant, Node, Part, Variable, make_parts, toposort, variable
from tawny.op import Type
from tawny.ops.creation import Arange, Eye, convert_node
from tawny.ops.loops import (
    FLAG_TYPE,
    PLACE_TYPE,
    DrawNumbering,
    ScanLoop,
    Switch,
    WhileLoop,
)
from tawny.ops.movement import BroadcastTo, broadcast_node, expand_node, reshape_node
from tawny.ops.subgraph import Subgraph, substitute
from tawny.shape import size

MOST_INSIDE: Final = 16
"""Elements of the largest constants that are part of a body, where the optimiser sees them."""


OWN_NUMBERS: Final = DrawNumbering()
"""The numbering of the steps of a whole loop."""


@final
class Inside:
    """The draws, and calls of functions with effects, that are part of each step."""

    def __init__(
        self,
        since: int,
        impure: Iterable[Node] | None = None,
        numbering: DrawNumbering = OWN_NUMBERS,
    ) -> None:
        """Impure nodes made since a serial or, where they are given, certain ones."""
        self.numbering: DrawNumbering = numbering
        """How steps that draw are numbered."""
        self.impure = None if impure is None else frozenset(impure)
        """All of them, where they are known."""
        self._since = min([since, *[n.serial for n in self.impure or ()]])

    def has(self, node: Node) -> bool:
        """Whether an impure node is part of each step."""
        return node.serial >= self._since if self.impure is None else node in self.impure

    def is_older(self, node: Node) -> bool:
        """Whether a node cannot depend on anything inside."""
        return node.serial < self._since


class LoopStep(NamedTuple):
    """A step of a loop, written with variables of its own."""

    place: Node
    carries: tuple[Node, ...]
    rows: tuple[Node, ...]
    new_carries: tuple[Node, ...]
    new_rows: tuple[Node, ...]


class LoopResults(NamedTuple):
    """The results of a loop: the last values of the carries, and the rows of all steps, stacked."""

    carries: list[Node]
    rows: list[Node]


class Extract(NamedTuple):
    """A graph cut out of another: its body's arguments after those given, and their operands."""

    holders: tuple[Node, ...]
    operands: tuple[Node, ...]
    results: tuple[Node, ...]
    reached: frozenset[Node]
    """The nodes that the results were made of, before."""


def maker_of(node: Node) -> Node:
    """The node that computes a value: of a result of an op that has several, that op's."""
    return node.inputs[0] if isinstance(node.op, Part) else node


def stand_in(node: Node) -> Node:
    """A variable that stands for a node in a body."""
    return step_variable("an array", (node.shape, node.dtype))


def place_variable() -> Node:
    """A variable that stands for the place of a step."""
    return step_variable("the place", PLACE_TYPE)


def step_variable(what: str, kind: Type) -> Node:
    """A variable that functions of a step are called on; errors name it, should it get out."""
    made = variable(f"{what} {OF_A_STEP}", *kind)
    _STEP_VARIABLES.add(made)
    return made


_STEP_VARIABLES: Final[WeakSet[Node]] = WeakSet()


def is_of_step(node: Node) -> bool:
    """Whether a variable stands for something in a step, and has no value outside."""
    return node in _STEP_VARIABLES


def build_loop(
    step: LoopStep,
    initial: Sequence[Node],
    stacked: Sequence[Node],
    length: int,
    *,
    reverse: bool,
    inside: Inside,
) -> LoopResults:
    """The results of a loop; what every step gives alike is made without one.

    `initial` are the first values of the carries, `stacked` the arrays whose rows the steps take.
    """
    step = _without_equal_rows(step, stacked)
    step, finals = _without_constant_carries(step, initial)
    kept = [i for i in range(len(initial)) if i not in finals]
    carries = tuple([step.carries[i] for i in kept])
    new = [step.new_carries[i] for i in kept]
    own = nodes_inside([*new, *step.new_rows], (step.place, *carries, *step.rows), inside)
    varying = [n for n in dict.fromkeys(step.new_rows) if n in own]
    rows: dict[Node, Node] = {}
    if kept or varying:
        cut = extract([*new, *varying], own, (step.place, *carries, *step.rows))
        taken = [i for i, row in enumerate(step.rows) if row in cut.reached]
        arguments = (step.place, *carries, *[step.rows[i] for i in taken], *cut.holders)
        body, counts = Subgraph(arguments, cut.results), (length, len(kept), len(taken))
        numbering = inside.numbering if body.impure else OWN_NUMBERS
        op = ScanLoop(body, *counts, reverse, *numbering)
        given = [initial[i] for i in kept], [stacked[i] for i in taken], cut.operands
        parts = make_parts(op, tuple([node for nodes in given for node in nodes]))
        finals |= dict(zip(kept, parts, strict=False))
        rows = dict(zip(varying, parts[len(kept) :], strict=True))
    for node in step.new_rows:
        if node not in rows:
            rows[node] = broadcast_node(expand_node(node, (0,)), (length, *node.shape))
    return LoopResults([finals[i] for i in range(len(initial))], [rows[n] for n in step.new_rows])


def build_while(
    step: LoopStep,
    flag: Node,
    initial: Sequence[Node],
    *,
    inside: Inside,
) -> list[Node]:
    """The last carries of a loop whose steps say, as their only row, whether there is another.

    `flag` says whether there is a first one.
    """
    step, finals = _without_constant_carries(step, initial)
    kept = [i for i in range(len(initial)) if i not in finals]
    carries = tuple([step.carries[i] for i in kept])
    results = [convert_node(step.new_rows[0], FLAG_TYPE[1]), *[step.new_carries[i] for i in kept]]
    if kept:
        own = nodes_inside(results, (step.place, *carries), inside)
        cut = extract(results, own, (step.place, *carries))
        body = Subgraph((step.place, *carries, *cut.holders), cut.results)
        given = (flag, *[initial[i] for i in kept], *cut.operands)
        finals |= dict(zip(kept, make_parts(WhileLoop(body, len(kept)), given), strict=True))
    return [finals[i] for i in range(len(initial))]


def build_switch(index: Node, branches: Sequence[Sequence[Node]], *, inside: Inside) -> list[Node]:
    """The results of one of several branches; each computes what was made for it."""
    stack = [n for results in branches for n in results]
    own = {n for n in toposort(stack, inside.is_older) if not inside.is_older(n)}
    own = {n for n in own if type(n.op) not in (Constant, Variable)}
    cut = extract(stack, own, ())
    count = len(branches[0])
    parts = [cut.results[i : i + count] for i in range(0, len(stack), count)]
    op = Switch(tuple([Subgraph(cut.holders, results) for results in parts]))
    return list(make_parts(op, (index, *cut.operands)))


def written_out(op: ScanLoop, operands: Sequence[Node]) -> tuple[LoopStep, Inside]:
    """A step of a loop, written with its operands in place of what stands for them."""
    body, first = op.body, 1 + op.carries
    own = body.arguments[: first + op.stacked]
    made = body.apply((*own, *operands[op.first_shared :]))
    new = tuple([made[r] for r in body.results])
    step = LoopStep(own[0], own[1:first], own[first:], new[: op.carries], new[op.carries :])
    since = min([n.serial for n in own])
    return step, Inside(since, [made[n] for n in body.impure], op.numbering)


def _without_equal_rows(step: LoopStep, stacked: Sequence[Node]) -> LoopStep:
    """The step with rows that are the same for all as what they are."""
    found = zip(step.rows, map(_row_of_all, stacked), strict=True)
    places = {row: node for row, node in found if node is not None}
    return _with_places(step, places) if places else step


def _row_of_all(x: Node) -> Node | None:
    """What each row of an array is, where that is known to be the same."""
    if not isinstance(x.op, BroadcastTo):
        return None
    (source,) = x.inputs
    if len(source.shape) == len(x.shape):
        if source.shape[0] != 1:
            return None
        source = reshape_node(source, source.shape[1:])
    return broadcast_node(source, x.shape[1:])


def _with_places(step: LoopStep, places: dict[Node, Node]) -> LoopStep:
    """The step with nodes in place of some of its variables."""
    results = [*step.new_carries, *step.new_rows]
    made = substitute(toposort(results, places.__contains__), places)
    count = len(step.new_carries)
    new = tuple([made[n] for n in results])
    return step._replace(new_carries=new[:count], new_rows=new[count:])


def _without_constant_carries(
    step: LoopStep, initial: Sequence[Node]
) -> tuple[LoopStep, dict[int, Node]]:
    """The step with carries that never change as what they are, and these by their numbers."""
    fixed: dict[int, Node] = {}
    while True:
        pairs = zip(step.carries, step.new_carries, initial, strict=True)
        same = {i: first for i, (old, new, first) in enumerate(pairs) if new in (old, first)}
        more = {i: node for i, node in same.items() if i not in fixed}
        if not more:
            return step, fixed
        fixed |= more
        step = _with_places(step, {step.carries[i]: node for i, node in more.items()})


def nodes_inside(results: Sequence[Node], variables: Iterable[Node], inside: Inside) -> set[Node]:
    """The nodes that depend on variables, or on a draw that is part of each step; these too."""
    own = set(variables)
    for node in toposort(results, lambda n: n in own or inside.is_older(n)):
        impure = node.op.facts().impure and type(node.op) is not Variable
        if (impure and inside.has(node)) or not own.isdisjoint(node.inputs):
            own.add(node)
    return own


def extract(results: Sequence[Node], own: set[Node], variables: Iterable[Node]) -> Extract:
    """Results written with stand-ins for what is read from outside.

    What costs nothing but memory outside is made inside instead: views, small constants.
    """
    stack = list(reversed(results))
    met: set[Node] = set()
    shared: dict[Node, None] = {}
    leaves = set(variables)
    while stack:
        node = stack.pop()
        if node in met:
            continue
        met.add(node)
        if node in leaves:
            continue
        is_part = isinstance(node.op, Part) and node.inputs[0] not in own
        if (node in own and not is_part) or _is_made_inside(node):
            stack.extend(reversed(node.inputs))
        else:
            shared[node] = None
    places = {node: stand_in(node) for node in shared}
    stop = places.keys() | leaves
    made = substitute(toposort(results, stop.__contains__), places)
    return Extract(
        tuple(places.values()), tuple(places), tuple([made[r] for r in results]), frozenset(met)
    )


def _is_made_inside(node: Node) -> bool:
    """Whether a node from outside is computed by each step anew."""
    op = node.op
    if type(op) is Constant:
        return size(node.shape) <= MOST_INSIDE
    facts = op.facts()
    if facts.impure or node.value is not None or isinstance(op, Part):
        return False
    return isinstance(op, (BroadcastTo, Arange, Eye)) or facts.view
