"""Random arrays: Philox4x32-10, four 32-bit words for each 128-bit counter under a 64-bit key.

The words of a random array's element are those of the counter (place, run), both 64 bits with the
low half first.  The key is words 0 and 1 of the counter (stream, tag) under the key (seed).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tawny.dtype import DType, is_bfloat16
from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.random import Integers, Normal, Permutation, Uniform

Words = npt.NDArray[np.uint64]
"""32-bit numbers in 64-bit elements, so that products of two are exact."""

_MULTIPLIERS: Final = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_TAG: Final = (0x7461776E, 0x00000079)
_AT_ONCE: Final = 1 << 14
"""Elements made at a time: their words stay in cache."""


def philox(
    counter: tuple[Words, Words, Words, Words], key: tuple[int, int]
) -> tuple[Words, Words, Words, Words]:
    """The words of each counter."""
    c0, c1, c2, c3 = counter
    for step in range(_ROUNDS):
        k0, k1 = ((k + step * w) & 0xFFFFFFFF for k, w in zip(key, _WEYL, strict=True))
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW
        c2, c3 = (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
    return c0, c1, c2, c3


def _halves(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF


def stream_key(seed: int, stream: int) -> tuple[int, int]:
    """The key of a stream."""
    low, high, tag, end = (np.array([n], np.uint64) for n in (*_halves(stream), *_TAG))
    k0, k1, _, _ = philox((low, high, tag, end), _halves(seed))
    return int(k0[0]), int(k1[0])


def fill(
    count: int,
    dtype: DType,
    seed: int,
    stream: int,
    draw: int,
    element: Callable[[Words, Words, Words, Words], Value],
) -> Value:
    """`element` of the words of each place, for `count` places."""
    out = np.empty(count, dtype)
    key, (run_low, run_high) = stream_key(seed, stream), _halves(draw)
    for start in range(0, count, _AT_ONCE):
        place = np.arange(start, min(start + _AT_ONCE, count), dtype=np.uint64)
        run = np.full_like(place, run_low), np.full_like(place, run_high)
        out[start : start + len(place)] = element(
            *philox((place & _LOW, place >> _HALF, *run), key)
        )
    return out


def _fraction(high: Words, low: Words, dtype: DType) -> Value:
    """A number from 0 up to 1 with as many random bits as `dtype` has: 53, 24, 11 or 8."""
    match dtype.itemsize:
        case 8:
            return ((high >> np.uint64(5)) * 2.0**26 + (low >> np.uint64(6))) * 2.0**-53
        case 4:
            return (high >> np.uint64(8)) * 2.0**-24
        case _ if is_bfloat16(dtype):
            return (high >> np.uint64(24)) * 2.0**-8
        case _:
            return (high >> np.uint64(21)) * 2.0**-11


@kernel(Uniform, widened=False)
def uniform(op: Uniform, draw: int) -> Value:
    """Words 0 and 1 as a fraction."""

    def element(w0: Words, w1: Words, w2: Words, w3: Words) -> Value:
        del w2, w3
        return _fraction(w0, w1, op.dtype)

    return fill(math.prod(op.shape), op.dtype, op.seed, op.stream, draw, element).reshape(op.shape)


@kernel(Normal, widened=False)
def normal(op: Normal, draw: int) -> Value:
    """Box and Muller's transform of two fractions; those of 16 bits are made as float32."""
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


@kernel(Integers, widened=False)
def integers(op: Integers, draw: int, low: Value, last: Value) -> Value:
    """The upper half of 64 random bits times how many integers there are."""
    if np.any(low > last):
        raise ValueError("low must be less than high at every place")
    bits = _bits(math.prod(op.shape), op, draw).reshape(op.shape)
    start = low.astype(np.uint64)  # modulo 2**64, as all that follows
    count = last.astype(np.uint64) - start + np.uint64(1)
    offset = np.where(count == 0, bits, _high_product(bits, count))
    return (start + offset).astype(op.dtype)


@kernel(Permutation, widened=False)
def permutation(op: Permutation, draw: int) -> Value:
    """The order of 64-bit keys; of equal keys the earlier comes first."""
    order = np.argsort(_bits(op.population, op, draw), kind="stable")
    return order[: op.shape[0]]
