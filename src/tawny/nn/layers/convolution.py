"""Convolutions over 1, 2 and 3 spatial axes, channels last, and their transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tawny import numpy as np
from tawny.array import Array
from tawny.errors import value_error
from tawny.nn.layers.linear import AFFINE, AffineLayer
from tawny.nn.layers.sizes import Sizes, SpatialLayer, as_padding, as_size
from tawny.ops.window import per_axis


class ConvolutionLayer(AffineLayer, SpatialLayer):
    """Base of convolutions and their transposes: a kernel over (batch, *spatial, inputs)."""

    convolve: ClassVar[Callable[..., Array]]
    groups: int = 1

    def __init__(
        self,
        inputs: int,
        outputs: int,
        window: Sizes,
        *,
        stride: Sizes = 1,
        padding: Any = "valid",
        bias: bool = True,
        activation: Any = None,
        init_weight: Any = None,
        init_bias: Any = 0.0,
        dtype: Any = "float32",
    ) -> None:
        op, rank = type(self).__name__, type(self).rank
        self.inputs, self.outputs = as_size(inputs, op, "inputs"), as_size(outputs, op, "outputs")
        self.window = per_axis(window, rank, op, "window")
        self.stride = per_axis(stride, rank, op, "stride")
        self.padding = as_padding(padding, rank, op)
        shape = (*self.window, self.inputs // self.groups, self.outputs)
        super().__init__(shape, bias, activation, init_weight, init_bias, dtype)

    def options(self) -> dict[str, Any]:
        """How the kernel goes over the input."""
        return {"stride": self.stride, "padding": self.padding}

    def forward(self, x: Array) -> Array:
        self.check_image(x, type(self).rank, self.inputs)
        x = self.match_dtype(x, self.weight)
        return self.finish(type(self).convolve(x, self.weight, **self.options()))

    def extra(self) -> str:
        parts = [f"{self.inputs}, {self.outputs}, {self.window}"]
        if set(self.stride) != {1}:
            parts.append(f"stride={self.stride}")
        if self.padding != "VALID":
            parts.append(f"padding={self.padding!r}")
        return ", ".join(parts)


class Convolution(ConvolutionLayer):
    """A kernel swept over (batch, *spatial, inputs), giving (batch, *spatial, outputs).

    `weight` is (*window, inputs // groups, outputs), `bias` is (outputs,).  `padding` is "valid"
    (or 0), "same", a number, or a pair (before, after) for each axis.  With `dilation` d the
    window's elements are d apart; with `groups` g, each g-th of the outputs sees its own g-th of
    the inputs only.
    """

    details = f"""
    (batch, {{axes}}, inputs) gives (batch, *spatial, outputs).

    - `inputs`, `outputs`: how many channels there are before and after.
    - `window`: the size of the kernel: one number, or one for each spatial axis.
    - `stride`: how far apart windows are, likewise.
    - `padding`: `"valid"` (or 0) takes whole windows only, `"same"` pads so that there is an output
      for each of `stride` inputs; or a number, or a pair (before, after) for each spatial axis.
    - `dilation`: how far apart the elements of a window are; 1 leaves no gaps.
    - `groups`: with g groups, each g-th of the outputs sees its own g-th of the inputs only.
    {AFFINE}

    The parameters are `weight`, (*window, inputs // groups, outputs), and `bias`, (outputs,).

        layer = nn.{{name}}(3, 8, 3, padding="same", activation="relu")
        layer(numpy.ones((2, {{x4}}, 3), "float32")).shape   # -> (2, {{x4}}, 8)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        window: Sizes,
        *,
        stride: Sizes = 1,
        padding: Any = "valid",
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        activation: Any = None,
        init_weight: Any = None,
        init_bias: Any = 0.0,
        dtype: Any = "float32",
    ) -> None:
        op = type(self).__name__
        self.dilation = per_axis(dilation, type(self).rank, op, "dilation")
        self.groups = as_size(groups, op, "groups")
        super().__init__(
            inputs,
            outputs,
            window,
            stride=stride,
            padding=padding,
            bias=bias,
            activation=activation,
            init_weight=init_weight,
            init_bias=init_bias,
            dtype=dtype,
        )
        for word, number in (("inputs", self.inputs), ("outputs", self.outputs)):
            if number % self.groups:
                raise value_error(
                    op, f"{word} is {number}; it must be a multiple of groups = {groups}"
                )

    def options(self) -> dict[str, Any]:
        return {**super().options(), "dilation": self.dilation, "groups": self.groups}

    def extra(self) -> str:
        parts = [super().extra()]
        if set(self.dilation) != {1}:
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        return ", ".join(parts)


class Conv1d(Convolution, rank=1):
    """A convolution over one spatial axis, channels last."""

    convolve = np.conv1d


class Conv2d(Convolution, rank=2):
    """A convolution over two spatial axes, channels last."""

    convolve = np.conv2d


class Conv3d(Convolution, rank=3):
    """A convolution over three spatial axes, channels last."""

    convolve = np.conv3d


class ConvolutionTranspose(ConvolutionLayer):
    """The transpose of a convolution: every element spreads the kernel, `stride` apart.

    `weight` is (*window, inputs, outputs), `bias` is (outputs,).  An axis of n elements becomes
    n * stride with "same" padding, (n - 1) * stride + window - before - after with numbers;
    "valid" makes n * stride + max(window - stride, 0), as Keras does, which is what padding 0 makes
    unless stride is greater than window.
    """

    details = f"""
    It enlarges: (batch, {{axes}}, inputs) gives (batch, *spatial, outputs).

    - `inputs`, `outputs`: how many channels there are before and after.
    - `window`: the size of the kernel: one number, or one for each spatial axis.
    - `stride`: how far apart windows are in the output, likewise.
    - `padding`: `"same"` gives n * stride elements along an axis of n; `"valid"` (or 0), a number
      or pairs as for `np.conv_transpose{{rank}}d`.
    {AFFINE}

    The parameters are `weight`, (*window, inputs, outputs), and `bias`, (outputs,).

        layer = nn.{{name}}(3, 8, 3, stride=2, padding="same")
        layer(numpy.ones((2, {{x4}}, 3), "float32")).shape   # -> (2, {{x8}}, 8)
    """


class ConvTranspose1d(ConvolutionTranspose, rank=1):
    """A transposed convolution over one spatial axis: each element is spread over a window."""

    convolve = np.conv_transpose1d


class ConvTranspose2d(ConvolutionTranspose, rank=2):
    """A transposed convolution over two spatial axes: each element is spread over a window."""

    convolve = np.conv_transpose2d


class ConvTranspose3d(ConvolutionTranspose, rank=3):
    """A transposed convolution over three spatial axes: each element is spread over a window."""

    convolve = np.conv_transpose3d
