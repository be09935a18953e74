"""Placements and plans: valid by independent checkers, and at the lower bound where that is known."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_checks import assert_apart, check_layout, random_problem
from memory_data import CAPACITY, graph, graph_names, trace, trace_names
from tawny.memory.blocks import allocate_blocks
from tawny.memory.effort import SECOND, Effort
from tawny.memory.inplace import Refusal
from tawny.memory.ordering.portfolio import depth_first_order
from tawny.memory.placement import place as placement
from tawny.memory.placement.beam import (
    BeamOptions,
    SlackScore,
    TieBreak,
    beam_search,
    depth_first_search,
    sections,
)
from tawny.memory.placement.place import Placement, place
from tawny.memory.plan import layout_of_blocks, plan, replan
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.memory.schedule import Storage, schedule

SEEDS = st.integers(0, 1 << 32)
NETWORKS = [name for name in graph_names() if not name.startswith(("layered", "sp_", "tree"))]
NETWORK_TRACES = [
    name for name in trace_names("own") if not name.startswith(("layered", "sp_", "tree"))
]


def random_storages(rng: random.Random, count: int, largest: int = 40) -> list[Storage]:
    births = [rng.randint(0, 2 * count) for _ in range(count)]
    return [Storage(rng.randint(0, largest), birth, birth + rng.randint(0, 12)) for birth in births]


def check(storages: list[Storage], found: Placement, alignment: int = 1) -> None:
    rounded = [-(-s.bytes // alignment) * alignment for s in storages]
    assert_apart(
        (size, s.birth, s.death, offset)
        for size, s, offset in zip(rounded, storages, found.offsets, strict=True)
    )
    assert all(offset % alignment == 0 for offset in found.offsets)
    occupied = [size for size, s in zip(rounded, storages, strict=True) if s.birth < s.death]
    tops = [
        offset + size
        for offset, size, s in zip(found.offsets, rounded, storages, strict=True)
        if size and s.birth < s.death
    ]
    assert found.arena == max(tops, default=0)
    moments = {s.birth for s in storages}
    live = [
        sum(size for size, s in zip(rounded, storages, strict=True) if s.birth <= t < s.death)
        for t in moments
    ]
    assert found.bound == max(live, default=0) <= found.arena <= sum(occupied)


# ------------------------------------------------------------------ placement


@given(SEEDS, st.sampled_from([1, 8, 64]))
@settings(max_examples=80, deadline=None)
def test_random_placements_are_valid(seed, alignment):
    rng = random.Random(seed)
    storages = random_storages(rng, rng.randint(0, 60), 300)
    check(storages, place(storages, alignment=alignment, looks=20_000), alignment)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_every_method_gives_valid_placements(seed):
    rng = random.Random(seed)
    storages = random_storages(rng, rng.randint(1, 50))
    problem = placement.buffers(storages, 1)
    if not problem.sizes:
        return
    incumbent = placement.Incumbent(problem, Effort())
    for method in (
        placement.sweeps,
        placement.skyline_by_area,
        placement.skyline_by_life,
        placement.gap_search,
        placement.gap_searches,
    ):
        for offsets in method(incumbent):
            assert_apart(zip(problem.sizes, problem.births, problem.deaths, offsets, strict=True))
            assert incumbent.offer(offsets) >= problem.bound
    within = sections(problem.births, problem.deaths, problem.sizes)
    assert within.bound == problem.bound
    tie, score = rng.choice(list(TieBreak)), rng.choice(list(SlackScore))
    options = BeamOptions(8, 3, tie, score, 0.5, seed, distinct=rng.random() < 0.5)
    found = beam_search(within, options, problem.bound, 1 << 40, Effort())
    assert found is not None
    offsets = found.tolist()
    assert_apart(zip(problem.sizes, problem.births, problem.deaths, offsets, strict=True))
    exact = depth_first_search(
        within, tie=TieBreak.LIFE, capacity=problem.bound, nodes=500, effort=Effort()
    )
    if exact is not None:
        offsets = exact.tolist()
        assert_apart(zip(problem.sizes, problem.births, problem.deaths, offsets, strict=True))
        assert problem.height(offsets) == problem.bound


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_equal_sizes_meet_the_bound(seed):
    rng = random.Random(seed)
    storages = [s._replace(bytes=7) for s in random_storages(rng, rng.randint(1, 80))]
    found = place(storages)
    check(storages, found)
    assert found.arena == found.bound


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_only_the_proportions_of_sizes_matter(seed):
    rng = random.Random(seed)
    storages = random_storages(rng, 25)
    small = place(storages, looks=0)
    large = place([s._replace(bytes=64 * s.bytes) for s in storages], looks=0)
    assert large.bound == 64 * small.bound
    check([s._replace(bytes=64 * s.bytes) for s in storages], large, 64)


def test_nothing_needs_no_arena():
    assert place([]) == Placement((), 0, 0)
    assert place([Storage(0, 0, 3), Storage(5, 2, 2)]) == Placement((0, 0), 0, 0)


@pytest.mark.parametrize("name", NETWORK_TRACES)
def test_network_traces_are_placed_at_the_bound(name):
    storages = trace("own", name)
    found = place(storages, looks=5 * SECOND)
    assert_apart((*s, offset) for s, offset in zip(storages, found.offsets, strict=True))
    assert found.arena == found.bound


@pytest.mark.parametrize("name", ["sp_n10000_s1", "tree_n10000_s1", "layered_n10000_w8_s1"])
def test_large_random_traces_are_placed_at_the_bound(name):
    storages = trace("own", name)
    found = place(storages, looks=20 * SECOND)
    assert_apart((*s, offset) for s, offset in zip(storages, found.offsets, strict=True))
    assert found.arena == found.bound


def many(count: int) -> list[Storage]:
    """Storages of very different sizes and lives."""
    rng = random.Random(1)
    storages = []
    for _ in range(count):
        birth = rng.randrange(4 * count)
        life = int(2 ** rng.uniform(1, 12))
        storages.append(Storage(int(2 ** rng.uniform(6, 20)), birth, birth + life))
    return storages


def test_of_many_storages_the_largest_are_placed_first(monkeypatch):
    storages = many(placement.LARGEST_SEARCHED + 1)
    found = place(storages)
    assert_apart((*s, offset) for s, offset in zip(storages, found.offsets, strict=True))
    hard = place(storages, looks=200_000, known=found)
    assert_apart((*s, offset) for s, offset in zip(storages, hard.offsets, strict=True))
    assert hard.arena <= found.arena
    monkeypatch.setattr(placement, "first_fits", lambda incumbent: iter(()))
    assert found.arena < place(storages).arena


def test_storages_that_all_live_at_once_are_not_compared_in_pairs(monkeypatch):
    count, asked = 2 * placement.LARGEST_SEARCHED, []
    storages = [Storage(64 * (1 + i % 7), i, 2 * count - i % 3) for i in range(count)]
    storages += [Storage(64, 2 * count + i, 2 * count + i + 2) for i in range(9)]
    monkeypatch.setattr(placement, "first_fit", lambda *given: asked.append(given))
    monkeypatch.setattr(placement, "sweeps", lambda incumbent: iter(()))
    place(storages)
    assert not asked


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_fits_in_any_order_are_valid(seed):
    rng = random.Random(seed)
    problem = placement.buffers(random_storages(rng, rng.randint(1, 40)), 1)
    order = rng.sample(range(len(problem.sizes)), len(problem.sizes))
    offsets = placement.first_fit(problem.births, problem.deaths, problem.sizes, order)
    assert_apart(zip(problem.sizes, problem.births, problem.deaths, offsets, strict=True))


@pytest.mark.parametrize("name", trace_names("minimalloc"))
def test_published_problems_are_placed_near_the_bound(name):
    storages = trace("minimalloc", name)
    found = place(storages, looks=2 * SECOND)
    check(storages, found)
    assert found.arena <= 1.10 * found.bound


@pytest.mark.parametrize("name", [n for n in trace_names("minimalloc") if n[0] != "E"])
def test_published_problems_are_solved_when_asked_to(name):
    storages = trace("minimalloc", name)
    found = place(storages, hard=True)
    check(storages, found)
    assert found.arena == found.bound <= CAPACITY


# ------------------------------------------------------------------ plans


@given(SEEDS, st.sampled_from([1, 4]))
@settings(max_examples=120, deadline=None)
def test_random_plans_are_sound(seed, alignment):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(0, 25), rich=rng.random() < 0.7)
    problem = replace(problem, alignment=alignment)
    layout = plan(problem, looks=20_000)
    check_layout(layout)
    assert layout.arena <= layout.unshared_bytes
    blocks = allocate_blocks(problem, depth_first_order(problem))
    assert layout.arena <= sum(problem.round_up(size) for size in blocks.sizes)
    check_layout(layout_of_blocks(blocks))


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_other_scratch_memory_changes_places_alone(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(0, 20))
    problem = replace(problem, alignment=rng.choice([1, 4]))
    before = plan(problem)
    if rng.random() < 0.3:
        before = layout_of_blocks(allocate_blocks(problem, depth_first_order(problem)))
    largest = rng.choice([0, 1, 4, 40])
    steps = [step._replace(scratch=rng.randint(0, largest)) for step in problem.steps]
    other = replace(problem, steps=tuple(steps))
    after = replan(before, other)
    check_layout(after)
    assert (after.sequence, after.schedule.in_place_pairs) == (
        before.sequence,
        before.schedule.in_place_pairs,
    )
    assert after.problem is other
    if all(new.scratch <= old.scratch for new, old in zip(steps, problem.steps, strict=True)):
        assert after.arena <= before.arena
    assert replan(before, other).placement == after.placement
    assert replan(before, problem) is before


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_random_plans_with_values_of_the_whole_run_are_sound(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 15))
    values = [v._replace(pinned=v.kept and rng.random() < 0.5) for v in problem.values]
    problem = Problem(tuple(values), problem.steps)
    layout = plan(problem, looks=20_000)
    check_layout(layout)
    assert layout.bound == layout.schedule.peak


@pytest.mark.parametrize("name", NETWORKS)
def test_plans_of_networks_meet_the_bound(name):
    layout = plan(graph(name), looks=SECOND)
    assert_apart((*storage, offset) for storage, offset in layout.placed_storages)
    assert layout.arena == layout.bound


def test_a_given_order_is_followed():
    problem = graph("mlp_b256_L6_train")
    order = list(range(len(problem.steps)))
    layout = plan(problem, order=order)
    assert layout.sequence == tuple(order)
    assert layout.arena > plan(problem).arena


def test_scratch_memory_has_a_place():
    problem = Problem((PlanValue(8), PlanValue(8, kept=True)), (PlanStep((0,), (1,), scratch=100),))
    layout = plan(replace(problem, alignment=64))
    assert layout.arena == layout.bound == 64 + 128
    assert layout.scratch.keys() == {0}
    assert {layout.scratch[0], layout.offsets[1]} in ({0, 64}, {0, 128})
    assert layout.high_water == layout.live == (192,)
    assert layout.unshared_bytes == 192


def test_values_say_whom_they_share_with_and_why_not():
    values = (
        PlanValue(8),
        PlanValue(8),
        PlanValue(8),
        PlanValue(4),
        PlanValue(8),
        PlanValue(8, kept=True),
        PlanValue(8),
    )
    steps = (
        PlanStep((0,), (1,), ((0, 0),)),
        PlanStep((1,), (2,), ((0, 0),)),
        PlanStep((1, 2), (3,), ((0, 0), (1, 0))),
        PlanStep((1, 2), (4, 5), ((0, 0), (1, 0), (0, 1))),
        PlanStep((4, 5), (6,), ((0, 0), (1, 0))),
    )
    problem = Problem(values, steps)
    layout = plan(problem, order=range(5))
    check_layout(layout)
    assert layout.refusals(1) == ((0, Refusal.RESIDENT),)
    assert layout.refusals(2) == ((0, Refusal.READ_LATER),)
    assert layout.refusals(3) == ((0, Refusal.SIZE), (1, Refusal.SIZE))
    assert layout.overwrites(4) == 2
    assert layout.refusals(4) == ((0, Refusal.TAKEN),)
    assert layout.overwrites(5) == 1
    assert layout.refusals(5) == ((1, Refusal.OP),)
    assert layout.refusals(6) == ((1, Refusal.KEPT),)
    assert layout.overwrites(6) == 4
    assert layout.sharers(6) == (2, 4)
    assert layout.overwrites(0) is None
    assert layout.refusals(0) == ()


def test_views_lie_where_their_base_lies():
    values = (
        PlanValue(8),
        PlanValue(8),
        PlanValue(8, view_of=1),
        PlanValue(8, view_of=2),
        PlanValue(8, kept=True),
    )
    steps = (PlanStep((0,), (1,)), PlanStep((1,), (2,)), PlanStep((3,), (4,)))
    layout = plan(Problem(values, steps))
    check_layout(layout)
    assert layout.offsets[0] is None
    assert layout.offsets[1] == layout.offsets[2] == layout.offsets[3]
    assert layout.reads(2) == (layout.offsets[1],)


def test_recomputed_steps_are_laid_out():
    values = (PlanValue(8), PlanValue(64), PlanValue(8), PlanValue(64), PlanValue(8, kept=True))
    steps = (
        PlanStep((0,), (1,)),
        PlanStep((1,), (2,)),
        PlanStep((2,), (3,)),
        PlanStep((3, 2, 1), (4,)),
    )
    problem = Problem(values, steps)
    layout = plan(problem, order=[0, 1, 2, 0, 3])
    check_layout(layout)
    assert layout.schedule.peak == schedule(problem, [0, 1, 2, 0, 3]).peak
