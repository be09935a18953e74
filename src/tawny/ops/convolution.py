"""Convolutions over 1, 2 and 3 spatial axes, channels last, and their two transposes.

The input is (batch, *spatial, channels), the kernel (*window, channels // groups, outputs).  As in
every network library the window is not flipped: this is what signal processing calls correlation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from tawny.array import Array, ArrayLike, lift, wrap
from tawny.attributes import Positive
from tawny.dtype_rules import not_boolean
from tawny.errors import value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Gradient, Op, Type
from tawny.operator import emit, public
from tawny.ops.creation import cast_to_common
from tawny.ops.movement import batch_size, matrix_transpose, repeat_in_batch, reshape
from tawny.ops.window import (
    AXES,
    AnySizes,
    Padding,
    Pads,
    PadWidths,
    Sizes,
    Steps,
    WindowSizes,
    batch_images,
    check_positive,
    merge_channels,
    over_axes,
    per_axis,
    resolve_padding,
    spans,
    split_channels,
    window_counts,
    window_rows,
)
from tawny.rows import Rows, RowSlice, row_axis
from tawny.shape import Shape, as_shape, size

Pair = tuple[Array, Array]


class ConvolutionOp(Op, may_fail=False):
    """A kernel swept over an input: attributes common to a convolution and its transposes."""

    strides: Steps
    padding: PadWidths
    dilation: Steps
    groups: Positive

    def output_shape(self, x: Shape, kernel: Shape, op: str) -> Shape:
        """Shape of the convolution of an input with a kernel of these shapes."""
        return convolution_shape(
            x, kernel, self.strides, self.padding, self.dilation, self.groups, op
        )

    def slice_output_rows(
        self, shape: Shape, operands: Sequence[Shape], rows: Rows
    ) -> RowSlice | None:
        """Images by themselves; of one image, the rows that windows see."""
        x, kernel = operands
        if row_axis(shape) == 0:
            return RowSlice(self, (rows, None), rows)
        span = spans(kernel[:-2], self.dilation)[0]
        found = window_rows(shape, x, span, self.strides[0], self.padding[0], rows)
        if found is None:
            return None
        seen, pads = found
        op = self.with_attributes(padding=(pads, *self.padding[1:]))
        return RowSlice(op, (seen, None), rows)

    def as_groups(self, operands: Sequence[BatchOperand]) -> tuple[Self, tuple[Node, ...]]:
        """The op and operands of a batch whose channels are groups, each of the batch some."""
        count = batch_size(operands)
        merged = [merge_channels(repeat_in_batch(x, count)) for x in operands]
        return self.with_attributes(groups=count * self.groups), tuple(merged)

    # Each of the three ops is the transpose of the other two, with the same geometry.

    def convolution(self) -> Convolution:
        """From input and kernel to output."""
        return Convolution(self.strides, self.padding, self.dilation, self.groups)

    def to_input(self, x: Shape) -> ConvolutionInputGradient:
        """From kernel and output to an input of shape `x`."""
        geometry = self.strides, self.padding, self.dilation, self.groups
        return ConvolutionInputGradient(*geometry, x[1:-1])

    def to_kernel(self, kernel: Shape) -> ConvolutionKernelGradient:
        """From input and output to a kernel of shape `kernel`."""
        geometry = self.strides, self.padding, self.dilation, self.groups
        return ConvolutionKernelGradient(*geometry, kernel[:-2])

    def mistake(self, types: Sequence[Type]) -> str | None:
        rank = len(self.strides)
        if not 1 <= rank <= 3 or len(self.padding) != rank or len(self.dilation) != rank:
            return (
                f"strides are {self.strides}, padding {self.padding}, dilation {self.dilation}; "
                "expected one of each for each of 1 to 3 axes"
            )
        return None


class Convolution(
    ConvolutionOp, name="convolution", dtype=not_boolean, arity=2, gradient=Gradient.MULTILINEAR
):
    """Operand 1, a kernel, swept over operand 0: the sum of products at each place."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        x, kernel = shapes
        return self.output_shape(x, kernel, "convolution")

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        return self.slice_output_rows(shape, operands, rows)

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return size(operands[1][:-1]) * size(result)

    def pullback(self, cotangent: Array, result: Array, x: Array, kernel: Array) -> Pair:
        return (
            emit(self.to_input(x.shape), kernel, cotangent),
            emit(self.to_kernel(kernel.shape), x, cotangent),
        )

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """With a kernel for each, channels of each are groups of their own."""
        x, kernel = operands
        if not kernel.batched:
            return batch_images(self, operands, (0,))
        if not x.batched and self.groups == 1:
            made = make(self, (x.node, merge_channels(kernel.node)))
        else:
            made = make(*self.as_groups(operands))
        return split_channels(made, kernel.node.shape[0])


