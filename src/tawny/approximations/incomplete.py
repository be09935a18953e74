"""Incomplete gamma and beta functions, regularised, of float64 arrays.

Each is a factor, what the distribution's density is but for the measure, times an integral

    integral from 0 to infinity of exp(-g(s)) ds,    g(0) = 0, g convex and increasing,

over the logarithm (for beta the logit) of the distribution's variable, on that side of the mode
where g increases.  It is summed by Gauss' rule up to where exp(-g) is of no account.  The same rule
serves derivatives with respect to parameters, since its places are held.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from tawny.approximations import chebyshev_tables as tables
from tawny.approximations.gamma import FAR, chebyshev, if_else, polynomial, rescale, stirling
from tawny.array import Array, wrap
from tawny.node import Node, constant
from tawny.ops import elementwise as e
from tawny.ops.differentiation import stop_gradient
from tawny.ops.movement import expand_dims
from tawny.ops.reduction import sum as total

NODES: Final = 32
"""Places of Gauss' rule in each half: the error is below 1e-15 wherever it was tried."""

DEPTH: Final = 40.0
"""Beyond where g is so large the integral is of no account."""

STEPS: Final = 7
"""Newton's steps to that place; they begin beyond it and stay there, since g is convex."""

Exponent = Callable[[Array], Array]


@cache
def _rule() -> tuple[Node, ...]:
    """Places and weights in both parts: how often the first's length, and the second's."""
    places, weights = np.polynomial.legendre.leggauss(NODES)
    places, weights, none = (places + 1) / 2, weights / 2, np.zeros(NODES)
    halves = (places, none + 1), (none, places), (weights, none), (none, weights)
    return tuple(constant(np.concatenate(parts)) for parts in halves)


def _integral(g: Exponent, end: Array, middle: Array) -> Array:
    """The integral of `exp(-g)` from 0 to `middle` and from there to `end`, which are held.

    `g` is given places along one more axis, the last.
    """
    first = expand_dims(stop_gradient(middle), axis=-1)
    second = expand_dims(stop_gradient(end), axis=-1) - first
    near, far, near_weights, far_weights = map(wrap, _rule())
    values = e.exp(-g(first * near + second * far))
    return total(values * (first * near_weights + second * far_weights), axis=-1)


def _end(g: Exponent, slope: Exponent, begin: Array) -> Array:
    """Where `g` is `DEPTH`, from a place beyond; near 0, where g is rounded off, that place."""
    place = begin
    for _ in range(STEPS):
        place = place - (g(place) - DEPTH) / slope(place)
    return if_else(begin < 1e-5, begin, place)


def _crossing(slope: Array, half_curve: Array) -> Array:
    """Where `slope s + half_curve s**2` is `DEPTH`."""
    return 2 * DEPTH / (slope + e.sqrt(slope * slope + 4 * DEPTH * half_curve))


# --------------------------------------------------------------------- small parts

SMALL: Final = 0.25
"""Up to here the series below are summed, to float64's last digit."""

_EXPONENTIAL: Final = tuple(1 / math.factorial(k) for k in range(2, 12))
_LOGARITHM: Final = tuple(2 / (2 * k + 3) for k in range(9))


def _exp_series(s: Array) -> Array:
    """`exp(s) - 1 - s` of small numbers."""
    return polynomial(_EXPONENTIAL, s) * s * s


def _log_series(mu: Array) -> Array:
    """`mu - log(1 + mu)` of small numbers."""
    r = mu / (2.0 + mu)
    square = r * r
    return r * (mu - square * polynomial(_LOGARITHM, square))


def _exp_beyond(s: Array) -> Array:
    """`exp(s) - 1 - s`."""
    return if_else(e.abs(s) < SMALL, _exp_series(s), e.expm1(s) - s)


def _excess(mu: Array, ratio: Array) -> Array:
    """`mu - log(1 + mu)`, where 1 + mu is `ratio`."""
    return if_else(e.abs(mu) < SMALL, _log_series(mu), mu - e.log(ratio))


def _stirling_rest(a: Array) -> Array:
    """What Stirling's formula leaves of `log(gamma(a))`; for small numbers by that of others."""
    low = a < FAR
    small, large = e.minimum(a, FAR), if_else(low, a + FAR, a)
    factors = small
    for n in range(1, int(FAR)):
        factors = factors * (small + float(n))
    lifted = (small + (FAR - 0.5)) * e.log(small + FAR) - FAR
    gap = lifted - e.log(factors) - (small - 0.5) * e.log(small)
    return stirling(large) + if_else(low, gap, 0.0)


