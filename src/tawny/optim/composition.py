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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy

import tawny.numpy as np
from tawny.array import Array, lift
from tawny.autodiff.functions import grad, value_and_grad
from tawny.bad_calls import check_words
from tawny.dtype import accumulation_dtype, is_supported, kind_of
from tawny.errors import type_error, value_error
from tawny.foreign_attributes import OPTIMISER, raise_missing
from tawny.node import Value
from tawny.ops.precision import widen
from tawny.optim.directions import GD, Direction
from tawny.optim.parts import Clipping, Inertia, Regularisation
from tawny.optim.structures import Number, cast_number
from tawny.scopes import scope
from tawny.tree import leaf_paths, leaves, map_leaves, map_together, unflatten


class RateInputs(NamedTuple):
    """The facts that a rate knows about one array of parameters in one step."""

    weight: Array
    slope: Array
    direction: Array
    rate: Number
    """The rate of this step, before the rule adapts it."""
    step: Array
    """How many steps were made before."""


@dataclass(frozen=True)
class Parts:
    """The parts that an optimiser is composed of."""

    rate: Rate
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

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """One whose arguments are called as they are here."""
        check_words(cls, named.keys())
        return super().__new__(cls)

    if not TYPE_CHECKING:  # which would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise_missing(self, type(self).__name__, name, OPTIMISER.get(name))

    @abstractmethod
    def parts(self) -> Parts:
        """The parts of the optimiser."""

    def start(self, parameters: Any) -> dict[str, Any]:
        """What is remembered before the first step: zeros, and a counter."""
        parts = self.parts()

        def zeros() -> Any:
            return map_leaves(_zeros, parameters)

        state: dict[str, Any] = {"step": numpy.zeros((), numpy.int64)}
        if watch := parts.rate.start_watch():
            state["watch"] = {n: numpy.array(x, numpy.float64) for n, x in watch.items()}
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
        step = self.advance(function, parameters, state, has_aux=has_aux)
        value = (step.value, step.aux) if has_aux else step.value
        return value, step.parameters, step.state

    def advance(
        self, function: Callable[[Any], Any], parameters: Any, state: Any, *, has_aux: bool = False
    ) -> Step:
        """One step, as `step` makes it, with slopes and rate."""
        _check_structure(parameters)
        parts = self.parts()
        _check_state(state, parts)

        def objective(moved: Any) -> tuple[Any, Any]:
            value, aux = function(moved) if has_aux else (function(moved), None)
            if parts.regularisation is not None:
                penalty = parts.regularisation.penalty(moved)
                value = value + np.astype(penalty, np.asarray(value).dtype)
            return value, aux

        (value, aux), gradient = value_and_grad(objective, has_aux=True)(parameters)
        with scope("optimiser"):
            new, after = _apply_step(
                parts, lambda x: objective(x)[0], value, parameters, gradient, state
            )
            return Step(value, aux, gradient, _rate_at(parts.rate, state), new, after)

    def apply(
        self, gradients: Any, parameters: Any, state: Any, *, value: Any = None
    ) -> tuple[Any, Any]:
        """One step from gradients that are given: new parameters, new state.

        `gradients` are arrays in the structure of `parameters`.  Regularisation and clipping take
        part as in `step`; methods that look at the function itself, as Newton's, cannot.  `value`
        is the loss, for rates that follow it.
        """
        _check_structure(parameters)
        parts = self.parts()
        _check_state(state, parts)
        if parts.gradient.needs_function:
            raise type_error(
                "apply",
                f"{type(parts.gradient).__name__} needs the function, not its gradients alone; "
                "use step(function, parameters, state)",
            )
        if value is None and parts.rate.start_watch():
            raise type_error(
                "apply", f"the rate of {type(self).__name__} follows the loss; give value=loss"
            )
        with scope("optimiser"):
            slope = _as_gradients(gradients, parameters)
            if parts.regularisation is not None:
                slope = map_together(_add, slope, grad(parts.regularisation.penalty)(parameters))
            return _apply_step(parts, None, value, parameters, slope, state)

    def rate_of(self, state: Any) -> Array:
        """The rate of the next step, before it is adapted to single parameters."""
        return np.asarray(_rate_at(self.parts().rate, state), dtype=np.float64)


@dataclass(frozen=True)
class Rate(Steps):
    """The length of a step along a direction; alone, an optimiser with plain gradients."""

    def parts(self) -> Parts:
        return Parts(self, GD())

    def memory(self) -> tuple[str, ...]:
        """Names of the arrays it remembers for each array of parameters."""
        return ()

    @abstractmethod
    def at(self, step: Array) -> Number:
        """The rate after `step` steps."""

    def start_watch(self) -> dict[str, float]:
        """The memory of losses before the first one; empty if the rate follows none."""
        return {}

    def update_watch(self, memory: Mapping[str, Any], loss: Array) -> dict[str, Array]:
        """The memory of losses after this one."""
        return {}

    def rate_from_watch(self, step: Array, memory: Mapping[str, Any]) -> Number:
        """The rate after `step` steps whose losses left this memory."""
        return self.at(step)

    def change(
        self, now: RateInputs, memory: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array]]:
        """What to add to the parameters, and what to remember."""
        return now.direction * cast_number(now.rate, now.direction.dtype), {}


