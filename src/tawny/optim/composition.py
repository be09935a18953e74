"""One step of an optimiser, composed of its parts, as a graph.

    slope      g = clipping(gradient of loss + regularisation)
    direction  p = gradient method(g, what it remembers)
    change     u = rate(p, g, what it remembers)
    step       parameters + momentum(u)

Everything an optimiser remembers is a nested structure of arrays, the step counter included, so
that a step works on known arrays, traced arguments and variables alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import numpy

import tawny.numpy as np
from tawny.array import Array, lift
from tawny.autodiff.functions import value_and_grad
from tawny.dtype import DTYPES
from tawny.errors import type_error, value_error
from tawny.named import NamedTuple
from tawny.node import Value
from tawny.optim.clipping import Clipping
from tawny.optim.directions import Direction
from tawny.optim.momentum import Inertia
from tawny.optim.regularisation import Regularisation
from tawny.optim.vectors import Number
from tawny.record import record
from tawny.scopes import scope
from tawny.tree import leaves, like, map_leaves, map_together, paths


class Moment(NamedTuple):
    """What a rate is told about one array of parameters in one step."""

    weight: Array
    slope: Array
    direction: Array
    rate: Number
    """The rate of this step, before the rule adapts it."""
    step: Array
    """How many steps were made before."""


class RateRule(Protocol):
    """How far to go along a direction; see `tawny.optim.rates`."""

    def memory(self) -> tuple[str, ...]:
        """Names of the arrays it remembers for each array of parameters."""
        ...

    def at(self, step: Array) -> Number:
        """The rate after `step` steps."""
        ...

    def change(self, now: Moment, memory: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        """What to add to the parameters, and what to remember."""
        ...


@record
class Parts:
    """What an optimiser is composed of."""

    rate: RateRule
    gradient: Direction
    momentum: Inertia | None = None
    regularisation: Regularisation | None = None
    clipping: Clipping | None = None


class Step(NamedTuple):
    """All that a step computes."""

    value: Array
    """The loss before the step, regularisation included."""
    aux: Any
    slope: Any
    """The gradient, before clipping."""
    rate: Number
    parameters: Any
    state: Any


class Steps(ABC):
    """An optimiser: something that makes steps."""

    @abstractmethod
    def parts(self) -> Parts:
        """What it is composed of."""

    def start(self, parameters: Any) -> dict[str, Any]:
        """What is remembered before the first step: zeros, and a counter."""
        parts = self.parts()

        def zeros() -> Any:
            return map_leaves(_zeros, parameters)

        state: dict[str, Any] = {"step": numpy.zeros((), numpy.int64)}
        if names := parts.rate.memory():
            state["rate"] = {name: zeros() for name in names}
        if names := parts.gradient.memory():
            state["gradient"] = {name: zeros() for name in names}
        if parts.momentum is not None:
            state["momentum"] = zeros()
        return state

    def step(
        self, function: Callable[[Any], Any], parameters: Any, state: Any, *, has_aux: bool = False
    ) -> tuple[Any, Any, Any]:
        """One step: the value of `function` before it, new parameters, new state.

        With `has_aux` the function gives a pair whose second part is passed on beside the value.
        """
        made = self.advance(function, parameters, state, has_aux=has_aux)
        value = (made.value, made.aux) if has_aux else made.value
        return value, made.parameters, made.state

    def advance(
        self, function: Callable[[Any], Any], parameters: Any, state: Any, *, has_aux: bool = False
    ) -> Step:
        """As `step`, with slopes and rate."""
        _check_structure(parameters)
        parts = self.parts()
        _check_state(state, parts)

        def objective(moved: Any) -> tuple[Any, Any]:
            value, aux = function(moved) if has_aux else (function(moved), None)
            if parts.regularisation is not None:
                penalty = parts.regularisation.penalty(moved)
                value = value + np.astype(penalty, np.asarray(value).dtype)
            return value, aux

        (value, aux), steep = value_and_grad(objective, has_aux=True)(parameters)
        with scope("optimiser"):
            return self._step(objective, value, aux, parameters, steep, state)

    def _step(
        self,
        objective: Callable[[Any], tuple[Any, Any]],
        value: Any,
        aux: Any,
        parameters: Any,
        steep: Any,
        state: Any,
    ) -> Step:
        """The step that follows from slopes."""
        parts = self.parts()
        slope = steep if parts.clipping is None else parts.clipping.clipped(steep)
        step = np.asarray(state["step"])
        after: dict[str, Any] = {"step": step + 1}
        remembered = state.get("gradient", {})
        direction = parts.gradient.direction(
            lambda moved: objective(moved)[0], parameters, slope, remembered
        )
        if remembered:
            known = {"gradient": slope, "direction": direction}
            after["gradient"] = {name: known[name] for name in remembered}
        rate = parts.rate.at(step)
        change, memory = _changes(parts.rate, rate, step, parameters, slope, direction, state)
        if memory:
            after["rate"] = memory
        if parts.momentum is not None:
            inertia = parts.momentum
            velocity = map_together(inertia.velocity, state["momentum"], change)
            change = map_together(inertia.step, velocity, change)
            after["momentum"] = velocity
        new = map_together(_moved, parameters, change, slope)
        ordered = {name: after[name] for name in state}
        return Step(value, aux, steep, rate, new, ordered)

    def rate_of(self, state: Any) -> Array:
        """The rate of the next step, before it is adapted to single parameters."""
        return np.asarray(self.parts().rate.at(np.asarray(state["step"])), dtype=np.float64)


def _moved(weight: Any, change: Array, slope: Array) -> Array:
    """A parameter after its step, in its own dtype."""
    return np.astype(weight + change, slope.dtype)


def _changes(
    rule: RateRule,
    rate: Number,
    step: Array,
    parameters: Any,
    slope: Any,
    direction: Any,
    state: Mapping[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """What the rate makes of each array's direction, and what it remembers."""
    names = rule.memory()
    columns = [leaves(state["rate"][name]) for name in names]
    kept: dict[str, list[Array]] = {name: [] for name in names}
    rows = iter(list(zip(*columns, strict=True)))

    def change(weight: Any, g: Array, p: Array) -> Array:
        now = Moment(weight, g, p, rate, step)
        memory = dict(zip(names, next(rows), strict=True)) if names else {}
        moved, remembered = rule.change(now, memory)
        for name in names:
            kept[name].append(remembered[name])
        return moved

    changed = map_together(change, parameters, slope, direction)
    memory = {name: like(parameters, arrays) for name, arrays in kept.items()}
    return changed, memory


