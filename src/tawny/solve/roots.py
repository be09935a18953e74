"""Roots and fixed points, with derivatives by the theorem of implicit functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast, final

import tawny.numpy as np
from tawny.array import Array
from tawny.autodiff.functions import linearize
from tawny.autodiff.implicit import EquationRule, attach_equation
from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error
from tawny.loops.functions import while_loop
from tawny.ops.differentiation import Derivative
from tawny.shape import as_int
from tawny.solve.functions import (
    Closure,
    Packing,
    VectorFunction,
    as_tolerance,
    check_callable,
    function_of,
    magnitude,
    or_nan,
    trace_function,
    zeros_of,
)
from tawny.solve.linear import Dense, Method, Richardson, solve_linear, transposed_function

MAX_HALVINGS = 40
"""How often a step is halved before there is said to be no way down: then it is below rounding."""

ENOUGH = 1e-4
"""The share of the decrease that a step promises which it must keep, as textbooks have it."""


class Solution(NamedTuple):
    """The point that was found, and whether it is a solution."""

    x: Any
    """In the structure of the first guess; NaN where it did not converge."""
    converged: Array
    """Whether the tolerance was met."""
    steps: Array
    """How many steps were taken."""


@final
class RootRule(EquationRule):
    """The derivative of `x` where `F(x, p) = 0`: `F_x dx = -F_p dp`.

    Operands behind the root are the parameters.
    """

    def __init__(self, function: VectorFunction, method: Method) -> None:
        self.function, self.method = function, method

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        place = (*results, *operands[1:])
        moved = self.function.tangent(place, (None, *tangents[1:]))
        return [None if moved is None else self._solve(self._slope(), place, -moved)]

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        (cotangent,) = cotangents
        place = (*results, *operands[1:])
        if cotangent is None or len(place) == 1:
            return [None] * len(operands)
        s = self._solve(transposed_function(self._slope()), place, cotangent)
        return [None, *self.function.cotangents(place, -s, range(1, len(place)))]

    def _slope(self) -> VectorFunction:
        """The derivative at a place, a function of a direction and the place."""
        kinds = self.function.body.types

        def slope(v: Array, *place: Array) -> Array:
            moved = self.function.tangent(place, (v, *[None] * (len(place) - 1)))
            return zeros_of(kinds[0]) if moved is None else moved

        return function_of([kinds[0], *kinds], slope)

    def _solve(self, slope: VectorFunction, place: Sequence[Array], b: Array) -> Array:
        found = solve_linear(Closure(slope, tuple(place)), b, self.method)
        return or_nan(found.info == 0, found.x)


def _solution(
    packing: Packing, equation: Closure, method: Method, x: Array, good: Array, count: Array
) -> Solution:
    """A root with its derivative."""
    rule = RootRule(equation.function, method)
    x = attach_equation(or_nan(good, x), rule, equation.parameters)
    return Solution(packing.unpack(x), good, count)


@explain_bad_calls
def root(
    f: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    tol: float | None = None,
    maxiter: int = 100,
) -> Solution:
    """Where `f(x, *args)` is zero, by Newton's method, each step no longer than it pays.

    - `f`: gives as many numbers as `x` has, in the structure of `x`; it is called once.
    - `x0`: where to begin: real numbers, an array or a nested structure of arrays.
    - `args`: what `f` is given besides.
    - `tol`: it ends with a step of at most `tol * (1 + max(abs(x)))`; by default 1e-10, in float32
      1e-5.  The error is about the square of that.
    - `maxiter`: the most steps.

    Gives `Solution(x, converged, steps)`; `x` is NaN where it did not converge, so that nothing
    else is taken for a root.  The derivative in whatever `f` uses is that of the root itself, by
    one linear system; it does not go through the steps, and is zero in `x0`.

        def cube_root(a):
            return tw.solve.root(lambda x: x**3 - a, 1.0).x

        float(cube_root(8.0)), float(tw.grad(cube_root)(8.0))   # -> (2.0, 0.08333333333333333)
    """
    packing, equation = _trace("root", f, x0, args)
    if packing.dtype.kind == "c":
        raise type_error(
            "root", f"x0 is {packing.dtype}; accepted: real numbers; give both parts of a complex"
        )
    limit, most = _limits("root", packing, tol, maxiter)

    def at(x: Array) -> Array:
        return equation.function(x, *equation.parameters)

    def is_on(state: Any) -> Any:
        _, r, is_good, is_lost, count = state
        return ~is_good & ~is_lost & (count < most) & np.all(np.isfinite(r))

    def step(state: Any) -> Any:
        x, r, _, _, count = state
        _, push = linearize(at, x)
        move = -Dense().solve(push, r, None, None).x
        move = np.where(np.all(r == 0), np.zeros_like(x), move)
        is_small = magnitude(move) <= limit * (1 + magnitude(x))
        share, new = _shorten(at, x, move, r, is_small)
        is_lost = ~is_small & (share < 0.5**MAX_HALVINGS)
        return x + share * move, new, is_small & np.all(np.isfinite(new)), is_lost, count + 1

    x, r = packing.vector, at(packing.vector)
    x, _, good, _, count = while_loop(is_on, step, (x, r, False, False, 0))
    return _solution(packing, equation, Dense(), x, good, count)


def _shorten(
    at: Callable[[Array], Array], x: Array, move: Array, r: Array, is_small: Array
) -> tuple[Array, Array]:
    """The share of a step that makes the equation's error less, and what it leaves of that."""
    size = np.sum(r * r)

    def is_worse(state: Any) -> Any:
        share, new = state
        enough = np.sum(new * new) <= (1 - 2 * ENOUGH * share) * size
        return ~enough & ~is_small & (share >= 0.5**MAX_HALVINGS)

    def half(state: Any) -> Any:
        share, _ = state
        return share / 2, at(x + share / 2 * move)

    made: tuple[Array, Array] = while_loop(is_worse, half, (np.ones((), x.dtype), at(x + move)))
    return made


