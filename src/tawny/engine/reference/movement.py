"""Kernels of the movement, joining and diagonal chapters."""

from __future__ import annotations

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.diagonal import Diagonal
from tawny.ops.joining import Concat, Pad, Repeat, Tile
from tawny.ops.movement import Flip, Reshape, Roll, Transpose


@kernel(Reshape)
def reshape(op: Reshape, x: Value) -> Value:
    """A view where the strides allow one."""
    return x.reshape(op.shape)


@kernel(Transpose)
def transpose(op: Transpose, x: Value) -> Value:
    """A view."""
    return x.transpose(op.axes)


@kernel(Flip)
def flip(op: Flip, x: Value) -> Value:
    """A view with negative strides."""
    return np.flip(x, op.axes)


@kernel(Roll)
def roll(op: Roll, x: Value) -> Value:
    """NumPy's own."""
    return np.roll(x, op.shifts, tuple(range(x.ndim)))


@kernel(Tile)
def tile(op: Tile, x: Value) -> Value:
    """NumPy's own."""
    return np.tile(x, op.repetitions)


@kernel(Repeat)
def repeat(op: Repeat, x: Value) -> Value:
    """NumPy's own."""
    return np.repeat(x, op.repeats, op.axis)


@kernel(Concat)
def concat(op: Concat, *arrays: Value) -> Value:
    """NumPy's own."""
    return np.concatenate(arrays, op.axis)


@kernel(Pad)
def pad(op: Pad, x: Value, fill: Value) -> Value:
    """The operand in the middle of an array filled with the value."""
    out = np.full(op.infer_shape(x.shape, fill.shape), fill, x.dtype)
    out[tuple(slice(b, b + n) for (b, _), n in zip(op.widths, x.shape, strict=True))] = x
    return out


@kernel(Diagonal)
def diagonal(op: Diagonal, x: Value) -> Value:
    """A read-only view."""
    return np.diagonal(x, op.offset, -2, -1)
