"""One plan, one truth: its parts say the same about every value, on every engine."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from memory_checks import assert_apart
from random_programs import ProgramBuilder
from tawny.array import array_for
from tawny.engine.lowering import is_leaf, result_of
from tawny.graph import plan_choice
from tawny.graph.plan import Plan
from tawny.memory.plan import ArenaLayout
from tawny.memory.plan import plan as planned
from tawny.memory.problem import Problem

mpl.use("Agg")


def check(plan: Plan) -> None:
    """Every question about a value has one answer."""
    lowered, problem = plan.lowered, plan.lowered.problem
    homes = {lowered.values[result_of(n)] for n in plan.in_place_updates}
    assert all(problem.values[v].bytes == 0 for v in homes), "a home takes no bytes of the plan"
    elsewhere = {array_for(n) for n in plan.in_place_updates}
    timeline = plan.timeline()
    assert [m.position for m in timeline] == [s.position for s in plan.steps]
    for moment, step in zip(timeline, plan.steps, strict=True):
        alive = plan.alive(moment.position)
        assert sum(one.bytes for one in alive) == moment.live_bytes <= moment.allocated_bytes
        assert elsewhere.isdisjoint(one.array for one in alive)
        assert moment.allocated_bytes <= plan.peak_bytes
        outputs = problem.steps[plan.layout.sequence[moment.position]].outputs
        assert step.bytes == sum(problem.values[v].bytes for v in outputs)
        there = [b for b in plan.blocks if b.first <= moment.position <= b.last]
        assert sorted(b.bytes for b in there) == sorted(one.bytes for one in alive)
        if step.bytes:
            assert any(b.offset == step.offset for b in there)
    assert max([m.live_bytes for m in timeline], default=0) <= plan.lower_bound_bytes
    assert max([b.offset + b.bytes for b in plan.blocks], default=0) <= plan.peak_bytes
    for block in plan.blocks:
        assert elsewhere.isdisjoint(block.arrays)
    check_words(plan)


def check_words(plan: Plan) -> None:
    """What is said of a value, and which block is named for it."""
    roots = plan.lowered.problem.roots
    for (node, result), value in plan.lowered.values.items():
        if node.parts or result or is_leaf(node) or roots[value] != value:
            continue
        why, block = plan.why(array_for(node)), plan.block_of(node)
        own = plan.lowered.problem.values[value].bytes
        at_home = "computed in the memory of variable" in why
        assert at_home == (node in plan.in_place_updates), why
        if at_home:
            assert plan.in_place_updates[node].name in why
            assert block is None
        elif own and "computed inside" not in why:
            assert block is not None
            assert f"{own} bytes at " in why


def plans(seed: int, engine: str) -> list[Plan]:
    """A random program planned in several ways."""
    random = Random(seed)
    made, updates = ProgramBuilder(random).program()
    inputs, outputs = ([array_for(n) for n in ns] for ns in (made.feeds, made.outputs))
    given = {array_for(t): array_for(s) for t, s in updates.items()}
    graph = tw.Graph(inputs, outputs, updates=given, unused="ignore")
    ways: list[dict[str, Any]] = [{}, {"incremental": False}, {"optimise": False}, {"plan": "seed"}]
    found = [graph.plan(engine=engine, **options) for options in ways]
    try:
        graph.plan(engine=engine, memory=0)
    except tw.MemoryBudgetError as error:
        found.append(graph.plan(engine=engine, memory=error.least_bytes))
    return found


@pytest.mark.parametrize("block", range(3))
def test_random_programs(engine: str, block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        for plan in plans(seed, engine):
            check(plan)


def test_random_updates(engine: str) -> None:
    """Chains of updates that read each other: which can lie in variables depends on the order."""
    for seed in range(40):
        random = Random(seed)
        count = random.randint(2, 6)
        variables = [tw.var(f"v{i}", shape=(random.choice((8, 40)), 40)) for i in range(count)]
        pool = list(variables)
        for _ in range(random.randint(2, 14)):
            a, b = random.choice(pool), random.choice(pool)
            if a.shape == b.shape:
                pool.append(random.choice((tnp.add, tnp.multiply, tnp.maximum))(a, b))
            else:
                pool.append(random.choice((tnp.tanh, lambda x: x[::-1] * 0.5))(a))
        updates = {}
        for target in variables:
            fitting = [a for a in pool if a.shape == target.shape]
            updates[target] = random.choice(fitting) if random.random() < 0.5 else fitting[-1] + 1
        graph = tw.Graph([], tnp.sum(pool[-1]), updates=updates)
        for options in ({}, {"incremental": False}, {"optimise": False}):
            check(graph.plan(engine=engine, **options))


def trained(layers: int, width: int, batch: int) -> tw.Graph:
    """A training step with running statistics: many updates, some of them of values used later."""
    x = tw.var("x", shape=(batch, width), dtype="float32")
    updates: dict[Any, Any] = {}
    parameters, hidden = [], x
    for i in range(layers):
        w = tw.var(f"w{i}", shape=(width, width), dtype="float32")
        mean = tw.var(f"mean{i}", shape=(width,), dtype="float32")
        before = hidden @ w
        now = tnp.mean(before, axis=0)
        updates[mean] = 0.9 * mean + 0.1 * now
        hidden = tnp.relu(before - now) + hidden
        parameters.append(w)
    loss = tnp.mean(tnp.square(hidden - x))
    for w, slope in zip(parameters, tw.gradients(loss, parameters), strict=True):
        m, v = (tw.var(f"{k}_{w.node.name}", shape=w.shape, dtype="float32") for k in "mv")
        updates[m], updates[v] = 0.9 * m + 0.1 * slope, 0.99 * v + 0.01 * slope * slope
        updates[w] = w - 0.01 * updates[m] / (tnp.sqrt(updates[v]) + 1e-8)
    return tw.Graph([x, *parameters], loss, updates=updates)


@pytest.mark.parametrize(("layers", "width", "batch"), [(3, 24, 16), (6, 16, 100), (5, 40, 7)])
def test_training_steps(engine: str, layers: int, width: int, batch: int) -> None:
    graph = trained(layers, width, batch)
    free = graph.plan(engine=engine)
    check(free)
    if layers != 6:
        return
    budget = int(free.peak_bytes * 0.8)
    try:
        check(graph.plan(engine=engine, memory=budget))
    except tw.MemoryBudgetError as error:
        check(graph.plan(engine=engine, memory=error.least_bytes))


def test_the_picture_has_the_blocks_of_the_plan(engine: str) -> None:
    plan = trained(3, 16, 8).plan(engine=engine)
    axes = plan.plot()
    try:
        boxes = [c.get_paths()[0].get_extents() for c in axes.collections if c.get_paths()]
        drawn = sorted((box.y0, box.height) for box in boxes)
        scale = max(y + h for y, h in drawn) / max(b.offset + b.bytes for b in plan.blocks)
        wanted = sorted((b.offset * scale, b.bytes * scale) for b in plan.blocks)
        np.testing.assert_allclose(drawn, wanted, rtol=1e-6, atol=1e-9)
    finally:
        mpl.pyplot.close("all")


def test_where_nothing_better_is_found_all_else_stays_in_place(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources that an order lets lie in variables do, also where laying it out again gains none."""
    found, plain = list[ArenaLayout](), plan_choice._keep_offsets

    def stays(layout: ArenaLayout, lent: Problem) -> ArenaLayout:
        found.append(plain(layout, lent))
        assert found[-1].arena <= layout.arena
        assert_apart((s.bytes, s.birth, s.death, offset) for s, offset in found[-1].placed_storages)
        return found[-1]

    def unlucky(problem: Problem, *, order: Any = None, **options: Any) -> Any:
        return SimpleNamespace(arena=2**60) if order is not None else planned(problem, **options)

    monkeypatch.setattr(plan_choice, "_keep_offsets", stays)
    monkeypatch.setattr(plan_choice, "plan", unlucky)
    test_random_updates(engine)
    assert found
