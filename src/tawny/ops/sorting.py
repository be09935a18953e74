"""Sorting, searching, membership and counting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from tawny import dtype as dt
from tawny.array import (
    Array,
    ArrayLike,
    Weak,
    known_value,
    lift,
    lift_all,
    wrap,
)
from tawny.attributes import Natural
from tawny.dtype import DType, check_categories
from tawny.errors import type_error, value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Gradient, Op, Overwrites
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.bounds import CheckedIndices
from tawny.ops.creation import Arange, Cast, asarray, astype, cast_node
from tawny.ops.indexing import ArgSort, scatter_add, take_node
from tawny.ops.joining import Concat
from tawny.ops.movement import (
    batch_size,
    expand_node,
    flatten_node,
    repeat_in_batch,
    reshape_node,
)
from tawny.ops.reduction import AnyTrue
from tawny.ops.selection import along_axis, take, take_along_axis
from tawny.shape import Shape, as_int, as_shape, normalise_axis, size


class TopKResult(NamedTuple):
    """Extreme elements, most extreme first, and their places."""

    values: Array
    indices: Array


class Sort(Op, name="sort", overwrites=Overwrites.SAME_SIZE, oracle="numpy.sort"):
    """Elements in order along `axis`, NaN last; the reverse of that if `descending`."""

    axis: int
    descending: bool

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """Each cotangent goes where its element came from; equal ones came in their own order."""
        order = make(ArgSort(self.axis, self.descending), (x.node,))
        places = along_axis(x.node, order, self.axis, "sort")
        return wrap(scatter_add(cotangent.node, x.shape, tuple(range(x.ndim)), 0, places))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(Sort(self.axis + 1, self.descending), (operands[0].node,))

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """As many comparisons for each element as halvings of the axis."""
        return size(result) * max(result[self.axis].bit_length(), 1)


class SearchSorted(
    Op, name="searchsorted", arity=2, gradient=Gradient.ZERO, oracle="numpy.searchsorted"
):
    """For each element of operand 1, where it belongs in the sorted operand 0.

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

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Wanted elements are sorted among those of their own array, if each has another."""
        (x, batched), wanted = operands
        if not batched:
            return make(self, (x, wanted.node))
        found = repeat_in_batch(wanted, x.shape[0])
        flat = reshape_node(found, (x.shape[0], size(found.shape[1:])))
        return reshape_node(_search_rows(x, flat, self.right), found.shape)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """As many comparisons for each element as halvings of operand 0."""
        return size(result) * max(size(operands[0]).bit_length(), 1)


def _search_rows(rows: Node, wanted: Node, right: bool) -> Node:
    """Where in each sorted row the elements of a row of `wanted` belong.

    A stable sort of both gives each a place, among its own kind too; what comes first stands
    before its equals.
    """
    count = wanted.shape[1]
    pair = (rows, wanted) if right else (wanted, rows)
    among_all = wrap(_rank_rows(make(Concat(1), pair)))
    placed = among_all[:, -count:] if right and count else among_all[:, :count]
    return e.subtract(placed, wrap(_rank_rows(wanted))).node


def _rank_rows(x: Node) -> Node:
    """The place of each element of a row when the row is sorted; equal ones keep their order."""
    order = ArgSort(1, descending=False)
    return make(order, (make(order, (x,)),))


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

    def batch(self, operands: Sequence[BatchOperand]) -> Node | None:
        """Not where each has bins of its own, which may rise or fall."""
        x, bins = operands
        return None if bins.batched else make(self, (x.node, bins.node))


class IsIn(Op, name="isin", arity=2, gradient=Gradient.ZERO, oracle="numpy.isin"):
    """Whether each element of operand 0 occurs in operand 1, or does not if `invert`."""

    invert: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.BOOL

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Where each has others to occur in, all are compared."""
        x, (others, batched) = operands
        if not batched:
            return make(self, (x.node, others))
        count = others.shape[0]
        rank = len(x.node.shape) - x.batched
        flat = reshape_node(others, (count, *(1,) * rank, size(others.shape[1:])))
        each = wrap(expand_node(repeat_in_batch(x, count), (rank + 1,)))
        found = make(AnyTrue((rank + 1,), False), (e.equal(each, wrap(flat)).node,))
        return e.logical_not(wrap(found)).node if self.invert else found


