"""Methods that search along lines: each step looks at the function as often as it needs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy

from tawny import dtype as dt
from tawny.array import Array
from tawny.autodiff.functions import value_and_grad
from tawny.autodiff.jacobian import hessian
from tawny.errors import type_error
from tawny.graph.graph import Graph
from tawny.graph.program import Program
from tawny.node import Value
from tawny.optim.arguments import check_count
from tawny.optim.line_search import LinePoint, StrongWolfe
from tawny.optim.structures import flatten, variables_for
from tawny.tree import leaves, unflatten

Function = Callable[[Any], Any]


class Objective:
    """A function of one vector, made of all parameters: value, slope and second derivatives.

    Each look is one run of one program.
    """

    def __init__(self, function: Function, start: Any, engine: str, memory: Any) -> None:
        self._function, self._start = function, start
        self._options = engine, memory
        self._parts: list[Value] = leaves(start)
        variables = variables_for(start, "x")
        self._names: list[str] = [v.node.name for v in leaves(variables)]
        value, slopes = value_and_grad(function)(variables)
        self.rounding = float(dt.finfo(value.dtype).eps)
        self._program = self._compile(variables, (value, leaves(slopes)))
        self._second: Program | None = None
        self.evaluations = 0

    @property
    def start(self) -> Value:
        """The vector to start from."""
        return numpy.concatenate([numpy.ravel(p).astype(numpy.float64) for p in self._parts])

    def at(self, x: Value) -> tuple[float, Value]:
        """The value and the slope."""
        self.evaluations += 1
        value, slopes = self._program(**self._arguments(x))
        return float(value), numpy.concatenate([numpy.ravel(s) for s in slopes], dtype=float)

    def hessian_at(self, x: Value) -> Value:
        """The matrix of second derivatives."""
        if self._second is None:
            variables = variables_for(self._start, "x")
            vector, back = flatten(variables)

            def of_vector(moved: Array) -> Any:
                return self._function(back(moved))

            self._second = self._compile(variables, hessian(of_vector)(vector))
        return numpy.asarray(self._second(**self._arguments(x)), dtype=float)

    def as_parameters(self, x: Value) -> Any:
        """The vector as the parameters came."""
        return unflatten(self._start, self._pieces(x))

    def _compile(self, variables: Any, outputs: Any) -> Program:
        engine, memory = self._options
        graph = Graph(leaves(variables), outputs, unused="ignore")
        return graph.compile(engine, memory=memory, incremental=False)

    def _pieces(self, x: Value) -> list[Value]:
        ends = numpy.cumsum([part.size for part in self._parts])
        pieces = numpy.split(x, ends[:-1])
        return [
            piece.reshape(part.shape).astype(part.dtype)
            for piece, part in zip(pieces, self._parts, strict=True)
        ]

    def _arguments(self, x: Value) -> dict[str, Value]:
        return dict(zip(self._names, self._pieces(x), strict=True))


class Iterate:
    """A point that a search has reached: parameters, value and slope."""

    def __init__(self, x: Value, value: float, slope: Value) -> None:
        self.x, self.value, self.slope = x, value, slope

    @property
    def steepest(self) -> float:
        """The greatest magnitude of the slope's elements."""
        return float(numpy.max(numpy.abs(self.slope), initial=0.0))


class DescentState(ABC):
    """The memory of a search, from which the next direction follows."""

    @abstractmethod
    def direction(self, here: Iterate) -> tuple[Value, float]:
        """The way to go, and how far to look first."""

    @abstractmethod
    def update(self, before: Iterate, after: Iterate) -> None:
        """Take account of a step."""

    @abstractmethod
    def reset(self) -> bool:
        """Forget all steps, where nothing lower was found; False if that changes nothing."""


@dataclass(frozen=True)
class Descent(ABC):
    """A method that searches along lines."""

    def line_search(self) -> StrongWolfe:
        """How far to go along a line."""
        return StrongWolfe()

    @abstractmethod
    def start(self, objective: Objective) -> DescentState:
        """The memory of a search that begins."""

    def next(self, objective: Objective, state: DescentState, here: Iterate) -> Iterate | None:
        """The point after one step; None if nothing lower is found."""
        with numpy.errstate(all="ignore"):  # what overflows leads nowhere, and is not taken
            while True:
                direction, first = state.direction(here)
                found = self._search_line(objective, here, direction, first)
                if found is not None:
                    state.update(here, found)
                    return found
                if not state.reset():
                    return None

    def _search_line(
        self, objective: Objective, here: Iterate, direction: Value, first: float
    ) -> Iterate | None:
        rise = float(direction @ here.slope)
        if not rise < 0 or not math.isfinite(rise):
            return None

        def line(far: float) -> LinePoint:
            x = here.x + far * direction
            value, slope = objective.at(x)
            return LinePoint(far, value, float(slope @ direction), Iterate(x, value, slope))

        start = LinePoint(0.0, here.value, rise)
        place = self.line_search().step(line, start, first, objective.rounding)
        return None if place is None else place.iterate


