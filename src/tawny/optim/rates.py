"""Learning rates: how far to go along a direction.  Each is an optimiser, with plain gradients.

Rates of the first kind depend on the number of the step, or on the losses before it.  Those of the
second kind adapt to every element of the parameters, and are themselves scaled by a rate of the
first kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.errors import type_error, value_error
from tawny.optim.arguments import check_count, check_fraction, check_not_negative
from tawny.optim.composition import Rate, RateInputs
from tawny.optim.structures import Number, cast_number

# -------------------------------------------------------- by the step's number


@dataclass(frozen=True)
class ScheduledRate(Rate):
    """A rate that depends on the number of the step, or on the losses before it, alone."""


@dataclass(frozen=True)
class Constant(ScheduledRate):
    """Always the same rate.

    - `rate`: a number of at least 0.

    As a rate by step it can be given wherever a number can.

        optim.SGD(optim.Constant(0.1)) == optim.SGD(0.1)   # -> True
    """

    rate: float = 0.001

    def __post_init__(self) -> None:
        check_not_negative(self, "rate")

    def at(self, step: Array) -> Number:
        return self.rate


@dataclass(frozen=True)
class Decay(ScheduledRate):
    """`rate / (1 + k i)` after i steps.

    - `rate`: the first rate.
    - `k`: how fast it falls.

    It can be the rate of any optimiser.

        rate = optim.Decay(0.1, 1.0)
        [round(float(rate.at(np.asarray(i))), 6) for i in (0, 3)]   # -> [0.1, 0.025]
    """

    rate: float
    k: float

    def __post_init__(self) -> None:
        check_not_negative(self, "rate", "k")

    def at(self, step: Array) -> Number:
        return self.rate / (1.0 + self.k * np.astype(step, np.float64))


@dataclass(frozen=True)
class ExponentialDecay(ScheduledRate):
    """`rate * exp(-k i)` after i steps.

    - `rate`: the first rate.
    - `k`: how fast it falls.

    It can be the rate of any optimiser.

        rate = optim.ExponentialDecay(0.1, 0.5)
        [round(float(rate.at(np.asarray(i))), 6) for i in (0, 2)]   # -> [0.1, 0.036788]
    """

    rate: float
    k: float

    def __post_init__(self) -> None:
        check_not_negative(self, "rate", "k")

    def at(self, step: Array) -> Number:
        return self.rate * np.exp(-self.k * np.astype(step, np.float64))


@dataclass(frozen=True)
class Schedule(ScheduledRate):
    """Rates one by one: the i-th after i steps, then the last for ever.

    - `rates`: numbers, or a function from the number of steps made, an array, to the rate.
    - `cycle`: begin with the first again after the last.

    It can be the rate of any optimiser.

        rate = optim.Schedule([0.1, 0.01], cycle=True)
        [float(rate.at(np.asarray(i))) for i in (0, 1, 2)]   # -> [0.1, 0.01, 0.1]
    """

    rates: Sequence[float] | Callable[[Array], Array]
    cycle: bool = False

    def __post_init__(self) -> None:
        if callable(self.rates):
            return
        rates = _as_rates(self.rates)
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


@dataclass(frozen=True)
class Cosine(ScheduledRate):
    """From `rate` down to `end` in `steps` steps, along half a cosine; then `end` for ever.

    - `rate`: the first rate.
    - `steps`: how many steps it takes.
    - `end`: the last rate.

    It is `end + (rate - end) (1 + cos(pi i / steps)) / 2` after i steps.

        rate = optim.Cosine(0.1, steps=100)
        [round(float(rate.at(np.asarray(i))), 6) for i in (0, 50, 200)]   # -> [0.1, 0.05, 0.0]
    """

    rate: float
    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "rate", "end")
        check_count(self, "steps")

    def at(self, step: Array) -> Number:
        share = np.astype(np.minimum(step, self.steps), np.float64) / self.steps
        return self.end + (self.rate - self.end) * 0.5 * (1.0 + np.cos(math.pi * share))


@dataclass(frozen=True)
class WarmUp(ScheduledRate):
    """Step by step up to a rate, then that rate.

    - `rate`: a number, or a rate by step such as `Cosine`.
    - `steps`: how many steps the way up takes.

    The step after i others has the share `(i + 1) / steps` of the rate's first; those after the
    first `steps` have the rates that `rate` alone begins with.

        rate = optim.WarmUp(0.1, steps=10)
        [round(float(rate.at(np.asarray(i))), 6) for i in (0, 4, 20)]   # -> [0.01, 0.05, 0.1]
    """

    rate: float | ScheduledRate
    steps: int

    def __post_init__(self) -> None:
        check_rate(self, self.rate)
        check_count(self, "steps")

    def at(self, step: Array) -> Number:
        return self._warm_up(step, as_schedule(self.rate).at)

    def _warm_up(self, step: Array, rate: Callable[[Array], Number]) -> Number:
        share = np.minimum(np.astype(step + 1, np.float64) / self.steps, 1.0)
        return share * rate(np.maximum(step - self.steps, 0))

    def start_watch(self) -> dict[str, float]:
        return as_schedule(self.rate).start_watch()

    def update_watch(self, memory: Mapping[str, Any], loss: Array) -> dict[str, Array]:
        return as_schedule(self.rate).update_watch(memory, loss)

    def rate_from_watch(self, step: Array, memory: Mapping[str, Any]) -> Number:
        return self._warm_up(step, lambda i: as_schedule(self.rate).rate_from_watch(i, memory))


@dataclass(frozen=True)
class Plateau(ScheduledRate):
    """A rate that falls whenever the loss has not become better for a while.

    - `rate`: the first rate.
    - `factor`: what it is multiplied by each time, from 0 to 1.
    - `patience`: how many losses in a row must be no better.
    - `every`: of how many steps a loss is the mean, an epoch's say.
    - `margin`: a loss is better if it is less than the best by more than this; NaN never is.
    - `least`: the rate never falls below.

    It can be the rate of any optimiser.

        rule = optim.SGD(optim.Plateau(0.1, factor=0.5, patience=3, every=10))
    """

    rate: float = 0.001
    factor: float = 0.1
    patience: int = 10
    every: int = 1
    margin: float = 0.0
    least: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "rate", "margin", "least")
        check_fraction(self, "factor")
        check_count(self, "patience", "every")

    def at(self, step: Array) -> Number:
        return self.rate

    def start_watch(self) -> dict[str, float]:
        return {"best": math.inf, "waited": 0.0, "scale": 1.0, "sum": 0.0, "count": 0.0}

    def update_watch(self, memory: Mapping[str, Any], loss: Array) -> dict[str, Array]:
        best, waited, scale, before, count = (
            np.asarray(memory[name]) for name in ("best", "waited", "scale", "sum", "count")
        )
        total, number = before + loss, count + 1.0
        full = number >= self.every
        better = total / number < best - self.margin
        longer = np.where(better, 0.0, waited + 1.0)
        tired = longer >= self.patience
        return {
            "best": np.where(full & better, total / number, best),
            "waited": np.where(full, np.where(tired, 0.0, longer), waited),
            "scale": np.where(full & tired, scale * self.factor, scale),
            "sum": np.where(full, 0.0, total),
            "count": np.where(full, 0.0, number),
        }

    def rate_from_watch(self, step: Array, memory: Mapping[str, Any]) -> Number:
        return np.maximum(self.rate * np.asarray(memory["scale"]), min(self.least, self.rate))


def as_schedule(rate: float | ScheduledRate) -> ScheduledRate:
    """A rate by step; a number stands for a constant one."""
    return rate if isinstance(rate, ScheduledRate) else Constant(rate)


def check_rate(rule: Rate, given: object) -> None:
    """Let `rate` be a number of at least 0 or a rate by step."""
    if isinstance(given, Rate) and not isinstance(given, ScheduledRate):
        name, other = type(rule).__name__, type(given).__name__
        raise type_error(name, f"rate is {other}; accepted: a number or a rate by step")
    if not isinstance(given, ScheduledRate):
        check_not_negative(rule, "rate")


def _as_rates(given: object) -> tuple[float, ...]:
    """Rates, from any sequence of numbers."""
    rates = list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else None
    if rates is None or not all(isinstance(rate, Real) for rate in rates):
        raise type_error(
            "Schedule", f"rates is {given!r}; accepted: numbers, or a function of the step"
        )
    return tuple(map(float, cast("list[float]", rates)))


# ------------------------------------------------------- adapting to each element


@dataclass(frozen=True)
class AdaptiveRate(Rate):
    """A rate of its own for every element, scaled by `rate`: a number or a rate by step."""

    rate: float | ScheduledRate = 0.001

    def __post_init__(self) -> None:
        check_rate(self, self.rate)

    def at(self, step: Array) -> Number:
        return as_schedule(self.rate).at(step)

    def start_watch(self) -> dict[str, float]:
        return as_schedule(self.rate).start_watch()

    def update_watch(self, memory: Mapping[str, Any], loss: Array) -> dict[str, Array]:
        return as_schedule(self.rate).update_watch(memory, loss)

    def rate_from_watch(self, step: Array, memory: Mapping[str, Any]) -> Number:
        return as_schedule(self.rate).rate_from_watch(step, memory)


@dataclass(frozen=True)
class AdaGrad(AdaptiveRate):
    """`rate / sqrt(c + epsilon)`, c the sum of all squared slopes up to this step.

    - `rate`: a number, or a rate by step such as `Cosine`.
    - `epsilon`: keeps the root from zero.

    Every element of a parameter has a rate of its own.

        optim.minimise(lambda x: np.sum(x * x), [1.0], optim.AdaGrad(0.5)).converged   # -> True
    """

    epsilon: float = 1e-32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "epsilon")

    def memory(self) -> tuple[str, ...]:
        return ("squares",)

    def change(
        self, now: RateInputs, memory: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        squares = now.slope * now.slope + memory["squares"]
        rate = cast_number(now.rate, squares.dtype) / np.sqrt(squares + self.epsilon)
        return now.direction * rate, {"squares": squares}


@dataclass(frozen=True)
class RMSprop(AdaptiveRate):
    """`rate / sqrt(c + epsilon)`, c the decaying mean of squared slopes.

    - `rate`: a number, or a rate by step such as `Cosine`.
    - `decay`: the share of the mean that each step keeps, from 0 to 1.
    - `epsilon`: keeps the root from zero.

    Every element of a parameter has a rate of its own.

        rule = optim.RMSprop(optim.Cosine(0.01, steps=500))
        optim.minimise(lambda x: np.sum(x * x), [1.0], rule, steps=500).value < 1e-3   # -> True
    """

    decay: float = 0.9
    epsilon: float = 1e-32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "decay")
        check_not_negative(self, "epsilon")

    def memory(self) -> tuple[str, ...]:
        return ("squares",)

    def change(
        self, now: RateInputs, memory: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        fresh = (1 - self.decay) * (now.slope * now.slope)
        squares = self.decay * memory["squares"] + fresh
        rate = cast_number(now.rate, squares.dtype) / np.sqrt(squares + self.epsilon)
        return now.direction * rate, {"squares": squares}


@dataclass(frozen=True)
class Adam(AdaptiveRate):
    """`rate * m / (sqrt(v) + epsilon)`, with means corrected for their start at zero.

    - `rate`: a number, or a rate by step such as `Cosine`.
    - `beta1`: the share of m that each step keeps, from 0 to 1.
    - `beta2`: the share of v that each step keeps.
    - `epsilon`: keeps the divisor from zero.

    m is the decaying mean of directions, v that of squared slopes; after i steps they are divided
    by `1 - beta1**i` and `1 - beta2**i`.

        optim.minimise(lambda x: np.sum(x * x), [1.0], optim.Adam(0.05)).value < 1e-6   # -> True
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "beta1", "beta2")
        check_not_negative(self, "epsilon")

    def memory(self) -> tuple[str, ...]:
        return "mean", "squares"

    def change(
        self, now: RateInputs, memory: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        dtype = now.slope.dtype
        mean = self.beta1 * memory["mean"] + (1 - self.beta1) * now.direction
        fresh = (1 - self.beta2) * (now.slope * now.slope)
        squares = self.beta2 * memory["squares"] + fresh
        count = np.astype(now.step + 1, np.float64)  # in single precision 1 - beta2 would be rough
        scale = now.rate / (1.0 - np.power(self.beta1, count))
        spread = 1.0 / np.sqrt(1.0 - np.power(self.beta2, count))
        below = np.sqrt(squares) * cast_number(spread, dtype) + self.epsilon
        return mean / below * cast_number(scale, dtype), {"mean": mean, "squares": squares}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam, and in each step the parameters lose a share of themselves.

    - `rate`, `beta1`, `beta2`, `epsilon`: as for `Adam`.
    - `decay`: the share that is lost is `rate * decay`.

    The loss itself has no price of parameters in it, as with `L2`.

        rule = optim.AdamW(optim.WarmUp(0.001, steps=100), decay=0.05)
    """

    decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "decay")

    def change(
        self, now: RateInputs, memory: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        change, kept = super().change(now, memory)
        return change - cast_number(now.rate * self.decay, change.dtype) * now.weight, kept
