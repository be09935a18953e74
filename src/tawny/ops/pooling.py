"""Pooling over windows of 1, 2 and 3 spatial axes, channels last, and upsampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.dtype import DType, check_categories
from tawny.dtype_rules import NUMBER_LOOPS, DTypeRule, not_boolean, quotient, real
from tawny.errors import value_error
from tawny.node import Node, make
from tawny.op import BatchOperand, Gradient, Op, Type
from tawny.operator import emit, public
from tawny.ops import reduction
from tawny.ops.creation import Cast
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
    over_axes,
    per_axis,
    resolve_padding,
    window_counts,
    window_rows,
)
from tawny.rows import Rows, RowSlice, row_axis
from tawny.shape import Shape, as_shape, size

of_gradient = DTypeRule("the dtype of operand 1", NUMBER_LOOPS, dt.promote, dt.BOOLEAN, ignores=1)
of_choices = DTypeRule("the dtype of operand 1", tuple(dt.DTYPES), dt.promote, ignores=1)


class Pooling(Op, may_fail=False):
    """A fold of the elements each window sees."""

    window: WindowSizes
    strides: Steps
    padding: PadWidths

    def output_shape(self, shape: Shape, op: str) -> Shape:
        """Shape of the pooling of an input of this shape."""
        _check_rank(op, len(self.window), shape)
        check_padding(op, self.window, self.padding)
        return (
            shape[0],
            *window_counts(shape[1:-1], self.window, self.strides, self.padding, op),
            shape[-1],
        )

    def infer_shape(self, *shapes: Shape) -> Shape:
        return self.output_shape(shapes[0], self.facts().name)

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        return max(map(size, operands))

    def mistake(self, types: Sequence[Type]) -> str | None:
        rank = len(self.window)
        if not 1 <= rank <= 3 or len(self.padding) != rank or len(self.strides) != rank:
            return (
                f"window is {self.window}, strides {self.strides}, padding {self.padding}; "
                "expected one of each for each of 1 to 3 axes"
            )
        return None

    @property
    def geometry(self) -> tuple[Shape, tuple[int, ...], Pads]:
        """The attributes that a pooling shares with its transpose."""
        return self.window, self.strides, self.padding

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return batch_images(self, operands, range(len(operands)))


class WindowFold(Pooling):
    """A pooling itself, and none of its transposes."""

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Images by themselves; of one image, the rows that windows see."""
        if row_axis(shape) == 0:
            return RowSlice(self, (rows,), rows)
        found = window_rows(
            shape, operands[0], self.window[0], self.strides[0], self.padding[0], rows
        )
        if found is None:
            return None
        seen, pads = found
        return RowSlice(self.with_attributes(padding=(pads, *self.padding[1:])), (seen,), rows)


class MaxPool(WindowFold, name="max_pool", dtype=real):
    """Greatest element each window sees; NaN if there is one.

    Its derivative takes the first of equal ones, in row-major order, for the only greatest.
    """

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return emit(MaxPoolGradient(*self.geometry), x, cotangent)


