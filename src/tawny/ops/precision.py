"""16-bit floats in functions of several steps: computed in float32, rounded once at the end."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, lift, wrap
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType
from tawny.node import make
from tawny.ops.creation import Cast
from tawny.tree import map_leaves

P = ParamSpec("P")
R = TypeVar("R")


def widen(x: Array) -> Array:
    """`x` in the dtype that steps are computed in: float32 for 16 bits, else its own."""
    return wrap(make(Cast(dt.FLOAT32), (x.node,))) if dt.is_half(x.dtype) else x


def narrow(x: Array, dtype: DType) -> Array:
    """`x` as `dtype` if that has 16 bits; else as it is."""
    return wrap(make(Cast(dtype), (x.node,))) if dt.is_half(dtype) and dtype != x.dtype else x


def in_single(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which computes operands of 16 bits in float32 and rounds its results once.

    Results are float16 or bfloat16 if that is the common dtype of all operands that are arrays, and
    neither `dtype` nor `out` asks for another.
    """
    call: Callable[..., R] = explain_bad_calls(function)

    @functools.wraps(function)
    def in_steps(*args: P.args, **kwargs: P.kwargs) -> R:
        if not any(map(_has_half, (*args, *kwargs.values()))):
            return call(*args, **kwargs)
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError:
            return call(*args, **kwargs)  # which says what it takes
        operands = {k: v for k, v in bound.arguments.items() if k != "out"}
        bound.arguments.update({k: _widen_all(v) for k, v in operands.items()})
        result = call(*bound.args, **bound.kwargs)
        given = [bound.arguments.get(word) is not None for word in ("dtype", "out")]
        dtypes = [d for x in operands.values() for d in _dtypes(x)]
        common = dt.promote(*dtypes)
        if any(given) or not dt.is_half(common):
            return result
        return cast("R", map_leaves(functools.partial(_narrow_result, common), result))

    return in_steps


def _dtypes(x: Any) -> list[DType]:
    """The dtypes of an operand, or of those in a list of operands."""
    if isinstance(x, (Array, np.ndarray, np.generic)):
        return [cast("Any", x).dtype]
    if isinstance(x, (list, tuple)):
        items = cast("list[Any]", x)
        if items and _dtypes(items[0]):  # it is no list of numbers, which may be long
            return [d for item in items for d in _dtypes(item)]
    return []


def _has_half(x: Any) -> bool:
    """Whether an operand, or one in a list of operands, has 16 bits."""
    return any(map(dt.is_half, _dtypes(x)))


def _widen_all(x: Any) -> Any:
    if not _has_half(x):
        return x
    if isinstance(x, (list, tuple)):
        return [_widen_all(item) for item in cast("list[Any]", x)]
    return widen(x if isinstance(x, Array) else wrap(lift(x, "astype")))


def _narrow_result(dtype: DType, x: Any) -> Any:
    single = isinstance(x, Array) and x.dtype == dt.FLOAT32
    return narrow(x, dtype) if single else x
