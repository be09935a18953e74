"""Joining, repeating and padding: slopes are cut up, and summed where elements were repeated."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.fitting import zero
from tawny.autodiff.rules.registry import forward, reverse
from tawny.node import Constant, Node, make, scalar
from tawny.ops.indexing import Slice, sliced
from tawny.ops.joining import Concat, Pad, Repeat, Tile
from tawny.ops.movement import reshaped
from tawny.ops.reduction import Sum
from tawny.ops.scatter import Scatter


@reverse(Concat)
def _(op: Concat, slope: Array, y: Array, *arrays: Array) -> list[Array]:
    slopes: list[Array] = []
    start = 0
    for x in arrays:
        stop = start + x.shape[op.axis]
        slopes.append(wrap(sliced(slope.node, op.axis, slice(start, stop))))
        start = stop
    return slopes


@forward(Concat)
def _(op: Concat, tangents: tuple[Array | None, ...], y: Array, *arrays: Array) -> Array:
    """Integers among the operands stand still."""
    pieces = [
        zero(x.shape, y.dtype) if t is None else t.node
        for t, x in zip(tangents, arrays, strict=True)
    ]
    return wrap(make(op, tuple(pieces)))


def _summed(node: Node, axes: tuple[int, ...]) -> Node:
    return make(Sum(axes, False, node.dtype), (node,))


@reverse(Tile)
def _(op: Tile, slope: Array, y: Array, x: Array) -> Array:
    pairs = zip(op.repetitions, x.shape, strict=True)
    shape = tuple(n for pair in pairs for n in pair)
    copies = tuple(range(0, len(shape), 2))
    return wrap(_summed(reshaped(slope.node, shape), copies))


@reverse(Repeat)
def _(op: Repeat, slope: Array, y: Array, x: Array) -> Array:
    copies = op.axis + 1
    shape = (*x.shape[:copies], op.repeats, *x.shape[copies:])
    return wrap(_summed(reshaped(slope.node, shape), (copies,)))


@reverse(Pad)
def _(op: Pad, slope: Array, y: Array, x: Array, fill: Array) -> tuple[Array, Array | None]:
    """The fill value gets what stands around the array."""
    ranges = tuple((before, n, 1) for (before, _), n in zip(op.widths, x.shape, strict=True))
    inside = wrap(make(Slice(ranges), (slope.node,)))
    if isinstance(fill.node.op, Constant):
        return inside, None
    nothing = scalar(0, slope.dtype, "pad")
    around = make(Scatter(ranges, (), 0, "set"), (slope.node, nothing))
    return inside, wrap(_summed(around, tuple(range(x.ndim))))
