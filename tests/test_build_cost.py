"""What building a training graph costs: nothing is worked out twice, nothing waits for the collector."""

from __future__ import annotations

import dataclasses
import gc
import random
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from memory_checks import check_layout, random_problem
from random_graphs import RandomGraph, graphs
from tawny import models, nn, optim
from tawny.engine import lowering
from tawny.engine.cpu import kernel_table
from tawny.engine.layout import contiguous
from tawny.engine.lowering import is_leaf, lower, result_of, with_constraints
from tawny.engine.protocol import MemoryRange
from tawny.gc_pause import pause_gc
from tawny.graph import binding, plan_choice
from tawny.memory import plan as planning
from tawny.memory.placement.place import Placement, place
from tawny.memory.plan import NONE_BELOW, PLANS, plan, plan_below
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.node import Node, make, toposort
from tawny.op import ELEMENTWISE
from tawny.ops import body as fused
from tawny.ops.movement import Copy
from tawny.rewrite import pipeline
from tawny.rewrite.ledger import graph_cost

LENGTH, LETTERS = 24, 9
SMALL: Final = {"embedding": 4, "hidden": 8, "dense": 12}


def windows(length: int = LENGTH, batch: int = 10) -> tuple[Any, Any]:
    """Random letters, and those that follow."""
    rng = np.random.default_rng(0)
    return rng.integers(0, LETTERS, (batch, length)), rng.integers(0, LETTERS, batch)


def unrolled(length: int = LENGTH, batch: int = 10, **sizes: int) -> tw.Graph:
    """A training step of an LSTM: gradients through all steps, and Adam's updates."""
    model = models.CharacterLSTM(LETTERS, **(sizes or SMALL))
    return nn.training_graph(model, nn.cross_entropy, windows(length, batch), optim.Adam(1e-3))


