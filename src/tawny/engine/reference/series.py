"""Kernels of the polynomials and convolutions chapter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.series import Correlate


@kernel(Correlate)
def correlate(op: Correlate, a: Value, v: Value) -> Any:
    """NumPy's own."""
    return np.correlate(a, v, op.mode)  # type: ignore[call-overload]
