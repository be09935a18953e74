"""Plans and budgets by structure: nothing is planned twice, nothing is mixed up or kept alive."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections import OrderedDict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
import tawny.numpy as tnp
from memory_checks import random_problem
from tawny.memory import budget as budgets
from tawny.memory import plan as plans
from tawny.memory.budget import Budget, MemoryBudgetError
from tawny.memory.lru import LRUCache
from tawny.memory.plan import plan, plan_below
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.memory.recompute.search import RecomputeSearch

UNIT = 64


@pytest.fixture(autouse=True)
def nothing_known():
    plans.PLANS.clear()
    budgets.SEARCHES.clear()


@pytest.fixture
def planned(monkeypatch):
    """The problems that are planned afresh, as they come."""
    seen: list[Problem] = []
    made = plans.compute_plan

    def counted(problem, *rest):
        seen.append(problem)
        return made(problem, *rest)

    monkeypatch.setattr(plans, "compute_plan", counted)
    return seen


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 4))), st.integers(1, 9))
def test_the_least_recently_used_goes_first(actions, most):
    recent, model = LRUCache[int](most), OrderedDict[int, tuple[int, int]]()
    for number, (is_put, key, weight) in enumerate(actions):
        if is_put:
            recent.put(key, number, weight)
            model.pop(key, None)
            if weight <= most:
                model[key] = (number, weight)
            while sum(w for _, w in model.values()) > most:
                model.popitem(last=False)
        else:
            assert recent.get(key) == model.get(key, (None, 0))[0]
            if key in model:
                model.move_to_end(key)
        assert len(recent) == len(model)


def labelled(problem: Problem, name: str) -> Problem:
    values = tuple(v._replace(label=f"{name}{i}") for i, v in enumerate(problem.values))
    return Problem(values, tuple(s._replace(label=name) for s in problem.steps))


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_same_structure_is_given_the_same_layout(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(0, 20))
    one, other = labelled(problem, "a"), labelled(problem, "b")
    first, second = plan(one), plan(other)
    assert (first.problem, second.problem) == (one, other)
    assert second.for_problem(one) == first
    assert second.offsets == first.offsets
    assert second.live == first.live
    assert first.for_problem(other).schedule == second.schedule


def test_a_structure_is_planned_once(planned):
    problem = random_problem(random.Random(1), 12)
    for name in "abc":
        plan(labelled(problem, name))
    assert len(planned) == 1
    plan(replace(problem, alignment=8))
    plan(problem, hard=True, looks=10_000)
    plan(problem, looks=10_000)
    plan(problem, order=range(len(problem.steps)))
    plan(problem, order=list(range(len(problem.steps))))
    assert len(planned) == 5


BASE = Problem(
    (
        PlanValue(8),
        PlanValue(16),
        PlanValue(16, view_of=1),
        PlanValue(16),
        PlanValue(16, kept=True),
    ),
    (
        PlanStep((0,), (1,)),
        PlanStep((1, 2), (3,), ((0, 0), (1, 0))),
        PlanStep((3, 0), (4,), ((0, 0),)),
    ),
)


def changed_value(v: int, **changes) -> Problem:
    values = list(BASE.values)
    values[v] = values[v]._replace(**changes)
    return Problem(tuple(values), BASE.steps)


def changed_step(s: int, **changes) -> Problem:
    steps = list(BASE.steps)
    steps[s] = steps[s]._replace(**changes)
    return Problem(BASE.values, tuple(steps))


@pytest.mark.parametrize(
    "problem",
    [
        changed_value(3, bytes=24),
        changed_value(3, kept=True),
        changed_value(4, pinned=True),
        changed_value(2, view_of=0),
        changed_step(1, inputs=(1, 1)),
        changed_step(2, overwrites=()),
        changed_step(2, scratch=8),
        Problem(BASE.values, BASE.steps[:2]),
        Problem((*BASE.values, PlanValue(8)), BASE.steps),
    ],
)
def test_structures_that_differ_are_planned_apart(problem, planned):
    assert problem.structure != BASE.structure
    plan(BASE)
    plan(problem)
    assert planned == [BASE, problem]


def test_costs_count_for_budgets_only():
    dear = changed_step(0, seconds=1.0)
    once = changed_step(0, pure=False)
    assert dear.structure == once.structure == BASE.structure
    assert len({dear.costs, once.costs, BASE.costs}) == 3
    assert Budget(dear).cached_search is not Budget(once).cached_search
    assert Budget(dear).cached_search is Budget(labelled(dear, "x")).cached_search
    wider = replace(dear, alignment=8)
    assert Budget(dear).cached_search is not Budget(wider).cached_search
    assert Budget(dear).cached_search is not Budget(dear, looks=500_000).cached_search
    assert Budget(dear).cached_search is not Budget(dear, [range(3)]).cached_search


class Label:
    """Something that a cache must not keep alive."""


def test_nothing_known_keeps_labels_alive():
    problem = random_problem(random.Random(3), 15)
    labels = [Label() for _ in (*problem.values, *problem.steps)]
    fates = [weakref.ref(label) for label in labels]
    rest = iter(labels)
    values = tuple(v._replace(label=next(rest)) for v in problem.values)
    problem = Problem(values, tuple(s._replace(label=next(rest)) for s in problem.steps))
    peak = plan(problem).arena
    Budget(problem).within(peak)
    with pytest.raises(MemoryBudgetError):
        Budget(problem).within(0)
    assert len(plans.PLANS) == len(budgets.SEARCHES) == 1
    del problem, values, labels, rest
    gc.collect()
    assert not any(fate() is not None for fate in fates)


def network(n: int) -> tw.Graph:
    x = tw.var("x", shape=(n,))
    saved = [x]
    for _ in range(8):
        saved.append(tnp.sin(saved[-1]))
    out = saved[-1]
    for s in reversed(saved[:-1]):
        out = out * tnp.cos(s)
    return tw.Graph([x], out)


def test_compiling_the_same_graph_again_plans_nothing(planned):
    options = {"engine": "reference", "incremental": False}
    first = network(1000).compile(**options).plan
    count = len(planned)
    assert count > 0
    second = network(1000).compile(**options).plan
    assert len(planned) == count
    assert second.peak_bytes == first.peak_bytes
    assert [s.offset for s in second.steps] == [s.offset for s in first.steps]
    assert all(a.array is not b.array for a, b in zip(first.steps, second.steps, strict=True))
    network(1001).compile(**options)
    assert len(planned) == 2 * count


def test_a_budget_asked_again_is_answered_at_once(monkeypatch):
    options = {"engine": "reference", "incremental": False}
    peak = network(1000).plan(**options).peak_bytes
    first = network(1000).plan(memory=peak // 2, **options)
    monkeypatch.setattr(RecomputeSearch, "within", None)
    second = network(1000).plan(memory=peak // 2, **options)
    assert second.peak_bytes == first.peak_bytes
    assert second.layout.sequence == first.layout.sequence


def random_training(rng: random.Random, steps: int) -> Problem:
    problem = random_problem(rng, steps)
    values = tuple(v._replace(bytes=v.bytes * UNIT) for v in problem.values)
    costs = [rng.choice([1.0, 2.0, 5.0]) for _ in problem.steps]
    steps_ = [s._replace(seconds=c) for s, c in zip(problem.steps, costs, strict=True)]
    return Problem(values, tuple(steps_))


@pytest.mark.parametrize("seed", range(12))
def test_a_smaller_budget_never_needs_more_nor_takes_less_time(seed):
    rng = random.Random(seed)
    problem = random_training(rng, rng.choice([25, 50, 80]))
    ask = Budget(problem, looks=10_000)
    most = ask.cached_search.search.without_recomputation.arena
    found = {}
    for _ in range(10):
        bytes = int(most * rng.uniform(0.2, 1.05))
        try:
            found[bytes] = ask.within(bytes)
        except MemoryBudgetError as error:
            found[error.least_bytes] = ask.within(error.least_bytes)
    for (smaller, one), (_, other) in pairwise(sorted(found.items())):
        assert one.arena <= smaller
        assert one.arena <= other.arena
        assert one.schedule.seconds >= other.schedule.seconds
    for bytes, layout in found.items():
        assert Budget(problem, looks=10_000).within(bytes) == layout


@given(st.integers(0, 10**6), st.sampled_from([5_000, 50_000, 1_000_000]))
@settings(max_examples=6, deadline=None)
def test_a_budget_is_answered_alike_whatever_was_asked_before(seed, looks):
    rng = random.Random(seed)
    problem = random_training(rng, rng.choice([10, 18, 30]))
    budgets.SEARCHES.clear()
    most = Budget(problem, looks=looks).cached_search.search.without_recomputation.arena
    asked = [int(most * rng.uniform(0.2, 1.05)) for _ in range(4)]

    def answer(bytes: int) -> object:
        try:
            layout = Budget(problem, looks=looks).within(bytes)
        except MemoryBudgetError as error:
            return error.least_bytes, error.alive
        return layout.sequence, layout.placement

    alone = {}
    for bytes in asked:
        budgets.SEARCHES.clear()
        alone[bytes] = answer(bytes)
    budgets.SEARCHES.clear()
    rng.shuffle(asked)
    assert {bytes: answer(bytes) for bytes in asked} == alone


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_a_plan_is_the_same_whatever_was_planned_before(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 16))
    plans.PLANS.clear()
    plans.NONE_BELOW.clear()
    alone = plan(problem)
    below = {}
    for bytes in (alone.arena - 1, alone.arena, alone.arena + 1, alone.arena + 100):
        plans.PLANS.clear()
        plans.NONE_BELOW.clear()
        below[bytes] = plan_below(problem, bytes)
        assert plan(problem) == alone, "after a plan below some bytes"
    for _ in range(2):
        for bytes, found in rng.sample(sorted(below.items()), len(below)):
            assert plan_below(problem, bytes) == found, "after others"


def test_threads_may_plan_the_same_structure():
    problem = random_training(random.Random(5), 40)
    found = []

    def ask(name: str) -> None:
        mine = labelled(problem, name)
        peak = plan(mine).arena
        found.append((peak, Budget(mine, looks=10_000).within(peak).arena))

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(within <= peak for peak, within in found)
