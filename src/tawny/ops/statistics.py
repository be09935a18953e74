"""Medians and quantiles."""

from __future__ import annotations

from typing import Any

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import check_categories
from tawny.errors import value_error
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray, astype, filled
from tawny.ops.indexing import take, take_along_axis
from tawny.ops.movement import expand_dims, moveaxis, permute_dims, reshape
from tawny.ops.reduction import Axis, sum
from tawny.ops.sorting import sort
from tawny.shape import Shape, normalise_axes, reduced, size


def _lanes(x: Array, axis: Axis, op: str) -> tuple[Array, Shape]:
    """`x` sorted with the reduced axes as its last, and the shape of a result that keeps them."""
    axes = normalise_axes(axis, x.ndim, op)
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    lanes = permute_dims(x, (*kept, *axes))
    shape = tuple(x.shape[a] for a in kept)
    count = size(tuple(x.shape[a] for a in axes))
    return sort(reshape(lanes, (*shape, count))), reduced(x.shape, axes, keepdims=True)


def _nan_where_any(result: Array, lanes: Array) -> Array:
    """`result` with NaN where its lane has one: it sorts last."""
    if lanes.dtype.kind not in "fc":
        return result
    nan = asarray(float("nan"), dtype=result.dtype)
    return e.where(e.isnan(lanes[..., -1]), nan, result)


def _middle(low: Array, high: Array) -> Array:
    """The mean of two elements."""
    total = e.add(*(astype(v, dt.inexact_dtype(v.dtype), copy=False) for v in (low, high)))
    return e.divide(total, 2)


@public()
def median(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The middle element over `axis`, or the mean of the two in the middle; NaN if there is one."""
    array = wrap(lift(x, "median"))
    lanes, kept = _lanes(array, axis, "median")
    n = lanes.shape[-1]
    if not n:
        result = filled(float("nan"), lanes.shape[:-1], dt.inexact_dtype(array.dtype), "median")
    else:
        result = _nan_where_any(_middle(lanes[..., (n - 1) // 2], lanes[..., n // 2]), lanes)
    return reshape(result, kept) if keepdims else result


@public()
def nanmedian(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The median over `axis` of the elements that are not NaN; NaN where there is none."""
    array = wrap(lift(x, "nanmedian"))
    if array.dtype.kind not in "fc" or not array.size:
        return median(array, axis=axis, keepdims=keepdims)
    lanes, kept = _lanes(array, axis, "nanmedian")
    count = sum(e.logical_not(e.isnan(lanes)), axis=-1, keepdims=True)
    low = e.maximum(e.floor_divide(e.subtract(count, 1), 2), 0)
    high = e.minimum(e.floor_divide(count, 2), lanes.shape[-1] - 1)
    middle = _middle(take_along_axis(lanes, low, axis=-1), take_along_axis(lanes, high, axis=-1))
    return reshape(middle, kept if keepdims else lanes.shape[:-1])


@public()
def quantile(x: ArrayLike, q: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The values below which the fractions `q` of the elements over `axis` lie.

    Between two elements it is interpolated linearly; the axes of `q` come first in the result.
    """
    return _quantile("quantile", x, q, 1.0, axis, keepdims)


@public()
def percentile(
    x: ArrayLike, q: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False
) -> Array:
    """The values below which `q` per cent of the elements over `axis` lie; see `quantile`."""
    return _quantile("percentile", x, q, 100.0, axis, keepdims)


def _fractions(op: str, q: Any, whole: float, array: Array) -> Array:
    """`q` as fractions, in the dtype of `array` if it is a Python number."""
    node = lift(q, op, 1)
    check_categories(op, 1, node.dtype, dt.REAL)
    if node.value is not None and not ((node.value >= 0) & (node.value <= whole)).all():
        raise value_error(op, f"q is {q!r}; it must be from 0 to {whole:g}")
    weak = dt.is_weak(q) and array.dtype.kind == "f"
    fraction = astype(wrap(node), array.dtype if weak else dt.inexact_dtype(node.dtype), copy=False)
    return fraction if whole == 1.0 else e.divide(fraction, whole)


def _quantile(
    op: str, x: ArrayLike, q: ArrayLike, whole: float, axis: Axis, keepdims: bool
) -> Array:
    array = wrap(lift(x, op))
    check_categories(op, 0, array.dtype, dt.INTEGER | dt.FLOATING)
    fraction = _fractions(op, q, whole, array)
    lanes, kept = _lanes(array, axis, op)
    n = lanes.shape[-1]
    if not n:
        raise value_error(op, f"operand 0 has shape {array.shape}: no element over axis {axis}")
    first, part = _place(fraction, n - 1)
    low, high = (
        moveaxis(take(lanes, i, axis=-1), range(-fraction.ndim, 0), range(fraction.ndim))
        for i in (first, e.minimum(e.add(first, 1), n - 1))
    )
    rank = lanes.ndim - 1
    weight = expand_dims(part, axis=tuple(range(part.ndim, part.ndim + rank))) if rank else part
    result = _nan_where_any(_interpolated(low, high, weight), lanes)
    return reshape(result, (*fraction.shape, *kept)) if keepdims else result


def _place(fraction: Array, last: ArrayLike) -> tuple[Array, Array]:
    """The element at or before each fraction of the way to the last, and how far to the next.

    Small floats cannot count the elements of long lanes, so places are float64.
    """
    place = e.multiply(astype(fraction, dt.FLOAT64, copy=False), last)
    below = e.floor(place)
    part = astype(e.subtract(place, below), fraction.dtype, copy=False)
    return astype(below, dt.INT64), part


def _interpolated(low: Array, high: Array, weight: Array) -> Array:
    """`low + (high - low) * weight`, from the nearer end so that it never passes the other."""
    gap = e.subtract(high, low)
    return e.where(
        e.less(weight, 0.5),
        e.add(low, e.multiply(gap, weight)),
        e.subtract(high, e.multiply(gap, e.subtract(1, weight))),
    )


@public()
def nanquantile(
    x: ArrayLike, q: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False
) -> Array:
    """As `quantile`, of the elements that are not NaN; NaN where there is none."""
    return _nan_quantile("nanquantile", x, q, 1.0, axis, keepdims)


@public()
def nanpercentile(
    x: ArrayLike, q: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False
) -> Array:
    """As `percentile`, of the elements that are not NaN; NaN where there is none."""
    return _nan_quantile("nanpercentile", x, q, 100.0, axis, keepdims)


def _nan_quantile(
    op: str, x: ArrayLike, q: ArrayLike, whole: float, axis: Axis, keepdims: bool
) -> Array:
    array = wrap(lift(x, op))
    if array.dtype.kind != "f" or not array.size:
        return _quantile(op, array, q, whole, axis, keepdims)
    fraction = _fractions(op, q, whole, array)
    lanes, kept = _lanes(array, axis, op)
    there = sum(e.logical_not(e.isnan(lanes)), axis=-1, keepdims=True)
    # one row of places in each lane, a place for each fraction
    last = e.maximum(e.subtract(there, 1), 0)
    first, part = _place(reshape(fraction, (fraction.size,)), last)
    second = e.minimum(e.add(first, 1), last)
    low, high = (take_along_axis(lanes, i, axis=-1) for i in (first, second))
    result = moveaxis(_interpolated(low, high, part), -1, 0)
    return reshape(result, (*fraction.shape, *(kept if keepdims else lanes.shape[:-1])))
