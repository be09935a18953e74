"""Convolutions and pools in ONNX, which has channels first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tawny.dtype import kind_of
from tawny.node import Node
from tawny.onnx.spelling.ops import spells
from tawny.onnx.writer import GraphWriter, refuse
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.ops.pooling import AvgPool, AvgPoolGradient, MaxPool, MaxPoolGradient, Upsampling
from tawny.ops.window import Pads, window_counts


def channels_first(w: GraphWriter, name: str, rank: int) -> str:
    """Channels moved to the front."""
    return w.transpose(name, (0, rank - 1, *range(1, rank - 1)))


def channels_last(w: GraphWriter, name: str, rank: int) -> str:
    """Channels moved to the end."""
    return w.transpose(name, (0, *range(2, rank), 1))


def _flat(pads: Pads) -> list[int]:
    return [b for b, _ in pads] + [a for _, a in pads]


def _kernel(w: GraphWriter, node: Node, name: str) -> str:
    """A kernel as (outputs, channels, *window)."""
    rank = len(node.shape)
    order = (rank - 1, rank - 2, *range(rank - 2))
    if node.value is not None and node.inputs == ():
        return w.array(np.transpose(node.value, order), "kernel")
    return w.transpose(name, order)


def _check_floating(node: Node) -> None:
    if kind_of(node.dtype) != "f":
        refuse(node, f" of {node.dtype}")


@spells(Convolution)
def _convolution(w: GraphWriter, node: Node, op: ConvolutionOp, names: Sequence[str]) -> str:
    _check_floating(node)
    rank = len(node.shape)
    x, kernel = (w.cast(n, i.dtype, node.dtype) for n, i in zip(names, node.inputs, strict=True))
    made = w.add(
        "Conv",
        channels_first(w, x, rank),
        _kernel(w, node.inputs[1], kernel),
        strides=list(op.strides),
        pads=_flat(op.padding),
        dilations=list(op.dilation),
        group=op.groups,
    )
    return channels_last(w, made, rank)


@spells(ConvolutionInputGradient)
def _input_gradient(
    w: GraphWriter, node: Node, op: ConvolutionInputGradient, names: Sequence[str]
) -> str:
    """A transposed convolution; what windows did not see, behind the last ones, is zero."""
    _check_floating(node)
    rank, kernel = len(node.shape), node.inputs[0]
    gradient = node.inputs[1]
    extra: list[int] = []
    for n, k, s, d, m, (b, a) in zip(
        op.sizes,
        kernel.shape[:-2],
        op.strides,
        op.dilation,
        gradient.shape[1:-1],
        op.padding,
        strict=True,
    ):
        extra.append(n - (s * (m - 1) + (k - 1) * d + 1 - b - a))
    made = w.add(
        "ConvTranspose",
        channels_first(w, names[1], rank),
        _kernel(w, kernel, names[0]),
        strides=list(op.strides),
        pads=_flat(op.padding),
        dilations=list(op.dilation),
        group=op.groups,
        output_padding=extra,
    )
    return channels_last(w, made, rank)


@spells(ConvolutionKernelGradient)
def _kernel_gradient(
    w: GraphWriter, node: Node, op: ConvolutionKernelGradient, names: Sequence[str]
) -> str:
    """A convolution of images, channels as batch, with the gradients of their results."""
    _check_floating(node)
    if op.groups != 1:
        refuse(node, " for several groups")
    rank = len(node.shape)
    spatial = tuple(range(1, rank - 1))
    x = w.transpose(names[0], (rank - 1, 0, *spatial))
    slope = w.transpose(names[1], (rank - 1, 0, *spatial))
    made = w.add(
        "Conv",
        x,
        slope,
        strides=list(op.dilation),
        pads=_flat(op.padding),
        dilations=list(op.strides),
    )
    for axis, n in enumerate(op.window, 2):
        made = w.slice(made, axis, 0, n)
    return w.transpose(made, (*range(2, rank), 0, 1))


def _pool(
    w: GraphWriter, operator: str, op: Any, name: str, count: int = 1, **more: Any
) -> list[str]:
    return w.add_parts(
        operator,
        name,
        count=count,
        kernel_shape=list(op.window),
        strides=list(op.strides),
        pads=_flat(op.padding),
        **more,
    )


@spells(MaxPool)
def _max_pool(w: GraphWriter, node: Node, op: MaxPool, names: Sequence[str]) -> str:
    rank = len(node.shape)
    return channels_last(w, _pool(w, "MaxPool", op, channels_first(w, names[0], rank))[0], rank)


@spells(AvgPool)
def _average_pool(w: GraphWriter, node: Node, op: AvgPool, names: Sequence[str]) -> str:
    _check_floating(node)
    rank = len(node.shape)
    x = w.cast(names[0], node.inputs[0].dtype, node.dtype)
    return channels_last(w, _pool(w, "AveragePool", op, channels_first(w, x, rank))[0], rank)


@spells(MaxPoolGradient)
def _max_pool_gradient(
    w: GraphWriter, node: Node, op: MaxPoolGradient, names: Sequence[str]
) -> str:
    """Gradients added where the greatest elements were found."""
    _check_floating(node)
    rank, shape = len(node.shape), node.shape
    _, places = _pool(w, "MaxPool", op, channels_first(w, names[0], rank), 2)
    count = math.prod(shape)
    slope = w.cast(names[1], node.inputs[1].dtype, node.dtype)
    flat = w.shape(channels_first(w, slope, rank), (-1,))
    zero = w.add("Expand", w.number(0, node.dtype), w.ints([count]))
    added = w.add("ScatterElements", zero, w.shape(places, (-1,)), flat, axis=0, reduction="add")
    return channels_last(w, w.shape(added, (shape[0], shape[-1], *shape[1:-1])), rank)


@spells(AvgPoolGradient)
def _average_pool_gradient(
    w: GraphWriter, node: Node, op: AvgPoolGradient, names: Sequence[str]
) -> str:
    """Each window's gradient, over the number of its elements, spread over them."""
    _check_floating(node)
    rank, shape, channels = len(node.shape), node.shape, node.shape[-1]
    sizes = shape[1:-1]
    counts = window_counts(sizes, op.window, op.strides, op.padding, "avg_pool_gradient")
    seen = np.ones((), node.dtype)
    for axis, (n, k, s, (b, _), m) in enumerate(
        zip(sizes, op.window, op.strides, op.padding, counts, strict=True)
    ):
        start = np.arange(m) * s - b
        inside = np.minimum(start + k, n) - np.maximum(start, 0)
        seen = seen * inside.reshape((-1, *(1,) * (len(sizes) - axis - 1)))
    share = w.array((1 / seen).astype(node.dtype)[None, None])
    slope = w.add("Mul", channels_first(w, names[0], rank), share)
    kernel = w.array(np.ones((channels, 1, *op.window), node.dtype))
    extra = [
        n - (s * (m - 1) + k - b - a)
        for n, k, s, (b, a), m in zip(sizes, op.window, op.strides, op.padding, counts, strict=True)
    ]
    made = w.add(
        "ConvTranspose",
        slope,
        kernel,
        strides=list(op.strides),
        pads=_flat(op.padding),
        group=channels,
        output_padding=extra,
    )
    return channels_last(w, made, rank)


@spells(Upsampling)
def _upsampling(w: GraphWriter, node: Node, op: Upsampling, names: Sequence[str]) -> str:
    made, shape = names[0], list(node.inputs[0].shape)
    for axis, factor in enumerate(op.factors, 1):
        split = [*shape[: axis + 1], 1, *shape[axis + 1 :]]
        wide = [*shape[: axis + 1], factor, *shape[axis + 1 :]]
        shape[axis] *= factor
        made = w.shape(w.add("Expand", w.shape(made, split), w.ints(wide)), shape)
    return made
