"""The minimum of a plain function, step by step, each look at it one run of one program."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import kind_of
from tawny.engine.evaluation import evaluate
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.node import Value
from tawny.optim.arguments import as_nonnegative
from tawny.optim.composition import Steps
from tawny.optim.descent import LBFGS, Descent, Iterate, NewtonDescent, Objective
from tawny.optim.directions import Newton
from tawny.optim.optimiser import as_optimiser
from tawny.optim.stopping import Stopping
from tawny.optim.structures import max_magnitude, variables_for
from tawny.shape import as_int
from tawny.tree import leaves, map_leaves, map_together, unflatten


@dataclass(frozen=True)
class Result:
    """The end of a search: the best value, and where it is."""

    x: Any
    """The parameters, in the structure they came in."""
    value: float
    """The value of the function at `x`."""
    slope: float
    """The greatest magnitude of the gradient's elements: at x if a line was searched or it
    converged, else before the last step."""
    steps: int
    history: list[float]
    """The function before each step."""
    reason: str
    """Why it ended: "converged", "steps", "diverged", "no descent" (no lower point was found along
    the line, as at the bottom to the last digit), or what a rule or callback said."""
    evaluations: int
    """How often the function was computed."""

    @property
    def converged(self) -> bool:
        """Whether the slope became as small as asked."""
        return self.reason == "converged"


@explain_bad_calls
def minimise(
    function: Callable[[Any], Any],
    x0: Any,
    optimiser: Any = None,
    *,
    steps: int = 1000,
    tolerance: float = 1e-6,
    stopping: Stopping | None = None,
    callback: Callable[[int, float], Any] | None = None,
    engine: str = "cpu",
    memory: str | int | None = None,
) -> Result:
    """Parameters near `x0` at which `function`, one number, is least.

    - `function`: computes one real number from parameters.
    - `x0`: where to start: an array or a nested structure of arrays; a list of numbers is an
      array.
    - `optimiser`: the method: `LBFGS()`, with a line search, when None; `Newton()`, with one too,
      for functions of few parameters; or any optimiser, which makes its steps without one.
    - `steps`: the most steps to make.
    - `tolerance`: the search ends when no element of the gradient is greater.
    - `stopping`: a rule such as `optim.Early()` that may end it.
    - `callback`: called as `callback(step, value)`; True ends the search.
    - `engine`: as for `Graph.compile`.
    - `memory`: a budget for what a step computes, `"2GB"` or bytes; None sets no limit.

    Gives a `Result`: `x`, the `value` there, `slope`, `steps`, `history`, `evaluations`,
    `converged`, and the `reason` why it ended: as here, or `"diverged"` when the function or its
    slope is no finite number, or `"no descent"` when no lower point is found.

        found = optim.minimise(lambda x: np.sum((x - 3.0) ** 2), [0.0, 0.0])
        found.converged, found.x.round(6).tolist()    # -> (True, [3.0, 3.0])
    """
    _check(function, steps, tolerance, stopping, callback)
    start = _as_start(x0)
    method = _method(optimiser)
    monitor = _Monitor(float(tolerance), stopping, callback)
    if isinstance(method, Descent):
        objective = Objective(lambda x: _as_number(function(x)), start, engine, memory)
        return _descend(objective, method, steps, monitor)
    graph, variables = _step_graph(function, start, method, float(tolerance))
    program = graph.compile(engine, memory=memory, incremental=False)
    first = [*leaves(start), *leaves(method.start(start))]
    program.set(**{v.node.name: a for v, a in zip(variables, first, strict=True)})
    reason, slope = "steps", math.inf
    for _ in range(steps):
        value, slope = map(float, program.run())
        if (said := monitor.reason(value, slope)) is not None:
            reason = said
            break
    state = program.state
    x = unflatten(start, [state[v.node.name] for v in variables[: len(leaves(start))]])
    value = float(evaluate(np.asarray(function(map_leaves(np.asarray, x)))))
    count = len(monitor.history)
    return Result(x, value, slope, count, monitor.history, reason, count + 1)


def _method(given: Any) -> Steps | Descent:
    """How to go down: by searching along lines, or step by step."""
    if given is None:
        return LBFGS()
    if isinstance(given, Newton):
        return NewtonDescent()
    return given if isinstance(given, Descent) else as_optimiser(given, "minimise")


class _Monitor:
    """Sees the function at each step, and says when to end."""

    def __init__(
        self,
        tolerance: float,
        stopping: Stopping | None,
        callback: Callable[[int, float], Any] | None,
    ) -> None:
        self.tolerance, self._stopping, self._callback = tolerance, stopping, callback
        self._memories = {} if stopping is None else stopping.start()
        self.history: list[float] = []

    def reason(self, value: float, slope: float) -> str | None:
        """Why to end before the next step; None to make it."""
        self.history.append(value)
        if not (math.isfinite(value) and math.isfinite(slope)):
            return "diverged"
        if slope <= self.tolerance:
            return "converged"
        if self._stopping is not None:
            self._memories = self._stopping.update(self._memories, value)
            if (said := self._stopping.reason(self._memories)) is not None:
                return said
        if self._callback is not None and self._callback(len(self.history), value) is True:
            return "callback"
        return None


def _descend(objective: Objective, method: Descent, steps: int, monitor: _Monitor) -> Result:
    """Where a search along lines ends."""
    x = objective.start
    here, state = Iterate(x, *objective.at(x)), method.start(objective)
    reason = "steps"
    for _ in range(steps):
        if (said := monitor.reason(here.value, here.steepest)) is not None:
            reason = said
            break
        found = method.next(objective, state, here)
        if found is None:
            reason = "no descent"
            break
        here = found
    if reason == "steps" and here.steepest <= monitor.tolerance:
        reason = "converged"
    history = monitor.history
    where = objective.as_parameters(here.x)
    return Result(
        where, here.value, here.steepest, len(history), history, reason, objective.evaluations
    )


def _check(
    function: object, steps: object, tolerance: object, stopping: object, callback: object
) -> None:
    if not callable(function):
        raise type_error("minimise", f"the function is {type(function).__name__}; it is a function")
    if as_int(steps, "minimise", "steps") < 1:
        raise value_error("minimise", f"steps is {steps}; it must be at least 1")
    as_nonnegative(tolerance, "minimise", "tolerance")
    if stopping is not None and not isinstance(stopping, Stopping):
        raise type_error("minimise", f"stopping is {stopping!r}; accepted: a rule of tawny.optim")
    if callback is not None and not callable(callback):
        raise type_error("minimise", f"callback is {callback!r}; it is a function")


def _step_graph(
    function: Callable[[Any], Any], start: Any, rule: Steps, tolerance: float
) -> tuple[Graph, list[Array]]:
    """One step as a graph: the value and the greatest slope, and what everything becomes.

    Parameters where the slope is within the tolerance stay as they are.
    """
    parameters, state = variables_for(start, "x"), variables_for(rule.start(start), "optimiser")
    step = rule.advance(lambda moved: _as_number(function(moved)), parameters, state)
    variables = cast("list[Array]", [*leaves(parameters), *leaves(state)])
    slope = max_magnitude(step.slope)
    converged = slope <= tolerance

    def stopped(new: Array, old: Array) -> Array:
        kept: Array = np.where(converged, old, new)
        return kept

    moved = map_together(stopped, step.parameters, parameters)
    sources = [*leaves(moved), *leaves(step.state)]
    outputs = (step.value, slope)
    return Graph([], outputs, dict(zip(variables, sources, strict=True))), variables


def _as_number(value: Any) -> Array:
    """What the function gives: one real number."""
    given: object = value
    if not isinstance(given, (Array, numpy.ndarray, Real)):
        kind = type(given).__name__
        raise type_error("minimise", f"the function gives {kind}; accepted: one number")
    array = np.asarray(value)
    if array.shape:
        raise type_error(
            "minimise", f"the function gives shape {array.shape}; it must be one number"
        )
    if kind_of(array.dtype) != "f":
        raise type_error(
            "minimise", f"the function gives {array.dtype}; accepted: real floating-point numbers"
        )
    return array


def _as_start(x0: Any) -> Any:
    """The start as arrays of floating-point numbers."""
    given: object = x0
    if isinstance(given, list) and all(isinstance(x, (int, float)) for x in leaves(x0)):
        start: Any = _array(x0)
    else:
        start = map_leaves(_array, x0)
    if not sum(array.size for array in leaves(start)):
        raise value_error("minimise", "x0 has no elements; accepted: arrays of numbers")
    return start


def _array(leaf: Any) -> Value:
    try:
        given: Value = numpy.asarray(leaf)
    except ValueError:
        raise value_error("minimise", "x0 has rows of different lengths") from None
    if given.dtype.kind in "iu":
        given = given.astype(numpy.float64)
    if kind_of(given.dtype) != "f":
        raise type_error(
            "minimise", f"x0 has dtype {given.dtype}; accepted: real floating-point numbers"
        )
    return given
