"""Sine, cosine and tangent: `x = n * period + r` with a small `r`, and a polynomial in `r`.

The period is taken off in three parts, which is exact enough up to a limit.  Lanes beyond
it are reduced one by one: see `far`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from tawny.codegen.builder import F32, F64, I64, Function, Type, Value
from tawny.codegen.vectormath.common import (
    any_lane,
    nearest,
    polynomial,
    wide,
    widened,
    with_sign_of,
)
from tawny.codegen.vectormath.far import COSINE, SINE, TANGENT, Period, call_far


@dataclass(frozen=True, slots=True)
class Trigonometric:
    """Constants of one format."""

    limit: float
    """The period is taken off in parts up to here."""
    pi: tuple[float, float, float]
    """pi as the sum of three numbers."""
    sine: tuple[float, ...]
    """`(sin(r) - r) / r**3` in powers of `r**2`, for r up to pi / 2."""


CONSTANTS: Final[dict[Type, Trigonometric]] = {
    F32: Trigonometric(
        1e5,
        (3.1415927410125732, -8.742277657347586e-08, -3.430147150190443e-15),
        (-0.16666667, 0.0083333505, -0.00019843093, 2.7627077e-06, -2.550426e-08),
    ),
    F64: Trigonometric(
        1e9,
        (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
        (
            -0.16666666666666666,
            0.008333333333333207,
            -0.0001984126984121248,
            2.755731921156915e-06,
            -2.5052106904337898e-08,
            1.60589409943902e-10,
            -7.643019053901996e-13,
            2.721414893854998e-15,
        ),
    ),
}

_SMALL_SINE: Final = (
    -0.1666666666666663,
    0.00833333333332184,
    -0.00019841269829358487,
    2.755731353848004e-06,
    -2.5050734380470407e-08,
    1.5895432581352054e-10,
)
"""float64: `(sin(r) - r) / r**3` in powers of `r**2`, for r up to pi / 4."""

_SMALL_COSINE: Final = (
    0.041666666666666595,
    -0.001388888888887331,
    2.480158728896714e-05,
    -2.7557314203694783e-07,
    2.087570322573244e-09,
    -1.1358621447427286e-11,
)
"""float64: `(cos(r) - 1 + r**2 / 2) / r**4` in powers of `r**2`, for r up to pi / 4."""


class Reduced(NamedTuple):
    """`x = turns * period + rest`; of the turns only the lowest bit is right everywhere."""

    turns: Value
    rest: Value


def sin(f: Function, x: Value) -> Value:
    """Sine of an angle in radians."""
    turns, rest = _reduced(f, x, SINE)
    result = with_sign_of(f, _sine(f, rest), turns)
    return f.select(x.equals(0.0), x, result)


def cos(f: Function, x: Value) -> Value:
    """Cosine of an angle in radians."""
    turns, rest = _reduced(f, x, COSINE)
    return with_sign_of(f, _sine(f, rest), turns + 1)


@widened
def tan(f: Function, x: Value) -> Value:
    """Tangent of an angle in radians."""
    turns, rest = _reduced(f, x, TANGENT)
    odd = (turns & 1).differs(0)
    z = rest * rest
    sine = f.fma(rest * z, polynomial(f, z, _SMALL_SINE), rest)
    cosine = f.fma(z * z, polynomial(f, z, _SMALL_COSINE), f.fma(z, -0.5, 1.0))
    result = f.select(odd, -cosine, sine) / f.select(odd, sine, cosine)
    return f.select(x.equals(0.0), x, result)


def _sine(f: Function, rest: Value) -> Value:
    """The sine of an angle up to pi / 2."""
    z = rest * rest
    return f.fma(rest * z, polynomial(f, z, CONSTANTS[rest.type.scalar].sine), rest)


def _reduced(f: Function, x: Value, period: Period) -> Reduced:
    """The period taken off, whatever the size of `x`."""
    c = CONSTANTS[x.type.scalar]
    near = _near(f, x, period, c)
    far = any_lane(f, f.absolute(x) > c.limit)
    count, rest = f.either(far, lambda: _mixed(f, x, period, near, c.limit), lambda: near)
    return Reduced(count, rest)


def _near(f: Function, x: Value, period: Period, c: Trigonometric) -> Reduced:
    """The period taken off an angle below the limit."""
    factor = period.divisor / math.pi
    if period.offset:
        n = nearest(f, f.fma(x, factor, -period.offset))
        number = n.number + period.offset
    else:
        n = nearest(f, x, factor)
        number = n.number
    rest = x
    for part in c.pi:
        rest = f.fma(number, -part / period.divisor, rest)
    return Reduced(n.integer, rest)


def _mixed(f: Function, x: Value, period: Period, near: Reduced, limit: float) -> Reduced:
    """Lanes beyond the limit reduced one by one, the others as they are."""
    lanes = max(x.type.lanes, 1)
    angles, counts, rests = (f.room(8 * lanes) for _ in range(3))
    f.store(wide(f, x) if x.type.scalar == F32 else x, angles)
    with f.loop(0, lanes) as loop:
        call_far(f, period, *[f.element(base, loop.index, F64) for base in (angles, counts, rests)])
    far = f.absolute(x) > limit
    count = f.load(I64.like(x.type), counts)
    rest = f.load(F64.like(x.type), rests)
    if x.type.scalar == F32:
        count = f.convert("trunc", count, near.turns.type.scalar)
        rest = f.convert("fptrunc", rest, F32)
    return Reduced(f.select(far, count, near.turns), f.select(far, rest, near.rest))
