"""Activations: functions of one array, and `nn.Activation("relu")`, the same as a layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

from tawny import numpy as np
from tawny.array import Array, ArrayLike
from tawny.errors import type_error, value_error
from tawny.nn.module import Module
from tawny.ops.elementwise import where
from tawny.ops.precision import in_single

Function = Callable[[Array], Array]


def identity(x: ArrayLike, /) -> Array:
    """`x` itself."""
    return np.asarray(x)


def relu(x: ArrayLike, /) -> Array:
    """max(x, 0)."""
    return np.relu(x)


def relu6(x: ArrayLike, /) -> Array:
    """min(max(x, 0), 6)."""
    return np.clip(x, 0, 6)


@in_single
def leaky_relu(x: ArrayLike, /, slope: float = 0.01) -> Array:
    """`x` where it is positive, `slope` times `x` elsewhere."""
    array = np.asarray(x)
    return where(array > 0, array, slope * array)


@in_single
def trelu(x: ArrayLike, /, threshold: float = 1.0) -> Array:
    """max(x - threshold, 0)."""
    return np.relu(np.asarray(x) - threshold)


@in_single
def elu(x: ArrayLike, /, alpha: float = 1.0) -> Array:
    """`x` where it is positive, alpha (exp(x) - 1) elsewhere."""
    array = np.asarray(x)
    return where(array > 0, array, alpha * np.expm1(array))


SELU_ALPHA: Final = 1.6732632423543772
SELU_SCALE: Final = 1.0507009873554805


@in_single
def selu(x: ArrayLike, /) -> Array:
    """1.0507 elu(x, 1.6733): keeps mean 0 and variance 1 from layer to layer."""
    return SELU_SCALE * elu(x, SELU_ALPHA)


@in_single
def gelu(x: ArrayLike, /) -> Array:
    """(x / 2) (1 + erf(x / sqrt(2))): x times the normal distribution's share below it."""
    array = np.asarray(x)
    return array * (0.5 + 0.5 * np.erf(array * math.sqrt(0.5)))


@in_single
def silu(x: ArrayLike, /) -> Array:
    """`x` sigmoid(x)."""
    array = np.asarray(x)
    return array * np.sigmoid(array)


def sigmoid(x: ArrayLike, /) -> Array:
    """1 / (1 + exp(-x))."""
    return np.sigmoid(x)


@in_single
def hard_sigmoid(x: ArrayLike, /) -> Array:
    """0.2 x + 0.5, kept from 0 to 1."""
    return np.clip(0.2 * np.asarray(x) + 0.5, 0, 1)


def softplus(x: ArrayLike, /) -> Array:
    """log(1 + exp(x))."""
    return np.softplus(x)


@in_single
def softsign(x: ArrayLike, /) -> Array:
    """`x` / (1 + |x|)."""
    array = np.asarray(x)
    return array / (1 + np.abs(array))


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return np.tanh(x)


def softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """exp(x) divided by its sum along `axis`."""
    return np.softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """The logarithm of `softmax`, without computing it."""
    return np.log_softmax(x, axis=axis)


ACTIVATIONS: Final[dict[str, Function]] = {
    f.__name__: f
    for f in (
        elu,
        gelu,
        hard_sigmoid,
        identity,
        leaky_relu,
        log_softmax,
        relu,
        relu6,
        selu,
        sigmoid,
        silu,
        softmax,
        softplus,
        softsign,
        tanh,
        trelu,
    )
}
"""Activations by name."""


def as_activation(given: Any, op: str) -> Function:
    """What a user may give as an activation: a name, a function, or None for the identity."""
    if given is None:
        return identity
    if isinstance(given, str):
        if given not in ACTIVATIONS:
            raise value_error(
                op,
                f"activation {given!r} is not known; accepted: {', '.join(ACTIVATIONS)}, "
                "a function, or None",
            )
        return ACTIVATIONS[given]
    if callable(given):
        return cast("Function", given)
    raise type_error(op, f"activation is {given!r}; accepted: a name, a function, or None")


class Activation(Module):
    """An activation as a layer.

    - `activation`: a name such as `"relu"`, or any function of one array.
    - `options`: keyword arguments that the function is called with.

    Layers with weights take one themselves, as `nn.Linear(3, 2, activation="relu")`.

        layer = nn.Activation("leaky_relu", slope=0.5)
        layer(numpy.array([-2.0, 4.0])).numpy().tolist()   # -> [-1.0, 4.0]
    """

    def __init__(self, activation: str | Function, **options: Any) -> None:
        self.function = as_activation(activation, "Activation")
        self.options = options

    def forward(self, x: Array) -> Array:
        return self.function(x, **self.options)

    def extra(self) -> str:
        name = getattr(self.function, "__name__", repr(self.function))
        return ", ".join([repr(name), *(f"{k}={v!r}" for k, v in self.options.items())])
