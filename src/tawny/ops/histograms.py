"""Histograms in several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.errors import value_error
from tawny.node import make
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray, astype
from tawny.ops.joining import stack
from tawny.ops.movement import ravel, reshape
from tawny.ops.reduction import sum
from tawny.ops.sorting import BinCount, bin_edges, searchsorted


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


def _counted(
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
    return _counted("histogramdd", columns, bins, range, density, weights)


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
    counts, edges = _counted("histogram2d", columns, given, range, density, weights)
    return counts, edges[0], edges[1]
