"""Primitives of integers and truth values: they wrap, and never trap.

Division by zero gives 0, as NumPy does.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tawny import dtype as dt
from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import I1, Function, Value
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.numbers import real
from tawny.engine.llvm.scalar.rules import Rule, code_of_one, code_of_two, of_one, of_two
from tawny.engine.llvm.vectormath.common import any_lane
from tawny.scalar import Prim


def _is_signed(dtype: DType) -> bool:
    return dtype.kind == "i"


def _comparison(signed: str, unsigned: str) -> Rule:
    """A comparison by LLVM's names for it."""

    def rule(f: Function, dtype: DType, x: Value, y: Value) -> Value:
        return f.compare(signed if _is_signed(dtype) else unsigned, x, y)

    return rule


def _extreme(signed: str, unsigned: str) -> Rule:
    """The larger or smaller of two, by LLVM's names for it."""

    def rule(f: Function, dtype: DType, x: Value, y: Value) -> Value:
        return f.intrinsic(signed if _is_signed(dtype) else unsigned, x.type, x, y)

    return rule


def _quotient(f: Function, dtype: DType, x: Value, y: Value) -> tuple[Value, Value]:
    """The quotient rounded towards zero, and its remainder; 0 and `x` where `y` is 0.

    The least number divided by -1 is itself, since it wraps.
    """
    zero = y.equals(0)
    if dtype.itemsize <= 4:
        # Quotients of 32-bit integers are exact in float64 to well within the next integer.
        one = f.select(zero, 1, y)
        a, b = (real(cast(f, v, dtype, dt.FLOAT64)) for v in (x, one))
        whole = real(cast(f, f.unary("trunc", a / b), dt.FLOAT64, dt.INT64))
        quotient = real(cast(f, whole, dt.INT64, dtype))
    elif _is_signed(dtype):
        minus = y.equals(-1)
        quotient = x // f.select(zero | minus, 1, y)
        quotient = f.select(minus, -x, quotient)
    else:
        quotient = x.unsigned_over(f.select(zero, 1, y))
    quotient = f.select(zero, 0, quotient)
    return quotient, x - quotient * y


def _floor_divide(f: Function, dtype: DType, x: Value, y: Value) -> Value:
    """The quotient rounded down; 0 where `y` is 0."""
    quotient, rest = _quotient(f, dtype, x, y)
    if not _is_signed(dtype):
        return quotient
    across = rest.differs(0) & ((rest ^ y) < 0) & y.differs(0)
    return f.select(across, quotient - 1, quotient)


def _mod(f: Function, dtype: DType, x: Value, y: Value) -> Value:
    """The remainder with the divisor's sign; 0 where `y` is 0."""
    _, rest = _quotient(f, dtype, x, y)
    if _is_signed(dtype):
        rest = f.select(rest.differs(0) & ((rest ^ y) < 0), rest + y, rest)
    return f.select(y.equals(0), 0, rest)


def _fmod(f: Function, dtype: DType, x: Value, y: Value) -> Value:
    """The remainder with the dividend's sign; 0 where `y` is 0."""
    _, rest = _quotient(f, dtype, x, y)
    return f.select(y.equals(0), 0, rest)


def _power(f: Function, x: Value, y: Value) -> Value:
    """By squaring, for exponents that are not negative."""
    with f.repeat(x.of(1) | (x & 0), x, y) as repeat:
        result, base, exponent = repeat.carried
        odd = (exponent & 1).differs(0)
        left = exponent.shifted_down(1)
        result = f.select(odd, result * base, result)
        repeat.again(any_lane(f, left.differs(0)), result, base * base, left)
    return repeat.carried[0]


def _absolute(f: Function, dtype: DType, x: Value) -> Value:
    return f.select(x < 0, -x, x) if _is_signed(dtype) else x


def _sign(f: Function, dtype: DType, x: Value) -> Value:
    unit = f.select(x.equals(0), x, 1)
    return f.select(x < 0, -1, unit) if _is_signed(dtype) else unit


def _reciprocal(f: Function, dtype: DType, x: Value) -> Value:
    """1 / x in float64, cut."""
    wide = real(cast(f, x, dtype, dt.FLOAT64))
    return real(cast(f, 1.0 / wide, dt.FLOAT64, dtype))


def _shift_up(f: Function, x: Value, y: Value) -> Value:
    """0 where all bits are shifted out, also by a negative count."""
    # A count chosen by the condition would become the count itself, of which PTX takes 32 bits.
    return f.select(y.unsigned_below(x.type.bits), x << (y & (x.type.bits - 1)), 0)


def _shift_down(f: Function, dtype: DType, x: Value, y: Value) -> Value:
    """The sign where all bits are shifted out, also by a negative count."""
    inside = y.unsigned_below(x.type.bits)
    if _is_signed(dtype):
        return x >> f.select(inside, y, x.type.bits - 1)
    return f.select(inside, x.shifted_down(y & (x.type.bits - 1)), 0)