@explain_bad_calls
def fixed_point(
    f: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    tol: float | None = None,
    maxiter: int = 500,
) -> Solution:
    """Where `f(x, *args)` is `x`, by applying `f` again and again.

    - `f`: gives the structure of `x`, with the same shapes; it is called once.
    - `x0`: where to begin: numbers, an array or a nested structure of arrays.
    - `args`: what `f` is given besides.
    - `tol`: it ends where `f` moves by at most `tol * (1 + max(abs(x)))`; by default 1e-10, in
      float32 1e-5.
    - `maxiter`: the most steps.

    Gives `Solution(x, converged, steps)`; `x` is NaN where it did not converge.  The derivative in
    whatever `f` uses is that of the fixed point itself: a linear system, solved by as many steps as
    the point takes; nothing of the way is kept.

        def half_way(a):
            return tw.solve.fixed_point(lambda x: (x + a / x) / 2, 1.0).x

        float(half_way(2.0)), float(tw.grad(half_way)(4.0))   # -> (1.414213562373095, 0.25)
    """
    packing, equation = _trace("fixed_point", f, x0, args)
    limit, most = _limits("fixed_point", packing, tol, maxiter)

    def is_near(x: Array, change: Array) -> Array:
        return change <= limit * (1 + magnitude(x))

    def is_on(state: Any) -> Any:
        x, change, count = state
        return ~is_near(x, change) & (count < most) & ~np.isnan(change)

    def step(state: Any) -> Any:
        x, _, count = state
        new = equation.function(x, *equation.parameters)
        return new, magnitude(new - x), count + 1

    far = np.full((), np.inf, packing.real_dtype)
    x, change, count = while_loop(is_on, step, (packing.vector, far, 0))
    own = equation.function

    def move(x: Array, *parameters: Array) -> Array:
        return x - own(x, *parameters)

    error = Closure(function_of(own.body.types, move), equation.parameters)
    good = is_near(x, change) & np.all(np.isfinite(x))
    return _solution(packing, error, Richardson(limit, most), x, good, count)


def _trace(op: str, f: Callable[..., Any], x0: Any, args: Any) -> tuple[Packing, Closure]:
    """The first guess, and a function as one of vectors."""
    check_callable(op, f)
    packing = Packing(op, "x0", x0)
    given = as_arguments(op, args)

    def of_vector(x: Array) -> Array:
        return packing.pack(f(packing.unpack(x), *given), "the function gives")

    return packing, trace_function(op, [(packing.vector.shape, packing.dtype)], of_vector)


def as_arguments(op: str, args: Any) -> tuple[Any, ...]:
    """What a function is given besides."""
    if not isinstance(args, (tuple, list)):
        raise type_error(op, f"args is {type(args).__name__}; accepted: a tuple, as in args=(a,)")
    return tuple(cast("Sequence[Any]", args))


def _limits(op: str, packing: Packing, tol: float | None, maxiter: int) -> tuple[float, int]:
    """The tolerance and the most steps."""
    coarse = packing.real_dtype.itemsize < 8
    most = as_int(maxiter, op, "maxiter")
    if most < 1:
        raise value_error(op, f"maxiter is {most}; it must be at least 1")
    return as_tolerance(op, "tol", tol, 1e-5 if coarse else 1e-10), most
