"""What an optimiser may have besides a rate and a direction: clipping, momentum, regularisation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import tawny.numpy as np
from tawny.array import Array
from tawny.errors import value_error
from tawny.optim.arguments import check_fraction, check_not_negative, check_number
from tawny.optim.structures import cast_number, squared_norm, total
from tawny.tree import leaves, map_leaves

# --------------------------------------------------------------------- clipping


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


# --------------------------------------------------------------------- momentum


@dataclass(frozen=True)
class Inertia(ABC):
    """The way a step depends on the velocity, the decaying sum of the changes before."""

    factor: float = 0.9

    def __post_init__(self) -> None:
        check_fraction(self, "factor")

    def velocity(self, before: Array, change: Array) -> Array:
        """`v' = factor * v + change`."""
        return self.factor * before + change

    @abstractmethod
    def step(self, velocity: Array, change: Array) -> Array:
        """What is added to the parameter."""


@dataclass(frozen=True)
class Momentum(Inertia):
    """Standard momentum: the step is the velocity, the decaying sum of the changes before.

    - `factor`: the share of the velocity that each step keeps, from 0 to 1.

    It is the `momentum` of an `Optimiser`.

        rule = optim.Optimiser(0.1, momentum=optim.Momentum(0.9))
    """

    def step(self, velocity: Array, change: Array) -> Array:
        return velocity


@dataclass(frozen=True)
class Nesterov(Inertia):
    """Nesterov's momentum: the step is `factor * velocity + change`, a look ahead.

    - `factor`: the share of the velocity that each step keeps, from 0 to 1.

    It is the `momentum` of an `Optimiser`.

        rule = optim.Optimiser(0.1, momentum=optim.Nesterov(0.9))
    """

    def step(self, velocity: Array, change: Array) -> Array:
        return self.factor * velocity + change


# --------------------------------------------------------------- regularisation


@dataclass(frozen=True)
class Regularisation(ABC):
    """A price of parameters."""

    @abstractmethod
    def penalty(self, parameters: Any) -> Array:
        """What is added to the loss."""


@dataclass(frozen=True)
class L1(Regularisation):
    """`weight` times the sum of magnitudes.

    - `weight`: a number of at least 0.

    It is the `regularisation` of an `Optimiser`: a price that is added to the loss.

        rule = optim.Optimiser(0.1, regularisation=optim.L1(0.01))
    """

    weight: float

    def __post_init__(self) -> None:
        check_not_negative(self, "weight")

    def penalty(self, parameters: Any) -> Array:
        return self.weight * _magnitudes(parameters)


@dataclass(frozen=True)
class L2(Regularisation):
    """`weight` times the sum of squares.

    - `weight`: a number of at least 0.

    It is the `regularisation` of an `Optimiser`: a price that is added to the loss.

        rule = optim.Optimiser(0.1, regularisation=optim.L2(0.01))
    """

    weight: float

    def __post_init__(self) -> None:
        check_not_negative(self, "weight")

    def penalty(self, parameters: Any) -> Array:
        return self.weight * squared_norm(parameters)


@dataclass(frozen=True)
class ElasticNet(Regularisation):
    """`l1` times the sum of magnitudes plus `l2` times the sum of squares.

    - `l1`, `l2`: numbers of at least 0.

    It is the `regularisation` of an `Optimiser`: a price that is added to the loss.

        rule = optim.Optimiser(0.1, regularisation=optim.ElasticNet(0.01, 0.02))
    """

    l1: float
    l2: float

    def __post_init__(self) -> None:
        check_not_negative(self, "l1", "l2")

    def penalty(self, parameters: Any) -> Array:
        return self.l1 * _magnitudes(parameters) + self.l2 * squared_norm(parameters)


def _magnitudes(parameters: Any) -> Array:
    return total([np.sum(np.abs(x)) for x in leaves(parameters)])
