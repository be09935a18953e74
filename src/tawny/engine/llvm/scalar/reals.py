"""Primitives of floating-point numbers.

float16 is computed in float32; the caller rounds.  Truth is one bit a lane.
"""

from __future__ import annotations

from typing import Final

from tawny import dtype as dt
from tawny.dtype import DType
from tawny.engine.llvm import vectormath as vm
from tawny.engine.llvm.ir.builder import F32, Function, Value
from tawny.engine.llvm.scalar.numbers import storage_type
from tawny.engine.llvm.scalar.rules import Rule, code_of_one, code_of_two, of_one, of_two
from tawny.scalar import Prim


def _intrinsic(name: str) -> Rule:
    """An intrinsic of LLVM of one argument."""
    return code_of_one(lambda f, x: f.unary(name, x))


def _nan(f: Function, x: Value) -> Value:
    return f.compare("uno", x, 0.0)


def _sign(f: Function, x: Value) -> Value:
    """-1, 0 or 1; NaN stays."""
    unit = f.select(x > 0.0, 1.0, f.select(x < 0.0, x.of(-1.0), 0.0))
    return f.select(_nan(f, x), x, unit)


def _extreme(greater: bool, numbers_first: bool) -> Rule:
    """The larger or smaller of two; a NaN wins, or gives way to a number.

    Of equal numbers, such as 0.0 and -0.0, it takes the one NumPy takes.
    """

    def rule(f: Function, dtype: DType, x: Value, y: Value) -> Value:
        name = ("g" if greater else "l") + ("e" if dtype == dt.FLOAT16 else "t")
        if y.text == y.of(0.0).text:  # no NaN
            return f.select(f.compare(("o" if numbers_first else "u") + name, x, y), x, y)
        chosen = f.select(f.compare(f"o{name}", x, y), x, y)
        return f.select(_nan(f, y if numbers_first else x), x, chosen)

    return rule


def _mod(f: Function, x: Value, y: Value) -> Value:
    """The remainder with the divisor's sign."""
    rest = vm.fmod(f, x, y)
    across = (rest < 0.0) ^ (y < 0.0)
    moved = f.select(across, rest + y, rest)
    return f.select(rest.equals(0.0), f.copysign(rest, y), moved)


def _floor_divide(f: Function, x: Value, y: Value) -> Value:
    """The quotient rounded down; infinite operands as the floor of the quotient."""
    rest = vm.fmod(f, x, y)
    whole = (x - rest) / y
    across = rest.differs(0.0) & ((rest < 0.0) ^ (y < 0.0))
    whole = f.select(across, whole - 1.0, whole)
    down = f.unary("floor", whole)
    near = f.select(whole - down > 0.5, down + 1.0, down)
    quotient = x / y
    near = f.select(whole.equals(0.0), f.copysign(whole.of(0.0), quotient), near)
    infinite = f.absolute(x).equals(float("inf")) | f.absolute(y).equals(float("inf"))
    near = f.select(infinite, f.unary("floor", quotient), near)
    return f.select(y.equals(0.0), quotient, near)


def _nextafter(f: Function, dtype: DType, x: Value, y: Value) -> Value:
    """The neighbour of `x` towards `y`, by its bits."""
    half, stored = dt.is_half(dtype), storage_type(dtype)
    bits = f.bits(f.convert("fptrunc", x, stored)) if half else f.bits(x)
    away = (x < y) ^ (x < 0.0)
    moved = f.select(away, bits + 1, bits - 1)
    sign = f.select(y < 0.0, bits.of(-(2 ** (bits.type.bits - 1))), 0)
    moved = f.select(x.equals(0.0), sign | 1, moved)
    neighbour = f.bitcast(moved, stored.like(x.type))
    if half:
        neighbour = f.convert("fpext", neighbour, F32)
    result = f.select(x.equals(y), x if half else y, neighbour)
    return f.select(_nan(f, x) | _nan(f, y), x + y, result)


