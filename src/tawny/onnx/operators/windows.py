"""Operators over sliding windows: convolutions, pooling and their likes.

The files have channels first; arrays here have them last.  Each operator moves them there and back,
and the optimiser takes away what such moves undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from math import ceil, prod
from typing import Any

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import kind_of
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import apply_activation, select
from tawny.onnx.operators.movement import pad_with
from tawny.onnx.table import MICROSOFT, operator
from tawny.ops.window import Pads

CONVOLUTIONS = (np.conv1d, np.conv2d, np.conv3d)
MAX_POOLS = (np.max_pool1d, np.max_pool2d, np.max_pool3d)
AVERAGE_POOLS = (np.avg_pool1d, np.avg_pool2d, np.avg_pool3d)
"""By the number of spatial axes, less one."""


def channels_last(x: Array) -> Array:
    """From (batch, channels, *spatial) to (batch, *spatial, channels)."""
    return np.permute_dims(x, (0, *range(2, x.ndim), 1))


def channels_first(x: Array) -> Array:
    """From (batch, *spatial, channels) to (batch, channels, *spatial)."""
    return np.permute_dims(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def kernel_last(kernel: Array) -> Array:
    """From (outputs, channels, *window) to (*window, channels, outputs)."""
    return np.permute_dims(kernel, (*range(2, kernel.ndim), 1, 0))


# ------------------------------------------------------------------- geometry


class WindowGeometry:
    """The geometry of windows over the spatial axes of an input, as a node's attributes say it."""

    def __init__(self, call: NodeCall, sizes: Sequence[int], window: Sequence[int]) -> None:
        rank = len(sizes)
        self.call = call
        self.sizes, self.window = tuple(sizes), tuple(window)
        self.strides = call.ints("strides", (1,) * rank)
        self.dilation = call.ints("dilations", (1,) * rank)
        if not rank or not len(self.window) == len(self.strides) == len(self.dilation) == rank:
            call.fail(
                f"kernel {self.window}, strides {self.strides}, dilations {self.dilation} are not "
                f"for the {rank} spatial axes of operand 0"
            )
        if min(*self.window, *self.strides, *self.dilation) < 1:
            call.fail("kernel_shape, strides and dilations must be at least 1")
        self.spans = tuple((w - 1) * d + 1 for w, d in zip(self.window, self.dilation, strict=True))
        self.pads = self._padding(call)
        self.ceiling = call.flag("ceil_mode")
        self.counts = tuple(map(self._count, range(rank)))
        if min(self.counts) < 0:
            call.fail(f"the window {self.window} does not fit an input of {self.sizes}")

    def _padding(self, call: NodeCall) -> Pads:
        rank = len(self.sizes)
        auto = call.choice("auto_pad", "NOTSET", ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
        if auto == "VALID":
            return ((0, 0),) * rank
        if auto == "NOTSET":
            flat = call.ints("pads", (0,) * (2 * rank))
            if len(flat) != 2 * rank or min(flat) < 0:
                call.fail(f"pads are {flat}; expected {2 * rank} of them, none negative")
            return tuple(zip(flat[:rank], flat[rank:], strict=True))
        found: list[tuple[int, int]] = []
        for n, span, stride in zip(self.sizes, self.spans, self.strides, strict=True):
            total = max(0, (-(-n // stride) - 1) * stride + span - n)
            less = total // 2
            found.append((less, total - less) if auto == "SAME_UPPER" else (total - less, less))
        return tuple(found)

    def _count(self, axis: int) -> int:
        """How many windows there are along an axis."""
        n, span, stride = self.sizes[axis], self.spans[axis], self.strides[axis]
        before, after = self.pads[axis]
        room = n + before + after - span
        if not self.ceiling:
            return room // stride + 1
        count = ceil(room / stride) + 1
        return count - ((count - 1) * stride >= n + before)

    @property
    def rest(self) -> Pads:
        """What windows reach beyond the padding, behind each axis."""
        found: list[tuple[int, int]] = []
        for axis, (before, after) in enumerate(self.pads):
            end = (self.counts[axis] - 1) * self.strides[axis] + self.spans[axis]
            found.append((0, max(0, end - self.sizes[axis] - before - after)))
        return tuple(found)

    @property
    def all_pads(self) -> Pads:
        """Padding, with what windows reach beyond it."""
        return tuple((b, a + more) for (b, a), (_, more) in zip(self.pads, self.rest, strict=True))

    def views(self, x: Array) -> Iterator[Array]:
        """What all windows see at each place in them; `x` is channels last, padded."""
        self.call.check_steps(prod(self.window), "a window")
        for place in product(*map(range, self.window)):
            key = tuple(
                slice(p * d, p * d + (count - 1) * s + 1, s)
                for p, d, s, count in zip(
                    place, self.dilation, self.strides, self.counts, strict=True
                )
            )
            yield x[(slice(None), *key)]

    def is_plain(self, pads: Pads) -> bool:
        """Whether a pooling of the op table has this geometry."""
        inside = all(max(pair) < w for pair, w in zip(pads, self.window, strict=True))
        return inside and max(self.dilation) == 1 and len(self.sizes) <= 3


def _pad(x: Array, pads: Pads, fill: float) -> Array:
    if not any(w for pair in pads for w in pair):
        return x
    return np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=fill)


# --------------------------------------------------------------- convolutions


def convolve(call: NodeCall, x: Array, kernel: Array) -> Array:
    """The convolution of an input and a kernel of the file; channels last."""
    if not 3 <= x.ndim <= 5 or kernel.ndim != x.ndim:
        call.fail(f"shapes {x.shape} and {kernel.shape} are not of 1 to 3 spatial axes")
    window = WindowGeometry(call, x.shape[2:], kernel.shape[2:])
    if call.ints("kernel_shape", kernel.shape[2:]) != kernel.shape[2:]:
        call.fail(f"kernel_shape is {call.ints('kernel_shape')}; operand 1 has {kernel.shape[2:]}")
    return CONVOLUTIONS[x.ndim - 3](
        channels_last(x),
        kernel_last(kernel),
        stride=window.strides,
        padding=window.pads,
        dilation=window.dilation,
        groups=call.integer("group", 1),
    )


@operator("Conv")
def _conv(call: NodeCall) -> Array:
    return convolution(call)


def convolution(call: NodeCall) -> Array:
    """A kernel swept over an input, and a bias."""
    made, bias = convolve(call, call.array(0), call.array(1)), call.optional(2)
    return channels_first(made if bias is None else made + bias)


@operator("FusedConv", domain=MICROSOFT)
def fused_convolution(call: NodeCall) -> Array:
    """A kernel swept over an input, a bias, an array that is added, and a function of all that."""
    made = convolution(call)
    addend = call.optional(3)
    made = made if addend is None else made + addend
    if not call.has("activation"):
        return made
    given = call.floats("activation_params", ())
    return apply_activation(call, made, call.text("activation"), given)


@operator("ConvTranspose")
def transposed_convolution(call: NodeCall) -> Array:
    """The transpose of a convolution, and a bias."""
    x, kernel, bias = call.array(0), call.array(1), call.optional(2)
    if not 3 <= x.ndim <= 5 or kernel.ndim != x.ndim:
        call.fail(f"shapes {x.shape} and {kernel.shape} are not of 1 to 3 spatial axes")
    rank, groups = x.ndim - 2, call.integer("group", 1)
    strides, dilation = call.ints("strides", (1,) * rank), call.ints("dilations", (1,) * rank)
    extra = call.ints("output_padding", (0,) * rank)
    if not len(strides) == len(dilation) == len(extra) == rank:
        call.fail(f"strides, dilations and output_padding are not for {rank} spatial axes")
    whole = [
        s * (n - 1) + (k - 1) * d + 1
        for n, k, s, d in zip(x.shape[2:], kernel.shape[2:], strides, dilation, strict=True)
    ]
    made = np.conv_input_gradient(
        kernel_last(kernel),
        channels_last(x),
        input_shape=(x.shape[0], *whole, kernel.shape[1] * groups),
        stride=strides,
        dilation=dilation,
        groups=groups,
    )
    widths = _transposed_widths(call, whole, extra, x.shape[2:], strides)
    made = pad_with(made, ((0, 0), *widths, (0, 0)), "constant", 0.0, call)
    return channels_first(made if bias is None else made + bias)


def _transposed_widths(
    call: NodeCall,
    whole: Sequence[int],
    extra: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> list[tuple[int, int]]:
    """What is put around the whole transposed convolution, or taken away where negative."""
    rank = len(whole)
    auto = call.choice("auto_pad", "NOTSET", ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    wanted = call.ints("output_shape")[-rank:] if call.has("output_shape") else None
    if wanted is None and auto.startswith("SAME"):
        wanted = tuple(n * s for n, s in zip(sizes, strides, strict=True))
    if wanted is None:
        flat = call.ints("pads", (0,) * (2 * rank)) if auto == "NOTSET" else (0,) * (2 * rank)
        if len(flat) != 2 * rank:
            call.fail(f"pads are {flat}; expected {2 * rank} of them")
        return [(-flat[i], extra[i] - flat[rank + i]) for i in range(rank)]
    found: list[tuple[int, int]] = []
    for n, more, size in zip(whole, extra, wanted, strict=True):
        total = n + more - size
        half = total // 2
        before, after = (half, total - half) if auto != "SAME_LOWER" else (total - half, half)
        if auto == "NOTSET":
            before, after = total - half, half
        found.append((-before, more - after))
    return found


# ------------------------------------------------------------------- pooling


def _pool_window(call: NodeCall, x: Array) -> WindowGeometry:
    return WindowGeometry(call, x.shape[2:], call.ints("kernel_shape"))


def _lowest(x: Array) -> float | int:
    return -np.inf if kind_of(x.dtype) == "f" else int(np.iinfo(x.dtype).min)


@operator("MaxPool")
def max_pool(call: NodeCall) -> tuple[Array, ...]:
    """The greatest element of each window, and its place among all elements."""
    x = call.array(0)
    window, last = _pool_window(call, x), channels_last(x)
    pads = window.all_pads
    wants_places = len(call.wants) > 1 and call.wants[1]
    if window.is_plain(pads):
        given: dict[str, Any] = {
            "window": window.window,
            "stride": window.strides,
            "padding": pads,
        }
        rank = len(window.sizes) - 1
        made = (channels_first(MAX_POOLS[rank](last, **given)),)
        if not wants_places:
            return made
        places = channels_last(_places(call, x))
        return (*made, channels_first(np.max_pool_select(last, places, **given)))
    views = list(window.views(_pad(last, pads, _lowest(x))))
    made = (channels_first(reduce(np.maximum, views)),)
    if not wants_places:
        return made
    seen = list(window.views(_pad(channels_last(_places(call, x)), pads, -1)))
    best, place = views[0], seen[0]
    for view, there in zip(views[1:], seen[1:], strict=True):
        better = (view > best) | (place < 0)
        best, place = select(better, view, best), select(better, there, place)
    return (*made, channels_first(place))


def _places(call: NodeCall, x: Array) -> Array:
    """The number of each element, in the order of rows or of columns."""
    count = prod(x.shape)
    if call.flag("storage_order"):
        order = (0, 1, *range(x.ndim - 1, 1, -1))
        flat = np.reshape(np.arange(count), [x.shape[a] for a in order])
        return np.permute_dims(flat, order)
    return np.reshape(np.arange(count), x.shape)


@operator("AveragePool")
def average_pool(call: NodeCall) -> Array:
    """The mean of each window; padding is counted, or not."""
    return mean_of_windows(call, call.array(0))


def mean_of_windows(call: NodeCall, x: Array) -> Array:
    """The mean of each window over `x`."""
    window, last = _pool_window(call, x), channels_last(x)
    if call.flag("count_include_pad"):
        last, pads = _pad(last, window.pads, 0), window.rest
    else:
        pads = window.all_pads
    if window.is_plain(pads):
        pool = AVERAGE_POOLS[len(window.sizes) - 1]
        return channels_first(pool(last, window.window, stride=window.strides, padding=pads))
    sums = reduce(np.add, window.views(_pad(last, pads, 0)))
    ones = numpy.ones((1, *last.shape[1:-1], 1), x.dtype)
    counts = reduce(np.add, window.views(_pad(np.asarray(ones), pads, 0)))
    return channels_first(sums / counts)


@operator("LpPool")
def lp_pool(call: NodeCall) -> Array:
    """The norm of each window."""
    x, p = call.array(0), call.integer("p", 2)
    window = _pool_window(call, x)
    powers = _pad(np.abs(channels_last(x)) ** p, window.all_pads, 0)
    return channels_first(reduce(np.add, window.views(powers)) ** (1 / p))


def _global(function: Callable[..., Array]) -> Callable[[NodeCall], Array]:
    def meaning(call: NodeCall) -> Array:
        x = call.array(0)
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return meaning


operator("GlobalAveragePool")(_global(np.mean))
operator("GlobalMaxPool")(_global(np.max))


@operator("GlobalLpPool")
def global_lp_pool(call: NodeCall) -> Array:
    """The norm of each channel."""
    x, p = call.array(0), call.integer("p", 2)
    powers = np.sum(np.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True)
    return powers ** (1 / p)


@operator("MaxUnpool")
def max_unpool(call: NodeCall) -> Array:
    """Elements at their places among zeros."""
    x, places = call.array(0), call.array(1)
    shape = call.known_optional_ints(2)
    whole = x.shape[:2] + tuple(
        (n - 1) * s + w - b - a
        for n, w, s, b, a in zip(
            x.shape[2:],
            call.ints("kernel_shape"),
            call.ints("strides", (1,) * (x.ndim - 2)),
            call.ints("pads", (0,) * (2 * (x.ndim - 2)))[: x.ndim - 2],
            call.ints("pads", (0,) * (2 * (x.ndim - 2)))[x.ndim - 2 :],
            strict=True,
        )
    )
    flat = np.at(np.zeros((prod(whole),), x.dtype))[np.ravel(places)].set(np.ravel(x))
    made = np.reshape(flat, whole)
    if shape is None or shape == whole:
        return made
    widths = [(0, wanted - n) for n, wanted in zip(whole, shape, strict=True)]
    return pad_with(made, widths, "constant", 0.0, call)


@operator("Col2Im")
def columns_to_image(call: NodeCall) -> Array:
    """Columns of windows, added where they were taken from."""
    x, sizes, block = call.array(0), call.known_ints(1), call.known_ints(2)
    window = WindowGeometry(call, sizes, block)
    call.check_steps(prod(block), "a window")
    channels = x.shape[1] // prod(block)
    columns = np.reshape(x, (x.shape[0], channels, *block, *window.counts))
    padded = tuple(n + b + a for n, (b, a) in zip(sizes, window.pads, strict=True))
    image = np.zeros((x.shape[0], channels, *padded), x.dtype)
    for place in product(*map(range, block)):
        key = tuple(
            slice(p * d, p * d + (count - 1) * s + 1, s)
            for p, d, s, count in zip(
                place, window.dilation, window.strides, window.counts, strict=True
            )
        )
        both = (slice(None), slice(None))
        image = np.at(image)[(*both, *key)].add(columns[(*both, *place)])
    kept = tuple(slice(b, b + n) for n, (b, _) in zip(sizes, window.pads, strict=True))
    return image[(slice(None), slice(None), *kept)]


@operator("LRN")
def local_response(call: NodeCall) -> Array:
    """Elements over a power of the squares of neighbouring channels."""
    x, size = call.array(0), call.integer("size")
    alpha, beta = call.number("alpha", 0.0001), call.number("beta", 0.75)
    call.check_steps(size, "a window of channels")
    before = (size - 1) // 2
    squares = channels_last(x * x)
    widths = [(0, 0)] * (x.ndim - 1) + [(before, size - 1 - before)]
    padded, n = np.pad(squares, widths), x.shape[1]
    sums = reduce(np.add, (padded[..., i : i + n] for i in range(size)))
    return x / channels_first((call.number("bias", 1.0) + alpha / size * sums) ** beta)
