"""The pass that computes pairs again for each of several reductions, instead of storing them.

Arrays over a large space that are made from far smaller ones, as those of all pairs of two sets of
points are, cost more to store and to read again than to compute.  Reductions that fold the same
axes of one space, and need nothing of each other, are one group, which computes all it needs from
what is small or stored anyway; those that fold other axes are another one, which does so again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any, Final, NamedTuple, cast

from tawny.node import Node, make, part, source_scope
from tawny.op import Elementwise, Op, exponentials
from tawny.ops.body import Body, BodyStep
from tawny.ops.fusion import Group
from tawny.ops.movement import reshape_node
from tawny.ops.reduction import Max, Min, Reduction, Sum
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, RunKey, sources_of
from tawny.rewrite.groups.choice import MOST_INPUTS
from tawny.rewrite.groups.tables import FREE, PLAIN, POINTWISE, REDUCTION, VIEW, NodeTables
from tawny.rewrite.groups.units import LONGEST_ROW
from tawny.shape import Shape

REPEATS: Final = RuleInfo(
    "repeats", Kind.CONTRACTING, "sum(f(x, y), 0), sum(f(x, y), 1) = two groups that compute f"
)

LEAST: Final = 2**12
"""Elements of a space, at least, over which something is computed again."""

MOST_STEPS: Final = 128
"""Ops in a group, at most."""

CACHED: Final = 3 * 2**22
"""Bytes of what is stored, at most, that stays in a processor's cache."""

EXPONENTIAL_SECONDS: Final = 1e-9
CACHED_SECONDS: Final = 4e-11
STORED_SECONDS: Final = 8e-11
"""What an exponential of a float64 takes, and a byte that is moved in a cache or in memory: by the
pairs of `benchmarks/suite.py`."""

JOINED: Final = (Sum, Max, Min)
"""Reductions over all axes that are the same as one over the last axes and one over the others."""


def repeats_pass(
    should_group: Callable[[Body], bool],
    run_keys: Callable[[Sequence[Node]], RunKey] | None = None,
) -> Pass:
    """The pass; with `run_keys`, only nodes with the same run key are in one group.

    `should_group` says whether a body is made a group.
    """

    def run(flow: Flow, context: Context) -> Flow:
        if not _may_repeat(flow.order()):
            return flow
        order = flow.order()
        run_key = None if run_keys is None else run_keys(order)
        tables = NodeTables(order, flow.outputs, run_key)
        replacements: dict[Node, Node] = {}
        for found in _Spaces(tables).spaces():
            groups = _PairGroups(tables, found).groups(should_group)
            for before, made in groups:
                context.recorder.record(REPEATS, before, tuple(made.values()))
                replacements |= made
        return flow.replace_nodes(replacements)

    return Pass("repeat_pairs", (REPEATS,), run)


def _may_repeat(order: Sequence[Node]) -> bool:
    """Whether several reductions fold something large."""
    return sum([isinstance(n.op, Reduction) and _is_large(n.inputs[0].shape) for n in order]) > 1


def _is_large(shape: Shape) -> bool:
    return prod(shape) >= LEAST and len([n for n in shape if n != 1]) > 1


class PairSpace(NamedTuple):
    """Nodes over one space that reductions alone use up, by their places in order."""

    members: list[int]
    sinks: list[int]
    """The reductions."""


class _Spaces:
    """Finds what only reductions over the same space need, directly or by what is made from it."""

    def __init__(self, tables: NodeTables) -> None:
        self.tables = tables
        self._root = list(range(len(tables.order)))

    def spaces(self) -> list[PairSpace]:
        """Connected members with their reductions, of which there are several."""
        tables = self.tables
        readers, closed = self._readers(), [False] * len(tables.order)
        for i in range(len(tables.order) - 1, -1, -1):
            if tables.kind[i] == POINTWISE and not tables.output[i] and _is_large(tables.space[i]):
                closed[i] = readers[i] is not None and all(
                    self._follows(k, i, closed) for k in readers[i] or ()
                )
        for i, is_member in enumerate(closed):
            for k in (readers[i] or ()) if is_member else ():
                self._root[self._find(k)] = self._find(i)
        by_root: dict[int, PairSpace] = {}
        for i, kind in enumerate(tables.kind):
            sink = kind == REDUCTION and any(closed[b] for b in tables.sources[i])
            if closed[i] or sink:
                space = by_root.setdefault(self._find(i), PairSpace([], []))
                (space.sinks if sink else space.members).append(i)
        return [space for space in by_root.values() if len(space.sinks) > 1]

    def _readers(self) -> list[list[int] | None]:
        """What computes with each value; None where it is needed in memory."""
        tables = self.tables
        readers: list[list[int] | None] = [[] for _ in tables.order]
        for i, kind in enumerate(tables.kind):
            if kind in (PLAIN, VIEW):
                for read in tables.reads[i]:
                    readers[tables.base[read]] = None
            elif kind >= POINTWISE:
                for b in tables.sources[i]:
                    known = readers[b]
                    if known is not None:
                        known.append(i)
        return readers

    def _follows(self, k: int, i: int, closed: Sequence[bool]) -> bool:
        """Whether a reader of a node is another member of its space, or a reduction of it."""
        tables = self.tables
        alike = tables.space[k] == tables.space[i] and (
            tables.run_keys is None or tables.run_keys[k] == tables.run_keys[i]
        )
        return alike and (closed[k] or (tables.kind[k] == REDUCTION and _folds_alone(tables, k)))

    def _find(self, i: int) -> int:
        while self._root[i] != i:
            self._root[i] = self._root[self._root[i]]
            i = self._root[i]
        return i


