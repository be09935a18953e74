"""Kernels of the movement and indexing chapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tawny.engine.reference.kernel import Value, kernel, kernel_into
from tawny.ops.bounds import CheckedIndices, index_outside
from tawny.ops.diagonal import Diagonal
from tawny.ops.indexing import Gather, Pad, Range, Scatter, Slice
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.movement import Flip, Reshape, Roll, Transpose
from tawny.ops.pieces import GatherPieces
from tawny.ops.selection import describe_outside


@kernel(Reshape, widened=False)
def reshape(op: Reshape, x: Value) -> Value:
    """A view where the strides allow one."""
    return x.reshape(op.shape)


@kernel(Transpose, widened=False)
def transpose(op: Transpose, x: Value) -> Value:
    """A view of `x`."""
    return x.transpose(op.axes)


@kernel(Flip, widened=False)
def flip(op: Flip, x: Value) -> Value:
    """A view with negative strides."""
    return np.flip(x, op.axes)


@kernel(Roll, widened=False)
def roll(op: Roll, x: Value) -> Value:
    """NumPy's own."""
    return np.roll(x, op.shifts, tuple(range(x.ndim)))


@kernel(Tile, widened=False)
def tile(op: Tile, x: Value) -> Value:
    """NumPy's own."""
    return np.tile(x, op.repetitions)


@kernel(Repeat, widened=False)
def repeat(op: Repeat, x: Value) -> Value:
    """NumPy's own."""
    return np.repeat(x, op.repeats, op.axis)


@kernel(Concat, widened=False)
def concat(op: Concat, *arrays: Value) -> Value:
    """NumPy's own."""
    return np.concatenate(arrays, op.axis)


@kernel(Pad, widened=False)
def pad(op: Pad, x: Value, fill: Value) -> Value:
    """The operand in the middle of an array filled with the value."""
    out = np.full(op.infer_shape(x.shape, fill.shape), fill, x.dtype)
    out[tuple(slice(b, b + n) for (b, _), n in zip(op.widths, x.shape, strict=True))] = x
    return out


@kernel(Diagonal, widened=False)
def diagonal(op: Diagonal, x: Value) -> Value:
    """A read-only view of `x`."""
    return np.diagonal(x, op.offset, -2, -1)


COMBINE: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _slices(ranges: Sequence[Range]) -> tuple[slice, ...]:
    """Ranges as Python slices, whose end is None when it lies before the first element."""
    ends = [start + length * step for start, length, step in ranges]
    return tuple(
        slice(start, end if end >= 0 else None, step)
        for (start, _, step), end in zip(ranges, ends, strict=True)
    )


def _front(x: Value, axes: tuple[int, ...]) -> Value:
    """A view of `x` with `axes` first."""
    return np.moveaxis(x, axes, range(len(axes)))


@kernel(CheckedIndices, widened=False)
def places(op: CheckedIndices, x: Value) -> Value:
    """The operand, once it is known to lie within."""
    outside = index_outside(x, op.count)
    if outside is not None:
        raise ValueError(
            f"index {outside} is outside in {op.function}; it must be from 0 to {op.count - 1}"
        )
    return x


@kernel(Slice, widened=False)
def slice_(op: Slice, x: Value) -> Value:
    """A view of `x`."""
    return x[_slices(op.ranges)]


@kernel(Gather, widened=False)
def gather(op: Gather, x: Value, *indices: Value) -> Value:
    """NumPy's indexing with the indexed axes first, and their place found afterwards."""
    rank = len(np.broadcast_shapes(*(i.shape for i in indices)))
    picked = np.asarray(_front(x, op.axes)[_places(x, op.axes, indices)])
    return np.moveaxis(picked, range(rank), range(op.place, op.place + rank))


@kernel(GatherPieces, widened=False)
def gather_pieces(op: GatherPieces, *operands: Value) -> Value:
    """Piece by piece: what lies in it."""
    pieces, inner = operands[: op.pieces], operands[0].shape[1:]
    total = sum(map(len, pieces))
    (places,) = _places(np.broadcast_to(np.intp(0), (total, *inner)), (0,), operands[-1:])
    left = np.where(places < 0, places + total, places)
    out = np.empty((*places.shape, *inner), pieces[0].dtype)
    for piece in pieces:
        here = (left >= 0) & (left < len(piece))
        out[here] = piece[left[here]]
        left -= len(piece)
    return out


@kernel(Scatter, widened=False)
def scatter(op: Scatter, x: Value, value: Value, *indices: Value) -> Value:
    """A copy, changed through a view of the part; repeated indices take in every value."""
    out = np.array(x)
    _scatter(op, out, value, *indices)
    return out


@kernel_into(Scatter)
def scatter_into(op: Scatter, x: Value, value: Value, *rest: Value) -> None:
    """In place where the result lies over operand 0; an index outside changes nothing there."""
    *indices, out = rest
    if out.__array_interface__["data"] != x.__array_interface__["data"]:
        np.copyto(out, x)
    _scatter(op, out, value, *indices)


def _scatter(op: Scatter, out: Value, value: Value, *indices: Value) -> None:
    everything: tuple[Any, ...] = (*_slices(op.ranges), ...)
    part: Value = out[everything]
    if not op.axes:
        _put(op.mode, part, ..., value)
        return
    rank = len(np.broadcast_shapes(*(i.shape for i in indices)))
    whole = value.reshape((1,) * (part.ndim - len(op.axes) + rank - value.ndim) + value.shape)
    first = np.moveaxis(whole, range(op.place, op.place + rank), range(rank))
    _put(op.mode, _front(part, op.axes), _places(part, op.axes, indices), first)


def _put(mode: str, part: Value, key: Any, value: Value) -> None:
    if mode == "set":
        part[key] = value
    elif key is ...:
        COMBINE[mode](part, value, out=part)
    else:
        COMBINE[mode].at(part, key, value)


def _places(x: Value, axes: Sequence[int], indices: Sequence[Value]) -> tuple[Value, ...]:
    """What indices name along axes of `x`, where each that is used must lie within its axis."""
    for axis, index in zip(axes, np.broadcast_arrays(*indices), strict=True):
        n = x.shape[axis]
        outside = index[(index < -n) | (index >= n)]
        if outside.size:
            raise IndexError(describe_outside(int(outside[0]), axis, n))
    return tuple([index.astype(np.intp, copy=False) for index in indices])
