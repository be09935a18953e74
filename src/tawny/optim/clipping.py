"""Clipping: slopes that are too steep are made less so."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import tawny.numpy as np
from tawny.array import Array
from tawny.errors import value_error
from tawny.optim.arguments import check_number
from tawny.optim.structures import cast_number, squared_norm
from tawny.tree import map_leaves


@dataclass(frozen=True)
class Clipping(ABC):
    """A limit to slopes."""

    @abstractmethod
    def clip(self, slope: Any) -> Any:
        """The slope within the limit."""


@dataclass(frozen=True)
class ClipValue(Clipping):
    """Every element of the slope is at least `low` and at most `high`.

    - `low`: the least value; alone, a number x stands for `-x` and `x`.
    - `high`: the greatest value.

    It is the `clipping` of an `Optimiser`.

        rule = optim.Optimiser(0.1, clipping=optim.ClipValue(-1.0, 1.0))
    """

    low: float
    high: float | None = None

    def __post_init__(self) -> None:
        for word in ("low",) if self.high is None else ("low", "high"):
            check_number(self, word)
        low, high = self._bounds()
        if not low <= high:
            raise value_error("ClipValue", f"low is {low} and high is {high}; low must be less")

    def _bounds(self) -> tuple[float, float]:
        return (-abs(self.low), abs(self.low)) if self.high is None else (self.low, self.high)

    def clip(self, slope: Any) -> Any:
        low, high = self._bounds()
        return map_leaves(lambda g: np.clip(g, low, high), slope)


@dataclass(frozen=True)
class ClipNorm(Clipping):
    """The slope is scaled down to length `limit` if it is longer.

    - `limit`: the greatest length.
    - `each`: take the length of every array on its own, instead of all parameters together.

    It is the `clipping` of an `Optimiser`.

        rule = optim.Optimiser(0.1, clipping=optim.ClipNorm(1.0))
    """

    limit: float
    each: bool = False

    def __post_init__(self) -> None:
        if not 0 < check_number(self, "limit") < math.inf:
            raise value_error("ClipNorm", f"limit is {self.limit}; it must be greater than 0")

    def clip(self, slope: Any) -> Any:
        whole = None if self.each else self._factor(slope)
        return map_leaves(
            lambda g: g * cast_number(self._factor(g) if whole is None else whole, g.dtype), slope
        )

    def _factor(self, slope: Any) -> Array:
        """`min(1, limit / length)`."""
        return self.limit / np.maximum(np.sqrt(squared_norm(slope)), self.limit)
