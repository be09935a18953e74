"""Budgets: every schedule is replayed, and met by oracles for chains and small graphs."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_checks import Ranges, assert_apart, random_problem, runs_in_time, with_after
from tawny.memory.budget import (
    SEARCHES,
    Budget,
    MemoryBudgetError,
    every_schedule_needs,
    parse_bytes,
)
from tawny.memory.plan import ArenaLayout, plan
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.pebble.families import backprop_chain, figure_2, figure_3, pyramid
from tawny.pebble.plan import from_problem, from_schedule
from tawny.pebble.solver import frontier

UNIT = 64


@pytest.mark.parametrize(
    ("text", "bytes"),
    [
        (0, 0),
        (512, 512),
        ("512", 512),
        ("512MB", 512_000_000),
        ("2GB", 2 * 10**9),
        ("2 gb", 2 * 10**9),
        ("1.5 GiB", 3 * 2**29),
        (" .5KiB ", 512),
        ("3 kB", 3000),
        ("7B", 7),
        ("1.1GB", 1_100_000_000),
        ("1 TiB", 2**40),
    ],
)
def test_bytes_are_parsed(text, bytes):
    assert parse_bytes(text) == bytes


@pytest.mark.parametrize("text", ["", "GB", "2 XB", "two", "1..5MB", "-3MB", "1e", -1])
def test_what_is_no_number_of_bytes_is_refused(text):
    with pytest.raises(ValueError, match="memory: "):
        parse_bytes(text)


@pytest.mark.parametrize("text", [None, 1.5, b"2GB", [1]])
def test_what_is_neither_int_nor_str_is_refused(text):
    with pytest.raises(TypeError, match="'512MB'"):
        parse_bytes(text)


def replay(problem: Problem, layout: ArenaLayout) -> None:
    """Run a layout on memory that remembers who wrote it last.

    A value is read where it was made last, a view where its base was when the view was made.
    Scratch memory is written over by every step that has some.
    """
    values, memory = problem.values, Ranges(layout.arena)
    where: dict[int, tuple[int, int, object]] = {}

    def find(v: int) -> tuple[int, int, object] | None:
        base = values[v].view_of
        if v in where or base is None:
            return where.get(v)
        return find(base)

    def intact(v: int) -> None:
        place = find(v)
        resident = problem.makers[problem.roots[v]] is None
        assert resident or place, f"value {v} is not made yet"
        assert place is None or memory.holds(*place), f"value {v} is overwritten"

    for position, s in enumerate(layout.sequence):
        step, own = problem.steps[s], list[tuple[int, int]]()
        for v in step.inputs:
            intact(v)
        if position in layout.scratch:
            own.append((layout.scratch[position], step.scratch))
            memory.write(*own[0], "scratch")
            for v in step.inputs:
                intact(v)
        writes = layout.writes(position)
        for o, v in enumerate(step.outputs):
            if values[v].view_of is not None:
                continue
            start, size = writes[o], values[v].bytes
            assert start is not None
            assert all(a + n <= start or start + size <= a for a, n in own if n and size)
            own.append((start, size))
            for i, u in enumerate(step.inputs):
                place = find(u)
                if place and size and place[0] < start + size and start < place[0] + place[1]:
                    assert (i, o) in step.overwrites
                    assert place[:2] == (start, size)
        for o, v in enumerate(step.outputs):
            if values[v].view_of is None:
                where[v] = (writes[o] or 0, values[v].bytes, (position, o))
                memory.write(*where[v])
        for v in step.outputs:
            base = values[v].view_of
            if base is not None and (place := find(base)):
                where[v] = place
            elif base is not None:
                where.pop(v, None)
    for v, value in enumerate(values):
        if value.kept:
            intact(v)


def check(problem: Problem, layout: ArenaLayout, budget: int) -> None:
    """The layout keeps to the budget, to what may run again and to the definition of a run."""
    sequence = layout.sequence
    assert layout.arena <= budget
    runs = Counter(sequence)
    assert set(runs) == set(range(len(problem.steps)))
    assert all(problem.steps[s].pure for s, count in runs.items() if count > 1)
    assert runs_in_time(problem, sequence)
    replay(problem, layout)
    occupied = [(size, birth, death, at) for (size, birth, death), at in layout.placed_storages]
    assert_apart(occupied)
    assert all(at + size <= layout.arena for size, _, _, at in occupied)


def budgets(problem: Problem) -> list[int]:
    """Every budget that can matter for a small problem, and the one below all."""
    most = Budget(problem).cached_search.search.without_recomputation.arena
    return list(range(0, most + UNIT, UNIT))


def trade_off(problem: Problem, **options) -> dict[int, ArenaLayout]:
    """The checked layout for each budget that can be met, each from a search of its own."""
    found: dict[int, ArenaLayout] = {}
    least: set[int] = set()
    failed: list[tuple[int, int, int]] = []
    for budget in budgets(problem):
        SEARCHES.clear()
        try:
            found[budget] = Budget(problem, **options).within(budget)
        except MemoryBudgetError as error:
            least.add(error.least_bytes)
            failed.append((error.budget, budget, error.least_bytes))
        else:
            check(problem, found[budget], budget)
    assert least <= {min(found)}
    assert all(named == asked < enough for named, asked, enough in failed)
    assert all(asked < min(found) for _, asked, _ in failed)
    return found


def vary(problem: Problem, rng: random.Random, impure: float) -> Problem:
    """The same graph in units, with costs, and some steps that may run once only."""
    values = [
        value._replace(bytes=value.bytes * UNIT, pinned=value.kept and rng.random() < 0.2)
        for value in problem.values
    ]
    steps = [
        step._replace(
            seconds=rng.choice([1.0, 2.0, 5.0]),
            scratch=step.scratch * UNIT,
            pure=rng.random() >= impure,
        )
        for step in problem.steps
    ]
    return Problem(tuple(values), tuple(steps))


@given(st.integers(0, 10**6), st.integers(2, 14), st.sampled_from([0.0, 0.2, 1.0]))
@settings(max_examples=25, deadline=None)
def test_random_problems_for_every_budget(seed, steps, impure):
    rng = random.Random(seed)
    problem = vary(random_problem(rng, steps), rng, impure)
    found = trade_off(problem)
    for (_, small), (_, large) in pairwise(sorted(found.items())):
        assert small.arena <= large.arena
        assert small.schedule.seconds >= large.schedule.seconds - 1e-9
    if impure == 1.0:
        assert all(len(layout.sequence) == len(problem.steps) for layout in found.values())


@example(1, 11)
@given(st.integers(0, 10**6), st.integers(2, 12))
@settings(max_examples=25, deadline=None)
def test_what_every_schedule_takes_is_taken_by_the_least(seed, steps):
    rng = random.Random(seed)
    problem = vary(random_problem(rng, steps), rng, 0.1)
    most = plan(problem).arena
    sizes = [
        size for size in range(0, most + 2 * UNIT, UNIT) if every_schedule_needs(problem, size)
    ]
    assert sizes == list(range(0, len(sizes) * UNIT, UNIT))
    for budget in range(0, most + UNIT, UNIT):
        with contextlib.suppress(MemoryBudgetError):
            assert Budget(problem).within(budget).arena >= max(sizes)
    largest = max((problem.values[v].bytes for v in problem.kept_roots), default=0)
    assert max(sizes) >= largest


@given(st.integers(0, 10**6), st.integers(3, 14))
@settings(max_examples=25, deadline=None)
def test_nothing_is_made_again_from_what_is_overwritten(seed, steps):
    rng = random.Random(seed)
    problem = vary(with_after(random_problem(rng, steps), rng), rng, 0.1)
    trade_off(problem)


@given(st.integers(0, 10**6))
@settings(max_examples=2, deadline=None)
def test_larger_random_problems(seed):
    rng = random.Random(seed)
    problem = vary(random_problem(rng, 60), rng, 0.1)
    search = Budget(problem, looks=50_000)
    most = search.cached_search.search.without_recomputation.arena
    for share in (0.9, 0.7, 0.5, 0.3):
        try:
            check(problem, search.within(int(most * share)), int(most * share))
        except MemoryBudgetError as error:
            check(problem, search.within(error.least_bytes), error.least_bytes)
            SEARCHES.clear()
            fresh = Budget(problem, looks=50_000).within(error.least_bytes)
            check(problem, fresh, error.least_bytes)


def test_the_error_names_what_is_alive_at_the_bottleneck():
    values = (
        PlanValue(UNIT),
        PlanValue(3 * UNIT, "a"),
        PlanValue(5 * UNIT, "b"),
        PlanValue(UNIT, "c", kept=True),
    )
    steps = (PlanStep((0,), (1,)), PlanStep((0,), (2,)), PlanStep((1, 2), (3,)))
    with pytest.raises(MemoryBudgetError, match="576 bytes") as caught:
        Budget(Problem(values, steps)).within("100B")
    assert caught.value.least_bytes == 9 * UNIT
    assert caught.value.alive == ("b", "a", "c")
    assert isinstance(caught.value, MemoryError)


def test_a_problem_without_steps_fits_in_nothing():
    assert Budget(Problem((PlanValue(8),), ())).within(0).arena == 0


def test_an_operand_that_was_overwritten_is_made_again_first():
    # a -> b in place over a; c reads a as well: with room for two, a is made twice.
    values = (
        PlanValue(UNIT),
        *(PlanValue(UNIT, name) for name in "abd"),
        PlanValue(UNIT, "c", kept=True),
    )
    steps = (
        PlanStep((0,), (1,), seconds=1.0),
        PlanStep((1,), (2,), ((0, 0),), seconds=1.0),
        PlanStep((2,), (3,), ((0, 0),), seconds=1.0),
        PlanStep((3, 1), (4,), ((0, 0), (1, 0)), seconds=1.0),
    )
    problem = Problem(values, steps)
    layout = Budget(problem).within(2 * UNIT)
    check(problem, layout, 2 * UNIT)
    stubborn = Problem(values, (steps[0]._replace(pure=False), *steps[1:]))
    layout = Budget(stubborn).within(3 * UNIT)
    assert layout.sequence.count(0) == 1


def graph(edges: dict[object, list[object]]) -> Problem:
    """Unit values of a graph whose steps may overwrite any operand; sinks are kept."""
    index = {vertex: i for i, vertex in enumerate(edges)}
    read = {operand for operands in edges.values() for operand in operands}
    values = tuple(PlanValue(UNIT, v, kept=v not in read) for v in edges)
    steps = tuple(
        PlanStep(
            tuple(index[u] for u in operands),
            (index[v],),
            tuple((i, 0) for i in range(len(operands))),
            seconds=1.0,
        )
        for v, operands in edges.items()
    )
    return Problem(values, steps)


def points(problem: Problem) -> dict[int, int]:
    """The least time found for each space, where more space saves time."""
    result: dict[int, int] = {}
    for budget, layout in trade_off(problem).items():
        time = len(layout.sequence)
        played = from_schedule(layout.schedule).play()
        assert (played.space, played.time) == (layout.schedule.peak, time)
        if not result or time < min(result.values()):
            result[budget // UNIT] = time
    return result


def exact(problem: Problem) -> dict[int, int]:
    """The same by exhaustive search over pebblings."""
    return {s.space // UNIT: s.time for s in frontier(from_problem(problem))}


def edges_of(game) -> dict[object, list[object]]:
    """Each vertex with its operands, operands first."""
    return {v: list(operands) for v, operands in game.predecessors.items()}


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (figure_2(), {2: 6}),
        (figure_3(), {2: 8, 3: 6}),
        (backprop_chain(3), {2: 11, 3: 9, 4: 8}),
        (backprop_chain(4), {2: 16, 3: 12, 4: 11, 5: 10}),
        (backprop_chain(5), {2: 22, 3: 15, 4: 14, 5: 13, 6: 12}),
        (pyramid(3), {4: 10}),
    ],
)
def test_known_trade_offs_of_space_and_time(game, expected):
    problem = graph(edges_of(game))
    assert exact(problem) == expected
    assert points(problem) == expected


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_never_better_than_the_optimum_and_mostly_as_good(seed):
    rng = random.Random(seed)
    edges: dict[object, list[object]] = {}
    for v in range(rng.randint(4, 9)):
        edges[v] = rng.sample(range(v), rng.randint(0 if v == 0 else 1, min(v, 2)))
    problem = graph(edges)
    best, ours = exact(problem), points(problem)
    assert max(best) == max(ours)
    for space, time in ours.items():
        assert time >= min(t for s, t in best.items() if s <= space)
    assert min(ours) <= min(best) + 1


@cache
def revolve(steps: int, slots: int) -> int:
    """The least forward steps to come back through a chain with that many checkpoints."""
    if steps <= 1:
        return 0
    if slots == 1:
        return steps * (steps - 1) // 2
    return min(j + revolve(steps - j, slots - 1) + revolve(j, slots) for j in range(1, steps))


def training_chain(length: int) -> Problem:
    """`length` equal steps and the way back; the first operand lives outside the arena."""
    values, steps = [PlanValue(UNIT)], []
    for _ in range(length - 1):
        steps.append(PlanStep((len(values) - 1,), (len(values),), ((0, 0),), seconds=1.0))
        values.append(PlanValue(UNIT))
    gradient: tuple[int, ...] = ()
    for x in range(length - 1, -1, -1):
        overwrites = ((1, 0),) if gradient else ()
        steps.append(PlanStep((x, *gradient), (len(values),), overwrites, seconds=1.0))
        gradient = (len(values),)
        values.append(PlanValue(UNIT, kept=x == 0))
    return Problem(tuple(values), tuple(steps))


def test_the_oracle_is_the_published_one():
    known = {(10, 2): 20, (10, 3): 15, (56, 5): 140, (100, 5): 316, (100, 10): 222}
    assert {key: revolve(*key) for key in known} == known


@pytest.mark.parametrize("length", [2, 3, 10, 33, 56, 100])
def test_a_chain_meets_the_revolve_optimum(length):
    problem = training_chain(length)
    search = Budget(problem, looks=250_000)
    for slots in (1, 2, 3, 5, 10):
        budget = (slots + 1) * UNIT  # the first checkpoint is outside, but the gradient is not
        layout = search.within(budget)
        check(problem, layout, budget)
        assert len(layout.sequence) - length == revolve(length, slots)
        assert from_schedule(layout.schedule).play().space == layout.schedule.peak


def test_a_chain_of_different_steps_keeps_to_its_budget_and_to_order():
    rng = random.Random(3)
    plain = training_chain(30)
    sizes = [rng.randint(1, 9) * UNIT for _ in range(30)]
    values = tuple(
        value._replace(bytes=sizes[v if v < 30 else 59 - v]) for v, value in enumerate(plain.values)
    )
    steps = tuple(s._replace(overwrites=(), seconds=rng.random()) for s in plain.steps)
    problem = Problem(values, steps)
    search = Budget(problem, looks=250_000)
    most, last = search.cached_search.search.without_recomputation.arena, 0.0
    for share in (1.0, 0.8, 0.6, 0.4):
        layout = search.within(int(most * share))
        check(problem, layout, int(most * share))
        assert layout.schedule.seconds >= last
        last = layout.schedule.seconds


def test_the_same_search_has_the_same_outcome():
    rng = random.Random(5)
    problem = vary(random_problem(rng, 80), rng, 0.0)
    first = Budget(problem, looks=100_000)
    SEARCHES.clear()
    second = Budget(problem, looks=100_000)
    assert first.cached_search is not second.cached_search
    budget = first.cached_search.search.smallest_layout().arena
    assert first.within(budget).sequence == second.within(budget).sequence


@pytest.mark.parametrize(
    ("name", "share", "most"),
    [
        ("resnet50_b32_r224_train", 0.5, 7.2),
        ("resnet50_b32_r224_train", 0.25, 17.3),
        ("unet_b8_416x608_train", 0.5, 3.6),
    ],
)
def test_training_steps_stay_under_the_published_cost(name, share, most):
    import budget as bench

    problem = bench.roofline(name)
    bytes = int(plan(problem).arena * share)
    layout = Budget(problem).within(bytes)
    check(problem, layout, bytes)
    seconds = sum(step.seconds for step in problem.steps)
    assert 100 * (layout.schedule.seconds / seconds - 1) <= most
