"""Numbers as integers that are in the numbers' order: NaN last, both zeros equal."""

from __future__ import annotations

from typing import Final

from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import Function, Value

FRACTION: Final = {2: 10, 4: 23, 8: 52}
"""Bits of a float's fraction, by its bytes."""


def signed_key(f: Function, dtype: DType, bits: Value) -> Value:
    """A signed integer in the order of the numbers, given the bits of a number, not complex."""
    if dtype.kind in "bi":
        return bits
    return unsigned_key(f, dtype, bits) ^ bits.of(-(1 << (bits.type.bits - 1)))


def unsigned_key(f: Function, dtype: DType, bits: Value) -> Value:
    """An unsigned integer in the order of the numbers, given the bits of a number."""
    if dtype.kind in "bu":
        return bits
    width = bits.type.bits
    if dtype.kind == "i":
        return bits ^ bits.of(-(1 << (width - 1)))
    infinite = _infinite(bits)
    return f.intrinsic("umin", bits.type, _signed_rank(bits) + infinite, bits.of(2 * infinite + 1))


def is_nan_bits(bits: Value) -> Value:
    """Whether the bits of a float are those of a NaN."""
    infinite = _infinite(bits)
    return bits.code.compare("ugt", _signed_rank(bits) + infinite, 2 * infinite)


def _signed_rank(bits: Value) -> Value:
    """How many floats from zero on a float is, those below with their sign.

    Without a choice by the sign, which a processor would guess.
    """
    negative = bits >> (bits.type.bits - 1)
    return (bits ^ negative.shifted_down(1)) - negative


def _infinite(bits: Value) -> int:
    """The bits of infinity."""
    return (1 << (bits.type.bits - 1)) - (1 << FRACTION[bits.type.nbytes])
