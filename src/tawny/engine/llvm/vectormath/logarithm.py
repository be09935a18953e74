"""Logarithms: `x = 2**e * (1 + t)` with `1 + t` near 1, and log(1 + t) = t + (a smaller part)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from tawny.engine.llvm.ir.builder import F32, F64, Function, Type, Value
from tawny.engine.llvm.vectormath.common import (
    INF,
    NAN,
    any_lane,
    bit_pattern,
    exact_sum,
    format_of,
    polynomial,
    small_integer,
)


@dataclass(frozen=True, slots=True)
class Base:
    """A base: its log(e) and log(2), each as the sum of two numbers."""

    log_e: tuple[float, float]
    log_2: tuple[float, float]


BASES: Final[dict[Type, dict[str, Base]]] = {
    F32: {
        "e": Base((1.0, 0.0), (0.693147182464599609375, -1.904654299957768e-09)),
        "2": Base((1.44269502162933349609, 1.925963033500011e-08), (1.0, 0.0)),
        "10": Base(
            (0.434294492006301879883, -1.0103050118726031e-08),
            (0.301030009984970092773, -1.4320989267324302e-08),
        ),
    },
    F64: {
        "e": Base((1.0, 0.0), (0.693147180559945286227, 2.319046813846299558e-17)),
        "2": Base((1.44269504088896338700, 2.035527374093103311e-17), (1.0, 0.0)),
        "10": Base(
            (0.434294481903251816668, 1.098319650216765e-17),
            (0.301029995663981198017, -2.803728127785170339e-18),
        ),
    },
}

_CUBIC: Final = (
    0.33333313,
    -0.25000012,
    0.20002024,
    -0.16668095,
    0.14221612,
    -0.12402904,
    0.11870534,
    -0.11690887,
    0.06804595,
)
"""float32: `(log(1 + t) - t + t**2 / 2) / t**3`."""

_ODD: Final = (
    0.666666666666674,
    0.39999999999376606,
    0.2857142875163163,
    0.22222197551307032,
    0.18183620975860895,
    0.15312516228495285,
    0.14812103675698438,
)
"""float64: `(2 atanh(s) - 2 s) / s**3` in powers of `s**2`, where `s = t / (2 + t)`."""


class Split(NamedTuple):
    """`2**exponent * mantissa`, the mantissa from sqrt(1/2) to sqrt(2)."""

    exponent: Value
    mantissa: Value
    field: Value
    """The biased exponent as an integer."""


def split(f: Function, x: Value) -> Split:
    """A positive normal number's exponent and mantissa."""
    form = format_of(x)
    root = bit_pattern(x.type, math.sqrt(0.5))
    lifted = f.bits(x) + (bit_pattern(x.type, 1.0) - root)
    field = lifted.shifted_down(form.fraction)
    mantissa = f.bitcast((lifted & ((1 << form.fraction) - 1)) + root, x.type)
    return Split(small_integer(f, field, x.type) - float(form.bias), mantissa, field)


def split_any(f: Function, x: Value) -> Split:
    """A positive number's exponent and mantissa, also of a denormal one."""
    form = format_of(x)
    denormal = x < form.least_normal
    lift = form.fraction + 2
    parts = split(f, f.select(denormal, x * 2.0**lift, x))
    exponent = f.select(denormal, parts.exponent - float(lift), parts.exponent)
    return Split(exponent, parts.mantissa, parts.field)


def lesser_part(f: Function, t: Value) -> Value:
    """`log(1 + t) - t`, for `1 + t` from sqrt(1/2) to sqrt(2)."""
    if t.type.scalar == F32:
        square = t * t
        return f.fma(square, polynomial(f, t, _CUBIC) * t, square * -0.5)
    s = t / (t + 2.0)
    z = s * s
    half = t * t * 0.5
    return f.fma(s, f.fma(z, polynomial(f, z, _ODD), half), -half)


def in_base(f: Function, exponent: Value, t: Value, base: Base) -> Value:
    """The logarithm of `2**exponent * (1 + t)`."""
    (factor, tail), (two, two_tail) = base.log_e, base.log_2
    part = lesser_part(f, t)
    if factor != 1.0:
        part = f.fma(part, factor, t * tail)
    if two_tail:
        part = f.fma(exponent, two_tail, part)
    inner = t + part if factor == 1.0 else f.fma(t, factor, part)
    return f.fma(exponent, two, inner)


def _edges(f: Function, x: Value, result: Value) -> Value:
    """The logarithm where `x` is zero, negative, infinite or NaN."""
    result = f.select(x.equals(INF), INF, result)
    result = f.select(x.equals(0.0), -INF, result)
    return f.select(f.compare("ult", x, 0.0), NAN, result)


def _logarithm(f: Function, x: Value, base: str) -> Value:
    """The logarithm; only where some lane is no positive normal number are all cases looked at."""
    known = BASES[x.type.scalar][base]

    def usual() -> list[Value]:
        parts = split(f, x)
        return [in_base(f, parts.exponent, parts.mantissa - 1.0, known)]

    def unusual() -> list[Value]:
        parts = split_any(f, x)
        return [_edges(f, x, in_base(f, parts.exponent, parts.mantissa - 1.0, known))]

    odd = f.compare("ult", x, format_of(x).least_normal) | x.equals(INF)
    (result,) = f.either(any_lane(f, odd), unusual, usual)
    return result


def log(f: Function, x: Value) -> Value:
    """Natural logarithm."""
    return _logarithm(f, x, "e")


def log2(f: Function, x: Value) -> Value:
    """Base-2 logarithm."""
    return _logarithm(f, x, "2")


def log10(f: Function, x: Value) -> Value:
    """Base-10 logarithm."""
    return _logarithm(f, x, "10")


def log1p(f: Function, x: Value) -> Value:
    """`log(1 + x)`, accurate near zero."""
    high, low = exact_sum(x.of(1.0), x)
    result = log_of_sum(f, high, low)
    result = f.select(x.equals(INF), INF, result)
    result = f.select(x.equals(-1.0), -INF, result)
    result = f.select(x.equals(0.0), x, result)
    return f.select(f.compare("ult", x, -1.0), NAN, result)


def log_of_sum(f: Function, high: Value, low: Value, shift: Value | None = None) -> Value:
    """`log(high + low)` of a positive normal number and one below its last place.

    `shift` is added to the exponent of `high + low`.
    """
    form = format_of(high)
    parts = split(f, high)
    # Above the range of inverses `low` does not count, and 0 does.
    field = f.maximum(-parts.field + 2 * form.bias, 0)
    inverse = f.bitcast(field << form.fraction, high.type)
    t = f.fma(low, inverse, parts.mantissa - 1.0)
    exponent = parts.exponent if shift is None else parts.exponent + shift
    return in_base(f, exponent, t, BASES[high.type.scalar]["e"])