def _folds_alone(tables: NodeTables, k: int) -> bool:
    return isinstance(tables.order[k].op, Reduction) and len(tables.sources[k]) == 1


class _PairGroups:
    """The reductions of a space, parted so that each part can run as one group."""

    def __init__(self, tables: NodeTables, found: PairSpace) -> None:
        self._tables = tables
        self._space = tables.space[found.sinks[0]]
        self._members = set(found.members)
        self._sinks = found.sinks
        self._parts = self._find_parts()

    def _find_parts(self) -> dict[tuple[tuple[int, ...], int], list[int]]:
        """The reductions by the axes they fold and by how many come before, one needing another."""
        tables, sinks = self._tables, set(self._sinks)
        level = [0] * len(tables.order)
        for i in range(self._sinks[0], self._sinks[-1] + 1):
            before = max([level[k] for k in tables.reads[i]], default=0)
            level[i] = before + (i in sinks)
        parts: dict[tuple[tuple[int, ...], int], list[int]] = {}
        for i in self._sinks:
            folded = tables.folded[i]
            assert folded is not None
            parts.setdefault((folded, level[i]), []).append(i)
        return parts

    def _run_in_one(self) -> bool:
        """Whether one group computes reductions that need each other, sweeping rows again."""
        axes = {folded for folded, _ in self._parts}
        if len(axes) > 1 or len(self._parts) == 1:
            return False
        (folded,) = axes
        rows = folded[0] == len(self._space) - len(folded)
        return rows and prod(self._space[-len(folded) :]) <= LONGEST_ROW

    def _is_made_from_less(self) -> bool:
        """Whether no two arrays over the space that are computed have to wait for each other."""
        tables = self._tables
        sources = {b for i in self._members for b in tables.sources[i]} - self._members
        whole = [b for b in sources if tables.extent[b] == self._space]
        made = [b for b in whole if tables.kind[b] >= PLAIN]
        return len(made) <= 1

    def groups(
        self, should_group: Callable[[Body], bool]
    ) -> list[tuple[tuple[Node, ...], dict[Node, Node]]]:
        """For each group the nodes it was made of, and what stands for its reductions."""
        if self._run_in_one() or not self._is_made_from_less():
            return []
        joined = self._join_whole()
        needed = [self._closure(sinks) for sinks in joined.values()]
        if not self._is_worth_it(needed):
            return []
        made: list[tuple[tuple[Node, ...], dict[Node, Node]]] = []
        for (folded, _), sinks, closure in zip(joined, joined.values(), needed, strict=True):
            group = self._group(folded, sinks, closure, should_group)
            if group is None:
                return []
            order = self._tables.order
            made.append((tuple([order[i] for i in [*closure, *sinks]]), group))
        return made

    def _join_whole(self) -> dict[tuple[tuple[int, ...], int], list[int]]:
        """The parts; what folds all axes goes with what folds the last one, where that is there."""
        joined = {key: list(sinks) for key, sinks in self._parts.items()}
        rank, order = len(self._space), self._tables.order
        for (folded, level), sinks in self._parts.items():
            rows = ((rank - 1,), level)
            if len(folded) == rank and rows in joined:
                whole = [i for i in sinks if isinstance(order[i].op, JOINED)]
                joined[rows] = sorted([*joined[rows], *whole])
                left = [i for i in sinks if i not in whole]
                joined[folded, level] = left
        return {key: sinks for key, sinks in joined.items() if sinks}

    def _closure(self, sinks: Sequence[int]) -> list[int]:
        """The members that some reductions need, in order."""
        found, stack = set[int](), list(sinks)
        while stack:
            for b in self._tables.sources[stack.pop()]:
                if b in self._members and b not in found:
                    found.add(b)
                    stack.append(b)
        return sorted(found)

    def _is_worth_it(self, needed: Sequence[Sequence[int]]) -> bool:
        """Whether to compute again takes less time than to store and read."""
        tables, elements = self._tables, prod(self._space)
        uses = Counter(i for closure in needed for i in closure)
        readers: dict[int, list[int]] = {}
        for i in uses:
            for b in tables.sources[i]:
                readers.setdefault(b, []).append(i)
        stored = moved = 0
        again = 0.0
        for i, count in uses.items():
            again += (count - 1) * self._seconds(i)
            if count > 1 and not any(uses[k] >= count for k in readers.get(i, ())):
                stored += tables.item[i]  # all that is made from it is needed less often
                moved += (1 + count) * tables.item[i]
        for closure in needed:
            for b in {b for i in closure for b in tables.sources[i]} - self._members:
                if tables.extent[b] == self._space:
                    moved -= tables.order[b].dtype.itemsize
        is_cached = stored * elements <= CACHED
        return again <= moved * (CACHED_SECONDS if is_cached else STORED_SECONDS)

    def _seconds(self, i: int) -> float:
        """What a member takes for each element."""
        node = self._tables.order[i]
        many = exponentials(node.op) if isinstance(node.op, Elementwise) else 0.0
        return many * EXPONENTIAL_SECONDS * min(node.dtype.itemsize, 8) / 8

    # ---------------------------------------------------------------- the group

    def _group(
        self,
        folded: tuple[int, ...],
        sinks: Sequence[int],
        closure: Sequence[int],
        should_group: Callable[[Body], bool],
    ) -> dict[Node, Node] | None:
        """What stands for some reductions: results of one group, if there is one of these sizes."""
        tables, order = self._tables, self._tables.order
        writer = _StepNumbers(tables, {*closure})
        for i in closure:
            writer.add(i)
        results: dict[Node, int] = {}
        rest: dict[Node, Op] = {}
        for i in sinks:
            node = order[i]
            op = cast("Reduction", node.op)
            if tables.folded[i] != folded:
                axes = _axes_of(node.inputs[0].shape)
                rest[node] = _reduction_over(op, tuple(range(len(axes) - 1)))
                op = _reduction_over(op, axes[-1:])
            results[node] = writer.fold(i, op)
        owners = {tables.owner[b] for b in writer.operands if tables.extent[b]}
        if len(writer.steps) > MOST_STEPS or len(owners) > MOST_INPUTS:
            return None
        given = [order[b] for b in writer.operands]
        body = Body.of(
            tuple([(n.shape, n.dtype) for n in given]),
            tuple(writer.body_steps()),
            tuple([len(given) + r for r in results.values()]),
        )
        if not should_group(body):
            return None
        with source_scope(sources_of([order[i] for i in [*closure, *sinks]])):
            group = make(Group(body, repeats=True), tuple(given))
            made: dict[Node, Node] = {}
            for number, node in enumerate(results):
                value = part(group, number) if len(results) > 1 else group
                if node in rest:
                    value = make(rest[node], (reshape_node(value, _loops(value.shape)),))
                made[node] = reshape_node(value, node.shape)
        return made


