"""Linear layers that read a flattened map, whose rows PyTorch has in another order.

There a map is flattened as (channels, rows, columns), here as (rows, columns, channels).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np

from tawny.errors import value_error
from tawny.nn.interop.conversion import Adjustment
from tawny.nn.layers.attention import MultiHeadAttention
from tawny.nn.layers.containers import Sequential
from tawny.nn.layers.convolution import ConvolutionLayer
from tawny.nn.layers.linear import FullyConnected, Linear
from tawny.nn.layers.movement import Flatten
from tawny.nn.layers.recurrent import Recurrent
from tawny.nn.module import Module
from tawny.nn.parameters import Path, path_text
from tawny.node import Value
from tawny.shape import size

Shapes = Mapping[str, tuple[int, ...] | None]
"""By the path of a linear layer, the (*spatial, channels) it reads; None if its rows are right."""


def flattened_shapes(model: Module) -> Shapes:
    """What a model says of itself, `model.flattened`."""
    own = getattr(model, "flattened", None)
    return cast("Shapes", own) if isinstance(own, Mapping) else {}


def row_adjustment(op: str, model: Module, shapes: Shapes) -> Adjustment:
    """How the weights of linear layers are put in order, checked against the model."""
    layers = {path: m for path, m in model.modules().items() if isinstance(m, Linear)}
    for path, shape in shapes.items():
        if path not in layers:
            raise value_error(
                op,
                f"flattened has {path!r}; accepted: linear layers, {', '.join(layers) or 'none'}",
            )
        if shape is not None and (len(shape) < 2 or size(shape) != layers[path].inputs):
            raise value_error(
                op,
                f"flattened has {shape} for {path!r}; its numbers, (*spatial, channels), must "
                f"multiply to the {layers[path].inputs} inputs of the layer",
            )
    for path in _flattened_map_readers(model):
        if path not in shapes:
            raise value_error(
                op,
                f"{path} reads a flattened map, which PyTorch has in another order; say its shape, "
                f"flattened={{{path!r}: (rows, columns, channels)}}, or None if its rows are to "
                "stay as they are",
            )

    def after(layer: str, value: Value) -> Value:
        shape = shapes.get(layer)
        return value if shape is None or value.ndim != 2 else channels_last_rows(value, shape)

    return after


def channels_last_rows(value: Value, shape: tuple[int, ...]) -> Value:
    """A matrix whose inputs are a flattened map (channels, *spatial) as if channels came last.

    `value` is (inputs, outputs) and `shape` (*spatial, channels).
    """
    if len(value) != size(shape):
        return value  # refused for its shape
    parts = value.reshape(shape[-1], *shape[:-1], -1)
    return np.moveaxis(parts, 0, -2).reshape(value.shape)


def _flattened_map_readers(model: Module) -> Iterator[str]:
    """Linear layers that are seen to read flattened maps: after a convolution, one after the other.

    If they have as many inputs as the convolution has channels, the map has one place.
    """
    inner: set[Module] = set()
    for path, member in model.walk():
        if isinstance(member, Sequential) and member not in inner:
            steps = list(_chain_layers(member, path))
            inner |= {step for _, step in steps}
            yield from _readers_in_chain(steps)


def _chain_layers(chain: Sequential, path: Path) -> Iterator[tuple[Path, Module]]:
    """Layers one after the other, and the chains they are in."""
    for number, layer in enumerate(chain.layers):
        yield (*path, number), layer
        if isinstance(layer, Sequential):
            yield from _chain_layers(layer, (*path, number))


def _readers_in_chain(steps: list[tuple[Path, Module]]) -> Iterator[str]:
    channels: int | None = None
    flat = False
    for path, layer in steps:
        if isinstance(layer, ConvolutionLayer):
            channels, flat = layer.outputs, False
        elif isinstance(layer, (Recurrent, MultiHeadAttention)):
            channels = None
        elif isinstance(layer, Flatten):
            flat = True
        elif isinstance(layer, Linear):
            flat = flat or isinstance(layer, FullyConnected)
            if flat and channels is not None and layer.inputs != channels:
                yield path_text(path)
            channels = None
