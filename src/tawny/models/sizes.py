"""What the networks share: checks of arguments, numbers of channels, padding of poolings."""

from __future__ import annotations

import math
from typing import Final, TypeVar

import tawny.numpy as np
from tawny.array import Array
from tawny.errors import value_error
from tawny.ops.window import Pads
from tawny.optim.arguments import as_real
from tawny.shape import as_int

T = TypeVar("T")

IMAGE: Final = 3
"""Channels of an image."""


def int_at_least(least: int, given: object, op: str, word: str) -> int:
    """`given` as an int, refused if it is less than `least`."""
    number = as_int(given, op, word)
    if number < least:
        raise value_error(op, f"{word} is {number}; it must be at least {least}")
    return number


def scale_channels(number: int, width: float) -> int:
    """The channels of a layer in a network `width` times as wide as the published one."""
    if not 0 < as_real(width, "models", "width") < math.inf:
        raise value_error("models", f"width is {width}; it must be greater than 0")
    return max(1, round(number * width))


def look_up(op: str, word: str, given: str, table: dict[str, T]) -> T:
    """The entry of a table, or an error that names them all."""
    if given not in table:
        accepted = ", ".join(map(repr, table))
        raise value_error(op, f"{word} is {given!r}; accepted: {accepted}")
    return table[given]


def flatten_samples(x: Array) -> Array:
    """The samples as rows of a matrix."""
    return np.reshape(x, (x.shape[0], -1))


def whole_windows(sizes: tuple[int, ...], window: int, stride: int) -> Pads:
    """Padding behind the last elements, so that each is in a window: sizes are rounded up."""
    return tuple((0, -(n - window) % stride if n > window else max(window - n, 0)) for n in sizes)
