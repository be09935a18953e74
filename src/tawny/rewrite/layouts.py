"""Layouts: arrays stay channels last inside a graph that is written channels first.

Convolutions and pools compute channels last.  What is written channels first moves the channels
back behind each of them, and forward before the next.  Here each move back is taken down past what
works in any layout, until it meets a move forward, and the two are no work at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from tawny.node import Node, make
from tawny.op import ELEMENTWISE
from tawny.ops.creation import Cast
from tawny.ops.indexing import Pad, Slice
from tawny.ops.joining import Concat, Repeat
from tawny.ops.movement import Reshape, Transpose, transpose_node
from tawny.ops.reduction import CHOOSING, Mean, Prod, Reduction, Sum
from tawny.rewrite.facts import NodeFacts, reshape_to
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Match, RewriteRule, any_of, rule
from tawny.shape import Shape, size

EXACT: Final = Kind.EXACT

Axes = tuple[int, ...]


def moves_channels_first(node: Node) -> bool:
    """Whether a node is an array that has channels last, shown with channels first."""
    if type(node.op) is not Transpose:
        return False
    rank = len(node.shape)
    return rank >= 3 and node.op.axes == (0, rank - 1, *range(1, rank - 1))


def _first(node: Node) -> Node:
    """An array that has channels last, shown with channels first."""
    rank = len(node.shape)
    return transpose_node(node, (0, rank - 1, *range(1, rank - 1)))


def _only_ones_differ(node: Node, facts: NodeFacts) -> bool:
    """Whether a transpose moves channels first, and axes of size 1 besides."""
    del facts
    axes, shape = cast("Transpose", node.op).axes, node.shape
    if len(axes) < 3 or axes[:2] != (0, len(axes) - 1) or moves_channels_first(node):
        return False
    spatial = [a for a, n in zip(axes[2:], shape[2:], strict=True) if n != 1]
    return spatial == sorted(spatial)


def _move_ones(m: Match) -> Node:
    node = m.node
    batch, channels, *spatial = node.shape
    return _first(reshape_to(node.inputs[0], (batch, *spatial, channels)))


def _axes_of(node: Node) -> Axes | None:
    """How the channels of the operands are moved, where all that are moved are so the same way."""
    for source in node.inputs:
        if moves_channels_first(source):
            return cast("Transpose", source.op).axes
    return None


def _inverse(axes: Axes) -> Axes:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _operand_beneath(source: Node, result: Shape, axes: Axes) -> Node | None:
    """An operand with channels last: beneath its move, or moved where that costs nothing.

    Other operands of the size of the result would have to be moved, unless they are constants.
    """
    if moves_channels_first(source):
        return source.inputs[0] if len(source.shape) == len(axes) else None
    if size(source.shape) == 1:
        return source
    if not source.known and max(size(source.shape), 1) * 4 > size(result):
        return None  # arrays without elements too: of two, each would be moved for the other
    shape = (*(1,) * (len(axes) - len(source.shape)), *source.shape)
    return transpose_node(reshape_to(source, shape), _inverse(axes))


def _all_beneath(node: Node, sources: Sequence[Node], axes: Axes) -> tuple[Node, ...] | None:
    found = [_operand_beneath(s, node.shape, axes) for s in sources]
    there = tuple([s for s in found if s is not None])
    return there if len(there) == len(found) else None


def _is_full(node: Node, facts: NodeFacts) -> bool:
    """An operand of the result's own shape has its channels moved."""
    del facts
    return any(s.shape == node.shape and moves_channels_first(s) for s in node.inputs)


def _is_moved(node: Node, facts: NodeFacts) -> bool:
    del facts
    return moves_channels_first(node.inputs[0])


def _sink_elementwise(m: Match) -> Node | None:
    node, axes = m.node, _axes_of(m.node)
    if axes is None or len(axes) != len(node.shape):
        return None
    operands = _all_beneath(node, node.inputs, axes)
    return None if operands is None else transpose_node(make(node.op, operands), axes)


