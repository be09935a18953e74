"""Kernels of sorting, searching and sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.indexing import ArgSort
from tawny.ops.partial_sorting import FirstElements, PartialArgSort, PartialSort
from tawny.ops.sorting import BinCount, Digitize, IsIn, SearchSorted, Sort


@kernel(Sort)
def sort(op: Sort, x: Value) -> Value:
    """NumPy's stable sort, reversed for the descending order."""
    out = np.sort(x, axis=op.axis, kind="stable")
    return np.flip(out, axis=op.axis) if op.descending else out


@kernel(ArgSort)
def argsort(op: ArgSort, x: Value) -> Any:
    """NumPy's stable sort; for the descending order of the reversed array, read backwards."""
    if not op.descending:
        return np.argsort(x, axis=op.axis, kind="stable")
    order = np.argsort(np.flip(x, axis=op.axis), axis=op.axis, kind="stable")
    return x.shape[op.axis] - 1 - np.flip(order, axis=op.axis)


@kernel(PartialSort)
def partial_sort(op: PartialSort, x: Value) -> Value:
    """The beginning of NumPy's."""
    return _first(np.sort(x, axis=op.axis, kind="stable"), op)


@kernel(PartialArgSort)
def partial_argsort(op: PartialArgSort, x: Value) -> Value:
    """The beginning of the whole order."""
    return _first(argsort(ArgSort(op.axis, op.descending), x), op)


def _first(x: Value, op: FirstElements) -> Value:
    return np.ascontiguousarray(np.take(x, range(op.count), axis=op.axis))


@kernel(SearchSorted)
def searchsorted(op: SearchSorted, x: Value, wanted: Value) -> Any:
    """NumPy's own."""
    return np.searchsorted(x, wanted, side="right" if op.right else "left")


@kernel(Digitize)
def digitize(op: Digitize, x: Value, bins: Value) -> Any:
    """NumPy's own."""
    return np.digitize(x, bins, right=op.right)


@kernel(BinCount)
def bincount(op: BinCount, x: Value, weights: Value | None = None) -> Any:
    """NumPy's own; complex weights are added part by part."""
    if x.size and not 0 <= x.min() <= x.max() < op.length:
        raise ValueError(
            f"operand 0 has elements from {x.min()} to {x.max()}; they must be from 0 to "
            f"{op.length - 1}, which the result's length allows"
        )
    places = x.astype(np.int64, copy=False)
    if weights is None or weights.dtype.kind != "c":
        return np.bincount(places, weights, op.length)
    real = np.bincount(places, np.real(weights), op.length)
    return real + 1j * np.bincount(places, np.imag(weights), op.length)


@kernel(IsIn)
def isin(op: IsIn, x: Value, among: Value) -> Any:
    """NumPy's own."""
    return np.isin(x, among, invert=op.invert)
