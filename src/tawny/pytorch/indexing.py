"""Reading and writing by index tensors.

PyTorch refuses negative indices in all of these but `index` and `index_put`.  They are moved to the
end of the axis here, which lies outside, so that the program refuses them when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import BOOL, INT64, kind_of
from tawny.pytorch.table import Call, as_axis, at_least_vector, cast, choose, lowers, refuse
from tawny.shape import Shape


def _places(index: Array, n: int) -> Array:
    """An index tensor into an axis of `n` places, of which no element may be negative."""
    wide = cast(index, INT64)
    return choose(np.less(wide, cast(0, INT64)), cast(n, INT64), wide)


def _key(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """The key of index tensors, one for each axis; None takes the axis whole."""
    for index in indices:
        refuse(index is not None and index.dtype.kind == "b", "a result whose size depends on data")
        refuse(index is not None and index.dtype.kind == "u", "indices of dtype uint8")
    return tuple(slice(None) if index is None else index for index in indices)


@lowers("index.Tensor", "_unsafe_index.Tensor")
def read(_: Call, x: Array, indices: Sequence[Array | None]) -> Array:
    """Elements at index tensors."""
    return x[_key(indices)]


@lowers("_unsafe_masked_index")
def read_or_fill(
    call: Call, x: Array, mask: Array, indices: Sequence[Array | None], fill: Any
) -> Array:
    """Elements at index tensors where the mask holds, elsewhere a number."""
    limited = [
        None if i is None else np.clip(i, 0, max(n - 1, 0))
        for i, n in zip(indices, x.shape, strict=False)
    ]
    return choose(mask, x[_key(limited)], cast(fill, x.dtype))


@lowers("index_put", "_unsafe_index_put")
def write(
    _: Call, x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False
) -> Array:
    """The tensor with values put at, or added to, index tensors."""
    new = cast(values, x.dtype)
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == BOOL:
        return _write_where(x, indices[0], new, accumulate)
    part = np.at(x)[_key(indices)]
    return part.add(new) if accumulate else part.set(new)


def _write_where(x: Array, mask: Array, values: Array, accumulate: bool) -> Array:
    """The tensor with one value for all places where a mask holds."""
    refuse(values.size != 1, "as many values as a mask has places")
    wide = np.reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
    value = np.reshape(values, ())
    return choose(wide, np.add(x, value) if accumulate else value, x)


@lowers("gather")
def gather(_: Call, x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """For each element of `index` the element of its line along an axis."""
    if not index.size:
        return np.zeros(index.shape, x.dtype)
    base, axis = at_least_vector(x), as_axis(dim, x.ndim)
    places = at_least_vector(_places(index, base.shape[axis]))
    lines = base[_corner(places.shape, axis)]
    found = np.take_along_axis(lines, places, axis=axis)
    return np.reshape(found, index.shape)


def _corner(shape: Shape, axis: int) -> tuple[slice, ...]:
    """The key of the first places of each axis, as many as `shape` has; all of one axis."""
    return tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(shape))


def _lines(places: Array, axis: int) -> tuple[Any, ...]:
    """The key that goes to `places` along an axis, and to the same places in the others."""
    rank = places.ndim
    return tuple(
        places
        if a == axis
        else np.reshape(np.arange(n), tuple(n if b == a else 1 for b in range(rank)))
        for a, n in enumerate(places.shape)
    )


def _scatter(x: Array, dim: int, index: Array, source: Any, mode: str) -> Array:
    base, axis = at_least_vector(x), as_axis(dim, x.ndim)
    places = at_least_vector(_places(index, base.shape[axis]))
    if not places.size:
        return x
    if isinstance(source, Array):
        vector = at_least_vector(source)
        new = cast(vector[tuple(slice(0, n) for n in places.shape)], x.dtype)
    else:
        new = cast(source, x.dtype)
    part = np.at(base)[_lines(places, axis)]
    return np.reshape(getattr(part, mode)(new), x.shape)


@lowers("scatter.src", "scatter.value")
def scatter(_: Call, x: Array, dim: int, index: Array, source: Any) -> Array:
    """The tensor with elements put where `index` says."""
    return _scatter(x, dim, index, source, "set")


@lowers("scatter_add")
def scatter_add(_: Call, x: Array, dim: int, index: Array, source: Array) -> Array:
    """The tensor with elements added where `index` says."""
    return _scatter(x, dim, index, source, "add")


MODES: Final = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""What combines elements that go to one place, in PyTorch's words and ours."""

NEUTRAL: Final = {"sum": 0.0, "prod": 1.0, "amax": -numpy.inf, "amin": numpy.inf}


@lowers("scatter_reduce.two")
def scatter_reduce(
    _: Call,
    x: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    """The tensor with elements combined where `index` says."""
    refuse(reduce not in MODES, f"reduce={reduce!r}")
    refuse(BOOL in (x.dtype, source.dtype), "truth values")
    base = x
    if not include_self:
        refuse(kind_of(x.dtype) != "f", "integers without the tensor's own elements")
        base = _scatter(x, dim, index, NEUTRAL[reduce], "set")
    return _scatter(base, dim, index, source, MODES[reduce])


@lowers("index_select", "index_select_copy")
def take(_: Call, x: Array, dim: int, index: Array) -> Array:
    """Places of one axis."""
    if not x.ndim:
        return np.reshape(np.take(at_least_vector(x), _places(index, 1), axis=0), ())
    return np.take(x, at_least_vector(_places(index, x.shape[dim])), axis=dim)


@lowers("index_add")
def add_at(_: Call, x: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1) -> Array:
    """The tensor with parts added at places of one axis."""
    refuse(not x.ndim, "a tensor of no axes")
    new = source if alpha == 1 else np.multiply(source, cast(alpha, x.dtype))
    places = at_least_vector(_places(index, x.shape[dim]))
    return np.at(x)[(*[slice(None)] * as_axis(dim, x.ndim), places)].add(cast(new, x.dtype))


@lowers("index_copy")
def put_at(_: Call, x: Array, dim: int, index: Array, source: Array) -> Array:
    """The tensor with parts put at places of one axis."""
    refuse(not x.ndim, "a tensor of no axes")
    places = at_least_vector(_places(index, x.shape[dim]))
    return np.at(x)[(*[slice(None)] * as_axis(dim, x.ndim), places)].set(cast(source, x.dtype))


@lowers("embedding")
def embed(
    _: Call,
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """Rows of a table."""
    return np.take(weight, _places(indices, weight.shape[0]), axis=0)


@lowers("searchsorted.Tensor")
def search(
    _: Call,
    ordered: Array,
    values: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Where values would be put into a vector in order."""
    refuse(ordered.ndim != 1 or sorter is not None, "many rows in order, or a sorter")
    behind = right or side == "right"
    found = np.searchsorted(ordered, values, side="right" if behind else "left")
    return cast(found, numpy.dtype("int32" if out_int32 else "int64"))