class AvgPool(WindowFold, name="avg_pool", dtype=quotient, gradient=Gradient.LINEAR):
    """Mean of the elements each window sees; padding is not counted."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return emit(AvgPoolGradient(*self.geometry, x.shape[1:-1]), cotangent)


class MaxPoolGradient(Pooling, name="max_pool_gradient", dtype=of_gradient, arity=2):
    """The transpose of a max pooling at operand 0, applied to the gradient of its output.

    Among equals the first in the window, in row-major order, takes the whole gradient.
    """

    def infer_shape(self, *shapes: Shape) -> Shape:
        x, gradient = shapes
        check_match("max_pool_gradient", gradient, self.output_shape(x, "max_pool_gradient"))
        return x

    def infer_dtype(self, *dtypes: DType) -> DType:
        check_categories("max_pool_gradient", 0, dtypes[0], dt.REAL)
        return super().infer_dtype(*dtypes)

    def pullback(
        self, cotangent: Array, result: Array, x: Array, gradient: Array
    ) -> tuple[None, Array]:
        """Where the maxima are does not change by a little change of `x`."""
        return None, emit(MaxPoolSelect(*self.geometry), x, cotangent)


class MaxPoolSelect(Pooling, name="max_pool_select", dtype=of_choices, arity=2):
    """Elements of operand 1 where the max pooling of operand 0 finds its maxima."""

    def infer_shape(self, *shapes: Shape) -> Shape:
        x, choices = shapes
        if choices != x:
            raise value_error(
                "max_pool_select", f"operand 1 has shape {choices}; it must be {x}, as operand 0"
            )
        return self.output_shape(x, "max_pool_select")

    def infer_dtype(self, *dtypes: DType) -> DType:
        check_categories("max_pool_select", 0, dtypes[0], dt.REAL)
        return super().infer_dtype(*dtypes)

    def pullback(
        self, cotangent: Array, result: Array, x: Array, choices: Array
    ) -> tuple[None, Array]:
        """Where the maxima are does not change by a little change of `x`."""
        return None, emit(MaxPoolGradient(*self.geometry), x, cotangent)


class AvgPoolGradient(Pooling, name="avg_pool_gradient", dtype=quotient, gradient=Gradient.LINEAR):
    """The transpose of an average pooling of an input with spatial `sizes`."""

    sizes: AnySizes

    def infer_shape(self, *shapes: Shape) -> Shape:
        (gradient,) = shapes
        _check_rank("avg_pool_gradient", len(self.sizes), gradient)
        x = (gradient[0], *self.sizes, gradient[-1])
        check_match("avg_pool_gradient", gradient, self.output_shape(x, "avg_pool_gradient"), 0)
        return x

    def pullback(self, cotangent: Array, result: Array, gradient: Array) -> Array:
        return emit(AvgPool(*self.geometry), cotangent)


class Upsampling(Op, may_fail=False, name="upsampling", gradient=Gradient.LINEAR):
    """Each element repeated `factors` times along the spatial axes."""

    factors: WindowSizes

    def infer_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        _check_rank("upsampling", len(self.factors), x)
        check_positive(self.factors, "upsampling", "factor")
        return (x[0], *(n * f for n, f in zip(x[1:-1], self.factors, strict=True)), x[-1])

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Images by themselves; of one image, whole blocks of equal rows."""
        if row_axis(shape) == 0:
            return RowSlice(self, (rows,), rows)
        if row_axis(shape) != 1 or row_axis(operands[0]) != 1:
            return None
        factor = self.factors[0]
        read = rows[0] // factor, -(-rows[1] // factor)
        return RowSlice(self, (read,), (read[0] * factor, read[1] * factor))

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return emit(UpsamplingGradient(self.factors), cotangent)

    def mistake(self, types: Sequence[Type]) -> str | None:
        if not 1 <= len(self.factors) <= 3:
            return f"factors are {self.factors}; expected one for each of 1 to 3 axes"
        return None

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return batch_images(self, operands, range(len(operands)))


