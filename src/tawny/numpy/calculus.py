"""Calculus on samples: differences, integrals, interpolation, fits and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, lift, wrap
from tawny.dtype import DType, as_dtype, check_categories, kind_of
from tawny.errors import type_error, value_error
from tawny.numpy.axis_functions import average
from tawny.numpy.composite import complex_of, cumprod, cumsum, diff, where
from tawny.numpy.matrix_functions import lstsq
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import astype, copy, filled_array
from tawny.ops.diagonal import diagonal
from tawny.ops.joining import concat
from tawny.ops.linalg import matmul
from tawny.ops.movement import expand_dims, ravel, reshape, squeeze
from tawny.ops.precision import in_single
from tawny.ops.reduction import sum
from tawny.ops.selection import take
from tawny.ops.series import vander
from tawny.ops.sorting import argsort, searchsorted
from tawny.ops.systems import inv
from tawny.shape import as_int, normalise_axes, normalise_axis


def _array(x: ArrayLike, op: str, position: int = 0) -> Array:
    return wrap(lift(x, op, position))


def _line(x: ArrayLike, op: str, word: str, length: int | None = None) -> Array:
    """`x`, which must have one axis, of `length` if that is given."""
    array = _array(x, op)
    if array.ndim != 1 or (length is not None and array.size != length):
        wanted = "one axis" if length is None else f"one axis of {length} elements"
        raise value_error(op, f"{word} has shape {array.shape}; it must have {wanted}")
    return array


def _inexact(x: Array) -> Array:
    """`x` in floating point, where differences of integers cannot wrap."""
    return astype(x, dt.inexact_dtype(x.dtype), copy=False)


def _part(x: Array, axis: int, start: int | None, stop: int | None) -> Array:
    """`x` from `start` to `stop` along `axis`."""
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _lay_along(x: Array, axis: int, rank: int) -> Array:
    """A line laid along `axis` of an array of `rank` axes."""
    return reshape(x, tuple(x.size if a == axis else 1 for a in range(rank)))


# ----------------------------------------------------------------- differences


@public()
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Differences of neighbours in the flattened array, with numbers put before and behind."""
    array = ravel(_array(ary, "ediff1d"))
    begin, end = (
        _edge(x, array.dtype, word) for x, word in ((to_begin, "to_begin"), (to_end, "to_end"))
    )
    differences = e.subtract(array[1:], array[:-1]) if array.size else copy(array)
    return concat([*begin, differences, *end]) if begin or end else differences


def _edge(x: ArrayLike | None, dtype: DType, word: str) -> list[Array]:
    """What stands before or behind the differences, in their dtype."""
    if x is None:
        return []
    edge = ravel(_array(x, "ediff1d"))
    if not dt.can_cast(edge.dtype, dtype, "same_kind"):
        raise type_error(
            "ediff1d", f"{word} has dtype {edge.dtype}; it must cast to that of operand 0, {dtype}"
        )
    return [astype(edge, dtype, copy=False)]