class ConvolutionInputGradient(
    ConvolutionOp,
    name="convolution_input_gradient",
    dtype=not_boolean,
    arity=2,
    gradient=Gradient.MULTILINEAR,
):
    """The transpose of a convolution in its input: kernel and output's gradient to input's.

    `sizes` are the spatial sizes of the input.  Complex numbers are not conjugated.
    """

    sizes: AnySizes

    def infer_shape(self, *shapes: Shape) -> Shape:
        kernel, gradient = shapes
        name = "convolution_input_gradient"
        _check_ranks(name, len(self.sizes), kernel, gradient)
        x = (gradient[0], *self.sizes, kernel[-2] * self.groups)
        _check_gradient(name, gradient, self.output_shape(x, kernel, name))
        return x

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Images by themselves."""
        return RowSlice(self, (None, rows), rows) if row_axis(shape) == 0 else None

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        kernel, gradient = operands
        return size(kernel[:-1]) * size(gradient)

    def pullback(self, cotangent: Array, result: Array, kernel: Array, output: Array) -> Pair:
        return (
            emit(self.to_kernel(kernel.shape), cotangent, output),
            emit(self.convolution(), cotangent, kernel),
        )

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """With a kernel for each, channels of each are groups of their own."""
        kernel, _ = operands
        if not kernel.batched:
            return batch_images(self, operands, (1,))
        return split_channels(make(*self.as_groups(operands)), kernel.node.shape[0])


class ConvolutionKernelGradient(
    ConvolutionOp,
    name="convolution_kernel_gradient",
    dtype=not_boolean,
    arity=2,
    gradient=Gradient.MULTILINEAR,
):
    """The transpose of a convolution in its kernel: input and output's gradient to kernel's.

    `window` are the spatial sizes of the kernel.  Complex numbers are not conjugated.
    """

    window: WindowSizes

    def infer_shape(self, *shapes: Shape) -> Shape:
        x, gradient = shapes
        name = "convolution_kernel_gradient"
        _check_ranks(name, len(self.window), x, gradient)
        kernel = (*self.window, x[-1] // self.groups, gradient[-1])
        _check_gradient(name, gradient, self.output_shape(x, kernel, name))
        return kernel

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Channels of each are groups of their own."""
        x, gradient = operands
        if not x.batched and self.groups == 1:
            made = make(self, (x.node, merge_channels(gradient.node)))
        else:
            made = make(*self.as_groups(operands))
        return split_channels(made, batch_size(operands))

    def multiply_adds(self, result: Shape, operands: Sequence[Shape]) -> int:
        return size(result[:-1]) * size(operands[1])

    def pullback(self, cotangent: Array, result: Array, x: Array, output: Array) -> Pair:
        return (
            emit(self.to_input(x.shape), cotangent, output),
            emit(self.convolution(), x, cotangent),
        )


# ----------------------------------------------------------------- shape rules


def convolution_shape(
    x: Shape,
    kernel: Shape,
    strides: tuple[int, ...],
    padding: Pads,
    dilation: tuple[int, ...],
    groups: int,
    op: str,
) -> Shape:
    """Shape of a convolution."""
    _check_ranks(op, len(strides), x, kernel)
    window, channels, outputs = kernel[:-2], kernel[-2], kernel[-1]
    check_positive(window, op, "the kernel's window")
    check_positive((groups,), op, "groups")
    if x[-1] != channels * groups:
        many = f" times {groups} groups" if groups > 1 else ""
        raise value_error(
            op,
            f"operand 1 has shape {kernel}; its axis -2 is {channels}, which{many} must be the "
            f"{x[-1]} channels of operand 0 of shape {x}",
        )
    if outputs % groups:
        raise value_error(
            op, f"operand 1 has shape {kernel}; its axis -1 must be a multiple of groups = {groups}"
        )
    return (x[0], *window_counts(x[1:-1], spans(window, dilation), strides, padding, op), outputs)


_AXES = {1: "1 spatial axis", 2: "2 spatial axes", 3: "3 spatial axes"}


