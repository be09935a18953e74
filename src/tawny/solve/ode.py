"""Initial value problems of ordinary differential equations.

The adaptive method's derivative is that of the trajectory: forward, tangents obey the linear
equation beside it; backward, cotangents obey the adjoint equation, which is solved from each time
that was asked for to the one before, so that nothing else is kept.  Both are solved to the same
tolerance by the same method, and so have derivatives themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, Final, NamedTuple, cast, final

import tawny.numpy as np
from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.autodiff.functions import vjp
from tawny.autodiff.implicit import EquationRule, attach_equation
from tawny.autodiff.vmap import vmap
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, kind_of
from tawny.errors import type_error, value_error
from tawny.loops.functions import fori_loop, scan, while_loop
from tawny.ops.creation import convert_node
from tawny.ops.differentiation import Derivative
from tawny.shape import as_int
from tawny.solve.functions import (
    Closure,
    Packing,
    VectorFunction,
    as_tolerance,
    check_callable,
    function_of,
    kinds_of,
    or_nan,
    trace_function,
    zeros_of,
)
from tawny.solve.roots import as_arguments


class Trajectory(NamedTuple):
    """The solution at the times that were asked for."""

    t: Array
    y: Any
    """In the structure of `y0`, with the times along axis 0; NaN at times that were not reached."""
    success: Array
    """Whether all times were reached."""
    steps: Array
    """How many steps were tried."""


Rate = Callable[[Array, Array], Array]
"""The change of y with t."""


class VectorRows(NamedTuple):
    """The vectors of a trajectory, and how it went."""

    y: Array
    success: Array
    steps: Array


# ----------------------------------------------------------------- Dormand-Prince


def _row(text: str) -> tuple[float, ...]:
    return tuple([float(Fraction(x)) for x in text.split()])


NODES: Final = _row("0 1/5 3/10 4/5 8/9 1 1")
STAGES: Final = (
    (),
    _row("1/5"),
    _row("3/40 9/40"),
    _row("44/45 -56/15 32/9"),
    _row("19372/6561 -25360/2187 64448/6561 -212/729"),
    _row("9017/3168 -355/33 46732/5247 49/176 -5103/18656"),
    _row("35/384 0 500/1113 125/192 -2187/6784 11/84"),
)
"""The last stage is the new value, of order 5, where the next step begins."""
ERROR: Final = _row("71/57600 0 -71/16695 71/1920 -17253/339200 22/525 -1/40")
"""The difference to the value of order 4."""

SAFETY: Final = 0.9
LEAST_FACTOR, MOST_FACTOR = 0.2, 10.0
"""How step sizes follow errors, as in Hairer, Norsett and Wanner and in SciPy."""


class AdaptiveState(NamedTuple):
    """The point that an adaptive solution has come to."""

    t: Array
    y: Array
    rate: Array
    size: Array
    """The size of the next step, whatever its direction."""
    tries: Array
    is_good: Array
    """False where steps have become too small to go on."""


@final
class Adaptive:
    """Dormand and Prince's method of order 5, with steps as long as the tolerance permits."""

    def __init__(self, rtol: float, atol: float, max_steps: int) -> None:
        self.rtol, self.atol, self.max_steps = rtol, atol, max_steps

    def solve(self, f: Rate, y0: Array, times: Array) -> VectorRows:
        """The vectors at all times, from that at the first on."""
        rate = f(times[0], y0)
        size = self._first_size(f, times, y0, rate)
        first = AdaptiveState(times[0], y0, rate, size, np.asarray(0), np.asarray(True))

        def interval(state: AdaptiveState, end: Array) -> tuple[AdaptiveState, Array]:
            state = self._advance(f, state, end)
            return state, or_nan(state.t == end, state.y)

        last, rows = scan(interval, first, times[1:])
        success = last.is_good & (last.t == times[-1])
        return VectorRows(np.concat([y0[None], rows]), success, last.tries)

    def _advance(self, f: Rate, state: AdaptiveState, end: Array) -> AdaptiveState:
        """The state at a time."""

        def is_on(now: AdaptiveState) -> Array:
            return (now.t != end) & now.is_good & (now.tries < self.max_steps)

        def step(now: AdaptiveState) -> AdaptiveState:
            return self._step(f, now, end)

        return cast("AdaptiveState", while_loop(is_on, step, state))

    def _step(self, f: Rate, now: AdaptiveState, end: Array) -> AdaptiveState:
        """The state after a step, or as it was but for a smaller size."""
        left = np.abs(end - now.t)
        is_last = now.size >= left
        h = np.where(is_last, left, now.size) * np.sign(end - now.t)
        y, rates = now.y, [now.rate]
        for node, row in zip(NODES[1:], STAGES[1:], strict=True):
            y = now.y + h * _combine(row, rates)
            rates.append(f(now.t + node * h, y))
        error = h * _combine(ERROR, rates)
        norm = self._norm(error, np.maximum(np.abs(now.y), np.abs(y)))
        accepted = norm <= 1
        factor = np.clip(SAFETY * norm**-0.2, LEAST_FACTOR, MOST_FACTOR)
        factor = np.where(np.isnan(norm), LEAST_FACTOR, factor)
        wanted = np.abs(h) * factor
        t = np.where(is_last, end, now.t + h)
        least = 10 * np.finfo(now.t.dtype).eps * np.maximum(np.abs(now.t), np.abs(end))
        return AdaptiveState(
            np.where(accepted, t, now.t),
            np.where(accepted, y, now.y),
            np.where(accepted, rates[-1], now.rate),
            np.where(accepted & is_last, np.maximum(wanted, now.size), wanted),
            now.tries + 1,
            accepted | (wanted > least),
        )

    def _norm(self, error: Array, size: Array) -> Array:
        """The root of the mean square of errors, relative to what is tolerated."""
        share = np.abs(error) / (self.atol + self.rtol * size)
        return np.sqrt(np.mean(share * share))

    def _first_size(self, f: Rate, times: Array, y0: Array, rate: Array) -> Array:
        """The size of the first step: such that Euler's method would be off by little."""
        ends = times[: min(2, times.shape[0])]
        span, size = np.abs(ends[-1] - ends[0]), np.abs(y0)
        span = np.where(span > 0, span, np.inf)
        value, slope = self._norm(y0, size), self._norm(rate, size)
        flat = (value < 1e-5) | (slope < 1e-5)
        guess = np.minimum(np.where(flat, 1e-6, 0.01 * value / slope), span)
        h = guess * np.sign(ends[-1] - ends[0])
        bend = self._norm(f(times[0] + h, y0 + h * rate) - rate, size) / guess
        most = np.maximum(slope, bend)
        wanted = np.where(most > 1e-15, (0.01 / most) ** 0.2, np.maximum(1e-6, guess * 1e-3))
        return np.astype(np.minimum(np.minimum(100 * guess, wanted), span), times.dtype)


