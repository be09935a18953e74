"""Gradient methods: from slopes to the direction of the next step.

Each is written for one vector, made of all parameters together.  `g` is the slope, `p` the
direction, and a dash marks those of this step:

    p' = -g' + b p

At the first step, and wherever the quotient `b` has no value, b is 0: the steepest descent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import tawny.numpy as np
from tawny.array import Array
from tawny.autodiff.jacobian import hessian, hvp
from tawny.optim.structures import add_scaled, difference, dot, flatten, negate, ratio, squared_norm

Function = Callable[[Any], Array]
"""From parameters to the number that is to become small."""


@dataclass(frozen=True)
class Direction(ABC):
    """A gradient method."""

    needs_function: ClassVar[bool] = False
    """Whether it looks at more of the function than its slope."""

    def memory(self) -> tuple[str, ...]:
        """The names of what is remembered of the step before: of "gradient" and "direction"."""
        return ()

    @abstractmethod
    def direction(
        self, function: Function | None, parameters: Any, slope: Any, before: Mapping[str, Any]
    ) -> Any:
        """The way to go from `parameters`, where `function` has this slope."""


@dataclass(frozen=True)
class GD(Direction):
    """Steepest descent: `p' = -g'`."""

    def direction(
        self, function: Function | None, parameters: Any, slope: Any, before: Mapping[str, Any]
    ) -> Any:
        return negate(slope)


@dataclass(frozen=True)
class ConjugateGradient(Direction):
    """A method of conjugate gradients; they differ in `b`."""

    def memory(self) -> tuple[str, ...]:
        return "gradient", "direction"

    def direction(
        self, function: Function | None, parameters: Any, slope: Any, before: Mapping[str, Any]
    ) -> Any:
        above, below = self.quotient(slope, before["gradient"], before["direction"])
        return add_scaled(negate(slope), ratio(above, below), before["direction"])

    @abstractmethod
    def quotient(self, slope: Any, slope_before: Any, direction: Any) -> tuple[Array, Array]:
        """`b` as dividend and divisor, which is 0 while `g` and `p` are."""


@dataclass(frozen=True)
class CG(ConjugateGradient):
    """Hestenes and Stiefel: `b = g'.(g' - g) / p.(g' - g)`."""

    def quotient(self, slope: Any, slope_before: Any, direction: Any) -> tuple[Array, Array]:
        change = difference(slope, slope_before)
        return dot(slope, change), dot(direction, change)


@dataclass(frozen=True)
class CD(ConjugateGradient):
    """Conjugate descent, Fletcher: `b = g'.g' / -p.g`."""

    def quotient(self, slope: Any, slope_before: Any, direction: Any) -> tuple[Array, Array]:
        return squared_norm(slope), -dot(direction, slope_before)


@dataclass(frozen=True)
class NonlinearCG(ConjugateGradient):
    """Fletcher and Reeves: `b = g'.g' / g.g`."""

    def quotient(self, slope: Any, slope_before: Any, direction: Any) -> tuple[Array, Array]:
        return squared_norm(slope), squared_norm(slope_before)


@dataclass(frozen=True)
class DaiYuanCG(ConjugateGradient):
    """Dai and Yuan: `b = g'.g' / p.(g' - g)`."""

    def quotient(self, slope: Any, slope_before: Any, direction: Any) -> tuple[Array, Array]:
        return squared_norm(slope), dot(direction, difference(slope, slope_before))


@dataclass(frozen=True)
class NewtonCG(Direction):
    """Directions conjugate in the Hessian H: `b = (H p).g' / (H p).p`; H is never formed."""

    needs_function: ClassVar[bool] = True

    def memory(self) -> tuple[str, ...]:
        return ("direction",)

    def direction(
        self, function: Function | None, parameters: Any, slope: Any, before: Mapping[str, Any]
    ) -> Any:
        assert function is not None, "it needs the function"
        direction = before["direction"]
        curved = hvp(function, parameters, direction)
        share = ratio(dot(curved, slope), dot(curved, direction))
        return add_scaled(negate(slope), share, direction)


@dataclass(frozen=True)
class Newton(Direction):
    """The way to the bottom of the parabola that fits best: `H p' = -g'`.

    H is a matrix with a row for each parameter: for functions of few parameters.
    """

    needs_function: ClassVar[bool] = True

    def direction(
        self, function: Function | None, parameters: Any, slope: Any, before: Mapping[str, Any]
    ) -> Any:
        assert function is not None, "it needs the function"
        objective, (vector, back) = function, flatten(parameters)
        slopes, like_slope = flatten(slope)

        def of_vector(moved: Array) -> Array:
            return objective(back(moved))

        matrix = hessian(of_vector)(vector)
        return like_slope(-np.linalg.solve(matrix, slopes))