@public()
@in_single
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Any:
    """Slopes of `f` along each of `axis`, by central differences; one-sided ones at the ends.

    `varargs` are nothing, a distance for all axes, or for each axis a distance or coordinates.
    One axis gives an array, several a tuple of them.
    """
    array = _array(f, "gradient")
    if array.dtype.kind in "iu":
        array = astype(array, dt.FLOAT64)
    along = tuple(axis) if isinstance(axis, Sequence) else axis
    axes = normalise_axes(along, array.ndim, "gradient")
    if isinstance(along, tuple):
        axes = tuple(normalise_axis(a, array.ndim, "gradient") for a in along)
    if edge_order not in (1, 2):
        raise value_error("gradient", f"edge_order is {edge_order!r}; accepted: 1, 2")
    spacings: tuple[ArrayLike, ...] = varargs or (1.0,)
    if len(spacings) == 1 and not _array(spacings[0], "gradient", 1).ndim:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise type_error(
            "gradient",
            f"{len(spacings)} spacings came for {len(axes)} axes; accepted: one number, or one "
            "spacing for each axis",
        )
    slopes = tuple(_slopes(array, *pair, edge_order) for pair in zip(axes, spacings, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _slopes(f: Array, axis: int, spacing: ArrayLike, edge_order: int) -> Array:
    """Second-order slopes of `f` along one axis, at the ends of order `edge_order`."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise value_error(
            "gradient",
            f"operand 0 has shape {f.shape}; its axis {axis} must have at least {edge_order + 1} "
            f"elements for edge_order={edge_order}",
        )
    steps = _steps(f, axis, spacing)
    rises = e.divide(e.subtract(_part(f, axis, 1, None), _part(f, axis, None, -1)), steps)
    before, behind = _part(rises, axis, None, -1), _part(rises, axis, 1, None)
    left, right = _part(steps, axis, None, -1), _part(steps, axis, 1, None)
    # the slope at a point: those on its two sides, the shorter side weighing more
    inner = e.divide(e.add(e.multiply(before, right), e.multiply(behind, left)), e.add(left, right))
    first, last = _part(rises, axis, 0, 1), _part(rises, axis, -1, None)
    if edge_order == 2:
        first, last = (
            _parabola_slope(*(_part(v, axis, *place) for place in places for v in (rises, steps)))
            for places in (((0, 1), (1, 2)), ((-1, None), (-2, -1)))
        )
    return astype(concat([first, inner, last], axis=axis), f.dtype, copy=False)


def _steps(f: Array, axis: int, spacing: ArrayLike) -> Array:
    """Distances of neighbours along `axis`, from one distance or from coordinates."""
    distance = _array(spacing, "gradient", 1)
    n = f.shape[axis]
    if distance.ndim:
        points = _inexact(_line(distance, "gradient", f"the coordinates of axis {axis}", n))
        return _lay_along(diff(points), axis, f.ndim)
    wanted = dt.real_dtype(f.dtype) if dt.is_weak(spacing) else dt.inexact_dtype(distance.dtype)
    shape = tuple(n - 1 if a == axis else 1 for a in range(f.ndim))
    return filled_array(distance, shape, wanted, "gradient")


def _parabola_slope(near: Array, step: Array, next: Array, further: Array) -> Array:
    """The slope at an end of the parabola whose slopes over the first two steps are given."""
    return e.add(near, e.divide(e.multiply(e.subtract(near, next), step), e.add(step, further)))


@public()
@in_single
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral of `y` along `axis` by the trapezoidal rule, over points `x` or steps `dx`."""
    array = _inexact(_array(y, "trapezoid"))
    along = normalise_axis(axis, array.ndim, "trapezoid")
    steps: ArrayLike = dx
    if x is not None:
        points = _inexact(_array(x, "trapezoid", 1))
        if points.ndim == 1:
            steps = _lay_along(diff(points), along, array.ndim)
        else:
            steps = diff(points, axis=axis)
    pairs = e.add(_part(array, along, 1, None), _part(array, along, None, -1))
    return sum(e.divide(e.multiply(steps, pairs), 2.0), axis=along)


@public()
@in_single
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> Array:
    """`p` with multiples of `period` added so that neighbours differ by at most half of it.

    Differences below `discont` stay as they are.
    """
    array = _array(p, "unwrap")
    along = normalise_axis(axis, array.ndim, "unwrap")
    whole = type(period) is int and array.dtype.kind in "iu"
    dtype = array.dtype if whole else dt.inexact_dtype(array.dtype)
    array = astype(array, dt.INT64 if whole else dtype, copy=False)  # where steps cannot wrap
    steps = diff(array, axis=along)
    half = period // 2 if whole else period / 2
    wrapped = e.add(e.remainder(e.subtract(steps, -half), period), -half)
    if 2 * half == period:  # half a period may have either sign; it keeps that of the step
        ambiguous = e.logical_and(e.equal(wrapped, -half), e.greater(steps, 0))
        wrapped = where(ambiguous, half, wrapped)
    turns = e.subtract(wrapped, steps)
    least = period / 2 if discont is None else discont
    turns = where(e.less(e.abs(steps), least), 0, turns)
    later = e.add(_part(array, along, 1, None), cumsum(turns, axis=along))
    pieces = [_part(array, along, 0, 1), later]
    return concat([astype(piece, dtype, copy=False) for piece in pieces], axis=along)


@public()
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: Out = None) -> Array:
    """Running sum along `axis`, or of the flattened array, NaN counted as 0."""
    return cumsum(_without_nan(_array(a, "nancumsum"), 0), axis, dtype, out)


@public()
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: Out = None) -> Array:
    """Running product along `axis`, or of the flattened array, NaN counted as 1."""
    return cumprod(_without_nan(_array(a, "nancumprod"), 1), axis, dtype, out)


def _without_nan(x: Array, instead: int) -> Array:
    kept: Array = where(e.isnan(x), instead, x) if kind_of(x.dtype) in "fc" else x
    return kept


# --------------------------------------------------------------- interpolation