def _combine(row: Sequence[float], rates: Sequence[Array]) -> Array:
    """The sum of rates, each times its number."""
    return reduce(np.add, [c * k for c, k in zip(row, rates, strict=False) if c])


# ------------------------------------------------------------------- fixed steps


@final
class RungeKutta:
    """The classical method of order 4, with a number of equal steps between times."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def solve(self, f: Rate, y0: Array, times: Array) -> VectorRows:
        """The vectors at all times, from that at the first on."""

        def interval(y: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            start, end = ends
            h = (end - start) / self.steps

            def step(i: Array, y: Array) -> Array:
                return self._step(f, start + i * h, y, h)

            y = fori_loop(0, self.steps, step, y)
            return y, y

        _, rows = scan(interval, y0, (times[:-1], times[1:]))
        count = self.steps * (times.shape[0] - 1)
        return VectorRows(np.concat([y0[None], rows]), np.asarray(True), np.asarray(count))

    def _step(self, f: Rate, t: Array, y: Array, h: Array) -> Array:
        one = f(t, y)
        two = f(t + h / 2, y + h / 2 * one)
        three = f(t + h / 2, y + h / 2 * two)
        four = f(t + h, y + h * three)
        return y + h / 6 * (one + 2 * two + 2 * three + four)


# ------------------------------------------------------------------- derivatives


@final
class TrajectoryRule(EquationRule):
    """The derivative of a trajectory.

    Operands behind the trajectory are the times, the first vector, and the equation's parameters.
    """

    def __init__(self, function: VectorFunction, method: Adaptive) -> None:
        self.function, self.method = function, method

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        """The tangent `d` of y obeys `d' = f_y d + f_p dp`."""
        _, times, y0, *parameters = operands
        moved_times, moved, *changes = tangents[1:]
        slope = zeros_of((y0.shape, y0.dtype)) if moved is None else moved
        if moved_times is not None:
            slope = slope - self.function(times[0], y0, *parameters) * moved_times[0]
        there = [i for i, change in enumerate(changes) if change is not None]
        packing = Packing("ode", "y", [y0, slope])
        own, count = self.function, len(parameters)

        def both(t: Array, z: Array, *rest: Array) -> Array:
            y, d = packing.unpack(z)
            given = dict(zip(there, rest[count:], strict=True))
            change = own.tangent(
                (t, y, *rest[:count]), (None, d, *[given.get(i) for i in range(count)])
            )
            change = zeros_of((d.shape, d.dtype)) if change is None else change
            return packing.pack([own(t, y, *rest[:count]), change], "the tangent is")

        besides = (*parameters, *[c for c in changes if c is not None])
        kinds = [((), times.dtype), *kinds_of([packing.vector, *besides])]
        equation = Closure(function_of(kinds, both), besides)
        _, rows = packing.unpack(solve_ode(equation, packing.vector, times, self.method).y)
        if moved_times is not None:
            rows = rows + self._rates(times, results[0], parameters) * moved_times[:, None]
        return [rows]

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        """The cotangent `a` of y obeys `a' = -f_y^T a`, and that of the parameters `-f_p^T a`."""
        (rows,), (cotangent,) = results, cotangents
        _, times, y0, *parameters = operands
        if cotangent is None:
            return [None] * len(operands)
        own, smooth = self.function, [p for p in parameters if kind_of(p.dtype) in "fc"]
        places = [1, *[2 + i for i, p in enumerate(parameters) if kind_of(p.dtype) in "fc"]]
        zero = zeros_of((y0.shape, y0.dtype))
        sums = [zeros_of((p.shape, dt.promote(p.dtype, dt.real_dtype(y0.dtype)))) for p in smooth]
        packing = Packing("ode", "y", [y0, zero, *sums])

        def adjoint(t: Array, z: Array, *given: Array) -> Array:
            y, a, *_ = packing.unpack(z)
            found = own.cotangents((t, y, *given), a, places)
            back = [
                zeros_of((s.shape, s.dtype)) if c is None else -c
                for c, s in zip(found, [a, *sums], strict=True)
            ]
            return packing.pack([own(t, y, *given), *back], "the cotangent is")

        kinds = [((), times.dtype), *kinds_of([packing.vector, *parameters])]
        equation = Closure(function_of(kinds, adjoint), tuple(parameters))

        def interval(carry: Any, row: Any) -> Any:
            (a, sums), (end, start, y, c) = carry, row
            first = packing.pack([y, a + c, *sums], "the cotangent is")
            made = solve_ode(equation, first, np.stack([end, start]), self.method).y
            _, a, *sums = packing.unpack(made[-1])
            return (a, sums), None

        rest = times[1:], times[:-1], rows[1:], cotangent[1:]
        (a, sums), _ = scan(interval, (zero, sums), rest, reverse=True)
        of_parameters = iter([np.astype(s, p.dtype) for s, p in zip(sums, smooth, strict=True)])
        weights = np.concat([-a[None], cotangent[1:]])
        return [
            None,
            self._of_times(times, rows, parameters, weights),
            a + cotangent[0],
            *[next(of_parameters) if kind_of(p.dtype) in "fc" else None for p in parameters],
        ]

    def _rates(self, times: Array, rows: Array, parameters: Sequence[Array]) -> Array:
        """The change of y at all times."""

        def rate(t: Array, y: Array) -> Array:
            return self.function(t, y, *parameters)

        rates: Array = vmap(rate)(times, rows)
        return rates

    def _of_times(
        self, times: Array, rows: Array, parameters: Sequence[Array], weights: Array
    ) -> Array:
        """The cotangent of the times: y moves with its own time by its rate."""
        rates = self._rates(times, rows, parameters)

        def shift(move: Array) -> Array:
            return move[:, None] * rates

        _, pull = vjp(shift, zeros_of((times.shape, times.dtype)))
        found: tuple[Array] = pull(weights)
        return found[0]


def solve_ode(
    equation: Closure, y0: Array, times: Array, method: Adaptive | RungeKutta
) -> VectorRows:
    """The trajectory of a vector, with its derivative."""

    def f(t: Array, y: Array) -> Array:
        return equation.function(t, y, *equation.parameters)

    rows = method.solve(f, y0, times)
    if isinstance(method, RungeKutta):
        return rows
    rule = TrajectoryRule(equation.function, method)
    y = attach_equation(rows.y, rule, (times, y0, *equation.parameters))
    return rows._replace(y=y)


# ---------------------------------------------------------------- public function


@explain_bad_calls
def ode(
    f: Callable[..., Any],
    y0: Any,
    t: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str = "dopri5",
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int | None = None,
    steps: int | None = None,
) -> Trajectory:
    """The solution of `dy/dt = f(t, y, *args)` from `y0` on, at given times.

    - `f`: gives the change of `y`, in the structure of `y`; it is called once.
    - `y0`: the value at the first time: an array, or a nested structure of arrays.
    - `t`: the times to report at, one after the other, forwards or backwards; the first is that of
      `y0`.
    - `args`: what `f` is given besides.
    - `method`: "dopri5", Dormand and Prince's with steps as long as the tolerance permits, or
      "rk4", the classical method with equal steps.
    - `rtol`, `atol`: the error of each step of "dopri5" is at most about `atol + rtol * abs(y)`; by
      default 1e-6 and 1e-9, in float32 1e-4 and 1e-6.
    - `max_steps`: the most steps that "dopri5" tries; by default 100,000.
    - `steps`: how many steps "rk4" takes from each time to the next; by default 1.

    Gives `Trajectory(t, y, success, steps)`: `y` has the times along axis 0.  Times that are not
    reached, since there are too many steps or these become too small, have NaN, and `success` is
    false.  The derivative of "dopri5" is that of the trajectory, in `y0`, `t` and whatever `f`
    uses: by the adjoint equation in reverse mode, to the same tolerance, without keeping its steps;
    that of "rk4" goes through its steps.

        def f(t, y, rate):
            return -rate * y

        def last(rate):
            return tw.solve.ode(f, 1.0, [0.0, 1.0], (rate,)).y[-1]

        round(float(last(2.0)), 5), round(float(tw.grad(last)(2.0)), 5)   # -> (0.13534, -0.13534)
    """
    check_callable("ode", f)
    packing = Packing("ode", "y0", y0)
    times = _times(t, packing.real_dtype)
    chosen = _method(method, packing.real_dtype, rtol, atol, max_steps, steps)
    given = as_arguments("ode", args)

    def of_vector(t: Array, y: Array) -> Array:
        return packing.pack(f(t, packing.unpack(y), *given), "the function gives")

    kinds = [((), times.dtype), (packing.vector.shape, packing.dtype)]
    equation = trace_function("ode", kinds, of_vector)
    rows = solve_ode(equation, packing.vector, times, chosen)
    return Trajectory(times, packing.unpack(rows.y), rows.success, rows.steps)


def _times(t: ArrayLike, dtype: DType) -> Array:
    node = lift(t, "ode")
    if len(node.shape) != 1 or not node.shape[0] or kind_of(node.dtype) not in "iuf":
        raise value_error(
            "ode",
            f"t is {node.dtype}{list(node.shape)}; accepted: real times along one axis, the first "
            "that of y0",
        )
    return wrap(convert_node(node, dtype))


def _method(
    name: str,
    dtype: DType,
    rtol: float | None,
    atol: float | None,
    max_steps: int | None,
    steps: int | None,
) -> Adaptive | RungeKutta:
    given = {"rtol": rtol, "atol": atol, "max_steps": max_steps, "steps": steps}
    takes = {"dopri5": ("rtol", "atol", "max_steps"), "rk4": ("steps",)}
    if name not in takes:
        raise value_error("ode", f"method is {name!r}; accepted: 'dopri5', 'rk4'")
    for word, value in given.items():
        if value is not None and word not in takes[name]:
            raise type_error("ode", f"method {name!r} has no {word}; it has {takes[name]}")
    if name == "rk4":
        return RungeKutta(_count("steps", 1 if steps is None else steps))
    coarse = dtype.itemsize < 8
    relative = as_tolerance("ode", "rtol", rtol, 1e-4 if coarse else 1e-6)
    absolute = as_tolerance("ode", "atol", atol, 1e-6 if coarse else 1e-9)
    if not relative and not absolute:
        raise value_error("ode", "rtol and atol are 0; one must be above it")
    return Adaptive(relative, absolute, _count("max_steps", max_steps or 100_000))


def _count(word: str, given: int) -> int:
    count = as_int(given, "ode", word)
    if count < 1:
        raise value_error("ode", f"{word} is {count}; it must be at least 1")
    return count
