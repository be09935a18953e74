"""Slopes brought to the shape and dtype of what they are slopes of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.dtype import DType
from tawny.node import Node, make, scalar
from tawny.op import ELEMENTWISE
from tawny.ops.creation import BroadcastTo, Cast
from tawny.ops.joining import Concat, Pad
from tawny.ops.movement import broadcasted, reshaped
from tawny.ops.reduction import Sum
from tawny.ops.scatter import Scatter
from tawny.shape import Shape, replaced, size

_ADD: Final = ELEMENTWISE["add"]


def is_smooth(node: Node) -> bool:
    """Whether the values can change by a little: floating-point and complex numbers."""
    return node.dtype.kind in "fc"


def fitted(slope: Node, x: Node) -> Node:
    """The slope of `x`, given that of `x` repeated and converted."""
    return converted(summed_to(slope, x.shape), x.dtype)


def converted(node: Node, dtype: DType) -> Node:
    """`node` as `dtype`; of complex numbers that become real, the real part."""
    if node.dtype == dtype:
        return node
    if node.dtype.kind == "c" and dtype.kind != "c":
        node = make(ELEMENTWISE["real"], (node,))
    return node if node.dtype == dtype else make(Cast(dtype), (node,))


def summed_to(slope: Node, shape: Shape) -> Node:
    """The transpose of repeating an array of `shape` to the slope's."""
    if slope.shape == shape:
        return slope
    new = len(slope.shape) - len(shape)
    axes = (
        *range(new),
        *(new + a for a, n in enumerate(shape) if n == 1 and slope.shape[new + a] != 1),
    )
    return reshaped(make(Sum(axes, False, slope.dtype), (slope,)), shape) if axes else slope


def total(slopes: Sequence[Node]) -> Node:
    """The sum of slopes of one value.

    Slopes of disjoint slices along one axis are laid side by side instead of being added; what
    is zero but for a few places is added there alone.
    """
    if len(slopes) == 1:
        return slopes[0]
    rest, joined = _laid_out(slopes)
    sparse = [s for s in rest if _is_sparse(s)]
    dense = [s for s in rest if not _is_sparse(s)] if sparse else rest
    if joined is not None:
        dense.insert(0, joined)
    result = dense[0] if dense else sparse.pop(0)
    for slope in dense[1:]:
        result = make(_ADD, (result, slope))
    for slope in sparse:
        result = _added_in(result, slope)
    return result


def zero(shape: Shape, dtype: DType) -> Node:
    """Zeros, which take no memory."""
    return broadcasted(scalar(0, dtype, "zeros"), shape)


# --------------------------------------------------------------- sparse slopes


def _is_zero(node: Node) -> bool:
    """Whether `node` is plainly zero everywhere."""
    if isinstance(node.op, BroadcastTo):
        node = node.inputs[0]
    value = node.value
    return value is not None and not value.shape and not value.any()


def _is_sparse(slope: Node) -> bool:
    """Whether most of a slope is plainly zero: a small slice of it is not, or a few places."""
    op = slope.op
    if isinstance(op, Pad):
        given = size(slope.inputs[0].shape)
        return 2 * given < size(slope.shape) and _is_zero(slope.inputs[1])
    return isinstance(op, Scatter) and op.mode == "add" and _is_zero(slope.inputs[0])


def _added_in(result: Node, slope: Node) -> Node:
    """`result` with a sparse slope added where that is not zero."""
    if isinstance(slope.op, Scatter):
        return make(slope.op, (result, *slope.inputs[1:]))
    piece = slope.inputs[0]
    ranges = tuple(
        [(before, n, 1) for (before, _), n in zip(_widths(slope), piece.shape, strict=True)]
    )
    return make(Scatter(ranges, (), 0, "add"), (result, piece))


def _laid_out(slopes: Sequence[Node]) -> tuple[list[Node], Node | None]:
    """The slopes that must be added, and those of disjoint slices joined into one."""
    placed: dict[int, list[tuple[int, Node]]] = {}
    rest: list[Node] = []
    for slope in slopes:
        axis = _slice_axis(slope)
        if axis is None:
            rest.append(slope)
        else:
            placed.setdefault(axis, []).append((_widths(slope)[axis][0], slope))
    if not placed:
        return rest, None
    axis = max(placed, key=lambda a: len(placed[a]))
    apart: list[tuple[int, Node]] = []
    end = 0
    for start, slope in sorted(placed.pop(axis), key=_first):
        if start < end:
            rest.append(slope)
            continue
        apart.append((start, slope))
        end = start + slope.inputs[0].shape[axis]
    rest += [slope for entries in placed.values() for _, slope in entries]
    if len(apart) == 1:
        return [apart[0][1], *rest], None
    return rest, _side_by_side(apart, axis)


def _first(entry: tuple[int, Node]) -> int:
    return entry[0]


def _side_by_side(apart: Sequence[tuple[int, Node]], axis: int) -> Node:
    """The sum of slopes that are zero but for disjoint slices along `axis`, by their starts."""
    _, first = apart[0]
    pieces: list[Node] = []
    end = 0
    for start, slope in [*apart, (first.shape[axis], None)]:
        if start > end:
            pieces.append(zero(replaced(first.shape, axis, start - end), first.dtype))
        if slope is not None:
            pieces.append(slope.inputs[0])
            end = start + slope.inputs[0].shape[axis]
    return make(Concat(axis), tuple(pieces))


def _widths(slope: Node) -> tuple[tuple[int, int], ...]:
    assert isinstance(slope.op, Pad)
    return slope.op.widths


def _slice_axis(slope: Node) -> int | None:
    """The one axis along which a slope is zero but for a slice; None for all others."""
    if not isinstance(slope.op, Pad) or not _is_zero(slope.inputs[1]):
        return None
    axes = [a for a, width in enumerate(slope.op.widths) if width != (0, 0)]
    return axes[0] if len(axes) == 1 else None
