"""What is known of numbers that stand for integers, while a file is read.

Files of quantised models say products of numbers that were made from integers, and make integers
of what comes out.  Where both are known the product is one of integers, as ONNX Runtime has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tawny.array import Array
from tawny.node import Node


class NotedIntegers(NamedTuple):
    """Integers that numbers stand for: less a zero point, times a scale."""

    whole: Array
    scale: Array
    """One number, or one for each place of an axis."""
    zero: Array | None
    axis: int
    """The axis of a scale of several numbers."""

    @property
    def has_one_scale(self) -> bool:
        """Whether all elements have the same scale."""
        return self.scale.size == 1


Quantiser = Callable[[Array, Array], Array]
"""Makes integers of a value, given their scale and their zero point."""


@dataclass(frozen=True, slots=True)
class IntegerNotes:
    """Notes on values of a model."""

    integers: dict[Node, NotedIntegers] = field(default_factory=dict[Node, NotedIntegers])
    """The integers that values stand for."""
    quantisers: dict[Node, Quantiser] = field(default_factory=dict[Node, Quantiser])
    """How values that were computed from integers become integers again."""
