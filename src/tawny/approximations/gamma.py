"""The gamma function and what belongs to it, of float64 arrays, element by element.

Each is made of Chebyshev series in the middle, of Stirling's series far out and of reflection on
the left; the choice is made per element, so that one compiled loop computes all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tawny.approximations import chebyshev_tables as tables
from tawny.array import Array
from tawny.numpy.composite import where
from tawny.ops import elementwise as e

FAR: Final = 8.0
"""From here on Stirling's series is used."""

BERNOULLI: Final = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
"""The Bernoulli numbers of even order, from 2 on."""


def chebyshev(series: Sequence[float], t: Array) -> Array:
    """The sum of `series[k]` times the `k`-th Chebyshev polynomial, at `t`."""
    double = t * 2.0
    before, value = t * 0.0, t * 0.0 + series[-1]
    for coefficient in reversed(series[1:-1]):
        before, value = value, double * value - before + coefficient
    return t * value - before + series[0]


def polynomial(coefficients: Sequence[float], t: Array) -> Array:
    """The sum of `coefficients[k]` times `t` to the power k."""
    value = t * 0.0 + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * t + coefficient
    return value


def if_else(condition: Array, yes: Array | float, no: Array | float) -> Array:
    """`yes` where the condition holds, else `no`."""
    result: Array = where(condition, yes, no)
    return result


def rescale(x: Array, low: float, high: float) -> Array:
    """`x` from -1 to 1 as it goes from `low` to `high`; outside it is at the ends."""
    inside = e.minimum(e.maximum(x, low), high)
    return (inside - (low + high) / 2) * (2 / (high - low))


def _reflect(x: Array) -> tuple[Array, Array]:
    """Where to reflect, and -x there, x elsewhere: no digit is lost."""
    left = x < 0.0
    return left, if_else(left, -x, x)


def _integer_distance(x: Array) -> Array:
    """How far `x` is from the nearest integer; exact."""
    return x - e.rint(x)


STIRLING: Final = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:8], start=1))
"""Coefficients of 1 / x, 1 / x**3, ... in `log(gamma(x))`."""


def stirling(x: Array) -> Array:
    """What Stirling's formula leaves of `log(gamma(x))`."""
    return polynomial(STIRLING, 1.0 / (x * x)) / x


def log_gamma(x: Array) -> Array:
    """`log(abs(gamma(x)))`."""
    left, y = _reflect(x)
    low = y < 1.0
    lifted = if_else(low, y + 1.0, y)
    factors = if_else(low, y, y - 1.0) * if_else(low, y - 1.0, y - 2.0)
    ground = factors * chebyshev(tables.LOG_GAMMA_LOW, rescale(lifted, 1.0, 3.0))
    near = ground - if_else(low, e.log(y), 0.0)
    middle = chebyshev(tables.LOG_GAMMA_MIDDLE, rescale(y, 3.0, FAR))
    far = e.maximum(y, FAR)
    half = 0.5 * math.log(2 * math.pi) - 0.5
    beyond = (far - 0.5) * (e.log(far) - 1.0) + (half + stirling(far))
    value = if_else(lifted < 3.0, near, if_else(y < FAR, middle, beyond))
    sine = e.abs(x * e.sin(math.pi * _integer_distance(x)))
    value = if_else(left, math.log(math.pi) - e.log(sine) - value, value)
    return if_else(e.isinf(x), math.inf, value + 0.0)  # no negative zero


