"""Variables for nested structures of arrays."""

from __future__ import annotations

from typing import Any

from tawny.ops.creation import var
from tawny.tree import like, paths


def variables_for(structure: Any, prefix: str) -> Any:
    """A variable for each array, called by its path."""
    named = paths(structure, prefix)
    return like(structure, [var(name, shape=a.shape, dtype=a.dtype) for name, a in named])
