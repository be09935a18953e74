"""Layers that multiply by a weight."""

from __future__ import annotations

from typing import Any

from tawny.array import Array
from tawny.nn.activations import as_activation
from tawny.nn.binding import Parameter
from tawny.nn.module import Module


class Weighted(Module):
    """A layer with a weight whose last axis is the outputs, a bias or none, and an activation."""

    weight: Array
    bias: Array | None

    def __init__(
        self,
        shape: tuple[int, ...],
        bias: bool,
        activation: Any,
        init_weight: Any,
        init_bias: Any,
        dtype: Any,
    ) -> None:
        self.activation = as_activation(activation, type(self).__name__)
        self.weight = Parameter(shape, init_weight, dtype)
        self.bias = Parameter(shape[-1:], init_bias, dtype) if bias else None

    def finished(self, product: Array) -> Array:
        """What the layer gives, from the product with its weight."""
        return self.activation(product if self.bias is None else product + self.bias)
