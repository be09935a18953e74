"""From a graph to what the planner plans: values with bytes, steps, views, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from tawny.lazy import cached_property
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.node import Constant, Node, Part, Variable, toposort
from tawny.op import Cost, Elementwise, Op, Type, overwritable_operands
from tawny.ops.bands import Bands
from tawny.ops.delay import Delay
from tawny.ops.fused_products import FusedProduct
from tawny.ops.fusion import Group
from tawny.ops.loops import BodyOp, ScanLoop
from tawny.ops.movement import Reshape
from tawny.shape import size, splits


class MachineModel(NamedTuple):
    """The machine that plans are made for: alignment and a roofline."""

    alignment: int
    """Bytes: every place in the arena is a multiple of them."""
    operations: float
    """Scalar operations that are done in a second."""
    bandwidth: float
    """Bytes that are moved in a second."""
    overhead: float
    """Seconds of starting any step."""
    group_steps: int = 64
    """Elementwise ops that are worth one kernel, at most."""

    def seconds(self, cost: Cost) -> float:
        """An estimate of the time a step takes."""
        moved = cost.bytes_read + cost.bytes_written
        return self.overhead + max(cost.operations / self.operations, moved / self.bandwidth)


PROCESSOR: Final = MachineModel(alignment=64, operations=5e10, bandwidth=1e10, overhead=1e-6)
"""An ordinary processor."""

Place = tuple[Node, int]
"""A node and which of its results; 0 for nodes that have one."""


@dataclass(frozen=True)
class LoweredGraph:
    """A graph's nodes as a planning problem.

    `values` gives the index of each node's value, `steps` the node of each step.  Views, parts,
    constants and variables have a value but no step.
    """

    results: tuple[Node, ...]
    problem: Problem
    values: Mapping[Place, int]
    steps: tuple[Node, ...]
    strided: frozenset[Node]
    """Nodes whose value is a view that is not laid out as a new array would be."""
    order: Sequence[Node]
    """Every node, inputs first."""
    views: Mapping[Node, Node]
    """The node whose memory each view shares; a part of a node has memory of its own."""
    machine: MachineModel

    @cached_property
    def step_of(self) -> dict[Node, int]:
        """The step that computes each node."""
        return {node: index for index, node in enumerate(self.steps)}

    def value(self, node: Node) -> int:
        """The value of a node with one result."""
        return self.values[node, 0]


def is_leaf(node: Node) -> bool:
    """Whether the node has its value before the run: a variable, a constant, a kept value."""
    return type(node.op) in _LEAVES or (node.value is not None and not node.volatile)


_LEAVES: Final = frozenset({Variable, Constant})


def lower(
    results: Sequence[Node],
    kept: Collection[Node] = (),
    into_kept: bool = True,
    scratch: Callable[[Node], int] | None = None,
    outside_arena: Collection[Node] = (),
    after: Mapping[Node, Iterable[Node]] | None = None,
    order: Sequence[Node] | None = None,
    machine: MachineModel = PROCESSOR,
) -> LoweredGraph:
    """The planning problem of computing `results`, with `scratch` bytes while each step runs.

    Where these are says `ArenaLayout.scratch`, by position.  `order` are all nodes, inputs
    first, for somebody who knows them.  The rest is as for `with_constraints`.
    """
    walk = toposort(results, is_leaf) if order is None else order
    return with_constraints(
        _lower_unconstrained(results, walk, scratch, machine), kept, into_kept, outside_arena, after
    )


def _lower_unconstrained(
    results: Sequence[Node],
    order: Sequence[Node],
    scratch: Callable[[Node], int] | None,
    machine: MachineModel,
) -> LoweredGraph:
    """The problem of computing results that are whole when the run ends."""
    whole = frozenset(results)
    parts = {result_of(n): n for n in order if type(n.op) is Part}
    values: dict[Place, int] = {}
    table: list[PlanValue] = []
    steps: list[PlanStep] = []
    nodes: list[Node] = []
    strided: set[Node] = set()
    views: dict[Node, Node] = {}
    for node in order:
        leaf = is_leaf(node)
        base = None if leaf else view_base(node, strided)
        if base is not None:
            values[node, 0] = len(table)
            if not isinstance(node.op, (Part, Reshape)) or base[0] in strided:
                strided.add(node)
            if type(node.op) is not Part:
                views[node] = views.get(base[0], base[0])
            seen = values[base]
            table.append(PlanValue(table[seen].bytes, node, node in whole, view_of=seen))
            continue
        first = len(table)
        for index, (shape, dtype) in enumerate(types(node)):
            place = node, index
            values[place] = len(table)
            label = parts.get(place, node) if node.parts else node
            table.append(PlanValue(size(shape) * dtype.itemsize, label, label in whole))
        if not leaf:
            made = tuple(range(first, len(table)))
            steps.append(_step(node, made, values, strided, scratch, machine))
            nodes.append(node)
    problem = Problem(tuple(table), tuple(steps), machine.alignment)
    return LoweredGraph(
        tuple(results), problem, values, tuple(nodes), frozenset(strided), order, views, machine
    )


def with_constraints(
    plain: LoweredGraph,
    kept: Collection[Node] = (),
    into_kept: bool = True,
    outside_arena: Collection[Node] = (),
    after: Mapping[Node, Iterable[Node]] | None = None,
) -> LoweredGraph:
    """The problem with more rules: what is kept, what is outside the arena, what comes after what.

    `kept` values have memory of their own for the whole run, since they may be right from an
    earlier one; of a node with several results parts are kept, one by one.  Without `into_kept`
    none of them is written over an operand, whose memory would then be theirs.  What is computed
    `outside_arena`, in the memory of a variable, takes no bytes here; `after` gives for each such
    step those that must not run once it has.
    """
    if not (kept or outside_arena or after):
        return plain
    values, steps = list(plain.problem.values), list(plain.problem.steps)
    lasting = _keep(kept, plain, values)
    lent = _take_out_of_arena(outside_arena, plain, values)
    fixed = lent if into_kept else lent | lasting
    if fixed:
        for s, step in enumerate(steps):
            if step.overwrites and not (
                lent.isdisjoint(step.inputs) and fixed.isdisjoint(step.outputs)
            ):
                over = [
                    (p, r)
                    for p, r in step.overwrites
                    if step.inputs[p] not in lent and step.outputs[r] not in fixed
                ]
                steps[s] = step._replace(overwrites=tuple(over))
    for node, earlier in (after or {}).items():
        s = plain.step_of[node]
        steps[s] = steps[s]._replace(after=tuple(sorted([plain.step_of[n] for n in earlier])))
    problem = plain.problem.with_rules(tuple(values), tuple(steps))
    return replace(plain, problem=problem)


def with_scratch(lowered: LoweredGraph, scratch: Callable[[Node], int]) -> LoweredGraph:
    """The problem with other scratch memory of its steps."""
    problem = lowered.problem
    wanted = [scratch(node) for node in lowered.steps]
    if wanted == [step.scratch for step in problem.steps]:
        return lowered
    steps = [s._replace(scratch=n) for s, n in zip(problem.steps, wanted, strict=True)]
    return replace(lowered, problem=problem.with_rules(problem.values, tuple(steps)))


def _keep(kept: Collection[Node], plain: LoweredGraph, values: list[PlanValue]) -> set[int]:
    """Let nodes be kept; the values that have memory of their own for that."""
    whole, own = frozenset(kept), {plain.values[result_of(n)] for n in kept}
    lasting = {v for v in own if values[v].view_of is None}
    for v, value in enumerate(values if kept else ()):
        if value.label in whole:
            values[v] = value._replace(kept=True, pinned=v in lasting)
        elif v in lasting:
            values[v] = value._replace(pinned=True)
    return lasting


def _take_out_of_arena(
    outside_arena: Iterable[Node], plain: LoweredGraph, values: list[PlanValue]
) -> set[int]:
    """Let nodes be computed outside the arena; the values that are there, views included."""
    own = [plain.values[result_of(n)] for n in outside_arena]
    lent = {v for v in own if values[v].view_of is None}
    for v, value in enumerate(values if lent else ()):
        if v in lent or value.view_of in lent:
            lent.add(v)
            values[v] = value._replace(bytes=0)
    return lent


def types(node: Node) -> tuple[Type, ...]:
    """Shape and dtype of each result."""
    return node.parts or ((node.shape, node.dtype),)


def result_of(node: Node) -> Place:
    """The node that computes the value of `node`, and which of its results that is."""
    return (node.inputs[0], node.op.index) if isinstance(node.op, Part) else (node, 0)


def view_base(node: Node, strided: Iterable[Node]) -> Place | None:
    """The value a view shares memory with; None for what has memory of its own.

    A reshape of a strided view cannot be one, unless it only cuts axes: elements of axes that
    become one are not evenly spaced.
    """
    if not node.op.facts().view:
        return None
    (base,) = node.inputs
    if isinstance(node.op, Part):
        return base, node.op.index
    if isinstance(node.op, Reshape) and base in strided and splits(base.shape, node.shape) is None:
        return None
    return base, 0


def seconds(node: Node, machine: MachineModel = PROCESSOR) -> float:
    """An estimate of the time a node takes, its inputs being there: a roofline."""
    op = node.op
    if isinstance(op, BodyOp):
        times = [
            sum([seconds(n, machine) for n in body.steps if not is_leaf(n)]) for body in op.bodies()
        ]
        return machine.overhead + op.times() * max(times)
    return machine.seconds(_profile_of(node).cost)


def writing_seconds(node: Node, machine: MachineModel = PROCESSOR) -> float:
    """What a node takes at least that is computed: a draw has no operands, a view may be copied."""
    written = sum([size(shape) * int(dtype.itemsize) for shape, dtype in types(node)])
    return machine.overhead + written / machine.bandwidth


def cost(node: Node) -> Cost:
    """What one evaluation of a node costs: operations, and bytes moved."""
    given = [(i.shape, i.dtype) for i in node.inputs]
    return node.op.cost((node.shape, node.dtype), given)


def overwrites(node: Node) -> Sequence[tuple[int, int]]:
    """Pairs (operand, result): that result may be written over that operand, if it dies here."""
    return _profile_of(node).overwrites


class _OpProfile(NamedTuple):
    """The facts that planning needs of an op on operands of some types."""

    cost: Cost
    overwrites: Sequence[tuple[int, int]]


def _profile_of(node: Node) -> _OpProfile:
    op = node.op
    asked = (
        _op_profile if isinstance(op, (Delay, BodyOp)) else _cached_profile
    )  # users' functions are not held
    return asked(op, (node.shape, node.dtype), tuple([(i.shape, i.dtype) for i in node.inputs]))


def _op_profile(op: Op, made: Type, given: tuple[Type, ...]) -> _OpProfile:
    return _OpProfile(op.cost(made, given), _overwrites(op, made, given))


_cached_profile: Final = lru_cache(1024)(_op_profile)


def _overwrites(op: Op, made: Type, given: tuple[Type, ...]) -> Sequence[tuple[int, int]]:
    if isinstance(op, Group):
        return op.body.overwrites()
    if isinstance(op, FusedProduct):
        return op.overwrites()
    if isinstance(op, Bands):
        return () if op.may_fail(made[1]) else op.overwrites()
    if isinstance(op, ScanLoop):
        return op.overwrites()
    return [(p, 0) for p in overwritable_operands(op, made, given)]


def _step(
    node: Node,
    made: tuple[int, ...],
    values: Mapping[Place, int],
    strided: Collection[Node],
    scratch: Callable[[Node], int] | None,
    machine: MachineModel,
) -> PlanStep:
    op, inputs, over = node.op, node.inputs, overwrites(node)
    return PlanStep(
        tuple([values[i, 0] for i in inputs]),
        made,
        tuple([pair for pair in over if inputs[pair[0]] not in strided]),
        0 if scratch is None else scratch(node),
        seconds(node, machine),
        not (isinstance(op, Delay) and op.facts().impure),
        node,
    )


def views_of(order: Iterable[Node]) -> dict[Node, Node]:
    """For nodes, inputs first, the node whose memory each view shares, as `LoweredGraph` has it."""
    out: dict[Node, Node] = {}
    strided: set[Node] = set()
    for node in order:
        op = node.op
        if type(op) is Elementwise or type(op) is Part or is_leaf(node):
            continue
        base = view_base(node, strided)
        if base is not None:
            owner, _ = base
            out[node] = out.get(owner, owner)
            if type(op) is not Reshape or owner in strided:
                strided.add(node)
    return out
