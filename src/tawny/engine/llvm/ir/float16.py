"""Conversions to and from float16: by instructions where the host has them, else by arithmetic.

No library is called: which of them a process has depends on the compiler that built it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tawny.engine.llvm.ir.values import F16, F32, F64, I16, I32, Value

if TYPE_CHECKING:
    from tawny.engine.llvm.ir.instructions import Instructions

_SIGN: Final = 0x8000
_INFINITY: Final = 0x7C00
_QUIET: Final = 0x0200
"""Bits of float16: the sign, the exponent of infinity, and the first of a NaN's own."""

_SHIFT: Final = 13
"""Bits after the point that float32 has more than float16."""


def widen(f: Instructions, value: Value) -> Value:
    """float16 as float32, exactly."""
    bits = f.convert("zext", f.bits(value), I32)
    size = bits & (_SIGN - 1)
    # Moved to the exponent's place it is too small by the difference of the exponents' biases.
    number = f.bits(f.bitcast(size << _SHIFT, F32.like(size.type)) * 2.0**112)
    special = (size << _SHIFT) | 0x7F800000
    special = f.select(size > _INFINITY, special | (_QUIET << _SHIFT), special)
    found = f.select(size >= _INFINITY, special, number) | ((bits & _SIGN) << 16)
    return f.bitcast(found, F32.like(found.type))


def narrow(f: Instructions, value: Value) -> Value:
    """float32 as float16, rounded to the nearest, of two the even one."""
    bits = f.bits(value)
    size = bits & 0x7FFFFFFF
    even = size.shifted_down(_SHIFT) & 1
    normal = (size + 0xFFF + even - 0x38000000).shifted_down(_SHIFT)
    normal = f.select(normal > _INFINITY, _INFINITY, normal)
    # The last bit of a number from 0.5 to 1 is float16's least number.
    small = f.bits(f.bitcast(size, value.type) + 0.5) - 0x3F000000
    found = f.select(size < 0x38800000, small, normal)
    none = (size.shifted_down(_SHIFT) & (2 * _QUIET - 1)) | (_INFINITY | _QUIET)
    found = f.select(size > 0x7F800000, none, found)
    signed = found | (bits.shifted_down(16) & _SIGN)
    return f.bitcast(f.convert("trunc", signed, I16), F16.like(value.type))


def round_to_odd(f: Instructions, value: Value) -> Value:
    """A float64 as float32; where that is not exact, the neighbour whose last bit is set.

    Rounding it once more, to float16, then gives what rounding once would.
    """
    near = f.convert("fptrunc", value, F32)
    back = f.convert("fpext", near, F64)
    bits = f.bits(near)
    above = f.absolute(back) > f.absolute(value)
    inner = f.select(above, bits - 1, bits) | 1
    odd = f.bitcast(inner, near.type)
    finite = f.absolute(near) < float("inf")
    return f.select(back.differs(value) & finite, odd, near)
