"""Histograms in one dimension and in several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, is_traced, known_value, lift, value_of, wrap
from tawny.dtype import check_categories
from tawny.errors import type_error, value_error
from tawny.node import constant, make
from tawny.numpy.grids import linspace
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops import reduction
from tawny.ops.creation import asarray, astype, copy
from tawny.ops.joining import stack
from tawny.ops.movement import flatten_node, ravel, reshape
from tawny.ops.reduction import sum
from tawny.ops.sorting import BinCount, searchsorted
from tawny.shape import as_int


def _interval(array: Array, range: tuple[float, float] | None) -> tuple[Any, Any]:
    """The ends of a histogram of equal bins."""
    if range is not None:
        low, high = range
    elif not array.size:
        low, high = 0.0, 1.0
    else:
        values = known_value(array, "histogram", "give range=(low, high), or the edges as bins")
        low, high = values.min(), values.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise value_error("histogram", f"the range from {low} to {high} is not finite")
    if low > high:
        raise value_error("histogram", f"range is {range}; the second must not be less")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _own_dtypes(*numbers: Any) -> list[dt.DType]:
    """The dtypes of those numbers that have one: NumPy's."""
    return [np.asarray(number).dtype for number in numbers if hasattr(number, "dtype")]


def bin_edges(
    array: Array, bins: Any, range: tuple[float, float] | None, weights: ArrayLike | None
) -> Array:
    """The borders of the bins."""
    if isinstance(bins, str):
        return _estimated_edges(array, bins, range, weights)
    edges = wrap(lift(bins, "histogram", 1))
    if not edges.ndim:
        count = as_int(bins, "histogram", "bins")
        if count < 1:
            raise value_error("histogram", f"bins is {count}; there must be at least 1")
        low, high = _interval(array, range)
        wanted = dt.inexact_dtype(dt.promote(array.dtype, *_own_dtypes(low, high)))
        if range is None and is_traced(array.node):
            least, most = reduction.min(array), reduction.max(array)
            beyond = float(value_of(least, "histogram")) - float(low)
            return cast("Array", linspace(least - beyond, most + beyond, count + 1, dtype=wanted))
        if not np.all(np.diff(np.linspace(low, high, count + 1, dtype=wanted)) > 0):
            raise value_error(
                "histogram",
                f"{count} bins from {low} to {high} have no width in {wanted}; use fewer bins, or "
                "a wider range",
            )
        return cast("Array", linspace(float(low), float(high), count + 1, dtype=wanted))
    if edges.ndim != 1 or not edges.size:
        raise value_error(
            "histogram",
            f"bins have shape {edges.shape}; they must be a number or edges on one axis",
        )
    value = edges.node.value
    if value is not None and bool(np.any(value[1:] < value[:-1])):
        raise value_error("histogram", "bins fall somewhere; edges must rise throughout")
    return copy(edges)


def _estimated_edges(
    array: Array, bins: str, range: tuple[float, float] | None, weights: ArrayLike | None
) -> Array:
    """The edges of as many equal bins as a rule finds right for the values."""
    if weights is not None:
        raise type_error(
            "histogram", f"bins is {bins!r}; a rule does not know weights: say how many"
        )
    way_out = "a rule needs the values to say how many bins there are: give their number or edges"
    values = known_value(array, "histogram", way_out)
    try:
        edges = np.histogram_bin_edges(values, bins, range)
    except ValueError as error:
        raise value_error("histogram", str(error)) from None
    return wrap(constant(edges))