class UpsamplingGradient(
    Op, name="upsampling_gradient", dtype=not_boolean, gradient=Gradient.LINEAR
):
    """The transpose of an upsampling: the sum over blocks of `factors` elements."""

    factors: WindowSizes

    def infer_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        _check_rank("upsampling_gradient", len(self.factors), x)
        check_positive(self.factors, "upsampling_gradient", "factor")
        if any(n % f for n, f in zip(x[1:-1], self.factors, strict=True)):
            raise value_error(
                "upsampling_gradient",
                f"operand 0 has shape {x}; its spatial sizes {x[1:-1]} must be "
                f"multiples of {self.factors}",
            )
        return (x[0], *(n // f for n, f in zip(x[1:-1], self.factors, strict=True)), x[-1])

    def pullback(self, cotangent: Array, result: Array, gradient: Array) -> Array:
        return emit(Upsampling(self.factors), cotangent)

    def mistake(self, types: Sequence[Type]) -> str | None:
        if not 1 <= len(self.factors) <= 3:
            return f"factors are {self.factors}; expected one for each of 1 to 3 axes"
        return None

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return batch_images(self, operands, range(len(operands)))

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        return size(operands[0])


# ----------------------------------------------------------------- shape rules


def _check_rank(op: str, rank: int, shape: Shape, position: int = 0) -> None:
    if len(shape) != rank + 2:
        raise value_error(
            op,
            f"operand {position} has shape {shape}; it must have {rank + 2} axes: batch, "
            f"{rank} spatial, channels",
        )


def check_padding(op: str, window: Shape, padding: Pads) -> None:
    """Refuse padding under which a window could see nothing else."""
    if any(max(pair) >= w for pair, w in zip(padding, window, strict=True)):
        raise value_error(
            op,
            f"padding is {padding}; it must be less than the window {window} on each side, or a "
            "window would see padding alone",
        )


def check_match(op: str, gradient: Shape, expected: Shape, position: int = 1) -> None:
    """Refuse a gradient that is not of its output's shape."""
    if gradient != expected:
        raise value_error(
            op,
            f"operand {position} has shape {gradient}; the pooling it is a gradient of has shape "
            f"{expected}",
        )


# ------------------------------------------------------------ public functions


def _spatial_rank(op: str, shape: Shape, position: int = 0) -> int:
    if not 3 <= len(shape) <= 5:
        raise value_error(
            op,
            f"operand {position} has shape {shape}; it must have 3, 4 or 5 axes: batch, 1 to 3 "
            "spatial, channels",
        )
    return len(shape) - 2


def _geometry(
    op: str, sizes: Shape, window: Sizes, stride: Sizes | None, padding: Padding
) -> tuple[Shape, Shape, Pads]:
    """Window, strides and padding for each axis."""
    span = per_axis(window, len(sizes), op, "window")
    steps = span if stride is None else per_axis(stride, len(sizes), op, "stride")
    pads = resolve_padding(padding, sizes, span, steps, op)
    check_padding(op, span, pads)
    window_counts(sizes, span, steps, pads, op)
    return span, steps, pads


def _pool(
    kind: type[Pooling],
    op: str,
    rank: int,
    x: ArrayLike,
    window: Sizes,
    stride: Sizes | None,
    padding: Padding,
) -> Array:
    node = lift(x, op)
    _check_rank(op, rank, node.shape)
    dtype = kind.declaration.dtype(op, [node.dtype])
    if node.dtype != dtype:
        node = make(Cast(dtype), (node,))
    return wrap(make(kind(*_geometry(op, node.shape[1:-1], window, stride, padding)), (node,)))


class PoolingFunction(Protocol):
    """A pooling over some number of spatial axes."""

    def __call__(
        self,
        x: ArrayLike,
        /,
        window: Sizes,
        *,
        stride: Sizes | None = None,
        padding: Padding = "VALID",
    ) -> Array: ...


def _max_pooling(rank: int) -> PoolingFunction:
    @public(spelled={"strides": "stride"})
    @over_axes(rank)
    def max_pool(
        x: ArrayLike, /, window: Sizes, *, stride: Sizes | None = None, padding: Padding = "VALID"
    ) -> Array:
        """Greatest element of each window of `x`, over {count}.

        - `x`: the input, (batch, {axes}, channels).
        - `window`: the size of a window: one number, or one for each spatial axis.
        - `stride`: how far apart windows are; as far as they are large when None, so that no two
          overlap.
        - `padding`: `"VALID"` takes whole windows only; `"SAME"` pads so that there is an output
          for each of `stride` inputs; or a pair (before, after) for each spatial axis.

        Gives (batch, {spatial}, channels).  Padding never wins.

            np.{name}(np.ones((1, {x4}, 3)), 2).shape   # -> (1, {x2}, 3)
        """
        return _pool(MaxPool, f"max_pool{rank}d", rank, x, window, stride, padding)

    return max_pool


def _average_pooling(rank: int) -> PoolingFunction:
    @public(spelled={"strides": "stride"})
    @over_axes(rank)
    def avg_pool(
        x: ArrayLike, /, window: Sizes, *, stride: Sizes | None = None, padding: Padding = "VALID"
    ) -> Array:
        """Mean of each window of `x`, over {count}.

        - `x`: the input, (batch, {axes}, channels).
        - `window`: the size of a window: one number, or one for each spatial axis.
        - `stride`: how far apart windows are; as far as they are large when None, so that no two
          overlap.
        - `padding`: `"VALID"` takes whole windows only; `"SAME"` pads so that there is an output
          for each of `stride` inputs; or a pair (before, after) for each spatial axis.

        Gives (batch, {spatial}, channels).  Padding is not counted.

            np.{name}(np.ones((1, {x4}, 3)), 2).shape   # -> (1, {x2}, 3)
        """
        return _pool(AvgPool, f"avg_pool{rank}d", rank, x, window, stride, padding)

    return avg_pool


max_pool1d, max_pool2d, max_pool3d = map(_max_pooling, AXES)
avg_pool1d, avg_pool2d, avg_pool3d = map(_average_pooling, AXES)


@public(spelled={"strides": "stride"})
def max_pool_gradient(
    x: ArrayLike,
    gradient: ArrayLike,
    /,
    window: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Gradient of a max pooling's input, given that of its output.

    - `x`: the input, (batch, *spatial, channels).
    - `gradient`: of the output.
    - `window`, `stride`, `padding`: those of the pooling.

    Among equals the first in the window, in row-major order, takes the whole gradient.

        x = np.reshape(np.asarray([1.0, 3.0, 2.0, 2.0]), (1, 4, 1))
        slope = np.max_pool_gradient(x, np.ones((1, 2, 1)), 2)
        np.ravel(slope).numpy().tolist()              # -> [0.0, 1.0, 1.0, 0.0]
    """
    op = "max_pool_gradient"
    node, slope = lift(x, op, 0), lift(gradient, op, 1)
    _spatial_rank(op, node.shape)
    geometry = _geometry(op, node.shape[1:-1], window, stride, padding)
    return wrap(make(MaxPoolGradient(*geometry), (node, slope)))


@public(spelled={"strides": "stride"})
def max_pool_select(
    x: ArrayLike,
    choices: ArrayLike,
    /,
    window: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Elements of `choices` where the max pooling of `x` finds its (first) maxima.

    - `x`: the input of the pooling, (batch, *spatial, channels).
    - `choices`: an array of the same shape.
    - `window`, `stride`, `padding`: those of the pooling.

    Gives an array of the pooling's shape.

        x = np.reshape(np.asarray([1.0, 3.0, 2.0, 2.0]), (1, 4, 1))
        found = np.max_pool_select(x, np.reshape(np.arange(4.0), (1, 4, 1)), 2)
        np.ravel(found).numpy().tolist()              # -> [1.0, 2.0]
    """
    op = "max_pool_select"
    node, other = lift(x, op, 0), lift(choices, op, 1)
    _spatial_rank(op, node.shape)
    geometry = _geometry(op, node.shape[1:-1], window, stride, padding)
    return wrap(make(MaxPoolSelect(*geometry), (node, other)))


@public(spelled={"strides": "stride"})
def avg_pool_gradient(
    gradient: ArrayLike,
    /,
    window: Sizes,
    *,
    input_shape: Sizes,
    stride: Sizes | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Gradient of an average pooling's input, given that of its output.

    - `gradient`: of the output, (batch, *spatial, channels).
    - `input_shape`: the shape of the input, which is that of the result.
    - `window`, `stride`, `padding`: those of the pooling.

    Each window's gradient is shared by its elements.

        slope = np.avg_pool_gradient(np.ones((1, 2, 1)), 2, input_shape=(1, 4, 1))
        np.ravel(slope).numpy().tolist()              # -> [0.5, 0.5, 0.5, 0.5]
    """
    op = "avg_pool_gradient"
    slope = lift(gradient, op)
    rank = _spatial_rank(op, slope.shape)
    shape = as_shape(input_shape, op, "input_shape")
    if len(shape) != rank + 2:
        raise value_error(
            op, f"input_shape is {shape}; it must have {rank + 2} axes, as operand 0 has"
        )
    made = AvgPoolGradient(*_geometry(op, shape[1:-1], window, stride, padding), shape[1:-1])
    check_match(op, slope.shape, made.output_shape(shape, op), 0)
    return wrap(make(made, (slope,)))


def _spatial_axes(op: str, x: ArrayLike) -> tuple[Array, tuple[int, ...]]:
    array = wrap(lift(x, op))
    return array, tuple(range(1, _spatial_rank(op, array.shape) + 1))


@public()
def global_max_pool(x: ArrayLike, /, *, keepdims: bool = False) -> Array:
    """Greatest element of `x` over all spatial axes.

    - `x`: the input, (batch, *spatial, channels).
    - `keepdims`: keep the spatial axes, of size 1.

    Gives (batch, channels), or as many axes as `x` has.

        np.global_max_pool(np.ones((2, 4, 4, 3))).shape   # -> (2, 3)
    """
    array, axes = _spatial_axes("global_max_pool", x)
    return reduction.max(array, axis=axes, keepdims=keepdims)


@public()
def global_avg_pool(x: ArrayLike, /, *, keepdims: bool = False) -> Array:
    """Mean of `x` over all spatial axes.

    - `x`: the input, (batch, *spatial, channels).
    - `keepdims`: keep the spatial axes, of size 1.

    Gives (batch, channels), or as many axes as `x` has.

        np.global_avg_pool(np.ones((2, 4, 4, 3))).shape   # -> (2, 3)
    """
    array, axes = _spatial_axes("global_avg_pool", x)
    return reduction.mean(array, axis=axes, keepdims=keepdims)


def _upsampling(rank: int) -> Callable[[ArrayLike, Sizes], Array]:
    @public()
    @over_axes(rank)
    def upsampling(x: ArrayLike, factor: Sizes, /) -> Array:
        """Each element of `x` repeated, over {count}.

        - `x`: the input, (batch, {axes}, channels).
        - `factor`: how often: one number, or one for each spatial axis.

        Gives an array whose spatial axes are `factor` times as long.

            np.{name}(np.ones((1, {x2}, 1)), 3).shape   # -> (1, {x6}, 1)
        """
        op = f"upsampling{rank}d"
        node = lift(x, op)
        _check_rank(op, rank, node.shape)
        return wrap(make(Upsampling(per_axis(factor, rank, op, "factor")), (node,)))

    return upsampling


upsampling1d, upsampling2d, upsampling3d = map(_upsampling, AXES)


@public()
def upsampling_gradient(gradient: ArrayLike, factor: Sizes, /) -> Array:
    """Gradient of an upsampling's input, given that of its output: the sum over each block.

    - `gradient`: of the output, (batch, *spatial, channels).
    - `factor`: how often elements were repeated: one number, or one for each spatial axis.

    Gives an array whose spatial axes are shorter by `factor`.

        np.upsampling_gradient(np.ones((1, 6, 1)), 3).shape   # -> (1, 2, 1)
    """
    op = "upsampling_gradient"
    node = lift(gradient, op)
    factors = per_axis(factor, _spatial_rank(op, node.shape), op, "factor")
    return wrap(make(UpsamplingGradient(factors), (node,)))
