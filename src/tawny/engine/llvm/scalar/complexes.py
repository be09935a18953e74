"""Primitives of complex numbers: arithmetic, comparison, parts, and some functions.

Powers, tangents and inverse functions are not here: NumPy computes those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tawny.engine.llvm import vectormath as vm
from tawny.engine.llvm.ir.builder import Function, Value
from tawny.engine.llvm.scalar import complex_functions as functions
from tawny.engine.llvm.scalar.numbers import Number, Pair
from tawny.scalar import Prim

Rule = Callable[..., Number]
"""A function of the function being written and the arguments."""


def _multiply(x: Pair, y: Pair) -> Pair:
    return Pair(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _divide(f: Function, x: Pair, y: Pair) -> Pair:
    """By Smith's method: the smaller part of the divisor over the larger one."""
    wide, high = f.absolute(y.real), f.absolute(y.imag)
    flat = wide >= high
    zero = wide.equals(0.0) & high.equals(0.0)
    larger = f.select(flat, y.real, y.imag)
    smaller = f.select(flat, y.imag, y.real)
    ratio = smaller / larger
    scale = 1.0 / (larger + smaller * ratio)
    first = f.select(flat, x.real + x.imag * ratio, x.real * ratio + x.imag)
    second = f.select(flat, x.imag - x.real * ratio, x.imag * ratio - x.real)
    return Pair(
        f.select(zero, x.real / wide, first * scale),
        f.select(zero, x.imag / wide, second * scale),
    )


def _reciprocal(f: Function, x: Pair) -> Pair:
    wide, high = f.absolute(x.real), f.absolute(x.imag)
    flat = high <= wide
    larger = f.select(flat, x.real, x.imag)
    smaller = f.select(flat, x.imag, x.real)
    ratio = smaller / larger
    scale = larger + smaller * ratio
    unit = 1.0 / scale
    part = ratio / scale
    return Pair(f.select(flat, unit, part), f.select(flat, -part, -unit))


def _nan(f: Function, x: Pair) -> Value:
    return f.compare("uno", x.real, x.imag)


def _by_parts(function: Callable[[Value, Value], Value]) -> Rule:
    def rule(_: Function, x: Pair, y: Pair) -> Pair:
        return Pair(function(x.real, y.real), function(x.imag, y.imag))

    return rule


def _order(f: Function, name: str, x: Pair, y: Pair) -> Value:
    """Comparison by real parts, then by imaginary parts, as NumPy orders complex numbers."""
    strict = "olt" if name in {"olt", "ole"} else "ogt"
    first = f.compare(strict, x.real, y.real)
    numbers = ~f.compare("uno", x.imag, y.imag)
    tied = x.real.equals(y.real) & f.compare(name, x.imag, y.imag)
    return (first & numbers) | tied


def _comparison(name: str) -> Rule:
    def rule(f: Function, x: Pair, y: Pair) -> Value:
        return _order(f, name, x, y)

    return rule


def _extreme(name: str, numbers_first: bool) -> Rule:
    """The larger or smaller of two; a NaN wins, or gives way to a number."""

    def rule(f: Function, x: Pair, y: Pair) -> Pair:
        first = _order(f, name, x, y) | _nan(f, y if numbers_first else x)
        return _select(f, first, x, y)

    return rule


def _select(f: Function, condition: Value, x: Pair, y: Pair) -> Pair:
    return Pair(f.select(condition, x.real, y.real), f.select(condition, x.imag, y.imag))


def _infinite(f: Function, x: Pair) -> Value:
    inf = float("inf")
    return f.absolute(x.real).equals(inf) | f.absolute(x.imag).equals(inf)


def _finite(f: Function, x: Pair) -> Value:
    inf = float("inf")
    return (f.absolute(x.real) < inf) & (f.absolute(x.imag) < inf)


def _one(function: Callable[[Function, Pair], Number]) -> Rule:
    return function


def _two(function: Callable[[Function, Pair, Pair], Number]) -> Rule:
    return function


COMPLEXES: Final[dict[Prim, Rule]] = {
    Prim.ADD: _by_parts(lambda a, b: a + b),
    Prim.SUB: _by_parts(lambda a, b: a - b),
    Prim.MUL: _two(lambda _, x, y: _multiply(x, y)),
    Prim.DIV: _divide,
    Prim.NEG: _one(lambda _, x: Pair(-x.real, -x.imag)),
    Prim.POS: _one(lambda _, x: x),
    Prim.ABS: _one(lambda f, x: vm.hypot(f, x.real, x.imag)),
    Prim.RECIPROCAL: _reciprocal,
    Prim.ISNAN: _nan,
    Prim.ISINF: _infinite,
    Prim.ISFINITE: _finite,
    Prim.EQ: _two(lambda _, x, y: x.real.equals(y.real) & x.imag.equals(y.imag)),
    Prim.NE: _two(lambda _, x, y: x.real.differs(y.real) | x.imag.differs(y.imag)),
    Prim.LT: _comparison("olt"),
    Prim.LE: _comparison("ole"),
    Prim.GT: _comparison("ogt"),
    Prim.GE: _comparison("oge"),
    Prim.MAX: _extreme("oge", numbers_first=False),
    Prim.MIN: _extreme("ole", numbers_first=False),
    Prim.FMAX: _extreme("oge", numbers_first=True),
    Prim.FMIN: _extreme("ole", numbers_first=True),
    Prim.CONJ: _one(lambda _, x: Pair(x.real, -x.imag)),
    Prim.REAL: _one(lambda _, x: x.real),
    Prim.IMAG: _one(lambda _, x: x.imag),
    Prim.RINT: _one(lambda f, x: Pair(f.unary("rint", x.real), f.unary("rint", x.imag))),
    Prim.SQRT: _one(functions.sqrt),
    Prim.EXP: _one(functions.exp),
    Prim.LOG: _one(functions.log),
    Prim.LOG2: _one(functions.log2),
    Prim.LOG10: _one(functions.log10),
    Prim.SIN: _one(functions.sin),
    Prim.COS: _one(functions.cos),
    Prim.SINH: _one(functions.sinh),
    Prim.COSH: _one(functions.cosh),
}
"""Rules by primitive.  Absent ones are left to NumPy."""