def _check_ranks(op: str, rank: int, *shapes: Shape) -> None:
    for position, shape in enumerate(shapes):
        if len(shape) != rank + 2:
            raise value_error(
                op,
                f"operand {position} has shape {shape}; it must have {rank + 2} axes: "
                f"{_AXES[rank]} beside batch and channels (kernels: channels and outputs)",
            )


def _check_gradient(op: str, gradient: Shape, expected: Shape) -> None:
    if gradient != expected:
        raise value_error(
            op,
            f"operand 1 has shape {gradient}; the convolution it is a gradient of has shape "
            f"{expected}",
        )


def _rank(op: str, shape: Shape) -> int:
    """The number of spatial axes of an operand."""
    rank = len(shape) - 2
    if rank not in _AXES:
        raise value_error(op, f"operand 0 has shape {shape}; it must have 3, 4 or 5 axes")
    return rank


# ------------------------------------------------------------ public functions


def _geometry(
    sizes: Shape, window: Shape, stride: Sizes, padding: Padding, dilation: Sizes, op: str
) -> tuple[Shape, Pads, Shape]:
    """Strides, padding and dilation for each axis."""
    rank = len(sizes)
    check_positive(window, op, "the kernel's window")
    steps = per_axis(stride, rank, op, "stride")
    holes = per_axis(dilation, rank, op, "dilation")
    return steps, resolve_padding(padding, sizes, spans(window, holes), steps, op), holes


def _groups(groups: Any, op: str) -> int:
    (number,) = per_axis(groups, 1, op, "groups")
    return number


def _conv(
    op: str,
    rank: int,
    x: ArrayLike,
    kernel: ArrayLike,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
) -> Array:
    nodes = image, weights = lift(x, op, 0), lift(kernel, op, 1)
    _check_ranks(op, rank, image.shape, weights.shape)
    geometry = _geometry(image.shape[1:-1], weights.shape[:-2], stride, padding, dilation, op)
    number = _groups(groups, op)
    convolution_shape(image.shape, weights.shape, *geometry, number, op)
    not_boolean(op, [n.dtype for n in nodes])
    return wrap(make(Convolution(*geometry, number), cast_to_common(nodes)))


