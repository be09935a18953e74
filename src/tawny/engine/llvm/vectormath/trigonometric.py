"""Sine, cosine and tangent: `x = n pi / 2 + r` with a small `r`, and polynomials in `r`.

The quarter turns are taken off in three parts, which is exact enough up to a limit.  Lanes beyond
it are reduced one by one: see `far`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from tawny.engine.llvm.ir.builder import F32, F64, I64, Function, Type, Value
from tawny.engine.llvm.vectormath.common import (
    any_lane,
    narrow,
    nearest,
    polynomial,
    widen,
    with_sign_of,
)
from tawny.engine.llvm.vectormath.far import call_far


@dataclass(frozen=True, slots=True)
class Trigonometric:
    """Constants of one format."""

    limit: float
    """Quarter turns are taken off in parts up to here."""
    quarter: tuple[float, float, float]
    """pi / 2 as the sum of three numbers."""
    sine: tuple[float, ...]
    """`(sin(r) - r) / r**3` in powers of `r**2`, for r up to pi / 4."""
    cosine: tuple[float, ...]
    """`(cos(r) - 1 + r**2 / 2) / r**4` in powers of `r**2`, for r up to pi / 4."""


CONSTANTS: Final[dict[Type, Trigonometric]] = {
    F32: Trigonometric(
        1e5,
        (1.5707963705062866, -4.371138828673793e-08, -1.7150735750952215e-15),
        (-0.16666654, 0.008332106, -0.00019507906),
        (0.041666646, -0.0013887308, 2.4432102e-05),
    ),
    F64: Trigonometric(
        1e9,
        (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        (
            -0.1666666666666663,
            0.00833333333332184,
            -0.00019841269829358487,
            2.755731353848004e-06,
            -2.5050734380470407e-08,
            1.5895432581352054e-10,
        ),
        (
            0.041666666666666595,
            -0.001388888888887331,
            2.480158728896714e-05,
            -2.7557314203694783e-07,
            2.087570322573244e-09,
            -1.1358621447427286e-11,
        ),
    ),
}


class ReducedAngle(NamedTuple):
    """`x = quarters pi / 2 + rest`; of the quarters only the lowest two bits are right."""

    quarters: Value
    rest: Value


def sin(f: Function, x: Value) -> Value:
    """Sine of an angle in radians."""
    quarters, rest = _reduce_angle(f, x)
    result = _wave(f, rest, quarters)
    return f.select(x.equals(0.0), x, result)


def cos(f: Function, x: Value) -> Value:
    """Cosine of an angle in radians."""
    quarters, rest = _reduce_angle(f, x)
    return _wave(f, rest, quarters + 1)


def tan(f: Function, x: Value) -> Value:
    """Tangent of an angle in radians; that of a float32 is made in float64 up to the division."""
    kind = x.type.scalar
    quarters, rest = _reduce_angle(f, widen(f, x) if kind == F32 else x)
    sine, cosine = _sine_and_cosine(f, rest, CONSTANTS[kind])
    odd = (quarters & 1).differs(0)
    top, bottom = f.select(odd, -cosine, sine), f.select(odd, sine, cosine)
    if kind == F32:
        top, bottom = narrow(f, top), narrow(f, bottom)
    result = top / bottom
    return f.select(x.equals(0.0), x, result)


def _wave(f: Function, rest: Value, quarters: Value) -> Value:
    """The sine of a number of quarter turns and a rest."""
    sine, cosine = _sine_and_cosine(f, rest, CONSTANTS[rest.type.scalar])
    odd = (quarters & 1).differs(0)
    return with_sign_of(f, f.select(odd, cosine, sine), quarters.shifted_down(1))


def _sine_and_cosine(f: Function, rest: Value, c: Trigonometric) -> tuple[Value, Value]:
    """Both, of an angle up to pi / 4."""
    z = rest * rest
    sine = f.fma(rest * z, polynomial(f, z, c.sine), rest)
    cosine = f.fma(z * z, polynomial(f, z, c.cosine), f.fma(z, -0.5, 1.0))
    return sine, cosine


def _reduce_angle(f: Function, x: Value) -> ReducedAngle:
    """Quarter turns taken off, whatever the size of `x`."""
    limit = CONSTANTS[x.type.scalar].limit
    near = _reduce_small_angle(f, x)
    far = any_lane(f, f.absolute(x) > limit)
    quarters, rest = f.either(far, lambda: _reduce_far_lanes(f, x, near, limit), lambda: near)
    return ReducedAngle(quarters, rest)


def _reduce_small_angle(f: Function, x: Value) -> ReducedAngle:
    """Quarter turns taken off an angle below the limit."""
    n = nearest(f, x, 2.0 / math.pi)
    rest = x
    for part in CONSTANTS[x.type.scalar].quarter:
        rest = f.fma(n.number, -part, rest)
    return ReducedAngle(n.integer, rest)


def _reduce_far_lanes(f: Function, x: Value, near: ReducedAngle, limit: float) -> ReducedAngle:
    """Lanes beyond the limit reduced one by one, the others as they are."""
    lanes = max(x.type.lanes, 1)
    arrays = [f.stack_buffer(8 * lanes) for _ in range(3)]
    angles, counts, rests = arrays
    f.store(widen(f, x) if x.type.scalar == F32 else x, angles)
    with f.loop(0, lanes) as loop:
        call_far(f, *[f.element(base, loop.index, F64) for base in arrays])
    far = f.absolute(x) > limit
    quarters = f.load(I64.like(x.type), counts)
    rest = f.load(F64.like(x.type), rests)
    if x.type.scalar == F32:
        quarters = f.convert("trunc", quarters, near.quarters.type.scalar)
        rest = f.convert("fptrunc", rest, F32)
    return ReducedAngle(f.select(far, quarters, near.quarters), f.select(far, rest, near.rest))
