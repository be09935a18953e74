"""The remainder of a division whose quotient is cut: exact, whatever the quotient's size."""

from __future__ import annotations

from tawny.engine.llvm.ir.builder import Function, Value
from tawny.engine.llvm.vectormath.common import (
    INF,
    NAN,
    any_lane,
    exponent_field,
    format_of,
    power_of_two,
)


def fmod(f: Function, x: Value, y: Value) -> Value:
    """`x - n y` with the integer `n` next to `x / y` towards zero; it has the sign of `x`."""
    size, divisor = f.absolute(x), f.absolute(y)
    valid = (size < INF) & (divisor > 0.0)
    infinite = divisor.equals(INF)
    rest = f.select(valid, size, 0.0)
    step = f.select(valid & ~infinite, divisor, 1.0)
    exponent = _exponent(f, step)
    long = any_lane(f, _is_long(f, rest, exponent))
    (short,) = f.either(long, lambda: [_shorten(f, rest, step, exponent)], lambda: [rest])
    result = f.select(infinite, rest, _remainder(f, short, step))
    return f.select(valid, f.copysign(result, x), NAN)


def _exponent(f: Function, x: Value) -> Value:
    """The biased exponent of a positive number; below 1 where it is denormal."""
    form = format_of(x)
    lift = form.fraction + 1
    denormal = x < form.least_normal
    field = exponent_field(f, f.select(denormal, x * 2.0**lift, x))
    return f.select(denormal, field - lift, field)


def _is_long(f: Function, rest: Value, exponent: Value) -> Value:
    """Whether the quotient has about as many bits as a fraction holds, or more."""
    return _exponent(f, rest) - exponent > format_of(rest).fraction - 3


def _remainder(f: Function, rest: Value, step: Value) -> Value:
    """The remainder of two positive numbers whose quotient is a short number.

    The rounded quotient's whole part is the right one or one more; both give an exact rest.
    """
    left = f.fma(f.unary("trunc", rest / step), -step, rest)
    return f.select(left < 0.0, left + step, left)


def _shorten(f: Function, rest: Value, step: Value, exponent: Value) -> Value:
    """`rest` less large multiples of `step`, until the quotient is short in every lane."""
    form = format_of(rest)
    with f.repeat(rest) as repeat:
        (left,) = repeat.carried
        gap = _exponent(f, left) - exponent
        lift = f.maximum(gap - (form.fraction - 4), 0)
        first = f.minimum(lift, form.bias)
        second = f.minimum(lift - first, form.bias)
        multiple = step * power_of_two(f, first, rest.type) * power_of_two(f, second, rest.type)
        after = _remainder(f, left, multiple)
        repeat.again(any_lane(f, _is_long(f, after, exponent)), after)
    (result,) = repeat.carried
    return result
