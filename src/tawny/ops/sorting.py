"""Sorting, searching, order statistics and histograms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from tawny import dtype as dt
from tawny.array import (
    Array,
    ArrayLike,
    Weak,
    is_traced,
    known_value,
    lift,
    lift_all,
    value_of,
    wrap,
)
from tawny.dtype import DType, check_categories
from tawny.errors import type_error, value_error
from tawny.named import NamedTuple
from tawny.node import Node, make
from tawny.op import Gradient, Op, Overwrites
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops import reduction
from tawny.ops.creation import Cast, asarray, astype, copy, linspace
from tawny.ops.indexing import take, take_along_axis
from tawny.ops.movement import flattened
from tawny.ops.reduction import sum
from tawny.shape import Shape, as_int, as_shape, normalise_axis


class TopKResult(NamedTuple):
    """Extreme elements, most extreme first, and their places."""

    values: Array
    indices: Array


class Sort(
    Op, name="sort", overwrites=Overwrites.SAME_SIZE, oracle="numpy.sort", gradient=Gradient.RULE
):
    """Elements in order along `axis`, NaN last; the reverse of that if `descending`."""

    axis: int
    descending: bool


class ArgSort(Op, name="argsort", gradient=Gradient.ZERO, oracle="numpy.argsort"):
    """Indices that sort along `axis`, equal elements in the order they came."""

    axis: int
    descending: bool

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.INT64


class SearchSorted(
    Op, name="searchsorted", arity=2, gradient=Gradient.ZERO, oracle="numpy.searchsorted"
):
    """Where in the sorted operand 0 each element of operand 1 belongs.

    Before its equals, or behind them if `right`.
    """

    right: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        if len(shapes[0]) != 1:
            raise value_error(
                "searchsorted", f"operand 0 has shape {shapes[0]}; it must have one axis"
            )
        return shapes[1]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.INT64


class Digitize(Op, name="digitize", arity=2, gradient=Gradient.ZERO, oracle="numpy.digitize"):
    """The number of the interval each element falls in; the edges rise or fall throughout."""

    right: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        if len(shapes[1]) != 1:
            raise value_error("digitize", f"bins have shape {shapes[1]}; they must have one axis")
        return shapes[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        check_categories("digitize", 0, dtypes[0], dt.REAL)
        check_categories("digitize", 1, dtypes[1], dt.REAL)
        return dt.INT64


class BinCount(Op, name="bincount", arity=None, oracle="numpy.bincount", gradient=Gradient.LINEAR):
    """How often each of the first `length` integers occurs, or the sum of its weights."""

    length: int

    def infer_shape(self, *shapes: Shape) -> Shape:
        if len(shapes[0]) != 1 or shapes[0] != shapes[-1]:
            raise value_error(
                "bincount",
                f"operand 0 has shape {shapes[0]}; it must have one axis, and weights its shape "
                f"(theirs is {shapes[-1]})",
            )
        return (self.length,)

    def infer_dtype(self, *dtypes: DType) -> DType:
        check_categories("bincount", 0, dtypes[0], dt.BOOLEAN | dt.INTEGER)
        return dtypes[1] if len(dtypes) > 1 else dt.INT64


# --------------------------------------------------------------------- sorting


def _along(x: ArrayLike, axis: int | None, op: str) -> tuple[Node, int]:
    """The node and its axis; the flattened node when there is none."""
    node = lift(x, op)
    if axis is None:
        return flattened(node), 0
    return node, normalise_axis(axis, len(node.shape), op)


def _check_kind(op: str, kind: object) -> None:
    """Accept NumPy's names of algorithms, all of which a stable sort satisfies."""
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
        raise value_error(
            op, f"kind is {kind!r}; accepted: 'quicksort', 'mergesort', 'heapsort', 'stable'"
        )


