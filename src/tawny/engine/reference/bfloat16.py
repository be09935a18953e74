"""bfloat16 for NumPy: widened to float32, with which it computes, and rounded once.

Of wider numbers the float32 between is odd where it is not exact (its last bit is set), so that
rounding it once more gives what rounding once would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tawny.dtype import FLOAT32, bfloat16, is_bfloat16
from tawny.op import Op

Value = npt.NDArray[Any]


def is_attribute(x: object) -> bool:
    """Whether an attribute of an op is the dtype bfloat16."""
    return isinstance(x, np.dtype) and is_bfloat16(x)  # pyright: ignore[reportUnknownArgumentType]


def has_bfloat16(op: Op, operands: Sequence[Value]) -> bool:
    """Whether an op's operands or attributes have something of bfloat16."""
    if any(is_bfloat16(x.dtype) for x in operands):
        return True
    return any(map(is_attribute, op.attributes().values()))


def widen(value: Value) -> Value:
    """bfloat16 as float32; others as they are."""
    return value.astype(FLOAT32) if is_bfloat16(value.dtype) else value


def round_to_bfloat16(value: Value) -> Value:
    """Numbers rounded to the nearest, of two the even one; NaN stays one."""
    given: Value = np.real(value) if value.dtype.kind == "c" else value
    if given.dtype.kind in "iu" and given.dtype.itemsize >= 4:
        given = _odd_float64(given) if given.dtype.itemsize == 8 else given.astype(np.float64)
    near = _odd_float32(given) if given.dtype == np.float64 else given.astype(FLOAT32, copy=False)
    return near.astype(bfloat16())


def _odd_float32(value: Value) -> Value:
    """float64 as float32, odd where it is not exact."""
    with np.errstate(all="ignore"):
        near = value.astype(FLOAT32)
        back = near.astype(np.float64)
        inexact = (back != value) & np.isfinite(near)
        bits = near.view(np.uint32) - (np.abs(back) > np.abs(value))
        odd: Value = (bits | np.uint32(1)).astype(np.uint32).view(FLOAT32)
    return np.where(inexact, odd, near)


def _odd_float64(value: Value) -> Value:
    """Integers of 64 bits as float64, odd where it is not exact."""
    high, low = value >> np.asarray(32, value.dtype), value & np.asarray(0xFFFFFFFF, value.dtype)
    upper, lower = high.astype(np.float64) * 2.0**32, low.astype(np.float64)
    near = upper + lower
    rest = lower - (near - upper)
    away = (rest != 0) & ((rest < 0) == (near > 0))
    bits = near.view(np.uint64) - away
    odd: Value = (bits | np.uint64(1)).astype(np.uint64).view(np.float64)
    return np.where(rest != 0, odd, near)