class BinCount(Op, name="bincount", arity=None, oracle="numpy.bincount", gradient=Gradient.LINEAR):
    """For each of the first `length` integers, how often it occurs, or the sum of its weights."""

    length: Natural

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

    def operand_counts(self) -> Sequence[int]:
        return 1, 2

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Integers of each are counted in bins of their own, behind those of the one before."""
        count = batch_size(operands)
        x, *weights = [repeat_in_batch(x, count) for x in operands]
        checked = make(CheckedIndices(self.length, "bincount"), (cast_node(x, dt.INT64),))
        firsts = make(Arange(0, max(self.length, 1), count, dt.INT64))
        places = e.add(wrap(checked), wrap(reshape_node(firsts, (count, 1))))
        flat = [flatten_node(n) for n in (places.node, *weights)]
        made = make(BinCount(count * self.length), tuple(flat))
        return reshape_node(made, (count, self.length))

    def pullback(
        self, cotangent: Array, result: Array, x: Array, *weights: Array
    ) -> list[Array | None]:
        """The cotangent of a weight is that of its bin."""
        if not weights:
            return [None]
        places = astype(x, dt.INT64, copy=False) if x.dtype == dt.BOOL else x
        return [None, wrap(take_node(cotangent.node, 0, places.node))]


# --------------------------------------------------------------------- sorting


def _node_and_axis(
    x: ArrayLike, axis: int | None, op: str, number: bool = False
) -> tuple[Node, int]:
    """The node and its axis; the flattened node when there is none.

    A `number` may be looked at along its axis 0 or -1.
    """
    node = lift(x, op)
    if axis is None or (number and not node.shape):
        return flatten_node(node), normalise_axis(axis or 0, 1, op)
    return node, normalise_axis(axis, len(node.shape), op)


KINDS: Final = ("quicksort", "mergesort", "heapsort", "stable")
"""NumPy's names of algorithms, all of which a stable sort satisfies."""


def _check_kind(op: str, kind: Any, stable: object, order: object) -> None:
    """Accept NumPy's algorithms by the first letters of their names."""
    if kind is not None:
        known = isinstance(kind, str) and kind and any(k.startswith(kind.lower()) for k in KINDS)
        if not known:
            raise value_error(op, f"kind is {kind!r}; accepted: {', '.join(map(repr, KINDS))}")
        if stable is not None:
            raise value_error(op, "kind and stable came; give one of them")
    check_no_fields(order, op)


def check_no_fields(order: object, op: str) -> None:
    """Refuse names of fields, which no array here has."""
    if order is not None:
        raise value_error(op, f"order is {order!r}; accepted: None: no array has fields")


@public()
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array:
    """Elements in order along `axis`, NaN at the greater end; always stable."""
    _check_kind("sort", kind, stable, order)
    node, place = _node_and_axis(a, axis, "sort")
    return wrap(make(Sort(place, bool(descending)), (node,)))


@public()
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array:
    """Indices that sort along `axis`; equal elements keep their order."""
    _check_kind("argsort", kind, stable, order)
    node, place = _node_and_axis(a, axis, "argsort", number=True)
    return wrap(make(ArgSort(place, bool(descending)), (node,)))


