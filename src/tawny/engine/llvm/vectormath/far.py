"""Large angles: multiplied by as many bits of 2 / pi as are needed (Payne and Hanek).

The function works on one angle of float64.  It is in a library of its own, which kernels are linked
with, since compiling it takes longer than most kernels do.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from tawny.engine.llvm.ir.builder import F64, I1, I64, PTR, VOID, Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import provide
from tawny.engine.llvm.vectormath.common import FORMATS, INF, NAN, quick_sum

_I128: Final = Type("i128")
_LIBRARY: Final = "angles"
_SYMBOL: Final = "angles_reduced"
_PAD: Final = 64
"""Zero bits before those of 2 / pi, for angles whose unit in the last place is below 4."""


def call_far(f: Function, angle: Value, quarters: Value, rest: Value) -> None:
    """Reduce the angle at an address: write its quarter turns to another, the rest to a third.

    The quarter turns are right modulo 4, for angles from 1000 up; below, the results mean nothing.
    """
    module = f.module
    if module.target.links:
        module.require(_LIBRARY)
        module.declare(_SYMBOL, VOID, [PTR, PTR, PTR])
    elif module.first_time(_SYMBOL):
        _write_reduction(module)
    f.call(_SYMBOL, VOID, angle, quarters, rest)


def _write_reduction(module: Module) -> None:
    module.table("two_over_pi", I64, _bits_of_two_over_pi())
    with module.function(_SYMBOL, {"angle": PTR, "quarters": PTR, "rest": PTR}) as f:
        angle, quarters, rest = f.arguments
        x = f.load(F64, angle)
        negative = x < 0.0
        phase = _phase(f, f.bits(f.absolute(x)))
        count = f.convert("trunc", (phase + (1 << 125)).shifted_down(126), I64)
        f.store(f.select(negative, -count, count), quarters)
        # The integer part is dropped by shifting it out; what is left is a signed fraction.
        part = _angle(f, phase << 2)
        signed = f.select(negative, -part, part)
        f.store(f.select(f.absolute(x).equals(INF), NAN, signed), rest)


provide(_LIBRARY, _write_reduction)


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


def _angle(f: Function, fraction: Value) -> Value:
    """A signed 128-bit fraction of a quarter turn as an angle."""
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
    quarter, tail = math.pi / 2, 6.123233995736766e-17
    rest = f.fma(sum.high, quarter, f.fma(sum.low, quarter, sum.high * tail)) * unit
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
