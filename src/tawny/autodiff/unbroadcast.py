"""Cotangents in the shape and dtype of their operands, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.dtype import kind_of
from tawny.node import Node, make
from tawny.op import ELEMENTWISE
from tawny.ops.creation import convert_node
from tawny.ops.indexing import Pad, Scatter
from tawny.ops.joining import Concat
from tawny.ops.movement import BroadcastTo, reshape_node, zeros_node
from tawny.ops.reduction import Sum
from tawny.shape import Shape, replace_size, size

_ADD: Final = ELEMENTWISE["add"]


def is_inexact(node: Node) -> bool:
    """Whether the values are floating-point or complex numbers, which can change smoothly."""
    return kind_of(node.dtype) in "fc"


def unbroadcast(cotangent: Node, x: Node) -> Node:
    """The cotangent of `x`, given that of `x` broadcast and converted."""
    return convert_node(sum_to(cotangent, x.shape), x.dtype)


def sum_to(cotangent: Node, shape: Shape) -> Node:
    """The transpose of broadcasting an array of `shape`: the sum over what was repeated."""
    if cotangent.shape == shape:
        return cotangent
    new = len(cotangent.shape) - len(shape)
    axes = (
        *range(new),
        *(new + a for a, n in enumerate(shape) if n == 1 and cotangent.shape[new + a] != 1),
    )
    return (
        reshape_node(make(Sum(axes, False, cotangent.dtype), (cotangent,)), shape)
        if axes
        else cotangent
    )


def accumulate(cotangents: Sequence[Node]) -> Node:
    """The sum of cotangents of one value.

    Cotangents of disjoint slices along one axis are laid side by side instead of being added; what
    is zero but for a few places is added there alone.
    """
    if len(cotangents) == 1:
        return cotangents[0]
    rest, joined = _join_slices(cotangents)
    sparse = [s for s in rest if _is_sparse(s)]
    dense = [s for s in rest if not _is_sparse(s)] if sparse else rest
    if joined is not None:
        dense.insert(0, joined)
    result = dense[0] if dense else sparse.pop(0)
    for cotangent in dense[1:]:
        result = make(_ADD, (result, cotangent))
    for cotangent in sparse:
        result = _add_sparse(result, cotangent)
    return result


# ---------------------------------------------------------- sparse cotangents


def _is_zero(node: Node) -> bool:
    """Whether `node` is plainly zero everywhere."""
    if isinstance(node.op, BroadcastTo):
        node = node.inputs[0]
    value = node.value
    return value is not None and not value.shape and not value.any()


def _is_sparse(cotangent: Node) -> bool:
    """Whether most of a cotangent is plainly zero: a small slice of it is not, or a few places."""
    op = cotangent.op
    if isinstance(op, Pad):
        given = size(cotangent.inputs[0].shape)
        return 2 * given < size(cotangent.shape) and _is_zero(cotangent.inputs[1])
    return isinstance(op, Scatter) and op.mode == "add" and _is_zero(cotangent.inputs[0])


def _add_sparse(result: Node, cotangent: Node) -> Node:
    """`result` with a sparse cotangent added where that is not zero."""
    if isinstance(cotangent.op, Scatter):
        return make(cotangent.op, (result, *cotangent.inputs[1:]))
    piece = cotangent.inputs[0]
    ranges = tuple(
        [(before, n, 1) for (before, _), n in zip(_widths(cotangent), piece.shape, strict=True)]
    )
    return make(Scatter(ranges, (), 0, "add"), (result, piece))


def _join_slices(cotangents: Sequence[Node]) -> tuple[list[Node], Node | None]:
    """The cotangents that must be added, and those of disjoint slices joined into one."""
    placed: dict[int, list[tuple[int, Node]]] = {}
    rest: list[Node] = []
    for cotangent in cotangents:
        axis = _slice_axis(cotangent)
        if axis is None:
            rest.append(cotangent)
        else:
            placed.setdefault(axis, []).append((_widths(cotangent)[axis][0], cotangent))
    if not placed:
        return rest, None
    axis = max(placed, key=lambda a: len(placed[a]))
    apart: list[tuple[int, Node]] = []
    end = 0
    for start, cotangent in sorted(placed.pop(axis), key=_start):
        if start < end:
            rest.append(cotangent)
            continue
        apart.append((start, cotangent))
        end = start + cotangent.inputs[0].shape[axis]
    rest += [cotangent for entries in placed.values() for _, cotangent in entries]
    if len(apart) == 1:
        return [apart[0][1], *rest], None
    return rest, _concatenate(apart, axis)


def _start(entry: tuple[int, Node]) -> int:
    return entry[0]


def _concatenate(apart: Sequence[tuple[int, Node]], axis: int) -> Node:
    """The sum of cotangents that are zero but for disjoint slices along `axis`, by their starts."""
    _, first = apart[0]
    pieces: list[Node] = []
    end = 0
    for start, cotangent in [*apart, (first.shape[axis], None)]:
        if start > end:
            pieces.append(zeros_node(replace_size(first.shape, axis, start - end), first.dtype))
        if cotangent is not None:
            pieces.append(cotangent.inputs[0])
            end = start + cotangent.inputs[0].shape[axis]
    return make(Concat(axis), tuple(pieces))


def _widths(cotangent: Node) -> tuple[tuple[int, int], ...]:
    assert isinstance(cotangent.op, Pad)
    return cotangent.op.widths


def _slice_axis(cotangent: Node) -> int | None:
    """The one axis along which a cotangent is zero but for a slice; None for all others."""
    if not isinstance(cotangent.op, Pad) or not _is_zero(cotangent.inputs[1]):
        return None
    axes = [a for a, width in enumerate(cotangent.op.widths) if width != (0, 0)]
    return axes[0] if len(axes) == 1 else None
