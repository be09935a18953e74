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
    """NumPy's own, pairs of operands in the cheapest order; float16 is added up in float32."""
    half = operands[0].dtype == np.float16
    wide = [x.astype(np.float32) for x in operands] if half else operands
    return np.einsum(op.subscripts, *wide, optimize=len(operands) > 1)