def gamma(x: Array) -> Array:
    """The gamma function."""
    left, y = _reflect(x)
    below = if_else(y < 1.0, y * (y + 1.0), if_else(y < 2.0, y, 1.0))
    z, above = if_else(y < 1.0, y + 2.0, if_else(y < 2.0, y + 1.0, y)), y * 0.0 + 1.0
    for _ in range(int(FAR) - 3):  # the series is that of 2 to 3
        long = z >= 3.0
        z = if_else(long, z - 1.0, z)
        above = if_else(long, above * z, above)
    near = above * chebyshev(tables.GAMMA_LOW, rescale(z, 2.0, 3.0)) / below
    far = e.maximum(y, FAR)
    half = e.pow(far, 0.5 * far - 0.25)  # the whole power may overflow where the product does not
    beyond = half * e.exp(-far) * half * (math.sqrt(2 * math.pi) * e.exp(stirling(far)))
    beyond = if_else(y > 180.0, math.inf, beyond)  # it overflows from 171.6 on
    value = if_else(y < FAR, near, beyond)
    away = _integer_distance(x)
    even = e.equal(_integer_distance(0.5 * e.rint(x)), 0.0)
    sine = e.sin(math.pi * away) * if_else(even, -x, x)
    value = if_else(left, math.pi / (sine * value), value)
    value = if_else(e.equal(x, 0.0), e.copysign(math.inf, x), value)
    return if_else(left & (e.equal(away, 0.0) | e.isinf(x)), math.nan, value)


def digamma(x: Array) -> Array:
    """The slope of `log_gamma`."""
    left, y = _reflect(x)
    low = y < 1.0
    lifted = if_else(low, y + 1.0, y)
    root, rest = tables.DIGAMMA_ROOT
    ground = chebyshev(tables.DIGAMMA_LOW, rescale(lifted, 1.0, 3.0)) * ((lifted - root) - rest)
    near = ground - if_else(low, 1.0 / y, 0.0)
    middle = chebyshev(tables.DIGAMMA_MIDDLE, rescale(y, 3.0, FAR))
    far = e.maximum(y, FAR)
    square = 1.0 / (far * far)
    terms = [b / (2 * k) for k, b in enumerate(BERNOULLI[:8], start=1)]
    beyond = e.log(far) - 0.5 / far - polynomial(terms, square) * square
    value = if_else(lifted < 3.0, near, if_else(y < FAR, middle, beyond))
    away = _integer_distance(x)
    value = if_else(left, value - 1.0 / x - math.pi / e.tan(math.pi * away), value)
    value = if_else((x < 0.0) & e.equal(away, 0.0), math.nan, value)
    value = if_else(e.equal(x, 0.0), -e.copysign(math.inf, x), value)
    return if_else(e.equal(x, -math.inf), math.nan, value)


TERMS: Final = 12
"""Terms of Hurwitz' zeta function that are added before the Euler and Maclaurin series."""


def zeta(s: int, x: Array) -> Array:
    """Hurwitz' zeta function, the sum of `(x + k)**-s` for all k from 0; x positive, s from 2."""
    total = _reciprocal_power(x, s)
    for k in range(1, TERMS):
        total = total + _reciprocal_power(x + float(k), s)
    end = x + float(TERMS)
    square = 1.0 / (end * end)
    rising, terms = float(s), list[float]()
    for j, b in enumerate(BERNOULLI, start=1):
        terms.append(b * rising / math.factorial(2 * j))
        rising *= (s + 2 * j - 1) * (s + 2 * j)
    tail = (0.5 + polynomial(terms, square) / end) * _reciprocal_power(end, s)
    return total + (_reciprocal_power(end, s - 1) / (s - 1) + tail)


def _reciprocal_power(x: Array, n: int) -> Array:
    """`x**-n`, n from 1."""
    inverse = 1.0 / x
    return inverse if n == 1 else inverse * inverse if n == 2 else e.pow(x, -float(n))


def trigamma(x: Array) -> Array:
    """The slope of `digamma`."""
    left, y = _reflect(x)
    value = zeta(2, y)
    turned, inverse = math.pi / e.sin(math.pi * _integer_distance(x)), 1.0 / x
    return if_else(left, turned * turned - (value - inverse * inverse), value)


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of `digamma`, n from 1; NaN for negative x and n from 2."""
    if n == 1:
        return trigamma(x)
    sign = -1.0 if n % 2 == 0 else 1.0
    return zeta(n + 1, if_else(x >= 0.0, x, math.nan)) * (sign * math.factorial(n))
