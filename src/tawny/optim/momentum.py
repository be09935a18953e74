"""Momentum: steps that go on in the direction of those before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tawny.array import Array
from tawny.optim.arguments import check_fraction


@dataclass(frozen=True)
class Inertia(ABC):
    """How a step depends on the velocity, the decaying sum of the changes before."""

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