_SEARCH: Final = StrongWolfe()


@dataclass(frozen=True)
class LBFGS(Descent):
    """Limited-memory BFGS: second derivatives from the last steps and slopes; for `minimise`.

    - `memory`: of how many steps.
    - `search`: how far to go along a line.

    The direction is -H g, where H is the inverse Hessian that fits the steps s and the changes y
    of the slope, begun as (s.y / y.y) times the identity (Nocedal's two loops).

        found = optim.minimise(lambda x: np.sum(x**4), [1.0, 2.0], optim.LBFGS(memory=5))
        found.converged                               # -> True
    """

    memory: int = 10
    search: StrongWolfe = _SEARCH

    def __post_init__(self) -> None:
        check_count(self, "memory")
        given = cast("object", self.search)
        if not isinstance(given, StrongWolfe):
            raise type_error("LBFGS", f"search is {given!r}; accepted: optim.StrongWolfe")

    def line_search(self) -> StrongWolfe:
        return self.search

    def start(self, objective: Objective) -> DescentState:
        return _CurvaturePairs(self.memory)


MIN_CURVATURE: Final = 1e-10
"""The least s.y / y.y of a step that is remembered, so that H stays positive; chosen by hand."""


class _CurvaturePairs(DescentState):
    """The last steps and changes of the slope."""

    def __init__(self, most: int) -> None:
        self._pairs: deque[tuple[Value, Value, float]] = deque(maxlen=most)

    def direction(self, here: Iterate) -> tuple[Value, float]:
        if not self._pairs:
            size = float(numpy.sum(numpy.abs(here.slope)))
            return -here.slope, min(1.0, 1.0 / size) if size else 1.0
        q, shares = here.slope.copy(), list[float]()
        for s, y, rho in reversed(self._pairs):
            share = rho * float(s @ q)
            shares.append(share)
            q -= share * y
        s, y, rho = self._pairs[-1]
        q /= rho * float(y @ y)
        for (s, y, rho), share in zip(self._pairs, reversed(shares), strict=True):
            q += (share - rho * float(y @ q)) * s
        return -q, 1.0

    def update(self, before: Iterate, after: Iterate) -> None:
        s, y = after.x - before.x, after.slope - before.slope
        curvature = float(s @ y)
        if curvature > MIN_CURVATURE * float(y @ y) and math.isfinite(1 / curvature):
            self._pairs.append((s, y, 1 / curvature))

    def reset(self) -> bool:
        known = bool(self._pairs)
        self._pairs.clear()
        return known


@dataclass(frozen=True)
class NewtonDescent(Descent):
    """Newton's method with a line search, going down where the function is not convex too.

    Where the Hessian H is not positive definite, the least power of ten times its size is added to
    its diagonal that makes it so.
    """

    def start(self, objective: Objective) -> DescentState:
        return _NewtonState(objective)


MIN_SHIFT: Final = 1e-6
"""The share of a Hessian's size that is first added to its diagonal; chosen by hand.

Less takes more trials until the matrix is positive definite, more turns the step from Newton's.
"""


class _NewtonState(DescentState):
    """The bottom of the parabola that fits best."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._steepest = False
        """Whether to go down the steepest way, the parabola having led nowhere."""

    def direction(self, here: Iterate) -> tuple[Value, float]:
        if self._steepest:
            size = float(numpy.sum(numpy.abs(here.slope)))
            return -here.slope, min(1.0, 1.0 / size) if size else 1.0
        matrix = self._objective.hessian_at(here.x)
        return _newton_direction(matrix, here.slope), 1.0

    def update(self, before: Iterate, after: Iterate) -> None:
        self._steepest = False

    def reset(self) -> bool:
        tried, self._steepest = self._steepest, True
        return not tried


def _newton_direction(matrix: Value, slope: Value) -> Value:
    """`-(H + c I)^-1 g` for the least c tried with which the matrix is positive definite."""
    symmetric = (matrix + matrix.T) / 2
    size = float(numpy.max(numpy.abs(symmetric), initial=0.0))
    if not math.isfinite(size) or size == 0:
        return -slope
    shifts: Sequence[float] = [0.0, *(size * MIN_SHIFT * 10.0**k for k in range(9))]
    for shift in shifts:
        try:
            root = numpy.linalg.cholesky(symmetric + shift * numpy.eye(len(slope)))
        except numpy.linalg.LinAlgError:
            continue
        return -numpy.linalg.solve(root.T, numpy.linalg.solve(root, slope))
    return -slope
