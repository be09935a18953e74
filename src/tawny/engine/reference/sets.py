"""Kernels of the sets chapter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.sorting import IsIn


@kernel(IsIn)
def isin(op: IsIn, x: Value, among: Value) -> Any:
    """NumPy's own."""
    return np.isin(x, among, invert=op.invert)
