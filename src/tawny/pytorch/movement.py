"""Ops that only move elements, and conversions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.pytorch.table import Call, as_axes, as_axis, at_least_vector, cast, lowers, refuse
from tawny.shape import Shape

Sizes = Sequence[int]


@lowers("alias", "clone", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "view_of")
def keep(_: Call, x: Array, **options: Any) -> Array:
    """The tensor as it is."""
    return x


@lowers("_to_copy", "prims.convert_element_type")
def convert(call: Call, x: Array, *dtype: Any, **options: Any) -> Array:
    """The tensor in another dtype."""
    return cast(x, call.dtype)


@lowers("view", "_unsafe_view", "reshape", "_reshape_copy", "view_copy")
def reshape(_: Call, x: Array, sizes: Sizes) -> Array:
    """The elements in another shape."""
    return np.reshape(x, _known_sizes(sizes, x.size))


def _known_sizes(sizes: Sizes, total: int) -> Shape:
    """Sizes with -1 replaced by what is left."""
    known = math.prod(n for n in sizes if n != -1)
    return tuple(total // max(known, 1) if n == -1 else n for n in sizes)


@lowers("expand", "expand_copy")
def expand(_: Call, x: Array, sizes: Sizes, *, implicit: bool = False) -> Array:
    """The elements repeated along axes of one element."""
    first = len(sizes) - x.ndim
    return np.broadcast_to(
        x, tuple(x.shape[a - first] if n == -1 else n for a, n in enumerate(sizes))
    )


@lowers("permute", "permute_copy")
def permute(_: Call, x: Array, dims: Sizes) -> Array:
    """The axes in another order."""
    return np.permute_dims(x, as_axes(dims, x.ndim)) if x.ndim else x


@lowers("transpose.int")
def transpose(_: Call, x: Array, first: int, second: int) -> Array:
    """Two axes exchanged."""
    return np.swapaxes(x, first, second) if x.ndim else x


@lowers("t")
def transpose_matrix(_: Call, x: Array) -> Array:
    """A matrix transposed."""
    return np.matrix_transpose(x) if x.ndim == 2 else x


@lowers("unsqueeze", "unsqueeze_copy")
def unsqueeze(_: Call, x: Array, dim: int) -> Array:
    """A new axis of one element."""
    return np.expand_dims(x, dim)


@lowers("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dim", "squeeze_copy.dims")
def squeeze(_: Call, x: Array, dim: int | Sizes | None = None) -> Array:
    """Without axes of one element."""
    given = dim if dim is None or isinstance(dim, int) else tuple(dim)
    axes = () if given == () else as_axes(given, x.ndim)
    return np.reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in axes or n != 1))


@lowers("slice.Tensor", "slice_copy.Tensor")
def slice_axis(
    _: Call, x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    """A part of one axis."""
    return x[_axis_key(x, dim, slice(start, end, step))]


def _axis_key(x: Array, dim: int, part: Any) -> tuple[Any, ...]:
    """The key that takes a part of one axis."""
    return (*[slice(None)] * as_axis(dim, x.ndim), part)


@lowers("select.int", "select_copy.int")
def select(_: Call, x: Array, dim: int, index: int) -> Array:
    """One place of one axis."""
    return x[_axis_key(x, dim, index)]


@lowers("slice_scatter")
def put_slice(
    _: Call,
    x: Array,
    source: Array,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Array:
    """The tensor with a part of one axis replaced."""
    return np.at(x)[_axis_key(x, dim, slice(start, end, step))].set(cast(source, x.dtype))


@lowers("select_scatter")
def put_place(_: Call, x: Array, source: Array, dim: int, index: int) -> Array:
    """The tensor with one place of one axis replaced."""
    return np.at(x)[_axis_key(x, dim, index)].set(cast(source, x.dtype))


@lowers("cat", "concat")
def join(call: Call, tensors: Sequence[Array], dim: int = 0) -> Array:
    """Tensors one after the other along an axis; empty vectors are passed over."""
    full = [cast(x, call.dtype) for x in tensors if x.shape != (0,)]
    return np.concat(full, axis=dim) if full else cast(tensors[0], call.dtype)


@lowers("stack")
def stack(call: Call, tensors: Sequence[Array], dim: int = 0) -> Array:
    """Tensors along a new axis."""
    return np.stack([cast(x, call.dtype) for x in tensors], axis=dim)


@lowers("split_with_sizes", "split_with_sizes_copy")
def split_by_sizes(_: Call, x: Array, sizes: Sizes, dim: int = 0) -> list[Array]:
    """Parts of given sizes along an axis."""
    ends: list[int] = numpy.cumsum(sizes).tolist()
    spans = zip(sizes, ends, strict=True)
    parts: list[Array] = [x[_axis_key(x, dim, slice(end - n, end))] for n, end in spans]
    return parts


@lowers("split.Tensor", "split_copy.Tensor")
def split(call: Call, x: Array, size: int, dim: int = 0) -> list[Array]:
    """Parts of one size along an axis; the last may be smaller."""
    n = x.shape[as_axis(dim, x.ndim)]
    sizes = [min(size, n - start) for start in range(0, n, max(size, 1))]
    return split_by_sizes(call, x, sizes or [0], dim)


@lowers("unbind.int", "unbind_copy.int")
def unbind(_: Call, x: Array, dim: int = 0) -> list[Array]:
    """The places of an axis, one by one."""
    parts: list[Array] = [x[_axis_key(x, dim, i)] for i in range(x.shape[as_axis(dim, x.ndim)])]
    return parts


@lowers("flip")
def flip(_: Call, x: Array, dims: Sizes) -> Array:
    """Axes from the end to the start."""
    return np.flip(x, axis=as_axes(dims, x.ndim)) if x.ndim and len(dims) else x


@lowers("roll")
def roll(_: Call, x: Array, shifts: int | Sizes, dims: int | Sizes = ()) -> Array:
    """Elements moved around along axes."""
    moves = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not x.size or not x.ndim:
        return x
    if not axes:
        return np.reshape(np.roll(np.ravel(x), moves[0]), x.shape)
    for move, axis in zip(moves, axes, strict=True):
        x = np.roll(x, move, axis=axis)
    return x


@lowers("repeat")
def repeat(_: Call, x: Array, repeats: Sizes) -> Array:
    """The tensor as often as asked along each axis."""
    return np.tile(x, tuple(repeats))


@lowers("constant_pad_nd")
def pad(call: Call, x: Array, pads: Sizes, value: Any = 0) -> Array:
    """A number around the tensor; negative widths cut off."""
    pairs = [(0, 0)] * (x.ndim - len(pads) // 2)
    pairs += [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    if any(min(pair) < 0 for pair in pairs):
        cuts = tuple(
            slice(max(-low, 0), n - max(-high, 0))
            for n, (low, high) in zip(x.shape, pairs, strict=True)
        )
        x = x[cuts]
        pairs = [(max(low, 0), max(high, 0)) for low, high in pairs]
    return np.pad(x, pairs, constant_values=cast(value, x.dtype)) if pairs else x


@lowers("diagonal", "diagonal_copy")
def diagonal(_: Call, x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The diagonal of two axes, as the last axis."""
    return np.diagonal(x, offset, dim1, dim2)


