"""Kernels of the convolution chapter: matrix products over what the windows see.

Padding is laid out as zeros, which make no difference to sums of finite numbers.  Where the other
factor is not finite, the windows that see the input itself are taken tap by tap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from tawny.engine.reference.kernel import Value, cast, kernel
from tawny.engine.reference.window import (
    inside,
    inward,
    offsets,
    pad_spatial,
    padded_shape,
    wide,
    windows,
)
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.shape import Shape

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
    return pad_spatial and factor.dtype.kind in "fc" and not np.isfinite(factor).all()


def _tap_by_tap(op: ConvolutionOp, x: Value, weights: Value, out: Value) -> Value:
    """A convolution, added to `out`: for each tap the windows that see the input through it."""
    sizes, counts = x.shape[1:-1], out.shape[1:-1]
    for place in np.ndindex(*weights.shape[:-2]):
        seen, seeing = inward(place, sizes, op.strides, op.padding, op.dilation, counts)
        part = np.matmul(_matrices(x[seen], op.groups), _matrices(weights[place], op.groups))
        out[seeing] += _channels(part, out[seeing].shape)
    return out


def _slope_by_tap(op: ConvolutionOp, x: Value, slopes: Value, out: Value) -> Value:
    """The gradient of a kernel, written to `out`: each tap's from the windows that see with it."""
    sizes, counts = x.shape[1:-1], slopes.shape[1:-1]
    for place in np.ndindex(*out.shape[:-2]):
        seen, seeing = inward(place, sizes, op.strides, op.padding, op.dilation, counts)
        rows = _matrices(x[seen], op.groups).transpose(0, 2, 1)
        part = np.matmul(rows, _matrices(slopes[seeing], op.groups))
        out[place] = _channels(part, out[place].shape)
    return out


@kernel(Convolution)
def convolution(op: Convolution, x: Value, weights: Value) -> Value:
    """The windows as rows of a matrix, times the kernel as another."""
    dtype = wide(np.result_type(x, weights))
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


@kernel(ConvolutionInputGradient)
def input_gradient(op: ConvolutionInputGradient, weights: Value, gradient: Value) -> Value:
    """The gradient times the kernel at each place in the window, added where that was seen."""
    dtype = wide(np.result_type(weights, gradient))
    shape = op.infer_shape(weights.shape, gradient.shape)
    out = np.zeros(padded_shape(shape, op.padding), dtype)
    counts, window = gradient.shape[1:-1], weights.shape[:-2]
    if gradient.size:
        weights = cast(weights, dtype)
        slopes = np.ascontiguousarray(_matrices(cast(gradient, dtype), op.groups))
        for place, seen in offsets(window, op.strides, op.dilation, counts):
            back = _matrices(weights[place], op.groups).transpose(0, 2, 1)
            out[seen] += _channels(np.matmul(slopes, back), (*gradient.shape[:-1], shape[-1]))
    return out[inside(op.padding, op.sizes)]


@kernel(ConvolutionKernelGradient)
def kernel_gradient(op: ConvolutionKernelGradient, x: Value, gradient: Value) -> Value:
    """The windows as columns of a matrix, times the gradient."""
    dtype = wide(np.result_type(x, gradient))
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
