"""Windows for spectra, and the Bessel function that one of them is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import check_categories
from tawny.node import Value
from tawny.numpy.composite import where
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import arange, astype, filled_array, full_like, ones
from tawny.ops.precision import in_single
from tawny.shape import as_int


def _window(op: str, length: object, formula: Callable[[Array, float], Array]) -> Array:
    """`formula` of the angles from -pi to pi and of the greatest index; 1 for a single point."""
    if isinstance(length, float) and length.is_integer():
        length = int(length)
    n = as_int(length, op, "M")
    if n < 2:
        return ones((max(n, 0),))
    return formula(arange(1.0 - n, float(n), 2.0), n - 1.0)


@public()
def hanning(M: int) -> Array:  # noqa: N803
    """A raised cosine of `M` points that falls to 0 at both ends."""
    return _window("hanning", M, lambda n, last: _cosines(n, last, 0.5, 0.5))


@public()
def hamming(M: int) -> Array:  # noqa: N803
    """A raised cosine of `M` points that falls to 0.08 at both ends."""
    return _window("hamming", M, lambda n, last: _cosines(n, last, 0.54, 0.46))


@public()
def blackman(M: int) -> Array:  # noqa: N803
    """A sum of two cosines of `M` points that falls smoothly to 0 at both ends."""
    return _window("blackman", M, lambda n, last: _cosines(n, last, 0.42, 0.5, 0.08))


def _cosines(n: Array, last: float, *weights: float) -> Array:
    """The sum of `weights[k] * cos(k * pi * n / last)`."""
    angle = e.divide(e.multiply(n, math.pi), last)
    total = filled_array(weights[0], n.shape, dt.FLOAT64, "window")
    for k, weight in enumerate(weights[1:], 1):
        total = e.add(total, e.multiply(e.cos(e.multiply(angle, k)), weight))
    return total


@public()
def bartlett(M: int) -> Array:  # noqa: N803
    """A triangle of `M` points, 0 at both ends."""
    return _window("bartlett", M, lambda n, last: e.subtract(1, e.divide(e.abs(n), last)))


@public()
def kaiser(M: int, beta: ArrayLike) -> Array:  # noqa: N803
    """A Bessel function of `M` points; the greater `beta`, the narrower it is."""

    def formula(n: Array, last: float) -> Array:
        height = e.sqrt(e.subtract(1, e.square(e.divide(n, last))))
        return e.divide(i0(e.multiply(height, beta)), i0(e.multiply(ones(()), beta)))

    return _window("kaiser", M, formula)


_FAR: Final = 8.0
"""Where the series of `i0` in its argument gives way to that in the reciprocal."""


@public()
@in_single
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind and order 0."""
    array = wrap(lift(x, "i0"))
    check_categories("i0", 0, array.dtype, dt.REAL)
    array = astype(array, dt.inexact_dtype(array.dtype), copy=False)
    size = where(e.less(array, 0), e.negative(array), array)  # which has a slope at 0 too
    near, far = _i0_series()
    is_near = e.less_equal(size, _FAR)
    small, large = where(is_near, size, _FAR), where(is_near, _FAR, size)
    below = e.multiply(e.exp(small), _chebyshev(near, e.subtract(e.divide(small, _FAR / 2), 1)))
    scaled = _chebyshev(far, e.subtract(e.divide(2 * _FAR, large), 1))
    beyond = e.divide(e.multiply(e.exp(large), scaled), e.sqrt(large))
    return cast("Array", where(is_near, below, beyond))


@cache
def _i0_series() -> tuple[list[float], list[float]]:
    """Chebyshev series of `exp(-x) i0(x)` up to `_FAR`, and of `sqrt(x)` times that beyond."""
    # at many more points than terms, which averages their rounding errors out
    angles = (np.arange(100) + 0.5) * (math.pi / 100)
    points = np.cos(angles)
    near = _scaled_i0((points + 1) * (_FAR / 2))
    x = 2 * _FAR / (points + 1)
    far = np.sqrt(x) * _scaled_i0(x)
    cosines = np.cos(np.outer(np.arange(30), angles)) / 50
    cosines[0] /= 2
    return (cosines @ near).tolist(), (cosines[:21] @ far).tolist()


def _scaled_i0(x: Value) -> Value:
    """`exp(-x) i0(x)`: the mean of `exp(x (cos(a) - 1))` over the angles of a circle."""
    halves = np.arange(4096) * (math.pi / 4096)
    means: Value = np.exp(np.outer(x, -2 * np.sin(halves) ** 2)).mean(axis=1)
    return means


def _chebyshev(series: Sequence[float], t: Array) -> Array:
    """The sum of `series[k]` times the `k`-th Chebyshev polynomial, at `t`."""
    double = e.multiply(t, 2)
    before, value = full_like(t, 0), full_like(t, series[-1])
    for coefficient in reversed(series[1:-1]):
        before, value = value, e.add(e.subtract(e.multiply(double, value), before), coefficient)
    return e.add(e.subtract(e.multiply(t, value), before), series[0])
