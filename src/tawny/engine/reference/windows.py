"""Kernels that slide windows over arrays of shape (batch, *spatial, channels).

Convolutions are matrix products over what the windows see, pooling is one pass over the array for
each place in the window.  The padding of convolutions is laid out as zeros, which make no
difference to sums of finite numbers.  Where the other factor is not finite, the windows that see
the input itself are taken tap by tap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tawny.dtype import DType, accumulation_dtype, kind_of
from tawny.engine.reference.kernel import Value, cast, kernel
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.ops.pooling import (
    AvgPool,
    AvgPoolGradient,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Pooling,
    Upsampling,
    UpsamplingGradient,
)
from tawny.ops.series import Correlate
from tawny.ops.window import Pads, spans
from tawny.shape import Shape


def padded_shape(shape: Shape, padding: Pads) -> Shape:
    """`shape` with its spatial axes padded."""
    sizes = [n + sum(p) for n, p in zip(shape[1:-1], padding, strict=True)]
    return (shape[0], *sizes, shape[-1])


def inner_slices(padding: Pads, sizes: Shape) -> tuple[slice, ...]:
    """Where in a padded array the elements of the array itself are."""
    return (slice(None), *(slice(p[0], p[0] + n) for p, n in zip(padding, sizes, strict=True)))


def pad_spatial(x: Value, padding: Pads, fill: Any = 0) -> Value:
    """`x` with `fill` around its spatial axes; itself where there is nothing to add."""
    if not any(map(sum, padding)):
        return x
    out = np.full(padded_shape(x.shape, padding), fill, x.dtype)
    out[inner_slices(padding, x.shape[1:-1])] = x
    return out


def windows(x: Value, window: Shape, strides: Shape, dilation: Shape, counts: Shape) -> Value:
    """A view (batch, *counts, *window, channels) of what each window sees in a padded array."""
    rank = len(window)
    seen = sliding_window_view(x, spans(window, dilation), axis=tuple(range(1, rank + 1)))
    places = tuple(slice(0, c * s, s) for c, s in zip(counts, strides, strict=True))
    holes = tuple(slice(None, None, d) for d in dilation)
    return np.moveaxis(seen[(slice(None), *places, slice(None), *holes)], rank + 1, -1)


def offsets(
    window: Shape, strides: Shape, dilation: Shape, counts: Shape
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """For each place in the window, in row-major order: the elements all windows see there."""
    for place in np.ndindex(*window):
        yield (
            place,
            (
                slice(None),
                *(
                    slice(o * d, o * d + c * s, s)
                    for o, d, c, s in zip(place, dilation, counts, strides, strict=True)
                ),
            ),
        )


def seen_and_seeing(
    place: tuple[int, ...],
    sizes: Shape,
    strides: Shape,
    padding: Pads,
    dilation: Shape,
    counts: Shape,
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Of an array without padding, what windows see at a place; and the windows that see there."""
    seen, seeing = [slice(None)], [slice(None)]
    for at, n, step, (before, _), hole, count in zip(
        place, sizes, strides, padding, dilation, counts, strict=True
    ):
        origin = at * hole - before
        first = max(-(origin // step), 0)
        last = max(min((n - 1 - origin) // step + 1, count), first)
        start = origin + first * step
        seen.append(slice(start, start + (last - first) * step, step))
        seeing.append(slice(first, last))
    return tuple(seen), tuple(seeing)


_MOST_BYTES: Final = 2**26
"""Windows are laid out for as many of the batch at a time as this holds, at least one."""


def _matrices(x: Value, groups: int) -> Value:
    """(..., channels) as (groups, rows, channels // groups)."""
    rows = math.prod(x.shape[:-1])
    return x.reshape(rows, groups, x.shape[-1] // groups).transpose(1, 0, 2)


def _channels(x: Value, shape: Shape) -> Value:
    """(groups, rows, channels // groups) as `shape`, which ends with all channels."""
    return x.transpose(1, 0, 2).reshape(shape)


def _laid_out(
    op: ConvolutionOp, x: Value, window: Shape, counts: Shape
) -> Iterator[tuple[slice, Value]]:
    """Parts of the batch, and what their windows see as (groups, rows, window * channels)."""
    channels, size = x.shape[-1] // op.groups, math.prod(window)
    each = math.prod(counts) * size * x.shape[-1] * x.itemsize
    step = max(_MOST_BYTES // max(each, 1), 1)
    for start in range(0, len(x), step):
        part = slice(start, min(start + step, len(x)))
        seen = windows(pad_spatial(x[part], op.padding), window, op.strides, op.dilation, counts)
        split = seen.reshape(*seen.shape[:-1], op.groups, channels)
        rows = (part.stop - part.start) * math.prod(counts)
        yield part, np.moveaxis(split, -2, 0).reshape(op.groups, rows, size * channels)


def _multiplies_padding(op: ConvolutionOp, factor: Value) -> bool:
    """Whether zeros laid out for padding would make NaN of what they are multiplied by."""
    pad_spatial = any(map(any, op.padding))
    return pad_spatial and kind_of(factor.dtype) in "fc" and not np.isfinite(factor).all()


def _tap_by_tap(op: ConvolutionOp, x: Value, weights: Value, out: Value) -> Value:
    """A convolution, added to `out`: for each tap the windows that see the input through it."""
    sizes, counts = x.shape[1:-1], out.shape[1:-1]
    for place in np.ndindex(*weights.shape[:-2]):
        seen, seeing = seen_and_seeing(place, sizes, op.strides, op.padding, op.dilation, counts)
        part = np.matmul(_matrices(x[seen], op.groups), _matrices(weights[place], op.groups))
        out[seeing] += _channels(part, out[seeing].shape)
    return out


def _slope_by_tap(op: ConvolutionOp, x: Value, slopes: Value, out: Value) -> Value:
    """The gradient of a kernel, written to `out`: each tap's from the windows that see with it."""
    sizes, counts = x.shape[1:-1], slopes.shape[1:-1]
    for place in np.ndindex(*out.shape[:-2]):
        seen, seeing = seen_and_seeing(place, sizes, op.strides, op.padding, op.dilation, counts)
        rows = _matrices(x[seen], op.groups).transpose(0, 2, 1)
        part = np.matmul(rows, _matrices(slopes[seeing], op.groups))
        out[place] = _channels(part, out[place].shape)
    return out


@kernel(Convolution, composed=True)
def convolution(op: Convolution, x: Value, weights: Value) -> Value:
    """The windows as rows of a matrix, times the kernel as another."""
    dtype = accumulation_dtype(np.result_type(x, weights))
    shape = op.infer_shape(x.shape, weights.shape)
    out = np.zeros(shape, dtype)
    if 0 in shape:
        return out
    if _multiplies_padding(op, weights):
        return _tap_by_tap(op, cast(x, dtype), cast(weights, dtype), out)
    matrix = np.ascontiguousarray(_matrices(cast(weights, dtype), op.groups))
    for part, rows in _laid_out(op, cast(x, dtype), weights.shape[:-2], shape[1:-1]):
        out[part] = _channels(np.matmul(rows, matrix), out[part].shape)
    return out


@kernel(ConvolutionInputGradient, composed=True)
def input_gradient(op: ConvolutionInputGradient, weights: Value, gradient: Value) -> Value:
    """The gradient times the kernel at each place in the window, added where that was seen."""
    dtype = accumulation_dtype(np.result_type(weights, gradient))
    shape = op.infer_shape(weights.shape, gradient.shape)
    out = np.zeros(padded_shape(shape, op.padding), dtype)
    counts, window = gradient.shape[1:-1], weights.shape[:-2]
    if gradient.size:
        weights = cast(weights, dtype)
        slopes = np.ascontiguousarray(_matrices(cast(gradient, dtype), op.groups))
        for place, seen in offsets(window, op.strides, op.dilation, counts):
            back = _matrices(weights[place], op.groups).transpose(0, 2, 1)
            out[seen] += _channels(np.matmul(slopes, back), (*gradient.shape[:-1], shape[-1]))
    return out[inner_slices(op.padding, op.sizes)]


@kernel(ConvolutionKernelGradient, composed=True)
def kernel_gradient(op: ConvolutionKernelGradient, x: Value, gradient: Value) -> Value:
    """The windows as columns of a matrix, times the gradient."""
    dtype = accumulation_dtype(np.result_type(x, gradient))
    shape = op.infer_shape(x.shape, gradient.shape)
    rows, outputs = math.prod(shape[:-1]), shape[-1]
    total = np.zeros((op.groups, rows, outputs // op.groups), dtype)
    if gradient.size and x.size:
        slopes = cast(gradient, dtype)
        if _multiplies_padding(op, gradient):
            return _slope_by_tap(op, cast(x, dtype), slopes, np.zeros(shape, dtype))
        for part, seen in _laid_out(op, cast(x, dtype), op.window, gradient.shape[1:-1]):
            total += np.matmul(seen.transpose(0, 2, 1), _matrices(slopes[part], op.groups))
    return _channels(total, shape)


@kernel(Correlate)
def correlate(op: Correlate, a: Value, v: Value) -> Any:
    """NumPy's own."""
    return np.correlate(a, v, op.mode)  # type: ignore[call-overload]


def _places(op: Pooling, counts: Shape) -> Iterator[tuple[slice, ...]]:
    """For each place in the window: the elements all windows see there."""
    for _, seen in offsets(op.window, op.strides, (1,) * len(op.window), counts):
        yield seen


def _least_value(dtype: DType) -> Any:
    """What is never greater than an element."""
    if kind_of(dtype) == "f":
        return -np.inf
    return np.iinfo(dtype).min if dtype.kind in "iu" else False


@kernel(MaxPool, composed=True)
def max_pool(op: MaxPool, x: Value) -> Value:
    """The greatest of the shifted copies."""
    shape = op.infer_shape(x.shape)
    out = np.full(shape, _least_value(x.dtype), x.dtype)
    if out.size:
        whole = pad_spatial(x, op.padding, _least_value(x.dtype))
        for seen in _places(op, shape[1:-1]):
            np.maximum(out, whole[seen], out=out)
    return out


def _first_maxima(op: Pooling, x: Value, counts: Shape) -> Value:
    """For each window, which place in it has the first of its greatest elements."""
    shape = (x.shape[0], *counts, x.shape[-1])
    best = np.full(shape, _least_value(x.dtype), x.dtype)
    which = np.full(shape, -1, np.intp)
    whole = pad_spatial(x, op.padding, _least_value(x.dtype))
    real = pad_spatial(np.ones((1, *x.shape[1:-1], 1), bool), op.padding, False)
    for index, seen in enumerate(_places(op, counts)):
        value = whole[seen]
        better = (which < 0) | (value > best) | (np.isnan(value) & ~np.isnan(best))
        better &= real[seen]
        np.copyto(best, value, where=better)
        which[better] = index
    return which


@kernel(MaxPoolGradient, composed=True)
def max_pool_gradient(op: MaxPoolGradient, x: Value, gradient: Value) -> Value:
    """Each window's gradient added where its first maximum is."""
    counts = gradient.shape[1:-1]
    out = np.zeros(padded_shape(x.shape, op.padding), accumulation_dtype(gradient.dtype))
    if gradient.size:
        which = _first_maxima(op, x, counts)
        for index, seen in enumerate(_places(op, counts)):
            np.add(out[seen], gradient, out=out[seen], where=which == index)
    return out[inner_slices(op.padding, x.shape[1:-1])]


@kernel(MaxPoolSelect, composed=True)
def max_pool_select(op: MaxPoolSelect, x: Value, choices: Value) -> Value:
    """Each window's choice is taken where its first maximum is."""
    shape = op.infer_shape(x.shape, choices.shape)
    out = np.zeros(shape, choices.dtype)
    if out.size:
        which = _first_maxima(op, x, shape[1:-1])
        whole = pad_spatial(choices, op.padding)
        for index, seen in enumerate(_places(op, shape[1:-1])):
            np.copyto(out, whole[seen], where=which == index)
    return out


def _elements(op: Pooling, sizes: Shape, counts: Shape) -> Value:
    """How many elements, padding apart, each window sees."""
    real = pad_spatial(np.ones((1, *sizes, 1)), op.padding)
    total = np.zeros((1, *counts, 1))
    for seen in _places(op, counts):
        total += real[seen]
    return total


@kernel(AvgPool, composed=True)
def avg_pool(op: AvgPool, x: Value) -> Value:
    """The sum of the shifted copies over the number of elements."""
    dtype = accumulation_dtype(op.infer_dtype(x.dtype))
    shape = op.infer_shape(x.shape)
    out = np.zeros(shape, dtype)
    if out.size:
        whole = pad_spatial(cast(x, dtype), op.padding)
        for seen in _places(op, shape[1:-1]):
            out += whole[seen]
        out /= _elements(op, x.shape[1:-1], shape[1:-1]).astype(dtype)
    return out


@kernel(AvgPoolGradient, composed=True)
def avg_pool_gradient(op: AvgPoolGradient, gradient: Value) -> Value:
    """Each window's gradient spread evenly over what it sees."""
    dtype = accumulation_dtype(op.infer_dtype(gradient.dtype))
    shape, counts = op.infer_shape(gradient.shape), gradient.shape[1:-1]
    out = np.zeros(padded_shape(shape, op.padding), dtype)
    if gradient.size:
        share = cast(gradient, dtype) / _elements(op, op.sizes, counts).astype(dtype)
        for seen in _places(op, counts):
            out[seen] += share
    return out[inner_slices(op.padding, op.sizes)]


@kernel(Upsampling)
def upsampling(op: Upsampling, x: Value) -> Value:
    """Repetition, one axis at a time."""
    for axis, factor in enumerate(op.factors, 1):
        x = np.repeat(x, factor, axis)
    return x


@kernel(UpsamplingGradient)
def upsampling_gradient(op: UpsamplingGradient, gradient: Value) -> Value:
    """The sum over the blocks."""
    batch, *sizes, channels = op.infer_shape(gradient.shape)
    split = [n for pair in zip(sizes, op.factors, strict=True) for n in pair]
    axes = tuple(range(2, 2 + len(split), 2))
    return np.sum(
        gradient.reshape(batch, *split, channels),
        axis=axes,
        dtype=accumulation_dtype(gradient.dtype),
    )
