"""Elementwise ops: tables of those that mean the same, and those that need a word more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import tawny.numpy as np
from tawny import special
from tawny.array import Array
from tawny.dtype import BOOL, kind_of
from tawny.pytorch.table import Call, Lowering, cast, choose, is_integral, lowers, refuse

Function = Callable[..., Array]

IN_RESULT_DTYPE: Final[dict[str, Function]] = {
    "acos": np.acos,
    "acosh": np.acosh,
    "asin": np.asin,
    "asinh": np.asinh,
    "atan": np.atan,
    "atanh": np.atanh,
    "atan2": np.atan2,
    "bitwise_and.Tensor": np.bitwise_and,
    "bitwise_and.Scalar": np.bitwise_and,
    "bitwise_not": np.bitwise_invert,
    "bitwise_or.Tensor": np.bitwise_or,
    "bitwise_or.Scalar": np.bitwise_or,
    "bitwise_xor.Tensor": np.bitwise_xor,
    "bitwise_xor.Scalar": np.bitwise_xor,
    "copysign.Tensor": np.copysign,
    "copysign.Scalar": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "digamma": special.digamma,
    "div.Tensor": np.divide,
    "div.Scalar": np.divide,
    "erf": np.erf,
    "erfc": np.erfc,
    "erfinv": special.erfinv,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "prims.fma": np.fma,
    "gcd": np.gcd,
    "heaviside": np.heaviside,
    "hypot": np.hypot,
    "lgamma": special.gammaln,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul.Tensor": np.multiply,
    "mul.Scalar": np.multiply,
    "neg": np.negative,
    "nextafter": np.nextafter,
    "reciprocal": np.reciprocal,
    "sigmoid": np.sigmoid,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Functions whose operands are converted to the dtype of the result first."""

IN_COMMON_DTYPE: Final[dict[str, Function]] = {
    "eq.Scalar": np.equal,
    "eq.Tensor": np.equal,
    "ge.Scalar": np.greater_equal,
    "ge.Tensor": np.greater_equal,
    "gt.Scalar": np.greater,
    "gt.Tensor": np.greater,
    "le.Scalar": np.less_equal,
    "le.Tensor": np.less_equal,
    "lt.Scalar": np.less,
    "lt.Tensor": np.less,
    "ne.Scalar": np.not_equal,
    "ne.Tensor": np.not_equal,
}
"""Functions with truth values, of operands that are converted to one dtype first."""

