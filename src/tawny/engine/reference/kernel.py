"""The table of kernels: for each op class, the NumPy that computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tawny.dtype import FLOAT32, DType, is_bfloat16
from tawny.engine.reference.bfloat16 import (
    has_bfloat16,
    is_attribute,
    round_to_bfloat16,
    widen,
)
from tawny.engine.reference.workspace import Workspace
from tawny.op import Op

Value = npt.NDArray[Any]
Kernel = Callable[..., Any]
K = TypeVar("K", bound=Kernel)

KERNELS: Final[dict[type[Op], Kernel]] = {}

WORKSPACES: Final[dict[type[Op], Workspace]] = {}
"""What kernels take besides operands and results, where it is known and not nothing."""

COMPOSED: Final[set[type[Op]]] = set()
"""Ops that NumPy has no function for: compiled code computes them much faster."""

WIDENED: Final[set[type[Op]]] = set()
"""Ops that are computed in float32 where operands or results are bfloat16."""


def call_kernel(op: Op, operands: Sequence[Value], *first: int) -> Any:
    """What the kernel of an op gives; `first` stands before the operands."""
    if type(op) in WIDENED and has_bfloat16(op, operands):
        halves = [name for name, x in op.attributes().items() if is_attribute(x)]
        op = op.with_attributes(**dict.fromkeys(halves, FLOAT32)) if halves else op
        operands = list(map(widen, operands))
    return KERNELS[type(op)](op, *first, *operands)


def kernel(
    op: type[Op],
    *,
    workspace: Workspace | None = None,
    composed: bool = False,
    widened: bool = True,
) -> Callable[[K], K]:
    """Declare how `op` is computed: a function of the op and its operands' values.

    The result is converted to the inferred dtype by the engine; it may be a view.  Bytes that NumPy
    takes besides are its `workspace`.  A kernel is `composed` if NumPy has no function for the op.
    Operands of bfloat16, with which NumPy computes little, are `widened` to float32 for it, unless
    it takes them as they are.
    """

    def declare(function: K) -> K:
        if op in KERNELS:
            raise ValueError(f"{op.__name__} has two kernels")
        KERNELS[op] = function
        if workspace is not None:
            WORKSPACES[op] = workspace
        if composed:
            COMPOSED.add(op)
        if widened:
            WIDENED.add(op)
        return function

    return declare


INTO: Final[dict[type[Op], Kernel]] = {}
"""Kernels that write to a given place, of ops that NumPy can compute there."""


def kernel_into(op: type[Op]) -> Callable[[K], K]:
    """Declare how the only result of `op` is written to a place, given as `out`."""

    def declare(function: K) -> K:
        if op in INTO:
            raise ValueError(f"{op.__name__} has two kernels that write to a place")
        INTO[op] = function
        return function

    return declare


def cast(value: Value, dtype: DType, copy: bool = False) -> Value:
    """`value` as `dtype`, rounded once; without a copy where it is already, unless one is asked."""
    value = np.asarray(value)
    if is_bfloat16(dtype) and value.dtype != dtype:
        return round_to_bfloat16(value)
    return value.astype(dtype, copy=copy)