@public()
def sort(
    x: ArrayLike,
    /,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
    kind: str | None = None,
) -> Array:
    """Elements in order along `axis`, NaN at the greater end; always stable."""
    del stable
    _check_kind("sort", kind)
    node, place = _along(x, axis, "sort")
    return wrap(make(Sort(place, bool(descending)), (node,)))


@public()
def argsort(
    x: ArrayLike,
    /,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
    kind: str | None = None,
) -> Array:
    """Indices that sort along `axis`; equal elements keep their order."""
    del stable
    _check_kind("argsort", kind)
    node, place = _along(x, axis, "argsort")
    return wrap(make(ArgSort(place, bool(descending)), (node,)))


@public()
def lexsort(keys: Iterable[ArrayLike], axis: int = -1) -> Array:
    """Indices that sort by the last of `keys`, equal elements by the one before it, and so on."""
    columns = [asarray(k) for k in keys]
    if not columns:
        raise type_error("lexsort", "there are no keys; at least one is needed")
    for position, key in enumerate(columns):
        if key.shape != columns[0].shape:
            raise value_error(
                "lexsort",
                f"key {position} has shape {key.shape}; all must have that of the first, "
                f"{columns[0].shape}",
            )
    order = argsort(columns[0], axis=axis)
    for key in columns[1:]:
        step = argsort(take_along_axis(key, order, axis=axis), axis=axis)
        order = take_along_axis(order, step, axis=axis)
    return order


@public()
def partition(x: ArrayLike, /, kth: int | Sequence[int], axis: int | None = -1) -> Array:
    """Elements along `axis` so that the `kth` are where sorting puts them; all are sorted here."""
    node, place = _along(x, axis, "partition")
    _check_kth("partition", kth, node.shape[place])
    return wrap(make(Sort(place, descending=False), (node,)))


@public()
def argpartition(x: ArrayLike, /, kth: int | Sequence[int], axis: int | None = -1) -> Array:
    """Indices that put the `kth` elements where sorting puts them; here they sort all."""
    node, place = _along(x, axis, "argpartition")
    _check_kth("argpartition", kth, node.shape[place])
    return wrap(make(ArgSort(place, descending=False), (node,)))


def _check_kth(op: str, kth: int | Sequence[int], n: int) -> None:
    for k in kth if isinstance(kth, (list, tuple)) else (kth,):
        if not -n <= as_int(k, op, "kth") < n:
            raise value_error(op, f"kth is {k}; it must be from {-n} to {n - 1}")


@public()
def top_k(x: ArrayLike, k: int, /, *, axis: int = -1, largest: bool = True) -> TopKResult:
    """The `k` greatest (or least) elements along `axis`, most extreme first, and their places."""
    array = wrap(lift(x, "top_k"))
    place = normalise_axis(axis, array.ndim, "top_k")
    count = as_int(k, "top_k", "k")
    if not 0 <= count <= array.shape[place]:
        raise value_error(
            "top_k",
            f"k is {count}; it must be from 0 to {array.shape[place]}, the size of axis {axis}",
        )
    order = argsort(array, axis=place, descending=largest)
    chosen = order[(slice(None),) * place + (slice(0, count),)]
    return TopKResult(take_along_axis(array, chosen, axis=place), chosen)


# ------------------------------------------------------------------- searching


