"""The minimum of a plain function, step by step, each step one run of one program."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, cast

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.engine import evaluate
from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.node import Value
from tawny.optim.composition import Steps
from tawny.optim.numbers import at_least_zero
from tawny.optim.optimiser import as_optimiser
from tawny.optim.rates import Adam
from tawny.optim.stopping import Stopping
from tawny.optim.variables import variables_for
from tawny.optim.vectors import largest
from tawny.record import record
from tawny.shape import as_int
from tawny.tree import leaves, like, map_leaves, map_together


@record
class Result:
    """Where the search ended."""

    x: Any
    """The parameters, in the structure they came in."""
    value: float
    """The function there."""
    slope: float
    """The greatest magnitude of the gradient's elements: at x if it converged, else before the
    last step."""
    steps: int
    history: list[float]
    """The function before each step."""
    reason: str
    """Why it ended: "converged", "steps", "diverged", or what a rule or callback said."""

    @property
    def converged(self) -> bool:
        """Whether the slope became as small as asked."""
        return self.reason == "converged"


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

    `x0` is an array or a nested structure of arrays; a list of numbers is an array.  The search
    ends after `steps` steps, when no element of the gradient is greater than `tolerance`, when the
    function or its slope is no finite number, when `stopping` says so, or when
    `callback(step, value)` gives True.  The optimiser is Adam with rate 0.01 unless another is
    given.
    """
    _check(function, steps, tolerance, stopping, callback)
    rule = as_optimiser(Adam(0.01) if optimiser is None else optimiser, "minimise")
    start = _arrays(x0)
    graph, variables = _graph(function, start, rule, float(tolerance))
    program = graph.compile(engine, memory=memory, incremental=False)
    first = [*leaves(start), *leaves(rule.start(start))]
    program.set(**{v.node.name: a for v, a in zip(variables, first, strict=True)})
    history: list[float] = []
    memories = {} if stopping is None else stopping.start()
    reason, slope = "steps", math.inf
    for number in range(1, steps + 1):
        value, slope = map(float, program.run())
        history.append(value)
        if not (math.isfinite(value) and math.isfinite(slope)):
            reason = "diverged"
            break
        if slope <= tolerance:
            reason = "converged"
            break
        if stopping is not None:
            memories = stopping.seen(memories, value)
            if (said := stopping.reason(memories)) is not None:
                reason = said
                break
        if callback is not None and callback(number, value) is True:
            reason = "callback"
            break
    state = program.state
    x = like(start, [state[v.node.name] for v in variables[: len(leaves(start))]])
    value = float(evaluate(np.asarray(function(map_leaves(np.asarray, x)))))
    return Result(x, value, slope, len(history), history, reason)


def _check(
    function: object, steps: object, tolerance: object, stopping: object, callback: object
) -> None:
    if not callable(function):
        raise type_error("minimise", f"the function is {type(function).__name__}; it is a function")
    if as_int(steps, "minimise", "steps") < 1:
        raise value_error("minimise", f"steps is {steps}; it must be at least 1")
    at_least_zero(tolerance, "minimise", "tolerance")
    if stopping is not None and not isinstance(stopping, Stopping):
        raise type_error("minimise", f"stopping is {stopping!r}; accepted: a rule of tawny.optim")
    if callback is not None and not callable(callback):
        raise type_error("minimise", f"callback is {callback!r}; it is a function")


def _graph(
    function: Callable[[Any], Any], start: Any, rule: Steps, tolerance: float
) -> tuple[Graph, list[Array]]:
    """One step as a graph: the value and the greatest slope, and what everything becomes.

    Parameters where the slope is within the tolerance stay as they are.
    """
    parameters, state = variables_for(start, "x"), variables_for(rule.start(start), "optimiser")
    made = rule.advance(lambda moved: _number(function(moved)), parameters, state)
    variables = cast("list[Array]", [*leaves(parameters), *leaves(state)])
    slope = largest(made.slope)
    there = slope <= tolerance

    def stopped(new: Array, old: Array) -> Array:
        kept: Array = np.where(there, old, new)
        return kept

    moved = map_together(stopped, made.parameters, parameters)
    sources = [*leaves(moved), *leaves(made.state)]
    outputs = (made.value, slope)
    return Graph([], outputs, dict(zip(variables, sources, strict=True))), variables


def _number(value: Any) -> Array:
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
    if array.dtype.kind != "f":
        raise type_error(
            "minimise", f"the function gives {array.dtype}; accepted: real floating-point numbers"
        )
    return array


def _arrays(x0: Any) -> Any:
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
    if given.dtype.kind != "f":
        raise type_error(
            "minimise", f"x0 has dtype {given.dtype}; accepted: real floating-point numbers"
        )
    return given