@public()
def histogram_bin_edges(
    a: ArrayLike,
    bins: int | str | ArrayLike = 10,
    range: tuple[float, float] | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges that `histogram` uses for the same arguments."""
    return bin_edges(wrap(lift(a, "histogram")), bins, range, weights)


class HistogramResult(NamedTuple):
    """Counts, and the edges of the bins they were counted in."""

    hist: Array
    bin_edges: Array


@public()
def histogram(
    a: ArrayLike,
    bins: int | str | ArrayLike = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> HistogramResult:
    """How many elements fall between each two edges; the last interval includes its end.

    Equal bins need a range: `range`, or the extremes of values that are known.
    """
    array = wrap(flatten_node(lift(a, "histogram")))
    check_categories("histogram", 0, array.dtype, dt.REAL)
    edges = bin_edges(array, bins, range, weights)
    count = edges.size - 1
    place = searchsorted(edges, array, side="right")
    inside = e.logical_and(e.greater_equal(array, edges[0]), e.less_equal(array, edges[-1]))
    # place 1 is the first bin; what is outside goes to an extra bin 0, which is cut off
    place = e.where(inside, e.minimum(place, count), asarray(0))
    if weights is None:
        counts = wrap(make(BinCount(count + 1), (place.node,)))
    else:
        weight = wrap(flatten_node(lift(weights, "histogram", 1)))
        if weight.shape != array.shape:
            raise value_error(
                "histogram", f"weights have {weight.size} elements; operand 0 has {array.size}"
            )
        counts = wrap(make(BinCount(count + 1), (place.node, weight.node)))
    counts = counts[1:]
    if density:
        widths = e.subtract(edges[1:], edges[:-1])
        counts = e.divide(e.divide(counts, astype(widths, dt.FLOAT64)), sum(counts))
    return HistogramResult(counts, edges)


def _columns(sample: Any, op: str) -> list[Array]:
    """The coordinates of points, a vector for each dimension."""
    if isinstance(sample, (Array, np.ndarray)):
        array = wrap(lift(sample, op))
    else:  # a sequence of coordinates
        rows = cast("Sequence[ArrayLike]", sample)
        array = stack([ravel(wrap(lift(x, op, i))) for i, x in enumerate(rows)], 1)
    if array.ndim != 2:
        raise value_error(op, f"operand 0 has shape {array.shape}; it must be (points, dimensions)")
    return [array[:, d] for d in range(array.shape[1])]


def _per_dimension(value: Any, count: int, op: str, word: str) -> list[Any]:
    """One value for each dimension, from one for all or a sequence."""
    if value is None or isinstance(value, (int, np.integer, str)):
        return [cast("Any", value)] * count
    items = list(value)
    if len(items) != count:
        raise value_error(op, f"{word} has {len(items)} items for {count} dimensions")
    return items


def _count_cells(
    op: str,
    columns: list[Array],
    bins: Any,
    range: Any,
    density: bool | None,
    weights: ArrayLike | None,
) -> tuple[Array, list[Array]]:
    """How many points, or what weight, falls into each cell."""
    d = len(columns)
    widths = zip(
        _per_dimension(bins, d, op, "bins"), _per_dimension(range, d, op, "range"), strict=True
    )
    edges = [bin_edges(x, b, r, None) for x, (b, r) in zip(columns, widths, strict=True)]
    cell, inside = asarray(0), asarray(True)
    for x, borders in zip(columns, edges, strict=True):
        count = borders.size - 1
        place = e.subtract(e.minimum(searchsorted(borders, x, "right"), count), 1)
        cell = e.add(e.multiply(cell, count), place)
        within = e.logical_and(e.greater_equal(x, borders[0]), e.less_equal(x, borders[-1]))
        inside = e.logical_and(inside, within)
    shape = tuple([borders.size - 1 for borders in edges])
    # what is outside goes to an extra cell 0, which is cut off
    cell = e.where(inside, e.add(cell, 1), asarray(0))
    operands = [cell.node]
    if weights is not None:
        operands.append(astype(ravel(wrap(lift(weights, op))), dt.FLOAT64, copy=False).node)
    total = wrap(make(BinCount(math.prod(shape) + 1), tuple(operands)))[1:]
    counts = astype(reshape(total, shape), dt.FLOAT64, copy=False)
    if density:
        counts = e.divide(counts, sum(counts))
        for axis, borders in enumerate(edges):
            widths_of = e.subtract(borders[1:], borders[:-1])
            sizes = (*(1,) * axis, -1, *(1,) * (d - axis - 1))
            counts = e.divide(counts, reshape(widths_of, sizes))
    return counts, edges


@public()
def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, list[Array]]:
    """How many points fall into each cell of a grid, and the edges of the grid.

    `sample` has a row for each point, or is a sequence of coordinates.  Equal bins need a `range`
    for each dimension, or values that are known.
    """
    columns = _columns(sample, "histogramdd")
    return _count_cells("histogramdd", columns, bins, range, density, weights)


@public()
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:
    """How many points `x`, `y` fall into each cell of a grid, and the edges along both axes."""
    columns = [wrap(lift(v, "histogram2d", i)) for i, v in enumerate((x, y))]
    if columns[0].shape != columns[1].shape or columns[0].ndim != 1:
        raise value_error(
            "histogram2d",
            f"operands have shapes {columns[0].shape} and {columns[1].shape}; they must be vectors "
            "of the same length",
        )
    given: Any = bins
    one = not isinstance(bins, (int, np.integer, str)) and len(bins) != 2
    if one:  # edges for both axes
        given = [bins, bins]
    counts, edges = _count_cells("histogram2d", columns, given, range, density, weights)
    return counts, edges[0], edges[1]
