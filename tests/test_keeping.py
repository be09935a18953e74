"""Where not all that could be kept fits a budget, what saves most time for its bytes is."""

from __future__ import annotations

import random
from itertools import combinations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as np
from tawny.engine.lowering import result_of, seconds
from tawny.graph import pipeline, plan_choice
from tawny.graph.incremental import nodes_to_compute
from tawny.node import Node

SIZE = 48


def several() -> tw.Graph:
    """Four values of `x` alone, of different cost, that are used with `z`."""
    x, z = (tw.var(name, shape=(SIZE, SIZE)) for name in "xz")
    a = np.linalg.inv(x @ x.T + np.eye(SIZE))
    b, c, d = np.exp(x) @ x, np.sin(x) @ x, np.cos(x) @ x
    return tw.Graph([x, z], ((a * z) @ (b + z)) + (c * z) + (d - z))


def test_more_bytes_keep_more_step_by_step(engine: str) -> None:
    graph = several()
    free = graph.plan(engine=engine).peak_bytes
    ran: list[int] = []
    value = numpy.random.default_rng(0).standard_normal((SIZE, SIZE))
    for bytes in range(free, 0, -8 * SIZE * SIZE // 2):
        try:
            program = graph.compile(engine=engine, memory=bytes)
        except tw.MemoryBudgetError:
            break
        assert program.plan.peak_bytes <= bytes
        expected = graph.compile(engine="reference")(x=value, z=2 * value)
        program(x=value, z=value)
        numpy.testing.assert_allclose(program(z=2 * value), expected, rtol=1e-6, atol=1e-8)
        assert program.last_run is not None
        ran.append(len(program.last_run.executed))
    assert ran == sorted(ran), "fewer bytes never let less run"
    assert len(set(ran)) >= 3, "not all or nothing"


class Values:
    """Values of some bytes, by name."""

    def __init__(self, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = [f"n{i}" for i in range(len(sizes))]
        self.bytes = dict(zip(self.names, sizes, strict=True))
        monkeypatch.setattr(plan_choice, "bytes_of", self.bytes.__getitem__)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_kept_fits_and_nothing_else_would(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    values = Values([rng.randint(1, 30) for _ in range(rng.randint(0, 14))], monkeypatch)
    budget = rng.randint(-2, 1 + sum(values.bytes.values()))

    def room(kept) -> int | None:
        left = budget - sum(map(values.bytes.__getitem__, kept))
        return None if left < 0 else left

    kept = plan_choice.choose_kept(values.names, room)
    if budget < 0:
        assert kept is None
        return
    assert kept is not None
    left = room(kept)
    assert left is not None
    assert all(values.bytes[n] > left for n in values.names if n not in kept)
    greedy = [n for i, n in enumerate(values.names) if room(values.names[i:]) is not None]
    assert set(greedy) <= set(kept), "what is worth most comes first"


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_values_are_dropped_by_the_time_that_their_bytes_save(seed: int) -> None:
    rng = random.Random(seed)
    x = tw.var("x", shape=(16, 16))
    made = [x]
    for _ in range(6):
        one, other = rng.choice(made), rng.choice(made)
        made.append(rng.choice([np.matmul, np.add])(np.sin(one), other)[: rng.choice([4, 16])])
        made[-1] = np.tile(made[-1], (16 // made[-1].shape[0], 1))
    nodes = list(dict.fromkeys([a.node for a in made[1:]]))

    def lost(node: Node, kept: set[Node]) -> float:
        steps = nodes_to_compute([result_of(node)[0]], kept - {node}, {})
        return sum(map(seconds, steps)) / plan_choice.bytes_of(node)

    left = set(nodes)
    for node in plan_choice.order_by_worth(nodes, [], {}):
        assert lost(node, left) <= 1.000001 * min(lost(n, left) for n in left)
        left.remove(node)


def long_training(layers: int) -> tw.Graph:
    x = tw.var("x", shape=(128, 256))
    saved = [x]
    for _ in range(layers):
        saved.append(np.tanh(saved[-1] @ np.ones((256, 256))))
    out = saved[-1]
    for one, other in combinations(reversed(saved[:-1]), 2):
        out = out * one + other
    return tw.Graph([x], out)


def test_a_budget_that_costs_much_time_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MIN_WARNED_SECONDS", 1e-3)
    graph = long_training(9)
    free = graph.plan(incremental=False).peak_bytes
    with pytest.raises(tw.MemoryBudgetError) as caught:
        graph.plan(memory=1, incremental=False)
    least = caught.value.least_bytes
    with pytest.warns(tw.PerformanceWarning, match=r"times as long.*\[test_keeping.py:\d+\]"):
        graph.plan(memory=least, incremental=False)
    graph.plan(memory=free, incremental=False)