@lowers("diagonal_scatter")
def put_diagonal(
    _: Call, x: Array, source: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    """The tensor with the diagonal of two axes replaced."""
    last = np.moveaxis(x, (dim1, dim2), (-2, -1))
    places = numpy.arange(source.shape[-1])
    key = (..., places + max(-offset, 0), places + max(offset, 0))
    return np.moveaxis(np.at(last)[key].set(cast(source, x.dtype)), (-2, -1), (dim1, dim2))


@lowers("tril")
def lower_triangle(_: Call, x: Array, diagonal: int = 0) -> Array:
    """Zero above a diagonal."""
    return np.tril(x, diagonal)


@lowers("triu")
def upper_triangle(_: Call, x: Array, diagonal: int = 0) -> Array:
    """Zero below a diagonal."""
    return np.triu(x, diagonal)


@lowers("unfold")
def unfold(_: Call, x: Array, dim: int, size: int, step: int) -> Array:
    """Windows of an axis, along a new last axis."""
    axis, vector = as_axis(dim, x.ndim), at_least_vector(x)
    windows = np.sliding_window_view(vector, size, axis=axis)
    chosen = windows[_axis_key(windows, axis, slice(None, None, step))]
    return chosen if x.ndim else np.reshape(chosen, (size,))


@lowers("as_strided", "as_strided_copy")
def as_strided(
    call: Call, x: Array, sizes: Sizes, strides: Sizes, offset: int | None = None
) -> Array:
    """Elements at strides of a tensor whose elements lie one after the other."""
    return np.take(np.ravel(x), _places(call, sizes, strides, offset, x.size))


@lowers("as_strided_scatter")
def put_strided(
    call: Call, x: Array, source: Array, sizes: Sizes, strides: Sizes, offset: int | None = None
) -> Array:
    """The tensor with elements at strides replaced."""
    places = _places(call, sizes, strides, offset, x.size)
    return np.reshape(np.at(np.ravel(x))[places].set(cast(source, x.dtype)), x.shape)


def _places(
    call: Call, sizes: Sizes, strides: Sizes, offset: int | None, total: int
) -> numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.int64]]:
    base = call.operands[0]
    refuse(not base.is_contiguous() or base.storage_offset(), "strides of a tensor with gaps")
    places = numpy.asarray(offset or 0, numpy.int64)
    for n, stride in zip(sizes, strides, strict=True):
        places = numpy.add.outer(places, numpy.arange(n, dtype=numpy.int64) * stride)
    refuse(places.size and places.max() >= total, "strides that leave the tensor")
    return places


@lowers("copy")
def copy_over(call: Call, x: Array, source: Array, non_blocking: bool = False) -> Array:
    """A tensor in the shape and dtype of another."""
    return np.broadcast_to(cast(source, call.dtype), x.shape)
