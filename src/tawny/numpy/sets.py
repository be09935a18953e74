"""Sets of distinct elements.

How many elements are distinct depends on values, so these functions compute at once, on arrays
that depend on no variable.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from tawny import dtype as dt
from tawny.array import (
    Array,
    ArrayLike,
    is_traced,
    known_value,
    lift,
    value_of,
    wrap,
)
from tawny.node import Value, constant
from tawny.operator import public
from tawny.ops.joining import concat
from tawny.ops.selection import take

_WAY_OUT: Final = (
    "the number of distinct elements must be known: compute it first, or pass it to tw.delay"
)


class UniqueAllResult(NamedTuple):
    """Distinct elements, where each is first, which of them each element is, how often each is."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """Distinct elements, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """Distinct elements, and which of them each element is."""

    values: Array
    inverse_indices: Array


def _sortable_value(x: ArrayLike, op: str, position: int = 0) -> Value:
    """The value of an operand; of 16 bits as float32, since NumPy's sort of it may go wrong."""
    value = known_value(wrap(lift(x, op, position)), op, _WAY_OUT)
    return value.astype(dt.FLOAT32) if dt.is_half(value.dtype) else value


def _restore_half(value: Value, *operands: ArrayLike) -> Value:
    """What was found among operands, in 16 bits if their common dtype has those."""
    common = dt.promote(*[lift(x, "unique").dtype for x in operands])
    return value.astype(common) if dt.is_half(common) else value


def _constant(value: Any) -> Array:
    return wrap(constant(np.array(value)))


def _elements(value: Value, *sources: ArrayLike) -> Array:
    """`value`, whose elements are among those of `sources`.

    Where these are being differentiated it is taken from there, so that slopes go back: each to
    the first of equal elements.
    """
    arrays = [wrap(lift(x, "unique")) for x in sources]
    if not any(is_traced(a.node) for a in arrays):
        return _constant(value)
    all_elements = concat(arrays, axis=None)
    distinct, first = np.unique(value_of(all_elements, "unique"), return_index=True)
    return take(all_elements, wrap(constant(first[np.searchsorted(distinct, value)])))


@public()
def unique_all(x: ArrayLike) -> UniqueAllResult:
    """Distinct elements in order, their first places, the inverse and the counts; NaNs differ."""
    values, *others = np.unique_all(_sortable_value(x, "unique_all"))
    return UniqueAllResult(_elements(_restore_half(values, x), x), *map(_constant, others))


@public()
def unique_counts(x: ArrayLike) -> UniqueCountsResult:
    """Distinct elements in order, and how often each occurs; NaNs differ."""
    values, counts = np.unique_counts(_sortable_value(x, "unique_counts"))
    return UniqueCountsResult(_elements(_restore_half(values, x), x), _constant(counts))


@public()
def unique_inverse(x: ArrayLike) -> UniqueInverseResult:
    """Distinct elements in order, and which of them each element is; NaNs differ."""
    values, inverse = np.unique_inverse(_sortable_value(x, "unique_inverse"))
    return UniqueInverseResult(_elements(_restore_half(values, x), x), _constant(inverse))


@public()
def unique_values(x: ArrayLike) -> Array:
    """Distinct elements in order; NaNs differ."""
    values = np.unique(_sortable_value(x, "unique_values"), equal_nan=False)
    return _elements(_restore_half(values, x), x)


@public()
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """Distinct elements in order, or slices along `axis`, with the extra results asked for.

    They are in order, be they asked to be `sorted` or not.
    """
    del sorted
    distinct: Any = np.unique
    array = wrap(lift(ar, "unique"))
    values, first, inverse, counts = distinct(
        _sortable_value(array, "unique"),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis,
        equal_nan=equal_nan,
    )
    result = (
        take(array, _constant(first), axis=axis)
        if is_traced(array.node)
        else _constant(_restore_half(values, array))
    )
    asked = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    further = tuple(_constant(v) for wanted, v in asked if wanted)
    return (result, *further) if further else result


@public()
def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """Distinct elements that are in either, in order."""
    values = np.union1d(_sortable_value(ar1, "union1d"), _sortable_value(ar2, "union1d", 1))
    return _elements(_restore_half(values, ar1, ar2), ar1, ar2)


@public()
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Distinct elements that are in both, in order, and where each is first if asked for."""
    first, second = _sortable_value(ar1, "intersect1d"), _sortable_value(ar2, "intersect1d", 1)
    if return_indices:
        values, *places = np.intersect1d(first, second, assume_unique, return_indices=True)
        return _elements(_restore_half(values, ar1, ar2), ar1), *map(_constant, places)
    return _elements(_restore_half(np.intersect1d(first, second, assume_unique), ar1, ar2), ar1)


@public()
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Distinct elements of `ar1` that are not in `ar2`, in order."""
    first, second = _sortable_value(ar1, "setdiff1d"), _sortable_value(ar2, "setdiff1d", 1)
    return _elements(_restore_half(np.setdiff1d(first, second, assume_unique), ar1), ar1)


@public()
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Distinct elements that are in one of the two only, in order."""
    first, second = _sortable_value(ar1, "setxor1d"), _sortable_value(ar2, "setxor1d", 1)
    values = np.setxor1d(first, second, assume_unique)
    return _elements(_restore_half(values, ar1, ar2), ar1, ar2)
