"""The normal distribution below a place, of float64 arrays, accurate far out."""

from __future__ import annotations

import math
from typing import Final

from tawny import dtype as dt
from tawny.approximations.gamma import if_else
from tawny.array import Array
from tawny.ops import elementwise as e
from tawny.ops.creation import astype

ROOT: Final = math.sqrt(0.5)
LEVEL: Final = 0.5 * math.log(2 * math.pi)

_ROOT_OF_TWO: Final = (1.4142135381698608, 2.420323419460857e-08, 1.4349369327986523e-17)
"""The root of 2 as a sum: of 24 bits, of 29, and the rest."""

FURTHEST: Final = 40.0
"""Standard deviations from which on the share is 0 or 1 to float64."""


def _rest_of_division(x: Array, near: Array) -> Array:
    """What `near`, the rounded `x / sqrt(2)`, leaves of that: products are exact to the last."""
    high = astype(astype(near, dt.FLOAT32), dt.FLOAT64)
    low = near - high
    first, second, third = _ROOT_OF_TWO
    rest = ((x - high * first) - high * second) - low * first
    return ((rest - low * second) - near * third) * ROOT


def ndtr(x: Array) -> Array:
    """The share below `x`.

    The slope of erfc, by which what was rounded off counts, is beside erfc nearly that of its
    bounds `2 / sqrt(pi) exp(-y**2) / (y + sqrt(y**2 + c))`, c from 4 / pi to 2.
    """
    inside = e.minimum(e.maximum(x, -FURTHEST), FURTHEST)
    y = inside * -ROOT
    slope = y + e.sqrt(y * y + 4 / math.pi)
    return 0.5 * e.erfc(y) * (1.0 + slope * _rest_of_division(inside, -y))


FAR_BELOW: Final = -5.0
"""The greatest `x` for which a continued fraction gives the tail."""
STEPS: Final = 24
"""Steps of the continued fraction, which give float64's last digit up to `FAR_BELOW`."""


def mills(x: Array) -> Array:
    """`density(x) / ndtr(x)` for x up to `FAR_BELOW`, by Laplace's continued fraction."""
    size = -x
    value = size
    for step in range(STEPS, 0, -1):
        value = size + float(step) / value
    return value


def log_ndtr(x: Array) -> Array:
    """The logarithm of the share below `x`."""
    near, far = e.maximum(x, FAR_BELOW), e.minimum(x, FAR_BELOW)
    below = e.log(ndtr(near))
    above = e.log1p(-ndtr(-e.maximum(x, 0.0)))
    beyond = -e.log(mills(far)) - LEVEL - 0.5 * far * far
    return if_else(x > 0.0, above, if_else(x > FAR_BELOW, below, beyond))
