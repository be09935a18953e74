"""Special functions that NumPy lacks, to the last bits of float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tawny.dtype import kind_of

Value = npt.NDArray[Any]
Function = Callable[[Value], Value]


def _from_math(function: Callable[[float], float]) -> Function:
    table = np.frompyfunc(function, 1, 1)

    def apply(x: Value) -> Value:
        x = np.asarray(x)
        dtype = np.result_type(x.dtype, np.float16)
        return np.asarray(table(x.astype(np.float64)), dtype=np.float64).astype(dtype)

    return apply


erf: Final = _from_math(math.erf)
erfc: Final = _from_math(math.erfc)

# Rybicki's sampling: dawsn(x) is the limit of sum over odd n of exp(-(x - n h)**2) / n / sqrt(pi);
# the error falls as exp(-(pi / 2 h)**2), beyond float64 for h = 0.2.
_STEP: Final = 0.2
_ODD: Final = np.arange(-59.0, 60.0, 2.0)


def dawsn(x: Value) -> Value:
    """Dawson's integral."""
    x = np.asarray(x)
    dtype = np.result_type(x.dtype, np.float16)
    wide = x.astype(np.float64)
    near = _STEP * 2 * np.rint(np.nan_to_num(wide) / (2 * _STEP))
    shift = (wide - near)[..., np.newaxis]
    weights = np.exp(-np.square(shift - _ODD * _STEP)) / (_ODD + near[..., np.newaxis] / _STEP)
    sampled = np.sum(weights, axis=-1) / math.sqrt(math.pi)
    square = 1 / np.square(wide)
    tail = (1 + square / 2 * (1 + square * 1.5 * (1 + square * 2.5 * (1 + square * 3.5)))) / (
        2 * wide
    )
    series = wide * (
        1 - wide * wide * (2 / 3) * (1 - wide * wide * 0.4 * (1 - wide * wide * 2 / 7))
    )
    size = np.abs(wide)
    out = np.where(size > 100.0, tail, np.where(size < 1e-3, series, sampled))
    return np.asarray(out).astype(dtype)


def floor_divide(x: Value, y: Value) -> Value:
    """The quotient rounded down; with an infinite operand the floor of the IEEE quotient.

    There NumPy follows Python's `//` instead: NaN for inf // 1.0, and -1.0 for 1.0 // -inf.
    """
    out = np.asarray(np.floor_divide(x, y))
    if kind_of(out.dtype) != "f":
        return out
    infinite = np.isinf(x) | np.isinf(y)
    return np.where(infinite, np.floor(np.divide(x, y)), out) if infinite.any() else out


def power(x: Value, y: Value) -> Value:
    """The power, whatever the layout of the exponents.

    Of one exponent 0.5 for many bases NumPy makes the square root, which differs at -inf and -0.0.
    """
    if kind_of(np.result_type(x, y)) != "f":
        return np.asarray(np.power(x, y))
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    exponents = np.array(np.broadcast_to(y, shape or (1,)), order="C")
    out: Value = np.power(np.broadcast_to(x, shape or (1,)), exponents)
    return out.reshape(shape)


def expm1(x: Value) -> Value:
    """`exp(x) - 1`; complex numbers with infinite or NaN parts as the array API standard says."""
    out: Value = np.asarray(np.expm1(x))
    if out.dtype.kind != "c":
        return out
    real, imag = np.real(x), np.imag(x)
    above, below = real == np.inf, real == -np.inf
    lost = ~np.isfinite(imag)
    nan = np.full_like(imag, np.nan)
    nothing = (real == 0) & (imag == 0)
    fixed_real = np.where(above, np.inf, np.where(below, -1.0, np.where(nothing, 0.0, np.nan)))
    fixed_imag = np.where(below, 0.0, np.where(imag == 0, imag, nan))
    special = (above & (lost | (imag == 0))) | (below & lost) | (np.isnan(real) & (imag == 0))
    special |= nothing
    if not special.any():
        return out
    fixed = np.empty_like(out)
    fixed.real, fixed.imag = fixed_real, fixed_imag
    return np.where(special, fixed, out)
