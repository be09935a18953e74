"""The functions of `tawny.numpy` over `numpy.ndarray`, computed at once.

Switching between lazy and eager is changing one import:

    import tawny.numpy as np     # records a graph
    import tawny.eager as np     # computes now

Every function is the lazy one, run on the spot: same names, same arguments, same checks, same
values.  NumPy computes what it has; large convolutions and pooling run on compiled kernels.

Of an argument of a function that is being differentiated (`tw.grad`, `tw.jvp`) they are lazy, since
a value would count as a constant.

Functions and models written for lazy arrays run eagerly too:

    with tawny.eager.at_once():
        scores = model(images)   # every array on the way is computed as it is made
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, cast

import numpy as _numpy

import tawny.numpy as _lazy
from tawny.array import Array, fresh, is_traced
from tawny.engine.evaluation import at_once as at_once
from tawny.engine.evaluation import run
from tawny.errors import type_error
from tawny.node import Value, borrowed
from tawny.tree import leaves, map_leaves

__all__ = _lazy.__all__  # pyright: ignore[reportUnsupportedDunderAll]


def now(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of lazy arrays as one of NumPy arrays."""

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        lazy = [x.node for x in leaves((args, kwargs)) if isinstance(x, Array)]
        if not all(node.known for node in lazy):
            raise type_error(
                function.__name__, "tawny.eager takes NumPy arrays, not variables; use tawny.numpy"
            )
        if lazy and is_traced(*lazy):
            return function(*args, **kwargs)
        return _computed(function(*map_leaves(_lifted, args), **map_leaves(_lifted, kwargs)))

    return eager


def _lifted(x: Any) -> Any:
    if isinstance(x, (_numpy.ndarray, _numpy.generic)):
        value: Value = _numpy.asarray(cast("Any", x))
        return fresh(borrowed(value))
    return x


def _computed(result: Any) -> Any:
    """`result` with every lazy array in it computed, all in one run."""
    arrays = [x for x in leaves(result) if isinstance(x, Array)]
    values = iter(run([x.node for x in arrays]))
    return map_leaves(lambda x: next(values) if isinstance(x, Array) else x, result)


class _Namespace:
    """A submodule (`linalg`, `fft`) of eager functions."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self.__doc__ = module.__doc__
        self.__all__ = module.__all__

    def __getattr__(self, name: str) -> Any:
        value = _eager(getattr(self._module, name))
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return list(self.__all__)


def _eager(value: Any) -> Any:
    if isinstance(value, ModuleType):
        return _Namespace(value)
    return now(value) if callable(value) and not isinstance(value, type) else value


_MADE: Final[dict[str, Any]] = {}
"""The functions made so far; as globals they would hide Python's own `any` and `sum`."""


def __getattr__(name: str) -> Any:
    if name not in _lazy.__all__ and name != "__array_namespace_info__":
        raise AttributeError(f"module 'tawny.eager' has no attribute {name!r}")
    if name not in _MADE:
        _MADE[name] = _eager(getattr(_lazy, name))
    return _MADE[name]


def __dir__() -> list[str]:
    return list(_lazy.__all__)
