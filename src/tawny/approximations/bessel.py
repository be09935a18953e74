"""Bessel functions of the first kind, of float64 arrays, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tawny.approximations import chebyshev_tables as tables
from tawny.approximations.gamma import chebyshev, if_else
from tawny.array import Array
from tawny.ops import elementwise as e

FAR: Final = 8.0
"""Where the series in the argument give way to those in the reciprocal."""


def _near_and_far(x: Array) -> tuple[Array, Array, Array]:
    """Whether the magnitude is small, and two that are where it is and where it is not."""
    size = e.abs(x)
    near = size <= FAR
    return near, if_else(near, size, FAR), if_else(near, FAR, size)


def _exp_scaled(x: Array, near: Sequence[float], far: Sequence[float], *, odd: bool) -> Array:
    """`exp(-abs(x))` times a modified Bessel function."""
    is_near, small, large = _near_and_far(x)
    below = chebyshev(near, small * (2 / FAR) - 1.0)
    beyond = chebyshev(far, (2 * FAR) / large - 1.0) / e.sqrt(large)
    if not odd:
        return if_else(is_near, below, beyond)
    return if_else(is_near, below * x, e.copysign(beyond, x))


def i0e(x: Array) -> Array:
    """`exp(-abs(x)) i0(x)`."""
    return _exp_scaled(x, tables.I0_NEAR, tables.I0_FAR, odd=False)


def i1e(x: Array) -> Array:
    """`exp(-abs(x)) i1(x)`."""
    return _exp_scaled(x, tables.I1_NEAR, tables.I1_FAR, odd=True)


def _waves(
    large: Array, even: Sequence[float], odd: Sequence[float]
) -> tuple[Array, Array, Array, Array]:
    """Amplitudes far out, divided by `sqrt(pi x)`, and cosine plus and minus sine."""
    ratio = FAR / large
    t = 2.0 * ratio * ratio - 1.0
    root = e.sqrt(math.pi * large)
    cosine, sine = e.cos(large), e.sin(large)
    first, second = chebyshev(even, t) / root, chebyshev(odd, t) * ratio / root
    return first, second, cosine + sine, sine - cosine


def j0(x: Array) -> Array:
    """The Bessel function of order 0."""
    is_near, small, large = _near_and_far(x)
    below = chebyshev(tables.J0_NEAR, small * small * (2 / FAR**2) - 1.0)
    first, second, both, less = _waves(large, tables.J0_EVEN, tables.J0_ODD)
    value = if_else(is_near, below, first * both - second * less)
    return if_else(e.isinf(x), 0.0, value)


def j1(x: Array) -> Array:
    """The Bessel function of order 1."""
    is_near, small, large = _near_and_far(x)
    below = x * chebyshev(tables.J1_NEAR, small * small * (2 / FAR**2) - 1.0)
    first, second, both, less = _waves(large, tables.J1_EVEN, tables.J1_ODD)
    beyond = first * less + second * both
    value = if_else(is_near, below, if_else(x < 0.0, -beyond, beyond))
    return if_else(e.isinf(x), 0.0, value)
