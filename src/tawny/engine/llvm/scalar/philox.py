"""Random numbers: each element is a function of key, run and place, so threads change nothing.

Philox4x32-10 gives four words for the counter (place, run) under the key of a stream.
"""

from __future__ import annotations

import math
from typing import Final

from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import BF16, F16, F32, F64, I32, I64, Function, Type, Value
from tawny.engine.llvm.vectormath import cos, log1p
from tawny.ops.loops import LAST_SHIFT, SCRAMBLE, UNSCRAMBLE

MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
WEYL: Final = (0x9E3779B9, 0xBB67AE85)
ROUNDS: Final = 10

Words = tuple[Value, Value, Value, Value]


def widen(f: Function, number: Value, dtype: DType) -> Value:
    """An integer in 64 bits."""
    if number.type == I64:
        return number
    return f.convert("sext" if dtype.kind == "i" else "zext", number, I64)


def high_product(a: Value, b: Value) -> Value:
    """The upper 64 bits of the product of unsigned 64-bit numbers."""
    a0, a1, b0, b1 = _low(a), a.shifted_down(32), _low(b), b.shifted_down(32)
    middle = a1 * b0 + (a0 * b0).shifted_down(32)
    other = a0 * b1 + _low(middle)
    return a1 * b1 + middle.shifted_down(32) + other.shifted_down(32)


def draw_words(
    f: Function, place: Value, run: Value, key: tuple[Value, Value], lanes: int
) -> Words:
    """The four words of each of the places from `place` on, as the lower halves of 64 bits."""
    c0 = f.splat(place, lanes) + f.counting(I64, lanes) if lanes else place
    c1 = c0.shifted_down(32)
    c2 = f.splat(run, lanes)
    c3 = c2.shifted_down(32)
    for step in range(ROUNDS):
        k0, k1 = (f.splat(k + step * w, lanes) for k, w in zip(key, WEYL, strict=True))
        p0, p1 = (_low(c) * m for c, m in zip((c0, c2), MULTIPLIERS, strict=True))
        c0, c1, c2, c3 = p1.shifted_down(32) ^ c1 ^ k0, p1, p0.shifted_down(32) ^ c3 ^ k1, p0
    return c0, c1, c2, c3


def _low(word: Value) -> Value:
    return word & 0xFFFFFFFF


def _top(f: Function, word: Value, bits: int) -> Value:
    """The uppermost bits of a word, as 32-bit integers."""
    return f.convert("trunc", word, I32).shifted_down(32 - bits)


def _fraction(f: Function, high: Value, low: Value, dtype: Type) -> Value:
    """A number from 0 up to 1 with as many random bits as the type has; of 16 bits as float32."""
    if dtype == F64:
        upper = f.convert("sitofp", _top(f, high, 27), F64) * 2.0**26
        return (upper + f.convert("sitofp", _top(f, low, 26), F64)) * 2.0**-53
    bits = {F32: 24, F16: 11, BF16: 8}[dtype]
    return f.convert("sitofp", _top(f, high, bits), F32) * 2.0**-bits


def uniform(f: Function, words: Words, stored: Type) -> Value:
    """A number from 0 up to but not including 1, as `stored` holds it."""
    return _fraction(f, words[0], words[1], stored)


def normal(f: Function, words: Words, number: Type) -> Value:
    """Box and Muller's transform of two fractions."""
    first, second = _fraction(f, *words[:2], number), _fraction(f, *words[2:], number)
    radius = f.sqrt(log1p(f, -first) * -2.0)
    return radius * cos(f, second * (2 * math.pi))


def random_bits(words: Words) -> Value:
    """64 random bits."""
    return _low(words[0]) | (words[1] << 32)


def scramble(word: Value) -> Value:
    """The permutation of words by which draws in loops are numbered; see `tawny.ops.loops`."""
    for shift, factor in SCRAMBLE:
        word = (word ^ word.shifted_down(shift)) * _as_signed(factor)
    return word ^ word.shifted_down(LAST_SHIFT)


def unscramble(word: Value) -> Value:
    """The word that `scramble` makes another one of."""
    for shift, factor in UNSCRAMBLE:
        word = _shifted_back(word, shift) * _as_signed(factor)
    return _shifted_back(word, SCRAMBLE[0][0])


def _shifted_back(word: Value, shift: int) -> Value:
    """The word to which itself, shifted, was added bit by bit."""
    return word ^ word.shifted_down(shift) ^ word.shifted_down(2 * shift)


def _as_signed(word: int) -> int:
    """The signed number with the bits of a word."""
    return word - 2**64 if word >= 2**63 else word
