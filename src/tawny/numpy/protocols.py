"""NumPy's protocols: `numpy.sin(lazy)` stays lazy, and so does `ndarray + lazy`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tawny.array import Array
from tawny.errors import type_error
from tawny.operator import public
from tawny.ops import reduction
from tawny.ops.movement import reshape
from tawny.registry import FUNCTIONS

REDUCE: Final[dict[str, Callable[..., Array]]] = {
    "add": reduction.sum,
    "multiply": reduction.prod,
    "maximum": reduction.max,
    "minimum": reduction.min,
    "logical_and": reduction.all,
    "logical_or": reduction.any,
}
"""What `ufunc.reduce` is for each ufunc that has a reduction here."""

ACCUMULATE: Final[dict[str, Callable[..., Array]]] = {
    "add": reduction.cumulative_sum,
    "multiply": reduction.cumulative_prod,
}
"""What `ufunc.accumulate` is."""


@public()
def __array_ufunc__(  # noqa: N807  (the protocol's own name)
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """A NumPy ufunc, or a method of one, called with a lazy array."""
    name = ufunc.__name__
    options = {k: v for k, v in kwargs.items() if k == "axis" or not _is_default(k, v)}
    if "out" in options:
        raise type_error(
            name,
            "out= cannot be a target: a lazy array has no memory of its own; use the result",
        )
    match method:
        case "__call__":
            function = _function("numpy", name)
            dtype = options.pop("dtype", None)
            _refuse(name, options)
            if dtype is not None:
                return _computed_in(dtype, function, inputs, name)
            return function(*inputs)
        case "reduce" if name in REDUCE:
            axis = options.pop("axis", 0)
            if options.pop("dtype", None) is not None:
                raise type_error(
                    f"{name}.reduce", "dtype= is not taken here; convert with np.astype first"
                )
            keepdims = options.pop("keepdims", False)
            _refuse(f"{name}.reduce", options)
            return REDUCE[name](inputs[0], axis=axis, keepdims=keepdims)
        case "accumulate" if name in ACCUMULATE:
            axis = options.pop("axis", 0)
            _refuse(f"{name}.accumulate", options)
            return ACCUMULATE[name](inputs[0], axis=axis)
        case "outer":
            x, y = (FUNCTIONS["asarray"](v) for v in inputs)
            _refuse(f"{name}.outer", options)
            return _function("numpy", name)(reshape(x, (*x.shape, *(1,) * y.ndim)), y)
        case _:
            raise type_error(f"{name}.{method}", "this method of the ufunc has no lazy counterpart")


def _computed_in(dtype: Any, function: Callable[..., Any], inputs: Sequence[Any], name: str) -> Any:
    """The function of operands converted to `dtype`, as NumPy's `dtype=` asks."""
    result = function(*(FUNCTIONS["asarray"](x, dtype=dtype) for x in inputs))
    if result.dtype != np.dtype(dtype):
        raise type_error(name, f"dtype={dtype} is not taken: the result would be {result.dtype}")
    return result


def _is_default(key: str, value: Any) -> bool:
    if key == "where":
        return value is True
    return value is None or value is np._NoValue or (key == "casting" and value == "same_kind")  # pyright: ignore[reportPrivateUsage]


def _refuse(name: str, options: Mapping[str, Any]) -> None:
    if options:
        raise type_error(name, f"argument {next(iter(options))!r} is not taken for lazy arrays")


@public()
def __array_function__(  # noqa: N807  (the protocol's own name)
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """A NumPy function called with a lazy array: NumPy's signature onto ours."""
    function = _function(func.__module__, func.__name__)
    theirs = _signature(func)
    if theirs is None:
        return function(*args, **kwargs)
    ours = inspect.signature(function).parameters
    bound = theirs.bind(*args, **kwargs)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for index, (name, value) in enumerate(bound.arguments.items()):
        parameter = theirs.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            if value:  # what stands before them has to be positional too
                positional.extend(keywords.values())
                keywords.clear()
            positional.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            keywords.update(value)
        elif name in ours and ours[name].kind is not inspect.Parameter.POSITIONAL_ONLY:
            keywords[name] = value
        elif not keywords and index == len(positional) and _takes_positional(ours, index):
            positional.append(value)
        elif not _unset(value, parameter.default):
            raise type_error(func.__name__, f"argument {name!r} is not taken for lazy arrays")
    return function(*positional, **keywords)


def _takes_positional(parameters: Mapping[str, inspect.Parameter], index: int) -> bool:
    kinds = [p.kind for p in parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds or (
        index < len(kinds) and kinds[index] is inspect.Parameter.POSITIONAL_ONLY
    )


def _unset(value: Any, default: Any) -> bool:
    return value is default or value is None


@cache
def _signature(func: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except ValueError:  # some of NumPy's built-ins have none
        return None


def _function(module: str, name: str) -> Callable[..., Any]:
    """Our function for NumPy's `module.name`."""
    path = module.removeprefix("numpy").strip(".").removeprefix("_core.")
    short = path.partition(".")[0]
    key = f"{short}.{name}" if short in ("linalg", "fft") else name
    if key not in FUNCTIONS:
        raise type_error(
            f"numpy.{key}",
            "no lazy counterpart; compute first (numpy.asarray(x)) or wrap it with tw.delay",
        )
    return FUNCTIONS[key]
