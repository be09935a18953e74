"""Steps of optimisers, which take arrays and give what they become."""

from __future__ import annotations

from collections.abc import Callable

import tawny.numpy as np
from tawny.array import Array
from tawny.dtype import FLOAT32
from tawny.onnx.call import NodeCall
from tawny.onnx.table import TRAINING, operator

Rows = tuple[Array, ...]


def _step_each(call: NodeCall, kinds: int, step: Callable[[Array, Array, Rows], Rows]) -> Rows:
    """The step for each array; operands of one kind stand together, and so do results.

    `kinds` is how many operands each array has.
    """
    rest = call.arrays()[2:]
    count = len(rest) // kinds
    if not count or len(rest) % kinds:
        call.fail(f"{len(rest)} arrays came; expected a multiple of {kinds}")
    rate, time = call.array(0), call.array(1)
    rows = [step(rate, time, tuple(rest[i::count])) for i in range(count)]
    return tuple(x for column in zip(*rows, strict=True) for x in column)


@operator("Adagrad", domain=TRAINING)
def adagrad(call: NodeCall) -> Rows:
    """Gradients over the root of the sum of all squares before."""
    epsilon, norm = call.number("epsilon", 1e-6), call.number("norm_coefficient", 0.0)
    decay = call.number("decay_factor", 0.0)

    def step(rate: Array, time: Array, row: Rows) -> Rows:
        x, slope, squares = row
        slope = norm * x + slope
        new = squares + slope * slope
        size = rate / (1 + time.astype(FLOAT32) * decay)
        return x - size * slope / (np.sqrt(new) + epsilon), new

    return _step_each(call, 3, step)


@operator("Momentum", domain=TRAINING)
def momentum(call: NodeCall) -> Rows:
    """Gradients with a part of the last steps."""
    alpha, beta = call.number("alpha"), call.number("beta")
    norm = call.number("norm_coefficient")
    mode = call.choice("mode", "", ("standard", "nesterov"))

    def step(rate: Array, time: Array, row: Rows) -> Rows:
        x, slope, speed = row
        slope = norm * x + slope
        kept = np.where(np.greater(time, 0), beta, 1.0).astype(x.dtype)
        new = alpha * speed + kept * slope
        if mode == "standard":
            return x - rate * new, new
        return x - rate * (slope + alpha * new), new

    return _step_each(call, 3, step)


@operator("Adam", domain=TRAINING)
def adam(call: NodeCall) -> Rows:
    """Running means of gradients over the root of those of their squares."""
    alpha, beta = call.number("alpha", 0.9), call.number("beta", 0.999)
    epsilon, norm = call.number("epsilon", 0.0), call.number("norm_coefficient", 0.0)
    after = call.number("norm_coefficient_post", 0.0)

    def step(rate: Array, time: Array, row: Rows) -> Rows:
        x, slope, mean, square = row
        slope = norm * x + slope
        mean = alpha * mean + (1 - alpha) * slope
        square = beta * square + (1 - beta) * (slope * slope)
        t = time.astype(x.dtype)
        corrected = rate * np.sqrt(1 - beta**t) / (1 - alpha**t)
        size = np.where(np.greater(time, 0), corrected, rate).astype(x.dtype)
        return (1 - after) * (x - size * mean / (np.sqrt(square) + epsilon)), mean, square

    return _step_each(call, 4, step)
