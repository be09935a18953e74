"""Operators between what makes numbers of integers and what makes integers of numbers.

Such products are sums of integers, and what is made of them is rounded once, as ONNX Runtime does
it.  What only moves elements moves the integers, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32, INT8, INT32, UINT8
from tawny.onnx.call import NodeCall
from tawny.onnx.integers import NotedIntegers
from tawny.onnx.operators.byte_products import (
    IntegerFactor,
    convolve_exact,
    factor_of,
    matmul_exact,
)
from tawny.onnx.operators.quantisation import requantise
from tawny.onnx.operators.windows import channels_first
from tawny.onnx.table import OPERATORS, on_integers
from tawny.onnx.values import Results

MOVES: Final = (
    *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Gather"),
    *("Split", "Expand", "MaxPool"),
)
"""Operators that give elements of operand 0 as they are."""


def _bytes(call: NodeCall, i: int) -> NotedIntegers | None:
    """The bytes that an operand stands for."""
    x = call.operands[i] if i < len(call.operands) else None
    found = call.notes.integers.get(x.node) if isinstance(x, Array) else None
    return found if found is not None and found.whole.dtype in {INT8, UINT8} else None


def _factor(call: NodeCall, x: NotedIntegers) -> IntegerFactor:
    return factor_of(call, x.whole, x.zero, x.axis)


def _bias(call: NodeCall, i: int, factor: Array) -> tuple[Array | None, bool]:
    """The integers of a bias on the scale of the sums, and whether it can be added to them."""
    x = call.optional(i)
    if x is None:
        return None, True
    found = call.notes.integers.get(x.node)
    if found is None or found.whole.dtype != INT32 or x.ndim != 1:
        return None, False
    if not (found.scale.node.known and factor.node.known):
        return None, False
    wanted, given = factor.numpy(), found.scale.numpy()
    return found.whole, bool((abs(given - wanted) <= 1e-5 * abs(wanted)).all())


def _of_sums(call: NodeCall, sums: Array, factor: Array, *, first: bool = False) -> Array:
    """What sums of integers stand for; it is noted how it becomes integers."""
    factor = factor.astype(FLOAT32)
    made = sums.astype(FLOAT32) * factor
    made = channels_first(made) if first else made

    def quantised(scale: Array, zero: Array) -> Array:
        whole = requantise(sums, (factor / scale).astype(FLOAT32), zero)
        return channels_first(whole) if first else whole

    call.notes.quantisers[made.node] = quantised
    return made


@on_integers("MatMul")
def matmul(call: NodeCall) -> Array | None:
    """A product of matrices of bytes."""
    a, b = _bytes(call, 0), _bytes(call, 1)
    if a is None or b is None or not a.has_one_scale or min(a.whole.ndim, b.whole.ndim) < 2:
        return None
    if not b.has_one_scale and b.axis % b.whole.ndim != b.whole.ndim - 1:
        return None
    sums = matmul_exact(_factor(call, a), _factor(call, b))
    return _of_sums(call, sums, np.reshape(a.scale, ()) * _flat(b.scale))


def _flat(scale: Array) -> Array:
    return np.reshape(scale, () if scale.size == 1 else (-1,))


@on_integers("Gemm")
def gemm(call: NodeCall) -> Array | None:
    """A product of matrices of bytes, and a bias."""
    a, b = _bytes(call, 0), _bytes(call, 1)
    if a is None or b is None or not a.has_one_scale or a.whole.ndim != 2 or b.whole.ndim != 2:
        return None
    if call.number("alpha", 1.0) != 1 or call.number("beta", 1.0) != 1:
        return None
    turned = call.flag("transB")
    if not b.has_one_scale and b.axis % 2 != (0 if turned else 1):
        return None
    x, y = (_factor(call, v) for v in (a, b))
    x, y = (x.transpose() if call.flag("transA") else x), (y.transpose() if turned else y)
    factor = np.reshape(a.scale, ()) * _flat(b.scale)
    bias, fits = _bias(call, 2, factor)
    sums = matmul_exact(x, y)
    if fits:
        return _of_sums(call, sums if bias is None else sums + bias, factor)
    return sums.astype(FLOAT32) * factor + call.array(2)


@on_integers("Conv")
def convolution(call: NodeCall) -> Array | None:
    """A convolution of bytes, and a bias."""
    x, kernel = _bytes(call, 0), _bytes(call, 1)
    if x is None or kernel is None or not x.has_one_scale:
        return None
    if not kernel.has_one_scale and kernel.axis % kernel.whole.ndim:
        return None
    factor = np.reshape(x.scale, ()) * _flat(kernel.scale)
    bias, fits = _bias(call, 2, factor)
    sums = convolve_exact(call, _factor(call, x), _factor(call, kernel))
    if fits:
        return _of_sums(call, sums if bias is None else sums + bias, factor, first=True)
    return channels_first(sums.astype(FLOAT32) * factor + call.array(2))


@on_integers("Relu")
def relu(call: NodeCall) -> Array | None:
    """The greater of each number and zero."""
    x = call.array(0)
    quantiser = call.notes.quantisers.get(x.node)
    if quantiser is None:
        return None
    made, own = np.relu(x), quantiser

    def quantised(scale: Array, zero: Array) -> Array:
        return np.maximum(own(scale, zero), zero)

    call.notes.quantisers[made.node] = quantised
    return made


@on_integers(*MOVES)
def move(call: NodeCall) -> Results | None:
    """Elements elsewhere: of the numbers, and of the integers that they stand for."""
    x, meaning = _bytes(call, 0), OPERATORS["", call.node.op]
    if x is None or not x.has_one_scale:
        return None
    made = meaning(call)
    whole = meaning(replace(call, operands=(x.whole, *call.operands[1:])))
    for one, own in zip(_all(made), _all(whole), strict=True):
        if isinstance(one, Array) and isinstance(own, Array) and own.dtype == x.whole.dtype:
            call.notes.integers[one.node] = x._replace(whole=own)
    return made


def _all(made: Results) -> tuple[object, ...]:
    return made if isinstance(made, tuple) else (made,)
