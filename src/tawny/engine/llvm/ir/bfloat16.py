"""Conversions to and from bfloat16, by arithmetic: processors' own instructions drop what is small.

bfloat16 is the upper half of float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tawny.engine.llvm.ir.values import BF16, F32, I16, I32, Value

if TYPE_CHECKING:
    from tawny.engine.llvm.ir.instructions import Instructions

_SHIFT: Final = 16
_INFINITY: Final = 0x7F800000
_QUIET: Final = 0x0040
"""The exponent of infinity in float32, and the first of a NaN's own bits in bfloat16."""


def widen(f: Instructions, value: Value) -> Value:
    """bfloat16 as float32, exactly."""
    bits = f.convert("zext", f.bits(value), I32) << _SHIFT
    return f.bitcast(bits, F32.like(bits.type))


def narrow(f: Instructions, value: Value) -> Value:
    """float32 as bfloat16, rounded to the nearest, of two the even one."""
    bits = f.bits(value)
    upper = bits.shifted_down(_SHIFT)
    near = (bits + 0x7FFF + (upper & 1)).shifted_down(_SHIFT)
    found = f.select((bits & 0x7FFFFFFF) > _INFINITY, upper | _QUIET, near)
    return f.bitcast(f.convert("trunc", found, I16), BF16.like(value.type))
