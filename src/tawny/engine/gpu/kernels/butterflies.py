"""Fourier transforms of a few points in registers, and the roots of one that turn points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tawny.engine.llvm.ir.builder import I32, Function, Type, Value
from tawny.engine.llvm.scalar.numbers import Pair


def product(x: Pair, by: Pair) -> Pair:
    """A product of complex numbers."""
    f = x.real.code
    return Pair(
        f.fma(x.real, by.real, -(x.imag * by.imag)), f.fma(x.real, by.imag, x.imag * by.real)
    )


def turn_points(
    f: Function, points: Sequence[Pair], part: Value, whole: Value, sign: int
) -> list[Pair]:
    """Points times the roots of one at `part` of `whole` turns, once for each place."""
    kind = points[0].real.type
    return [
        product(point, root(f, kind, part * t, whole, sign)) if t else point
        for t, point in enumerate(points)
    ]


def root(f: Function, kind: Type, part: Value, whole: Value, sign: int) -> Pair:
    """The root of one at `part` of `whole` turns, which are below 2**28.

    An eighth of a turn is the most whose sine and cosine are computed; the rest is exact.
    """
    eighths = part * 8
    quarter = f.constant(I32, 0)
    for odd in (1, 3, 5, 7):
        above = (whole * odd).unsigned_below(eighths)
        quarter = quarter + f.convert("zext", above, I32)
    rest = part * 4 - quarter * whole
    angle = f.convert("sitofp", rest, kind) / f.convert("sitofp", whole, kind) * (math.pi / 2)
    sine, cosine = _small_angle(f, angle)
    sideways = (quarter & 1).differs(0)
    sine, cosine = f.select(sideways, cosine, sine), f.select(sideways, sine, cosine)
    cosine = f.select(((quarter + 1) & 2).differs(0), -cosine, cosine)
    downwards = (quarter & 2).differs(0)
    sine = f.select(downwards, *((-sine, sine) if sign > 0 else (sine, -sine)))
    return Pair(cosine, sine)


TERMS: Final = {"float": 5, "double": 9}
"""Terms of the series of sine and cosine up to an eighth of a turn."""


def _small_angle(f: Function, angle: Value) -> tuple[Value, Value]:
    """Sine and cosine by their series."""
    square, count = angle * angle, TERMS[angle.type.element]
    found = list[Value]()
    for first in (1, 0):
        total = f.constant(angle.type, 0.0)
        for term in reversed(range(1, count + 1)):
            factor = (-1) ** term / math.factorial(2 * term + first)
            total = f.fma(total, square, total.of(factor)) if term < count else total.of(factor)
        found.append(total * square)
    return f.fma(found[0], angle, angle), found[1] + 1.0


def transform(f: Function, points: Sequence[Pair], sign: int) -> list[Pair]:
    """The transform of a few points."""
    count = len(points)
    prime = next((p for p in range(2, count + 1) if count % p == 0), 1)
    if count == prime:
        return _prime_transform(f, points, sign) if count > 1 else list(points)
    parts = [transform(f, points[i::prime], sign) for i in range(prime)]
    rows = count // prime
    found = list(points)
    for k in range(rows):
        turns = [_turn_by(f, parts[i][k], i * k, count, sign) for i in range(prime)]
        for i, one in enumerate(_prime_transform(f, turns, sign)):
            found[k + rows * i] = one
    return found


def _turn_by(f: Function, x: Pair, part: int, whole: int, sign: int) -> Pair:
    """A number times the root of one at `part` of `whole` turns."""
    match 4 * part % (4 * whole) / whole:
        case 0.0:
            return x
        case 1.0:
            return Pair(-x.imag, x.real) if sign > 0 else Pair(x.imag, -x.real)
        case 2.0:
            return Pair(-x.real, -x.imag)
        case 3.0:
            return Pair(x.imag, -x.real) if sign > 0 else Pair(-x.imag, x.real)
        case _:
            angle = 2 * math.pi * part / whole
            kind = x.real.type
            return product(
                x, Pair(f.constant(kind, math.cos(angle)), f.constant(kind, sign * math.sin(angle)))
            )


def _prime_transform(f: Function, points: Sequence[Pair], sign: int) -> list[Pair]:
    """The transform of a prime number of points: of their sums and differences in pairs."""
    first, count = points[0], len(points)
    if count == 2:
        second = points[1]
        return [_plus(first, second), _minus(first, second)]
    pairs = [(points[t], points[count - t]) for t in range(1, count // 2 + 1)]
    sums = [_plus(*pair) for pair in pairs]
    differences = [_minus(*pair) for pair in pairs]
    total = first
    for one in sums:
        total = _plus(total, one)
    found = [total] * count
    for k in range(1, count // 2 + 1):
        even, odd = first, None
        for t, (one, other) in enumerate(zip(sums, differences, strict=True), start=1):
            angle = 2 * math.pi * (k * t % count) / count
            even = _add_scaled(f, even, one, math.cos(angle))
            odd = _add_scaled(f, odd, other, sign * math.sin(angle))
        assert odd is not None
        turned_odd = Pair(-odd.imag, odd.real)
        found[k], found[count - k] = _plus(even, turned_odd), _minus(even, turned_odd)
    return found


def _plus(x: Pair, y: Pair) -> Pair:
    return Pair(x.real + y.real, x.imag + y.imag)


def _minus(x: Pair, y: Pair) -> Pair:
    return Pair(x.real - y.real, x.imag - y.imag)


def _add_scaled(f: Function, total: Pair | None, x: Pair, factor: float) -> Pair:
    """A number plus another one times a constant."""
    if total is None:
        return Pair(x.real * factor, x.imag * factor)
    return Pair(f.fma(x.real, factor, total.real), f.fma(x.imag, factor, total.imag))
