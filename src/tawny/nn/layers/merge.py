"""Layers of several inputs: add, multiply, dot, maximum, average, concatenate.

Inputs are given one by one, or as one list or tuple.
"""

from __future__ import annotations

import functools
from typing import Any, cast

from tawny import numpy as np
from tawny.array import Array
from tawny.nn.module import Module
from tawny.shape import as_int


class MergeLayer(Module):
    """A layer of several inputs of one shape."""

    def as_arrays(self, inputs: tuple[Any, ...]) -> list[Array]:
        """The inputs, checked: at least one, all arrays."""
        given: tuple[Any, ...] = inputs
        if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)):
            given = tuple(cast("list[Any]", inputs[0]))
        arrays = [np.asarray(x) for x in given]
        if not arrays:
            raise self.input_error("no input came; accepted: one or more arrays")
        return arrays

    def same_shape_arrays(self, inputs: tuple[Any, ...]) -> list[Array]:
        """The inputs, checked to be of one shape."""
        arrays = self.as_arrays(inputs)
        for position, x in enumerate(arrays):
            if x.shape != arrays[0].shape:
                raise self.input_error(
                    f"input {position} has shape {x.shape}; it must be {arrays[0].shape}, "
                    "as input 0"
                )
        return arrays


class Add(MergeLayer):
    """The sum of the inputs."""

    def forward(self, *inputs: Any) -> Array:
        return functools.reduce(np.add, self.same_shape_arrays(inputs))


class Mul(MergeLayer):
    """The product of the inputs, element by element."""

    def forward(self, *inputs: Any) -> Array:
        return functools.reduce(np.multiply, self.same_shape_arrays(inputs))


class Max(MergeLayer):
    """The greatest of the inputs, element by element."""

    def forward(self, *inputs: Any) -> Array:
        return functools.reduce(np.maximum, self.same_shape_arrays(inputs))


class Average(MergeLayer):
    """The mean of the inputs, element by element."""

    def forward(self, *inputs: Any) -> Array:
        arrays = self.same_shape_arrays(inputs)
        return functools.reduce(np.add, arrays) / len(arrays)


class Dot(MergeLayer):
    """The matrix product of two inputs: the last axis of input 0 meets the axis -2 of input 1."""

    def forward(self, *inputs: Any) -> Array:
        arrays = self.as_arrays(inputs)
        if len(arrays) != 2:
            raise self.input_error(f"{len(arrays)} inputs came; accepted: two")
        x, y = arrays
        if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
            raise self.input_error(
                f"the inputs have shapes {x.shape} and {y.shape}; accepted: (..., m, k) and "
                "(..., k, n)"
            )
        return x @ y


class Concatenate(MergeLayer):
    """The inputs side by side along `axis`, by default the last."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = as_int(axis, "Concatenate", "axis")

    def forward(self, *inputs: Any) -> Array:
        arrays = self.as_arrays(inputs)
        rank = arrays[0].ndim
        if not -rank <= self.axis < rank:
            raise self.input_error(
                f"input 0 has shape {arrays[0].shape}; it has no axis {self.axis}"
            )
        others = [_drop_axis(x.shape, self.axis % rank) for x in arrays]
        for position, x in enumerate(arrays):
            if x.ndim != rank or others[position] != others[0]:
                raise self.input_error(
                    f"input {position} has shape {x.shape}; beside axis {self.axis} it must be as "
                    f"input 0 of shape {arrays[0].shape}"
                )
        return np.concat(arrays, axis=self.axis)

    def extra(self) -> str:
        return f"{self.axis}"


def _drop_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
