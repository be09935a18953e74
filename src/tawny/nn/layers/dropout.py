"""Layers that add chance while training and do nothing in inference.

Every run of a compiled program draws anew.
"""

from __future__ import annotations

import math

from tawny import random
from tawny.array import Array
from tawny.nn.layers.activations import SELU_ALPHA, SELU_SCALE
from tawny.nn.layers.sizes import as_fraction
from tawny.nn.module import Module
from tawny.ops.elementwise import where
from tawny.optim.arguments import as_nonnegative


class Dropout(Module):
    """Each element is 0 with probability `rate`, and divided by 1 - rate otherwise.

    - `rate`: from 0 up to but not including 1.

    This is so in training, with draws from the seed of `nn.train`; in inference nothing is
    changed.

        nn.Dropout(0.5)(numpy.ones(2)).numpy().tolist()   # -> [1.0, 1.0]
    """

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = as_fraction(rate, "Dropout", "rate")

    def forward(self, x: Array) -> Array:
        if not self.training or not self.rate:
            return x
        kept = random.uniform(shape=x.shape, dtype="float32") >= self.rate
        return where(kept, x * (1 / (1 - self.rate)), 0)

    def extra(self) -> str:
        return f"{self.rate}"


class GaussianNoise(Module):
    """Each element plus a normally distributed number of standard deviation `std`."""

    def __init__(self, std: float = 0.1) -> None:
        self.std = as_nonnegative(std, "GaussianNoise", "std")

    def forward(self, x: Array) -> Array:
        if not self.training or not self.std:
            return x
        return x + random.normal(0.0, self.std, shape=x.shape, dtype=x.dtype)

    def extra(self) -> str:
        return f"{self.std}"


class GaussianDropout(Module):
    """Each element times a number normally distributed about 1, of variance rate / (1 - rate)."""

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = as_fraction(rate, "GaussianDropout", "rate")

    def forward(self, x: Array) -> Array:
        if not self.training or not self.rate:
            return x
        std = math.sqrt(self.rate / (1 - self.rate))
        return x * random.normal(1.0, std, shape=x.shape, dtype=x.dtype)

    def extra(self) -> str:
        return f"{self.rate}"


class AlphaDropout(Module):
    """Dropout that keeps mean 0 and variance 1, for use after `selu`.

    With p = -1.7581, the least that `selu` gives, each element is p with probability `rate`; all
    are then times a plus b, where a = 1 / sqrt((1 - rate) (1 + rate p^2)) and b = -a p rate.
    """

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = as_fraction(rate, "AlphaDropout", "rate")

    def forward(self, x: Array) -> Array:
        if not self.training or not self.rate:
            return x
        least = -SELU_ALPHA * SELU_SCALE
        a = 1 / math.sqrt((1 - self.rate) * (1 + self.rate * least**2))
        kept = random.uniform(shape=x.shape, dtype="float32") >= self.rate
        return a * where(kept, x, least) - a * least * self.rate

    def extra(self) -> str:
        return f"{self.rate}"