@public()
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: float | None = None,
) -> Array:
    """Values at `x` on the lines through the points of rising `xp` and heights `fp`.

    Before the first point it is `left`, behind the last `right`: by default their heights.  With
    a `period` the points repeat for ever, and may come in any order.
    """
    at = _array(x, "interp")
    points = _line(xp, "interp", "operand 1")
    heights = _line(fp, "interp", "operand 2", points.size)
    if not points.size:
        raise value_error("interp", "operand 1 has no elements; there must be at least one point")
    for position, operand in enumerate((at, points)):
        check_categories("interp", position, operand.dtype, dt.REAL)
    at, points = astype(at, dt.FLOAT64, copy=False), astype(points, dt.FLOAT64, copy=False)
    heights = astype(heights, dt.promote(heights.dtype, dt.FLOAT64), copy=False)
    if period is not None:
        if period == 0:
            raise value_error("interp", "period is 0; it must be positive or negative")
        at, points, heights = _periodic_points(at, points, heights, abs(period))
        left = right = None
    low = heights[0] if left is None else astype(left, heights.dtype)
    high = heights[-1] if right is None else astype(right, heights.dtype)
    inside = heights[0]
    if points.size > 1 and heights.dtype.kind == "c":
        inside = complex_of(*(_interpolate(at, points, p(heights)) for p in (e.real, e.imag)))
    elif points.size > 1:
        inside = _interpolate(at, points, heights)
    result = where(e.less(at, points[0]), low, where(e.greater(at, points[-1]), high, inside))
    return cast("Array", result)


def _periodic_points(at: Array, xp: Array, fp: Array, period: float) -> tuple[Array, Array, Array]:
    """The points within one period, with the last before them and the first behind them."""
    at, xp = e.remainder(at, period), e.remainder(xp, period)
    order = argsort(xp)
    xp, fp = take(xp, order), take(fp, order)
    points = concat([e.subtract(xp[-1:], period), xp, e.add(xp[:1], period)])
    return at, points, concat([fp[-1:], fp, fp[:1]])


def _interpolate(at: Array, xp: Array, fp: Array) -> Array:
    """Heights at `at`, which is between the first and the last point."""
    place = e.subtract(searchsorted(xp, at, side="right"), 1)
    place = e.minimum(e.maximum(place, 0), xp.size - 2)
    x1, x2, y1, y2 = (take(v, i) for v in (xp, fp) for i in (place, e.add(place, 1)))
    slope = e.divide(e.subtract(y2, y1), e.subtract(x2, x1))
    ahead = e.add(e.multiply(slope, e.subtract(at, x1)), y1)
    back = e.add(e.multiply(slope, e.subtract(at, x2)), y2)
    value = where(e.logical_or(e.isnan(ahead), e.equal(at, x2)), back, ahead)
    # beside an infinite height: the point's own height, or the one both have
    for known, height in ((e.equal(at, x2), y2), (e.equal(at, x1), y1), (e.equal(y1, y2), y1)):
        value = where(e.logical_and(e.isnan(value), known), height, value)
    return cast("Array", where(e.isnan(at), at, value))


@public()
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """Coefficients, highest power first, of the polynomial of degree `deg` closest to the points.

    `w` weighs the distances.  With `full` the residuals, rank, singular values and `rcond` come
    too; with `cov` the covariances of the coefficients, as they are if it is "unscaled".
    """
    order = as_int(deg, "polyfit", "deg") + 1
    if order < 1:
        raise value_error("polyfit", f"deg is {order - 1}; it must be at least 0")
    at = _line(x, "polyfit", "operand 0")
    at, heights = e.add(at, 0.0), e.add(_array(y, "polyfit", 1), 0.0)
    if not at.size or heights.ndim not in (1, 2) or heights.shape[0] != at.size:
        raise value_error(
            "polyfit",
            f"operand 0 has shape {at.shape} and operand 1 {heights.shape}; accepted: a point or "
            "more, and a vector or matrix of as many rows",
        )
    cutoff = at.size * float(dt.finfo(at.dtype).eps) if rcond is None else rcond
    powers = vander(at, order)
    if w is not None:
        weight = expand_dims(_line(e.add(w, 0.0), "polyfit", "w", at.size), axis=1)
        powers = e.multiply(powers, weight)
        heights = e.multiply(heights, weight if heights.ndim == 2 else weight[:, 0])
    scale = e.sqrt(sum(e.multiply(powers, powers), axis=0))
    powers = e.divide(powers, scale)
    solution, residuals, rank, singular = lstsq(powers, heights, cutoff)
    divisor = scale if heights.ndim == 1 else expand_dims(scale, axis=1)
    fit = e.divide(solution, divisor)
    if full:
        return fit, residuals, rank, singular, cutoff
    if not cov:
        return fit
    spread = e.divide(inv(matmul(powers.T, powers)), e.multiply(scale[:, None], scale[None, :]))
    if cov == "unscaled":
        return fit, spread
    factor = e.divide(residuals, _degrees_of_freedom(at.size, order))
    if heights.ndim == 2:
        spread = expand_dims(spread, axis=2)
    return fit, e.multiply(spread, factor)


