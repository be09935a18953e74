"""What a loss with the gradients of all weights costs, as a multiple of the loss alone.

Weights are variables, the batch of the image networks is 1 at 224 by 224.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import models
import tawny as tw
import tawny.numpy as tnp
from backends import tawny_table
from networks import inception_v3, resnet50, steps_of
from tawny.array import Array
from timing import interleaved

IMAGE = (1, 224, 224, 3)


class Loss(NamedTuple):
    """A loss, the variables it depends on, those that are weights, and values for all."""

    loss: Array
    variables: dict[str, Array]
    weights: list[Array]
    values: models.Arrays


class Cost(NamedTuple):
    """Seconds for an evaluation."""

    forward: float
    with_gradients: float

    @property
    def ratio(self) -> float:
        return self.with_gradients / self.forward


def _variables(values: models.Arrays) -> dict[str, Array]:
    return {n: tw.var(n, shape=v.shape, dtype="float32") for n, v in values.items()}


def image_network(network: Any) -> Loss:
    """The sum of the squares of a network's outputs."""
    values: models.Arrays = {"x": np.random.default_rng(0).random(IMAGE, dtype=np.float32)}
    steps, table = steps_of(network), tawny_table()
    for number, step in enumerate(steps):
        for name in ("kernel", "weight"):
            if name in step.settings:
                values[f"{name}{number}"] = step.settings[name]
    p = _variables(values)
    results = [p["x"]]
    for number, step in enumerate(steps):
        own = {n: p.get(f"{n}{number}", value) for n, value in step.settings.items()}
        results.append(table[step.kind](*[results[i] for i in step.inputs], **own))
    weights = [v for name, v in p.items() if name != "x"]
    return Loss(tnp.sum(results[-1] ** 2), p, weights, values)


def mnist() -> Loss:
    """The cross entropy of the report's network for 100 images, without dropout."""
    values = {n: v for n, v in models.mnist_weights().items() if not n.startswith("s_")}
    p = _variables(values)
    loss = models.mnist_loss(
        tnp,
        lambda x, kernel: tnp.conv2d(x, kernel, padding="SAME"),
        lambda x: tnp.max_pool2d(x, 2),
        lambda x: tnp.log_softmax(x, axis=-1),
        1.0,
        p,
    )
    return Loss(loss, p, [p[n] for n in models.PARAMETERS], values)


def lstm() -> Loss:
    """The sum of the squares of an LSTM's last state."""
    values = models.lstm_weights()
    p = _variables(values)
    loss = tnp.sum(models.lstm(tnp, tnp.sigmoid, p) ** 2)
    return Loss(loss, p, [p[n] for n in ("w", "u", "b")], values)


def transformer() -> Loss:
    """The sum of the squares of a block's outputs."""
    values = models.transformer_weights()
    p = _variables(values)

    def gelu(x: Any) -> Any:
        return x * 0.5 * (1.0 + tnp.erf(x * 0.5**0.5))

    block = models.transformer(tnp, lambda x: tnp.softmax(x, axis=-1), gelu, p)
    return Loss(tnp.sum(block**2), p, [p[n] for n in ("qkv", "out", "up", "down")], values)


LOSSES: dict[str, Callable[[], Loss]] = {
    "ResNet50": lambda: image_network(resnet50),
    "InceptionV3": lambda: image_network(inception_v3),
    "MNIST": mnist,
    "LSTM": lstm,
    "transformer": transformer,
}


def cost(make: Callable[[], Loss], rounds: int) -> Cost:
    """The best times of both, interleaved."""
    loss, variables, weights, values = make()
    programs = {
        name: tw.Graph(list(variables.values()), outputs).compile(incremental=False)
        for name, outputs in (
            ("forward", [loss]),
            ("with gradients", [loss, *tw.gradients(loss, weights)]),
        )
    }
    for program in programs.values():
        program.set(**values)
    timed = interleaved(
        {name: (lambda p=p: p.run(views=True)) for name, p in programs.items()}, rounds=rounds
    )
    return Cost(timed["forward"].best, timed["with gradients"].best)
