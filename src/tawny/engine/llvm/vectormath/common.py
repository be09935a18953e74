"""What the functions share: formats, polynomials, powers of two, sums of two numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tawny.engine.llvm.ir.builder import F32, F64, I8, I16, I32, Function, Type, Value

Unary = Callable[[Function, Value], Value]


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format: `fraction` bits stored, exponents biased by `bias`."""

    fraction: int
    bias: int

    @property
    def anchor(self) -> float:
        """Added to a small number, it leaves the nearest integer in the lowest bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def least_normal(self) -> float:
        """The smallest positive number that is not denormal."""
        return 2.0 ** (1 - self.bias)


FORMATS: Final = {F32: Format(23, 127), F64: Format(52, 1023)}

INF: Final = float("inf")
NAN: Final = float("nan")


def format_of(x: Value) -> Format:
    """The format of a value's elements."""
    return FORMATS[x.type.scalar]


def polynomial(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, lowest first.

    Long ones run as two chains, of even and of odd powers.
    """
    if len(coefficients) <= 5:
        return _horner(f, x, coefficients)
    square = x * x
    even = _horner(f, square, coefficients[::2])
    return f.fma(_horner(f, square, coefficients[1::2]), x, even)


def _horner(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    *rest, last = coefficients
    result = x.of(last)
    for coefficient in reversed(rest):
        result = f.fma(result, x, coefficient)
    return result


class Nearest(NamedTuple):
    """An integer, as a floating-point number and as an integer."""

    number: Value
    integer: Value


def nearest(f: Function, x: Value, factor: float = 1.0) -> Nearest:
    """The integer nearest to `x * factor`, which must be small; halves go to the even one."""
    anchor = format_of(x).anchor
    lifted = x + anchor if factor == 1.0 else f.fma(x, factor, anchor)
    return Nearest(lifted - anchor, f.bits(lifted) - bit_pattern(x.type, anchor))


def power_of_two(f: Function, exponent: Value, type: Type) -> Value:
    """2 to an integer exponent that makes a normal number."""
    form = FORMATS[type.scalar]
    return f.bitcast((exponent + form.bias) << form.fraction, type)


def scale(f: Function, x: Value, exponent: Nearest) -> Value:
    """`x` times 2 to an integer from -2 bias to 2 bias, with one rounding, also to denormals."""
    target = f.module.target
    native = target.vector_bytes // x.type.nbytes
    if target.avx512 and x.type.lanes and x.type.lanes % native == 0:
        return _scale_by_instruction(f, x, exponent.number, native)
    # Twice by half the exponent; only the second product can round.
    bias = 2 * format_of(x).bias
    half = (exponent.integer + bias).shifted_down(1) - bias // 2
    first = power_of_two(f, half, x.type)
    return x * first * power_of_two(f, exponent.integer - half, x.type)


def _scale_by_instruction(f: Function, x: Value, exponent: Value, native: int) -> Value:
    """AVX-512's multiplication by a power of two, register by register."""
    suffix, mask = ("ps", I16) if native == 16 else ("pd", I8)
    registers: list[Value] = []
    for first in range(0, x.type.lanes, native):
        lanes = range(first, first + native)
        part, power = f.shuffle(x, None, lanes), f.shuffle(exponent, None, lanes)
        rest = [f.poison(part.type), f.constant(mask, -1), f.constant(I32, 4)]
        name = f"x86.avx512.mask.scalef.{suffix}.512"
        registers.append(f.intrinsic(name, part.type, part, power, *rest, overload=()))
    while len(registers) > 1:
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [f.shuffle(a, b, range(2 * a.type.lanes)) for a, b in pairs]
    return registers[0]


def clamp(f: Function, x: Value, low: float, high: float) -> Value:
    """`x` limited to an interval; NaN stays."""
    above = f.select(x < low, low, x)
    return f.select(above > high, high, above)


def is_nan(f: Function, x: Value) -> Value:
    """Whether it is not a number."""
    return f.compare("uno", x, 0.0)


def with_sign_of(f: Function, x: Value, bit: Value) -> Value:
    """`x` with its sign flipped where the lowest bit of an integer is set."""
    flipped = f.bits(x) ^ (bit << (x.type.bits - 1))
    return f.bitcast(flipped, x.type)


def via_float64(function: Unary) -> Unary:
    """A function of float64 for float32 too, by way of float64."""

    def apply(f: Function, x: Value) -> Value:
        if x.type.scalar == F64:
            return function(f, x)
        return narrow(f, function(f, widen(f, x)))

    return apply


def widen(f: Function, x: Value) -> Value:
    """A float32 as float64."""
    return f.convert("fpext", x, F64)


def narrow(f: Function, x: Value) -> Value:
    """A float64 rounded to float32."""
    return f.convert("fptrunc", x, F32)


class Double(NamedTuple):
    """A number as the sum of two, the second below the last place of the first."""

    high: Value
    low: Value


def quick_sum(a: Value, b: Value) -> Double:
    """`a + b` exactly, where `a` is not the smaller one or is zero."""
    high = a + b
    return Double(high, b - (high - a))


def exact_sum(a: Value, b: Value) -> Double:
    """`a + b` exactly."""
    high = a + b
    other = high - a
    return Double(high, (a - (high - other)) + (b - other))


def exact_product(f: Function, a: Value, b: Value) -> Double:
    """`a * b` exactly."""
    high = a * b
    return Double(high, f.fma(a, b, -high))


def product(f: Function, a: Double, b: Double) -> Double:
    """The product of two doubled numbers, not normalised."""
    high, low = exact_product(f, a.high, b.high)
    return Double(high, f.fma(a.high, b.low, f.fma(a.low, b.high, low)))


def any_lane(f: Function, condition: Value) -> Value:
    """Whether a condition holds in some lane."""
    lanes = condition.type.lanes
    if not lanes:
        return condition
    return f.bitcast(condition, Type(f"i{lanes}")).differs(0)


def exponent_field(f: Function, x: Value) -> Value:
    """The biased exponent of a positive number, as an integer."""
    return f.bits(x).shifted_down(format_of(x).fraction)


def small_integer(f: Function, n: Value, type: Type) -> Value:
    """A non-negative integer below 2 to the fraction bits, as a floating-point number."""
    form = FORMATS[type.scalar]
    base = 2.0**form.fraction
    lifted = n | bit_pattern(type, base)
    return f.bitcast(lifted, type) - base


def bit_pattern(type: Type, number: float) -> int:
    """The bits of a constant."""
    integer, floating = ("<i", "<f") if type.scalar == F32 else ("<q", "<d")
    return int(struct.unpack(integer, struct.pack(floating, number))[0])
