"""The pass that computes arrays with a short axis component by component.

What spans all pairs of two sets of points, and a short axis of coordinates beside, as differences
of places do, is large, while what it is made from and what becomes of it are not.  Taken apart into
one expression for each coordinate it spans the pairs alone: sums over coordinates are additions,
and all of it, with sums over either set of points, can run as one group that stores no pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from tawny.node import Node, make, source_scope
from tawny.op import ELEMENTWISE, Elementwise, Family
from tawny.ops.body import nonunit
from tawny.ops.creation import Cast
from tawny.ops.indexing import slice_node
from tawny.ops.joining import concat_nodes
from tawny.ops.movement import (
    BroadcastTo,
    Copy,
    Reshape,
    broadcast_node,
    expand_node,
    reshape_node,
    transpose_node,
)
from tawny.ops.reduction import Max, Min, Reduction, Sum
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of
from tawny.rewrite.lifetimes import is_leaf
from tawny.shape import Shape, size

COMPONENTS: Final = RuleInfo(
    "components", Kind.CONTRACTING, "sum(x[..., :3], -1) = x[..., 0] + x[..., 1] + x[..., 2]"
)

LONGEST: Final = 8
"""Elements of an axis, at most, that is taken apart."""

LEAST: Final = 2**12
"""Elements of an array, at least, that is taken apart: smaller ones stay in the caches anyway."""

SMALLER: Final = 4
"""How many times smaller than a component all must be that the array is made from: it is copied."""

MOST_NODES: Final = 256
"""Nodes that are made, at most."""

COMBINING: Final[Mapping[Family, str]] = {Sum: "add", Max: "maximum", Min: "minimum"}
"""Reductions of a short axis, and the op that is the same of two components."""


def _run(flow: Flow, context: Context) -> Flow:
    order, readers = flow.order(), flow.consumers()
    outputs, seen = frozenset(flow.outputs), set[Node]()
    replacements: dict[Node, Node] = {}
    for node in order:
        axis = _short_axis(node)
        if axis is None or node.inputs[0] in seen:
            continue
        region = _Region(node.inputs[0], axis, readers, outputs)
        seen |= region.members
        if region.is_separable():
            members = [n for n in order if n in region.members]
            made = region.separate(members)
            context.recorder.record(COMPONENTS, (*members, *made), tuple(made.values()))
            replacements |= made
    return flow.replace_nodes(replacements)


separate_components: Final = Pass("separate_components", (COMPONENTS,), _run, frozenset(COMBINING))


def _short_axis(node: Node) -> int | None:
    """The one axis that a node folds, if it is short and what it folds is large and computed."""
    if node.op.family not in COMBINING or is_leaf(node):
        return None
    op, (given,) = cast("Reduction", node.op), node.inputs
    if len(op.axes) != 1 or not _is_pointwise(given) or size(given.shape) < LEAST:
        return None
    (axis,) = op.axes
    return axis if 2 <= given.shape[axis] <= LONGEST else None


def _is_pointwise(node: Node) -> bool:
    """Whether each element is computed from the elements at its place."""
    return isinstance(node.op, (Elementwise, Cast)) and not is_leaf(node)


class _Region:
    """Pointwise nodes of one shape that read each other, and the short axis that they all have."""

    def __init__(
        self,
        first: Node,
        axis: int,
        readers: Mapping[Node, Sequence[Node]],
        outputs: Collection[Node],
    ) -> None:
        self.shape, self.axis, self.count = first.shape, axis, first.shape[axis]
        self.members = {first}
        self._readers, self._outputs = readers, outputs
        self._rows: dict[Node, Node] = {}
        """Small arrays as they are read by component: the short axis first."""
        self._parts: dict[tuple[Node, int], Node] = {}
        self._rest = (*self.shape[:axis], *self.shape[axis + 1 :])
        stack = [first]
        while stack:
            node = stack.pop()
            for other in (*node.inputs, *readers[node]):
                alike = other.shape == self.shape and _is_pointwise(other)
                if alike and other not in self.members:
                    self.members.add(other)
                    stack.append(other)

    def is_separable(self) -> bool:
        """Whether it is made from small arrays, and read by reductions alone."""
        if len(self.members) * self.count > MOST_NODES:
            return False
        return self.members.isdisjoint(self._outputs) and all(
            self._is_closed(node) for node in self.members
        )

    def _is_closed(self, node: Node) -> bool:
        return all(i in self.members or self._is_small(i) for i in node.inputs) and all(
            r in self.members or _may_combine(r, node) for r in self._readers[node]
        )

    def _is_small(self, node: Node) -> bool:
        """Whether what a member reads does not have the short axis, or is small."""
        while type(node.op) is BroadcastTo:
            (node,) = node.inputs
        axis = self._own_axis(node.shape)
        if axis is None or node.shape[axis] == 1:
            return True
        return size(node.shape) * SMALLER <= size(self._rest)

    def _own_axis(self, shape: Shape) -> int | None:
        """The short axis among those of an array that is broadcast to the region's shape."""
        axis = self.axis - len(self.shape) + len(shape)
        return axis if axis >= 0 else None

    # ------------------------------------------------------------- components

    def separate(self, members: Iterable[Node]) -> dict[Node, Node]:
        """What stands for each reduction of the members, which are given in order."""
        made: dict[Node, Node] = {}
        for node in members:
            with source_scope(node.sources):
                for number in range(self.count):
                    given = tuple([self._part(i, number) for i in node.inputs])
                    self._parts[node, number] = make(node.op, given)
            for reader in self._readers[node]:
                if reader not in self.members:
                    with source_scope(sources_of((node, reader))):
                        made[reader] = self._fold(node, reader)
        return made

    def _part(self, node: Node, number: int) -> Node:
        """A component of what a member reads; it may be repeated along axes to meet the others."""
        while type(node.op) is BroadcastTo:
            (node,) = node.inputs
        known = self._parts.get((node, number))
        axis = self._own_axis(node.shape)
        if known is not None or axis is None:
            return known or node
        rest = (*node.shape[:axis], *node.shape[axis + 1 :])
        if node.shape[axis] == 1:
            return reshape_node(node, rest)
        row = slice_node(self._by_component(node, axis), 0, slice(number, number + 1))
        part = self._parts[node, number] = reshape_node(row, rest)
        return part

    def _by_component(self, node: Node, axis: int) -> Node:
        """A small array as it lies in memory with the short axis first."""
        base = _behind_reshapes(node)
        place = len(nonunit(node.shape[:axis]))
        sizes = nonunit(base.shape)
        if base not in self._rows:
            others = [a for a in range(len(sizes)) if a != place]
            rows = transpose_node(reshape_node(base, sizes), (place, *others))
            self._rows[base] = make(Copy(), (rows,)) if place else rows
        return self._rows[base]

    def _fold(self, node: Node, reader: Node) -> Node:
        """A reduction of a member, from the components of that."""
        op = cast("Reduction", reader.op)
        parts = [self._parts[node, number] for number in range(self.count)]
        others = tuple([a - (a > self.axis) for a in op.axes if a != self.axis])
        if self.axis in op.axes:
            total = broadcast_node(_combine(op, parts), self._rest)
            return reshape_node(_reduce(op, others, total) if others else total, reader.shape)
        folded = [_reduce(op, others, broadcast_node(part, self._rest)) for part in parts]
        place = self.axis - sum([a < self.axis for a in op.axes])
        joined = concat_nodes([expand_node(part, (place,)) for part in folded], place)
        return reshape_node(joined, reader.shape)


def _combine(op: Reduction, parts: Sequence[Node]) -> Node:
    """The components as one."""
    last = ELEMENTWISE[COMBINING[op.family]]
    total, *rest = parts
    for part in rest:
        total = make(last, (total, part))
    return total


def _reduce(op: Reduction, axes: tuple[int, ...], node: Node) -> Node:
    """A reduction of the same kind over other axes, which the result has not."""
    attributes: dict[str, Any] = op.attributes() | {"axes": axes, "keepdims": False}
    return make(type(op)(**attributes), (node,))


def _behind_reshapes(node: Node) -> Node:
    """What a node is, but for axes of size 1."""
    while type(node.op) is Reshape and nonunit(node.inputs[0].shape) == nonunit(node.shape):
        (node,) = node.inputs
    return node


def _may_combine(reader: Node, node: Node) -> bool:
    """Whether a reader is a reduction, in the dtype of what it folds, that can be taken apart."""
    return reader.op.family in COMBINING and reader.dtype == node.dtype and len(reader.inputs) == 1
