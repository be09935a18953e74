"""Learning rates: how far to go along a direction.  Each is an optimiser, with plain gradients.

Rates of the first kind depend on the number of the step alone.  Those of the second kind adapt to
every element of the parameters, and are themselves scaled by a rate of the first kind.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import cast

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.errors import type_error, value_error
from tawny.optim.composition import Moment, Parts, Steps
from tawny.optim.directions import GD
from tawny.optim.numbers import check_not_negative, check_share
from tawny.optim.vectors import Number, fitted
from tawny.record import record


@record
class Rate(Steps):
    """A learning rate."""

    def parts(self) -> Parts:
        return Parts(self, GD())

    def memory(self) -> tuple[str, ...]:
        """Names of the arrays it remembers for each array of parameters."""
        return ()

    @abstractmethod
    def at(self, step: Array) -> Number:
        """The rate after `step` steps."""

    def change(self, now: Moment, memory: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        """What to add to the parameters, and what to remember."""
        return now.direction * fitted(now.rate, now.direction.dtype), {}


# -------------------------------------------------------- by the step's number


@record
class Scheduled(Rate):
    """A rate that depends on the number of the step alone."""


@record
class Constant(Scheduled):
    """Always `rate`."""

    rate: float = 0.001

    def __post_init__(self) -> None:
        check_not_negative(self, "rate")

    def at(self, step: Array) -> Number:
        return self.rate


@record
class Decay(Scheduled):
    """`rate / (1 + k i)` after i steps."""

    rate: float
    k: float

    def __post_init__(self) -> None:
        check_not_negative(self, "rate", "k")

    def at(self, step: Array) -> Number:
        return self.rate / (1.0 + self.k * np.astype(step, np.float64))


@record
class ExponentialDecay(Scheduled):
    """`rate * exp(-k i)` after i steps."""

    rate: float
    k: float

    def __post_init__(self) -> None:
        check_not_negative(self, "rate", "k")

    def at(self, step: Array) -> Number:
        return self.rate * np.exp(-self.k * np.astype(step, np.float64))


@record
class Schedule(Scheduled):
    """The i-th of some rates after i steps, then the last for ever; with `cycle`, all over again.

    Instead of rates, a function from the number of steps made, an array, to the rate.
    """

    rates: Sequence[float] | Callable[[Array], Array]
    cycle: bool = False

    def __post_init__(self) -> None:
        if callable(self.rates):
            return
        rates = _numbers(self.rates)
        if not rates:
            raise value_error("Schedule", "there is no rate")
        for i, rate in enumerate(rates):
            if not 0 <= rate < math.inf:
                raise value_error(
                    "Schedule", f"rate {i} is {rate}; it must be a number of at least 0"
                )
        object.__setattr__(self, "rates", rates)

    def at(self, step: Array) -> Number:
        if callable(self.rates):
            given = cast("object", self.rates(step))
            if not isinstance(given, (Array, Real, numpy.ndarray)):
                kind = type(given).__name__
                raise type_error("Schedule", f"the function gives {kind}; accepted: one number")
            rate = np.asarray(given)
            if rate.shape:
                raise value_error("Schedule", f"the function gives shape {rate.shape}; expected ()")
            return np.astype(rate, np.float64)
        count = len(self.rates)
        place = step % count if self.cycle else np.minimum(step, count - 1)
        return np.take(np.asarray(list(self.rates), dtype=np.float64), place)


def _numbers(given: object) -> tuple[float, ...]:
    """Rates, from any sequence of numbers."""
    rates = list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else None
    if rates is None or not all(isinstance(rate, Real) for rate in rates):
        raise type_error(
            "Schedule", f"rates is {given!r}; accepted: numbers, or a function of the step"
        )
    return tuple(map(float, cast("list[float]", rates)))


# ------------------------------------------------------- adapting to each element


@record
class Adaptive(Rate):
    """A rate of its own for every element, scaled by `rate`: a number or a rate by step."""

    rate: float | Scheduled = 0.001

    def __post_init__(self) -> None:
        given = cast("object", self.rate)
        if isinstance(given, Rate) and not isinstance(given, Scheduled):
            name, other = type(self).__name__, type(given).__name__
            raise type_error(name, f"rate is {other}; accepted: a number or a rate by step")
        if not isinstance(given, Scheduled):
            check_not_negative(self, "rate")

    def at(self, step: Array) -> Number:
        return self.rate.at(step) if isinstance(self.rate, Scheduled) else self.rate


@record
class AdaGrad(Adaptive):
    """`rate / sqrt(c + epsilon)`, c the sum of all squared slopes so far."""

    epsilon: float = 1e-32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "epsilon")

    def memory(self) -> tuple[str, ...]:
        return ("squares",)

    def change(self, now: Moment, memory: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        squares = now.slope * now.slope + memory["squares"]
        rate = fitted(now.rate, squares.dtype) / np.sqrt(squares + self.epsilon)
        return now.direction * rate, {"squares": squares}


@record
class RMSprop(Adaptive):
    """`rate / sqrt(c + epsilon)`, c the decaying mean of squared slopes."""

    decay: float = 0.9
    epsilon: float = 1e-32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self, "decay")
        check_not_negative(self, "epsilon")

    def memory(self) -> tuple[str, ...]:
        return ("squares",)

    def change(self, now: Moment, memory: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        fresh = (1 - self.decay) * (now.slope * now.slope)
        squares = self.decay * memory["squares"] + fresh
        rate = fitted(now.rate, squares.dtype) / np.sqrt(squares + self.epsilon)
        return now.direction * rate, {"squares": squares}


@record
class Adam(Adaptive):
    """`rate * m / (sqrt(v) + epsilon)`, with means corrected for their start at zero.

    m is the decaying mean of directions, v that of squared slopes; after i steps they are divided
    by `1 - beta1**i` and `1 - beta2**i`.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self, "beta1", "beta2")
        check_not_negative(self, "epsilon")

    def memory(self) -> tuple[str, ...]:
        return "mean", "squares"

    def change(self, now: Moment, memory: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        dtype = now.slope.dtype
        mean = self.beta1 * memory["mean"] + (1 - self.beta1) * now.direction
        fresh = (1 - self.beta2) * (now.slope * now.slope)
        squares = self.beta2 * memory["squares"] + fresh
        made = np.astype(now.step + 1, np.float64)  # in single precision 1 - beta2 would be rough
        scale = now.rate / (1.0 - np.power(self.beta1, made))
        spread = 1.0 / np.sqrt(1.0 - np.power(self.beta2, made))
        below = np.sqrt(squares) * fitted(spread, dtype) + self.epsilon
        return mean / below * fitted(scale, dtype), {"mean": mean, "squares": squares}


@record
class AdamW(Adam):
    """Adam, and in each step the parameters lose the share `rate * decay` of themselves."""

    decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "decay")

    def change(self, now: Moment, memory: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        change, kept = super().change(now, memory)
        return change - fitted(now.rate * self.decay, change.dtype) * now.weight, kept
