"""Weights that two implementations of a network draw alike: each depends on its name and shape only."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A parameter in PyTorch's layout: convolutions (outputs, inputs, *window), linear (outputs, inputs)."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith(("running_var", "moving_variance")):
        value = rng.uniform(0.6, 1.4, shape)
    elif len(shape) > 1:
        value = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        if "scores" in name or "shifts" in name:
            value *= 0.1  # so that no softmax is saturated and boxes keep their size
    elif name.endswith(("weight", "gamma")):
        value = rng.uniform(0.5, 1.0, shape)
    else:
        value = rng.standard_normal(shape) * 0.1
    return value.astype(np.float32)


def all_drawn(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Every parameter of a network, given their names and shapes."""
    return {name: drawn(name, tuple(shape)) for name, shape in shapes.items()}


def image(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An input (batch, rows, columns, channels)."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.standard_normal(shape).astype(np.float32)