def _degrees_of_freedom(count: int, order: int) -> int:
    """How many more points there are than coefficients."""
    if count <= order:
        raise value_error(
            "polyfit",
            f"{count} points came; more than {order} are needed to scale the covariances; "
            'use cov="unscaled"',
        )
    return count - order


# ----------------------------------------------------------------- covariances


def _observations(op: str, m: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: Any) -> Array:
    """The variables as rows, in the dtype the covariance is computed in."""
    given = [_array(v, op, i) for i, v in enumerate((m, y)) if v is not None]
    for position, array in enumerate(given):
        if array.ndim > 2:
            raise value_error(
                op, f"operand {position} has shape {array.shape}; it must have at most two axes"
            )
    if dtype is None:
        wanted = dt.promote(dt.FLOAT64, *(a.dtype for a in given))
    else:
        wanted = as_dtype(dtype, op)
    rows = [
        a.T if not rowvar and a.ndim == 2 and (i == 0 or a.shape[0] != 1) else a
        for i, a in enumerate(given)
    ]
    rows = [reshape(a, (1, a.size)) if a.ndim < 2 else a for a in rows]
    rows = [astype(a, wanted, copy=False) for a in rows]
    if rows[0].shape[1] != rows[-1].shape[1]:
        raise value_error(
            op,
            f"operand 0 has {rows[0].shape[1]} observations and operand 1 {rows[1].shape[1]}; "
            "there must be as many",
        )
    return rows[0] if len(rows) == 1 or not rows[0].shape[0] else concat(rows)


def _weights(x: ArrayLike | None, word: str, count: int) -> Array | None:
    if x is None:
        return None
    weights = _line(x, "cov", word, count)
    check_categories("cov", 0, weights.dtype, dt.REAL)
    value = weights.node.value
    if value is not None and bool((value < 0).any()):
        raise value_error("cov", f"{word} has a negative element; all must be at least 0")
    if value is not None and word == "fweights" and bool((value != np.round(value)).any()):
        raise type_error("cov", "fweights has an element that is no integer; all must be")
    return astype(weights, dt.FLOAT64, copy=False)


@public()
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: Any = None,
) -> Array:
    """Covariances of variables: the rows of `m` and `y`, or their columns if not `rowvar`.

    The divisor is the number of observations less `ddof`, which is 1, or 0 if `bias`.
    `fweights` say how often each observation counts, `aweights` how much.
    """
    rows = _observations("cov", m, y, rowvar, dtype)
    lost = int(not bias) if ddof is None else as_int(ddof, "cov", "ddof")
    count = rows.shape[1]
    if not rows.shape[0]:
        return filled_array(0, (0, 0), rows.dtype, "cov")
    often, much = _weights(fweights, "fweights", count), _weights(aweights, "aweights", count)
    if often is not None and much is not None:
        weights: Array | None = e.multiply(often, much)
    else:
        weights = much if often is None else often
    centred = e.subtract(rows, average(rows, axis=1, weights=weights, keepdims=True))
    weighted = centred if weights is None else e.multiply(centred, weights)
    products = matmul(centred, e.conj(weighted).T)
    return squeeze(e.multiply(products, _inverse_count(count, lost, weights, much)))


def _inverse_count(count: int, lost: int, weights: Array | None, much: Array | None) -> ArrayLike:
    """One over the number of observations less those lost; infinite if none are left."""
    if weights is None:
        return 1 / (count - lost) if count > lost else math.inf
    total = sum(weights)
    if lost == 0:
        left = total
    elif much is None:
        left = e.subtract(total, lost)
    else:
        left = e.subtract(total, e.divide(e.multiply(lost, sum(e.multiply(weights, much))), total))
    return e.divide(1, e.maximum(left, 0))


@public()
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: Any = None
) -> Array:
    """Correlations of variables: the rows of `x` and `y`, or their columns if not `rowvar`."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return e.divide(c, c)
    deviations = e.sqrt(e.real(diagonal(c)))
    scaled = e.divide(e.divide(c, deviations[:, None]), deviations[None, :])
    if c.dtype.kind == "c":
        parts = (e.clip(part(scaled), -1, 1) for part in (e.real, e.imag))
        real, imag = parts
        return e.add(real, e.multiply(imag, 1j))
    return e.clip(scaled, -1, 1)
