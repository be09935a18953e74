"""Inverse sine, cosine and tangent: the argument is brought near zero, then a polynomial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tawny.engine.llvm.ir.builder import F32, F64, Function, Type, Value
from tawny.engine.llvm.vectormath.common import INF, NAN, format_of, is_nan, polynomial, quick_sum


@dataclass(frozen=True, slots=True)
class Inverse:
    """Constants of one format."""

    asin: tuple[float, ...]
    """`(asin(x) - x) / x**3` in powers of `x**2`, for x up to 1/2."""
    atan: tuple[float, ...]
    """`(atan(x) - x) / x**3` in powers of `x**2`, for x up to tan(pi / 8)."""
    half_pi: tuple[float, float]
    """pi / 2 as the sum of two numbers."""


CONSTANTS: Final[dict[Type, Inverse]] = {
    F32: Inverse(
        (0.16666754, 0.074952476, 0.04547726, 0.024142792, 0.042233024),
        (-0.33333316, 0.19998525, -0.14244297, 0.105982654, -0.06087336),
        (1.5707963705062866, -4.371138828673793e-08),
    ),
    F64: Inverse(
        (
            0.16666666666665375,
            0.07500000000345518,
            0.044642856820974505,
            0.030381959451999497,
            0.02237175024767217,
            0.01735982580946985,
            0.013884009341151016,
            0.012177447638759824,
            0.00649160347757914,
            0.01962974740498902,
            -0.01638640423394425,
            0.032025321037499374,
        ),
        (
            -0.3333333333333319,
            0.1999999999995218,
            -0.14285714280053705,
            0.11111110776277072,
            -0.09090897550237155,
            0.07692056508467177,
            -0.06663061736638265,
            0.05847580032393155,
            -0.05037904594038156,
            0.03802881689301646,
            -0.01786787622003686,
        ),
        (1.5707963267948966, 6.123233995736766e-17),
    ),
}


def asin(f: Function, x: Value) -> Value:
    """Inverse sine; NaN outside [-1, 1]."""
    high, low = CONSTANTS[x.type.scalar].half_pi
    size, large, base, rest = _arcsine(f, x)
    # asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2))
    near = quick_sum(x.of(high), base * -2.0)
    outer = near.high - (f.fma(rest, 2.0, -low) - near.low)
    result = f.select(large, outer, base + rest)
    return f.copysign(f.select(size > 1.0, NAN, result), x)


def acos(f: Function, x: Value) -> Value:
    """Inverse cosine; NaN outside [-1, 1]."""
    high, low = CONSTANTS[x.type.scalar].half_pi
    size, large, base, rest = _arcsine(f, x)
    arc = base + rest
    inner = (low - f.copysign(arc, x)) + high
    twice = arc * 2.0
    outer = f.select(x < 0.0, (2.0 * low - twice) + 2.0 * high, twice)
    return f.select(size > 1.0, NAN, f.select(large, outer, inner))


def _arcsine(f: Function, x: Value) -> tuple[Value, Value, Value, Value]:
    """|x|, whether it is above 1/2, and the inverse sine of |x| or of sqrt((1 - |x|) / 2).

    The last comes as that number and the rest, which is smaller.
    """
    size = f.absolute(x)
    large = size > 0.5
    half = f.fma(size, -0.5, 0.5)
    z = f.select(large, half, x * x)
    base = f.select(large, f.sqrt(half), size)
    return size, large, base, base * z * polynomial(f, z, CONSTANTS[x.type.scalar].asin)


def atan(f: Function, x: Value) -> Value:
    """Inverse tangent."""
    return f.copysign(_angle(f, f.absolute(x), x.of(1.0)), x)


def atan2(f: Function, y: Value, x: Value) -> Value:
    """Angle of the point with ordinate `y` and abscissa `x`."""
    form = format_of(x)
    height, width = f.absolute(y), f.absolute(x)
    # Both infinite is as both 1; sums of huge numbers must not overflow, nor digits of tiny ones
    # be lost.
    both = f.select(height < width, height, width).equals(INF)
    height, width = f.select(both, 1.0, height), f.select(both, 1.0, width)
    huge, tiny = 2.0 ** (form.bias - 3), form.least_normal * 16.0
    larger = f.select(height > width, height, width)
    factor = f.select(larger < tiny, x.of(2.0 ** (form.fraction + 8)), 1.0)
    factor = f.select(larger > huge, 0.125, factor)
    angle = _angle(f, height * factor, width * factor)
    angle = f.select(height.equals(0.0), 0.0, angle)
    high, low = CONSTANTS[x.type.scalar].half_pi
    opposite = (2.0 * low - angle) + 2.0 * high
    negative = f.bits(x) < 0
    result = f.copysign(f.select(negative, opposite, angle), y)
    return f.select(is_nan(f, x), x, f.select(is_nan(f, y), y, result))


def _angle(f: Function, height: Value, width: Value) -> Value:
    """atan(height / width) of two numbers that are not negative, with one division.

    Between the diagonals of an octagon the angle is measured from the nearest one.
    """
    c = CONSTANTS[height.type.scalar]
    high, low = c.half_pi
    edge = math.sqrt(2.0) - 1.0
    steep = width < height * edge
    flat = f.compare("ule", height, width * edge)
    top = f.select(steep, -width, f.select(flat, height, height - width))
    bottom = f.select(steep, height, f.select(flat, width, height + width))
    t = top / bottom
    z = t * t
    base = f.select(steep, height.of(high), f.select(flat, 0.0, height.of(high / 2)))
    tail = f.select(steep, height.of(low), f.select(flat, 0.0, height.of(low / 2)))
    arc = f.fma(t * z, polynomial(f, z, c.atan), tail)
    return (t + arc) + base
