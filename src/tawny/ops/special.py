"""Functions of the digits and bits of numbers, and Bessel's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import check_categories
from tawny.errors import type_error
from tawny.node import Value, constant
from tawny.op import floating
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.composite import where
from tawny.ops.creation import astype, full_like
from tawny.ops.differentiation import stop_gradient
from tawny.ops.indexing import take
from tawny.ops.precision import in_single


def _floating(x: ArrayLike, op: str) -> Array:
    """`x` in the least floating-point dtype that holds it."""
    array = wrap(lift(x, op))
    return astype(array, floating(op, [array.dtype]), copy=False)


@public(ufunc=True)
def spacing(x: ArrayLike, /) -> Array:
    """The distance from `x` to the next number further from zero, with the sign of `x`."""
    array = _floating(x, "spacing")
    away = where(e.equal(array, 0), math.inf, e.copysign(math.inf, array))
    return e.subtract(e.nextafter(array, away), array)


_LEAST: Final = -1022
_MOST: Final = 1023
"""Exponents of the normal double-precision numbers."""
_DIGITS: Final = 53


@public(ufunc=True)
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1` times two to the power `x2`, an integer; rounded once."""
    array, exponent = _floating(x1, "ldexp"), wrap(lift(x2, "ldexp", 1))
    if not np.can_cast(exponent.dtype, dt.INT64):
        raise type_error(
            "ldexp", f"operand 1 has dtype {exponent.dtype}; accepted: integers that fit int64"
        )
    result = astype(array, dt.FLOAT64, copy=False)
    left = astype(exponent, dt.INT64, copy=False)
    powers = wrap(constant(np.ldexp(1.0, np.arange(_LEAST, _MOST + 1))))
    # a power too small is reached in steps that leave room for all digits, so that only the last
    # one rounds
    for low in (_LEAST + _DIGITS, _LEAST + _DIGITS, _LEAST):
        reachable = e.logical_and(e.greater_equal(left, _LEAST), e.less_equal(left, _MOST))
        step = where(reachable, left, where(e.greater(left, 0), _MOST, low))
        result = e.multiply(result, take(powers, e.subtract(step, _LEAST)))
        left = e.subtract(left, step)
    return astype(result, array.dtype, copy=False)


@public(ufunc=True)
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Mantissas from a half up to one, and the powers of two (int32) they are multiplied with.

    Zero, infinities and NaN are their own mantissas, with power 0.
    """
    array = _floating(x, "frexp")
    plain = e.logical_and(e.isfinite(array), e.not_equal(array, 0))
    wide = where(plain, e.abs(astype(array, dt.FLOAT64, copy=False)), 1.0)
    guess = e.add(e.floor(e.log2(stop_gradient(wide))), 1)  # may be one off beside a power of two
    power = astype(guess, dt.INT32)
    size = stop_gradient(ldexp(wide, e.negative(power)))
    power = e.add(power, where(e.greater_equal(size, 1), 1, where(e.less(size, 0.5), -1, 0)))
    power = astype(where(plain, power, 0), dt.INT32, copy=False)
    scaled = ldexp(astype(array, dt.FLOAT64, copy=False), e.negative(power))
    return astype(where(plain, scaled, array), array.dtype, copy=False), power


@public(ufunc=True)
def bitwise_count(x: ArrayLike, /) -> Array:
    """How many bits of the absolute value of an integer are set."""
    array = wrap(lift(x, "bitwise_count"))
    check_categories("bitwise_count", 0, array.dtype, dt.BOOLEAN | dt.INTEGER)
    if array.dtype.kind == "i":
        # the least integer has no absolute value: it stays, and its bits are those wanted
        word = astype(e.abs(array), dt.UINT64)
        word = e.bitwise_and(word, 2 ** (8 * array.dtype.itemsize) - 1)
    else:
        word = astype(array, dt.UINT64, copy=False)
    # the bits of each pair added, then of each four, of each byte, and of all bytes
    word = e.subtract(word, e.bitwise_and(e.bitwise_right_shift(word, 1), _bytes(0x55)))
    low, high = word, e.bitwise_right_shift(word, 2)
    word = e.add(e.bitwise_and(low, _bytes(0x33)), e.bitwise_and(high, _bytes(0x33)))
    word = e.bitwise_and(e.add(word, e.bitwise_right_shift(word, 4)), _bytes(0x0F))
    return astype(e.bitwise_right_shift(e.multiply(word, _bytes(1)), 56), dt.UINT8)


def _bytes(byte: int) -> int:
    """A 64-bit word of eight equal bytes."""
    return byte * 0x0101010101010101


_FAR: Final = 8.0
"""Where the series of `i0` in its argument gives way to that in the reciprocal."""


@public()
@in_single
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind and order 0."""
    array = wrap(lift(x, "i0"))
    check_categories("i0", 0, array.dtype, dt.REAL)
    array = astype(array, dt.inexact_dtype(array.dtype), copy=False)
    size = where(e.less(array, 0), e.negative(array), array)  # which has a slope at 0 too
    near, far = _series()
    is_near = e.less_equal(size, _FAR)
    small, large = where(is_near, size, _FAR), where(is_near, _FAR, size)
    below = e.multiply(e.exp(small), _chebyshev(near, e.subtract(e.divide(small, _FAR / 2), 1)))
    scaled = _chebyshev(far, e.subtract(e.divide(2 * _FAR, large), 1))
    beyond = e.divide(e.multiply(e.exp(large), scaled), e.sqrt(large))
    return cast("Array", where(is_near, below, beyond))


@cache
def _series() -> tuple[list[float], list[float]]:
    """Chebyshev series of `exp(-x) i0(x)` up to `_FAR`, and of `sqrt(x)` times that beyond."""
    # at many more points than terms, which averages their rounding errors out
    angles = (np.arange(100) + 0.5) * (math.pi / 100)
    points = np.cos(angles)
    near = _damped((points + 1) * (_FAR / 2))
    x = 2 * _FAR / (points + 1)
    far = np.sqrt(x) * _damped(x)
    cosines = np.cos(np.outer(np.arange(30), angles)) / 50
    cosines[0] /= 2
    return (cosines @ near).tolist(), (cosines[:21] @ far).tolist()


def _damped(x: Value) -> Value:
    """`exp(-x) i0(x)`: the mean of `exp(x (cos(a) - 1))` over the angles of a circle."""
    halves = np.arange(4096) * (math.pi / 4096)
    means: Value = np.exp(np.outer(x, -2 * np.sin(halves) ** 2)).mean(axis=1)
    return means


def _chebyshev(series: Sequence[float], t: Array) -> Array:
    """The sum of `series[k]` times the `k`-th Chebyshev polynomial, at `t`."""
    double = e.multiply(t, 2)
    before, value = full_like(t, 0), full_like(t, series[-1])
    for coefficient in reversed(series[1:-1]):
        before, value = value, e.add(e.subtract(e.multiply(double, value), before), coefficient)
    return e.add(e.subtract(e.multiply(t, value), before), series[0])
