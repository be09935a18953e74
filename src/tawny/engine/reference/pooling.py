"""Kernels of the pooling chapter: one pass over the array for each place in the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tawny.dtype import DType
from tawny.engine.reference.kernel import Value, cast, kernel
from tawny.engine.reference.window import inside, offsets, pad_spatial, padded_shape, wide
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
from tawny.shape import Shape


def _places(op: Pooling, counts: Shape) -> Iterator[tuple[slice, ...]]:
    """For each place in the window: the elements all windows see there."""
    for _, seen in offsets(op.window, op.strides, (1,) * len(op.window), counts):
        yield seen


def _least(dtype: DType) -> Any:
    """What is never greater than an element."""
    if dtype.kind == "f":
        return -np.inf
    return np.iinfo(dtype).min if dtype.kind in "iu" else False


@kernel(MaxPool)
def max_pool(op: MaxPool, x: Value) -> Value:
    """The greatest of the shifted copies."""
    shape = op.infer_shape(x.shape)
    out = np.full(shape, _least(x.dtype), x.dtype)
    if out.size:
        whole = pad_spatial(x, op.padding, _least(x.dtype))
        for seen in _places(op, shape[1:-1]):
            np.maximum(out, whole[seen], out=out)
    return out


def _first_maxima(op: Pooling, x: Value, counts: Shape) -> Value:
    """For each window, which place in it has the first of its greatest elements."""
    shape = (x.shape[0], *counts, x.shape[-1])
    best = np.full(shape, _least(x.dtype), x.dtype)
    which = np.full(shape, -1, np.intp)
    whole = pad_spatial(x, op.padding, _least(x.dtype))
    real = pad_spatial(np.ones((1, *x.shape[1:-1], 1), bool), op.padding, False)
    for index, seen in enumerate(_places(op, counts)):
        value = whole[seen]
        better = (which < 0) | (value > best) | (np.isnan(value) & ~np.isnan(best))
        better &= real[seen]
        np.copyto(best, value, where=better)
        which[better] = index
    return which


@kernel(MaxPoolGradient)
def max_pool_gradient(op: MaxPoolGradient, x: Value, gradient: Value) -> Value:
    """Each window's gradient added where its first maximum is."""
    counts = gradient.shape[1:-1]
    out = np.zeros(padded_shape(x.shape, op.padding), wide(gradient.dtype))
    if gradient.size:
        which = _first_maxima(op, x, counts)
        for index, seen in enumerate(_places(op, counts)):
            np.add(out[seen], gradient, out=out[seen], where=which == index)
    return out[inside(op.padding, x.shape[1:-1])]


@kernel(MaxPoolSelect)
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


@kernel(AvgPool)
def avg_pool(op: AvgPool, x: Value) -> Value:
    """The sum of the shifted copies over the number of elements."""
    dtype = wide(op.infer_dtype(x.dtype))
    shape = op.infer_shape(x.shape)
    out = np.zeros(shape, dtype)
    if out.size:
        whole = pad_spatial(cast(x, dtype), op.padding)
        for seen in _places(op, shape[1:-1]):
            out += whole[seen]
        out /= _elements(op, x.shape[1:-1], shape[1:-1]).astype(dtype)
    return out


@kernel(AvgPoolGradient)
def avg_pool_gradient(op: AvgPoolGradient, gradient: Value) -> Value:
    """Each window's gradient spread evenly over what it sees."""
    dtype = wide(op.infer_dtype(gradient.dtype))
    shape, counts = op.infer_shape(gradient.shape), gradient.shape[1:-1]
    out = np.zeros(padded_shape(shape, op.padding), dtype)
    if gradient.size:
        share = cast(gradient, dtype) / _elements(op, op.sizes, counts).astype(dtype)
        for seen in _places(op, counts):
            out[seen] += share
    return out[inside(op.padding, op.sizes)]


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
    return np.sum(gradient.reshape(batch, *split, channels), axis=axes, dtype=wide(gradient.dtype))
