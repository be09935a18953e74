"""Kernels of the products chapter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.linalg import Einsum, Matmul


@kernel(Matmul)
def matmul(_: Matmul, a: Value, b: Value) -> Any:
    """NumPy's own."""
    return np.matmul(a, b)


@kernel(Einsum)
def einsum(op: Einsum, *operands: Value) -> Any:
    """NumPy's own, pairs of operands in the cheapest order."""
    return np.einsum(op.subscripts, *operands, optimize=len(operands) > 1)
