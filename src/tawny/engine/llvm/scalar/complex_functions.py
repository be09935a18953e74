"""Exponentials, logarithms and square roots of complex numbers; special values as in C99."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tawny.engine.llvm import vectormath as vm
from tawny.engine.llvm.ir.builder import F32, F64, Function, Type, Value
from tawny.engine.llvm.scalar.numbers import Pair
from tawny.engine.llvm.vectormath.common import INF, NAN, Double, exact_product, exact_sum


@dataclass(frozen=True, slots=True)
class Range:
    """The ranges in which numbers of one format must be scaled, by powers of two."""

    large: float
    """The argument from which on exp is near the end of the range."""
    shift: float
    """What is taken off an argument near the end of the range."""
    huge: float
    """Sums of two such numbers overflow."""
    tiny: float
    """Below it digits are lost."""
    lift: int
    """Halved, the power of two that brings tiny numbers away from there."""


RANGES: Final[dict[Type, Range]] = {
    F32: Range(80.0, 64.0, 2.0**125, 2.0**-100, 48),
    F64: Range(700.0, 256.0, 2.0**1021, 2.0**-960, 106),
}


def exp(f: Function, z: Pair) -> Pair:
    """`exp(x) (cos(y) + i sin(y))`."""
    x, y = z
    limits = RANGES[x.type.scalar]
    large = x > limits.large
    size = vm.exp(f, f.select(large, x - limits.shift, x))
    scale = f.select(large, x.of(math.exp(limits.shift)), 1.0)
    real, imag = (size * part * scale for part in (vm.cos(f, y), vm.sin(f, y)))
    plain = y.equals(0.0)
    real, imag = f.select(plain, size * scale, real), f.select(plain, y, imag)
    turning = ~(f.absolute(y) < INF)  # infinite or NaN
    vanishes, grows = x.equals(-INF) & turning, x.equals(INF) & turning
    return Pair(
        f.select(vanishes, 0.0, f.select(grows, INF, real)),
        f.select(vanishes, 0.0, f.select(grows, NAN, imag)),
    )


def log(f: Function, z: Pair) -> Pair:
    """The logarithm of the size, and the angle."""
    return Pair(_log_size(f, z), vm.atan2(f, z.imag, z.real))


def log2(f: Function, z: Pair) -> Pair:
    """Base-2 logarithm."""
    return _times(log(f, z), 1.0 / math.log(2.0))


def log10(f: Function, z: Pair) -> Pair:
    """Base-10 logarithm."""
    return _times(log(f, z), 1.0 / math.log(10.0))


def _times(z: Pair, factor: float) -> Pair:
    return Pair(z.real * factor, z.imag * factor)


def _log_size(f: Function, z: Pair) -> Value:
    """`log |z|`; near 1 by way of `|z|**2 - 1 = 2 s + s**2 + b**2`, where `s` is `a - 1`."""
    wide, high = f.absolute(z.real), f.absolute(z.imag)
    steep = wide < high
    a, b = f.select(steep, high, wide), f.select(steep, wide, high)
    s = a - 1.0
    first, second = exact_product(f, s, s), exact_product(f, b, b)
    total = _sum(s + s, first, second)
    near = (a > 0.5) & (a < 2.0)
    bounded = f.select(near, total, 0.0)
    limits = RANGES[a.type.scalar]
    huge, tiny = a >= limits.huge, a < limits.tiny

    def chosen(if_huge: float, if_tiny: float, else_: float) -> Value:
        return f.select(huge, a.of(if_huge), f.select(tiny, a.of(if_tiny), else_))

    scale = chosen(0.25, 2.0**limits.lift, 1.0)
    added = chosen(math.log(4.0), -limits.lift * math.log(2.0), 0.0)
    logarithm = vm.log(f, vm.hypot(f, a * scale, b * scale)) + added
    return f.select(near, vm.log1p(f, bounded) * 0.5, logarithm)


def _sum(whole: Value, first: Double, second: Double) -> Value:
    """The sum of a number and two doubled ones, rounded at the end."""
    one = exact_sum(whole, first.high)
    two = exact_sum(one.high, second.high)
    return two.high + ((two.low + one.low) + (first.low + second.low))


def sqrt(f: Function, z: Pair) -> Pair:
    """The root whose real part is not negative."""
    x, y = z
    limits = RANGES[x.type.scalar]
    wide, high = f.absolute(x), f.absolute(y)
    larger = f.select(wide < high, high, wide)
    huge, tiny = larger >= limits.huge, larger < limits.tiny
    scale = f.select(huge, x.of(0.25), f.select(tiny, x.of(2.0**limits.lift), 1.0))
    back = f.select(huge, x.of(2.0), f.select(tiny, x.of(2.0 ** -(limits.lift // 2)), 1.0))
    a, b = wide * scale, high * scale
    root = f.sqrt((a + vm.hypot(f, a, b)) * 0.5)
    other = f.select((wide + high).equals(0.0), 0.0, b / (root + root))
    root, other = root * back, other * back
    left = x < 0.0
    real = f.select(left, other, root)
    imag = f.copysign(f.select(left, root, other), y)
    # Infinite parts: a vertical one wins, a horizontal one has a real or an imaginary root.
    flat = wide.equals(INF)
    rest = f.absolute(y - y)  # 0, or NaN
    real = f.select(flat, f.select(left, rest, INF), real)
    imag = f.select(flat, f.copysign(f.select(left, x.of(INF), rest), y), imag)
    tall = high.equals(INF)
    return Pair(f.select(tall, INF, real), f.select(tall, y, imag))


def sinh(f: Function, z: Pair) -> Pair:
    """`sinh(x) cos(y) + i cosh(x) sin(y)`."""
    x, y = z
    s, c, scale = _hyperbolic(f, x)
    turning = ~(f.absolute(y) < INF)
    still = y.equals(0.0) | (turning & x.equals(0.0))
    real = f.select(still, s * scale, s * vm.cos(f, y) * scale)
    real = f.select(turning & f.absolute(x).equals(INF), INF, real)
    return Pair(real, f.select(y.equals(0.0), y, c * vm.sin(f, y) * scale))


def cosh(f: Function, z: Pair) -> Pair:
    """`cosh(x) cos(y) + i sinh(x) sin(y)`."""
    x, y = z
    s, c, scale = _hyperbolic(f, x)
    turning = ~(f.absolute(y) < INF)
    real = c * vm.cos(f, y) * scale
    real = f.select(y.equals(0.0) | (turning & f.absolute(x).equals(INF)), c * scale, real)
    imag = s * vm.sin(f, y) * scale
    plain = f.copysign(y, f.copysign(y.of(1.0), x) * y)  # 0, negative where one of both is
    imag = f.select(y.equals(0.0), plain, imag)
    return Pair(real, f.select(turning & x.equals(0.0), 0.0, imag))


def sin(f: Function, z: Pair) -> Pair:
    """`-i sinh(i z)`."""
    turned = sinh(f, Pair(-z.imag, z.real))
    both = f.absolute(z.imag).equals(INF) & ~(f.absolute(z.real) < INF)
    return Pair(turned.imag, f.select(both, INF, -turned.real))


def cos(f: Function, z: Pair) -> Pair:
    """`cosh(i z)`."""
    return cosh(f, Pair(-z.imag, z.real))


def _hyperbolic(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """Sine and cosine, both to be scaled, which for large numbers are half the exponential."""
    limits = RANGES[x.type.scalar]
    size = f.absolute(x)
    large = size > limits.large
    bounded = f.select(large, size - limits.shift, size)
    scale = f.select(large, x.of(math.exp(limits.shift)), 1.0)
    return f.copysign(vm.sinh(f, bounded), x), vm.cosh(f, bounded), scale