@public()
def searchsorted(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> Array:
    """Where in the sorted `x1` each element of `x2` belongs, before or behind its equals.

    `sorter` gives the indices that sort an `x1` which is not.
    """
    if side not in ("left", "right"):
        raise value_error("searchsorted", f"side is {side!r}; accepted: 'left', 'right'")
    ordered, wanted = lift_all("searchsorted", (x1, x2), weak=Weak.COMPARES)
    if sorter is not None:
        ordered = take(wrap(ordered), sorter).node
    return wrap(make(SearchSorted(side == "right"), (ordered, wanted)))


@public()
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """The number of the interval of `bins` each element falls in; `right` closes them there."""
    return wrap(make(Digitize(bool(right)), lift_all("digitize", (x, bins), weak=Weak.COMPARES)))


# ------------------------------------------------------------------- histograms


@public()
def bincount(
    x: ArrayLike,
    /,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Array:
    """How often each integer from 0 occurs, or the sum of its `weights`.

    The result is as long as the greatest element asks for, which must be known; `length` says it
    for an array whose values come later.
    """
    array = wrap(lift(x, "bincount"))
    check_categories("bincount", 0, array.dtype, dt.BOOLEAN | dt.INTEGER)
    (least,) = as_shape(as_int(minlength, "bincount", "minlength"), "bincount", "minlength")
    if length is None:
        way_out = "say how long the result is with length="
        values = known_value(array, "bincount", way_out)
        if values.size and values.min() < 0:
            raise value_error("bincount", f"operand 0 has a negative element, {values.min()}")
        total = max(least, int(values.max()) + 1 if values.size else 0)
    else:
        (total,) = as_shape(as_int(length, "bincount", "length"), "bincount", "length")
    if weights is None:
        return wrap(make(BinCount(total), (array.node,)))
    weight = lift(weights, "bincount", 1)
    check_categories("bincount", 1, weight.dtype, dt.REAL)
    if weight.dtype != dt.FLOAT64:
        weight = make(Cast(dt.FLOAT64), (weight,))
    return wrap(make(BinCount(total), (array.node, weight)))


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


def _edges(array: Array, bins: Any, range: tuple[float, float] | None) -> Array:
    """The borders of the bins."""
    edges = wrap(lift(bins, "histogram", 1))
    if not edges.ndim:
        count = as_int(bins, "histogram", "bins")
        if count < 1:
            raise value_error("histogram", f"bins is {count}; there must be at least 1")
        low, high = _interval(array, range)
        kind = np.result_type(low, high, array.dtype)
        wanted = np.result_type(kind, float) if kind.kind in "iub" else kind
        if range is None and is_traced(array.node):
            least, most = reduction.min(array), reduction.max(array)
            beyond = float(value_of(least, "histogram")) - float(low)
            return linspace(least - beyond, most + beyond, count + 1, dtype=wanted)
        return linspace(float(low), float(high), count + 1, dtype=wanted)
    if edges.ndim != 1 or not edges.size:
        raise value_error(
            "histogram",
            f"bins have shape {edges.shape}; they must be a number or edges on one axis",
        )
    value = edges.node.value
    if value is not None and bool(np.any(value[1:] < value[:-1])):
        raise value_error("histogram", "bins fall somewhere; edges must rise throughout")
    return copy(edges)


@public()
def histogram_bin_edges(
    x: ArrayLike, /, bins: int | ArrayLike = 10, range: tuple[float, float] | None = None
) -> Array:
    """The edges that `histogram` uses for the same arguments."""
    return _edges(wrap(lift(x, "histogram")), bins, range)


class HistogramResult(NamedTuple):
    """Counts, and the edges of the bins they were counted in."""

    hist: Array
    bin_edges: Array


@public()
def histogram(
    x: ArrayLike,
    /,
    bins: int | ArrayLike = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> HistogramResult:
    """How many elements fall between each two edges; the last interval includes its end.

    Equal bins need a range: `range`, or the extremes of values that are known.
    """
    array = wrap(flattened(lift(x, "histogram")))
    check_categories("histogram", 0, array.dtype, dt.REAL)
    edges = _edges(array, bins, range)
    count = edges.size - 1
    place = searchsorted(edges, array, side="right")
    inside = e.logical_and(e.greater_equal(array, edges[0]), e.less_equal(array, edges[-1]))
    # place 1 is the first bin; what is outside goes to an extra bin 0, which is cut off
    place = e.where(inside, e.minimum(place, count), asarray(0))
    if weights is None:
        counts = wrap(make(BinCount(count + 1), (place.node,)))
    else:
        weight = wrap(flattened(lift(weights, "histogram", 1)))
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
