"""Fourier transforms of a few complex numbers, straight-line code in registers.

`X[k] = sum of x[j] * exp(-2 pi i j k / n)`.  Each number is a pair of vectors, the real parts and
the imaginary parts of as many transforms as there are lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tawny.engine.llvm.ir.builder import Function, Value

HALF_ROOT: Final = math.sqrt(0.5)


class ComplexVector(NamedTuple):
    """Real and imaginary parts."""

    re: Value
    im: Value

    def plus(self, other: ComplexVector) -> ComplexVector:
        """The sum."""
        return ComplexVector(self.re + other.re, self.im + other.im)

    def minus(self, other: ComplexVector) -> ComplexVector:
        """The difference."""
        return ComplexVector(self.re - other.re, self.im - other.im)

    def times_minus_i(self) -> ComplexVector:
        """The product with -i."""
        return ComplexVector(self.im, -self.re)


def multiply_add(f: Function, a: Value, b: Value, c: Value) -> Value:
    """`a * b + c`, with one rounding where the machine has an instruction for it."""
    return f.intrinsic("fmuladd", a.type, a, b, c)


def multiply(f: Function, x: ComplexVector, w: ComplexVector) -> ComplexVector:
    """The product of complex numbers."""
    return ComplexVector(
        multiply_add(f, x.re, w.re, -(x.im * w.im)),
        multiply_add(f, x.im, w.re, x.re * w.im),
    )


def _scaled_sum(f: Function, x: ComplexVector, factor: float, y: ComplexVector) -> ComplexVector:
    """`x + factor * y`."""
    by = y.re.of(factor)
    return ComplexVector(multiply_add(f, y.re, by, x.re), multiply_add(f, y.im, by, x.im))


def _both_turned(x: ComplexVector, y: ComplexVector) -> tuple[ComplexVector, ComplexVector]:
    """`x - i y` and `x + i y`."""
    return ComplexVector(x.re + y.im, x.im - y.re), ComplexVector(x.re - y.im, x.im + y.re)


def root(n: int, power: int) -> tuple[float, float]:
    """`exp(-2 pi i power / n)`, correct to the last bit or nearly so."""
    eighth, rest = divmod(8 * (power % n), n)
    # The angle is (eighth + rest / n) / 8 of a turn.
    near = rest if eighth % 2 == 0 else n - rest
    angle = math.pi * near / (4 * n)
    a, b = math.cos(angle), math.sin(angle)
    cos, sin = [(a, b), (b, a), (-b, a), (-a, b), (-a, -b), (-b, -a), (b, -a), (a, -b)][eighth]
    return cos, -sin


def _one(f: Function, x: Sequence[ComplexVector]) -> list[ComplexVector]:
    del f
    return list(x)


def _two(f: Function, x: Sequence[ComplexVector]) -> list[ComplexVector]:
    del f
    return [x[0].plus(x[1]), x[0].minus(x[1])]


def _four(f: Function, x: Sequence[ComplexVector]) -> list[ComplexVector]:
    del f
    even, odd = x[0].plus(x[2]), x[1].plus(x[3])
    first, third = _both_turned(x[0].minus(x[2]), x[1].minus(x[3]))
    return [even.plus(odd), first, even.minus(odd), third]


def _eight(f: Function, x: Sequence[ComplexVector]) -> list[ComplexVector]:
    """Sums and differences of halves; the differences' odd ones are scaled where they are added."""
    sums = [x[j].plus(x[j + 4]) for j in range(4)]
    rest = [x[j].minus(x[j + 4]) for j in range(4)]
    one = ComplexVector(rest[1].re + rest[1].im, rest[1].im - rest[1].re)
    three = ComplexVector(rest[3].im - rest[3].re, -(rest[3].re + rest[3].im))
    near, far = _both_turned(rest[0], rest[2])
    both, apart = one.plus(three), one.minus(three).times_minus_i()
    odd = [
        _scaled_sum(f, near, HALF_ROOT, both),
        _scaled_sum(f, far, HALF_ROOT, apart),
        _scaled_sum(f, near, -HALF_ROOT, both),
        _scaled_sum(f, far, -HALF_ROOT, apart),
    ]
    even = _four(f, sums)
    return [number for pair in zip(even, odd, strict=True) for number in pair]


def _odd(f: Function, x: Sequence[ComplexVector]) -> list[ComplexVector]:
    """An odd number of points: pairs that mirror each other share their products."""
    n = len(x)
    half = range(1, n // 2 + 1)
    sums = [x[j].plus(x[n - j]) for j in half]
    differences = [x[j].minus(x[n - j]) for j in half]
    first = x[0]
    for pair in sums:
        first = first.plus(pair)
    out = [first] * n
    for k in half:
        even = x[0]
        for j, pair in zip(half, sums, strict=True):
            even = _scaled_sum(f, even, root(n, j * k)[0], pair)
        scale = -root(n, k)[1]
        odd = ComplexVector(differences[0].re * scale, differences[0].im * scale)
        for j, pair in zip(half[1:], differences[1:], strict=True):
            odd = _scaled_sum(f, odd, -root(n, j * k)[1], pair)
        out[k], out[n - k] = _both_turned(even, odd)
    return out


def _product(f: Function, x: Sequence[ComplexVector], rows: int) -> list[ComplexVector]:
    """A length that is a product: transforms of `rows` points, factors, then of the others."""
    n, columns = len(x), len(x) // rows
    inner = [BUTTERFLIES[rows](f, x[c::columns]) for c in range(columns)]
    out: list[ComplexVector] = list(x)
    for k in range(rows):
        row = [_rotate(f, inner[c][k], n, c * k) for c in range(columns)]
        out[k::rows] = BUTTERFLIES[columns](f, row)
    return out


def _rotate(f: Function, x: ComplexVector, n: int, power: int) -> ComplexVector:
    """The product with a root of unity."""
    turns, rest = divmod(4 * (power % n), n)
    if rest:
        re, im = root(n, power)
        return multiply(f, x, ComplexVector(x.re.of(re), x.re.of(im)))
    for _ in range(turns):
        x = x.times_minus_i()
    return x


def _of_rows(rows: int) -> Callable[[Function, Sequence[ComplexVector]], list[ComplexVector]]:
    return lambda f, x: _product(f, x, rows)


BUTTERFLIES: Final[
    dict[int, Callable[[Function, Sequence[ComplexVector]], list[ComplexVector]]]
] = {
    1: _one,
    2: _two,
    3: _odd,
    4: _four,
    5: _odd,
    6: _of_rows(2),
    7: _odd,
    8: _eight,
    9: _of_rows(3),
    10: _of_rows(2),
    11: _odd,
    12: _of_rows(3),
    13: _odd,
    15: _of_rows(3),
    16: _of_rows(4),
    17: _odd,
    19: _odd,
    23: _odd,
}
"""By their numbers of points."""
