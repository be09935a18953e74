"""Pooling over windows of 1, 2 and 3 spatial axes, and over all of them; channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tawny import numpy as np
from tawny.array import Array
from tawny.nn.layers.sizes import Sizes, SpatialLayer, as_padding
from tawny.ops.window import per_axis


class PoolLayer(SpatialLayer):
    """A fold of each window; windows are `stride` apart, by default as far as they are wide."""

    details = """
    - `window`: the size of a window: one number, or one for each spatial axis.
    - `stride`: how far apart windows are; as far as they are wide when None.
    - `padding`: `"valid"` (or 0) takes whole windows only, `"same"` pads so that there is an output
      for each of `stride` inputs; or a number, or a pair (before, after) for each spatial axis.

    There are no parameters.

        nn.{name}(2)(numpy.ones((1, {x4}, 3), "float32")).shape   # -> (1, {x2}, 3)
    """
    pool: ClassVar[Callable[..., Array]]

    def __init__(
        self, window: Sizes, *, stride: Sizes | None = None, padding: Any = "valid"
    ) -> None:
        op, rank = type(self).__name__, type(self).rank
        self.window = per_axis(window, rank, op, "window")
        self.stride = self.window if stride is None else per_axis(stride, rank, op, "stride")
        self.padding = as_padding(padding, rank, op)

    def forward(self, x: Array) -> Array:
        self.check_image(x, type(self).rank)
        return type(self).pool(x, self.window, stride=self.stride, padding=self.padding)

    def extra(self) -> str:
        return f"{self.window}, stride={self.stride}"


class MaxPool1d(PoolLayer, rank=1):
    """Greatest element of each window of (batch, n, channels)."""

    pool = np.max_pool1d


class MaxPool2d(PoolLayer, rank=2):
    """Greatest element of each window of (batch, rows, columns, channels)."""

    pool = np.max_pool2d


class MaxPool3d(PoolLayer, rank=3):
    """Greatest element of each window of (batch, planes, rows, columns, channels)."""

    pool = np.max_pool3d


class AvgPool1d(PoolLayer, rank=1):
    """Mean of each window of (batch, n, channels); padding is not counted."""

    pool = np.avg_pool1d


class AvgPool2d(PoolLayer, rank=2):
    """Mean of each window of (batch, rows, columns, channels); padding is not counted."""

    pool = np.avg_pool2d


class AvgPool3d(PoolLayer, rank=3):
    """Mean of each window of (batch, planes, rows, columns, channels); padding is not counted."""

    pool = np.avg_pool3d


class GlobalPoolLayer(SpatialLayer):
    """A fold over all spatial axes: (batch, *spatial, channels) gives (batch, channels)."""

    pool: ClassVar[Callable[..., Array]]

    def forward(self, x: Array) -> Array:
        self.check_image(x, type(self).rank)
        return type(self).pool(x)


class GlobalMaxPool1d(GlobalPoolLayer, rank=1):
    """Greatest element of each channel of (batch, n, channels)."""

    pool = np.global_max_pool


class GlobalMaxPool2d(GlobalPoolLayer, rank=2):
    """Greatest element of each channel of (batch, rows, columns, channels)."""

    pool = np.global_max_pool


class GlobalMaxPool3d(GlobalPoolLayer, rank=3):
    """Greatest element of each channel over three spatial axes."""

    pool = np.global_max_pool


class GlobalAvgPool1d(GlobalPoolLayer, rank=1):
    """Mean of each channel of (batch, n, channels)."""

    pool = np.global_avg_pool


class GlobalAvgPool2d(GlobalPoolLayer, rank=2):
    """Mean of each channel of (batch, rows, columns, channels)."""

    pool = np.global_avg_pool


class GlobalAvgPool3d(GlobalPoolLayer, rank=3):
    """Mean of each channel over three spatial axes."""

    pool = np.global_avg_pool
