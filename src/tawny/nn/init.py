"""How parameters start: `nn.init.glorot_uniform()` and its kin.

An initialiser is called with a NumPy generator, a shape and a dtype.  For a matrix (inputs,
outputs) fan_in is the inputs and fan_out the outputs; for a kernel (*window, inputs, outputs) each
is multiplied by the size of the window; for any other shape both are the root of its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from tawny import pages
from tawny.dtype import FLOAT32, FLOAT64, DType
from tawny.errors import type_error, value_error
from tawny.node import Value
from tawny.optim.arguments import as_real
from tawny.public_names import export
from tawny.shape import Shape, size

__all__ = [
    "Initialiser",
    "constant",
    "custom",
    "gaussian",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "ones",
    "standard",
    "tanh",
    "uniform",
    "zeros",
]
export(__name__, __all__)

Draw = Callable[[np.random.Generator, Shape, DType], Value]


@dataclass(frozen=True)
class Initialiser:
    """A rule for the first value of a parameter."""

    text: str
    """How it is written."""
    draw: Draw

    def __call__(self, rng: np.random.Generator, shape: Shape, dtype: DType) -> Value:
        """The first value of a parameter of this shape and dtype."""
        return self.draw(rng, shape, dtype)

    def __repr__(self) -> str:
        return self.text


def fans(shape: Shape) -> tuple[float, float]:
    """How many inputs feed an output, and how many outputs an input feeds."""
    if len(shape) < 2:
        root = math.sqrt(size(shape))
        return root, root
    window = size(shape[:-2])
    return float(window * shape[-2]), float(window * shape[-1])


BLOCK: Final = 1 << 16
"""Elements drawn and scaled at a time: 256 kB in single precision, which stay in a cache.