def _gcd(f: Function, dtype: DType, x: Value, y: Value) -> Value:
    """By Stein's method: powers of two apart, odd numbers by differences.

    Each stands for the other where one is 0, and 1 for both where both are.
    """
    a, b = _absolute(f, dtype, x), _absolute(f, dtype, y)
    none = (a | b).equals(0)
    left, right = (f.select(none, 1, f.select(m.equals(0), n, m)) for m, n in ((a, b), (b, a)))
    twos = _twos(f, left | right)
    first = left.shifted_down(_twos(f, left))
    with f.repeat(first, right) as repeat:
        one, other = repeat.carried
        other = f.select(other.equals(0), one, other.shifted_down(_twos(f, other)))
        least = f.intrinsic("umin", one.type, one, other)
        rest = f.intrinsic("umax", one.type, one, other) - least
        repeat.again(any_lane(f, rest.differs(0)), least, rest)
    return f.select(none, 0, repeat.carried[0] << twos)


def _twos(f: Function, x: Value) -> Value:
    """How often 2 divides a number; 0 for 0."""
    count = f.intrinsic("cttz", x.type, x, f.constant(I1, 0))
    return count & (x.type.bits - 1)


def _lcm(f: Function, dtype: DType, x: Value, y: Value) -> Value:
    """The product of one and of the other's share that is no common divisor; 0 beside 0."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    divisor = _gcd(f, dtype, x, y)
    share, _ = _quotient(f, unsigned, _absolute(f, dtype, x), divisor)
    return share * _absolute(f, dtype, y)


def _constant_rule(answer: bool) -> Rule:
    return code_of_one(lambda f, x: f.constant(I1.like(x.type), answer))


_IDENTITY: Final = of_one(lambda x: x)
_AND: Final = of_two(lambda x, y: x & y)
_OR: Final = of_two(lambda x, y: x | y)
_XOR: Final = of_two(lambda x, y: x ^ y)

_COMPARISONS: Final[dict[Prim, Rule]] = {
    Prim.EQ: _comparison("eq", "eq"),
    Prim.NE: _comparison("ne", "ne"),
    Prim.LT: _comparison("slt", "ult"),
    Prim.LE: _comparison("sle", "ule"),
    Prim.GT: _comparison("sgt", "ugt"),
    Prim.GE: _comparison("sge", "uge"),
}
_FACTS: Final[dict[Prim, Rule]] = {
    Prim.ISNAN: _constant_rule(False),
    Prim.ISINF: _constant_rule(False),
    Prim.ISFINITE: _constant_rule(True),
    Prim.POS: _IDENTITY,
    Prim.FLOOR: _IDENTITY,
    Prim.CEIL: _IDENTITY,
    Prim.TRUNC: _IDENTITY,
    Prim.CONJ: _IDENTITY,
    Prim.REAL: _IDENTITY,
    Prim.IMAG: of_one(lambda x: x.of(0)),
    Prim.BIT_AND: _AND,
    Prim.BIT_OR: _OR,
    Prim.BIT_XOR: _XOR,
    Prim.BIT_NOT: of_one(lambda x: ~x),
}

INTEGERS: Final[dict[Prim, Rule]] = {
    **_COMPARISONS,
    **_FACTS,
    Prim.ADD: of_two(lambda x, y: x + y),
    Prim.SUB: of_two(lambda x, y: x - y),
    Prim.MUL: of_two(lambda x, y: x * y),
    Prim.FLOORDIV: _floor_divide,
    Prim.MOD: _mod,
    Prim.FMOD: _fmod,
    Prim.POW: code_of_two(_power),
    Prim.NEG: of_one(lambda x: -x),
    Prim.ABS: _absolute,
    Prim.SIGN: _sign,
    Prim.RECIPROCAL: _reciprocal,
    Prim.MAX: _extreme("smax", "umax"),
    Prim.MIN: _extreme("smin", "umin"),
    Prim.FMAX: _extreme("smax", "umax"),
    Prim.FMIN: _extreme("smin", "umin"),
    Prim.SHL: code_of_two(_shift_up),
    Prim.SHR: _shift_down,
    Prim.GCD: _gcd,
    Prim.LCM: _lcm,
}
"""Rules by primitive.  Powers of signed integers refuse negative exponents: see `is_supported`."""

BOOLEANS: Final[dict[Prim, Rule]] = {
    **_COMPARISONS,
    **_FACTS,
    Prim.ADD: _OR,
    Prim.MUL: _AND,
    Prim.ABS: _IDENTITY,
    Prim.MAX: _OR,
    Prim.MIN: _AND,
    Prim.FMAX: _OR,
    Prim.FMIN: _AND,
}
"""Rules by primitive, for truth values."""
