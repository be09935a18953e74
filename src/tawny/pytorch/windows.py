"""Convolutions and pooling: channels come first in PyTorch, and last in `tawny.numpy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import INT64, kind_of
from tawny.pytorch.table import Call, cast, lowers, refuse
from tawny.shape import Shape

Sizes = Sequence[int]


def channels_last(x: Array) -> Array:
    """(batch, channels, *spatial) as (batch, *spatial, channels)."""
    return np.moveaxis(x, 1, -1)


def channels_first(x: Array) -> Array:
    """(batch, *spatial, channels) as (batch, channels, *spatial)."""
    return np.moveaxis(x, -1, 1)


def _kernel(weight: Array) -> Array:
    """(outputs, inputs, *window) as (*window, inputs, outputs)."""
    return np.permute_dims(weight, (*range(2, weight.ndim), 1, 0))


def _weight(kernel: Array) -> Array:
    """(*window, inputs, outputs) as (outputs, inputs, *window)."""
    rank = kernel.ndim
    return np.permute_dims(kernel, (rank - 1, rank - 2, *range(rank - 2)))


def _for_each_axis(given: Sizes, rank: int) -> Shape:
    """A number for each axis."""
    return tuple(given) if len(given) == rank else (given[0],) * rank


class _Geometry:
    """The attributes of a convolution in `tawny.numpy`'s words."""

    def __init__(
        self, rank: int, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
    ) -> None:
        self.stride = _for_each_axis(stride, rank)
        self.pads = _for_each_axis(padding, rank)
        self.dilation = _for_each_axis(dilation, rank)
        self.groups = groups

    def options(self) -> dict[str, Any]:
        return {
            "stride": self.stride,
            "padding": [(p, p) for p in self.pads],
            "dilation": self.dilation,
            "groups": self.groups,
        }

    def transposed_sizes(self, sizes: Shape, window: Shape, more: Sizes) -> Shape:
        """The spatial sizes of a transposed convolution."""
        each = zip(
            sizes, window, self.stride, self.pads, self.dilation, _for_each_axis(more, len(sizes)),
            strict=True,
        )  # fmt: skip
        return tuple((n - 1) * s - 2 * p + d * (w - 1) + m + 1 for n, w, s, p, d, m in each)


def _convolve(x: Array, kernel: Array, geometry: _Geometry) -> Array:
    function = {1: np.conv1d, 2: np.conv2d, 3: np.conv3d}[x.ndim - 2]
    found: Array = function(x, kernel, **geometry.options())
    return found


