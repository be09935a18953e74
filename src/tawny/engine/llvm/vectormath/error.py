"""The error function and its complement."""

from __future__ import annotations

from typing import Final

from tawny.engine.llvm.ir.builder import F32, F64, Function, Type, Value
from tawny.engine.llvm.vectormath.common import (
    Double,
    exact_product,
    narrow,
    polynomial,
    product,
    quick_sum,
    scale,
    widen,
)
from tawny.engine.llvm.vectormath.exponential import exp, exp_parts

_NEAR: Final[dict[Type, tuple[float, ...]]] = {
    F32: (
        0.12837917,
        -0.3761263,
        0.11283626,
        -0.02685574,
        0.0051924605,
        -0.0008050808,
        8.002804e-05,
    ),
    F64: (
        0.12837916709551256,
        -0.37612638903183343,
        0.11283791670936955,
        -0.026866170641960414,
        0.005223977596750989,
        -0.0008548325485937012,
        0.00012055280530839292,
        -1.4924466413487876e-05,
        1.6444161487435274e-06,
        -1.6184084769079465e-07,
        1.3617144850505839e-08,
        -7.608714977263756e-10,
    ),
}
"""`erf(x) / x - 1` in powers of `x**2`; float32 up to 0.94, float64 up to 1."""

_LOG_TAIL: Final = (
    0.00017992672,
    -1.12954,
    -0.63329667,
    -0.10833497,
    0.025154691,
    -0.004184406,
    0.00043722402,
    -2.1337659e-05,
)
"""float32: `log(erfc(x))` for x from 0.94 to 4."""

_SCALED: Final = (
    1.2384539793123546,
    -0.14027115596218107,
    0.000957562645596724,
    0.08524723650182531,
    -0.11020496512093043,
    0.09169192249587423,
    -0.05689515999218942,
    0.02652561199694108,
    -0.008547499687494988,
    0.0012411312822427462,
    0.00040466057546180824,
    -0.0002697665421270819,
    2.8770048311330543e-05,
    2.6584178938354502e-05,
    -9.128080779141026e-06,
    -2.1212392848589514e-06,
    1.5735605069574324e-06,
    1.4937414155969987e-07,
    -2.3456872181616612e-07,
    -8.553463500945397e-09,
    2.490163157927687e-08,
)
"""`(1 + 2 x) exp(x**2) erfc(x)` in powers of `(x - 3.7) / (x + 3.7)`, for x from 0.5 to 27.5."""

_SHORT_SCALED: Final = (
    1.2709799232215164,
    -0.11025562112454847,
    -0.13078013269849012,
    0.1652566924270576,
    -0.08313176039978686,
    0.011437387326890378,
    0.008086319014502573,
    -0.002598541705811064,
    -0.00114148964088406,
    0.00036131068337945366,
    0.0001838664373988527,
)
"""`(1 + 2 x) exp(x**2) erfc(x)` to 31 bits, for x from 0.5 to 10.2.

In powers of `(x - 2.25) / (x + 2.25)`."""


def erf(f: Function, x: Value) -> Value:
    """Error function."""
    size = f.absolute(x)
    z = x * x
    inner = f.fma(x, polynomial(f, z, _NEAR[x.type.scalar]), x)
    if x.type.scalar == F32:
        bounded = f.select(size > 4.0, 4.0, size)
        outer = 1.0 - exp(f, polynomial(f, bounded, _LOG_TAIL))
        return f.select(size < 0.94, inner, f.copysign(outer, x))
    outer = 1.0 - _tail(f, f.select(size > 6.0, 6.0, size), _SCALED, 3.7)
    return f.select(size < 1.0, inner, f.copysign(outer, x))


def erfc(f: Function, x: Value) -> Value:
    """Complementary error function, accurate in the tail."""
    if x.type.scalar == F32:
        return narrow(f, _complement(f, widen(f, x), _SHORT_SCALED, 2.25, 10.2))
    return _complement(f, x, _SCALED, 3.7, 27.5)


def _complement(
    f: Function, x: Value, coefficients: tuple[float, ...], centre: float, end: float
) -> Value:
    size = f.absolute(x)
    near = f.fma(x, -polynomial(f, x * x, _NEAR[F64]), 1.0 - x)
    tail = _tail(f, f.select(size > end, end, size), coefficients, centre)
    outer = f.select(x < 0.0, 2.0 - tail, tail)
    return f.select(size < 0.5, near, outer)


def _tail(f: Function, x: Value, coefficients: tuple[float, ...], centre: float) -> Value:
    """Erfc of a number above 1/2: exp(-x**2), its exponent exact, times a smooth function."""
    t = (x - centre) / (x + centre)
    smooth = _quotient(f, polynomial(f, t, coefficients), quick_sum(x * 2.0, x.of(1.0)))
    square, low = exact_product(f, x, x)
    n, rest = exp_parts(f, -square, -low)
    factor = quick_sum(x.of(1.0), rest)
    result = product(f, factor, smooth)
    return scale(f, result.high + result.low, n)


def _quotient(f: Function, top: Value, bottom: Double) -> Double:
    """A number divided by a doubled one."""
    inverse = 1.0 / bottom.high
    high = top * inverse
    error = f.fma(high, -bottom.high, top) - high * bottom.low
    return Double(high, error * inverse)
