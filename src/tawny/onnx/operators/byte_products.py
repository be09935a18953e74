"""Products of bytes less their zero points, exact: sums of products of the bytes themselves.

    sum((a - z) * (b - w)) = sum(a * b) - z * sum(b) - w * (sum(a) - count * z)

so that processors multiply bytes; what is known of it is computed when the file is read.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, INT8, INT16, INT32, UINT8, DType
from tawny.node import Value
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.windows import CONVOLUTIONS, WindowGeometry, channels_last, kernel_last

MOST_EXACT: Final = 2**24
"""Integers below this are exact in float32, and so are sums and products that stay below."""

MOST_BYTES: Final = 255 * 255
"""The greatest product of two bytes."""


class IntegerFactor(NamedTuple):
    """NotedIntegers, and what stands for zero among them; None for 0."""

    whole: Array
    zero: Array | None

    @property
    def is_bytes(self) -> bool:
        """Whether they are bytes."""
        return self.whole.dtype in {INT8, UINT8}

    def transpose(self) -> IntegerFactor:
        """Matrices with rows and columns exchanged."""
        zero = self.zero
        if zero is not None and zero.ndim:
            zero = np.swapaxes(np.broadcast_to(zero, self.whole.shape), -1, -2)
        return IntegerFactor(np.swapaxes(self.whole, -1, -2), zero)

    def numbers(self, dtype: DType) -> Array:
        """The integers less their zero point, in another dtype."""
        wide = self.whole.astype(dtype)
        return wide if self.zero is None else wide - self.zero.astype(dtype)


def factor_of(call: NodeCall, x: Array, zero: Array | None, axis: int) -> IntegerFactor:
    """Integers and their zero point: one number, or one for each place of an axis."""
    if zero is None or (zero.node.known and not _value(zero).any()):
        return IntegerFactor(x, None)
    shift = zero.astype(INT32)
    if prod(shift.shape) == 1:
        return IntegerFactor(x, np.reshape(shift, ()))
    if shift.ndim == 1:
        shift = np.reshape(shift, (-1, *(1,) * (x.ndim - call.axis(axis, x.ndim) - 1)))
    return IntegerFactor(x, shift)


def _value(x: Array) -> Value:
    return x.numpy()


def _as_unsigned(x: IntegerFactor) -> IntegerFactor:
    """Bytes as uint8."""
    if x.whole.dtype == UINT8:
        return x
    moved = np.bitwise_xor(x.whole, -128).astype(UINT8)
    return IntegerFactor(moved, np.asarray(128, dtype="int32") if x.zero is None else x.zero + 128)


def _as_signed(x: IntegerFactor) -> IntegerFactor:
    """Bytes as int8, without a zero point where they are known and fit."""
    if x.whole.node.known and (x.zero is None or x.zero.node.known):
        whole = _value(x.whole).astype(numpy.int32)
        whole = whole if x.zero is None else whole - _value(x.zero)
        if not whole.size or -128 <= whole.min() <= whole.max() <= 127:
            return IntegerFactor(np.asarray(whole.astype(numpy.int8)), None)
    if x.whole.dtype == INT8:
        return x
    moved = (x.whole.astype(INT16) - 128).astype(INT8)
    return IntegerFactor(moved, (np.asarray(0, dtype="int32") if x.zero is None else x.zero) - 128)


# ----------------------------------------------------------------------- matrices


def matmul_exact(a: IntegerFactor, b: IntegerFactor) -> Array:
    """The product of two arrays of integers, as 32-bit integers."""
    if not (a.is_bytes and b.is_bytes) or min(a.whole.ndim, b.whole.ndim) < 2:
        return np.matmul(a.numbers(INT32), b.numbers(INT32))
    a, b = _as_unsigned(a), _as_signed(b)
    sums = np.matmul(a.whole.astype(INT32), b.whole.astype(INT32))
    if a.zero is not None:
        columns = np.sum(b.whole, axis=-2, keepdims=True, dtype=INT32)
        sums = sums - a.zero * columns
    if b.zero is not None:
        rows = np.sum(a.whole, axis=-1, keepdims=True, dtype=INT32)
        rows = rows if a.zero is None else rows - a.zero * a.whole.shape[-1]
        sums = sums - rows * b.zero
    return sums


# ------------------------------------------------------------------- convolutions


def convolve_exact(call: NodeCall, x: IntegerFactor, kernel: IntegerFactor) -> Array:
    """The convolution of integers, channels first, as 32-bit integers, channels last."""
    if not 3 <= x.whole.ndim <= 5 or kernel.whole.ndim != x.whole.ndim:
        shapes = f"{x.whole.shape} and {kernel.whole.shape}"
        call.fail(f"shapes {shapes} are not of 1 to 3 spatial axes")
    window = WindowGeometry(call, x.whole.shape[2:], kernel.whole.shape[2:])
    groups, is_bytes = call.integer("group", 1), x.is_bytes and kernel.is_bytes
    kernel = _as_signed(kernel) if is_bytes else kernel
    if groups != 1 or kernel.zero is not None or not is_bytes:
        terms = prod(kernel.whole.shape[1:])
        dtype = FLOAT32 if is_bytes and terms * MOST_BYTES < MOST_EXACT else INT32
        made = _convolve(window, x.numbers(dtype), kernel.numbers(dtype), groups)
        return made.astype(INT32)
    x = _as_unsigned(x)
    if x.zero is not None and any(w for pair in window.pads for w in pair):
        edges = ((0, 0), (0, 0), *window.pads)
        padded = np.pad(x.whole, edges, constant_values=x.zero.astype(UINT8))
        x, window.pads = IntegerFactor(padded, x.zero), ((0, 0),) * len(window.pads)
    sums = _convolve(window, x.whole.astype(INT32), kernel.whole.astype(INT32), 1)
    if x.zero is None:
        return sums
    axes = tuple(range(1, kernel.whole.ndim))
    return sums - x.zero * np.sum(kernel.whole, axis=axes, dtype=INT32)


def _convolve(window: WindowGeometry, x: Array, kernel: Array, groups: int) -> Array:
    return CONVOLUTIONS[x.ndim - 3](
        channels_last(x),
        kernel_last(kernel),
        stride=window.strides,
        padding=window.pads,
        dilation=window.dilation,
        groups=groups,
    )
