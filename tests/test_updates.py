"""Update edges: all at once, on every engine, whatever their sources and their order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array
from tawny.node import Value

SIZE = 4

SOURCES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "itself": lambda np, x, y: x,
    "other": lambda np, x, y: y,
    "copy": lambda np, x, y: np.copy(y),
    "flip": lambda np, x, y: y[::-1],
    "own flip": lambda np, x, y: x[:, ::-1],
    "transpose": lambda np, x, y: y.T,
    "own transpose": lambda np, x, y: x.T,
    "row": lambda np, x, y: np.broadcast_to(y[1], (SIZE, SIZE)),
    "column": lambda np, x, y: np.broadcast_to(y[:, 2:3], (SIZE, SIZE)),
    "diagonal": lambda np, x, y: np.broadcast_to(np.diagonal(y), (SIZE, SIZE)),
    "reshape": lambda np, x, y: np.reshape(np.reshape(y, (2, -1))[::-1], (SIZE, SIZE)),
    "plus nothing": lambda np, x, y: y - 0,
    "twice negative": lambda np, x, y: np.negative(np.negative(y)),
    "either": lambda np, x, y: np.where(np.asarray([[True]]), y, y),
    "sum": lambda np, x, y: x + y,
    "own double": lambda np, x, y: x * 2,
    "double": lambda np, x, y: y * 2,
    "average of a flip": lambda np, x, y: (x + y[::-1]) / 2,
    "product": lambda np, x, y: x @ y / 4,
    "number": lambda np, x, y: np.full((SIZE, SIZE), 0.25),
}
"""What a variable x takes, given another one y: what lies in variables and what is computed."""


def check(
    engine: str, random: Random, edges: list[tuple[int, int, str]], count: int, **options: Any
) -> None:
    """A program takes the values that simultaneous updates of NumPy arrays take."""
    names = [f"v{i}" for i in range(count)]
    variables = [tw.var(n, shape=(SIZE, SIZE)) for n in names]
    updates: dict[Array, Array] = {
        variables[i]: SOURCES[name](tnp, variables[i], variables[j]) for i, j, name in edges
    }
    pool = [*variables, *updates.values(), variables[0][::-1], variables[-1] @ variables[0]]
    outputs = random.sample(range(len(pool)), random.randint(1, 3))
    graph = tw.Graph([], [pool[i] for i in outputs], updates=updates)
    p = graph.compile(engine=engine, **options)
    rng = np.random.default_rng(random.randrange(2**31))
    state = {n: rng.integers(-4, 5, (SIZE, SIZE)).astype(float) for n in names}
    p.set(**{n.name: state[n.name] for n in graph.variables})
    for steps in (1, 1, 3):
        got: Any = p.run(steps)
        for _ in range(steps):
            now = [state[n] for n in names]
            made = [SOURCES[name](np, now[i], now[j]) for i, j, name in edges]
            expected: list[Value] = [*now, *made, now[0][::-1], now[-1] @ now[0]]
            state |= {names[i]: np.array(m) for (i, _, _), m in zip(edges, made, strict=True)}
        for index, value in zip(outputs, got, strict=True):
            np.testing.assert_array_equal(value, expected[index], f"output {index} of {edges}")
        for name, value in p.state.items():
            np.testing.assert_array_equal(value, state[name], f"{name} of {edges}")


@pytest.mark.parametrize("first", SOURCES)
def test_two_updates_in_either_order(engine: str, first: str) -> None:
    for second in SOURCES:
        random = Random(f"{first} {second}")
        edges = [(0, 1, first), (1, 0, second)]
        for order in (edges, edges[::-1]):
            check(engine, random, order, 2, optimise=random.random() < 0.8)


def test_three_updates_in_every_order(engine: str) -> None:
    for seed in range(5):
        random = Random(seed)
        edges = [(i, random.randrange(3), random.choice([*SOURCES])) for i in range(3)]
        for order in permutations(edges):
            check(engine, random, list(order), 3)


def test_what_is_copied_before_an_update_is_planned(engine: str) -> None:
    """Whatever brings old values away takes bytes of the plan, or lies in a variable."""
    a, b, c = (tw.var(n, shape=(64, 64)) for n in "abc")
    nbytes = 64 * 64 * 8
    for outputs, updates, most in (
        ([tnp.sum(a)], {a: b, b: a}, 1),
        ([tnp.sum(a)], {a: b, b: c, c: a}, 1),
        ([tnp.sum(a)], {a: a.T}, 1),
        ([a], {a: a + 1}, 1),
        ([a, b[::-1]], {a: a + b, b: b * 2}, 3),
        ([tnp.sum(a)], {a: a, b: b}, 0),
    ):
        p = tw.Graph([], outputs, updates=updates).compile(engine=engine)
        assert p.plan.peak_bytes <= most * nbytes + 128, p.plan
        assert not p._compiled.task.updates or most


def test_runs_that_record_a_variable_update_it_in_place(engine: str) -> None:
    w, x = tw.var("w", shape=(3,)), tw.var("x", shape=(3,))
    for shown in (w, tnp.flip(w)):
        p = tw.Graph([x], shown, updates={w: w + x}).compile(engine=engine)
        assert set(p.plan.in_place_updates.values()) == {w.node}
        p.set(w=np.arange(3.0))
        expected = np.arange(3.0) if shown is w else np.arange(3.0)[::-1]
        np.testing.assert_array_equal(p(np.ones(3)), expected)
        np.testing.assert_array_equal(p.state["w"], np.arange(3.0) + 1)
