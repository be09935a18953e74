"""Joining, repeating and padding: cotangents are cut, and summed where elements repeat."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import forward, reverse
from tawny.autodiff.unbroadcast import zeros
from tawny.node import Constant, Node, make, scalar
from tawny.ops.indexing import Slice, slice_node
from tawny.ops.joining import Concat, Pad, Repeat, Tile
from tawny.ops.movement import reshape_node
from tawny.ops.reduction import Sum
from tawny.ops.scatter import Scatter


@reverse(Concat)
def _(op: Concat, cotangent: Array, y: Array, *arrays: Array) -> list[Array]:
    cotangents: list[Array] = []
    start = 0
    for x in arrays:
        stop = start + x.shape[op.axis]
        cotangents.append(wrap(slice_node(cotangent.node, op.axis, slice(start, stop))))
        start = stop
    return cotangents


@forward(Concat)
def _(op: Concat, tangents: tuple[Array | None, ...], y: Array, *arrays: Array) -> Array:
    """Integers among the operands stand still."""
    pieces = [
        zeros(x.shape, y.dtype) if t is None else t.node
        for t, x in zip(tangents, arrays, strict=True)
    ]
    return wrap(make(op, tuple(pieces)))


def _sum(node: Node, axes: tuple[int, ...]) -> Node:
    return make(Sum(axes, False, node.dtype), (node,))


@reverse(Tile)
def _(op: Tile, cotangent: Array, y: Array, x: Array) -> Array:
    pairs = zip(op.repetitions, x.shape, strict=True)
    shape = tuple(n for pair in pairs for n in pair)
    copies = tuple(range(0, len(shape), 2))
    return wrap(_sum(reshape_node(cotangent.node, shape), copies))


@reverse(Repeat)
def _(op: Repeat, cotangent: Array, y: Array, x: Array) -> Array:
    copies = op.axis + 1
    shape = (*x.shape[:copies], op.repeats, *x.shape[copies:])
    return wrap(_sum(reshape_node(cotangent.node, shape), (copies,)))


@reverse(Pad)
def _(op: Pad, cotangent: Array, y: Array, x: Array, fill: Array) -> tuple[Array, Array | None]:
    """The fill value gets what stands around the array."""
    ranges = tuple((before, n, 1) for (before, _), n in zip(op.widths, x.shape, strict=True))
    inside = wrap(make(Slice(ranges), (cotangent.node,)))
    if isinstance(fill.node.op, Constant):
        return inside, None
    nothing = scalar(0, cotangent.dtype, "pad")
    around = make(Scatter(ranges, (), 0, "set"), (cotangent.node, nothing))
    return inside, wrap(_sum(around, tuple(range(x.ndim))))
