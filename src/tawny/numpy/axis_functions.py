"""Functions of whole axes that are built from sums and extremes: softmax, averages, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, store, wrap
from tawny.errors import type_error, value_error, with_location
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import asarray
from tawny.ops.differentiation import stop_gradient
from tawny.ops.movement import broadcast_node, reshape_node, transpose_node
from tawny.ops.precision import in_single
from tawny.ops.reduction import Axis, max, mean, min, sum
from tawny.shape import Shape, normalise_axis, ordered_axes


@public()
@in_single
def softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """`exp(x)` scaled to sum to one along `axis`, without overflow.

    - `x`: the array; integers and booleans are computed in floating point.
    - `axis`: the axis whose elements sum to one.

    Gives an array of the shape of `x`.

        np.softmax([[0.0, 0.0], [1000.0, 0.0]]).numpy().tolist()   # -> [[0.5, 0.5], [1.0, 0.0]]
    """
    weights = e.exp(_subtract_max(x, axis, "softmax"))
    return e.divide(weights, sum(weights, axis=axis, keepdims=True))


@public()
@in_single
def log_softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """Logarithm of `softmax`, accurate also where that is tiny and where `x` is large.

    - `x`: the array; integers and booleans are computed in floating point.
    - `axis`: the axis whose exponentials sum to one.

    Gives an array of the shape of `x`.

        np.log_softmax([1000.0, 0.0]).numpy().tolist()   # -> [0.0, -1000.0]
    """
    shifted = _subtract_max(x, axis, "log_softmax")
    return e.subtract(shifted, e.log(sum(e.exp(shifted), axis=axis, keepdims=True)))


def _subtract_max(x: ArrayLike, axis: int, op: str) -> Array:
    """`x` in floating point, less its greatest element along `axis`.

    Any shift gives the same softmax, so the greatest element counts as a constant.
    """
    given = asarray(x)
    array = asarray(given, dtype=dt.inexact_dtype(given.dtype))
    if not array.shape[normalise_axis(axis, array.ndim, op)]:
        return array
    return e.subtract(array, stop_gradient(max(array, axis=axis, keepdims=True)))


@public()
def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Number of elements over `axis` that are not zero."""
    array = asarray(a)
    return sum(e.not_equal(array, 0), axis=axis, keepdims=keepdims)


@public()
def ptp(a: ArrayLike, axis: Axis = None, out: Out = None, keepdims: bool = False) -> Array:
    """Greatest less least element over `axis`."""
    greatest, least = (extreme(a, axis=axis, keepdims=keepdims) for extreme in (max, min))
    return store(out, e.subtract(greatest, least), "ptp")


@public()
@in_single
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Mean over `axis`, weighted by `weights` of the shape of `a` or of those axes.

    With `returned`, the sum of the weights comes too.
    """
    array = asarray(a)
    if weights is None:
        result = mean(array, axis=axis, keepdims=keepdims)
        total = asarray(array.size / result.size if result.size else 0, dtype=result.dtype)
    else:
        given = asarray(weights)
        _check_weights(given, axis if given.shape == array.shape else None)
        weight = _spread(given, array.shape, axis)
        least = [dt.FLOAT64] if array.dtype.kind in "biu" else []
        common = dt.promote(array.dtype, weight.dtype, *least)
        array, weight = asarray(array, dtype=common), asarray(weight, dtype=common)
        total = sum(weight, axis=axis, keepdims=keepdims)
        result = e.divide(sum(e.multiply(array, weight), axis=axis, keepdims=keepdims), total)
    return (result, wrap(broadcast_node(total.node, result.shape))) if returned else result


def _check_weights(weight: Array, axis: Axis) -> None:
    """Refuse known weights of which some add up to nothing."""
    value = weight.node.value
    if value is not None and not np.all(np.sum(value, axis=axis)):
        raise ZeroDivisionError(with_location("average: weights add up to 0; some must be greater"))


def _spread(weight: Array, shape: Shape, axis: Axis) -> Array:
    """Weights along `axis` as an array of `shape`."""
    if weight.shape == shape:
        return weight
    if axis is None:
        raise type_error(
            "average",
            f"weights have shape {weight.shape} and operand 0 {shape}; axis is needed unless they "
            "are equal",
        )
    axes = ordered_axes(axis if isinstance(axis, tuple) else (axis,), len(shape), "average")
    sizes = tuple(shape[a] for a in axes)
    if weight.shape != sizes:
        raise value_error(
            "average",
            f"weights have shape {weight.shape}; accepted: {shape}, that of operand 0, or {sizes}, "
            f"that of axis {axis}",
        )
    ordered = transpose_node(weight.node, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    aligned = reshape_node(ordered, tuple(n if a in axes else 1 for a, n in enumerate(shape)))
    return wrap(broadcast_node(aligned, shape))
