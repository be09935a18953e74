"""NumPy's names, lazily."""

from typing import Any

from tawny.registry import FUNCTIONS

import tawny.ops.creation, tawny.ops.elementwise, tawny.ops.reduction, tawny.ops.convolution, tawny.ops.pooling, tawny.ops.delay, tawny.ops.linalg, tawny.ops.series, tawny.ops.sorting, tawny.ops.statistics, tawny.ops.sets, tawny.numpy.linalg, tawny.numpy.fft  # temporary
__all__ = [*FUNCTIONS, "linalg", "fft"]


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return list(FUNCTIONS)
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise AttributeError(name)
