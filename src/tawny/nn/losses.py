"""Losses: functions of prediction and target, giving one number, the mean over the batch.

Axis 0 is the batch; n is its size.  Any function of two arrays that gives one number serves as a
loss too.  What a loss demands of its targets is checked as soon as their values are known: at once,
or by `nn.train` before the first step that would see them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tawny import numpy as np
from tawny.array import Array, ArrayLike
from tawny.dtype import kind_of
from tawny.errors import type_error, value_error
from tawny.nn.checks import ClassIndices, Probabilities, Signs, check_target
from tawny.ops.elementwise import where
from tawny.ops.precision import narrow, widen
from tawny.optim.arguments import as_real
from tawny.shape import size

Loss = TypeVar("Loss", bound=Callable[..., Array])

__all__ = [
    "binary_cross_entropy",
    "cross_entropy",
    "hinge",
    "huber",
    "l1",
    "l2",
    "mean_absolute",
    "mean_squared",
    "quadratic",
    "squared_hinge",
]


def _in_single(loss: Loss) -> Loss:
    """A loss that computes float16 predictions in float32, and is rounded once."""

    @functools.wraps(loss)
    def in_steps(prediction: ArrayLike, *args: Any, **kwargs: Any) -> Array:
        x = np.asarray(prediction)
        return narrow(loss(widen(x), *args, **kwargs), x.dtype)

    return cast("Loss", in_steps)


def _pair(op: str, prediction: ArrayLike, target: ArrayLike) -> tuple[Array, Array]:
    """Prediction and target, of one shape and with a batch; targets as the prediction's dtype."""
    x, y = np.asarray(prediction), np.asarray(target)
    _check_prediction(op, x)
    if x.shape != y.shape:
        raise value_error(
            op, f"the target has shape {y.shape}; it must be {x.shape}, as the prediction"
        )
    return x, _cast_like(y, x)


def _pair_of_signs(op: str, prediction: ArrayLike, target: ArrayLike) -> tuple[Array, Array]:
    """Prediction and target as `_pair` gives them, with targets of -1 and 1."""
    y = np.asarray(target)
    pair = _pair(op, prediction, y)
    check_target(y, Signs(op))
    return pair


def _cast_like(target: Array, prediction: Array) -> Array:
    """The target in the prediction's dtype, so that it does not widen the loss."""
    return target if target.dtype == prediction.dtype else target.astype(prediction.dtype)


def _check_prediction(op: str, x: Array) -> None:
    if kind_of(x.dtype) != "f":
        raise type_error(op, f"the prediction has dtype {x.dtype}; accepted: floating point")
    if not x.ndim or not x.shape[0]:
        raise value_error(op, f"the prediction has shape {x.shape}; accepted: (batch, ...)")


def _batch_mean(total: Array, n: int) -> Array:
    return np.sum(total) / n


@_in_single
def quadratic(prediction: ArrayLike, target: ArrayLike) -> Array:
    """sum((p - t)^2) / n: the squared distance of a sample from its target.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    Gives one number.

        float(nn.quadratic([[3.0, 4.0]], [[0.0, 0.0]]))   # -> 25.0
    """
    x, y = _pair("quadratic", prediction, target)
    return _batch_mean(np.square(x - y), x.shape[0])


@_in_single
def mean_squared(prediction: ArrayLike, target: ArrayLike) -> Array:
    """mean((p - t)^2), over all elements.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    Gives one number.

        float(nn.mean_squared([1.0, 2.0], [0.0, 0.0]))   # -> 2.5
    """
    x, y = _pair("mean_squared", prediction, target)
    return np.mean(np.square(x - y))


@_in_single
def l1(prediction: ArrayLike, target: ArrayLike) -> Array:
    """sum(|p - t|) / n.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    Gives one number.

        float(nn.l1([[3.0, 4.0]], [[0.0, 0.0]]))   # -> 7.0
    """
    x, y = _pair("l1", prediction, target)
    return _batch_mean(np.abs(x - y), x.shape[0])


@_in_single
def mean_absolute(prediction: ArrayLike, target: ArrayLike) -> Array:
    """mean(|p - t|), over all elements.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    Gives one number.

        float(nn.mean_absolute([1.0, 2.0], [0.0, 0.0]))   # -> 1.5
    """
    x, y = _pair("mean_absolute", prediction, target)
    return np.mean(np.abs(x - y))


@_in_single
def l2(prediction: ArrayLike, target: ArrayLike) -> Array:
    """mean(sqrt(sum((p - t)^2))): the distance of a sample from its target.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    Gives one number; its slope at distance 0 is 0.

        float(nn.l2([[3.0, 4.0]], [[0.0, 0.0]]))   # -> 5.0
    """
    x, y = _pair("l2", prediction, target)
    n = x.shape[0]
    distances = np.linalg.vector_norm((x - y).reshape((n, size(x.shape[1:]))), axis=-1)
    return np.mean(distances)


