"""Normalisation over the batch, over the features of a sample, and over groups of channels."""

from __future__ import annotations

from typing import Any

from tawny import numpy as np
from tawny.array import Array
from tawny.errors import value_error
from tawny.nn import init
from tawny.nn.layers.sizes import as_fraction, as_size
from tawny.nn.module import Module
from tawny.nn.parameters import Parameter, State
from tawny.ops.precision import narrow, widen
from tawny.optim.arguments import as_nonnegative
from tawny.shape import as_int, as_shape


class BatchNorm(Module):
    """Each channel with mean 0 and variance 1 over the batch, then scaled and shifted.

    - `features`: how many channels there are.
    - `axis`: the axis of the channels; by default the last.
    - `decay`: the share of the running statistics that each step keeps.
    - `epsilon`: keeps the root from zero.
    - `affine`: whether there are scale and shift at all.
    - `scale`, `shift`: whether there is that one.
    - `dtype`: of the parameters.

    In training, m and v are mean and variance (divided by n) over all other axes, whose size is n:

    - `y = (x - m) / sqrt(v + epsilon) * scale + shift`
    - `mean <- decay * mean + (1 - decay) * m`
    - `variance <- decay * variance + (1 - decay) * v * n / (n - 1)`

    In inference the running `mean` and `variance` take the place of m and v.

        nn.BatchNorm(3)(numpy.ones((4, 3), "float32")).shape   # -> (4, 3)
    """

    scale: Array | None
    shift: Array | None
    mean: Array
    variance: Array

    def __init__(
        self,
        features: int,
        *,
        axis: int = -1,
        decay: float = 0.9,
        epsilon: float = 1e-5,
        affine: bool = True,
        scale: bool = True,
        shift: bool = True,
        dtype: Any = "float32",
    ) -> None:
        self.features = as_size(features, "BatchNorm", "features")
        self.axis = as_int(axis, "BatchNorm", "axis")
        self.decay = as_fraction(decay, "BatchNorm", "decay")
        self.epsilon = as_nonnegative(epsilon, "BatchNorm", "epsilon")
        shape = (self.features,)
        self.scale = Parameter(shape, init.ones(), dtype) if affine and scale else None
        self.shift = Parameter(shape, init.zeros(), dtype) if affine and shift else None
        self.mean = State(shape, init.zeros(), dtype)
        self.variance = State(shape, init.ones(), dtype)

    def forward(self, x: Array) -> Array:
        if self.axis == -1:
            self.check_last_axis(x, self.features, least_rank=2)
            return self._normalise(x)
        self.check_array(x)
        if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] != self.features:
            raise self.input_error(
                f"the input has shape {x.shape}; its axis {self.axis} must be {self.features}"
            )
        return np.moveaxis(self._normalise(np.moveaxis(x, self.axis, -1)), -1, self.axis)

    def _normalise(self, x: Array) -> Array:
        """Over all axes but the last."""
        given = self.match_dtype(x, self.mean)
        return narrow(self._standardise_channels(widen(given)), given.dtype)

    def _standardise_channels(self, x: Array) -> Array:
        mean, variance = widen(self.mean), widen(self.variance)
        if not self.training:
            factor = 1 / np.sqrt(variance + self.epsilon)
            if self.scale is not None:
                factor = factor * self.scale
            offset = -mean * factor
            return x * factor + (offset if self.shift is None else offset + self.shift)
        axes = tuple(range(x.ndim - 1))
        m, v = np.mean(x, axis=axes), np.var(x, axis=axes)
        n = x.size // self.features
        self.mean = self.decay * mean + (1 - self.decay) * m
        self.variance = self.decay * variance + (1 - self.decay) * n / max(n - 1, 1) * v
        factor = 1 / np.sqrt(v + self.epsilon)
        if self.scale is not None:
            factor = factor * self.scale
        y = (x - m) * factor
        return y if self.shift is None else y + self.shift

    def extra(self) -> str:
        return f"{self.features}" + ("" if self.axis == -1 else f", axis={self.axis}")


