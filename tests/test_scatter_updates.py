"""Updates of parts of variables: made in place on every engine, and not at all where one fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.node import Value

ROWS, COLUMNS = 40, 30
WHOLE = ROWS * COLUMNS * 8

KEYS: dict[str, Callable[[Any, Any], Any]] = {
    "element": lambda i, j: (0, 0),
    "last element": lambda i, j: (-1, -1),
    "row": lambda i, j: 3,
    "column": lambda i, j: (slice(None), 2),
    "slice": lambda i, j: slice(2, 30, 3),
    "backwards": lambda i, j: (slice(None, None, -1), slice(1, 4)),
    "place that changes": lambda i, j: i,
    "element that changes": lambda i, j: (i, 1),
    "rows that change": lambda i, j: j,
    "elements that change": lambda i, j: (j, slice(0, 5)),
}

MODES: dict[str, Callable[[Value, Any, Any], None]] = {
    "set": lambda v, key, value: v.__setitem__(key, value),
    "add": lambda v, key, value: np.add.at(v, key, value),
    "mul": lambda v, key, value: np.multiply.at(v, key, value),
    "max": lambda v, key, value: np.maximum.at(v, key, value),
}


def variables() -> tuple[tnp.ndarray, tnp.ndarray, tnp.ndarray, tnp.ndarray]:
    v = tw.var("v", shape=(ROWS, COLUMNS))
    return v, tw.var("i", dtype="int64"), tw.var("j", shape=(3,), dtype="int64"), tw.var("x")


@pytest.mark.parametrize("mode", MODES)
def test_parts_are_updated_in_place(engine: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    start, places = rng.normal(size=(ROWS, COLUMNS)), np.array([5, -1, 5])
    for name, key in KEYS.items():
        v, i, j, x = variables()
        part: Any = v.at[key(i, j)]
        updates = {v: getattr(part, mode)(x), i: i + 1, x: x * 0.5}
        graph = tw.Graph([j], tnp.sum(v[0]), updates=updates, unused="ignore")
        p = graph.compile(engine=engine)
        assert p.plan.peak_bytes < WHOLE, (name, str(p.plan))
        assert v.node in p.plan.in_place_updates.values(), name
        p.set(v=start, i=2, j=places, x=3.0)
        want, place, value = start.copy(), 2, 3.0
        for steps in (1, 3, 2):
            p.run(steps)
            for _ in range(steps):
                MODES[mode](want, key(place, places), value)
                place, value = place + 1, value * 0.5
            np.testing.assert_array_equal(p.state["v"], want, f"{mode} {name}")


def test_an_update_that_reads_what_it_changes_is_not_in_place(engine: str) -> None:
    v, i, *_ = variables()
    start = np.random.default_rng(1).normal(size=(ROWS, COLUMNS))
    cases: dict[Any, tuple[Any, Callable[[Value], None]]] = {
        "rows": (v.at[1:].set(v[:-1]), lambda a: a.__setitem__(slice(1, None), a[:-1].copy())),
        "flip": (v.at[:].add(v[::-1]), lambda a: a.__iadd__(a[::-1].copy())),
        "own": (v.at[i].set(v[i - 1]), lambda a: a.__setitem__(2, a[1])),
        "twice": (v.at[0].set(1.0).at[1].add(v[0]), lambda a: _twice(a)),
    }
    for name, (source, apply) in cases.items():
        p = tw.Graph([i], tnp.sum(v), updates={v: source}, unused="ignore").compile(engine=engine)
        p.set(v=start, i=2)
        want = start.copy()
        for _ in range(3):
            p.run()
            apply(want)
            np.testing.assert_array_equal(p.state["v"], want, name)


def _twice(a: Value) -> None:
    first = a[0].copy()
    a[0] = 1.0
    a[1] += first


@pytest.mark.parametrize("bad", [ROWS, -ROWS - 1, 2**40])
def test_an_index_outside_changes_nothing(engine: str, bad: int) -> None:
    """Neither the array it would go to, nor any that is updated beside it."""
    v, i, j, _ = variables()
    w = tw.var("w", shape=(ROWS, 4))
    n = tw.var("n")
    updates = {v: v.at[j].add(1.0), w: w.at[j].set(2.0), n: n + 1, i: i + 1}
    p = tw.Graph([j], tnp.sum(n), updates=updates).compile(engine=engine)
    assert set(p.plan.in_place_updates.values()) == {a.node for a in updates}
    state = {"v": np.zeros((ROWS, COLUMNS)), "w": np.zeros((ROWS, 4)), "n": 0.0, "i": 0}
    p.set(**state)
    p([0, 1, -1])
    before = p.state
    with pytest.raises(IndexError, match=r"scatter: index .* out of bounds"):
        p([3, 4, bad])
    for name, value in before.items():
        if name != "j":
            np.testing.assert_array_equal(p.state[name], value, name)
    p([3, 4, 5])
    assert p.state["v"][3, 0] == 1.0
    assert p.state["n"] == 2.0


def test_two_places_that_may_both_be_wrong(engine: str) -> None:
    v, i, j, _ = variables()
    w = tw.var("w", shape=(ROWS, COLUMNS))
    updates = {v: v.at[i].add(1.0), w: w.at[j].add(1.0)}
    p = tw.Graph([i, j], tnp.sum(v[0]), updates=updates).compile(engine=engine)
    zeros = np.zeros((ROWS, COLUMNS))
    for at, places in ((1, [1, 2, ROWS]), (ROWS, [1, 2, 3])):
        p.set(v=zeros, w=zeros)
        with pytest.raises(IndexError, match="out of bounds"):
            p(at, places)
        np.testing.assert_array_equal(p.state["v"], zeros)
        np.testing.assert_array_equal(p.state["w"], zeros)
    p(1, [1, 2, 2])
    assert (p.state["v"].sum(), p.state["w"].sum()) == (COLUMNS, 3 * COLUMNS)


def test_trajectories_are_recorded_in_place(engine: str) -> None:
    """Positions and velocities of each step, and the first that fits nowhere is an error."""
    rows = 300
    where, speed = (tw.var(n, shape=(rows, 2)) for n in ("where", "speed"))
    i = tw.var("i", dtype="int64")
    x, u = tw.var("x", shape=(2,)), tw.var("u", shape=(2,))
    faster = u - 0.1 * x
    updates = {
        where: where.at[i].set(x), speed: speed.at[i].set(u), i: i + 1, u: faster, x: x + 0.1 * faster
    }  # fmt: skip
    p = tw.Graph([], tnp.sum(x), updates=updates).compile(engine=engine)
    assert p.plan.peak_bytes < 8 * rows
    assert {where.node, speed.node} <= set(p.plan.in_place_updates.values())
    zeros = np.zeros((rows, 2))
    p.set(where=zeros, speed=zeros, i=0, x=np.ones(2), u=np.zeros(2))
    with pytest.raises(IndexError, match="out of bounds"):
        p.run(rows + 5)
    assert p.draw == rows
    xs, us = np.ones(2), np.zeros(2)
    for row in range(rows):
        np.testing.assert_allclose(p.state["where"][row] if row % 50 == 0 else xs, xs, rtol=1e-9)
        us = us - 0.1 * xs
        xs = xs + 0.1 * us
    np.testing.assert_allclose(p.state["x"], xs, rtol=1e-9)


def test_parts_updated_one_after_the_other_are_all_in_place(engine: str) -> None:
    """As boundaries are: rows and columns set in turn, none through a copy."""
    v, i, _, x = variables()
    start = np.random.default_rng(2).normal(size=(ROWS, COLUMNS))
    edges = v.at[0].set(x).at[-1].set(1.0).at[:, 0].add(2.0)
    moving = v.at[i].set(x).at[3].add(1.0)
    for source, apply in ((edges, _edges), (moving, _moving)):
        graph = tw.Graph([i], tnp.sum(v[5]), updates={v: source, x: x + 1}, unused="ignore")
        p = graph.compile(engine=engine)
        assert p.plan.peak_bytes < WHOLE, str(p.plan)
        p.set(v=start, i=4, x=0.5)
        want = start.copy()
        for step in range(3):
            shown = p.run()
            np.testing.assert_allclose(shown, want[5].sum(), rtol=1e-12)
            apply(want, 0.5 + step)
            np.testing.assert_array_equal(p.state["v"], want)
    with pytest.raises(IndexError, match="out of bounds"):
        p.set(i=ROWS)
        p.run()
    np.testing.assert_array_equal(p.state["v"], want)


def test_chains_that_cannot_lie_in_the_variable(engine: str) -> None:
    """A later part may fail, an earlier state is shown, or old values are read again."""
    v, i, *_ = variables()
    start = np.random.default_rng(3).normal(size=(ROWS, COLUMNS))
    first = v.at[0].set(1.0)
    for source, outputs, apply in (
        (first.at[i].add(1.0), tnp.sum(v), lambda a: (a.__setitem__(0, 1.0), a[4].__iadd__(1.0))),
        (first.at[1].add(1.0), first, lambda a: (a.__setitem__(0, 1.0), a[1].__iadd__(1.0))),
        (first.at[1].set(v[0]), tnp.sum(v), lambda a: (a[1].__setitem__(..., a[0]), a.__setitem__(0, 1.0))),
    ):  # fmt: skip
        p = tw.Graph([i], outputs, updates={v: source}, unused="ignore").compile(engine=engine)
        p.set(v=start, i=4)
        want = start.copy()
        for _ in range(3):
            p.run()
            apply(want)
            np.testing.assert_array_equal(p.state["v"], want)
    p = tw.Graph([i], tnp.sum(v), updates={v: first.at[i].add(1.0)}).compile(engine=engine)
    p.set(v=start)
    with pytest.raises(IndexError, match="out of bounds"):
        p(ROWS)
    np.testing.assert_array_equal(p.state["v"], start)


def _edges(a: Value, x: float) -> None:
    a[0], a[-1] = x, 1.0
    a[:, 0] += 2.0


def _moving(a: Value, x: float) -> None:
    a[4] = x
    a[3] += 1.0


def test_a_part_of_another_array_fails_before_it_is_copied(engine: str) -> None:
    v, i, *_ = variables()
    w = tw.var("w", shape=(ROWS, COLUMNS))
    zeros, ones = np.zeros((ROWS, COLUMNS)), np.ones((ROWS, COLUMNS))
    for source in (w.at[i].add(1.0), (v + w).at[i].set(0.0), v[::-1].at[i].set(3.0)):
        p = tw.Graph([i, w], tnp.sum(v), updates={v: source}, unused="ignore").compile(
            engine=engine
        )
        p.set(v=zeros)
        with pytest.raises(IndexError, match="out of bounds"):
            p(ROWS, ones)
        np.testing.assert_array_equal(p.state["v"], zeros)
