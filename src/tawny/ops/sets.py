"""Sets: distinct elements and membership.

How many elements are distinct depends on values, so all but `isin` compute at once, on arrays
that depend on no variable.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Weak, fresh, known_value, lift, lift_all, wrap
from tawny.dtype import DType
from tawny.node import Value, constant, make
from tawny.op import Gradient, Op
from tawny.operator import public
from tawny.shape import Shape

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


class IsIn(Op, name="isin", arity=2, gradient=Gradient.ZERO, oracle="numpy.isin"):
    """Whether each element of operand 0 occurs in operand 1, or does not if `invert`."""

    invert: bool

    def infer_shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.BOOL


@public()
def isin(x1: ArrayLike, x2: ArrayLike, /, *, invert: bool = False) -> Array:
    """Whether each element of `x1` occurs in `x2`, or does not if `invert`."""
    return wrap(make(IsIn(bool(invert)), lift_all("isin", (x1, x2), weak=Weak.COMPARES)))


def _known(x: ArrayLike, op: str, position: int = 0) -> Value:
    return known_value(wrap(lift(x, op, position)), op, _WAY_OUT)


def _constant(value: Any) -> Array:
    return fresh(constant(np.array(value)))


@public()
def unique_all(x: ArrayLike, /) -> UniqueAllResult:
    """Distinct elements in order, their first places, the inverse and the counts; NaNs differ."""
    return UniqueAllResult(*map(_constant, np.unique_all(_known(x, "unique_all"))))


@public()
def unique_counts(x: ArrayLike, /) -> UniqueCountsResult:
    """Distinct elements in order, and how often each occurs; NaNs differ."""
    return UniqueCountsResult(*map(_constant, np.unique_counts(_known(x, "unique_counts"))))


@public()
def unique_inverse(x: ArrayLike, /) -> UniqueInverseResult:
    """Distinct elements in order, and which of them each element is; NaNs differ."""
    return UniqueInverseResult(*map(_constant, np.unique_inverse(_known(x, "unique_inverse"))))


@public()
def unique_values(x: ArrayLike, /) -> Array:
    """Distinct elements in order; NaNs differ."""
    return _constant(np.unique(_known(x, "unique_values"), equal_nan=False))


@public()
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """Distinct elements in order, or slices along `axis`, with the extra results asked for."""
    distinct: Any = np.unique
    result: Any = distinct(
        _known(ar, "unique"),
        return_index=return_index,
        return_inverse=return_inverse,
        return_counts=return_counts,
        axis=axis,
        equal_nan=equal_nan,
    )
    if return_index or return_inverse or return_counts:
        return tuple(map(_constant, result))
    return _constant(result)


@public()
def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """Distinct elements that are in either, in order."""
    return _constant(np.union1d(_known(ar1, "union1d"), _known(ar2, "union1d", 1)))


@public()
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Distinct elements that are in both, in order, and where each is first if asked for."""
    first, second = _known(ar1, "intersect1d"), _known(ar2, "intersect1d", 1)
    if return_indices:
        found = np.intersect1d(first, second, assume_unique, return_indices=True)
        return tuple(map(_constant, found))
    return _constant(np.intersect1d(first, second, assume_unique))


@public()
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Distinct elements of `ar1` that are not in `ar2`, in order."""
    first, second = _known(ar1, "setdiff1d"), _known(ar2, "setdiff1d", 1)
    return _constant(np.setdiff1d(first, second, assume_unique))


@public()
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Distinct elements that are in one of the two only, in order."""
    first, second = _known(ar1, "setxor1d"), _known(ar2, "setxor1d", 1)
    return _constant(np.setxor1d(first, second, assume_unique))