@pytest.fixture
def unplanned() -> Iterator[None]:
    """No plan is known."""
    PLANS.clear()
    NONE_BELOW.clear()
    yield
    PLANS.clear()
    NONE_BELOW.clear()


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The first argument of every call of a function from now on."""
    original: Callable[..., Any] = getattr(owner, name)
    seen: list[Any] = []

    def noted(first: Any, *args: Any, **named: Any) -> Any:
        seen.append(first)
        return original(first, *args, **named)

    monkeypatch.setattr(owner, name, noted)
    return seen


# ------------------------------------------------------------------- collector


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that are collected, all of them often."""
    seen: list[int] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            seen.append(facts["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(10, 2, 2)
    yield seen
    gc.set_threshold(*before)
    gc.callbacks.remove(note)


@pytest.mark.usefixtures("unplanned")
def test_no_collection_while_a_program_is_built(collections: list[int]) -> None:
    graph = unrolled()
    collections.clear()
    graph.compile(incremental=False)
    graph.plan(incremental=False)
    assert len(collections) < 20, "of thousands: those before, between and after the two"
    assert gc.isenabled()


def test_no_collection_while_a_training_step_is_built(collections: list[int]) -> None:
    seen: list[int] = []

    class Watched(models.CharacterLSTM):
        def forward(self, x: tw.Array) -> tw.Array:
            collections.clear()
            scores = super().forward(x)
            seen.append(len(collections))
            return scores

    model = Watched(LETTERS, **SMALL)
    nn.train(model, nn.cross_entropy, windows(), optim.Adam(1e-3), steps=1, progress=False)
    assert seen[-1] == 0


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_left_as_it_was(on: bool) -> None:
    try:
        if not on:
            gc.disable()
        with pytest.raises(ZeroDivisionError), pause_gc():
            assert not gc.isenabled()
            with pause_gc():
                assert not gc.isenabled()
            assert not gc.isenabled(), "until the outermost is done"
            raise ZeroDivisionError
        assert gc.isenabled() == on
    finally:
        gc.enable()


# ----------------------------------------------------------------------- walks


@pytest.mark.parametrize("incremental", [True, False])
def test_no_graph_is_walked_twice(monkeypatch: pytest.MonkeyPatch, incremental: bool) -> None:
    """Passes, planning and running share the order of the nodes of each graph they have."""
    graph = unrolled()
    walked: list[tuple[Node, ...]] = []

    def noted(outputs: Any, *stop: Any) -> list[Node]:
        walked.append(tuple(outputs))
        return toposort(walked[-1], *stop)

    for name, module in list(sys.modules.items()):
        if name.startswith("tawny.") and getattr(module, "toposort", None) is toposort:
            monkeypatch.setattr(module, "toposort", noted)
    program = graph.compile(incremental=incremental)
    program.set(**{name: np.zeros(n.shape, n.dtype) for n, name in graph.names.items()})
    program.run()
    whole = [outputs for outputs in walked if len(outputs) >= len(graph.results)]
    assert len(whole) == len(set(whole)) > 2


# ---------------------------------------------------------------------- ledger


def test_only_the_ends_of_all_passes_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = unrolled()
    measured = counted(monkeypatch, pipeline, "graph_cost")
    program = graph.compile(incremental=False)
    assert not measured, "before somebody asks"
    rewrites, left = program.rewrites, toposort(program.plan.lowered.results)
    assert measured == [list(graph.order), left]
    assert program.rewrites is rewrites
    assert len(measured) == 2
    assert (rewrites.nodes_before, rewrites.nodes_after) == (len(graph.order), len(left))
    assert (rewrites.cost_before, rewrites.cost_after) == (
        graph_cost(graph.order),
        graph_cost(left),
    )


# -------------------------------------------------------------------- lowering


def test_a_graph_is_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = unrolled()
    seen = counted(monkeypatch, lowering, "_step")
    program = graph.compile(optimise=False, incremental=False)
    assert len(seen) == len(set(seen)), "the steps of loops too"
    assert len(seen) >= len(program.plan.lowered.steps)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.randoms(use_true_random=False), st.booleans())
def test_rules_are_added_to_the_values_they_are_about(
    graph: RandomGraph, choice: random.Random, into_kept: bool
) -> None:
    """Told node by node what a problem with rules must say."""
    plain = lower(graph.outputs)
    owners = [n for n in plain.order if not is_leaf(n) and n not in plain.views]
    single = [n for n in owners if not n.parts]
    kept = [n for n in single if choice.random() < 0.3]
    away = [n for n in single if n not in kept and choice.random() < 0.3]
    ruled = with_constraints(plain, kept, into_kept, away)
    lasting, gone = ({plain.values[result_of(n)] for n in nodes} for nodes in (kept, away))
    root = plain.problem.roots
    for v, (before, now) in enumerate(zip(plain.problem.values, ruled.problem.values, strict=True)):
        assert now.kept == (before.kept or before.label in kept)
        assert now.pinned == (v in lasting)
        assert now.bytes == (0 if root[v] in gone else before.bytes)
        assert (now.label, now.view_of) == (before.label, before.view_of)
    assert ruled.problem.roots == Problem(ruled.problem.values, ruled.problem.steps).roots
    assert ruled.problem.makers == Problem(ruled.problem.values, ruled.problem.steps).makers
    for before, now in zip(plain.problem.steps, ruled.problem.steps, strict=True):
        assert (now.inputs, now.outputs) == (before.inputs, before.outputs)
        assert now.overwrites == tuple(
            (p, r)
            for p, r in before.overwrites
            if root[before.inputs[p]] not in gone
            and before.outputs[r] not in gone
            and (into_kept or before.outputs[r] not in lasting)
        )


def test_what_must_not_run_later_is_noted() -> None:
    x = tw.var("x", shape=(3,))
    first, second = tnp.sin(x), tnp.cos(x)
    plain = lower([first.node, second.node])
    ruled = with_constraints(plain, after={second.node: [first.node]})
    number: dict[Node, int] = plain.step_of
    steps = ruled.problem.steps
    assert steps[number[second.node]].after == (number[first.node],)
    assert steps[number[first.node]].after == ()


# -------------------------------------------------------------------- planning


@pytest.mark.usefixtures("unplanned")
@pytest.mark.parametrize("seed", range(60))
def test_a_plan_below_some_bytes_is_found_where_there_is_one(seed: int) -> None:
    problem = random_problem(random.Random(seed), steps=12)
    arena = plan(problem).arena
    PLANS.clear()
    found = plan_below(problem, arena + 1)
    assert found is not None
    check_layout(found)
    assert found.arena == arena
    assert plan_below(problem, arena + 1) == found, "remembered"
    smaller = plan_below(problem, arena)
    assert smaller is None or smaller.arena < arena


@pytest.mark.usefixtures("unplanned")
def test_what_needs_as_much_is_given_up_before_it_is_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = tuple(PlanValue(size) for size in (8, 8, 8, 8))
    steps = (PlanStep((), (0,)), PlanStep((0,), (1,)), PlanStep((0, 1), (2,)), PlanStep((2,), (3,)))
    problem = Problem(values, steps)
    arena = plan(problem).arena
    PLANS.clear()
    placed = counted(monkeypatch, planning, "place")
    ordered = counted(monkeypatch, planning, "Portfolio")
    assert plan_below(problem, arena) is None
    assert not placed
    assert len(ordered) == 1
    assert plan_below(problem, arena) is None
    assert len(ordered) == 1, "remembered"


def test_equal_bodies_are_one_object_as_long_as_somebody_has_it() -> None:
    kind = (4,), np.dtype(np.float32)

    def body(name: str) -> fused.Body:
        return fused.Body.of((kind,), (fused.BodyStep(ELEMENTWISE[name], (0,), *kind),), (1,))

    first, gone = body("sin"), weakref.ref(body("cos"))
    assert body("sin") is first
    assert body("cos") != first
    gc.collect()
    assert gone() is None


def test_users_functions_are_not_held_by_what_is_known_of_them() -> None:
    def twice(x: Any) -> Any:
        return x * 2

    x = tw.var("x", shape=(3,))
    y = tw.delay(twice, x, shape=(3,), dtype=np.float64, pure=True)
    assert len(lower([y.node]).steps) == 1
    gone = weakref.ref(twice)
    del y, twice
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("unplanned")
def test_other_orders_are_tried_where_values_of_the_best_do_not_fit_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = tuple(PlanValue(8) for _ in range(5))
    steps = (*[PlanStep((), (v,)) for v in range(4)], PlanStep((0, 1, 2, 3), (4,)))
    problem, placed = Problem(values, steps), list[object]()

    def badly(storages: Any, **options: Any) -> Placement:
        placed.append(storages)
        found = place(storages, **options)
        return dataclasses.replace(found, arena=found.arena + 8) if len(placed) == 1 else found

    monkeypatch.setattr(planning, "place", badly)
    layout = plan(problem)
    assert layout.arena == layout.bound == 40
    assert len(placed) == 2


@pytest.mark.usefixtures("unplanned")
def test_what_has_its_place_all_the_time_is_planned_before_it_is_given_up() -> None:
    values = PlanValue(8), PlanValue(8, kept=True, pinned=True), PlanValue(16)
    problem = Problem(
        values, (PlanStep((), (0,)), PlanStep((0,), (1,), ((0, 0),)), PlanStep((1,), (2,)))
    )
    arena = plan(problem).arena
    PLANS.clear()
    assert plan_below(problem, arena) is None
    found = plan_below(problem, arena + 1)
    assert found is not None
    assert found.arena == arena


@pytest.mark.usefixtures("unplanned")
@pytest.mark.parametrize("length", [16, 32])
def test_an_unrolled_training_step_is_planned_once_and_at_its_bound(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = unrolled(length, batch=100, embedding=40, hidden=128, dense=512)
    others: list[object] = []

    def noted(problem: Problem, bytes: int, **options: Any) -> Any:
        others.append(plan_below(problem, bytes, **options))
        return others[-1]

    monkeypatch.setattr(plan_choice, "plan_below", noted)
    layout = graph.plan(incremental=False).layout
    assert layout.arena == layout.bound
    assert others == [None], "with updates anywhere it needs as much at least"


# --------------------------------------------------------------------- binding


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=8))
def test_arrays_that_have_bytes_in_common_are_found(spans: list[tuple[int, int]]) -> None:
    memory = np.zeros(80, np.int8)
    arrays = [memory[first : first + length] for first, length in spans]
    pairs = [np.may_share_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i]]
    first = memory.ctypes.data
    ranges = [MemoryRange(first + at, first + at + length, True) for at, length in spans]
    assert binding._overlap(ranges) == any(pairs)


