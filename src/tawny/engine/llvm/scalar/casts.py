"""Conversions between dtypes, as C and NumPy make them on x86-64, out of range too.

Numbers of 16 bits, float16 and bfloat16, are held as float32 while they are computed with; a
complex number is a pair.
"""

from __future__ import annotations

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.llvm.ir.builder import F32, F64, I32, I64, Function, Type, Value
from tawny.engine.llvm.ir.truncation import cut_by_instruction
from tawny.engine.llvm.scalar.numbers import (
    Number,
    Pair,
    compute_type,
    round_to_dtype,
    storage_type,
    truth,
)


def cast(f: Function, number: Number, given: DType, wanted: DType) -> Number:
    """A number of one dtype as another."""
    if given == wanted:
        return number
    if wanted.kind == "b":
        return truth(given, number)
    if wanted.kind == "c":
        part = dt.real_dtype(wanted)
        if isinstance(number, Pair):
            whole = dt.real_dtype(given)
            return Pair(_real(f, number.real, whole, part), _real(f, number.imag, whole, part))
        value = _real(f, number, given, part)
        return Pair(value, value.of(0.0))
    if isinstance(number, Pair):
        return _real(f, number.real, dt.real_dtype(given), wanted)
    return _real(f, number, given, wanted)


def _real(f: Function, value: Value, given: DType, wanted: DType) -> Value:
    """A real number of one dtype as another."""
    if given == wanted:
        return value
    if kind_of(given) == "f":
        return _from_float(f, value, given, wanted)
    signed = given.kind == "i"
    if dt.is_bfloat16(wanted) and given.itemsize >= 4:
        exact = _odd_float64(f, value, signed)
        return f.convert("fpext", f.convert("fptrunc", exact, storage_type(wanted)), F32)
    if kind_of(wanted) == "f":
        floating = f.convert("sitofp" if signed else "uitofp", value, compute_type(wanted))
        return round_to_dtype(f, wanted, floating)
    if given.kind == "b" or wanted.itemsize > given.itemsize:
        return f.convert("sext" if signed else "zext", value, compute_type(wanted))
    if wanted.itemsize < given.itemsize:
        return f.convert("trunc", value, compute_type(wanted))
    return value


def _from_float(f: Function, value: Value, given: DType, wanted: DType) -> Value:
    """A floating-point number as another one, or as an integer by way of a signed one."""
    if kind_of(wanted) == "f":
        return _between_floats(f, value, given, wanted)
    match wanted.itemsize, kind_of(wanted):
        case 8, "u":
            return _to_uint64(f, value)
        case (8, _) | (4, "u"):
            whole = _cut(f, value, I64)
        case _:
            whole = _cut(f, value, I32)
    type = compute_type(wanted)
    return whole if whole.type.scalar == type else f.convert("trunc", whole, type)


def _between_floats(f: Function, value: Value, given: DType, wanted: DType) -> Value:
    """A floating-point number in another precision; one of 16 bits is rounded, and held wider."""
    if wanted == dt.FLOAT64:
        return f.convert("fpext", value, F64)
    if wanted == dt.FLOAT32:
        return value if dt.is_half(given) else f.convert("fptrunc", value, F32)
    return f.convert("fpext", f.convert("fptrunc", value, storage_type(wanted)), F32)


def _odd_float64(f: Function, value: Value, signed: bool) -> Value:
    """An integer as float64; where that is not exact, the neighbour whose last bit is set.

    Rounded again, to fewer bits, that gives what one rounding of the integer would.
    """
    kind = "sitofp" if signed else "uitofp"
    if value.type.bits < 64:
        return f.convert(kind, value, F64)
    high = (value >> 32) if signed else value.shifted_down(32)
    upper = f.convert(kind, high, F64) * 2.0**32
    lower = f.convert("uitofp", value & 0xFFFFFFFF, F64)
    near = upper + lower
    rest = lower - (near - upper)
    bits = f.bits(near)
    away = (rest < 0.0) & (near > 0.0) | ((rest > 0.0) & (near < 0.0))
    odd = f.select(away, bits - 1, bits) | 1
    return f.select(rest.differs(0.0), f.bitcast(odd, near.type), near)


def _cut(f: Function, value: Value, type: Type) -> Value:
    """The whole part as a signed integer; the least one where it does not fit."""
    made = cut_by_instruction(f, value) if type == I32 else None
    if made is not None:
        return made
    bound = 2.0 ** (type.bits - 1)
    # The greatest float below the bound fits; below -bound the next one may still be cut to it.
    inside = (value < bound) & (value > _limit_below(value.type, -bound))
    whole = f.convert("fptosi", f.select(inside, value, 0.0), type)
    return f.select(inside, whole, -(2 ** (type.bits - 1)))


def _limit_below(type: Type, bound: float) -> float:
    """A number such that all above it are cut to `bound` or more."""
    if type.scalar == F64 and bound == -(2.0**31):
        return bound - 1.0
    return bound * (1.0 + 2.0 ** (-52 if type.scalar == F64 else -23))


def _to_uint64(f: Function, value: Value) -> Value:
    """By way of a signed integer; negative numbers wrap."""
    half = 2.0**63
    large = value >= half
    whole = _cut(f, f.select(large, value - half, value), I64)
    return f.select(large, whole ^ -(2**63), whole)
