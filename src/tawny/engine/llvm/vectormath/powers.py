"""Cube roots, hypotenuses and powers."""

from __future__ import annotations

from typing import Final

from tawny.engine.llvm.ir.builder import F32, Function, Value
from tawny.engine.llvm.vectormath.common import (
    INF,
    NAN,
    Double,
    clamp,
    exact_product,
    exponent_field,
    format_of,
    is_nan,
    narrow,
    nearest,
    polynomial,
    power_of_two,
    product,
    quick_sum,
    scale,
    widen,
)
from tawny.engine.llvm.vectormath.exponential import constants, shifted_exp
from tawny.engine.llvm.vectormath.logarithm import split_any

_INVERSE_ROOT: Final = (
    2.00125524261534,
    -2.4954604342880478,
    2.8093408789938197,
    -1.913212046825887,
    0.7072453769713705,
    -0.10916453151158534,
)
"""`m**(-1/3)` for m from sqrt(1/2) to sqrt(2), to 17 bits."""


def cbrt(f: Function, x: Value) -> Value:
    """Cube root."""
    size = f.absolute(x)
    exponent, mantissa, _ = split_any(f, size)
    # exponent = 3 * third + left, with left -1, 0 or 1
    third = nearest(f, exponent, 1.0 / 3.0)
    left = f.fma(third.number, -3.0, exponent)
    up, down = left > 0.5, left < -0.5
    m = mantissa * f.select(up, 2.0, f.select(down, x.of(0.5), 1.0))
    start = f.select(up, 2.0 ** (-1 / 3), f.select(down, x.of(2.0 ** (1 / 3)), 1.0))
    y = polynomial(f, mantissa, _INVERSE_ROOT) * start
    # y -> m**(-1/3): the error h of m * y**3 shrinks to its third power.
    h = f.fma(m * y, -(y * y), 1.0)
    y = f.fma(y * h, f.fma(h, 2.0 / 9.0, 1.0 / 3.0), y)
    root = m * y * y
    square = exact_product(f, root, root)
    cube = f.fma(square.high, root, -m)
    cube = f.fma(square.low, root, cube)
    root = f.fma(cube, y * y * (-1.0 / 3.0), root)
    result = f.copysign(root * power_of_two(f, third.integer, x.type), x)
    ordinary = f.compare("one", size, 0.0) & (size < INF)
    return f.select(ordinary, result, x + x)


def hypot(f: Function, x: Value, y: Value) -> Value:
    """Hypotenuse of a right triangle; infinite where a side is, also beside a NaN."""
    if x.type.scalar == F32:
        a, b = widen(f, x), widen(f, y)
        result = narrow(f, f.sqrt(f.fma(a, a, b * b)))
    else:
        result = _scaled_hypot(f, x, y)
    infinite = f.absolute(x).equals(INF) | f.absolute(y).equals(INF)
    return f.select(infinite, INF, result)


def _scaled_hypot(f: Function, x: Value, y: Value) -> Value:
    """With both sides divided by a power of two near the longer one."""
    form = format_of(x)
    a, b = f.absolute(x), f.absolute(y)
    longer = f.select(a > b, a, b)
    field = f.minimum(exponent_field(f, longer), 2 * form.bias - 2)
    scale = f.bitcast((-field + 2 * form.bias) << form.fraction, x.type)
    a, b = a * scale, b * scale
    # The squares' sum is exact to half a place more than its root needs.
    longer, shorter = f.select(a > b, a, b), f.select(a > b, b, a)
    return f.sqrt(f.fma(longer, longer, shorter * shorter)) / scale


# ---------------------------------------------------------------------- powers

_TWO_THIRDS: Final = (0.6666666666666666, 3.700743415417188e-17)
_ODD: Final = (
    0.39999999999999974,
    0.28571428571447044,
    0.22222222217069898,
    0.18181818927182208,
    0.15384553016274521,
    0.13336464790493008,
    0.11671845387177102,
    0.12013623719676171,
)
"""`(2 atanh(s) - 2 s - 2/3 s**3) / s**5` in powers of `s**2`."""

_LN2: Final = (0.6931471805598903, 5.497923018708371e-14)
"""ln 2 as the sum of two numbers, the first of 42 bits."""

