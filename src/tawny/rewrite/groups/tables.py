"""What grouping knows of each node of an order, by its place: loops, memory, who reads it.

Nodes that may run as one kernel are a *unit*, which becomes a group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from math import prod
from typing import Final

from tawny.node import Constant, Node, Part, Variable
from tawny.op import Elementwise, Op, overwritable_operands
from tawny.ops.body import FOLDS, folded_axes, nonunit
from tawny.ops.creation import Cast
from tawny.ops.movement import BroadcastTo, Reshape, Roll
from tawny.rewrite.flow import RunKey
from tawny.rewrite.groups.reads import inline_reads
from tawny.shape import Shape, size, splits

Fold = tuple[Shape, tuple[int, ...]]
"""A space and the axes of it that a reduction folds, the last ones."""

LEAF, FREE, VIEW, PLAIN, POINTWISE, REDUCTION = range(6)
"""What a node is: there before the run, or computed by each group that reads it; a view that each
group has for itself; another view; something that runs alone; what can be in a group."""


def is_free_view(node: Node) -> bool:
    """Whether the node only says which element is read: a broadcast, or axes of size 1 in or out.

    Such nodes belong to no unit: each group that reads one has it in its body.
    """
    op = node.op
    if type(op) is BroadcastTo:
        return 0 not in op.shape
    return type(op) is Reshape and nonunit(op.shape) == nonunit(node.inputs[0].shape)


def folded_loops(op: Op, shape: Shape) -> tuple[int, ...]:
    """Which axes of the space of `shape` a reduction folds."""
    axes = folded_axes(op, shape)
    if 1 not in shape:
        return axes
    loops = [a for a, n in enumerate(shape) if n != 1]
    return tuple([k for k, a in enumerate(loops) if a in axes])


def _kind(op: Op) -> int:
    """What nodes of this op can be at most."""
    if isinstance(op, (Variable, Constant)):
        return LEAF
    if isinstance(op, (Elementwise, Cast)):
        return POINTWISE
    if isinstance(op, FOLDS):
        return REDUCTION
    if isinstance(op, (BroadcastTo, Reshape)):
        return FREE
    return VIEW if op.facts().view else PLAIN


_PLAINLY_LAID_OUT: Final = frozenset({Reshape, Part})
"""Views whose elements lie one after the other if those of what they view do."""

_KINDS: Final[dict[type[Op], int]] = {}


class NodeTables:
    """Tables of what is known of each node, by its place in the order.

    `base[i]` is the value behind free views, `owner[i]` the node whose memory holds the value:
    another one for views.  Bytes are rounded up; views have none, and leaves none of the run.
    """

    def __init__(
        self,
        order: Sequence[Node],
        outputs: Sequence[Node],
        run_key: RunKey | None = None,
        alignment: int = 1,
    ) -> None:
        """Bytes of values are rounded up to multiples of `alignment`."""
        count = len(order)
        self.order, self._alignment = order, alignment
        self.index = {node: i for i, node in enumerate(order)}
        self.run_keys = None if run_key is None else [run_key(n) for n in order]
        """The run key of each node: nodes of different keys are in different groups."""
        self.kind = [LEAF] * count
        self.reads: list[Sequence[int]] = [()] * count
        """What each node reads."""
        self.sources: list[Sequence[int]] = [()] * count
        """The values that each node reads, behind free views; none for views themselves."""
        self.base = list(range(count))
        self.owner = self.base[:]
        self.extent: list[Shape] = [()] * count
        """The sizes other than 1 of the value."""
        self.space: list[Shape] = [()] * count
        """What the loops of a node that may be in a group run over."""
        self.folded: list[tuple[int, ...] | None] = [None] * count
        """The axes of the space that a reduction folds."""
        self.row_of: list[Fold | None] = [None] * count
        """For what comes after a reduction and spans what that leaves, the reduction's loops."""
        self.bytes = [0] * count
        self.item = [0] * count
        """Bytes of an element."""
        self.rolled: set[int] = set()
        """Rolls that groups read for themselves, as if they were views."""
        self._own: Final = inline_reads(order, frozenset(outputs))
        self._fill(frozenset(outputs))
        self.uses = Counter(map(self.owner.__getitem__, chain.from_iterable(self.sources)))
        """How often the memory of each owner is read, through views or not."""
        self.output = [False] * count
        """Whether the value is asked for."""
        self.kept = [False] * count
        """Whether the memory holds an output, so that it is never free again."""
        for node in outputs:
            i = self.index[node]
            self.output[self.base[i]] = self.kept[self.owner[i]] = True
        kept = sum([bytes for bytes, is_kept in zip(self.bytes, self.kept, strict=True) if is_kept])
        self.floor = max(kept, *self.bytes, 0)
        """Bytes that every order of the nodes needs, at least."""

    def overwritable(self, i: int) -> list[int]:
        """Operands of a node whose memory its result may be written into, when they die there."""
        node = self.order[i]
        types = [(n.shape, n.dtype) for n in node.inputs]
        return overwritable_operands(node.op, (node.shape, node.dtype), types)

    def _fill(self, outputs: Collection[Node]) -> None:
        base, owner, extent = self.base, self.owner, self.extent
        place, behind = self.index.__getitem__, base.__getitem__
        folds = False
        strided: set[int] = set()
        for i, node in enumerate(self.order):
            op, shape = node.op, node.shape
            kind = _KINDS.get(type(op))
            if kind is None:
                kind = _KINDS[type(op)] = _kind(op)
            own = node in self._own
            if kind == LEAF or (node.value is not None and not node.volatile):
                extent[i] = nonunit(shape)
                continue
            if own and type(op) is not Roll:
                extent[i] = nonunit(shape)
                continue
            self.reads[i] = reads = list(map(place, node.inputs))
            if own:
                kind = VIEW
                self.rolled.add(i)
            elif kind <= VIEW:
                kind = self._view_kind(node, kind, reads[0] in strided, node in outputs)
            if kind <= VIEW:
                source = reads[0]
                self.kind[i], owner[i] = kind, owner[source]
                if source in strided or type(op) not in _PLAINLY_LAID_OUT:
                    strided.add(i)
                if kind == FREE:
                    base[i] = base[source]
                else:
                    extent[i] = nonunit(shape)
                continue
            self.sources[i] = sources = list(map(behind, reads))
            self.item[i] = item = node.dtype.itemsize
            extent[i] = self.space[i] = space = nonunit(shape)
            if node.parts:
                self.bytes[i] = sum([self._align(size(s) * d.itemsize) for s, d in node.parts])
            else:
                self.bytes[i] = self._align(prod(space) * item)
            if kind == REDUCTION:
                kind = self._reduction_kind(i, node)
                folds = True
            elif kind == POINTWISE:
                if 0 in space:
                    kind = PLAIN
                elif folds:
                    self._follow(i, sources, space)
            self.kind[i] = kind

    def _view_kind(self, node: Node, kind: int, strided: bool, wanted: bool) -> int:
        """What kind of view a node is; plain if it has to be a copy.

        A reshape of elements that are not laid out one after the other is a copy, except where it
        only cuts axes, or is a part of a group.
        """
        free = kind == FREE and is_free_view(node)
        if strided and type(node.op) is Reshape and (wanted or not free):
            (given,) = node.inputs
            if splits(given.shape, node.shape) is None:
                return PLAIN
        return FREE if free else VIEW

    def _reduction_kind(self, i: int, node: Node) -> int:
        """Note the loops of a reduction; its kind, which is plain if it folds nothing."""
        op, shape = node.op, node.inputs[0].shape
        axes = folded_loops(op, shape)
        if not axes or 0 in shape:
            return PLAIN
        self.space[i] = space = nonunit(shape)
        self.folded[i] = axes
        if axes[0] == len(space) - len(axes):
            self.row_of[i] = (space, axes)
        return REDUCTION

    def _follow(self, i: int, sources: Sequence[int], space: Shape) -> None:
        """Note whether a node comes after a reduction and spans what that leaves."""
        for b in sources:
            fold = self.row_of[b]
            if fold is not None and fold[0][: -len(fold[1])] == space:
                self.row_of[i] = fold
                return

    def _align(self, bytes: int) -> int:
        return -(-bytes // self._alignment) * self._alignment