# --------------------------------------------------------------------------- gamma

NEAR: Final = 1.5
"""The greatest `x` for which the power series is used."""
_SERIES: Final = 26
"""Terms of the power series, which give the last digit up to `NEAR`."""


def gammainc(a: Array, x: Array) -> Array:
    """The lower one; NaN for negative numbers."""
    return _gamma(a, x)[0]


def gammaincc(a: Array, x: Array) -> Array:
    """The upper one; NaN for negative numbers."""
    return _gamma(a, x)[1]


def gamma_factor(a: Array, x: Array) -> Array:
    """`x**a exp(-x) / gamma(a)` of positive numbers."""
    mu = (x - a) / a
    return e.sqrt(a / (2 * math.pi)) * e.exp(-a * _excess(mu, x / a) - _stirling_rest(a))


def gamma_density(a: Array, x: Array) -> Array:
    """The slope of `gammainc` with respect to `x`."""
    inside = (a > 0.0) & (x > 0.0) & (a < math.inf) & (x < math.inf)
    b, y = if_else(inside, a, 1.0), if_else(inside, x, 1.0)
    first = if_else(a < 1.0, math.inf, if_else(e.equal(a, 1.0), 1.0, 0.0))
    edge = if_else(e.equal(x, 0.0) & (a > 0.0), first, 0.0)
    value = if_else(inside, gamma_factor(b, y) / y, edge)
    return if_else((a >= 0.0) & (x >= 0.0), value, math.nan)


def _gamma(a: Array, x: Array) -> tuple[Array, Array]:
    inside = (a > 0.0) & (x > 0.0) & (a < math.inf) & (x < math.inf)
    b, y = if_else(inside, a, 1.0), if_else(inside, x, 1.0)
    factor = gamma_factor(b, y)
    lower = factor / b * _power_series(b, e.minimum(y, NEAR))
    upper = if_else(b < 1.0, _small_upper(e.minimum(b, 1.0), e.minimum(y, NEAR)), 1.0 - lower)
    left = y < b
    part = factor * if_else(left, _lower_integral(b, y), _upper_integral(b, y))
    near = y <= NEAR
    lower = if_else(near, lower, if_else(left, part, 1.0 - part))
    upper = if_else(near, upper, if_else(left, 1.0 - part, part))
    none = ~((a >= 0.0) & (x >= 0.0)) | (e.equal(a, x) & (e.equal(a, 0.0) | e.isinf(a)))
    full = e.equal(a, 0.0) | e.equal(x, math.inf)
    lower = if_else(inside, lower, if_else(full, 1.0, 0.0))
    upper = if_else(inside, upper, if_else(full, 0.0, 1.0))
    return if_else(none, math.nan, lower), if_else(none, math.nan, upper)


def _power_series(a: Array, x: Array) -> Array:
    """The sum of `x**n / ((a + 1) ... (a + n))`."""
    value = a * 0.0 + 1.0
    for n in range(_SERIES, 0, -1):
        value = 1.0 + x / (a + float(n)) * value
    return value


def _small_upper(a: Array, x: Array) -> Array:
    """The upper one of small numbers, as a sum that loses no digits where it is small."""
    log_gamma_beyond = a * (a - 1.0) * chebyshev(tables.LOG_GAMMA_LOW, rescale(a + 1.0, 1.0, 3.0))
    level = a * e.log(x) - log_gamma_beyond
    value = a * 0.0
    for n in range(_SERIES, 0, -1):
        value = (value + (-1.0) ** n / math.factorial(n) / (a + float(n))) * x
    return -e.expm1(level) - e.exp(level) * a * value


def _lower_integral(a: Array, x: Array) -> Array:
    """With g(s) = a s - x (1 - exp(-s)), x below a."""
    gap, y = if_else(a > x, a - x, 0.0), e.maximum(x, NEAR)
    wide, high = expand_dims(gap, axis=-1), expand_dims(y, axis=-1)
    bound = (DEPTH + y) / (gap + y)
    near = _crossing(gap, y * math.exp(-1.0))
    end = _end(
        lambda s: gap * s + y * (s + e.expm1(-s)),
        lambda s: gap - y * e.expm1(-s),
        if_else(near < 1.0, e.minimum(near, bound), bound),
    )
    return _integral(lambda s: wide * s + high * _exp_beyond(-s), end, end * 0.5)


