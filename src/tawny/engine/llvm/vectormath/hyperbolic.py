"""Hyperbolic functions by way of exponentials, their inverses by way of logarithms."""

from __future__ import annotations

from typing import Final

from tawny.engine.llvm.ir.builder import F32, F64, Function, Type, Value
from tawny.engine.llvm.vectormath.common import (
    INF,
    NAN,
    Double,
    exact_sum,
    polynomial,
    power_of_two,
    quick_sum,
    via_float64,
)
from tawny.engine.llvm.vectormath.exponential import constants, reduce_argument, shifted_exp
from tawny.engine.llvm.vectormath.logarithm import log_of_sum

_SINH: Final[dict[Type, tuple[float, ...]]] = {
    F32: (0.16666667, 0.0083333105, 0.00019842891, 2.7822666e-06),
    F64: (
        0.16666666666666666,
        0.008333333333333573,
        0.0001984126984106116,
        2.7557319310090726e-06,
        2.5052089412765885e-08,
        1.6061339157107916e-10,
        7.503267214589562e-13,
        6.475234672384039e-15,
    ),
}
"""`(sinh(x) - x) / x**3` in powers of `x**2`, for x up to 1."""

_TANH: Final = (-0.33333275, 0.13331237, -0.053721983, 0.02057942, -0.005636558)
"""float32: `(tanh(x) - x) / x**3` in powers of `x**2`, for x up to 0.63."""

_ONE: Final[dict[Type, float]] = {F32: 9.2, F64: 19.1}
"""Above it tanh is 1."""


def sinh(f: Function, x: Value) -> Value:
    """Hyperbolic sine."""
    size = f.absolute(x)
    half = shifted_exp(f, size, -1)
    outer = f.copysign(half - 0.25 / half, x)
    z = x * x
    inner = f.fma(x * z, polynomial(f, z, _SINH[x.type.scalar]), x)
    return f.select(size < 1.0, inner, outer)


def cosh(f: Function, x: Value) -> Value:
    """Hyperbolic cosine."""
    half = shifted_exp(f, f.absolute(x), -1)
    return half + 0.25 / half


def tanh(f: Function, x: Value) -> Value:
    """Hyperbolic tangent."""
    size = f.absolute(x)
    limit = _ONE[x.type.scalar]
    bounded = f.select(size > limit, limit, size)
    n, r = reduce_argument(f, bounded + bounded)
    scale = power_of_two(f, n.integer, x.type)
    rest = f.fma(r * r, polynomial(f, r, constants(x).expm1), r)
    if x.type.scalar == F64:
        u = f.fma(rest, scale, scale - 1.0)  # exp(2 |x|) - 1
        return f.copysign(u / (u + 2.0), x)
    outer = 1.0 - 2.0 / (f.fma(rest, scale, scale) + 1.0)
    z = x * x
    inner = f.fma(x * z, polynomial(f, z, _TANH), x)
    return f.copysign(f.select(size < 0.625, inner, outer), x)


_HUGE: Final = 2.0**28
"""Above it `sqrt(x**2 + 1)` is x."""


def asinh(f: Function, x: Value) -> Value:
    """Inverse hyperbolic sine: `log(1 + |x| + (sqrt(x**2 + 1) - 1))`."""
    size = f.absolute(x)
    huge = size > _HUGE
    bounded = f.select(huge, 1.0, size)
    square = bounded * bounded
    rest = square / (f.sqrt(square + 1.0) + 1.0)
    high, low = exact_sum(size.of(1.0), bounded)
    result = _log(f, quick_sum(high, low + rest), size, huge)
    return f.copysign(f.select(size.equals(0.0), size, result), x)


@via_float64
def acosh(f: Function, x: Value) -> Value:
    """Inverse hyperbolic cosine, `log(x + sqrt((x - 1)**2 + 2 (x - 1)))`; NaN below 1."""
    huge = x > _HUGE
    bounded = f.select(huge, 1.0, x)
    above = bounded - 1.0
    total = exact_sum(bounded, f.sqrt(f.fma(above, above, above + above)))
    return f.select(f.compare("ult", x, 1.0), NAN, _log(f, total, x, huge))


@via_float64
def atanh(f: Function, x: Value) -> Value:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    size = f.absolute(x)
    bounded = f.select(size < 1.0, size, 0.5)
    excess = (bounded + bounded) / (1.0 - bounded)
    result = log_of_sum(f, *exact_sum(excess.of(1.0), excess)) * 0.5
    result = f.select(size.equals(1.0), INF, result)
    result = f.select(f.compare("ugt", size, 1.0), NAN, result)
    return f.copysign(f.select(size < 2.0**-30, size, result), x)


def _log(f: Function, number: Double, size: Value, huge: Value) -> Value:
    """The logarithm of a number or, where it is huge, of twice its size."""
    high = f.select(huge, size, number.high)
    low = f.select(huge, 0.0, number.low)
    result = log_of_sum(f, high, low, f.select(huge, high.of(1.0), 0.0))
    return f.select(size.equals(INF), INF, result)
