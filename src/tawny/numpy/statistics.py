"""Medians and quantiles."""

from __future__ import annotations

from typing import Any, Final

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, lift, store, wrap
from tawny.dtype import check_categories, kind_of
from tawny.errors import type_error, value_error
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray, astype, filled_array
from tawny.ops.movement import expand_dims, moveaxis, permute_dims, reshape
from tawny.ops.precision import in_single
from tawny.ops.reduction import Axis, sum
from tawny.ops.selection import take, take_along_axis
from tawny.ops.sorting import sort
from tawny.shape import Shape, normalise_axes, reduction_shape, size


def _lanes(x: Array, axis: Axis, op: str) -> tuple[Array, Shape]:
    """`x` sorted with the reduced axes as its last, and the shape of a result that keeps them."""
    axes = normalise_axes(axis, x.ndim, op)
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    lanes = permute_dims(x, (*kept, *axes))
    shape = tuple(x.shape[a] for a in kept)
    count = size(tuple(x.shape[a] for a in axes))
    return sort(reshape(lanes, (*shape, count))), reduction_shape(x.shape, axes, keepdims=True)


def _nan_where_any(result: Array, lanes: Array) -> Array:
    """`result` with NaN where its lane has one: it sorts last."""
    if kind_of(lanes.dtype) not in "fc":
        return result
    nan = asarray(float("nan"), dtype=result.dtype)
    return e.where(e.isnan(lanes[..., -1]), nan, result)


def _middle(low: Array, high: Array) -> Array:
    """The mean of two elements."""
    total = e.add(*(astype(v, dt.inexact_dtype(v.dtype), copy=False) for v in (low, high)))
    return e.divide(total, 2)


