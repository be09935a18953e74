"""Reductions that leave NaN out."""

from __future__ import annotations

from typing import Any

from tawny.array import Array, ArrayLike, Out, store
from tawny.dtype import kind_of
from tawny.operator import emit, public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray
from tawny.ops.differentiation import distance
from tawny.ops.precision import in_single
from tawny.ops.reduction import Axis, any, as_real, lost_elements, max, min, prod, sum


def _without_nan(a: ArrayLike, instead: complex, where: ArrayLike = True) -> tuple[Array, Array]:
    """`a` with `instead` where it is NaN or not marked, and where it was neither."""
    array = asarray(a)
    there = e.equal(array, array)
    if where is not True:
        there = e.logical_and(there, where)
    elif kind_of(array.dtype) not in "fc":
        return array, there
    return e.where(there, array, asarray(instead, dtype=array.dtype)), there


@public()
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Sum over `axis`, NaN counted as 0."""
    return sum(_without_nan(a, 0)[0], axis, dtype, out, keepdims, initial, where)


@public()
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Product over `axis`, NaN counted as 1."""
    return prod(_without_nan(a, 1)[0], axis, dtype, out, keepdims, initial, where)


@public()
@in_single
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Array:
    """Mean over `axis` of the elements that are not NaN."""
    values, there = _without_nan(a, 0, where)
    count = sum(there, axis=axis, keepdims=keepdims)
    total = sum(values, axis=axis, dtype=dtype, keepdims=keepdims)
    return store(out, e.divide(total, as_real(count, total.dtype)), "nanmean")


def _variance(
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    lost: float,
    keepdims: bool,
    where: ArrayLike,
    centre: ArrayLike | None,
) -> Array:
    values, there = _without_nan(a, 0, where)
    middle = nanmean(a, axis, dtype, keepdims=True, where=where) if centre is None else centre
    away = e.subtract(asarray(values, dtype=dtype), middle)
    away = e.where(there, away, asarray(0, dtype=away.dtype))
    squares = sum(e.square(e.abs(away)), axis=axis, keepdims=keepdims)
    count = as_real(sum(there, axis=axis, keepdims=keepdims), squares.dtype)
    divisor = e.subtract(count, lost)
    nothing = asarray(float("nan"), dtype=squares.dtype)
    return e.where(e.greater(divisor, 0), e.divide(squares, divisor), nothing)


@public()
@in_single
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Variance over `axis` of the elements that are not NaN; see `var`."""
    lost = lost_elements(ddof, correction, "nanvar")
    return store(out, _variance(a, axis, dtype, lost, keepdims, where, mean), "nanvar")


@public()
@in_single
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Standard deviation over `axis` of the elements that are not NaN; see `std`."""
    lost = lost_elements(ddof, correction, "nanstd")
    return store(
        out, emit(distance, _variance(a, axis, dtype, lost, keepdims, where, mean)), "nanstd"
    )


def _extreme(
    a: ArrayLike,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike,
    sign: int,
) -> Array:
    """The greatest (1) or least (-1) element that is not NaN."""
    array = asarray(a)
    worst = complex(-sign * float("inf"), -sign * float("inf"))
    values, there = _without_nan(array, worst if array.dtype.kind == "c" else worst.real)
    reduce = max if sign > 0 else min
    best = reduce(values, axis, None, keepdims, initial, where)
    if kind_of(values.dtype) not in "fc" or initial is not None:
        return best
    some = any(there, axis=axis, keepdims=keepdims)
    return e.where(some, best, asarray(float("nan"), dtype=values.dtype))


@public()
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Greatest element over `axis` that is not NaN."""
    return store(out, _extreme(a, axis, keepdims, initial, where, 1), "nanmax")


@public()
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Array:
    """Least element over `axis` that is not NaN."""
    return store(out, _extreme(a, axis, keepdims, initial, where, -1), "nanmin")