class ConvolutionFunction(Protocol):
    """A convolution over some number of spatial axes."""

    def __call__(
        self,
        x: ArrayLike,
        kernel: ArrayLike,
        /,
        *,
        stride: Sizes = 1,
        padding: Padding = "VALID",
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Array: ...


def _convolution(rank: int) -> ConvolutionFunction:
    @public(spelled={"strides": "stride"})
    @over_axes(rank)
    def conv(
        x: ArrayLike,
        kernel: ArrayLike,
        /,
        *,
        stride: Sizes = 1,
        padding: Padding = "VALID",
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Array:
        """Convolution over {count}, channels last.

        - `x`: the input, (batch, {axes}, channels).
        - `kernel`: ({window}, channels // groups, outputs); it is not flipped, as in every
          network library.
        - `stride`: how far apart windows are: one number, or one for each spatial axis.
        - `padding`: `"VALID"` takes whole windows only; `"SAME"` pads so that there is an output
          for each of `stride` inputs; or a pair (before, after) for each spatial axis.
        - `dilation`: how far apart the elements of a window are, likewise; 1 leaves no gaps.
        - `groups`: into how many groups the channels are split, each with outputs of its own.

        Gives (batch, {spatial}, outputs).  Raises ValueError for shapes that do not fit together.

            image, kernel = np.ones((1, {x5}, 2)), np.ones(({x3}, 2, 4))
            np.{name}(image, kernel).shape      # -> (1, {x3}, 4)
            np.{name}(image, kernel, stride=2, padding="SAME").shape   # -> (1, {x3}, 4)
        """
        return _conv(f"conv{rank}d", rank, x, kernel, stride, padding, dilation, groups)

    return conv


conv1d, conv2d, conv3d = map(_convolution, AXES)


def _transposed_size(n: int, window: int, stride: int, padding: Padding, axis: int) -> int:
    """How many elements a transposed convolution makes of `n`."""
    match padding:
        case str():
            return n * stride + (max(window - stride, 0) if padding.upper() == "VALID" else 0)
        case _:
            return max((n - 1) * stride + window - sum(padding[axis]), 0)


def _conv_transpose(
    op: str, rank: int, x: ArrayLike, kernel: ArrayLike, stride: Sizes, padding: Padding
) -> Array:
    image, weights = lift(x, op, 0), lift(kernel, op, 1)
    _check_ranks(op, rank, image.shape, weights.shape)
    if image.shape[-1] != weights.shape[-2]:
        raise value_error(
            op,
            f"operand 1 has shape {weights.shape}; its axis -2 must be the {image.shape[-1]} "
            f"channels of operand 0 of shape {image.shape}",
        )
    not_boolean(op, [image.dtype, weights.dtype])
    window, steps = weights.shape[:-2], per_axis(stride, rank, op, "stride")
    pads = resolve_padding(padding, (0,) * rank, window, steps, op)
    given = padding if isinstance(padding, str) else pads
    sizes = tuple(
        _transposed_size(n, w, s, given, a)
        for a, (n, w, s) in enumerate(zip(image.shape[1:-1], window, steps, strict=True))
    )
    geometry = _geometry(sizes, window, steps, given, 1, op)
    exchanged = matrix_transpose(wrap(weights))
    operands = cast_to_common((exchanged.node, image))
    return wrap(make(ConvolutionInputGradient(*geometry, 1, sizes), operands))


class TransposeFunction(Protocol):
    """A transposed convolution over some number of spatial axes."""

    def __call__(
        self, x: ArrayLike, kernel: ArrayLike, /, *, stride: Sizes = 1, padding: Padding = "VALID"
    ) -> Array: ...


def _transposed_convolution(rank: int) -> TransposeFunction:
    @public(spelled={"strides": "stride"})
    @over_axes(rank)
    def conv_transpose(
        x: ArrayLike, kernel: ArrayLike, /, *, stride: Sizes = 1, padding: Padding = "VALID"
    ) -> Array:
        """Each element of `x` spread over a window of the kernel: the transpose of a convolution.

        - `x`: the input, (batch, {axes}, channels).
        - `kernel`: ({window}, channels, outputs).
        - `stride`: how far apart windows are in the output: one number, or one for each axis.
        - `padding`: `"SAME"` gives n * stride elements along an axis of n, `"VALID"` gives
          n * stride + max(window - stride, 0); a pair (before, after) for each spatial axis is cut
          off from (n - 1) * stride + window.

        Gives (batch, {spatial}, outputs), as networks use it to enlarge.

            image, kernel = np.ones((1, {x5}, 2)), np.ones(({x3}, 2, 4))
            np.{name}(image, kernel, stride=2, padding="SAME").shape   # -> (1, {x10}, 4)
        """
        return _conv_transpose(f"conv_transpose{rank}d", rank, x, kernel, stride, padding)

    return conv_transpose


conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transposed_convolution, AXES)


def _depthwise(
    op: str,
    rank: int,
    x: ArrayLike,
    kernel: ArrayLike,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
) -> Array:
    image, weights = lift(x, op, 0), lift(kernel, op, 1)
    _check_ranks(op, rank, image.shape, weights.shape)
    *window, channels, multiplier = weights.shape
    if channels != image.shape[-1] or not channels:
        raise value_error(
            op,
            f"operand 1 has shape {weights.shape}; its axis -2 must be the {image.shape[-1]} "
            f"channels of operand 0 of shape {image.shape}, at least 1",
        )
    flat = reshape(wrap(weights), (*window, 1, channels * multiplier))
    return _conv(op, rank, wrap(image), flat, stride, padding, dilation, channels)


class DepthwiseFunction(Protocol):
    """A convolution of each channel by itself over some number of spatial axes."""

    def __call__(
        self,
        x: ArrayLike,
        kernel: ArrayLike,
        /,
        *,
        stride: Sizes = 1,
        padding: Padding = "VALID",
        dilation: Sizes = 1,
    ) -> Array: ...


def _depthwise_convolution(rank: int) -> DepthwiseFunction:
    @public(spelled={"strides": "stride"})
    @over_axes(rank)
    def depthwise_conv(
        x: ArrayLike,
        kernel: ArrayLike,
        /,
        *,
        stride: Sizes = 1,
        padding: Padding = "VALID",
        dilation: Sizes = 1,
    ) -> Array:
        """Each channel of `x` by itself with its windows of the kernel, over {count}.

        - `x`: the input, (batch, {axes}, channels).
        - `kernel`: ({window}, channels, multiplier).
        - `stride`: how far apart windows are: one number, or one for each spatial axis.
        - `padding`: `"VALID"` takes whole windows only; `"SAME"` pads so that there is an output
          for each of `stride` inputs; or a pair (before, after) for each spatial axis.
        - `dilation`: how far apart the elements of a window are, likewise; 1 leaves no gaps.

        Output channel `c * multiplier + m` is channel `c` with window `m`.

            image, kernel = np.ones((1, {x5}, 2)), np.ones(({x3}, 2, 3))
            np.{name}(image, kernel).shape   # -> (1, {x3}, 6)
        """
        return _depthwise(f"depthwise_conv{rank}d", rank, x, kernel, stride, padding, dilation)

    return depthwise_conv


depthwise_conv1d, depthwise_conv2d, depthwise_conv3d = map(_depthwise_convolution, AXES)


def _gradient_shapes(
    op: str, first: Node, gradient: Node, declared: Any, word: str
) -> tuple[Shape, int]:
    """The shape asked for and the number of spatial axes, which all must share."""
    rank = _rank(op, first.shape)
    _check_ranks(op, rank, first.shape, gradient.shape)
    shape = as_shape(declared, op, word)
    if len(shape) != rank + 2:
        raise value_error(op, f"{word} is {shape}; it must have {rank + 2} axes, as operand 0 has")
    not_boolean(op, [first.dtype, gradient.dtype])
    return shape, rank


@public(spelled={"strides": "stride"})
def conv_input_gradient(
    kernel: ArrayLike,
    gradient: ArrayLike,
    /,
    *,
    input_shape: Sizes,
    stride: Sizes = 1,
    padding: Padding = "VALID",
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    """Gradient of a convolution's input, given its kernel and the gradient of its output.

    - `kernel`: (*window, channels // groups, outputs).
    - `gradient`: of the output, (batch, *spatial, outputs).
    - `input_shape`: the shape of the input, which is that of the result.
    - `stride`, `padding`, `dilation`, `groups`: those of the convolution.

    The gradient of `conv1d`, `conv2d` and `conv3d` is made of it; one can call it directly.

        kernel, gradient = np.ones((3, 2, 4)), np.ones((1, 3, 4))
        np.conv_input_gradient(kernel, gradient, input_shape=(1, 5, 2)).shape   # -> (1, 5, 2)
    """
    op = "conv_input_gradient"
    nodes = weights, slope = lift(kernel, op, 0), lift(gradient, op, 1)
    shape, _ = _gradient_shapes(op, weights, slope, input_shape, "input_shape")
    geometry = _geometry(shape[1:-1], weights.shape[:-2], stride, padding, dilation, op)
    number = _groups(groups, op)
    if shape[-1] != weights.shape[-2] * number:
        raise value_error(
            op,
            f"input_shape is {shape}; a kernel of shape {weights.shape} in {number} groups needs "
            f"{weights.shape[-2] * number} channels",
        )
    _check_gradient(op, slope.shape, convolution_shape(shape, weights.shape, *geometry, number, op))
    return wrap(
        make(ConvolutionInputGradient(*geometry, number, shape[1:-1]), cast_to_common(nodes))
    )


@public(spelled={"strides": "stride"})
def conv_kernel_gradient(
    x: ArrayLike,
    gradient: ArrayLike,
    /,
    *,
    kernel_shape: Sizes,
    stride: Sizes = 1,
    padding: Padding = "VALID",
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    """Gradient of a convolution's kernel, given its input and the gradient of its output.

    - `x`: the input, (batch, *spatial, channels).
    - `gradient`: of the output, (batch, *spatial, outputs).
    - `kernel_shape`: the shape of the kernel, which is that of the result.
    - `stride`, `padding`, `dilation`, `groups`: those of the convolution.

    The gradient of `conv1d`, `conv2d` and `conv3d` is made of it; one can call it directly.

        x, gradient = np.ones((1, 5, 2)), np.ones((1, 3, 4))
        np.conv_kernel_gradient(x, gradient, kernel_shape=(3, 2, 4)).shape   # -> (3, 2, 4)
    """
    op = "conv_kernel_gradient"
    nodes = image, slope = lift(x, op, 0), lift(gradient, op, 1)
    shape, _ = _gradient_shapes(op, image, slope, kernel_shape, "kernel_shape")
    geometry = _geometry(image.shape[1:-1], shape[:-2], stride, padding, dilation, op)
    number = _groups(groups, op)
    if image.shape[-1] != shape[-2] * number:
        raise value_error(
            op,
            f"kernel_shape is {shape}; in {number} groups it needs an input of "
            f"{shape[-2] * number} channels, and operand 0 has shape {image.shape}",
        )
    _check_gradient(op, slope.shape, convolution_shape(image.shape, shape, *geometry, number, op))
    return wrap(
        make(ConvolutionKernelGradient(*geometry, number, shape[:-2]), cast_to_common(nodes))
    )
