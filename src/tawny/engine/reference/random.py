"""Kernels of the random chapter."""

from __future__ import annotations

import math

import numpy as np

from tawny.dtype import DType
from tawny.engine.reference.kernel import Value, kernel
from tawny.engine.reference.philox import Words, fill
from tawny.ops.random import Integers, Normal, Permutation, Uniform


def _fraction(high: Words, low: Words, dtype: DType) -> Value:
    """A number from 0 up to 1 with as many random bits as `dtype` has: 53, 24 or 11."""
    match dtype.itemsize:
        case 8:
            return ((high >> np.uint64(5)) * 2.0**26 + (low >> np.uint64(6))) * 2.0**-53
        case 4:
            return (high >> np.uint64(8)) * 2.0**-24
        case _:
            return (high >> np.uint64(21)) * 2.0**-11


@kernel(Uniform)
def uniform(op: Uniform, draw: int) -> Value:
    """Words 0 and 1 as a fraction."""

    def element(w0: Words, w1: Words, w2: Words, w3: Words) -> Value:
        del w2, w3
        return _fraction(w0, w1, op.dtype)

    return fill(math.prod(op.shape), op.dtype, op.seed, op.stream, draw, element).reshape(op.shape)


@kernel(Normal)
def normal(op: Normal, draw: int) -> Value:
    """Box and Muller's transform of two fractions; float16 is made as float32."""
    dtype = np.dtype(np.float64 if op.dtype == np.float64 else np.float32)

    def element(w0: Words, w1: Words, w2: Words, w3: Words) -> Value:
        first = _fraction(w0, w1, dtype).astype(dtype)
        second = _fraction(w2, w3, dtype).astype(dtype)
        radius = np.sqrt(dtype.type(-2) * np.log1p(-first))
        result: Value = radius * np.cos(dtype.type(2 * math.pi) * second)
        return result

    return fill(math.prod(op.shape), op.dtype, op.seed, op.stream, draw, element).reshape(op.shape)


def _bits(count: int, op: Integers | Permutation, draw: int) -> Value:
    """64 random bits for each place: word 1 above word 0."""

    def element(w0: Words, w1: Words, w2: Words, w3: Words) -> Value:
        del w2, w3
        return w0 | w1 << np.uint64(32)

    return fill(count, np.dtype(np.uint64), op.seed, op.stream, draw, element)


def _high_product(a: Value, b: Value) -> Value:
    """The upper 64 bits of the product of 64-bit numbers."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    result: Value = a1 * b1 + (middle >> half) + (other >> half)
    return result


@kernel(Integers)
def integers(op: Integers, draw: int, low: Value, last: Value) -> Value:
    """The upper half of 64 random bits times how many integers there are."""
    if np.any(low > last):
        raise ValueError("low must be less than high at every place")
    bits = _bits(math.prod(op.shape), op, draw).reshape(op.shape)
    start = low.astype(np.uint64)  # modulo 2**64, as all that follows
    count = last.astype(np.uint64) - start + np.uint64(1)
    offset = np.where(count == 0, bits, _high_product(bits, count))
    return (start + offset).astype(op.dtype)


@kernel(Permutation)
def permutation(op: Permutation, draw: int) -> Value:
    """The order of 64-bit keys; of equal keys the earlier comes first."""
    order = np.argsort(_bits(op.population, op, draw), kind="stable")
    return order[: op.shape[0]]
