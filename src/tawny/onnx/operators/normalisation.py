"""Operators that take away means and divide by deviations, and dropout."""

from __future__ import annotations

import tawny.numpy as np
from tawny import random
from tawny.array import Array
from tawny.dtype import FLOAT32
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.elementwise import gelu, select
from tawny.onnx.table import MICROSOFT, operator


def beside_channels(x: Array, rank: int) -> Array:
    """One number for each channel, beside an array whose axis 1 they are."""
    return np.reshape(x, (-1, *(1,) * (rank - 2)))


@operator("BatchNormalization")
def batch_norm(call: NodeCall) -> tuple[Array, ...]:
    """Channels with the mean and variance of training, or of this batch, taken away."""
    x, scale, bias, mean, variance = (call.array(i) for i in range(5))
    if not call.flag("spatial", True):
        call.fail("spatial=0 is not supported")
    epsilon, rank = call.number("epsilon", 1e-5), max(x.ndim, 2)
    if not (call.opset >= 14 and call.flag("training_mode")):
        factor = scale / np.sqrt(variance + epsilon)
        shift = bias - mean * factor
        made = x * beside_channels(factor, rank) + beside_channels(shift, rank)
        return (made.astype(x.dtype),)
    axes, momentum = (0, *range(2, x.ndim)), call.number("momentum", 0.9)
    here, spread = np.mean(x, axis=axes), np.var(x, axis=axes)
    factor = scale / np.sqrt(spread + epsilon)
    shift = bias - here * factor
    made = x * beside_channels(factor, rank) + beside_channels(shift, rank)
    return (
        made.astype(x.dtype),
        (mean * momentum + here * (1 - momentum)).astype(mean.dtype),
        (variance * momentum + spread * (1 - momentum)).astype(variance.dtype),
    )