So large parameters pass through memory once; chosen by hand.
"""


def _blocks(shape: Shape, dtype: DType) -> tuple[Value, list[Any]]:
    """Memory for a parameter in the precision it is drawn in, and its parts in order."""
    values = pages.empty_aligned(shape, FLOAT64 if dtype.itemsize > 4 else FLOAT32)
    flat = values.reshape(-1)
    return values, [flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK)]


def _draw_uniform(
    low: float, high: float, rng: np.random.Generator, shape: Shape, dtype: DType
) -> Value:
    values, blocks = _blocks(shape, dtype)
    for block in blocks:
        rng.random(out=block, dtype=block.dtype)
        np.multiply(block, high - low, out=block)
        np.add(block, low, out=block)
    return values.astype(dtype, copy=False)


def _draw_normal(
    mean: float, std: float, rng: np.random.Generator, shape: Shape, dtype: DType
) -> Value:
    values, blocks = _blocks(shape, dtype)
    for block in blocks:
        rng.standard_normal(out=block, dtype=block.dtype)
        np.multiply(block, std, out=block)
        np.add(block, mean, out=block)
    return values.astype(dtype, copy=False)


FanScale = Callable[[float, float], float]
"""From fan_in and fan_out to the bound, or the standard deviation, of what is drawn."""


def _fan_in_scale(times: float, fan_in: float, fan_out: float) -> float:
    del fan_out
    return math.sqrt(times / fan_in)


def _fan_sum_scale(times: float, fan_in: float, fan_out: float) -> float:
    return math.sqrt(times / (fan_in + fan_out))


def _draw_within(scale: FanScale, rng: np.random.Generator, shape: Shape, dtype: DType) -> Value:
    bound = scale(*_positive_fans(shape))
    return _draw_uniform(-bound, bound, rng, shape, dtype)


def _draw_about_zero(
    scale: FanScale, rng: np.random.Generator, shape: Shape, dtype: DType
) -> Value:
    return _draw_normal(0.0, scale(*_positive_fans(shape)), rng, shape, dtype)


def _fill(value: Any, rng: np.random.Generator, shape: Shape, dtype: DType) -> Value:
    del rng
    return np.full(shape, value, dtype)


def _zeros(rng: np.random.Generator, shape: Shape, dtype: DType) -> Value:
    del rng
    return np.zeros(shape, dtype)


def _call_custom(
    function: Callable[..., Any], rng: np.random.Generator, shape: Shape, dtype: DType
) -> Value:
    value: Value = np.array(function(rng, shape), dtype=dtype)
    if value.shape != shape:
        raise value_error(
            "custom", f"the function gave shape {value.shape} for a parameter of shape {shape}"
        )
    return value


def _uniform_by_fans(text: str, rule: Callable[..., float], times: float) -> Initialiser:
    """Evenly distributed from -bound to bound."""
    return Initialiser(text, partial(_draw_within, partial(rule, times)))


def _normal_by_fans(text: str, rule: Callable[..., float], times: float) -> Initialiser:
    """Normally distributed about 0."""
    return Initialiser(text, partial(_draw_about_zero, partial(rule, times)))


def _positive_fans(shape: Shape) -> tuple[float, float]:
    """The fans of a shape, at least 1 so that a parameter without elements can be drawn."""
    fan_in, fan_out = fans(shape)
    return max(fan_in, 1.0), max(fan_out, 1.0)


def uniform(low: float = -0.05, high: float = 0.05) -> Initialiser:
    """Evenly distributed from `low` up to `high`."""
    low, high = as_real(low, "uniform", "low"), as_real(high, "uniform", "high")
    if not low < high:
        raise value_error("uniform", f"low is {low!r} and high is {high!r}; high must be greater")
    return Initialiser(f"uniform({low}, {high})", partial(_draw_uniform, low, high))


def gaussian(mean: float = 0.0, std: float = 0.05) -> Initialiser:
    """Normally distributed about `mean` with standard deviation `std`."""
    mean, std = as_real(mean, "gaussian", "mean"), as_real(std, "gaussian", "std")
    if not std >= 0:
        raise value_error("gaussian", f"std is {std!r}; it must be at least 0")
    return Initialiser(f"gaussian({mean}, {std})", partial(_draw_normal, mean, std))


def standard() -> Initialiser:
    """Evenly distributed within sqrt(1 / fan_in)."""
    return _uniform_by_fans("standard()", _fan_in_scale, 1)


def tanh() -> Initialiser:
    """Evenly distributed within sqrt(6 / (fan_in + fan_out))."""
    return _uniform_by_fans("tanh()", _fan_sum_scale, 6)


def glorot_uniform() -> Initialiser:
    """Evenly distributed within sqrt(6 / (fan_in + fan_out))."""
    return _uniform_by_fans("glorot_uniform()", _fan_sum_scale, 6)


def glorot_normal() -> Initialiser:
    """Normally distributed with standard deviation sqrt(2 / (fan_in + fan_out))."""
    return _normal_by_fans("glorot_normal()", _fan_sum_scale, 2)


def lecun_normal() -> Initialiser:
    """Normally distributed with standard deviation sqrt(1 / fan_in)."""
    return _normal_by_fans("lecun_normal()", _fan_in_scale, 1)


def lecun_uniform() -> Initialiser:
    """Evenly distributed within sqrt(3 / fan_in)."""
    return _uniform_by_fans("lecun_uniform()", _fan_in_scale, 3)


def he_normal() -> Initialiser:
    """Normally distributed with standard deviation sqrt(2 / fan_in)."""
    return _normal_by_fans("he_normal()", _fan_in_scale, 2)


def he_uniform() -> Initialiser:
    """Evenly distributed within sqrt(6 / fan_in)."""
    return _uniform_by_fans("he_uniform()", _fan_in_scale, 6)


def constant(value: float) -> Initialiser:
    """One number everywhere."""
    if not isinstance(value, Number):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("constant", f"value is {value!r}; accepted: a number")
    return Initialiser(f"constant({value!r})", partial(_fill, value))


def zeros() -> Initialiser:
    """Zeros."""
    return Initialiser("zeros()", _zeros)


def ones() -> Initialiser:
    """Ones."""
    return Initialiser("ones()", partial(_fill, 1))


def custom(function: Callable[[np.random.Generator, Shape], npt.ArrayLike]) -> Initialiser:
    """What `function(rng, shape)` gives; it must be of that shape."""
    if not callable(function):
        raise type_error(
            "custom", f"{function!r} is no function; accepted: a function of a generator and shape"
        )
    name = getattr(function, "__name__", repr(function))
    return Initialiser(f"custom({name})", partial(_call_custom, function))


def as_initialiser(given: Any, op: str) -> Initialiser:
    """What a user may give as an initialiser: one of these, a function or a number."""
    if isinstance(given, Initialiser):
        return given
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return constant(given)
    if callable(given) and getattr(given, "__module__", None) != __name__:
        return custom(cast("Callable[..., Any]", given))
    raise type_error(
        op,
        f"the initialiser is {_describe(given)}; accepted: one of nn.init, as nn.init.he_normal(), "
        "a function of a generator and shape, or a number",
    )


def _describe(given: Any) -> str:
    """What was given instead of an initialiser, in short."""
    if callable(given):
        return f"nn.init.{getattr(given, '__name__', given)} without its brackets"
    return f"an array of shape {given.shape}" if hasattr(given, "shape") else repr(given)
