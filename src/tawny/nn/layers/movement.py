"""Layers that move elements: reshape, flatten, slice, pad, upsample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from tawny import numpy as np
from tawny.array import Array
from tawny.errors import type_error
from tawny.nn.layers.sizes import Sizes, SpatialLayer, as_padding
from tawny.nn.module import Module
from tawny.ops.window import Pads, per_axis
from tawny.optim.arguments import as_real
from tawny.shape import as_int, size


class Reshape(Module):
    """Each sample in another shape: (batch, ...) gives (batch, *shape); one size may be -1."""

    def __init__(self, *shape: int) -> None:
        self.shape = tuple(as_int(n, "Reshape", "shape") for n in shape)

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        if not x.ndim:
            raise self.input_error("the input has no axes; accepted: (batch, ...)")
        return x.reshape((x.shape[0], *self.shape))

    def extra(self) -> str:
        return ", ".join(map(str, self.shape))


class Flatten(Module):
    """Each sample as a row: (batch, ...) gives (batch, n)."""

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        if not x.ndim:
            raise self.input_error("the input has no axes; accepted: (batch, ...)")
        return x.reshape((x.shape[0], size(x.shape[1:])))


class Slice(Module):
    """A part of each sample: `Slice((0, 5), None, slice(None, None, 2))`.

    There is an entry for each axis after the batch, as far as needed: a slice, (start, stop) or
    (start, stop, step), an index, or None for all of the axis.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = tuple(_part(p) for p in parts)

    def forward(self, x: Array) -> Array:
        self.check_array(x)
        if x.ndim <= len(self.parts):
            raise self.input_error(
                f"the input has shape {x.shape}; it must have at least {len(self.parts) + 1} axes"
            )
        return x[(slice(None), *self.parts)]

    def extra(self) -> str:
        return ", ".join(map(repr, self.parts))


def _part(given: Any) -> Any:
    if given is None:
        return slice(None)
    if isinstance(given, slice):
        return cast("object", given)
    if isinstance(given, (tuple, list)) and 2 <= len(cast("list[Any]", given)) <= 3:
        return slice(*cast("list[Any]", given))
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise type_error(
        "Slice",
        f"a part is {given!r}; accepted: slices, (start, stop), (start, stop, step), indices and "
        "None",
    )


class Padding(SpatialLayer):
    """`value` put around the spatial axes: a number for all sides, or (before, after) an axis."""

    def __init__(self, padding: Any, value: float = 0.0) -> None:
        given = as_padding(padding, type(self).rank, type(self).__name__)
        if isinstance(given, str):
            raise type_error(
                type(self).__name__, f"padding is {padding!r}; accepted: numbers from 0, or pairs"
            )
        self.padding: Pads = given
        self.value = as_real(value, type(self).__name__, "value")

    def forward(self, x: Array) -> Array:
        self.check_image(x, type(self).rank)
        return np.pad(x, ((0, 0), *self.padding, (0, 0)), constant_values=self.value)

    def extra(self) -> str:
        return f"{self.padding}"


class Padding1d(Padding, rank=1):
    """Padding of (batch, n, channels)."""


class Padding2d(Padding, rank=2):
    """Padding of (batch, rows, columns, channels)."""


class Padding3d(Padding, rank=3):
    """Padding over three spatial axes."""


class UpSampling(SpatialLayer):
    """Each element repeated `factor` times along the spatial axes."""

    upsample: ClassVar[Callable[..., Array]]

    def __init__(self, factor: Sizes) -> None:
        self.factor = per_axis(factor, type(self).rank, type(self).__name__, "factor")

    def forward(self, x: Array) -> Array:
        self.check_image(x, type(self).rank)
        return type(self).upsample(x, self.factor)

    def extra(self) -> str:
        return f"{self.factor}"


class UpSampling1d(UpSampling, rank=1):
    """Upsampling of (batch, n, channels)."""

    upsample = np.upsampling1d


class UpSampling2d(UpSampling, rank=2):
    """Upsampling of (batch, rows, columns, channels)."""

    upsample = np.upsampling2d


class UpSampling3d(UpSampling, rank=3):
    """Upsampling over three spatial axes."""

    upsample = np.upsampling3d
