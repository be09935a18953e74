"""Which nodes run together: units of a flow, chosen so that the units form no cycle.

Nodes are placed one by one, inputs first.  A node joins the groups of the values it reads, making
one of them, when it fits their loops and the bounds below; otherwise it begins a group.

Loops.  A group runs over one *space*: the sizes other than 1 of its largest array.  A value of it
spans the whole space, or it comes after a reduction and spans what that leaves (a *row* value).
All reductions of a group fold the same axes.  Values after a reduction need these to be the last
axes, so that rows are whole one after another; whole-space values after a reduction (softmax, layer
norm) also need them to be short, so that a row stays in the cache while it is swept again.  A value
that is merely stretched to the space is computed outside: it would be computed again for each row.

No cycle.  Each unit has a level above those of all units it reads, so edges between units go up
and a path can never come back.  A unit may be raised to a level only below the nearest of its
readers, which is remembered; joining two raises both to one level.  This refuses a few joins that
would be sound (when the path through a reader leads elsewhere) and takes constant time.

Lifetimes.  A unit runs at a place of the order as written: that of its last member, or an earlier
one when another unit that reads it must come after it.  Joining moves what ran elsewhere, which
must not keep more bytes alive than it saves: see `group_lifetime`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from tawny.node import Node
from tawny.op import Elementwise
from tawny.ops.creation import BroadcastTo, Cast
from tawny.ops.fused import nonunit
from tawny.ops.movement import Reshape
from tawny.ops.reduction import Reduction
from tawny.rewrite.group_lifetime import Lifetimes
from tawny.shape import Shape

MOST_STEPS: Final = 64
"""Ops in a group: long straight-line code compiles slowly, and gains nothing."""

MOST_INPUTS: Final = 16
"""Arrays of more than one element that a group reads."""

MOST_RESULTS: Final = 8
"""Arrays a group makes, as far as is known when a node joins it."""

LONGEST_ROW: Final = 2**16
"""Elements of a row that is swept several times."""

NEVER: Final = 2**62
"""The level of readers when there are none."""


class Unit:
    """A group in the making, or (`space` is None) a node that runs alone."""

    __slots__ = (
        "at",
        "folded",
        "inputs",
        "level",
        "members",
        "nearest",
        "outer",
        "results",
        "space",
    )

    def __init__(self, member: int, level: int, at: int, space: Shape | None) -> None:
        self.members = [member]
        self.level = level
        self.nearest = NEVER
        """The least level of the units that read this one."""
        self.at = at
        """The place in the order where it runs; for a view, where its value is made."""
        self.space = space
        self.folded: tuple[int, ...] | None = None
        """Axes of the space that its reductions fold."""
        self.outer: Shape | None = None
        """The space without them, if they are the last ones: what row values span."""
        self.inputs: set[int] = set()
        """Values of more than one element that it reads."""
        self.results = 0
        """How many members are known to be read outside."""

    def fold(self, axes: tuple[int, ...]) -> None:
        """Note which axes the reductions fold."""
        space = self.space
        assert space is not None
        kept = len(space) - len(axes)
        self.folded = axes
        self.outer = space[:kept] if axes[0] == kept else None

    @property
    def sweeps(self) -> bool:
        """Whether rows may be swept again after a reduction."""
        space, outer = self.space, self.outer
        return (
            space is not None
            and outer is not None
            and math.prod(space[len(outer) :]) <= LONGEST_ROW
        )


def is_free_view(node: Node) -> bool:
    """Whether the node only says which element is read: a broadcast, or axes of size 1 in or out.

    Such nodes belong to no unit: each group that reads one has it in its body.
    """
    op = node.op
    if type(op) is BroadcastTo:
        return 0 not in op.shape
    return type(op) is Reshape and nonunit(op.shape) == nonunit(node.inputs[0].shape)


_VIEWS: Final = frozenset({BroadcastTo, Reshape})


def folded_axes(op: Reduction, shape: Shape) -> tuple[int, ...]:
    """Which axes of the space of `shape` a reduction folds."""
    loops = [a for a, n in enumerate(shape) if n != 1]
    return tuple([k for k, a in enumerate(loops) if a in op.axes])


def _loops(node: Node) -> tuple[Shape, tuple[int, ...] | None] | None:
    """The space a node runs over and the axes it folds, None if it runs alone."""
    op = node.op
    if type(op) is Elementwise or type(op) is Cast:
        return None if 0 in node.shape else (nonunit(node.shape), None)
    if isinstance(op, Reduction):
        shape = node.inputs[0].shape
        axes = folded_axes(op, shape)
        return (nonunit(shape), axes) if axes and 0 not in shape else None
    return None


class Choice:
    """The units of an order of nodes."""

    def __init__(
        self,
        order: Sequence[Node],
        outputs: Sequence[Node],
        moment: Callable[[Node], object] | None = None,
    ) -> None:
        self.order = order
        self.moments = None if moment is None else [moment(n) for n in order]
        """When each node runs: what runs at different times is apart."""
        self.lifetimes = lifetimes = Lifetimes(order, outputs)
        self.leaf = lifetimes.leaf
        count = len(order)
        self.base = list(range(count))
        """The value behind free views."""
        self.unit: list[Unit | None] = [None] * count
        self.row = [False] * count
        """Values that come after a reduction and span what it leaves."""
        self.result = [False] * count
        """Values that are read outside their unit."""
        self.units: list[Unit] = []
        for i, node in enumerate(order):
            if type(node.op) in _VIEWS and not self.leaf[i] and is_free_view(node):
                self.base[i] = self.base[lifetimes.reads[i][0]]
        for node in outputs:
            self.result[self.base[lifetimes.index[node]]] = True
        for i, node in enumerate(order):
            if not self.leaf[i] and self.base[i] == i:
                self._place(i, node)

    # ------------------------------------------------------------------- placing

    def _place(self, i: int, node: Node) -> None:
        """Put a node into the groups it reads, or begin a unit."""
        base = self.base
        reads = [base[k] for k in self.lifetimes.reads[i]]
        loops = _loops(node)
        if loops is not None:
            self._place_in_loops(i, node, reads, *loops)
            return
        level, at = self._after(reads, ())
        self._begin(i, level, i if self.lifetimes.owner[i] == i else at, None, reads)

    def _place_in_loops(
        self,
        i: int,
        node: Node,
        reads: list[int],
        space: Shape,
        axes: tuple[int, ...] | None,
    ) -> None:
        chosen: list[Unit] = []
        spans = False
        for b in reads:
            unit = self.unit[b]
            if unit is None or unit.space is None or unit in chosen:
                continue
            if self.moments is not None and self.moments[b] != self.moments[i]:
                continue
            whole = unit.space == space
            if chosen and (whole != spans or not _alike(unit, chosen)):
                continue
            if self._fits(unit, node, reads, space, axes):
                chosen.append(unit)
                spans = whole
        level = self._settle(i, reads, chosen)
        if not chosen:
            unit = self._begin(i, level, i, space, reads)
        else:
            unit = self._join(i, level, chosen, reads)
        if axes is not None:
            unit.fold(axes)
            self.row[i] = True
        elif not spans and chosen:
            self.row[i] = True

    def _fits(
        self,
        unit: Unit,
        node: Node,
        reads: list[int],
        space: Shape,
        axes: tuple[int, ...] | None,
    ) -> bool:
        """Whether the loops of a group can run the node."""
        row = self.row
        if axes is not None:
            return (
                unit.space == space
                and not row[reads[0]]
                and (unit.folded is None or unit.folded == axes)
            )
        if unit.space != space:
            return unit.outer == space
        if unit.folded is None:
            return True
        for b, source in zip(reads, node.inputs, strict=True):
            if (
                row[b]
                and self.unit[b] is unit
                and not (unit.sweeps and self._aligned(unit, b, source, node.shape))
            ):
                return False
        return True

    def _aligned(self, unit: Unit, b: int, source: Node, shape: Shape) -> bool:
        """Whether the axes of row value `b`, read as `source`, meet their own axes of `shape`."""
        path: list[Node] = []
        end = self.order[b]
        while source is not end:
            path.append(source)
            source = source.inputs[0]
        given = end.shape
        axes = [a for a, n in enumerate(given) if n != 1]
        for view in reversed(path):
            if type(view.op) is BroadcastTo:
                axes = [a + len(view.shape) - len(given) for a in axes]
            else:
                before = [a for a, n in enumerate(given) if n != 1]
                after = [a for a, n in enumerate(view.shape) if n != 1]
                axes = [after[before.index(a)] for a in axes]
            given = view.shape
        axes = [a + len(shape) - len(given) for a in axes]
        loops = [a for a, n in enumerate(shape) if n != 1]
        assert unit.outer is not None
        return axes == loops[: len(unit.outer)]

    # ------------------------------------------------------------------ settling

    def _after(self, reads: list[int], chosen: Sequence[Unit]) -> tuple[int, int]:
        """The level above, and the place of, the last unit that is read outside `chosen`."""
        level, at = 0, -1
        for b in reads:
            unit = self.unit[b]
            if unit is not None and unit not in chosen:
                level = max(level, unit.level)
                at = max(at, unit.at)
        return level + 1, at

    def _settle(self, i: int, reads: list[int], chosen: list[Unit]) -> int:
        """Drop from `chosen` what node `i` must not join; the level of the rest."""
        while True:
            level, at = self._after(reads, chosen)
            for unit in chosen:
                level = max(level, unit.level)
            refused = self._refused(i, reads, chosen, level, at)
            if refused is None:
                return level
            chosen.remove(refused)

    def _refused(
        self, i: int, reads: list[int], chosen: list[Unit], level: int, at: int
    ) -> Unit | None:
        """A group that must not be joined at this level."""
        steps, results = 1, int(self.result[i])
        inputs = len(reads)
        for unit in chosen:
            steps += len(unit.members)
            results += unit.results
            inputs += len(unit.inputs)
            if steps > MOST_STEPS or results > MOST_RESULTS or unit.nearest <= level:
                return unit
            if inputs > MOST_INPUTS and self._inputs(reads, chosen) > MOST_INPUTS:
                return unit
        for unit in chosen:
            if unit.nearest == NEVER:
                may = self._may_be_late(i, unit, chosen)
            else:
                may = len(chosen) == 1 and at < unit.at and self._may_be_early(i, unit)
            if not may:
                return unit
        return None

    def _inputs(self, reads: list[int], chosen: list[Unit]) -> int:
        """How many arrays a group of `chosen` and a node would read."""
        inputs = {b for b in reads if self.unit[b] not in chosen and self._is_large(b)}
        return len(inputs.union(*[u.inputs for u in chosen]))

    def _may_be_late(self, i: int, unit: Unit, chosen: list[Unit]) -> bool:
        """Whether a group that nothing has read yet may run at place `i`.

        What it reads lives longer; what it makes is not there in between.
        """
        lifetimes, at = self.lifetimes, unit.at
        between = lifetimes.steps_between(at, i)
        if len(chosen) > 1:
            between -= sum([m > at for u in chosen for m in u.members])
        if between <= 0:
            return True
        kept = lifetimes.kept(unit.inputs, i)
        if not kept:
            return True
        saved = sum([lifetimes.bytes[m] for m in unit.members if lifetimes.last[m] > at])
        return lifetimes.allows(kept - saved, at + 1, i)

    def _may_be_early(self, i: int, unit: Unit) -> bool:
        """Whether node `i` may run at the place of a group that others have read already."""
        lifetimes = self.lifetimes
        return lifetimes.allows(lifetimes.bytes[i], unit.at + 1, i)

    def _is_large(self, b: int) -> bool:
        """Whether a value has more than one element."""
        return bool(nonunit(self.order[b].shape))

    # ------------------------------------------------------------------- joining

    def _begin(self, i: int, level: int, at: int, space: Shape | None, reads: list[int]) -> Unit:
        unit = Unit(i, level, at, space)
        self.units.append(unit)
        self._enter(i, unit, reads)
        return unit

    def _join(self, i: int, level: int, chosen: list[Unit], reads: list[int]) -> Unit:
        """Make one unit of those chosen and node `i`."""
        unit = chosen[0]
        if len(chosen) > 1:
            unit = max(chosen, key=lambda u: len(u.members))
        for other in chosen:
            if other is unit:
                continue
            for member in other.members:
                self.unit[member] = unit
            unit.members += other.members
            unit.inputs |= other.inputs
            unit.results += other.results
            unit.nearest = min(unit.nearest, other.nearest)
            if unit.folded is None:
                unit.folded, unit.outer = other.folded, other.outer
            other.members = []
        unit.members.append(i)
        unit.level = level
        if unit.nearest == NEVER:
            unit.at = i
            self.lifetimes.keep(unit.inputs, i)
        self._enter(i, unit, reads)
        return unit

    def _enter(self, i: int, unit: Unit, reads: list[int]) -> None:
        """Note what node `i` of `unit` reads, and that others are read by it."""
        self.unit[i] = unit
        unit.results += self.result[i]
        for b in reads:
            other = self.unit[b]
            if other is unit:
                continue
            if unit.space is not None and self._is_large(b):
                unit.inputs.add(b)
            if other is not None:
                other.nearest = min(other.nearest, unit.level)
                if not self.result[b]:
                    self.result[b] = True
                    other.results += 1


def _alike(unit: Unit, chosen: list[Unit]) -> bool:
    """Whether a group has the loops of others that were chosen."""
    folded = {u.folded for u in (*chosen, unit)} - {None}
    return len(folded) <= 1 and all(u.space == unit.space for u in chosen)
