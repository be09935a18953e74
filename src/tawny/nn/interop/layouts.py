"""How other libraries write the parameters of a layer, and how ours are made of theirs.

For each kind of layer a table: our name, their names, and the conversion.  Names that no table has
are the same there as here, in the same layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from tawny.nn.layers.attention import MultiHeadAttention
from tawny.nn.layers.convolution import Convolution, ConvolutionTranspose
from tawny.nn.layers.embedding import Embedding
from tawny.nn.layers.linear import Linear
from tawny.nn.layers.normalisation import BatchNorm, GroupNorm, LayerNorm
from tawny.nn.layers.recurrent import GRU, Recurrent
from tawny.nn.module import Module
from tawny.node import Value

Convert = Callable[..., Value]
"""From arrays to our parameter."""

Misfit = Callable[..., str | None]
"""From a layer and arrays to what keeps these from being converted, None if nothing does."""


def _always_fits(layer: Module, *_: Value) -> None:
    """Nothing; the shape of the result is checked anyway."""


@dataclass(frozen=True)
class LayoutRule:
    """One parameter of a layer: the arrays it is made of, and how."""

    theirs: tuple[str, ...]
    convert: Convert
    """From the layer and the arrays."""
    misfit: Misfit = _always_fits


def _without_layer(convert: Convert) -> Convert:
    """A conversion that is the same for every layer of a kind."""

    def converted(_: Module, *values: Value) -> Value:
        return convert(*values)

    return converted


def _identity(value: Value) -> Value:
    return value


def _transpose(value: Value) -> Value:
    """(outputs, inputs) as (inputs, outputs)."""
    return value.T


def _window_first(value: Value) -> Value:
    """(outputs, inputs, *window) as (*window, inputs, outputs)."""
    return np.moveaxis(value, (0, 1), (-1, -2)) if value.ndim > 2 else value


def _swap_last_axes(value: Value) -> Value:
    """The last two axes exchanged."""
    return np.swapaxes(value, -1, -2) if value.ndim > 1 else value


def _inputs_first(value: Value) -> Value:
    """(inputs, outputs, *window) as (*window, inputs, outputs)."""
    return np.moveaxis(value, (0, 1), (-2, -1)) if value.ndim > 2 else value


def _sum(first: Value, second: Value) -> Value:
    return first + second


def _shape_misfit(_: Module, first: Value, second: Value) -> str | None:
    if first.shape == second.shape:
        return None
    return f"have shapes {first.shape} and {second.shape}; they must be alike"


def _third(number: int, convert: Convert = _identity) -> Convert:
    """One of three parts of equal size, one after the other."""

    def part(value: Value) -> Value:
        size = len(value) // 3
        return convert(value[number * size : (number + 1) * size])

    return part


def _thirds_misfit(_: Module, value: Value) -> str | None:
    if value.ndim and len(value) % 3 == 0:
        return None
    return f"has shape {value.shape}; it must be three parts of equal size"


def _reset_gate_first(value: Value) -> Value:
    """Columns of the gates (update, reset, new) as (reset, update, new)."""
    parts = np.array_split(value, 3, axis=-1)
    return np.concatenate([parts[1], parts[0], parts[2]], axis=-1)


def _row(number: int) -> Convert:
    """A row of a matrix or the only one, its gates (update, reset, new) in our order."""

    def row(value: Value) -> Value:
        return _reset_gate_first(value[number] if value.ndim == 2 else value)

    return row


def _gru_rows_misfit(layer: Module, value: Value) -> str | None:
    """A GRU of the other kind computes something else with the same weights."""
    after = cast("GRU", layer).reset_after
    if (value.shape[:-1] == (2,)) if after else value.ndim == 1:
        return None
    wanted = "two rows" if after else "one row"
    return (
        f"has shape {value.shape}; it must be {wanted}, as in a GRU with reset_after={after}; "
        f"weights of the other kind are for nn.GRU(..., reset_after={not after})"
    )


def _depthwise(layer: Module, value: Value) -> Value:
    """(*window, inputs, multiple) as (*window, 1, inputs * multiple) in a depthwise layer.

    Kernels of ordinary layers stay as they are.
    """
    convolution = cast("Convolution", layer)
    inputs = convolution.inputs
    if convolution.groups != inputs or value.shape[-2:] != (inputs, convolution.outputs // inputs):
        return value
    return value.reshape(*value.shape[:-2], 1, -1)


def _join_heads(value: Value) -> Value:
    """(features, heads, size) as (features, heads * size)."""
    return value.reshape(len(value), -1) if value.ndim == 3 else value


def _join_leading_heads(value: Value) -> Value:
    """(heads, size, features) as (heads * size, features)."""
    return value.reshape(-1, value.shape[-1]) if value.ndim == 3 else value


def _flatten(value: Value) -> Value:
    return value.reshape(-1)


def _heads_misfit(axis: int) -> Misfit:
    """Heads along an axis that are not as many as the layer's, though all sizes may agree."""

    def misfit(layer: Module, value: Value) -> str | None:
        heads = cast("MultiHeadAttention", layer).heads
        if value.ndim > axis and value.shape[axis] == heads:
            return None
        return f"has shape {value.shape}; its axis {axis} must be {heads}, the number of heads"

    return misfit


