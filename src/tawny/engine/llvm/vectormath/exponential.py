"""Exponentials: `x = n ln 2 + r` with a small `r`, a polynomial in `r`, a shift by `n`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tawny.engine.llvm.ir.builder import F32, F64, Function, Type, Value
from tawny.engine.llvm.vectormath.common import (
    Nearest,
    clamp,
    nearest,
    polynomial,
    power_of_two,
    scale,
)

LOG2_E: Final = 1 / math.log(2.0)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Constants of one format."""

    low: float
    """Below it exp is 0."""
    high: float
    """Above it exp is infinite, and so is half of it."""
    ln2: tuple[float, float]
    """ln 2 as the sum of two numbers."""
    exp: tuple[float, ...]
    """`(exp(r) - 1 - r) / r**2` for r up to ln(2) / 2, with the least error relative to exp."""
    expm1: tuple[float, ...]
    """`(exp(r) - 1 - r) / r**2` with the least error relative to expm1."""
    exp2: tuple[float, ...]
    """`(2**r - 1) / r` for r up to 1/2."""


CONSTANTS: Final[dict[Type, Exponential]] = {
    F32: Exponential(
        -104.0,
        90.0,
        (0.693147182464599609375, -1.904654299957768e-09),
        (0.49999994, 0.16666517, 0.041668106, 0.008369141, 0.0013836763),
        (0.5, 0.16666666, 0.04166636, 0.008333388, 0.0013940742, 0.00019846669),
        (
            0.6931472,
            0.2402265,
            0.05550405,
            0.009618098,
            0.0013338298,
            0.00015447687,
            1.4190352e-05,
        ),
    ),
    F64: Exponential(
        -746.0,
        711.0,
        (0.693147180559945286227, 2.319046813846299558e-17),
        (
            0.5000000000000011,
            0.1666666666666643,
            0.041666666666525666,
            0.008333333333479092,
            0.0013888888944919063,
            0.00019841269550105223,
            2.4801491677928083e-05,
            2.7557537561640223e-06,
            2.763077029417386e-07,
            2.5018728894911144e-08,
        ),
        (
            0.5,
            0.16666666666666677,
            0.041666666666666505,
            0.008333333333321606,
            0.0013888888888962847,
            0.00019841269886211824,
            2.4801587171974615e-05,
            2.755724410055964e-06,
            2.755740281149902e-07,
            2.510908260813675e-08,
            2.0875371520085297e-09,
        ),
        (
            0.6931471805599453,
            0.24022650695909997,
            0.05550410866482377,
            0.009618129107670709,
            0.001333355814588929,
            0.00015403530315035978,
            1.5252734343733356e-05,
            1.321555038968389e-06,
            1.0177846813898665e-07,
            7.0314672981543726e-09,
            4.48746369370035e-10,
            5.781928445072574e-11,
        ),
    ),
}


def constants(x: Value) -> Exponential:
    """The constants of a value's format."""
    return CONSTANTS[x.type.scalar]


def reduce_argument(f: Function, x: Value) -> tuple[Nearest, Value]:
    """`n` and `r` with `x = n ln 2 + r`, for `x` between the limits."""
    high, low = constants(x).ln2
    n = nearest(f, x, LOG2_E)
    rest = f.fma(n.number, -high, x)
    return n, f.fma(n.number, -low, rest)


def exp(f: Function, x: Value) -> Value:
    """E to the power of `x`."""
    return shifted_exp(f, x, 0)


def shifted_exp(f: Function, x: Value, shift: int, correction: Value | None = None) -> Value:
    """`exp(x + correction) * 2**shift`, for a small correction and shift, without overflow between.

    The correction is added to what is left of `x`, so it may be far below its last place.
    """
    n, rest = exp_parts(f, x, correction)
    exponent = Nearest(n.number + shift, n.integer + shift) if shift else n
    return scale(f, rest + 1.0, exponent)


def exp_parts(f: Function, x: Value, correction: Value | None = None) -> tuple[Nearest, Value]:
    """`n` and a small rest such that `exp(x + correction) = 2**n * (1 + rest)`."""
    c = constants(x)
    n, r = reduce_argument(f, clamp(f, x, c.low, c.high))
    if correction is not None:
        r = r + correction
    return n, f.fma(r * r, polynomial(f, r, c.exp), r)


def exp2(f: Function, x: Value) -> Value:
    """2 to the power of `x`."""
    c = constants(x)
    bounded = clamp(f, x, c.low * 1.46, c.high * 1.46)
    n = nearest(f, bounded)
    r = bounded - n.number
    return scale(f, f.fma(polynomial(f, r, c.exp2), r, 1.0), n)


def expm1(f: Function, x: Value) -> Value:
    """`exp(x) - 1`, accurate near zero."""
    c = constants(x)
    n, r = reduce_argument(f, clamp(f, x, c.low / 2, c.high - 1.0))
    rest = f.fma(r * r, polynomial(f, r, c.expm1), r)
    # 2**n overflows where the result does not, so half of it is used.
    half = power_of_two(f, n.integer - 1, x.type)
    whole = f.fma(rest, half, half - 0.5) * 2.0
    return f.copysign(f.select(n.integer.equals(0), rest, whole), x)
