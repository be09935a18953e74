"""NumPy's names, lazily."""

from typing import Any

from tawny.registry import FUNCTIONS

import tawny.ops.creation, tawny.ops.elementwise, tawny.ops.reduction  # temporary
__all__ = list(FUNCTIONS)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return list(FUNCTIONS)
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise AttributeError(name)
