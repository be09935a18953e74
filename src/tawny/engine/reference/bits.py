"""Kernels of the chapter on bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.bits import Gcd, Lcm


@kernel(Gcd)
def gcd(op: Gcd, x: Value, y: Value) -> Any:
    """NumPy's."""
    del op
    return np.gcd(x, y)


@kernel(Lcm)
def lcm(op: Lcm, x: Value, y: Value) -> Any:
    """NumPy's."""
    del op
    return np.lcm(x, y)
