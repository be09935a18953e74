"""Regularisation: what large parameters cost, added to the loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import tawny.numpy as np
from tawny.array import Array
from tawny.optim.arguments import check_not_negative
from tawny.optim.structures import squared_norm, total
from tawny.tree import leaves


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
