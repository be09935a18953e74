"""Elements in another shape or order: cotangents are moved back."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.node import make
from tawny.ops.movement import (
    Flip,
    Reshape,
    Roll,
    Transpose,
    flip_node,
    reshape_node,
    transpose_node,
)


@reverse(Reshape)
def _(op: Reshape, cotangent: Array, y: Array, x: Array) -> Array:
    return wrap(reshape_node(cotangent.node, x.shape))


@reverse(Transpose)
def _(op: Transpose, cotangent: Array, y: Array, x: Array) -> Array:
    back = sorted(range(len(op.axes)), key=op.axes.__getitem__)
    return wrap(transpose_node(cotangent.node, tuple(back)))


@reverse(Flip)
def _(op: Flip, cotangent: Array, y: Array, x: Array) -> Array:
    return wrap(flip_node(cotangent.node, op.axes))


@reverse(Roll)
def _(op: Roll, cotangent: Array, y: Array, x: Array) -> Array:
    back = tuple(-s % n if n else 0 for s, n in zip(op.shifts, x.shape, strict=True))
    return wrap(make(Roll(back), (cotangent.node,)))