@lowers("convolution")
def convolve(
    _: Call,
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Array:
    """A convolution, or the transpose of one, and a bias."""
    rank = x.ndim - 2
    geometry = _check(x, weight, rank, stride, padding, dilation, groups)
    if transposed:
        refuse(
            any(
                m >= s
                for m, s in zip(_for_each_axis(output_padding, rank), geometry.stride, strict=True)
            ),
            "output padding as large as the stride",
        )
        sizes = geometry.transposed_sizes(x.shape[2:], weight.shape[2:], output_padding)
        shape = (x.shape[0], *sizes, weight.shape[1] * groups)
        y = np.conv_input_gradient(
            _kernel(weight), channels_last(x), input_shape=shape, **geometry.options()
        )
    else:
        y = _convolve(channels_last(x), _kernel(weight), geometry)
    return channels_first(y if bias is None else np.add(y, bias))


def _check(
    x: Array,
    weight: Array,
    rank: int,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> _Geometry:
    refuse(not 1 <= rank <= 3, f"a convolution over {rank} axes")
    refuse(not x.size or not weight.size, "a convolution of nothing")
    refuse(x.dtype != weight.dtype, "a convolution of two dtypes")
    return _Geometry(rank, stride, padding, dilation, groups)


@lowers("convolution_backward")
def convolve_backward(
    _: Call,
    gradient: Array,
    x: Array,
    weight: Array,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of a convolution's input, weight and bias, those that are asked for."""
    rank = x.ndim - 2
    geometry = _check(x, weight, rank, stride, padding, dilation, groups)
    image, slope, kernel = channels_last(x), channels_last(gradient), _kernel(weight)
    options = geometry.options()
    to_input = to_weight = to_bias = None
    if mask[0]:
        if transposed:
            found = _convolve(slope, kernel, geometry)
        else:
            found = np.conv_input_gradient(kernel, slope, input_shape=image.shape, **options)
        to_input = channels_first(found)
    if mask[1]:
        seen, out = (slope, image) if transposed else (image, slope)
        found = np.conv_kernel_gradient(seen, out, kernel_shape=kernel.shape, **options)
        to_weight = _weight(found)
    if mask[2]:
        to_bias = np.sum(slope, axis=tuple(range(rank + 1)))
    return to_input, to_weight, to_bias


# --------------------------------------------------------------------- pooling


class _PoolWindows:
    """The windows of a pooling, with the padding that rounding up asks for at the end."""

    def __init__(
        self, sizes: Shape, window: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool
    ) -> None:
        rank = len(sizes)
        self.window = _for_each_axis(window, rank)
        self.stride = _for_each_axis(stride, rank) if len(stride) else self.window
        self.pads = _for_each_axis(padding, rank)
        self.counts = tuple(
            _window_count(n, w, s, p, ceil_mode)
            for n, w, s, p in zip(sizes, self.window, self.stride, self.pads, strict=True)
        )
        self.behind = tuple(
            max((c - 1) * s + w - n - p, 0)
            for c, n, w, s, p in zip(
                self.counts, sizes, self.window, self.stride, self.pads, strict=True
            )
        )

    @property
    def padding(self) -> list[tuple[int, int]]:
        """What the windows see around the elements."""
        pairs = list(zip(self.pads, self.behind, strict=True))
        far = any(max(pair) >= w for pair, w in zip(pairs, self.window, strict=True))
        refuse(far, "a window that sees nothing but padding")
        return pairs


def _window_count(n: int, window: int, stride: int, pad: int, up: bool) -> int:
    count = -(-(n + 2 * pad - window) // stride) if up else (n + 2 * pad - window) // stride
    if up and count * stride >= n + pad:
        count -= 1
    return count + 1


_MAX_POOL = {1: np.max_pool1d, 2: np.max_pool2d, 3: np.max_pool3d}
_AVG_POOL = {1: np.avg_pool1d, 2: np.avg_pool2d, 3: np.avg_pool3d}


def _batch(x: Array, rank: int) -> Array:
    """A tensor with an axis of images, channels last."""
    return channels_last(x if x.ndim == rank + 2 else np.expand_dims(x, 0))


def _as_given(y: Array, x: Array, rank: int) -> Array:
    """Channels first, and without an axis of images where `x` has none."""
    first = channels_first(y)
    return first if x.ndim == rank + 2 else np.squeeze(first, axis=0)


@lowers("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    call: Call,
    x: Array,
    window: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    """The greatest element of each window, and where in its image it is."""
    rank = 3 if "3d" in call.name else 2
    image = _batch(x, rank)
    geometry = _max_windows(image, window, stride, padding, dilation, ceil_mode)
    found = _MAX_POOL[rank](
        image, geometry.window, stride=geometry.stride, padding=geometry.padding
    )
    places = np.asarray(numpy.arange(numpy.prod(image.shape[1:-1]), dtype=numpy.int64))
    each = np.broadcast_to(np.reshape(places, (1, *image.shape[1:-1], 1)), image.shape)
    chosen = np.max_pool_select(
        image, each, geometry.window, stride=geometry.stride, padding=geometry.padding
    )
    return _as_given(found, x, rank), cast(_as_given(chosen, x, rank), INT64)


def _max_windows(
    image: Array, window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> _PoolWindows:
    refuse(any(d != 1 for d in dilation), "pooling with dilation")
    refuse(kind_of(image.dtype) != "f" or not image.size, f"pooling of {image.dtype}")
    return _PoolWindows(image.shape[1:-1], window, stride, padding, ceil_mode)


@lowers("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    call: Call,
    gradient: Array,
    x: Array,
    window: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    indices: Array,
) -> Array:
    """The gradient of a max pooling's input; the first of equal elements takes it."""
    rank = 3 if "3d" in call.name else 2
    image, slope = _batch(x, rank), _batch(gradient, rank)
    geometry = _max_windows(image, window, stride, padding, dilation, ceil_mode)
    found = np.max_pool_gradient(
        image, slope, geometry.window, stride=geometry.stride, padding=geometry.padding
    )
    return _as_given(found, x, rank)


class _Means:
    """An average pooling: which elements each window counts, and by what it divides."""

    def __init__(
        self, sizes: Shape, windows: _PoolWindows, include_pad: bool, divisor: int | None
    ) -> None:
        self.windows = windows
        padded = include_pad and any(windows.pads)
        self.around = windows.pads if padded else (0,) * len(sizes)
        pads = (0,) * len(sizes) if padded else windows.pads
        self.padding = list(zip(pads, self._unseen_behind(sizes), strict=True))
        far = any(max(pair) >= w for pair, w in zip(self.padding, windows.window, strict=True))
        refuse(far, "a window that sees nothing but padding")
        self.sizes = tuple(n + 2 * p for n, p in zip(sizes, self.around, strict=True))
        self.factor = None if divisor is None else self._element_counts() / divisor

    def _unseen_behind(self, sizes: Shape) -> Shape:
        """What the last windows see behind the elements and the padding that counts."""
        w = self.windows
        each = zip(w.counts, sizes, w.window, w.stride, w.pads, self.around, strict=True)
        return tuple(max((c - 1) * s + k - n - p - a, 0) for c, n, k, s, p, a in each)

    def _element_counts(self) -> numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]:
        """How many elements each window counts."""
        total = numpy.ones((1,) * (len(self.sizes) + 1))
        w = self.windows
        for axis, (n, k, s, c, pair) in enumerate(
            zip(self.sizes, w.window, w.stride, w.counts, self.padding, strict=True)
        ):
            start = numpy.arange(c) * s - pair[0]
            along = numpy.minimum(start + k, n) - numpy.maximum(start, 0)
            shape = [1] * (len(self.sizes) + 1)
            shape[axis] = c
            total = total * along.reshape(shape)
        return total

    @property
    def widths(self) -> list[tuple[int, int]]:
        """Zeros to put around an image first."""
        return [(0, 0), *((p, p) for p in self.around), (0, 0)]


@lowers("avg_pool2d", "avg_pool3d", "avg_pool1d")
def average_pool(
    call: Call,
    x: Array,
    window: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of the elements of each window."""
    rank = int(call.name.partition("pool")[2][0])
    image = _batch(x, rank)
    means = _means(image.shape, window, stride, padding, ceil_mode, count_include_pad,
                   divisor_override)  # fmt: skip
    refuse(kind_of(image.dtype) != "f" or not image.size, f"pooling of {image.dtype}")
    if any(means.around):
        image = np.pad(image, means.widths)
    found = _AVG_POOL[rank](
        image, means.windows.window, stride=means.windows.stride, padding=means.padding
    )
    if means.factor is not None:
        found = np.multiply(found, cast(means.factor, found.dtype))
    return _as_given(found, x, rank)


def _means(
    shape: Shape,
    window: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    include_pad: bool,
    divisor: int | None,
) -> _Means:
    sizes = shape[1:-1]
    return _Means(
        sizes, _PoolWindows(sizes, window, stride, padding, ceil_mode), include_pad, divisor
    )


@lowers("avg_pool2d_backward", "avg_pool3d_backward")
def average_pool_backward(
    call: Call,
    gradient: Array,
    x: Array,
    window: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    """The gradient of an average pooling's input."""
    rank = int(call.name.partition("pool")[2][0])
    image, slope = _batch(x, rank), _batch(gradient, rank)
    means = _means(image.shape, window, stride, padding, ceil_mode, count_include_pad,
                   divisor_override)  # fmt: skip
    if means.factor is not None:
        slope = np.multiply(slope, cast(means.factor, slope.dtype))
    found = np.avg_pool_gradient(
        slope,
        means.windows.window,
        stride=means.windows.stride,
        padding=means.padding,
        input_shape=(image.shape[0], *means.sizes, image.shape[-1]),
    )
    inner = tuple(slice(p, p + n) for p, n in zip(means.around, image.shape[1:-1], strict=True))
    return _as_given(found[(slice(None), *inner)], x, rank)


def _adaptive(n: int, count: int) -> Array:
    """The matrix that averages `count` stretches of an axis of `n` elements."""
    rows = numpy.zeros((count, n))
    for i in range(count):
        start, stop = i * n // count, -(-(i + 1) * n // count)
        rows[i, start:stop] = 1 / (stop - start)
    return np.asarray(rows)


@lowers("_adaptive_avg_pool2d_backward")
def adaptive_pool_backward(call: Call, gradient: Array, x: Array) -> Array:
    """The gradient of the input of an average pooling to given sizes."""
    refuse(not x.size or not gradient.size, "pooling of nothing")
    rows = cast(_adaptive(x.shape[-2], gradient.shape[-2]), x.dtype)
    columns = cast(_adaptive(x.shape[-1], gradient.shape[-1]), x.dtype)
    return np.matmul(np.matrix_transpose(rows), np.matmul(gradient, columns))