def _sink_concat(m: Match) -> Node | None:
    node, axes = m.node, _axes_of(m.node)
    if axes is None:
        return None
    operands = _all_beneath(node, node.inputs, axes)
    if operands is None or any(len(o.shape) != len(axes) for o in operands):
        return None
    axis = axes[cast("Concat", node.op).axis]
    return transpose_node(make(Concat(axis), operands), axes)


def _sink_view(m: Match) -> Node:
    """Conversions, slices, padding and repetition work the same way on moved axes."""
    node, axes = m.node, _transposition(m.node)
    op, inverse = node.op, _inverse(axes)
    if isinstance(op, Slice):
        op = Slice(tuple(op.ranges[a] for a in inverse))
    elif isinstance(op, Pad):
        op = Pad(tuple(op.widths[a] for a in inverse))
    elif isinstance(op, Repeat):
        op = op.with_attributes(axis=axes[op.axis])
    return transpose_node(make(op, (node.inputs[0].inputs[0], *node.inputs[1:])), axes)


def _sink_ones(m: Match) -> Node | None:
    """Spatial axes of size 1 come and go beneath the move."""
    node, moved = m.node, m.node.inputs[0]
    if len(node.shape) < 3 or node.shape[:2] != moved.shape[:2]:
        return None
    if [n for n in node.shape[2:] if n != 1] != [n for n in moved.shape[2:] if n != 1]:
        return None
    batch, channels, *spatial = node.shape
    return _first(reshape_to(moved.inputs[0], (batch, *spatial, channels)))


def _transposition(node: Node) -> Axes:
    return cast("Transpose", node.inputs[0].op).axes


def _sink_reduction(m: Match) -> Node:
    """The reduction over the axes beneath, moved, with the axes dropped that it drops."""
    node, axes = m.node, _transposition(m.node)
    op = cast("Reduction", node.op)
    attributes: dict[str, Any] = op.attributes()
    attributes |= {"axes": tuple(sorted(axes[a] for a in op.axes)), "keepdims": True}
    folded = make(type(op)(**attributes), (node.inputs[0].inputs[0],))
    return reshape_to(transpose_node(folded, axes), node.shape)


LAYOUTS: Final[tuple[RewriteRule, ...]] = (
    rule(
        "channels_first",
        EXACT,
        any_of((Transpose,)),
        _move_ones,
        "transpose(x) = first(reshape(x, u)), where axes of size 1 alone are moved besides",
        only=_only_ones_differ,
    ),
    rule(
        "sink_elementwise",
        EXACT,
        any_of(tuple(ELEMENTWISE.values()), some=(Transpose,)),
        _sink_elementwise,
        "f(first(x), first(y)) = first(f(x, y)), where first puts channels first",
        only=_is_full,
    ),
    rule(
        "sink_concat",
        EXACT,
        any_of((Concat,), some=(Transpose,)),
        _sink_concat,
        "concat(first(x), first(y)) = first(concat(x, y))",
    ),
    rule(
        "sink_view",
        EXACT,
        any_of((Cast, Slice, Pad, Repeat), some=(Transpose,)),
        _sink_view,
        "pad(first(x)) = first(pad(x)), and so for slices, conversions and repetition",
        only=_is_moved,
    ),
    rule(
        "sink_ones",
        EXACT,
        any_of((Reshape,), some=(Transpose,)),
        _sink_ones,
        "reshape(first(x), t) = first(reshape(x, u)), where t has other axes of size 1",
        only=_is_moved,
    ),
    rule(
        "sink_extreme",
        EXACT,
        any_of(CHOOSING, some=(Transpose,)),
        _sink_reduction,
        "max(first(x), a) = first(max(x, b)), where b are the axes that first shows as a",
        only=_is_moved,
    ),
    rule(
        "sink_sum",
        Kind.CONTRACTING,
        any_of((Sum, Prod, Mean), some=(Transpose,)),
        _sink_reduction,
        "sum(first(x), a) = first(sum(x, b)), added in another order",
        only=_is_moved,
    ),
)