def standardise(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """`x` without its mean and over its deviation, the mean, and one over the deviation."""
    mean = np.mean(x, axis=axes, keepdims=True)
    inner = x - mean
    inverse = 1 / np.sqrt(np.mean(inner * inner, axis=axes, keepdims=True) + epsilon)
    return inner * inverse, mean, inverse


def _is_wide(call: NodeCall) -> bool:
    """Whether means are taken in float32."""
    return call.integer("stash_type", 1) == 1


@operator("InstanceNormalization")
def instance_norm(call: NodeCall) -> Array:
    """Each channel of each image without its mean and over its deviation."""
    x, scale, bias = call.array(0), call.array(1), call.array(2)
    made, _, _ = standardise(x, tuple(range(2, x.ndim)), call.number("epsilon", 1e-5))
    return made * beside_channels(scale, x.ndim) + beside_channels(bias, x.ndim)


@operator("GroupNormalization")
def group_norm(call: NodeCall) -> Array:
    """Groups of channels of each image without their mean and over their deviation."""
    x, scale, bias, groups = call.array(0), call.array(1), call.array(2), call.integer("num_groups")
    if groups < 1 or x.ndim < 2 or x.shape[1] % groups:
        call.fail(f"num_groups is {groups}, for an input of shape {x.shape}")
    wide = x.astype(FLOAT32) if x.dtype.itemsize < 4 and _is_wide(call) else x
    split = np.reshape(wide, (x.shape[0], groups, -1))
    made, _, _ = standardise(split, (2,), call.number("epsilon", 1e-5))
    made = np.reshape(made, x.shape)
    if scale.shape[0] == groups != x.shape[1]:  # before version 21
        scale, bias = (np.repeat(v, x.shape[1] // groups) for v in (scale, bias))
    made = made.astype(x.dtype)
    return made * beside_channels(scale, x.ndim) + beside_channels(bias, x.ndim)


@operator("LayerNormalization")
def layer_norm(call: NodeCall) -> tuple[Array, Array, Array]:
    """Axes from one on without their mean and over their deviation."""
    x, scale, bias = call.array(0), call.array(1), call.optional(2)
    axis = call.axis(call.integer("axis", -1), x.ndim)
    wide = x.astype(FLOAT32) if _is_wide(call) and x.dtype.itemsize < 4 else x
    made, mean, inverse = standardise(
        wide, tuple(range(axis, x.ndim)), call.number("epsilon", 1e-5)
    )
    made = made.astype(x.dtype) * scale
    return made if bias is None else made + bias, mean, inverse


def root_mean_square(x: Array, axes: tuple[int, ...], epsilon: float, wide: bool) -> Array:
    """`x` over the root of its mean square."""
    inner = x.astype(FLOAT32) if wide and x.dtype.itemsize < 4 else x
    mean = np.mean(inner * inner, axis=axes, keepdims=True)
    return (inner / np.sqrt(mean + epsilon)).astype(x.dtype)


@operator("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(call: NodeCall) -> Array:
    """Axes from one on over the root of their mean square."""
    x, scale = call.array(0), call.array(1)
    axis = call.axis(call.integer("axis", -1), x.ndim)
    axes = tuple(range(axis, x.ndim))
    return root_mean_square(x, axes, call.number("epsilon", 1e-5), _is_wide(call)) * scale


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(call: NodeCall) -> tuple[Array | None, ...]:
    """The sum of two arrays without its mean and over its deviation."""
    total = call.array(0) + call.array(1)
    bias = call.optional(4)
    total = total if bias is None else total + bias
    made, mean, inverse = standardise(total, (total.ndim - 1,), call.number("epsilon", 1e-12))
    made, shift = made * call.array(2), call.optional(3)
    return made if shift is None else made + shift, mean, inverse, total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(call: NodeCall) -> tuple[Array | None, ...]:
    """The sum of two arrays over the root of its mean square."""
    total, bias = call.array(0) + call.array(1), call.optional(3)
    total = total if bias is None else total + bias
    epsilon = call.number("epsilon", 1e-5)
    made = root_mean_square(total, (total.ndim - 1,), epsilon, wide=True) * call.array(2)
    return made, None, None, total


@operator("GroupNorm", "SkipGroupNorm", domain=MICROSOFT)
def group_norm_last(call: NodeCall) -> tuple[Array, Array]:
    """Groups of the last axis without their mean and over their deviation."""
    x, scale, bias = (call.array(i).astype(FLOAT32) for i in range(3))
    dtype = call.array(0).dtype
    if not call.flag("channels_last", True):
        call.fail("channels_last=0 is not supported")
    for i in range(3, len(call.operands)):  # what is skipped, and its bias
        addend = call.array(i)
        one_each = addend.ndim == 2
        x = x + (np.expand_dims(addend, (1, 2)) if one_each else addend).astype(FLOAT32)
    groups = call.integer("groups")
    if groups < 1 or x.shape[-1] % groups:
        call.fail(f"groups is {groups}, for an input of shape {x.shape}")
    split = np.reshape(x, (x.shape[0], -1, groups, x.shape[-1] // groups))
    made, _, _ = standardise(split, (1, 3), call.number("epsilon", 1e-5))
    made = np.reshape(made, x.shape) * scale + bias
    made = made * np.sigmoid(made) if call.integer("activation", 0) == 1 else made
    return made.astype(dtype), x.astype(dtype)


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(call: NodeCall) -> Array:
    """A bias of the last axis and another array, added."""
    return call.array(0) + call.array(1) + call.array(2)


@operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(call: NodeCall) -> Array:
    """One half of the last axis times the Gaussian unit of the other, after a bias is added."""
    x = call.array(0) + call.array(1)
    half = x.shape[-1] // 2
    return x[..., :half] * gelu(x[..., half:])


@operator("MeanVarianceNormalization")
def mean_variance_norm(call: NodeCall) -> Array:
    """Without the mean and over the deviation of some axes."""
    x = call.array(0)
    axes = call.axes(call.ints("axes", (0, 2, 3)), x.ndim)
    inner = x - np.mean(x, axis=axes, keepdims=True)
    return inner / (np.sqrt(np.mean(inner * inner, axis=axes, keepdims=True)) + 1e-9)


# -------------------------------------------------------------------- random


@operator("Dropout")
def dropout(call: NodeCall) -> tuple[Array, Array]:
    """Operand 0 as it is; in training, with some elements zero."""
    x = call.array(0)
    mask = np.ones(x.shape, "bool" if call.opset >= 10 else x.dtype)
    training = (
        call.opset >= 12
        and call.optional(2) is not None
        and bool(call.known_operand(2).reshape(()))
    )
    given = call.optional(1) if call.opset >= 12 else None
    ratio = 0.5 if given is None else np.reshape(given, ()).astype(x.dtype)
    if not training:
        return x, mask
    kept = np.greater_equal(random.uniform(shape=x.shape), ratio)
    return select(kept, x / (1 - ratio), np.zeros_like(x)), kept
