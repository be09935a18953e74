"""The table of kernels: for each op class, the NumPy that computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tawny.dtype import DType
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


def kernel(
    op: type[Op], *, workspace: Workspace | None = None, composed: bool = False
) -> Callable[[K], K]:
    """Declare how `op` is computed: a function of the op and its operands' values.

    The result is converted to the inferred dtype by the engine; it may be a view.  Bytes that NumPy
    takes besides are its `workspace`.  A kernel is `composed` if NumPy has no function for the op.
    """

    def declare(function: K) -> K:
        if op in KERNELS:
            raise ValueError(f"{op.__name__} has two kernels")
        KERNELS[op] = function
        if workspace is not None:
            WORKSPACES[op] = workspace
        if composed:
            COMPOSED.add(op)
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


def cast(value: Value, dtype: DType) -> Value:
    """`value` as `dtype`, without a copy where it is already."""
    return np.asarray(value).astype(dtype, copy=False)