@public()
def sort_complex(a: ArrayLike) -> Array:
    """The elements in order along the last axis, as complex numbers."""
    ordered = sort(wrap(lift(a, "sort_complex")))
    if ordered.dtype.kind == "c":
        return ordered
    small = (dt.INT8, dt.UINT8, dt.INT16, dt.UINT16, dt.FLOAT32)
    narrow = ordered.dtype in small or dt.is_half(ordered.dtype)
    return astype(ordered, dt.COMPLEX64 if narrow else dt.COMPLEX128)


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
def partition(
    a: ArrayLike, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None
) -> Array:
    """Elements along `axis` so that the `kth` are where sorting puts them; all are sorted here."""
    _check_selection("partition", kind, order)
    node, place = _node_and_axis(a, axis, "partition")
    _check_kth("partition", kth, node.shape[place])
    return wrap(make(Sort(place, descending=False), (node,)))


@public()
def argpartition(
    a: ArrayLike, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None
) -> Array:
    """Indices that put the `kth` elements where sorting puts them; here they sort all."""
    _check_selection("argpartition", kind, order)
    node, place = _node_and_axis(a, axis, "argpartition", number=True)
    _check_kth("argpartition", kth, node.shape[place])
    return wrap(make(ArgSort(place, descending=False), (node,)))


def _check_selection(op: str, kind: object, order: object) -> None:
    if not isinstance(kind, str) or not "introselect".startswith(kind.lower()):
        raise value_error(op, f"kind is {kind!r}; accepted: 'introselect'")
    check_no_fields(order, op)


def _check_kth(op: str, kth: Any, n: int) -> None:
    places = known_value(wrap(lift(kth, op, 1)), op, "the places must be known")
    if places.dtype.kind not in "iu" and places.size:
        raise type_error(op, f"kth has dtype {places.dtype}; accepted: integers")
    if n and places.size and not -n <= places.min() <= places.max() < n:
        raise value_error(op, f"kth is {kth}; it must be from {-n} to {n - 1}")


@public()
def top_k(x: ArrayLike, k: int, /, *, axis: int = -1, largest: bool = True) -> TopKResult:
    """The greatest (or least) elements along an axis, most extreme first, and their places.

    - `x`: the array.
    - `k`: how many, at most the size of the axis.
    - `axis`: the axis to search along.
    - `largest`: False gives the least elements.

    Gives a named tuple `(values, indices)`.

        values, places = np.top_k([3, 1, 2], 2)
        values.numpy().tolist(), places.numpy().tolist()   # -> ([3, 2], [0, 2])
    """
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
    a: ArrayLike,
    v: ArrayLike,
    side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> Array:
    """Where in the sorted `a` each element of `v` belongs, before or behind its equals.

    `sorter` gives the indices that sort an `a` which is not.
    """
    if side not in ("left", "right"):
        raise value_error("searchsorted", f"side is {side!r}; accepted: 'left', 'right'")
    ordered, wanted = lift_all("searchsorted", (a, v), weak=Weak.COMPARES)
    if sorter is not None:
        order = lift(sorter, "searchsorted", 3)
        if order.shape != ordered.shape:
            raise value_error(
                "searchsorted",
                f"sorter has shape {order.shape}; it must be that of operand 0, {ordered.shape}",
            )
        ordered = take(wrap(ordered), wrap(order)).node
    return wrap(make(SearchSorted(side == "right"), (ordered, wanted)))


@public()
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """The number of the interval of `bins` each element falls in; `right` closes them there."""
    return wrap(make(Digitize(bool(right)), lift_all("digitize", (x, bins), weak=Weak.COMPARES)))


# ------------------------------------------------------------------- histograms


@public()
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Array:
    """Whether each element of `element` occurs in `test_elements`, or does not if `invert`."""
    del assume_unique
    if kind not in (None, "sort", "table"):
        raise value_error("isin", f"kind is {kind!r}; accepted: None, 'sort', 'table'")
    return wrap(
        make(IsIn(bool(invert)), lift_all("isin", (element, test_elements), weak=Weak.COMPARES))
    )


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
    if not array.size and not isinstance(x, (Array, np.ndarray)):
        array = astype(array, dt.INT64, copy=False)
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