def _zeros(parameter: Any) -> Value:
    is_plain = type(parameter) is numpy.ndarray and parameter.dtype in DTYPES
    known = parameter if is_plain else lift(parameter, "start")
    return numpy.zeros(known.shape, known.dtype)


def _check_state(state: Any, parts: Parts) -> None:
    """Refuse what another rule remembers."""
    wanted = ["step", *(f"rate.{name}" for name in parts.rate.memory())]
    wanted += [f"gradient.{name}" for name in parts.gradient.memory()]
    wanted += [] if parts.momentum is None else ["momentum"]
    if not isinstance(state, Mapping):
        raise value_error(
            "optim", f"the state is {type(state).__name__}; accepted: what start gives"
        )
    given: list[str] = []
    for name, item in cast("Mapping[str, Any]", state).items():
        parts_of = name in ("rate", "gradient") and isinstance(item, Mapping)
        named = cast("Mapping[str, Any]", item) if parts_of else ()
        given += [f"{name}.{part}" for part in named] if parts_of else [name]
    if sorted(given) != sorted(wanted):
        raise value_error(
            "optim",
            f"the state has {', '.join(given) or 'nothing'}; "
            f"accepted: {', '.join(wanted)}, as start gives",
        )


def _check_structure(parameters: Any) -> None:
    for path, leaf in paths(parameters):
        dtype = getattr(leaf, "dtype", None)
        if dtype is not None and numpy.dtype(dtype).kind == "c":
            where = f"parameter {path}" if path else "the parameter"
            raise type_error(
                "optim", f"{where} has dtype {dtype}; accepted: real floating-point numbers"
            )
    if not leaves(parameters):
        raise type_error("optim", "there is no parameter to optimise")
