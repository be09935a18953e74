"""Operators of quantised numbers: integers with a scale and a zero point."""

from __future__ import annotations

from math import prod

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, INT8, INT32, UINT8, DType
from tawny.onnx.call import NodeCall
from tawny.onnx.element_types import UnsupportedTypeError, element_dtype
from tawny.onnx.integers import NotedIntegers
from tawny.onnx.operators.byte_products import convolve_exact, factor_of, matmul_exact
from tawny.onnx.operators.windows import channels_first
from tawny.onnx.table import operator


def align_with(call: NodeCall, x: Array, given: Array, axis: int, block: int) -> Array:
    """A scale or zero point as it stands beside the array it belongs to."""
    if given.ndim == 0 or (given.ndim == 1 and given.shape[0] == 1 and not block):
        return np.reshape(given, ())
    axis = call.axis(axis, x.ndim)
    if block:
        whole = np.repeat(given, block, axis=axis)
        key = tuple(slice(0, x.shape[a]) if a == axis else slice(None) for a in range(x.ndim))
        return whole[key]
    return np.reshape(given, (-1, *(1,) * (x.ndim - axis - 1)))


def quantise(x: Array, scale: Array, zero: Array | None, dtype: DType) -> Array:
    """The nearest integers on a scale, kept inside their dtype."""
    info = numpy.iinfo(dtype)
    places = np.rint(x / scale)
    if zero is not None:
        places = places + zero.astype(places.dtype)
    return np.minimum(np.maximum(places, float(info.min)), float(info.max)).astype(dtype)


def dequantise(x: Array, scale: Array, zero: Array | None) -> Array:
    """The numbers that integers stand for."""
    whole = x.astype(INT32)
    if zero is not None and x.dtype != INT32:
        whole = whole - zero.astype(INT32)
    elif zero is not None:
        whole = whole - zero
    return whole.astype(scale.dtype) * scale


@operator("QuantizeLinear")
def quantise_linear(call: NodeCall) -> Array:
    """Numbers as integers with a scale and a zero point."""
    x, axis = call.array(0), call.integer("axis", 1)
    block = call.integer("block_size", 0)
    scale, zero = call.array(1), call.optional(2)
    exact = _quantise_noted(call, x, scale, zero)
    if exact is not None:
        return exact
    dtype = UINT8 if zero is None else zero.dtype
    if zero is None and call.integer("output_dtype", 0):
        try:
            dtype = element_dtype(call.integer("output_dtype"))
        except UnsupportedTypeError as error:
            call.fail(str(error))
    if dtype.kind not in "iu":
        call.fail(f"operand 2 has dtype {dtype}; accepted: integers")
    if x.dtype.kind in "iu":
        x = x.astype(scale.dtype)
    zero = None if zero is None else align_with(call, x, zero, axis, block)
    scale = align_with(call, x, scale, axis, block)
    wide = x.astype(scale.dtype) if call.opset < 23 else x
    return quantise(wide, scale.astype(wide.dtype), zero, dtype)


@operator("DequantizeLinear")
def dequantise_linear(call: NodeCall) -> Array:
    """The numbers that integers with a scale and a zero point stand for."""
    x, scale, zero = call.array(0), call.array(1), call.optional(2)
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    beside = None if zero is None else align_with(call, x, zero, axis, block)
    made = dequantise(x, align_with(call, x, scale, axis, block), beside)
    if not block and scale.dtype == FLOAT32 and scale.ndim < 2:
        call.notes.integers[made.node] = NotedIntegers(x, scale, zero, axis)
    return made


def _quantise_noted(call: NodeCall, x: Array, scale: Array, zero: Array | None) -> Array | None:
    """Integers of a value that was computed from integers; None where that is not known."""
    if zero is None or prod(scale.shape) != 1 or zero.dtype not in {INT8, UINT8}:
        return None
    known = call.notes.integers.get(x.node)
    if known is not None and known.zero is not None and known.has_one_scale:
        same = _is_same(known.scale, scale) and _is_same(known.zero, zero)
        if same and known.whole.dtype == zero.dtype:
            return known.whole
    quantiser = call.notes.quantisers.get(x.node)
    return None if quantiser is None else quantiser(np.reshape(scale, ()), np.reshape(zero, ()))