OF_TRUTH: Final[dict[str, Function]] = {
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
"""Functions of whether each operand is zero."""

AS_GIVEN: Final[dict[str, Function]] = {
    "isinf": np.isinf,
    "isnan": np.isnan,
    "imag": np.imag,
    "real": np.real,
    "signbit": np.signbit,
}
"""Functions of one operand in whatever dtype it has."""

WHOLE: Final[dict[str, Function]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "trunc": np.trunc,
}
"""Functions that leave integers alone."""


def _in_result_dtype(function: Function) -> Lowering:
    def lower(call: Call, *operands: Any) -> Array:
        return function(*[cast(x, call.dtype) for x in operands])

    return lower


def _in_common_dtype(function: Function) -> Lowering:
    def lower(call: Call, *operands: Any) -> Array:
        return function(*[cast(x, call.common) for x in operands])

    return lower


def _of_truth(function: Function) -> Lowering:
    def lower(_: Call, *operands: Any) -> Array:
        return function(*[cast(x, BOOL) for x in operands])

    return lower


def _as_given(function: Function) -> Lowering:
    def lower(_: Call, x: Array) -> Array:
        return function(x)

    return lower


def _whole(function: Function) -> Lowering:
    def lower(_: Call, x: Array) -> Array:
        return x if is_integral(x.dtype) else function(x)

    return lower


for _table, _lowering in (
    (IN_RESULT_DTYPE, _in_result_dtype),
    (IN_COMMON_DTYPE, _in_common_dtype),
    (OF_TRUTH, _of_truth),
    (AS_GIVEN, _as_given),
    (WHOLE, _whole),
):
    for _name, _function in _table.items():
        lowers(_name)(_lowering(_function))


# ------------------------------------------------------------------ arithmetic


def _scale(y: Any, alpha: Any, call: Call) -> Array:
    whole = cast(y, call.dtype)
    return whole if alpha == 1 else np.multiply(whole, cast(alpha, call.dtype))


@lowers("add.Tensor", "add.Scalar")
def add(call: Call, x: Any, y: Any, alpha: Any = 1) -> Array:
    """The sum of `x` and `alpha` times `y`."""
    return np.add(cast(x, call.dtype), _scale(y, alpha, call))


@lowers("sub.Tensor", "sub.Scalar")
def subtract(call: Call, x: Any, y: Any, alpha: Any = 1) -> Array:
    """The difference of `x` and `alpha` times `y`."""
    return np.subtract(cast(x, call.dtype), _scale(y, alpha, call))


@lowers("rsub.Tensor", "rsub.Scalar")
def subtract_from(call: Call, x: Any, y: Any, alpha: Any = 1) -> Array:
    """The difference of `y` and `alpha` times `x`."""
    return np.subtract(cast(y, call.dtype), _scale(x, alpha, call))


@lowers("square")
def square(call: Call, x: Array) -> Array:
    """The square."""
    return np.square(cast(x, call.dtype))


@lowers("rsqrt")
def reciprocal_root(call: Call, x: Array) -> Array:
    """One divided by the square root."""
    return np.reciprocal(np.sqrt(cast(x, call.dtype)))


def _check_divisor(call: Call, y: Any) -> None:
    """PyTorch refuses to divide integers by zero."""
    if is_integral(call.dtype):
        refuse(isinstance(y, Array), "integers divided by a tensor")
        refuse(not y, "integers divided by zero")


@lowers("div.Tensor_mode", "div.Scalar_mode")
def divide(call: Call, x: Any, y: Any, *, rounding_mode: str | None = None) -> Array:
    """The quotient, rounded if a mode says how."""
    if rounding_mode is not None:
        _check_divisor(call, y)
    left, right = cast(x, call.dtype), cast(y, call.dtype)
    if rounding_mode is None:
        return np.divide(left, right)
    if rounding_mode == "floor":
        return _floor_of_quotient(left, right)
    if not is_integral(call.dtype):
        return np.trunc(np.divide(left, right))
    return np.floor_divide(np.subtract(left, np.fmod(left, right)), right)


@lowers("floor_divide", "floor_divide.Scalar")
def floor_divide(call: Call, x: Any, y: Any) -> Array:
    """The quotient, rounded down."""
    _check_divisor(call, y)
    return _floor_of_quotient(cast(x, call.dtype), cast(y, call.dtype))


def _floor_of_quotient(x: Array, y: Array) -> Array:
    """The quotient rounded down; NaN for infinities divided, -1 below zero by infinity."""
    found = np.floor_divide(x, y)
    if is_integral(x.dtype):
        return found
    zero = cast(0, x.dtype)
    lost = np.logical_and(np.isinf(x), np.not_equal(y, zero))
    small = np.logical_and(np.isinf(y), np.logical_and(np.isfinite(x), np.not_equal(x, zero)))
    below = np.logical_and(small, np.not_equal(np.signbit(x), np.signbit(y)))
    return choose(lost, cast(math.nan, x.dtype), choose(below, cast(-1, x.dtype), found))


@lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(call: Call, x: Any, y: Any) -> Array:
    """What floor division leaves."""
    _check_divisor(call, y)
    return np.remainder(cast(x, call.dtype), cast(y, call.dtype))


@lowers("fmod.Tensor", "fmod.Scalar")
def fmod(call: Call, x: Any, y: Any) -> Array:
    """What division towards zero leaves."""
    _check_divisor(call, y)
    return np.fmod(cast(x, call.dtype), cast(y, call.dtype))


@lowers("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(call: Call, x: Any, y: Any) -> Array:
    """A power; integers are raised to known ones that are not negative."""
    if is_integral(call.dtype):
        refuse(isinstance(y, Array) or y < 0, "a power of integers")
    return np.pow(cast(x, call.dtype), cast(y, call.dtype))


# ----------------------------------------------------- signs, bounds, choices


@lowers("abs")
def absolute(call: Call, x: Array) -> Array:
    """The absolute value."""
    return x if x.dtype == BOOL else cast(np.abs(x), call.dtype)


@lowers("sign", "sgn")
def sign(call: Call, x: Array) -> Array:
    """The sign; 0 for NaN, as PyTorch has it for real numbers."""
    if x.dtype == BOOL:
        return x
    if kind_of(x.dtype) == "f":
        return choose(np.isnan(x), cast(0, x.dtype), np.sign(x))
    return np.sign(x)


@lowers("relu")
def relu(call: Call, x: Array) -> Array:
    """The larger of each element and zero."""
    return np.maximum(x, cast(0, x.dtype)) if is_integral(x.dtype) else np.relu(x)


@lowers("clamp", "clamp.Tensor")
def clamp(call: Call, x: Array, low: Any = None, high: Any = None) -> Array:
    """Elements limited from below and above."""
    y = cast(x, call.dtype)
    if low is not None:
        y = np.maximum(y, cast(low, call.dtype))
    return y if high is None else np.minimum(y, cast(high, call.dtype))


@lowers("clamp_min", "clamp_min.Tensor")
def clamp_min(call: Call, x: Array, low: Any) -> Array:
    """Elements limited from below."""
    return np.maximum(cast(x, call.dtype), cast(low, call.dtype))


@lowers("clamp_max", "clamp_max.Tensor")
def clamp_max(call: Call, x: Array, high: Any) -> Array:
    """Elements limited from above."""
    return np.minimum(cast(x, call.dtype), cast(high, call.dtype))


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(call: Call, condition: Array, x: Any, y: Any) -> Array:
    """Elements of one tensor or the other."""
    return choose(cast(condition, BOOL), cast(x, call.dtype), cast(y, call.dtype))


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(call: Call, x: Array, mask: Array, value: Any) -> Array:
    """`value` where the mask holds."""
    return choose(mask, cast(value, call.dtype), x)


@lowers("round.decimals")
def round_to(call: Call, x: Array, *, decimals: int = 0) -> Array:
    """Elements rounded to a number of decimal places."""
    if is_integral(x.dtype):
        refuse(decimals < 0, "integers rounded to tens")
        return x
    scale = cast(math.pow(10.0, abs(decimals)), x.dtype)
    if decimals < 0:
        return np.multiply(np.rint(np.divide(x, scale)), scale)
    return np.divide(np.rint(np.multiply(x, scale)), scale)


@lowers("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar")
def left_shift(call: Call, x: Array, y: Any) -> Array:
    """Bits moved up by known numbers of places."""
    refuse(isinstance(y, Array) or not 0 <= y < 8 * call.dtype.itemsize, "a shift by a tensor")
    return np.bitwise_left_shift(cast(x, call.dtype), cast(y, call.dtype))


@lowers("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar")
def right_shift(call: Call, x: Array, y: Any) -> Array:
    """Bits moved down by known numbers of places."""
    refuse(isinstance(y, Array) or not 0 <= y < 8 * call.dtype.itemsize, "a shift by a tensor")
    return np.bitwise_right_shift(cast(x, call.dtype), cast(y, call.dtype))


@lowers("conj_physical", "_conj")
def conjugate(call: Call, x: Array) -> Array:
    """The complex conjugate."""
    return np.conj(x) if x.dtype.kind == "c" else x
