"""Parts of arrays, diagonals among them: the cotangent of what was not taken is zero."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.autodiff.unbroadcast import zeros
from tawny.node import Node, make, scalar
from tawny.ops.diagonal import Diagonal
from tawny.ops.indexing import Gather, Slice, positions
from tawny.ops.joining import Pad
from tawny.ops.movement import flip_node
from tawny.ops.scatter import Scatter
from tawny.shape import Shape


@reverse(Slice)
def _(op: Slice, cotangent: Array, y: Array, x: Array) -> Array:
    """A contiguous part is padded with zeros, backwards ones after turning them round."""
    if any(abs(step) != 1 for _, _, step in op.ranges):
        scatter = Scatter(op.ranges, (), 0, "add")
        return wrap(make(scatter, (zeros(x.shape, cotangent.dtype), cotangent.node)))
    backwards = tuple(a for a, (_, _, step) in enumerate(op.ranges) if step < 0)
    widths: list[tuple[int, int]] = []
    for (start, length, step), n in zip(op.ranges, x.shape, strict=True):
        first = start if step > 0 else start - length + 1
        widths.append((first, n - first - length))
    turned = flip_node(cotangent.node, backwards)
    if turned.shape == x.shape:
        return wrap(turned)
    return wrap(make(Pad(tuple(widths)), (turned, scalar(0, cotangent.dtype, "slice"))))


@reverse(Gather)
def _(op: Gather, cotangent: Array, y: Array, x: Array, *indices: Array) -> list[Array | None]:
    """An element that was taken several times gets the sum of their cotangents."""
    places = tuple([i.node for i in indices])
    added = scatter_add(cotangent.node, x.shape, op.axes, op.place, places)
    return [wrap(added), *[None] * len(indices)]


def scatter_add(
    cotangent: Node, shape: Shape, axes: tuple[int, ...], place: int, indices: tuple[Node, ...]
) -> Node:
    """The transpose of `Gather(axes, place)` by `indices`, from an array of `shape`."""
    ranges = tuple((0, n, 1) for n in shape)
    return make(
        Scatter(ranges, axes, place, "add"), (zeros(shape, cotangent.dtype), cotangent, *indices)
    )


@reverse(Diagonal)
def _(op: Diagonal, cotangent: Array, y: Array, x: Array) -> Array:
    rows = positions(y.shape[-1], max(-op.offset, 0))
    columns = positions(y.shape[-1], max(op.offset, 0))
    plane = (x.ndim - 2, x.ndim - 1)
    return wrap(scatter_add(cotangent.node, x.shape, plane, plane[0], (rows, columns)))