_SHORT_ODD: Final = (
    0.6666666560309225,
    0.4000034560680602,
    0.28536600354907776,
    0.23596388589636388,
)
"""`(2 atanh(s) - 2 s) / s**3` in powers of `s**2`, to 37 bits."""

_SHORT_EXP2: Final = (
    0.6931471805482107,
    0.24022650705325768,
    0.05550410938364732,
    0.00961812841396348,
    0.0013333446859098762,
    0.00015403305628066747,
    1.531210857193949e-05,
    1.3382041626058958e-06,
)
"""`(2**r - 1) / r` for r up to 1/2, to 38 bits."""


def pow(f: Function, x: Value, y: Value) -> Value:
    """`x` to the power `y`, with the special values of C's pow."""
    size = f.absolute(x)
    one = size.equals(1.0)
    result = _short_power(f, size, y, one) if x.type.scalar == F32 else _power(f, size, y, one)
    whole = f.unary("trunc", y).equals(y)
    half = y * 0.5
    odd = whole & f.unary("trunc", half).differs(half)
    result = f.select(odd & (f.bits(x) < 0), -result, result)
    undefined = (x < 0.0) & (x > -INF) & ~whole
    result = f.select(undefined, NAN, result)
    nan = is_nan(f, x) | is_nan(f, y)
    result = f.select(nan, NAN, result)
    return f.select(x.equals(1.0) | y.equals(0.0), 1.0, result)


def _power(f: Function, size: Value, y: Value, one: Value) -> Value:
    """exp(y log(size)) of float64, the logarithm to 64 bits."""
    log = _doubled_log(f, size)
    high = f.select(one, 0.0, y * log.high)
    low = f.fma(y, log.low, f.fma(y, log.high, -high))
    c = constants(size)
    ordinary = (high > c.low) & (high < c.high) & ~one
    return shifted_exp(f, high, 0, f.select(ordinary, low, 0.0))


def _doubled_log(f: Function, x: Value) -> Double:
    """The natural logarithm of a positive number as the sum of two; infinite at 0 and infinity."""
    exponent, mantissa, _ = split_any(f, x)
    t = mantissa - 1.0
    # s = t / (2 + t), and log(1 + t) = 2 s + s**3 (2/3 + s**2 (...))
    bottom = quick_sum(t.of(2.0), t)
    inverse = 1.0 / bottom.high
    s = t * inverse
    error = f.fma(s, -bottom.high, t) - s * bottom.low
    ratio = Double(s, error * inverse)
    z = product(f, ratio, ratio)
    series = z.high * polynomial(f, z.high, _ODD)
    factor = quick_sum(t.of(_TWO_THIRDS[0]), series)
    factor = Double(factor.high, factor.low + _TWO_THIRDS[1])
    cubic = product(f, product(f, ratio, z), factor)
    inner = quick_sum(ratio.high * 2.0, cubic.high)
    inner_low = inner.low + f.fma(ratio.low, 2.0, cubic.low)
    outer = quick_sum(exponent * _LN2[0], inner.high)
    low = f.fma(exponent, _LN2[1], outer.low + inner_low)
    total = quick_sum(outer.high, low)
    high = f.select(x.equals(0.0), -INF, f.select(x.equals(INF), INF, total.high))
    return Double(high, total.low)


def _short_power(f: Function, size: Value, y: Value, one: Value) -> Value:
    """2**(y log2(size)) of float32, in float64."""
    x = widen(f, size)
    exponent, mantissa, _ = split_any(f, x)
    t = mantissa - 1.0
    s = t / (t + 2.0)
    z = s * s
    log = f.fma(s * z, polynomial(f, z, _SHORT_ODD), s + s)
    log2 = f.fma(log, 1.4426950408889634, exponent)
    log2 = f.select(x.equals(0.0), -INF, f.select(x.equals(INF), INF, log2))
    power = f.select(one, 0.0, widen(f, y) * log2)
    bounded = clamp(f, power, -200.0, 200.0)
    n = nearest(f, bounded)
    r = bounded - n.number
    result = scale(f, f.fma(polynomial(f, r, _SHORT_EXP2), r, 1.0), n)
    return narrow(f, result)
