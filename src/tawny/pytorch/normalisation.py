"""Normalisations over batches, layers and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tawny.numpy as np
from tawny.array import Array
from tawny.pytorch.products import standardise
from tawny.pytorch.table import Call, cast, lowers, refuse


@lowers("native_layer_norm")
def normalise_layer(
    call: Call,
    x: Array,
    shape: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Mean 0 and variance 1 over the last axes; the result, the means, the factors."""
    axes = range(x.ndim - len(shape), x.ndim)
    y, mean, scale = standardise(x, axes, epsilon)
    if weight is not None:
        y = np.multiply(y, weight)
    if bias is not None:
        y = np.add(y, bias)
    return y, mean, scale


@lowers("native_group_norm")
def normalise_groups(
    call: Call,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    images: int,
    channels: int,
    places: int,
    groups: int,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Mean 0 and variance 1 over groups of channels; the result, the means, the factors."""
    refuse(not x.size, "groups of nothing")
    y, mean, scale = standardise(np.reshape(x, (images, groups, -1)), (2,), epsilon)
    y = np.reshape(y, x.shape)
    if weight is not None:
        y = np.multiply(y, _per_channel(weight, x.ndim))
    if bias is not None:
        y = np.add(y, _per_channel(bias, x.ndim))
    return y, np.reshape(mean, (images, groups)), np.reshape(scale, (images, groups))


def _per_channel(x: Array, rank: int) -> Array:
    """A vector along axis 1."""
    return np.reshape(x, (1, -1, *(1,) * (rank - 2)))


def _affine(x: Array, weight: Array | None, bias: Array | None, mean: Array, scale: Array) -> Array:
    """Each channel with its scale and shift."""
    factor = scale if weight is None else np.multiply(scale, weight)
    y = np.multiply(np.subtract(x, _per_channel(mean, x.ndim)), _per_channel(factor, x.ndim))
    return y if bias is None else np.add(y, _per_channel(bias, x.ndim))


@lowers("_native_batch_norm_legit_no_training")
def normalise_batch_as_known(
    call: Call,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    momentum: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    """Each channel by known means and variances."""
    scale = np.reciprocal(np.sqrt(np.add(variance, cast(epsilon, variance.dtype))))
    factor = scale if weight is None else np.multiply(scale, weight)
    shift = np.negative(np.multiply(mean, factor))
    if bias is not None:
        shift = np.add(shift, bias)
    y = np.add(np.multiply(x, _per_channel(factor, x.ndim)), _per_channel(shift, x.ndim))
    empty = np.zeros((0,), call.dtype_of(1))
    return cast(y, call.dtype), empty, empty


@lowers("_native_batch_norm_legit_functional")
def normalise_batch(
    call: Call,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_variance: Array,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Array, ...]:
    """Each channel by its mean and variance; then these, and the running ones' new values."""
    if not training:
        y, *_ = normalise_batch_as_known(
            call, x, weight, bias, running_mean, running_variance, momentum, epsilon
        )
        empty = np.zeros((0,), call.dtype_of(1))
        return y, empty, empty, running_mean, running_variance
    y, mean, scale, variance = _by_batch(x, weight, bias, epsilon)
    count = x.size // max(x.shape[1], 1)
    unbiased = np.multiply(variance, cast(count / max(count - 1, 1), variance.dtype))
    return (
        y,
        mean,
        scale,
        _blend(running_mean, mean, momentum),
        _blend(running_variance, unbiased, momentum),
    )


def _blend(old: Array, new: Array, momentum: float) -> Array:
    part = np.multiply(cast(new, old.dtype), cast(momentum, old.dtype))
    return np.add(part, np.multiply(old, cast(1 - momentum, old.dtype)))


def _by_batch(
    x: Array, weight: Array | None, bias: Array | None, epsilon: float
) -> tuple[Array, Array, Array, Array]:
    axes = tuple(a for a in range(x.ndim) if a != 1)
    refuse(not math.prod(x.shape), "a batch of nothing")
    mean = np.mean(x, axis=axes)
    offset = np.subtract(x, _per_channel(mean, x.ndim))
    variance = np.mean(np.square(offset), axis=axes)
    scale = np.reciprocal(np.sqrt(np.add(variance, cast(epsilon, variance.dtype))))
    return _affine(x, weight, bias, mean, scale), mean, scale, variance


@lowers("_native_batch_norm_legit.no_stats")
def normalise_batch_alone(
    call: Call,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Array, ...]:
    """Each channel by its mean and variance, which are given too."""
    return _by_batch(x, weight, bias, epsilon)[:3]