def test_many_variables_are_bound_without_comparing_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"v{i}" for i in range(40)]
    given = [tw.var(name, shape=(3,)) for name in names]
    program = tw.Graph([], (), updates={v: v + 1.0 for v in given}).compile()
    compared = counted(monkeypatch, MemoryRange, "overlaps")
    program.set(bind=True, **{name: np.zeros(3) for name in names})
    assert len(compared) < 2 * len(names), "each with the next, and with the arena"


def test_masked_arrays_are_known_without_importing_what_makes_them() -> None:
    code = (
        "import sys, numpy, tawny as tw\n"
        "x = tw.var('x', shape=(2,))\n"
        "program = tw.Graph([x], x + 1).compile(engine='reference')\n"
        "program(x=numpy.zeros(2))\n"
        "print('numpy.ma' in sys.modules)\n"
        "try:\n"
        "    program(x=numpy.ma.masked_array([1.0, 2.0], [True, False]))\n"
        "except TypeError as error:\n"
        "    print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    before, error = told.stdout.splitlines()[:2]
    assert before == "False"
    assert "masked array" in error


# --------------------------------------------------------------------- kernels


def test_answers_that_are_asked_for_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above so many, those that nobody asked for in the longest time go."""
    monkeypatch.setattr(kernel_table, "_ANSWERS", dict[Any, Any]())
    monkeypatch.setattr(kernel_table, "MOST", 8)
    asked: list[int] = []

    def rule(node: Node, operands: Any, results: Any) -> None:
        asked.append(node.shape[0])

    monkeypatch.setitem(kernel_table.NATIVE, Copy, rule)

    def ask(length: int) -> None:
        node = make(Copy(), (tw.var("x", shape=(length,)).node,))
        memory = (contiguous(node.shape, node.dtype),)
        assert kernel_table.kernel_for(node, memory, memory, 1) is None

    for length in range(1, 9):
        ask(length)
    ask(1)
    ask(2)
    ask(9)
    assert asked == [*range(1, 10)]
    for length in (1, 2, 8, 9):
        ask(length)
    assert asked == [*range(1, 10)], "these were asked for last"
    ask(3)
    assert asked == [*range(1, 10), 3]
    assert len(kernel_table._ANSWERS) <= 8