def same_name(name: str) -> LayoutRule:
    """A parameter that is called the same there and has the same layout."""
    return _from_name(name)


def _from_name(
    name: str, convert: Convert = _identity, misfit: Misfit = _always_fits
) -> LayoutRule:
    return LayoutRule((name,), _without_layer(convert), misfit)


Table = dict[type[Module], dict[str, LayoutRule]]

_TORCH_NORM: Final = {"scale": _from_name("weight"), "shift": _from_name("bias")}
_TORCH_RECURRENT: Final = {
    "weight": _from_name("weight_ih_l0", _transpose),
    "recurrent": _from_name("weight_hh_l0", _transpose),
    "bias": LayoutRule(("bias_ih_l0", "bias_hh_l0"), _without_layer(_sum), _shape_misfit),
}

TORCH: Final[Table] = {
    Linear: {"weight": _from_name("weight", _transpose)},
    Convolution: {"weight": _from_name("weight", _window_first)},
    ConvolutionTranspose: {"weight": _from_name("weight", _inputs_first)},
    BatchNorm: _TORCH_NORM
    | {"mean": _from_name("running_mean"), "variance": _from_name("running_var")},
    LayerNorm: _TORCH_NORM,
    GroupNorm: _TORCH_NORM,
    Recurrent: _TORCH_RECURRENT,
    GRU: {"bias": _from_name("bias_ih_l0"), "recurrent_bias": _from_name("bias_hh_l0")},
    MultiHeadAttention: {
        **{
            f"{name}.weight": _from_name(
                "in_proj_weight", _third(number, _transpose), _thirds_misfit
            )
            for number, name in enumerate(("query", "key", "value"))
        },
        **{
            f"{name}.bias": _from_name("in_proj_bias", _third(number), _thirds_misfit)
            for number, name in enumerate(("query", "key", "value"))
        },
        "output.weight": _from_name("out_proj.weight", _transpose),
        "output.bias": _from_name("out_proj.bias"),
    },
}
"""Conversions of the layers of PyTorch."""

_KERAS_NORM: Final = {"scale": _from_name("gamma"), "shift": _from_name("beta")}

KERAS: Final[Table] = {
    Linear: {"weight": _from_name("kernel")},
    Convolution: {"weight": LayoutRule(("kernel",), _depthwise)},
    ConvolutionTranspose: {"weight": _from_name("kernel", _swap_last_axes)},
    BatchNorm: _KERAS_NORM
    | {"mean": _from_name("moving_mean"), "variance": _from_name("moving_variance")},
    LayerNorm: _KERAS_NORM,
    GroupNorm: _KERAS_NORM,
    Embedding: {"weight": _from_name("embeddings")},
    Recurrent: {"weight": _from_name("kernel"), "recurrent": _from_name("recurrent_kernel")},
    GRU: {
        "weight": _from_name("kernel", _reset_gate_first),
        "recurrent": _from_name("recurrent_kernel", _reset_gate_first),
        "bias": _from_name("bias", _row(0), _gru_rows_misfit),
        "recurrent_bias": _from_name("bias", _row(1), _gru_rows_misfit),
    },
    MultiHeadAttention: {
        **{
            f"{n}.weight": _from_name(f"{n}.kernel", _join_heads, _heads_misfit(1))
            for n in ("query", "key", "value")
        },
        **{
            f"{n}.bias": _from_name(f"{n}.bias", _flatten, _heads_misfit(0))
            for n in ("query", "key", "value")
        },
        "output.weight": _from_name(
            "attention_output.kernel", _join_leading_heads, _heads_misfit(0)
        ),
        "output.bias": _from_name("attention_output.bias"),
    },
}
"""Conversions of the layers of Keras."""


def rule_for(table: Table, module: Module, name: str) -> LayoutRule | None:
    """How the parameter at the path `name` from a layer is made, if the table says it."""
    for kind in type(module).__mro__:
        if name in table.get(kind, {}):
            return table[kind][name]
    return None


def torch_difference(layer: Module) -> str | None:
    """Why a layer would compute something else than PyTorch's with the same weights, if so."""
    if (
        isinstance(layer, ConvolutionTranspose)
        and layer.padding == "VALID"
        and any(s > w for s, w in zip(layer.stride, layer.window, strict=True))
    ):
        return (
            f"stride {layer.stride} is greater than window {layer.window}, so padding 'valid' "
            "makes n * stride elements of n, where PyTorch makes (n - 1) * stride + window; "
            "padding=0 makes as many here"
        )
    if isinstance(layer, GRU) and not layer.reset_after:
        return "reset_after is False, and PyTorch's GRU resets after the product"
    return None