@public()
@in_single
def median(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element over `axis`, or the mean of the two in the middle; NaN if there is one."""
    del overwrite_input
    array = wrap(lift(a, "median"))
    lanes, kept = _lanes(array, axis, "median")
    n = lanes.shape[-1]
    if not n:
        result = filled_array(
            float("nan"), lanes.shape[:-1], dt.inexact_dtype(array.dtype), "median"
        )
    else:
        result = _nan_where_any(_middle(lanes[..., (n - 1) // 2], lanes[..., n // 2]), lanes)
    return store(out, reshape(result, kept) if keepdims else result, "median")


@public()
@in_single
def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The median over `axis` of the elements that are not NaN; NaN where there is none."""
    del overwrite_input
    array = wrap(lift(a, "nanmedian"))
    if kind_of(array.dtype) not in "fc" or not array.size:
        return median(array, axis, out, keepdims=keepdims)
    lanes, kept = _lanes(array, axis, "nanmedian")
    count = sum(e.logical_not(e.isnan(lanes)), axis=-1, keepdims=True)
    low = e.maximum(e.floor_divide(e.subtract(count, 1), 2), 0)
    high = e.minimum(e.floor_divide(count, 2), lanes.shape[-1] - 1)
    middle = _middle(take_along_axis(lanes, low, axis=-1), take_along_axis(lanes, high, axis=-1))
    return store(out, reshape(middle, kept if keepdims else lanes.shape[:-1]), "nanmedian")


@public()
@in_single
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The values below which the fractions `q` of the elements over `axis` lie.

    `method` says what lies between two elements: "linear" interpolation, or another of NumPy's.
    The axes of `q` come first in the result.
    """
    del overwrite_input
    _check_unweighted(weights, "quantile")
    return store(out, _quantile("quantile", a, q, 1.0, axis, keepdims, method), "quantile")


@public()
@in_single
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The values below which `q` per cent of the elements over `axis` lie; see `quantile`."""
    del overwrite_input
    _check_unweighted(weights, "percentile")
    return store(out, _quantile("percentile", a, q, 100.0, axis, keepdims, method), "percentile")


def _fractions(op: str, q: Any, whole: float, array: Array) -> Array:
    """`q` as fractions, in the dtype of `array` if it is a Python number."""
    node = lift(q, op, 1)
    check_categories(op, 1, node.dtype, dt.REAL)
    if node.value is not None and not ((node.value >= 0) & (node.value <= whole)).all():
        raise value_error(op, f"q is {q!r}; it must be from 0 to {whole:g}")
    weak = dt.is_weak(q) and kind_of(array.dtype) == "f"
    fraction = astype(wrap(node), array.dtype if weak else dt.inexact_dtype(node.dtype), copy=False)
    return fraction if whole == 1.0 else e.divide(fraction, whole)


def _check_unweighted(weights: ArrayLike | None, op: str) -> None:
    if weights is not None:
        raise type_error(
            op, "weights= is not taken; repeat elements (np.repeat), or pass it to tw.delay"
        )


def _quantile(
    op: str, x: ArrayLike, q: ArrayLike, whole: float, axis: Axis, keepdims: bool, method: str
) -> Array:
    array = wrap(lift(x, op))
    check_categories(op, 0, array.dtype, dt.INTEGER | dt.FLOATING)
    fraction = _fractions(op, q, whole, array)
    lanes, kept = _lanes(array, axis, op)
    n = lanes.shape[-1]
    if not n:
        raise value_error(op, f"operand 0 has shape {array.shape}: no element over axis {axis}")
    places, part = _places(fraction, n, method, op)
    low, *high = (
        moveaxis(take(lanes, i, axis=-1), range(-fraction.ndim, 0), range(fraction.ndim))
        for i in places
    )
    rank = lanes.ndim - 1
    weight = expand_dims(part, axis=tuple(range(part.ndim, part.ndim + rank))) if rank else part
    result = _nan_where_any(_interpolate(low, high[0], weight) if high else low, lanes)
    return reshape(result, (*fraction.shape, *kept)) if keepdims else result


SHIFTS: Final = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""The constants alpha and beta of Hyndman and Fan's continuous definitions of a quantile."""

ROUNDED: Final = {"lower": e.floor, "higher": e.ceil, "nearest": e.rint}
"""Definitions that take an element beside the place of "linear"."""

METHODS: Final = (
    "linear",
    *ROUNDED,
    "midpoint",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    *SHIFTS,
)


def _places(fraction: Array, count: ArrayLike, method: str, op: str) -> tuple[list[Array], Array]:
    """The elements on the two sides of each fraction of `count` of them, or the one that is it.

    The last is how far the place is from the first to the second.  Small floats cannot count the
    elements of long lanes, so places are float64.
    """
    if method not in METHODS:
        raise value_error(op, f"method is {method!r}; accepted: {', '.join(map(repr, METHODS))}")
    last = e.maximum(e.subtract(count, 1), 0)
    place = _index(astype(fraction, dt.FLOAT64, copy=False), count, last, method)
    below = e.floor(place)
    part = e.subtract(place, below)
    if method in ("inverted_cdf", "closest_observation"):
        stays = e.equal(part, 0)
        if method == "closest_observation":  # the even one, counted from 1
            stays = e.logical_and(stays, e.equal(e.remainder(below, 2), 1))
        below = e.where(stays, below, e.add(below, 1))
    elif method == "averaged_inverted_cdf":
        part = e.where(e.equal(part, 0), asarray(0.5), asarray(1.0))
    index = astype(below, dt.INT64)
    first = e.minimum(e.maximum(index, 0), last)
    if method in ("inverted_cdf", "closest_observation", *ROUNDED):
        return [first], part
    second = e.minimum(e.maximum(e.add(index, 1), 0), last)
    return [first, second], astype(part, fraction.dtype, copy=False)


def _index(q: Array, count: ArrayLike, last: Array, method: str) -> Array:
    """Where among the sorted elements, counted from 0, the fraction `q` of them ends."""
    if method in SHIFTS:
        alpha, beta = SHIFTS[method]
        shift = e.add(e.multiply(q, 1 - alpha - beta), alpha)
        return e.subtract(e.add(e.multiply(q, count), shift), 1)
    if method.endswith("inverted_cdf"):
        return e.subtract(e.multiply(q, count), 1)
    if method == "closest_observation":
        return e.subtract(e.multiply(q, count), 1.5)
    place = e.multiply(q, last)
    if method == "midpoint":
        return e.multiply(e.add(e.floor(place), e.ceil(place)), 0.5)
    return ROUNDED[method](place) if method in ROUNDED else place


def _interpolate(low: Array, high: Array, weight: Array) -> Array:
    """`low + (high - low) * weight`, from the nearer end so that it never passes the other."""
    low, high = (astype(v, dt.inexact_dtype(v.dtype), copy=False) for v in (low, high))
    gap = e.subtract(high, low)
    return e.where(
        e.less(weight, 0.5),
        e.add(low, e.multiply(gap, weight)),
        e.subtract(high, e.multiply(gap, e.subtract(1, weight))),
    )


@public()
@in_single
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Quantiles of the elements that are not NaN; NaN where there is none."""
    del overwrite_input
    _check_unweighted(weights, "nanquantile")
    return store(
        out, _nan_quantile("nanquantile", a, q, 1.0, axis, keepdims, method), "nanquantile"
    )


@public()
@in_single
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Percentiles of the elements that are not NaN; NaN where there is none."""
    del overwrite_input
    _check_unweighted(weights, "nanpercentile")
    return store(
        out, _nan_quantile("nanpercentile", a, q, 100.0, axis, keepdims, method), "nanpercentile"
    )


def _nan_quantile(
    op: str, x: ArrayLike, q: ArrayLike, whole: float, axis: Axis, keepdims: bool, method: str
) -> Array:
    array = wrap(lift(x, op))
    if kind_of(array.dtype) != "f" or not array.size:
        return _quantile(op, array, q, whole, axis, keepdims, method)
    fraction = _fractions(op, q, whole, array)
    lanes, kept = _lanes(array, axis, op)
    there = sum(e.logical_not(e.isnan(lanes)), axis=-1, keepdims=True)
    # one row of places in each lane, a place for each fraction
    places, part = _places(reshape(fraction, (fraction.size,)), there, method, op)
    low, *high = (take_along_axis(lanes, i, axis=-1) for i in places)
    result = moveaxis(_interpolate(low, high[0], part) if high else low, -1, 0)
    return reshape(result, (*fraction.shape, *(kept if keepdims else lanes.shape[:-1])))
