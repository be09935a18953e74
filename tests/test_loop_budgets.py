"""Derivatives of loops within a budget: steps computed again, exact peaks, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from engines import ENGINES, GROUPING
from tawny import nn
from tawny.engine.cpu import unavailable
from tawny.tree import leaves, map_leaves

rng = np.random.default_rng(5)

ENGINE = "reference" if unavailable() is not None else "cpu"


def drawn(*shape: int) -> Any:
    return rng.normal(size=shape) / shape[-1] ** 0.5


def simple(reverse: bool) -> Callable[..., Any]:
    """The slopes of a recurrence in its weights, start and rows."""

    def loss(w: Any, h: Any, x: Any) -> Any:
        return tnp.sum(tw.scan(lambda h, r: (tnp.tanh(h @ w + r), None), h, x, reverse=reverse)[0])

    return tw.grad(loss, argnums=(0, 1, 2))


def with_rows(w: Any, h: Any, x: Any) -> Any:
    """Slopes, and rows that a reader asks for beside."""

    def loss(w: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            h, number = c
            h = tnp.tanh(h @ w + r)
            return (h, number + 1), (h, tnp.sum(h) * number)

        (last, _), (rows, sums) = tw.scan(step, (h, 0), x)
        return tnp.sum(last) + tnp.sum(sums), rows

    (value, rows), slope = tw.value_and_grad(loss, has_aux=True)(w)
    return value, rows, slope


def stacked(w: Any, h: Any, x: Any) -> Any:
    """The slopes of two recurrences, one over what the other gives."""

    def loss(w: Any) -> Any:
        rows = tw.scan(lambda h, r: (tnp.tanh(h @ w + r),) * 2, h, x)[1]
        rows = tw.scan(lambda h, r: (tnp.sin(h @ w + r),) * 2, h, rows)[1]
        return tnp.sum(rows)

    return tw.grad(loss)(w)


def placed(w: Any, h: Any, x: Any) -> Any:
    """Slopes of steps that depend on their place and on their neighbours."""

    def loss(w: Any, x: Any) -> Any:
        def step(i: Any, h: Any) -> Any:
            return tnp.tanh(h @ w + x[i] * (i + 1) / len(x))

        return tnp.sum(tw.fori_loop(0, x.shape[0], step, h))

    return tw.grad(loss, argnums=(0, 1))(w, x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "forth": simple(False),
    "back": simple(True),
    "rows": with_rows,
    "stacked": stacked,
    "places": placed,
    "second derivative": lambda w, h, x: tw.grad(lambda w: tnp.sum(simple(False)(w, h, x)[0]))(w),
}

NOT_SMALLER = frozenset({"rows", "places"})
"""Programs of which most is outputs, or sums over steps that may fail, which have two places."""


def arena(program: Any) -> int:
    found: int = program._compiled.executable.arena.nbytes
    return found


@pytest.mark.parametrize("steps", [64, 97])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_loops_fit_into_budgets(name: str, steps: int) -> None:
    values = drawn(6, 6), drawn(3, 6), drawn(steps, 3, 6)
    variables = [tw.var(f"v{i}", v.shape, v.dtype) for i, v in enumerate(values)]
    graph = tw.Graph(variables, list(leaves(PROGRAMS[name](*variables))), unused="ignore")
    free = graph.compile(engine=ENGINE)
    wanted, least = free(*values), 0
    for share in (0.9, 0.6, 0.3, 0.01):
        budget = int(share * free.plan.peak_bytes)
        try:
            program = graph.compile(engine=ENGINE, memory=budget)
        except tw.MemoryBudgetError as error:
            least = error.least_bytes
            program = graph.compile(engine=ENGINE, memory=least)
            budget = least
        for got, one in zip(program(*values), wanted, strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-12, atol=1e-12)
        assert program.plan.peak_bytes <= budget
        if ENGINE == "cpu":
            assert arena(program) == program.plan.peak_bytes
    joined = steps == 97 and name in ("forth", "back")
    most = 1.0 if joined or name in NOT_SMALLER else 0.9
    assert 0 < least <= most * free.plan.peak_bytes


def test_a_long_loop_is_cut_again_and_again() -> None:
    """10,000 steps in a fiftieth of what they take, with what that costs in words."""
    x = tw.var("x", (10_000, 4))
    w = tw.var("w", (4, 4))

    def loss(w: Any) -> Any:
        return tnp.sum(tw.scan(lambda h, r: (tnp.tanh(h @ w + r), None), tnp.zeros(4), x)[0])

    graph = tw.Graph([x, w], tw.grad(loss)(w))
    values = drawn(10_000, 4), drawn(4, 4)
    free = graph.compile(engine=ENGINE)
    peaks, costs = [free.plan.peak_bytes], [0.0]
    for budget in (peaks[0] // 2, peaks[0] // 20, peaks[0] // 50):
        program = graph.compile(engine=ENGINE, memory=budget)
        np.testing.assert_allclose(program(*values), free(*values), rtol=1e-12)
        assert program.plan.peak_bytes <= budget
        assert "of the 10,000 steps of a loop are computed again" in str(program.plan)
        peaks.append(program.plan.peak_bytes)
        costs.append(program.plan.layout.schedule.seconds)
    assert costs == sorted(costs), "what takes less memory takes more time"


def noisy(reverse: bool) -> Callable[..., Any]:
    """The value and slopes of steps that draw, some in a loop of their own or in a branch."""

    def loss(w: Any, x: Any) -> Any:
        def step(h: Any, r: Any) -> Any:
            mask = tw.random.uniform(shape=h.shape) < 0.7
            h = tnp.tanh(tnp.where(mask, h, 0) @ w + r)
            h = tw.fori_loop(0, 2, lambda i, c: c + 0.1 * tw.random.normal() * tnp.sin(c), h)
            return tw.cond(tnp.sum(h) > 0, lambda: h + tw.random.normal(), lambda: h), tnp.sum(h)

        last, sums = tw.scan(step, tnp.zeros(6), x, reverse=reverse)
        return tnp.sum(last**2) + tnp.sum(sums)

    return lambda w, x: tw.value_and_grad(loss, argnums=(0, 1))(w, x)


@pytest.mark.parametrize("reverse", [False, True])
def test_steps_that_are_computed_again_draw_the_same_numbers(reverse: bool, engine: str) -> None:
    """Those that they draw without a budget, in every run."""
    values = drawn(6, 6), drawn(41, 6)
    variables = [tw.var("w", (6, 6)), tw.var("x", (41, 6))]
    with tw.random.local_seed(9):
        graph = tw.Graph(variables, list(leaves(noisy(reverse)(*variables))))
    free = graph.compile(engine=engine)
    wanted = [free(*values) for _ in range(2)]
    assert not np.allclose(wanted[0][0], wanted[1][0]), "each run draws anew"
    peak, least = free.plan.peak_bytes, 0
    try:
        graph.plan(engine=engine, memory=1)
    except tw.MemoryBudgetError as error:
        least = error.least_bytes
    assert least < 0.8 * peak
    for budget in ((least + peak) // 2, least):
        program = graph.compile(engine=engine, memory=budget)
        for run in wanted:
            for got, one in zip(program(*values), run, strict=True):
                np.testing.assert_allclose(got, one, rtol=1e-9, atol=1e-12)


def in_a_loop(w: Any, x: Any) -> Any:
    """Slopes of a long loop in each step of another, and in a branch."""

    def loss(w: Any, x: Any) -> Any:
        def inner(h: Any, rows: Any) -> Any:
            return tw.scan(lambda h, r: (tnp.tanh(h @ w + r), None), h, rows)[0]

        def outer(h: Any, rows: Any) -> Any:
            h = inner(h, rows)
            return tw.cond(tnp.sum(h) > 0, lambda: inner(h, rows[::-1]), lambda: h), None

        return tnp.sum(tw.scan(outer, tnp.zeros(4), x)[0])

    return tw.grad(loss)(w, x)


@pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run here")
@pytest.mark.parametrize("engine", [e for e in ENGINES if e not in ("reference", GROUPING)])
def test_loops_in_loops_and_branches_are_cut(engine: str) -> None:
    """Where what bodies compute is planned: not by NumPy."""
    values = drawn(4, 4), drawn(3, 150, 4)
    variables = [tw.var("w", (4, 4)), tw.var("x", (3, 150, 4))]
    graph = tw.Graph(variables, in_a_loop(*variables))
    free = graph.compile(engine=engine)
    peak, least = free.plan.peak_bytes, 0
    try:
        graph.plan(engine=engine, memory=1)
    except tw.MemoryBudgetError as error:
        least = error.least_bytes
    assert least < 0.7 * peak
    for budget in (int(0.8 * peak), least):
        program = graph.compile(engine=engine, memory=budget)
        assert "are computed again" in str(program.plan)
        np.testing.assert_allclose(program(*values), free(*values), rtol=1e-12)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_networks_are_trained_within_a_budget(kind: Any) -> None:
    """Their loops over blocks of time are cut as any other."""
    model = nn.Sequential(kind(3, 4, sequences=True, dtype="float64"), kind(4, 4, dtype="float64"))
    x = tw.var("x", (64, 160, 3))
    parameters = model.parameters
    names = iter(range(100))
    given = map_leaves(lambda a: tw.var(f"p{next(names)}", a.shape, a.dtype), parameters)
    slopes = tw.grad(lambda p: tnp.sum(model.apply(p, x) ** 2))(given)
    graph = tw.Graph([x, *leaves(given)], list(leaves(slopes)))
    values = drawn(64, 160, 3), *leaves(parameters)
    free = graph.compile(engine=ENGINE)
    budget = free.plan.peak_bytes * 2 // 5
    program = graph.compile(engine=ENGINE, memory=budget)
    assert program.plan.peak_bytes <= budget
    for got, one in zip(program(*values), free(*values), strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run here")
def test_sums_over_steps_take_their_bytes_once() -> None:
    """The slopes of weights begin as zeros and are carried."""
    w, x = tw.var("w", (64, 64)), tw.var("x", (10, 1, 64))

    def loss(w: Any) -> Any:
        start = tnp.zeros((1, 64))
        return tnp.sum(tw.scan(lambda h, r: (tnp.tanh(h @ w + r), None), start, x)[0])

    plan = tw.Graph([w, x], tw.grad(loss)(w)).plan(threads=1)
    assert plan.peak_bytes < 64 * 64 * 8 + 20_000


@pytest.mark.skipif(unavailable() is not None, reason="compiled code cannot be run here")
def test_weights_that_are_known_are_made_ready_for_the_steps() -> None:
    layer, x = nn.LSTM(64, 64), tw.var("x", (16, 4, 64), "float32")
    program: Any = tw.Graph([x], layer(x)).compile(engine="cpu")
    other = tw.Graph([x], layer(x)).compile(engine="reference")
    values = drawn(16, 4, 64).astype("float32")
    np.testing.assert_allclose(program(values), other(values), rtol=1e-3, atol=1e-5)
    weights = layer.parameters["recurrent"]
    assert program._compiled.executable._table.prepared_bytes >= weights.nbytes
