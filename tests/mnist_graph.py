"""The training graph of the report's MNIST network, differentiated by hand the way Owl does.

Every adjoint starts as zeros and is added to, gradients of broadcast operands are summed back and
reshaped, and the AdaGrad step is spelled out: nothing is simplified while it is built.
"""

from __future__ import annotations

from dataclasses import dataclass

import tawny as tw
import tawny.numpy as np
from tawny.array import Array

BATCH = 100


@dataclass(frozen=True)
class Training:
    """The step's outputs: the loss, then new weights and new sums of squares."""

    outputs: list[Array]
    weights: list[Array]


def _onto(adjoint: Array | None, part: Array) -> Array:
    """An adjoint to which `part` is added; every one starts as zeros."""
    return (np.zeros(part.shape, dtype=part.dtype) if adjoint is None else adjoint) + part


def _summed_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of an operand that was broadcast from `shape`."""
    lost = tuple(range(gradient.ndim - len(shape)))
    kept = tuple(len(lost) + a for a, n in enumerate(shape) if n == 1)
    return np.reshape(np.sum(gradient, axis=lost + kept, keepdims=True), shape)


def _relu_gradient(gradient: Array, x: Array) -> Array:
    return gradient * ((np.sign(x) + 1) / 2)


def training_graph(batch: int = BATCH, width: int = 1024) -> Training:
    """One step: forward, backward, and the update of six parameters."""
    kind = "float32"
    x = tw.var("x", shape=(batch, 28, 28, 1), dtype=kind)
    y = tw.var("y", shape=(batch, 10), dtype=kind)
    shapes = [(5, 5, 1, 32), (32,), (14 * 14 * 32, width), (width,), (width, 10), (10,)]
    weights = [tw.var(f"w{i}", shape=s, dtype=kind) for i, s in enumerate(shapes)]
    squares = [tw.var(f"cha{i}", shape=s, dtype=kind) for i, s in enumerate(shapes)]
    w0, b0, w1, b1, w2, b2 = weights

    # forward
    scaled = x / 256.0
    convolved = np.conv2d(scaled, w0, padding="SAME")
    biased = convolved + b0
    active = np.maximum(biased, 0)
    pooled = np.max_pool2d(active, 2)
    mask = tw.random.bernoulli(0.9, shape=pooled.shape, dtype=kind)
    dropped = (pooled * mask) * (1 / 0.9)
    flat = np.reshape(dropped, (batch, -1))
    hidden = np.copy(flat) @ w1
    hidden_biased = hidden + b1
    hidden_active = np.maximum(hidden_biased, 0)
    logits = hidden_active @ w2
    logits_biased = logits + b2
    top = np.max(logits_biased, axis=1, keepdims=True)
    shifted = logits_biased - top
    weights_of = np.exp(shifted)
    total = np.sum(weights_of, axis=1, keepdims=True)
    probability = weights_of / total
    logs = np.log(probability)
    chosen = y * logs
    loss = -np.sum(chosen) / np.asarray(float(batch), dtype=kind)

    # backward
    seed = np.asarray(0.0, dtype=kind) + np.asarray(1.0, dtype=kind) + np.asarray(0.0, dtype=kind)
    d_sum = -(seed / np.asarray(float(batch), dtype=kind) + np.asarray(0.0, dtype=kind))
    d_chosen = _onto(None, np.broadcast_to(d_sum, chosen.shape))
    d_logs = _onto(None, d_chosen * y)
    d_probability = _onto(None, d_logs / probability)
    d_weights_of = _onto(None, d_probability / total)
    d_total = _onto(None, _summed_to(-(d_probability * weights_of) / (total * total), total.shape))
    d_weights_of = _onto(d_weights_of, np.repeat(d_total, 10, axis=1))
    d_shifted = _onto(None, d_weights_of * weights_of)
    d_logits_biased = _onto(None, d_shifted)
    d_b2 = _onto(None, _summed_to(d_logits_biased, b2.shape))
    d_logits = _onto(None, d_logits_biased)
    d_w2 = _onto(None, np.matrix_transpose(hidden_active) @ d_logits)
    d_hidden_active = _onto(None, d_logits @ np.matrix_transpose(w2))
    d_hidden_biased = _onto(None, _relu_gradient(d_hidden_active, hidden_biased))
    d_b1 = _onto(None, _summed_to(d_hidden_biased, b1.shape))
    d_hidden = _onto(None, d_hidden_biased)
    d_w1 = _onto(None, np.matrix_transpose(np.copy(flat)) @ d_hidden)
    d_flat = _onto(None, d_hidden @ np.matrix_transpose(w1))
    d_dropped = _onto(None, np.reshape(d_flat, dropped.shape))
    d_masked = _onto(None, d_dropped * (1 / 0.9))
    d_pooled = _onto(None, d_masked * mask)
    d_active = _onto(None, np.max_pool_gradient(active, d_pooled, 2))
    d_biased = _onto(None, _relu_gradient(d_active, biased))
    d_b0 = _onto(None, _summed_to(d_biased, b0.shape))
    d_convolved = _onto(None, d_biased)
    d_w0 = _onto(
        None, np.conv_kernel_gradient(scaled, d_convolved, kernel_shape=w0.shape, padding="SAME")
    )

    # AdaGrad
    outputs = [loss]
    for weight, before, gradient in zip(
        weights, squares, (d_w0, d_b0, d_w1, d_b1, d_w2, d_b2), strict=True
    ):
        after = gradient * gradient + before
        rate = 0.005 / np.sqrt(after + 1e-32)
        step = -gradient * rate
        outputs += [weight + step, after]
    return Training(outputs, [*weights, *squares])
