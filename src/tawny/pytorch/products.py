"""Matrix products and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import BOOL
from tawny.pytorch.table import Call, cast, choose, lowers, refuse


def multiply(x: Array, y: Array) -> Array:
    """The matrix product."""
    return np.matmul(x, y)


@lowers("mm", "bmm", "mv", "dot", "matmul")
def product(_: Call, x: Array, y: Array) -> Array:
    """The product of matrices, of stacks of them, or of vectors."""
    return multiply(x, y)


@lowers("addmm", "baddbmm", "addmv")
def add_product(
    call: Call, x: Array, left: Array, right: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    """`beta` times a tensor and `alpha` times a product."""
    found = multiply(left, right)
    if alpha != 1:
        found = np.multiply(found, cast(alpha, call.dtype))
    if beta == 0:
        return found
    return np.add(found, x if beta == 1 else np.multiply(x, cast(beta, call.dtype)))


@lowers("linear")
def linear(_: Call, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """A product with the transposed weights, and a bias."""
    found = multiply(x, np.matrix_transpose(weight) if weight.ndim == 2 else weight)
    return found if bias is None else np.add(found, bias)


@lowers("addr")
def add_outer(call: Call, x: Array, u: Array, v: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta` times a matrix and `alpha` times an outer product."""
    found = np.multiply(
        np.multiply(cast(u, call.dtype)[:, None], cast(v, call.dtype)), cast(alpha, call.dtype)
    )
    return found if beta == 0 else np.add(np.multiply(x, cast(beta, call.dtype)), found)


# ------------------------------------------------------------------- attention


def _scores(
    query: Array, key: Array, is_causal: bool, mask: Array | None, scale: float | None
) -> Array:
    """What the softmax of attention is taken of."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = np.multiply(np.matmul(query, np.matrix_transpose(key)), cast(factor, query.dtype))
    if mask is not None:
        if mask.dtype == BOOL:
            return choose(mask, scores, cast(-numpy.inf, scores.dtype))
        return np.add(scores, cast(mask, scores.dtype))
    if is_causal:
        seen = numpy.tri(scores.shape[-2], scores.shape[-1], dtype=bool)
        return choose(np.asarray(seen), scores, cast(-numpy.inf, scores.dtype))
    return scores


@lowers("_scaled_dot_product_flash_attention_for_cpu")
def attend(
    _: Call,
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """Attention, and the logarithms of the sums of its weights; rows that see nothing are zero."""
    refuse(dropout_p, "attention with dropout")
    scores = _scores(query, key, is_causal, attn_mask, scale)
    greatest = np.max(scores, axis=-1, keepdims=True)
    floor = cast(-numpy.inf, scores.dtype)
    reference = np.where(np.equal(greatest, floor), cast(0, scores.dtype), greatest)
    weights = np.exp(np.subtract(scores, reference))
    total = np.sum(weights, axis=-1, keepdims=True)
    safe = np.where(np.equal(total, cast(0, total.dtype)), cast(1, total.dtype), total)
    found = np.matmul(np.divide(weights, safe), value)
    return found, np.squeeze(np.add(np.log(total), reference), axis=-1)


@lowers("_scaled_dot_product_flash_attention_for_cpu_backward")
def attend_backward(
    _: Call,
    gradient: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    logsumexp: Array,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    """The gradients of attention's query, key and value."""
    refuse(dropout_p, "attention with dropout")
    factor = cast(1 / math.sqrt(query.shape[-1]) if scale is None else scale, query.dtype)
    scores = _scores(query, key, is_causal, attn_mask, scale)
    total = cast(np.expand_dims(logsumexp, -1), scores.dtype)
    nothing = np.equal(total, cast(-numpy.inf, total.dtype))
    weights = np.where(nothing, cast(0, scores.dtype), np.exp(np.subtract(scores, total)))
    to_value = np.matmul(np.matrix_transpose(weights), gradient)
    to_weights = np.matmul(gradient, np.matrix_transpose(value))
    shared = np.sum(np.multiply(gradient, out), axis=-1, keepdims=True)
    to_scores = np.multiply(np.multiply(weights, np.subtract(to_weights, shared)), factor)
    return (
        np.matmul(to_scores, key),
        np.matmul(np.matrix_transpose(to_scores), query),
        to_value,
    )


# ---------------------------------------------------------------- softmax, norms


@lowers("_softmax", "_safe_softmax")
def softmax(call: Call, x: Array, dim: int, half_to_float: Any = False) -> Array:
    """The exponentials along an axis, divided by their sum."""
    wide = cast(x, call.dtype)
    found = np.softmax(wide, axis=dim) if x.ndim else np.ones((), call.dtype)
    if "safe" not in call.name:
        return found
    nothing = np.equal(np.max(wide, axis=dim, keepdims=True), cast(-numpy.inf, call.dtype))
    return choose(nothing, cast(0, call.dtype), found)


@lowers("_log_softmax")
def log_softmax(call: Call, x: Array, dim: int, half_to_float: bool = False) -> Array:
    """The logarithm of the softmax along an axis."""
    wide = cast(x, call.dtype)
    return np.log_softmax(wide, axis=dim) if x.ndim else np.zeros((), call.dtype)


@lowers("_softmax_backward_data")
def softmax_backward(call: Call, gradient: Array, y: Array, dim: int, dtype: Any) -> Array:
    """The gradient of a softmax's operand."""
    product = np.multiply(gradient, y)
    if not y.ndim:
        return np.subtract(product, np.multiply(y, product))
    total = np.sum(product, axis=dim, keepdims=True)
    return cast(np.subtract(product, np.multiply(y, total)), call.dtype)


@lowers("_log_softmax_backward_data")
def log_softmax_backward(call: Call, gradient: Array, y: Array, dim: int, dtype: Any) -> Array:
    """The gradient of a log-softmax's operand."""
    total = np.sum(gradient, axis=dim, keepdims=True) if y.ndim else gradient
    return cast(np.subtract(gradient, np.multiply(np.exp(y), total)), call.dtype)


def standardise(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array, Array]:
    """`x` of mean 0 and variance 1 over axes, the means, and one over the deviations."""
    mean = np.mean(x, axis=tuple(axes), keepdims=True)
    offset = np.subtract(x, mean)
    variance = np.mean(np.square(offset), axis=tuple(axes), keepdims=True)
    scale = np.reciprocal(np.sqrt(np.add(variance, cast(epsilon, x.dtype))))
    return np.multiply(offset, scale), mean, scale