def _axes_of(shape: Shape) -> tuple[int, ...]:
    """The axes that have more than one element."""
    return tuple([a for a, n in enumerate(shape) if n != 1])


def _loops(shape: Shape) -> Shape:
    return tuple([n for n in shape if n != 1])


def _reduction_over(op: Reduction, axes: tuple[int, ...]) -> Reduction:
    """A reduction of the same kind over other axes, which the result has not."""
    attributes: dict[str, Any] = op.attributes() | {"axes": axes, "keepdims": False}
    return type(op)(**attributes)


class _StepNumbers:
    """Nodes, and the free views between them, as numbered steps of a body."""

    def __init__(self, tables: NodeTables, inside: Collection[int]) -> None:
        self._tables, self._inside = tables, inside
        self.operands: list[int] = []
        self.steps: list[tuple[Op, tuple[tuple[bool, int], ...], Shape, Any]] = []
        self._numbers: dict[int, tuple[bool, int]] = {}
        """For each place whether it is a step, and its number among steps or operands."""

    def add(self, i: int) -> tuple[bool, int]:
        """The number of a node that is computed inside."""
        node = self._tables.order[i]
        return self._step(i, node.op, node.shape)

    def fold(self, i: int, op: Reduction) -> int:
        """The number of a new step that reduces what node `i` does."""
        (read,) = self._tables.reads[i]
        given = self._number(read)
        shape = op.infer_shape(self._tables.order[read].shape)
        self.steps.append((op, (given,), shape, self._tables.order[i].dtype))
        return len(self.steps) - 1

    def _step(self, i: int, op: Op, shape: Shape) -> tuple[bool, int]:
        if i not in self._numbers:
            given = tuple([self._number(k) for k in self._tables.reads[i]])
            self._numbers[i] = True, len(self.steps)
            self.steps.append((op, given, shape, self._tables.order[i].dtype))
        return self._numbers[i]

    def _number(self, read: int) -> tuple[bool, int]:
        """The number of what is read; free views become steps."""
        tables, path = self._tables, list[int]()
        while read not in self._numbers and tables.kind[read] == FREE:
            path.append(read)
            read = tables.reads[read][0]
        if read not in self._numbers:
            assert read not in self._inside, "nodes come in order"
            self._numbers[read] = False, len(self.operands)
            self.operands.append(read)
        for view in reversed(path):
            node = tables.order[view]
            self._step(view, node.op, node.shape)
            read = view
        return self._numbers[read]

    def body_steps(self) -> list[BodyStep]:
        """The steps, with operands counted before them."""
        first = len(self.operands)
        return [
            BodyStep(op, tuple([n + first * is_step for is_step, n in given]), shape, dtype)
            for op, given, shape, dtype in self.steps
        ]