def _is_same(a: Array, b: Array) -> bool:
    """Whether two numbers are known to be equal."""
    if a.node is b.node:
        return True
    known = a.node.known and b.node.known
    return known and numpy.array_equal(a.numpy().ravel(), b.numpy().ravel())


@operator("DynamicQuantizeLinear")
def dynamic_quantise(call: NodeCall) -> tuple[Array, Array, Array]:
    """Numbers as bytes, with the scale and the zero point that fit them."""
    x = call.array(0)
    scale, zero = scale_to_range(x)
    return quantise_to_range(x, scale, zero), scale, zero


def scale_to_range(x: Array) -> tuple[Array, Array]:
    """The scale and the zero point with which bytes reach from the least to the greatest number."""
    low = np.minimum(np.min(x), 0)
    high = np.maximum(np.max(x), 0)
    scale = (high - low) / 255
    safe = np.where(np.equal(scale, 0), 1, scale).astype(FLOAT32)
    return safe, np.minimum(np.maximum(np.rint(-low / safe), 0), 255).astype(UINT8)


def quantise_to_range(x: Array, scale: Array, zero: Array) -> Array:
    """Numbers as bytes."""
    return quantise(x, scale, zero, UINT8)


@operator("MatMulInteger")
def matmul_integer(call: NodeCall) -> Array:
    """A product of matrices of bytes."""
    a, b = call.array(0), call.array(1)
    x = factor_of(call, a, call.optional(2), -2)
    return matmul_exact(x, factor_of(call, b, call.optional(3), -1))


@operator("QLinearMatMul")
def quantised_matmul(call: NodeCall) -> Array:
    """A product of quantised matrices, quantised."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (call.array(i) for i in range(8))
    sums = matmul_exact(factor_of(call, a, a_zero, -2), factor_of(call, b, b_zero, -1))
    factor = matrix_scale(a_scale, -2, a) * matrix_scale(b_scale, -1, b)
    ratio = (factor / matrix_scale(scale, -2, sums)).astype(FLOAT32)
    return requantise(sums, ratio, matrix_scale(zero, -2, sums))


def matrix_scale(scale: Array, axis: int, x: Array) -> Array:
    """A scale of a matrix, one number or one for each row or column."""
    if prod(scale.shape) == 1:
        return np.reshape(scale, ())
    return np.expand_dims(scale, -1) if axis == -2 and scale.ndim == 1 and x.ndim > 1 else scale


def requantise(sums: Array, ratio: Array, zero: Array) -> Array:
    """Sums of integers on another scale, kept inside the dtype of a zero point."""
    info = numpy.iinfo(zero.dtype)
    places = np.rint(sums.astype(FLOAT32) * ratio) + zero.astype(FLOAT32)
    return np.minimum(np.maximum(places, float(info.min)), float(info.max)).astype(zero.dtype)


@operator("ConvInteger")
def convolution_integer(call: NodeCall) -> Array:
    """A convolution of bytes."""
    x = factor_of(call, call.array(0), call.optional(2), 1)
    kernel = factor_of(call, call.array(1), call.optional(3), 0)
    return channels_first(convolve_exact(call, x, kernel))


@operator("QLinearConv")
def quantised_convolution(call: NodeCall) -> Array:
    """A convolution of quantised numbers, quantised."""
    x = factor_of(call, call.array(0), call.array(2), 1)
    kernel = factor_of(call, call.array(3), call.array(5), 0)
    sums, bias = convolve_exact(call, x, kernel), call.optional(8)
    sums = sums if bias is None else sums + bias.astype(INT32)
    scales = [np.reshape(s, ()) if prod(s.shape) == 1 else s for s in map(call.array, (1, 4, 6))]
    ratio = (scales[0] * scales[1] / scales[2]).astype(FLOAT32)
    return channels_first(requantise(sums, ratio, np.reshape(call.array(7), ())))
