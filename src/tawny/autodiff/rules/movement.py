"""The same elements in another shape or order: slopes go the way back."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.node import make
from tawny.ops.movement import Flip, Reshape, Roll, Transpose, flipped, permuted, reshaped


@reverse(Reshape)
def _(op: Reshape, slope: Array, y: Array, x: Array) -> Array:
    return wrap(reshaped(slope.node, x.shape))


@reverse(Transpose)
def _(op: Transpose, slope: Array, y: Array, x: Array) -> Array:
    back = sorted(range(len(op.axes)), key=op.axes.__getitem__)
    return wrap(permuted(slope.node, tuple(back)))


@reverse(Flip)
def _(op: Flip, slope: Array, y: Array, x: Array) -> Array:
    return wrap(flipped(slope.node, op.axes))


@reverse(Roll)
def _(op: Roll, slope: Array, y: Array, x: Array) -> Array:
    back = tuple(-s % n if n else 0 for s, n in zip(op.shifts, x.shape, strict=True))
    return wrap(make(Roll(back), (slope.node,)))
