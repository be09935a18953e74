"""Functions of the digits and bits of numbers."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import check_categories
from tawny.dtype_rules import floating
from tawny.errors import type_error, value_error
from tawny.node import constant
from tawny.numpy.composite import where
from tawny.numpy.padding import pad
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import astype
from tawny.ops.differentiation import stop_gradient
from tawny.ops.movement import moveaxis, ravel, reshape
from tawny.ops.reduction import sum
from tawny.ops.selection import take
from tawny.shape import as_int, normalise_axis


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
    if not dt.can_cast(exponent.dtype, dt.INT64):
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


def _bit_places(bitorder: str, op: str) -> Array:
    """Where the bits of a byte stand, in the order they are listed."""
    if bitorder not in ("big", "little"):
        raise value_error(op, f"bitorder is {bitorder!r}; accepted: 'big', 'little'")
    places = np.arange(8, dtype=np.uint8)
    return wrap(constant(places[::-1].copy() if bitorder == "big" else places))


@public()
def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Elements as bits, 1 where they are not 0, eight of them in a byte along `axis`."""
    array = wrap(lift(a, "packbits"))
    check_categories("packbits", 0, array.dtype, dt.BOOLEAN | dt.INTEGER)
    places = _bit_places(bitorder, "packbits")
    array = ravel(array) if axis is None else array
    along = normalise_axis(axis or 0, array.ndim, "packbits")
    lines = moveaxis(e.not_equal(array, 0), along, -1)
    *others, n = lines.shape
    padded = pad(lines, [*[(0, 0)] * len(others), (0, -n % 8)])
    bits = astype(reshape(padded, (*others, -(-n // 8), 8)), dt.UINT8)
    packed = sum(e.bitwise_left_shift(bits, places), -1, dt.UINT8)
    return moveaxis(packed, -1, along)


@public()
def unpackbits(
    a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes (uint8) along `axis`, each an element; `count` of them."""
    array = wrap(lift(a, "unpackbits"))
    if array.dtype != dt.UINT8:
        raise type_error("unpackbits", f"operand 0 has dtype {array.dtype}; accepted: uint8")
    places = _bit_places(bitorder, "unpackbits")
    array = ravel(array) if axis is None else array
    along = normalise_axis(axis or 0, array.ndim, "unpackbits")
    lines = moveaxis(array, along, -1)
    *others, n = lines.shape
    bits = e.bitwise_and(e.bitwise_right_shift(reshape(lines, (*others, n, 1)), places), 1)
    result = reshape(bits, (*others, n * 8))
    if count is not None:
        wanted = as_int(count, "unpackbits", "count")
        wanted = wanted if wanted >= 0 else n * 8 + wanted
        if wanted < 0:
            raise value_error("unpackbits", f"count is {count}; there are {n * 8} bits")
        result = result[..., :wanted]
        if wanted > n * 8:
            result = pad(result, [*[(0, 0)] * len(others), (0, wanted - n * 8)])
    return moveaxis(result, -1, along)
