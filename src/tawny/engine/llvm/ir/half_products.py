"""Products of bfloat16, two of which fill a lane of 32 bits, added to float32 sums."""

from __future__ import annotations

from typing import Final

from tawny.engine.llvm.ir.builder import Function, Type, Value

_DOT: Final = {16: "x86.avx512bf16.dpbf16ps.512", 8: "x86.avx512bf16.dpbf16ps.256"}
"""Instructions by the lanes of their vectors."""

_UPPER: Final = -0x10000
"""The bits of a lane's second number."""


def add_half_products(f: Function, sums: Value, left: Value, right: Value) -> Value:
    """The sums with the products of each lane's two numbers added, the second ones first.

    Products are exact in float32 and each sum is rounded: with the instruction and without it the
    bits are the same, but for numbers too small for float32's exponents, which it takes as zeros.
    """
    lanes = sums.type.lanes
    if f.module.target.multiplies_halves and lanes in _DOT:
        pairs = Type("bfloat", 2 * lanes)
        operands = f.bitcast(left, pairs), f.bitcast(right, pairs)
        return f.intrinsic(_DOT[lanes], sums.type, sums, *operands, overload=())
    one, other = f.bits(left), f.bits(right)
    for a, b in ((one & _UPPER, other & _UPPER), (one << 16, other << 16)):
        factors = f.bitcast(a, sums.type), f.bitcast(b, sums.type)
        sums = f.intrinsic("fmuladd", sums.type, *factors, sums)
    return sums
