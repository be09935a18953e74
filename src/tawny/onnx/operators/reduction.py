"""Operators that fold axes: sums, norms, extrema and their places, running sums, softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import INT64, kind_of
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import select
from tawny.onnx.table import OPERATORS, operator

Reduction = Callable[[Array, tuple[int, ...], bool], Array]


def total(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """The sum, of the dtype of the operand."""
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def average(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """The mean, of the dtype of the operand."""
    return np.mean(x, axis=axes, keepdims=keepdims).astype(x.dtype)


def _square_total(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return total(x * x, axes, keepdims)


def _norm(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if x.dtype.kind in "iu":
        return np.sqrt(total(x.astype("float64") ** 2, axes, keepdims)).astype(x.dtype)
    return np.sqrt(_square_total(x, axes, keepdims))


def _log_total(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.log(total(x, axes, keepdims)).astype(x.dtype)


def _log_exponential_total(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if not prod(x.shape):
        return _log_total(np.exp(x), axes, keepdims)
    return np.logsumexp(x, axis=axes, keepdims=keepdims).astype(x.dtype)


def extreme(greatest: bool) -> Reduction:
    """The greatest or the least element; of nothing, what loses to every other."""

    def fold(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
        function = np.max if greatest else np.min
        if x.dtype.kind == "b":
            return (np.any if greatest else np.all)(x, axis=axes, keepdims=keepdims)
        if prod(x.shape[a] for a in axes):
            return function(x, axis=axes, keepdims=keepdims)
        if kind_of(x.dtype) == "f":
            worst: float = -np.inf if greatest else np.inf
        else:
            info = np.iinfo(x.dtype)
            worst = info.min if greatest else info.max
        return function(x, axis=axes, keepdims=keepdims, initial=worst)

    return fold


def reduction(function: Reduction, axes_since: int) -> Callable[[NodeCall], Array]:
    """The meaning of a fold whose axes are an operand from a version on."""

    def meaning(call: NodeCall) -> Array:
        x, axes = call.array(0), call.axes_since(axes_since, 1)
        if not axes:
            if call.flag("noop_with_empty_axes"):
                return function(x, (), True) if function in _CHANGING else x
            axes = tuple(range(x.ndim))
        return function(x, call.axes(axes, x.ndim), call.flag("keepdims", True))

    return meaning


def _absolute_total(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return total(np.abs(x), axes, keepdims)


_CHANGING = (_absolute_total, _norm, _log_total, _log_exponential_total, _square_total)
"""Folds that change elements also where no axis is folded."""


def _product(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


OPERATORS.update(
    {
        ("", "ReduceSum"): reduction(total, 13),
        ("", "ReduceMean"): reduction(average, 18),
        ("", "ReduceMax"): reduction(extreme(greatest=True), 18),
        ("", "ReduceMin"): reduction(extreme(greatest=False), 18),
        ("", "ReduceProd"): reduction(_product, 18),
        ("", "ReduceL1"): reduction(_absolute_total, 18),
        ("", "ReduceL2"): reduction(_norm, 18),
        ("", "ReduceLogSum"): reduction(_log_total, 18),
        ("", "ReduceLogSumExp"): reduction(_log_exponential_total, 18),
        ("", "ReduceSumSquare"): reduction(_square_total, 18),
    }
)


# ------------------------------------------------------------------- extrema


@operator("ArgMax", "ArgMin")
def arg_extreme(call: NodeCall) -> Array:
    """The place of the greatest or the least element of an axis."""
    x = call.array(0)
    axis, keepdims = call.axis(call.integer("axis", 0), x.ndim), call.flag("keepdims", True)
    find = np.argmax if call.node.op == "ArgMax" else np.argmin
    if not call.flag("select_last_index"):
        return find(x, axis=axis, keepdims=keepdims).astype(INT64)
    last = x.shape[axis] - 1
    return (last - find(np.flip(x, axis), axis=axis, keepdims=keepdims)).astype(INT64)


@operator("TopK")
def top_k(call: NodeCall) -> tuple[Array, Array]:
    """The greatest or the least elements of an axis, with their places."""
    x = call.array(0)
    k = call.known_int(1) if call.opset >= 10 else call.integer("k")
    axis, largest = call.axis(call.integer("axis", -1), x.ndim), call.flag("largest", True)
    if not 0 <= k <= x.shape[axis]:
        call.fail(f"k is {k}; axis {axis} has {x.shape[axis]} elements")
    if x.dtype.kind == "b" or k == 0:
        call.fail(f"k is {k}, of dtype {x.dtype}, which is not supported")
    found = np.top_k(x, k, axis=axis, largest=largest)
    return found.values, found.indices.astype(INT64)


# ----------------------------------------------------------------- running


@operator("CumSum", "CumProd")
def running(call: NodeCall) -> Array:
    """Sums or products of all elements before each one, and itself."""
    x = call.array(0)
    axis = call.axis(call.known_int(1), x.ndim)
    is_sum = call.node.op == "CumSum"
    function = np.cumulative_sum if is_sum else np.cumulative_prod
    if call.flag("reverse"):
        x = np.flip(x, axis)
    made = function(x, axis=axis, dtype=x.dtype)
    if call.flag("exclusive"):
        first = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), int(not is_sum), x.dtype)
        kept = made[(slice(None),) * axis + (slice(0, -1),)]
        made = np.concat([first, kept], axis) if x.shape[axis] else made
    return np.flip(made, axis) if call.flag("reverse") else made


# ----------------------------------------------------------------- softmax


def over_axis(call: NodeCall, function: Callable[[Array, int], Array]) -> Array:
    """A function of an axis; before version 13 of all axes from one on, taken together."""
    x = call.array(0)
    axis = call.axis(call.integer("axis", 1 if call.opset < 13 else -1), x.ndim)
    if call.opset >= 13 or axis == x.ndim - 1:
        return function(x, axis)
    flat = np.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return np.reshape(function(flat, 1), x.shape)


@operator("Softmax")
def softmax(call: NodeCall) -> Array:
    """Exponentials over their sum."""
    return over_axis(call, lambda x, axis: np.softmax(x, axis=axis))


@operator("LogSoftmax")
def log_softmax(call: NodeCall) -> Array:
    """Logarithms of the softmax."""
    return over_axis(call, lambda x, axis: np.log_softmax(x, axis=axis))


@operator("Hardmax")
def hardmax(call: NodeCall) -> Array:
    """One at the first greatest element of an axis, zero elsewhere."""

    def function(x: Array, axis: int) -> Array:
        places = np.reshape(np.arange(x.shape[axis]), (-1, *(1,) * (x.ndim - axis - 1)))
        return np.equal(np.argmax(x, axis=axis, keepdims=True), places).astype(x.dtype)

    return over_axis(call, function)


@operator("LpNormalization")
def lp_normalisation(call: NodeCall) -> Array:
    """Elements over the norm of their axis; zero where that is zero."""
    x = call.array(0)
    axis, p = call.axis(call.integer("axis", -1), x.ndim), call.integer("p", 2)
    if p not in {1, 2}:
        call.fail(f"p is {p}; accepted: 1, 2")
    norm = _absolute_total(x, (axis,), True) if p == 1 else _norm(x, (axis,), True)
    return select(norm == 0, np.zeros_like(x), x / norm)
