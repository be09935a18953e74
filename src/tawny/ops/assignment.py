"""What is assigned to part of an array, in that array's dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tawny import dtype as dt
from tawny.array import lift
from tawny.dtype import DType
from tawny.errors import overflow_error, type_error, value_error
from tawny.node import Node, Value, scalar
from tawny.ops.creation import cast_node


def assignment_value(value: Any, dtype: DType, op: str, position: int = 1) -> Node:
    """`value` in `dtype`, as NumPy converts what is assigned.

    Python integers, alone or in lists, must fit; arrays are cast.
    """
    if dt.is_weak(value):
        return _number(value, dtype, op, position)
    node = lift(value, op, position)
    if node.dtype.kind == "c" and dtype.kind != "c":
        raise type_error(
            op, f"operand {position} has dtype {node.dtype}, which has no {dtype} value"
        )
    if isinstance(value, (list, tuple)) and node.value is not None:
        _check_numbers(node.value, dtype, op, position)
    return cast_node(node, dtype)


def _number(value: Any, dtype: DType, op: str, position: int) -> Node:
    what = f"operand {position} is {value}"
    if isinstance(value, complex) and dtype.kind != "c":
        raise type_error(op, f"{what}, which has no {dtype} value")
    if isinstance(value, float) and dtype.kind in "iu":
        if not math.isfinite(value):
            raise value_error(op, f"{what}, which has no {dtype} value")
        value = int(value)
    if isinstance(value, int) and dtype.kind in "fc" and abs(value) > 2**1023:
        raise overflow_error(op, f"{what}, too large for {dtype}")
    return scalar(value, dtype, op)


def _check_numbers(values: Value, dtype: DType, op: str, position: int) -> None:
    """Refuse numbers of which some have no value in an integer `dtype`."""
    if dtype.kind not in "iu":
        return
    if values.dtype.kind in "biu":
        dt.check_all_fit(values, dtype, op, f"operand {position}")
    elif not np.isfinite(values).all():
        raise value_error(
            op, f"operand {position} has NaN or infinity, which have no {dtype} value"
        )