class LayerNorm(Module):
    """Each sample with mean 0 and variance 1 over its last axes, then scaled and shifted.

    - `shape`: the sizes of these axes; one number for one axis.
    - `epsilon`: keeps the root from zero.
    - `affine`: whether there are scale and shift at all.
    - `scale`, `shift`: whether there is that one.
    - `dtype`: of the parameters.

    With m and v the mean and variance (divided by n) over these axes:

    - `y = (x - m) / sqrt(v + epsilon) * scale + shift`

        layer = nn.LayerNorm(4)
        layer(numpy.arange(8, dtype="float32").reshape(2, 4)).shape   # -> (2, 4)
    """

    scale: Array | None
    shift: Array | None

    def __init__(
        self,
        shape: int | tuple[int, ...],
        *,
        epsilon: float = 1e-5,
        affine: bool = True,
        scale: bool = True,
        shift: bool = True,
        dtype: Any = "float32",
    ) -> None:
        self.shape = as_shape(shape, "LayerNorm")
        if not self.shape:
            raise value_error("LayerNorm", "shape is (); accepted: sizes of one or more axes")
        for n in self.shape:
            as_size(n, "LayerNorm", "shape")
        self.epsilon = as_nonnegative(epsilon, "LayerNorm", "epsilon")
        self.scale = Parameter(self.shape, init.ones(), dtype) if affine and scale else None
        self.shift = Parameter(self.shape, init.zeros(), dtype) if affine and shift else None

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        rank = len(self.shape)
        if x.shape[x.ndim - rank :] != self.shape or x.ndim < rank:
            raise self.input_error(
                f"the input has shape {x.shape}; its last axes must be {self.shape}"
            )
        x = _match_parameter_dtype(self, x)
        y = standardise(widen(x), tuple(range(-rank, 0)), self.epsilon)
        return narrow(_affine(self, y), x.dtype)

    def extra(self) -> str:
        return f"{self.shape}"


class GroupNorm(Module):
    """Each group of channels of each sample with mean 0 and variance 1, then scaled and shifted.

    - `groups`: into how many the last axis is cut.
    - `features`: the size of that axis.
    - `epsilon`: keeps the root from zero.
    - `affine`: whether there are scale and shift at all.
    - `scale`, `shift`: whether there is that one.
    - `dtype`: of the parameters.

    With m and v the mean and variance (divided by n) over all spatial axes and the channels of a
    group:

    - `y = (x - m) / sqrt(v + epsilon) * scale + shift`

        nn.GroupNorm(2, 4)(numpy.ones((1, 5, 5, 4), "float32")).shape   # -> (1, 5, 5, 4)
    """

    scale: Array | None
    shift: Array | None

    def __init__(
        self,
        groups: int,
        features: int,
        *,
        epsilon: float = 1e-5,
        affine: bool = True,
        scale: bool = True,
        shift: bool = True,
        dtype: Any = "float32",
    ) -> None:
        self.groups = as_size(groups, "GroupNorm", "groups")
        self.features = as_size(features, "GroupNorm", "features")
        if features % groups:
            raise value_error(
                "GroupNorm", f"features is {features}; it must be a multiple of groups = {groups}"
            )
        self.epsilon = as_nonnegative(epsilon, "GroupNorm", "epsilon")
        self.scale = Parameter((features,), init.ones(), dtype) if affine and scale else None
        self.shift = Parameter((features,), init.zeros(), dtype) if affine and shift else None

    def forward(self, x: Array) -> Array:
        self.check_last_axis(x, self.features, least_rank=2)
        x = _match_parameter_dtype(self, x)
        parts = widen(x).reshape((*x.shape[:-1], self.groups, self.features // self.groups))
        axes = (*range(1, x.ndim - 1), parts.ndim - 1)
        y = standardise(parts, axes, self.epsilon).reshape(x.shape)
        return narrow(_affine(self, y), x.dtype)

    def extra(self) -> str:
        return f"{self.groups}, {self.features}"


def _match_parameter_dtype(layer: LayerNorm | GroupNorm, x: Array) -> Array:
    """`x` in the dtype of the layer's parameters, if it has any."""
    parameter = layer.shift if layer.scale is None else layer.scale
    return x if parameter is None else layer.match_dtype(x, parameter)


def _affine(layer: LayerNorm | GroupNorm, y: Array) -> Array:
    """`y` times the layer's scale plus its shift, where it has them."""
    if layer.scale is not None:
        y = y * layer.scale
    return y if layer.shift is None else y + layer.shift


def standardise(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """`x` with mean 0 and variance 1 over some axes."""
    mean = np.mean(x, axis=axes, keepdims=True)
    variance = np.var(x, axis=axes, keepdims=True)
    return (x - mean) * (1 / np.sqrt(variance + epsilon))