def _upper_integral(a: Array, x: Array) -> Array:
    """With g(s) = x (exp(s) - 1) - a s, a up to x."""
    gap, y = if_else(x >= a, x - a, 0.0), e.maximum(x, NEAR)
    wide, high = expand_dims(gap, axis=-1), expand_dims(y, axis=-1)
    end = _end(
        lambda s: gap * s + y * (e.expm1(s) - s),
        lambda s: gap + y * e.expm1(s),
        _crossing(gap, y * 0.5),
    )
    return _integral(lambda s: wide * s + high * _exp_beyond(s), end, end * 0.5)


# ---------------------------------------------------------------------------- beta

RAISED: Final = 3
"""Steps of 1 by which the first parameter is raised, for the integrand to fall soon enough."""


def beta_factor(a: Array, b: Array, x: Array, y: Array) -> Array:
    """`x**a y**b / beta(a, b)` of positive numbers, y = 1 - x."""
    gap, both = x * b - y * a, a + b
    exponent = a * _excess(gap / a, x * both / a) + b * _excess(-gap / b, y * both / b)
    rest = _stirling_rest(a) + _stirling_rest(b) - _stirling_rest(both)
    return e.sqrt(a / both * b / (2 * math.pi)) * e.exp(-exponent - rest)


def betainc(a: Array, b: Array, x: Array) -> Array:
    """The share below `x`; NaN outside of 0 to 1 and for negative parameters."""
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0) & (a < math.inf) & (b < math.inf)
    p, q, z = if_else(inside, a, 1.0), if_else(inside, b, 1.0), if_else(inside, x, 0.5)
    y = 1.0 - z
    turned = z * q > y * p
    pairs = ((q, p), (p, q), (y, z), (z, y))
    share = _beta_below(*[if_else(turned, one, other) for one, other in pairs])
    value = if_else(turned, 1.0 - share, share)
    full = e.equal(x, 1.0) | e.equal(a, 0.0) | e.equal(b, math.inf)
    value = if_else(inside, value, if_else(full & ~e.equal(x, 0.0), 1.0, 0.0))
    none = e.equal(a, b) & (e.equal(a, 0.0) | e.isinf(a))
    none = none | ~((a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0))
    return if_else(none, math.nan, value)


def beta_density(a: Array, b: Array, x: Array) -> Array:
    """The slope of `betainc` with respect to `x`."""
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0) & (a < math.inf) & (b < math.inf)
    p, q, z = if_else(inside, a, 1.0), if_else(inside, b, 1.0), if_else(inside, x, 0.5)
    value = beta_factor(p, q, z, 1.0 - z) / z / (1.0 - z)
    # At the ends it is as a power of the distance, with the other parameter as the level.
    own, other = if_else(e.equal(x, 0.0), a, b), if_else(e.equal(x, 0.0), b, a)
    edge = if_else(own < 1.0, math.inf, if_else(e.equal(own, 1.0), other, 0.0))
    valid = (a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)
    return if_else(inside, value, if_else(valid, edge, math.nan))


def _beta_below(a: Array, b: Array, x: Array, y: Array) -> Array:
    """The share below x, up to the mean, y = 1 - x."""
    value = _beta_integral(a + float(RAISED), b, x, y) * (a + float(RAISED))
    for n in range(RAISED - 1, -1, -1):
        value = 1.0 + value * x * ((a + b + float(n)) / (a + float(n + 1)))
    return beta_factor(a, b, x, y) / a * value


def _beta_integral(a: Array, b: Array, x: Array, y: Array) -> Array:
    """With g(v) = a v + (a + b) log(1 - x (1 - exp(-v))), x up to the mean."""
    both, gap = a + b, y * a - x * b
    bound = (DEPTH - both * e.log(y)) / a
    near = _crossing(gap, both * x * y * (0.5 * math.exp(-1.0)))
    end = _end(
        lambda v: a * v + both * e.log1p(x * e.expm1(-v)),
        lambda v: a - both * x / (x + y * e.exp(v)),
        if_else(near < 1.0, e.minimum(near, bound), bound),
    )
    middle = e.minimum(e.maximum(e.log(x / y), 0.25 * end), 0.75 * end)
    # In x or in y, whichever is the smaller: terms are no larger than they must be.
    left = x < 0.5
    given = if_else(left, x, y), if_else(left, -1.0, 1.0), if_else(left, a, -b), gap, both
    small, sign, level, gap, both = (expand_dims(n, axis=-1) for n in given)

    def g(v: Array) -> Array:
        moved = small * e.expm1(sign * v)
        inner = gap * v + both * (small * _exp_series(sign * v) - _log_series(moved))
        return if_else(v < SMALL, inner, level * v + both * e.log1p(moved))

    return _integral(g, end, middle)
