"""Structures of arrays as one long vector (products, norms, multiples), and as variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import DType
from tawny.ops.creation import var
from tawny.ops.precision import widen
from tawny.tree import leaf_paths, leaves, map_leaves, map_together, unflatten

Number = float | Array
"""A Python number, or an array without axes."""


def dot(a: Any, b: Any) -> Array:
    """The sum of the products of all elements."""
    pairs = zip(leaves(a), leaves(b), strict=True)
    return total([np.sum(widen(x) * widen(y)) for x, y in pairs])


def squared_norm(a: Any) -> Array:
    """The sum of the squares of all elements."""
    return total([np.sum(np.square(widen(x))) for x in leaves(a)])


def max_magnitude(a: Any) -> Array:
    """The greatest magnitude of all elements; NaN if one is NaN."""
    sizes = [np.max(np.abs(x)) for x in leaves(a) if x.size]
    return np.max(np.stack(sizes)) if sizes else np.zeros(())


def total(terms: list[Array]) -> Array:
    """The sum of numbers; 0 without any."""
    total = terms[0] if terms else np.zeros(())
    for term in terms[1:]:
        total = total + term
    return total


def negate(a: Any) -> Any:
    """Every element with the other sign."""
    return map_leaves(lambda x: -x, a)


def add_scaled(a: Any, factor: Number, b: Any) -> Any:
    """`a + factor * b`, in the dtypes of `a`."""

    def sum_of(x: Array, y: Any) -> Array:
        scaled: Array = cast_number(factor, x.dtype) * y
        return x + scaled

    return map_together(sum_of, a, b)


def difference(a: Any, b: Any) -> Any:
    """`a - b`."""
    return add_scaled(a, -1.0, b)


def ratio(above: Array, below: Array) -> Array:
    """`above / below`; 0 where that is no number because `below` is 0."""
    given = below != 0
    safe = np.where(given, below, np.ones_like(below))
    quotient: Array = np.where(given, above / safe, np.zeros_like(below))
    return quotient


def cast_number(number: Number, dtype: DType) -> Any:
    """A number that computes in `dtype` beside arrays of it."""
    return np.astype(number, dtype) if isinstance(number, Array) else number


def flatten(structure: Any) -> tuple[Array, Callable[[Array], Any]]:
    """All elements in one vector, and the way back into the structure."""
    parts = [np.asarray(x) for x in leaves(structure)]
    joined = np.concatenate([np.reshape(x, (-1,)) for x in parts])

    def back(vector: Array) -> Any:
        start = 0
        out: list[Array] = []
        for part in parts:
            piece = vector[start : start + part.size]
            out.append(np.reshape(np.astype(piece, part.dtype), part.shape))
            start += part.size
        return unflatten(structure, out)

    return joined, back


def variables_for(structure: Any, prefix: str) -> Any:
    """A variable for each array, called by its path."""
    named = leaf_paths(structure, prefix)
    return unflatten(structure, [var(name, shape=a.shape, dtype=a.dtype) for name, a in named])