@_in_single
def hinge(prediction: ArrayLike, target: ArrayLike) -> Array:
    """sum(max(1 - t p, 0)) / n, with targets of -1 and 1.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    Gives one number; other targets are refused.

        float(nn.hinge([0.5], [1.0]))   # -> 0.5
    """
    x, y = _pair_of_signs("hinge", prediction, target)
    return _batch_mean(np.relu(1 - y * x), x.shape[0])


@_in_single
def squared_hinge(prediction: ArrayLike, target: ArrayLike) -> Array:
    """sum(max(1 - t p, 0)^2) / n, with targets of -1 and 1.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    Gives one number; other targets are refused.

        float(nn.squared_hinge([0.5], [1.0]))   # -> 0.25
    """
    x, y = _pair_of_signs("squared_hinge", prediction, target)
    return _batch_mean(np.square(np.relu(1 - y * x)), x.shape[0])


@_in_single
def huber(prediction: ArrayLike, target: ArrayLike, delta: float = 1.0) -> Array:
    """sum(h(p - t)) / n, where h(d) is d^2 / 2 up to |d| = delta and a line from there.

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.
    - `delta`: where the line begins.

    The line is delta (|d| - delta / 2).

        float(nn.huber([3.0], [0.0]))   # -> 2.5
    """
    if not 0 < as_real(delta, "huber", "delta") < math.inf:
        raise value_error("huber", f"delta is {delta!r}; it must be greater than 0")
    x, y = _pair("huber", prediction, target)
    distance = np.abs(x - y)
    near = np.minimum(distance, float(delta))
    return _batch_mean(near * (distance - 0.5 * near), x.shape[0])


@_in_single
def binary_cross_entropy(prediction: ArrayLike, target: ArrayLike) -> Array:
    """sum(softplus(p) - t p) / n: -(t log s + (1 - t) log(1 - s)) for s = sigmoid(p).

    - `prediction`: what the model gives; its first axis counts the samples, n of them.
    - `target`: what it should give, of the same shape.

    The prediction is before the sigmoid, targets are from 0 to 1; others are refused.

        round(float(nn.binary_cross_entropy([0.0], [1.0])), 6)   # -> 0.693147
    """
    given = np.asarray(target)
    x, y = _pair("binary_cross_entropy", prediction, given)
    check_target(given, Probabilities("binary_cross_entropy"))
    above = x >= 0  # softplus(x) is x + softplus(-x): nothing large is added to be taken away
    losses = np.softplus(where(above, -x, x)) + x * (np.astype(above, x.dtype) - y)
    return _batch_mean(losses, x.shape[0])


@_in_single
def cross_entropy(prediction: ArrayLike, target: ArrayLike, *, smoothing: float = 0.0) -> Array:
    """-sum(t log softmax(p)) / n, over the last axis: the classes.

    - `prediction`: scores before the softmax, (batch, ..., classes).
    - `target`: either the class of each, integers of shape (batch, ...), or a probability for every
      class, of the prediction's shape.
    - `smoothing`: with s, targets are (1 - s) t + s / classes.

    n counts all axes but the last.  Gives one number.  A class that is not from 0 to classes - 1 is
    refused when it is known; else the loss is NaN.

        round(float(nn.cross_entropy([[0.0, 0.0]], [1])), 6)   # -> 0.693147
    """
    op = "cross_entropy"
    x, y = np.asarray(prediction), np.asarray(target)
    _check_prediction(op, x)
    if not 0 <= as_real(smoothing, op, "smoothing") < 1:
        raise value_error(op, f"smoothing is {smoothing!r}; it must be from 0 up to 1")
    if x.ndim < 2 or not x.shape[-1]:
        raise value_error(op, f"the prediction has shape {x.shape}; accepted: (batch, classes)")
    classes, n = x.shape[-1], size(x.shape[:-1])
    logs = np.log_softmax(x, axis=-1)
    if y.dtype.kind in "iu" and y.shape == x.shape[:-1]:
        losses = -_at_classes(op, logs, y)
    elif kind_of(y.dtype) in "fiub" and y.shape == x.shape:
        weights = _cast_like(y, x)
        losses = -np.sum(where(weights == 0, 0, weights * logs), axis=-1)
    else:
        raise value_error(
            op,
            f"the target has dtype {y.dtype} and shape {y.shape}; accepted: integers of shape "
            f"{x.shape[:-1]}, or numbers of shape {x.shape}",
        )
    if smoothing:
        spread = -np.sum(logs, axis=-1) / classes
        losses = (1 - float(smoothing)) * losses + float(smoothing) * spread
    return _batch_mean(losses, n)


def _at_classes(op: str, logs: Array, target: Array) -> Array:
    """The logarithm at each sample's class, NaN where there is no such class."""
    classes = logs.shape[-1]
    check_target(target, ClassIndices(op, classes))
    chosen = np.sum(where(np.one_hot(target, classes, dtype=bool), logs, 0), axis=-1)
    if target.node.value is not None:
        return chosen
    there = np.logical_and(target >= 0, target < classes)
    return where(there, chosen, math.nan)
