"""Reductions, running sums, sorting and what finds places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import BOOL, INT64
from tawny.pytorch.table import Call, as_axes, as_axis, at_least_vector, cast, lowers, refuse

Dims = int | Sequence[int] | None


@lowers("sum", "sum.dim_IntList")
def add_up(
    call: Call, x: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """The sum over axes; of all axes for None or none."""
    wide = cast(x, call.dtype)
    axes = as_axes(dim, x.ndim)
    return np.sum(wide, axis=axes, keepdims=keepdim, dtype=call.dtype) if axes else wide


@lowers("mean", "mean.dim")
def mean(
    call: Call, x: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """The mean over axes."""
    wide = cast(x, call.dtype)
    axes = as_axes(dim, x.ndim)
    return np.mean(wide, axis=axes, keepdims=keepdim) if axes else wide


@lowers("prod", "prod.dim_int")
def product(
    call: Call, x: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """The product over an axis, or over all."""
    wide = cast(x, call.dtype)
    axes = as_axes(dim, x.ndim)
    return np.prod(wide, axis=axes, keepdims=keepdim, dtype=call.dtype) if axes else wide


def _extremum(function: Callable[..., Array]) -> Callable[..., Array]:
    def lower(call: Call, x: Array, dim: Dims = (), keepdim: bool = False) -> Array:
        axes = as_axes(dim, x.ndim)
        return function(x, axis=axes, keepdims=keepdim) if axes else x

    return lower


lowers("amax", "max")(_extremum(np.max))
lowers("amin", "min")(_extremum(np.min))


def _extremum_with_place(
    extremum: Callable[..., Array], place: Callable[..., Array]
) -> Callable[..., tuple[Array, Array]]:
    def lower(_: Call, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        if not x.ndim:
            return x, np.zeros((), INT64)
        values = extremum(x, axis=dim, keepdims=keepdim)
        places = place(_as_number(x), axis=dim, keepdims=keepdim)
        return values, cast(places, INT64)

    return lower


lowers("max.dim")(_extremum_with_place(np.max, np.argmax))
lowers("min.dim")(_extremum_with_place(np.min, np.argmin))


def _as_number(x: Array) -> Array:
    return cast(x, numpy.dtype("uint8")) if x.dtype == BOOL else x


def _place(function: Callable[..., Array]) -> Callable[..., Array]:
    def lower(_: Call, x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        if not x.ndim:
            return np.zeros((), INT64)
        if dim is not None:
            return cast(function(_as_number(x), axis=dim, keepdims=keepdim), INT64)
        found = cast(function(np.ravel(_as_number(x))), INT64)
        return np.reshape(found, (1,) * x.ndim) if keepdim else found

    return lower


lowers("argmax")(_place(np.argmax))
lowers("argmin")(_place(np.argmin))


def _truth(function: Callable[..., Array]) -> Callable[..., Array]:
    def lower(call: Call, x: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        truth, axes = cast(x, BOOL), as_axes(dim, x.ndim)
        found = function(truth, axis=axes, keepdims=keepdim) if axes else truth
        return cast(found, call.dtype)

    return lower


lowers("any", "any.dim", "any.dims")(_truth(np.any))
lowers("all", "all.dim", "all.dims")(_truth(np.all))


def spread(x: Array, axes: tuple[int, ...], correction: float, keepdim: bool) -> Array:
    """The variance over axes, with `correction` elements fewer in the divisor; NaN for none."""
    count = numpy.prod([x.shape[a] for a in axes], dtype=int).item()
    offset = np.subtract(x, np.mean(x, axis=axes, keepdims=True))
    squares = np.sum(np.square(np.abs(offset)), axis=axes, keepdims=keepdim)
    return np.divide(squares, cast(max(count - correction, 0), squares.dtype))


@lowers("var.correction")
def variance(
    call: Call,
    x: Array,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Array:
    """The variance over axes."""
    lost = 1 if correction is None else correction
    return cast(spread(x, as_axes(dim, x.ndim), lost, keepdim), call.dtype)


@lowers("std.correction")
def deviation(
    call: Call,
    x: Array,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Array:
    """The standard deviation over axes."""
    return np.sqrt(variance(call, x, dim, correction=correction, keepdim=keepdim))


@lowers("var_mean.correction")
def variance_and_mean(
    call: Call,
    x: Array,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Array, Array]:
    """The variance and the mean over axes."""
    axes = as_axes(dim, x.ndim)
    return (
        variance(call, x, dim, correction=correction, keepdim=keepdim),
        np.mean(x, axis=axes, keepdims=keepdim) if axes else x,
    )


def _cumulative(function: Callable[..., Array]) -> Callable[..., Array]:
    def lower(call: Call, x: Array, dim: int, *, dtype: Any = None) -> Array:
        wide = cast(x, call.dtype)
        return function(wide, axis=dim, dtype=call.dtype) if x.ndim else wide

    return lower


lowers("cumsum")(_cumulative(np.cumulative_sum))
lowers("cumprod")(_cumulative(np.cumulative_prod))


# --------------------------------------------------------------------- sorting


@lowers("sort", "sort.stable")
def sort(
    call: Call, x: Array, *options: Any, dim: int = -1, descending: bool = False, stable: Any = None
) -> tuple[Array, Array]:
    """Elements in order along an axis, and where they were."""
    if options:
        dim, descending = (*options, descending)[:2]
    if not x.ndim:
        return x, np.zeros((), INT64)
    places = np.argsort(x, axis=dim, descending=descending, stable=True)
    return np.take_along_axis(x, places, axis=dim), cast(places, INT64)


@lowers("topk")
def greatest(
    call: Call, x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    """The greatest elements along an axis in order, or the least, and where they are."""
    refuse(x.dtype == BOOL, "the greatest of truth values")
    vector = at_least_vector(x)
    found = np.top_k(vector, k, axis=as_axis(dim, x.ndim), largest=largest)
    values, places = found[0], cast(found[1], INT64)
    return (values, places) if x.ndim else (np.reshape(values, ()), np.reshape(places, ()))