def _add(slope: Array, more: Array) -> Array:
    return slope + np.astype(more, slope.dtype)


def _rate_at(rule: Rate, state: Mapping[str, Any]) -> Number:
    """The rate of the next step."""
    step = np.asarray(state["step"])
    return rule.rate_from_watch(step, state["watch"]) if rule.start_watch() else rule.at(step)


def _apply_step(
    parts: Parts,
    function: Callable[[Any], Any] | None,
    value: Any,
    parameters: Any,
    gradient: Any,
    state: Any,
) -> tuple[Any, dict[str, Any]]:
    """Parameters and state after a step down this slope."""
    slope = map_leaves(widen, gradient)  # squares of small slopes are 0 in 16 bits
    slope = slope if parts.clipping is None else parts.clipping.clip(slope)
    step = np.asarray(state["step"])
    after: dict[str, Any] = {"step": step + 1}
    remembered = state.get("gradient", {})
    direction = parts.gradient.direction(function, parameters, slope, remembered)
    if remembered:
        known = {"gradient": slope, "direction": direction}
        after["gradient"] = {name: known[name] for name in remembered}
    if parts.rate.start_watch():
        loss = np.astype(np.asarray(value), np.float64)
        after["watch"] = parts.rate.update_watch(state["watch"], loss)
    rate = _rate_at(parts.rate, state)
    change, memory = _changes(parts.rate, rate, step, parameters, slope, direction, state)
    if memory:
        after["rate"] = memory
    if parts.momentum is not None:
        inertia = parts.momentum
        velocity = map_together(inertia.velocity, state["momentum"], change)
        change = map_together(inertia.step, velocity, change)
        after["momentum"] = velocity
    new = map_together(_add_change, parameters, change, gradient)
    return new, {name: after[name] for name in state}


def _as_gradients(gradients: Any, parameters: Any) -> Any:
    """Gradients as arrays of the parameters' dtypes; those that do not fit are named."""
    given, wanted = (dict(leaf_paths(x, "x")) for x in (gradients, parameters))
    wrong = [f"{name} is missing" for name in wanted if name not in given]
    wrong += [f"{name} is not expected" for name in given if name not in wanted]
    for name in [n for n in wanted if n in given]:
        slope, node = lift(given[name], "apply"), lift(wanted[name], "apply")
        if slope.shape != node.shape:
            wrong.append(f"{name} has shape {slope.shape}; it must be {node.shape}")
        elif kind_of(slope.dtype) != "f":
            wrong.append(f"{name} is {slope.dtype}; accepted: real floating-point numbers")
    if wrong:
        raise value_error(
            "apply", f"the gradients do not fit the parameters, called x: {'; '.join(wrong)}"
        )
    slopes = [np.astype(given[name], lift(x, "apply").dtype) for name, x in wanted.items()]
    return unflatten(parameters, slopes)


def _add_change(weight: Any, change: Array, gradient: Array) -> Array:
    """A parameter after its step, in its own dtype, which is that of its gradient."""
    return np.astype(weight + change, gradient.dtype)


def _changes(
    rule: Rate,
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
        now = RateInputs(weight, g, p, rate, step)
        memory = dict(zip(names, next(rows), strict=True)) if names else {}
        moved, remembered = rule.change(now, memory)
        for name in names:
            kept[name].append(remembered[name])
        return moved

    changed = map_together(change, parameters, slope, direction)
    memory = {name: unflatten(parameters, arrays) for name, arrays in kept.items()}
    return changed, memory


def _zeros(parameter: Any) -> Value:
    is_plain = type(parameter) is numpy.ndarray and is_supported(parameter.dtype)
    known = parameter if is_plain else lift(parameter, "start")
    return numpy.zeros(known.shape, accumulation_dtype(known.dtype))


def _check_state(state: Any, parts: Parts) -> None:
    """Refuse what another rule remembers."""
    wanted = ["step", *(f"watch.{name}" for name in parts.rate.start_watch())]
    wanted += [f"rate.{name}" for name in parts.rate.memory()]
    wanted += [f"gradient.{name}" for name in parts.gradient.memory()]
    wanted += [] if parts.momentum is None else ["momentum"]
    if not isinstance(state, Mapping):
        raise value_error(
            "optim", f"the state is {type(state).__name__}; accepted: what start gives"
        )
    given: list[str] = []
    for name, item in cast("Mapping[str, Any]", state).items():
        parts_of = name in ("watch", "rate", "gradient") and isinstance(item, Mapping)
        named = cast("Mapping[str, Any]", item) if parts_of else ()
        given += [f"{name}.{part}" for part in named] if parts_of else [name]
    if sorted(given) != sorted(wanted):
        raise value_error(
            "optim",
            f"the state has {', '.join(given) or 'nothing'}; "
            f"accepted: {', '.join(wanted)}, as start gives",
        )


def _check_structure(parameters: Any) -> None:
    for path, leaf in leaf_paths(parameters):
        dtype = getattr(leaf, "dtype", None)
        if dtype is not None and numpy.dtype(dtype).kind == "c":
            where = f"parameter {path}" if path else "the parameter"
            raise type_error(
                "optim", f"{where} has dtype {dtype}; accepted: real floating-point numbers"
            )
    if not leaves(parameters):
        raise type_error("optim", "there is no parameter to optimise")
