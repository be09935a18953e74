"""Sorting and counting."""

from __future__ import annotations

from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.autodiff.rules.indexing import scatter_add
from tawny.autodiff.rules.registry import forward, reverse
from tawny.node import make
from tawny.ops.creation import astype
from tawny.ops.indexing import along_axis, take_along_axis, take_node
from tawny.ops.sorting import ArgSort, BinCount, Sort


def _order(op: Sort, x: Array) -> Array:
    return wrap(make(ArgSort(op.axis, op.descending), (x.node,)))


@reverse(Sort)
def _(op: Sort, cotangent: Array, y: Array, x: Array) -> Array:
    """Each cotangent goes where its element came from; equal elements came in their own order."""
    places = along_axis(x.node, _order(op, x).node, op.axis, "sort")
    return wrap(scatter_add(cotangent.node, x.shape, tuple(range(x.ndim)), 0, places))


@forward(Sort)
def _(op: Sort, tangents: tuple[Array | None, ...], y: Array, x: Array) -> Array:
    (tangent,) = tangents
    assert tangent is not None
    return take_along_axis(tangent, _order(op, x), axis=op.axis)


@reverse(BinCount)
def _(op: BinCount, cotangent: Array, y: Array, x: Array, *weights: Array) -> list[Array | None]:
    """The cotangent of a weight is that of its bin."""
    if not weights:
        return [None]
    places = astype(x, dt.INT64, copy=False) if x.dtype == dt.BOOL else x
    return [None, wrap(take_node(cotangent.node, 0, places.node))]
