"""ONNX Runtime's own operators of quantised numbers: layers, and products that quantise first.

Each rounds where ONNX Runtime rounds, so that the integers are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, INT32, DType
from tawny.onnx.call import NodeCall
from tawny.onnx.integers import NotedIntegers
from tawny.onnx.operators.byte_products import IntegerFactor, factor_of, matmul_exact
from tawny.onnx.operators.elementwise import leaky_relu
from tawny.onnx.operators.quantisation import (
    align_with,
    dequantise,
    matrix_scale,
    quantise,
    quantise_to_range,
    requantise,
    scale_to_range,
)
from tawny.onnx.operators.recurrent import LSTM_FUNCTIONS, Product, Recurrence, run_lstm
from tawny.onnx.operators.windows import mean_of_windows
from tawny.onnx.table import MICROSOFT, operator

# ---------------------------------------------------------------- element by element


def _number(x: Array | None) -> Array | None:
    """A scale or zero point of one number, without axes."""
    return None if x is None else np.reshape(x, ())


def _clip(x: Array, dtype: DType) -> Array:
    """The nearest integers that a dtype has."""
    info = numpy.iinfo(dtype)
    return np.minimum(np.maximum(np.rint(x), float(info.min)), float(info.max)).astype(dtype)


def _zero(call: NodeCall, i: int, like: Array) -> Array:
    """A zero point, 0 where it is left out."""
    found = _number(call.optional(i))
    return np.zeros((), like.dtype) if found is None else found


@operator("QLinearAdd", domain=MICROSOFT)
def quantised_add(call: NodeCall) -> Array:
    """The sum of quantised arrays, quantised."""
    return add_integers(*_two_integers(call))


@operator("QLinearMul", domain=MICROSOFT)
def quantised_multiply(call: NodeCall) -> Array:
    """The product of quantised arrays, element by element, quantised."""
    return multiply_integers(*_two_integers(call))


def _two_integers(call: NodeCall) -> tuple[NotedIntegers, NotedIntegers, Array, Array]:
    """Two quantised operands, and the scale and the zero point of the result."""
    a, b = (
        NotedIntegers(
            call.array(i), np.reshape(call.array(i + 1), ()), _zero(call, i + 2, call.array(0)), 0
        )
        for i in (0, 3)
    )
    return a, b, np.reshape(call.array(6), ()), _zero(call, 7, a.whole)


def _zero_number(x: NotedIntegers) -> Array:
    return np.zeros((), FLOAT32) if x.zero is None else x.zero.astype(FLOAT32)


def add_integers(a: NotedIntegers, b: NotedIntegers, scale: Array, zero: Array) -> Array:
    """The sum of what integers stand for, quantised."""
    a_ratio, b_ratio = a.scale / scale, b.scale / scale
    fixed = zero.astype(FLOAT32) - (a_ratio * _zero_number(a) + b_ratio * _zero_number(b))
    places = fixed + a.whole.astype(FLOAT32) * a_ratio + b.whole.astype(FLOAT32) * b_ratio
    return _clip(places, zero.dtype)


def multiply_integers(a: NotedIntegers, b: NotedIntegers, scale: Array, zero: Array) -> Array:
    """The product of what integers stand for, quantised."""
    x, y = (v.whole.astype(FLOAT32) - _zero_number(v) for v in (a, b))
    return _clip((x * y) * (a.scale * b.scale / scale) + zero.astype(FLOAT32), zero.dtype)


def _function(call: NodeCall, function: Callable[[Array], Array]) -> Array:
    """A function of quantised numbers, quantised."""
    x = call.array(0)
    scale, zero = np.reshape(call.array(1), ()), _zero(call, 2, x)
    result_scale, result_zero = np.reshape(call.array(3), ()), _zero(call, 4, x)
    return quantise(function(dequantise(x, scale, zero)), result_scale, result_zero, x.dtype)


@operator("QLinearSigmoid", domain=MICROSOFT)
def quantised_sigmoid(call: NodeCall) -> Array:
    """The logistic function of quantised numbers, quantised."""
    return _function(call, np.sigmoid)


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def quantised_leaky_relu(call: NodeCall) -> Array:
    """Quantised numbers, those below zero times a small one, quantised."""
    alpha = call.number("alpha", 0.01)
    return _function(call, lambda x: leaky_relu(x, alpha))


@operator("QLinearSoftmax", domain=MICROSOFT)
def quantised_softmax(call: NodeCall) -> Array:
    """Shares of one, of quantised numbers, quantised."""
    x, axis = call.array(0), call.integer("axis", -1)
    if call.integer("opset", 13) >= 13:
        return _function(call, lambda v: np.softmax(v, axis=axis))
    rows = prod(x.shape[: call.axis(axis, x.ndim)])
    return _function(
        call, lambda v: np.reshape(np.softmax(np.reshape(v, (rows, -1)), axis=-1), x.shape)
    )


@operator("QLinearWhere", domain=MICROSOFT)
def quantised_where(call: NodeCall) -> Array:
    """One quantised operand or another, by a condition, quantised."""
    condition, scale, zero = call.array(0), np.reshape(call.array(7), ()), call.array(8)
    found = [
        quantise(
            dequantise(call.array(i), np.reshape(call.array(i + 1), ()), _zero(call, i + 2, zero)),
            scale,
            np.reshape(zero, ()),
            zero.dtype,
        )
        for i in (1, 4)
    ]
    chosen: Array = np.where(condition, *found)
    return chosen


@operator("QLinearConcat", domain=MICROSOFT)
def quantised_concat(call: NodeCall) -> Array:
    """Quantised arrays one behind the other, on one scale."""
    scale, zero = np.reshape(call.array(0), ()), np.reshape(call.array(1), ())
    parts = [
        quantise(
            dequantise(call.array(i), np.reshape(call.array(i + 1), ()), _zero(call, i + 2, zero)),
            scale,
            zero,
            zero.dtype,
        )
        for i in range(2, len(call.operands), 3)
    ]
    return np.concat(parts, axis=call.axis(call.integer("axis"), parts[0].ndim))


# --------------------------------------------------------------------------- means


def _mean(call: NodeCall, x: Array, axes: tuple[int, ...], *, keepdims: bool) -> Array:
    """The mean over some axes of quantised numbers, quantised."""
    zero, result_zero = _zero(call, 2, x), _zero(call, 4, x)
    count = prod(x.shape[a] for a in axes)
    sums = np.sum(x.astype(INT32) - zero.astype(INT32), axis=axes, keepdims=keepdims)
    ratio = np.reshape(call.array(1), ()) / (np.reshape(call.array(3), ()) * float(count))
    return requantise(sums.astype(INT32), ratio.astype(FLOAT32), result_zero)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def quantised_global_mean(call: NodeCall) -> Array:
    """The mean of each channel of quantised numbers, quantised."""
    x = call.array(0)
    last = call.flag("channels_last")
    axes = tuple(range(1, x.ndim - 1)) if last else tuple(range(2, x.ndim))
    return _mean(call, x, axes, keepdims=True)


@operator("QLinearReduceMean", domain=MICROSOFT)
def quantised_mean(call: NodeCall) -> Array:
    """The mean over some axes of quantised numbers, quantised."""
    x = call.array(0)
    axes = call.axes(call.ints("axes", tuple(range(x.ndim))), x.ndim)
    return _mean(call, x, axes, keepdims=call.flag("keepdims", True))


@operator("QLinearAveragePool", domain=MICROSOFT)
def quantised_average_pool(call: NodeCall) -> Array:
    """The mean of each window of quantised numbers, quantised."""
    if call.flag("channels_last"):
        call.fail("channels_last=1 is not supported")
    return _function(call, lambda x: mean_of_windows(call, x))


# ------------------------------------------------------------------------ products


@operator("QGemm", domain=MICROSOFT)
def quantised_gemm(call: NodeCall) -> Array:
    """A product of quantised matrices with a bias, quantised if a scale is given."""
    a, b, bias = call.array(0), call.array(3), call.optional(6)
    a, b = (a.T if call.flag("transA") else a), (b.T if call.flag("transB") else b)
    x, y = factor_of(call, a, call.optional(2), -2), factor_of(call, b, call.optional(5), -1)
    sums = matmul_exact(x, y)
    sums = sums if bias is None else sums + bias.astype(INT32)
    factor = np.reshape(call.array(1), ()) * matrix_scale(call.array(4), -1, sums)
    factor = factor * call.number("alpha", 1.0)
    if call.optional(7) is None:
        return sums.astype(FLOAT32) * factor.astype(FLOAT32)
    ratio = factor / np.reshape(call.array(7), ())
    return requantise(sums, ratio.astype(FLOAT32), np.reshape(call.array(8), ()))


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_to_float(call: NodeCall) -> Array:
    """A product of quantised matrices, and a bias."""
    a, b, a_scale, b_scale = (call.array(i) for i in range(4))
    x, y = factor_of(call, a, call.optional(4), -2), factor_of(call, b, call.optional(5), -1)
    made = matmul_exact(x, y).astype(FLOAT32)
    made = made * (matrix_scale(a_scale, -2, a) * matrix_scale(b_scale, -1, b))
    bias = call.optional(6)
    return made if bias is None else made + bias


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_matmul(call: NodeCall) -> Array:
    """A product with a quantised matrix, of numbers that are quantised first, and a bias."""
    b, scale, zero = call.array(1), call.array(2), call.optional(3)
    made = quantised_product(call, b, scale, zero)(call.array(0))
    bias = call.optional(4)
    return made if bias is None else made + bias


def quantised_product(call: NodeCall, b: Array, scale: Array, zero: Array | None) -> Product:
    """What multiplies numbers, quantised first, with a quantised matrix."""
    y, b_scale = factor_of(call, b, zero, -1), matrix_scale(scale, -1, b)

    def product(x: Array) -> Array:
        a_scale, a_zero = scale_to_range(x)
        whole = IntegerFactor(quantise_to_range(x, a_scale, a_zero), a_zero.astype(INT32))
        return matmul_exact(whole, y).astype(FLOAT32) * (a_scale * b_scale)

    return product


class QuantisedRecurrence(Recurrence):
    """A layer with quantised weights: inputs and states are quantised before they meet them."""

    is_by_rows = False

    def state_size(self) -> int:
        return self.recurrent.shape[1]

    def _product(self, weights: Array, position: int, direction: int) -> Product:
        scale, zero = self.call.array(position), self.call.optional(position + 1)
        own = None if zero is None else zero[direction]
        return quantised_product(self.call, weights[direction], scale[direction], own)

    def input_product(self, direction: int) -> Product:
        return self._product(self.kernels, 8, direction)

    def state_product(self, direction: int) -> Product:
        return self._product(self.recurrent, 10, direction)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_lstm(call: NodeCall) -> tuple[Array, ...]:
    """Long short-term memory with quantised weights."""
    return run_lstm(QuantisedRecurrence(call, LSTM_FUNCTIONS))


@operator("QuantizeLinear", domain=MICROSOFT)
def quantise_linear(call: NodeCall) -> Array:
    """Numbers as integers with a scale and a zero point."""
    x, axis = call.array(0), call.integer("axis", 1)
    scale, zero = (align_with(call, x, call.array(i), axis, 0) for i in (1, 2))
    return quantise(x, scale, zero, zero.dtype)


@operator("DequantizeLinear", domain=MICROSOFT)
def dequantise_linear(call: NodeCall) -> Array:
    """The numbers that integers with a scale and a zero point stand for."""
    x, axis = call.array(0), call.integer("axis", 1)
    zero = call.optional(2)
    zero = None if zero is None else align_with(call, x, zero, axis, 0)
    return dequantise(x, align_with(call, x, call.array(1), axis, 0), zero)
