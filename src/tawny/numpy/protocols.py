"""NumPy's protocols: `numpy.sin(lazy)` stays lazy, and so does `ndarray + lazy`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tawny.array import Array, value_outside
from tawny.errors import type_error
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.numpy.ufunc_methods import METHODS
from tawny.operator import public
from tawny.tree import items_of

NOT_GIVEN: Final = np._NoValue  # pyright: ignore[reportPrivateUsage]
"""NumPy's default of arguments that it passes on only if they were given."""


@public()
def __array_ufunc__(  # noqa: N807  (the protocol's own name)
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """A NumPy ufunc, or a method of one, called with a lazy array."""
    name = ufunc.__name__
    options = {k: v for k, v in kwargs.items() if v is not NOT_GIVEN}
    function = _function("numpy", name)
    match method:
        case "__call__" if _writes_to_numpys(options.get("out")):
            return ufunc(*[_value(x, name) for x in inputs], **options)
        case "__call__":
            return function(*inputs, **options)
        case _ if method in METHODS and (bound := getattr(function, method, None)) is not None:
            return bound(*inputs, **options)
        case _:
            raise type_error(f"{name}.{method}", "this method of the ufunc has no lazy counterpart")


def _writes_to_numpys(out: Any) -> bool:
    """Whether a result goes into memory of NumPy's arrays, as that of `a += lazy` does."""
    return out is not None and any(isinstance(x, np.ndarray) for x in items_of(out))


def _value(x: Any, op: str) -> Any:
    return value_outside(x, op) if isinstance(x, Array) else x


def _memory(x: Any) -> Any:
    """The memory of a value, for those that ask whether two arrays share some."""
    if not isinstance(x, Array):
        return x
    return np.empty(0) if x.node.value is None else x.node.value


@public()
def __array_function__(  # noqa: N807  (the protocol's own name)
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """A NumPy function called with a lazy array: ours takes the same arguments."""
    if func.__name__ in ("may_share_memory", "shares_memory"):
        return func(*map(_memory, args), **kwargs)
    function = _function(func.__module__, func.__name__)
    given = {k: v for k, v in kwargs.items() if v is not NOT_GIVEN}
    if any(x is NOT_GIVEN for x in args):
        return function(*_fill_defaults(function, args), **given)
    return function(*args, **given)


def _fill_defaults(function: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """The arguments, with our default for each that was not given."""
    parameters = inspect.signature(function).parameters.values()
    return [p.default if x is NOT_GIVEN else x for x, p in zip(args, parameters, strict=False)]


def _function(module: str, name: str) -> Callable[..., Any]:
    """Our function for NumPy's `module.name`."""
    path = module.removeprefix("numpy").strip(".").removeprefix("_core.")
    short = path.partition(".")[0]
    key = f"{short}.{name}" if short in ("linalg", "fft") else name
    if key not in PUBLIC_FUNCTIONS:
        raise type_error(
            f"numpy.{key}",
            "no lazy counterpart; compute first (numpy.asarray(x)) or wrap it with tw.delay",
        )
    return PUBLIC_FUNCTIONS[key]
