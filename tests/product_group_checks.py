"""Groups of a product and what uses it up, as tests make and compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tawny.node import Node, make, variable
from tawny.ops.fused import ProductGroup


def node_of(op: ProductGroup, arrays: Sequence[np.ndarray]) -> Node:
    """The node of an op on variables like some arrays."""
    return make(op, tuple([variable(None, a.shape, a.dtype) for a in arrays]))


def several(found: Any) -> list[np.ndarray]:
    """All results of what may have one."""
    return list(found) if isinstance(found, tuple) else [found]
