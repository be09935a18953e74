"""Large angles: multiplied by as many bits of 2 / pi as are needed (Payne and Hanek).

The functions work on one angle of float64.  They are in a library of their own, which kernels are
linked with, since compiling them takes longer than most kernels do.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final, NamedTuple

from tawny.codegen.builder import F64, I1, I64, PTR, VOID, Function, Module, Type, Value
from tawny.codegen.library import provide
from tawny.codegen.vectormath.common import FORMATS, INF, NAN, quick_sum


class Period(NamedTuple):
    """What is taken off: pi divided by `divisor`, after the first `offset` of it."""

    name: str
    divisor: int
    offset: float


SINE: Final = Period("sine", 1, 0.0)
COSINE: Final = Period("cosine", 1, 0.5)
TANGENT: Final = Period("tangent", 2, 0.0)

_I128: Final = Type("i128")
_LIBRARY: Final = "angles"
_PAD: Final = 64
"""Zero bits before those of 2 / pi, for angles whose unit in the last place is below 4."""


def call_far(f: Function, period: Period, angle: Value, count: Value, rest: Value) -> None:
    """Reduce the angle at an address, and write the count and the rest to two others.

    The count is right modulo 2, for angles from 1000 up; below, the results mean nothing.
    """
    f.module.require(_LIBRARY)
    name = f"{_LIBRARY}_{period.name}"
    f.module.declare(name, VOID, [PTR, PTR, PTR])
    f.call(name, VOID, angle, count, rest)


def _library() -> str:
    """The IR of the functions."""
    module = Module()
    module.table("two_over_pi", I64, _bits_of_two_over_pi())
    for period in (SINE, COSINE, TANGENT):
        arguments = {"angle": PTR, "count": PTR, "rest": PTR}
        with module.function(f"{_LIBRARY}_{period.name}", arguments) as f:
            angle, count, rest = f.arguments
            x = f.load(F64, angle)
            phase = _phase(f, f.bits(f.absolute(x)))
            if period.offset:
                phase = phase - (1 << 126)
            # The integer part is dropped by shifting it out; what is left is a signed fraction.
            integer_bits = period.divisor
            rounded = phase + (1 << (127 - integer_bits))
            number = rounded.shifted_down(128 - integer_bits)
            f.store(f.convert("trunc", number, I64), count)
            part = _angle(f, phase << integer_bits, period)
            odd = part if period.offset else f.select(x < 0.0, -part, part)
            f.store(f.select(f.absolute(x).equals(INF), NAN, odd), rest)
    return module.text()


provide(_LIBRARY, _library)


def _phase(f: Function, pattern: Value) -> Value:
    """`x * 2 / pi` modulo 4 in units of 2**-126, given the bits of a positive `x`."""
    form = FORMATS[F64]
    mantissa = (pattern & ((1 << form.fraction) - 1)) | (1 << form.fraction)
    # x = mantissa * 2**exponent; bits of 2 / pi above 2**(2 - exponent) give multiples of 4.
    exponent = pattern.shifted_down(form.fraction) - (form.bias + form.fraction)
    start = f.minimum(f.maximum(exponent + (_PAD - 2), 0), 64 * 17)
    base = f.element(f.global_address("two_over_pi"), start.shifted_down(6), I64)
    words = [f.load(I64, f.element(base, i, I64)) for i in range(4)]
    window = [f.intrinsic("fshl", I64, high, low, start & 63) for high, low in pairwise(words)]
    factor = f.convert("zext", mantissa, _I128)
    top, middle, low = (f.convert("zext", w, _I128) * factor for w in window)
    return (top << 64) + middle + low.shifted_down(64)


def _angle(f: Function, fraction: Value, period: Period) -> Value:
    """A signed 128-bit fraction of the period as an angle."""
    negative = fraction < 0
    size = f.select(negative, -fraction, fraction)
    zeros = f.intrinsic("ctlz", _I128, size, f.constant(I1, 0))
    # The leading 63 bits, in units of 2**-(63 + zeros), as the sum of two numbers.
    leading = f.convert("trunc", (size << zeros).shifted_down(65), I64)
    high = f.convert("sitofp", leading & -1024, F64)
    low = f.convert("sitofp", leading & 1023, F64)
    exponent = -f.convert("trunc", zeros, I64) + (1023 - 63)
    unit = f.bitcast(exponent << 52, F64)
    sum = quick_sum(high, low)
    pi, tail = math.pi / period.divisor, 1.2246467991473532e-16 / period.divisor
    rest = f.fma(sum.high, pi, f.fma(sum.low, pi, sum.high * tail)) * unit
    return f.select(negative, -rest, rest)


def _bits_of_two_over_pi() -> list[int]:
    """Words of 2 / pi, most significant first, after the padding; 1,200 bits suffice."""
    bits = 1280
    scale = 1 << (bits + 64)
    # pi = 16 atan(1/5) - 4 atan(1/239), in integers
    pi = 16 * _arctangent_of_inverse(5, scale) - 4 * _arctangent_of_inverse(239, scale)
    value = (2 * scale << bits) // pi
    words = [(value >> (bits - 64 * (i + 1))) & (2**64 - 1) for i in range(bits // 64)]
    return [0] * (_PAD // 64) + words


def _arctangent_of_inverse(n: int, scale: int) -> int:
    """atan(1 / n) in units of 1 / scale."""
    power, total, k = scale // n, 0, 0
    while power:
        term = power // (2 * k + 1)
        total += -term if k % 2 else term
        power //= n * n
        k += 1
    return total