REALS: Final[dict[Prim, Rule]] = {
    Prim.ADD: of_two(lambda x, y: x + y),
    Prim.SUB: of_two(lambda x, y: x - y),
    Prim.MUL: of_two(lambda x, y: x * y),
    Prim.DIV: of_two(lambda x, y: x / y),
    Prim.FLOORDIV: code_of_two(_floor_divide),
    Prim.MOD: code_of_two(_mod),
    Prim.FMOD: code_of_two(vm.fmod),
    Prim.POW: code_of_two(vm.pow),
    Prim.NEG: of_one(lambda x: -x),
    Prim.POS: of_one(lambda x: x),
    Prim.ABS: _intrinsic("fabs"),
    Prim.SIGN: code_of_one(_sign),
    Prim.RECIPROCAL: of_one(lambda x: 1.0 / x),
    Prim.SQRT: _intrinsic("sqrt"),
    Prim.CBRT: code_of_one(vm.cbrt),
    Prim.EXP: code_of_one(vm.exp),
    Prim.EXP2: code_of_one(vm.exp2),
    Prim.EXPM1: code_of_one(vm.expm1),
    Prim.LOG: code_of_one(vm.log),
    Prim.LOG2: code_of_one(vm.log2),
    Prim.LOG10: code_of_one(vm.log10),
    Prim.LOG1P: code_of_one(vm.log1p),
    Prim.SIN: code_of_one(vm.sin),
    Prim.COS: code_of_one(vm.cos),
    Prim.TAN: code_of_one(vm.tan),
    Prim.ASIN: code_of_one(vm.asin),
    Prim.ACOS: code_of_one(vm.acos),
    Prim.ATAN: code_of_one(vm.atan),
    Prim.ATAN2: code_of_two(vm.atan2),
    Prim.SINH: code_of_one(vm.sinh),
    Prim.COSH: code_of_one(vm.cosh),
    Prim.TANH: code_of_one(vm.tanh),
    Prim.ASINH: code_of_one(vm.asinh),
    Prim.ACOSH: code_of_one(vm.acosh),
    Prim.ATANH: code_of_one(vm.atanh),
    Prim.HYPOT: code_of_two(vm.hypot),
    Prim.ERF: code_of_one(vm.erf),
    Prim.ERFC: code_of_one(vm.erfc),
    Prim.FLOOR: _intrinsic("floor"),
    Prim.CEIL: _intrinsic("ceil"),
    Prim.TRUNC: _intrinsic("trunc"),
    Prim.RINT: _intrinsic("rint"),
    Prim.COPYSIGN: code_of_two(lambda f, x, y: f.copysign(x, y)),
    Prim.NEXTAFTER: _nextafter,
    Prim.SIGNBIT: code_of_one(lambda f, x: f.bits(x) < 0),
    Prim.ISNAN: code_of_one(_nan),
    Prim.ISINF: code_of_one(lambda f, x: f.absolute(x).equals(float("inf"))),
    Prim.ISFINITE: code_of_one(lambda f, x: f.absolute(x) < float("inf")),
    Prim.EQ: of_two(lambda x, y: x.equals(y)),
    Prim.NE: of_two(lambda x, y: x.differs(y)),
    Prim.LT: of_two(lambda x, y: x < y),
    Prim.LE: of_two(lambda x, y: x <= y),
    Prim.GT: of_two(lambda x, y: x > y),
    Prim.GE: of_two(lambda x, y: x >= y),
    Prim.MAX: _extreme(greater=True, numbers_first=False),
    Prim.MIN: _extreme(greater=False, numbers_first=False),
    Prim.FMAX: _extreme(greater=True, numbers_first=True),
    Prim.FMIN: _extreme(greater=False, numbers_first=True),
    Prim.CONJ: of_one(lambda x: x),
    Prim.REAL: of_one(lambda x: x),
    Prim.IMAG: of_one(lambda x: x.of(0.0)),
}
"""Rules by primitive.  Absent: Dawson's integral, and what floating-point numbers do not have."""

FUNCTIONS: Final = frozenset(prim for prim in REALS if prim.name.lower() in vm.__all__)
"""Mathematical functions, each of dozens of instructions."""
