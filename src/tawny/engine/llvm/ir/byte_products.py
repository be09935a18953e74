"""Products of bytes, four of which fill a lane of 32 bits, added to 32-bit sums."""

from __future__ import annotations

from tawny.engine.llvm.ir.builder import I8, I16, Function, Value

_VNNI = {16: "x86.avx512.vpdpbusd.512", 8: "x86.avx512.vpdpbusd.256"}
_PAIRS = {16: "x86.avx512.pmaddw.d.512", 8: "x86.avx2.pmadd.wd"}
"""Instructions by the lanes of their vectors: for four bytes, and for two numbers of 16 bits."""


def add_byte_products(f: Function, sums: Value, unsigned: Value, signed: Value) -> Value:
    """The sums with the products of each lane's four bytes added: exact, or wrapped at 32 bits.

    Those of one vector have no sign, those of the other have one.
    """
    lanes = sums.type.lanes
    if f.module.target.multiplies_bytes and lanes in _VNNI:
        bytes_type = I8.by(4 * lanes)
        left, right = f.bitcast(unsigned, bytes_type), f.bitcast(signed, bytes_type)
        return f.intrinsic(_VNNI[lanes], sums.type, sums, left, right, overload=())
    evens = unsigned & 0x00FF00FF, (signed << 8, 8)
    odds = unsigned.shifted_down(8) & 0x00FF00FF, (signed, 8)
    for left, (right, shift) in (evens, odds):
        sums = sums + _add_pairs(f, left, _signed_halves(f, right, shift))
    return sums


def _signed_halves(f: Function, value: Value, shift: int) -> Value:
    """Numbers of 16 bits, each moved down by some bits with its sign."""
    halves = f.bitcast(value, I16.by(2 * value.type.lanes))
    return f.bitcast(halves >> shift, value.type)


def _add_pairs(f: Function, left: Value, right: Value) -> Value:
    """The sums of the two products of 16-bit numbers in each lane."""
    lanes, target = left.type.lanes, f.module.target
    known = target.triple.startswith("x86_64") and target.vector_bytes >= 4 * lanes
    if known and lanes in _PAIRS:
        halves = I16.by(2 * lanes)
        operands = f.bitcast(left, halves), f.bitcast(right, halves)
        return f.intrinsic(_PAIRS[lanes], left.type, *operands, overload=())
    low = ((left << 16) >> 16) * ((right << 16) >> 16)
    return low + (left >> 16) * (right >> 16)
