"""Orders and schedules: against brute force, Liu's algorithm on trees, and recorded figures."""

from __future__ import annotations

import random
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_checks import (
    all_orders,
    least_peak,
    needs,
    peak_of_order,
    random_problem,
    replay,
    runs_in_time,
    with_after,
)
from memory_data import graph
from tawny.memory.effort import SECOND, Effort
from tawny.memory.inplace import match
from tawny.memory.ordering import lower_bound
from tawny.memory.ordering.contract import contract
from tawny.memory.ordering.exact_order import ExactOrderSearch
from tawny.memory.ordering.model import ordering_model
from tawny.memory.ordering.portfolio import (
    OrderHeuristic,
    Portfolio,
    best_order,
    bytes_by_step,
    candidate_orders,
    depth_first_order,
    natural_order,
    pull_safe_runs,
)
from tawny.memory.placement.place import place
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.memory.schedule import RESIDENT, Storage, schedule

SEEDS = st.integers(0, 1 << 32)


def without_in_place(problem: Problem) -> Problem:
    steps = [PlanStep(s.inputs, s.outputs, (), s.scratch) for s in problem.steps]
    return Problem(problem.values, tuple(steps))


def searched(problem: Problem) -> int:
    """The peak that the exact search finds, without any help from the portfolio."""
    graph = ordering_model(problem)
    search = ExactOrderSearch(graph, graph.lower_bound())
    sequence, certain = search.run(1 << 60, Effort(), sys.maxsize)
    assert certain
    assert sequence is not None
    assert sorted(sequence) == list(range(len(problem.steps)))
    assert max(bytes_by_step(graph, sequence), default=0) == search.accepted
    return search.accepted


# ------------------------------------------------------------------ exact orders


@given(SEEDS)
@settings(max_examples=120, deadline=None)
def test_search_agrees_with_all_orders(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 6), rich=rng.random() < 0.7)
    best = min(peak_of_order(problem, order) for order in all_orders(problem))
    assert searched(problem) == best
    assert best_order(problem) == best_order(problem)
    assert best_order(problem).peak == best
    assert best_order(problem).is_optimal
    plain = without_in_place(problem)
    assert searched(plain) == min(peak_of_order(plain, order, False) for order in all_orders(plain))


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_search_agrees_with_dynamic_programming(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(8, 10), rich=rng.random() < 0.5)
    assert searched(problem) == least_peak(problem)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_search_agrees_with_all_orders_that_some_steps_end(seed):
    rng = random.Random(seed)
    problem = with_after(random_problem(rng, rng.randint(2, 6), rich=rng.random() < 0.7), rng)
    best = min(peak_of_order(problem, order) for order in all_orders(problem))
    assert searched(problem) == best
    assert best_order(problem).peak == best
    for order in candidate_orders(problem):
        assert runs_in_time(problem, order.sequence)
        assert problem.allows(order.sequence)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_what_is_allowed_is_what_runs_in_time(seed):
    rng = random.Random(seed)
    problem = with_after(random_problem(rng, rng.randint(2, 8)), rng)
    sequence = rng.choices(range(len(problem.steps)), k=rng.randint(1, 12))
    assert problem.allows(sequence) == runs_in_time(problem, sequence)


@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_no_order_needs_less_than_is_there_around_its_steps(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 6), rich=rng.random() < 0.7)
    if rng.random() < 0.5:
        problem = with_after(problem, rng)
    graph, all_of_them = ordering_model(problem), list(all_orders(problem))
    order = rng.choice(all_of_them)
    needs = bytes_by_step(graph, order)
    assert max(needs) == peak_of_order(problem, order)
    assert all(
        lower_bound.bytes_around(graph, s) <= need for s, need in zip(order, needs, strict=True)
    )
    best = min(peak_of_order(problem, other) for other in all_of_them)
    found = lower_bound.peak_lower_bound(graph, order, needs, graph.lower_bound())
    assert graph.lower_bound() <= found <= best


def test_what_waits_between_two_halves_is_needed_by_every_order():
    layers = 20
    problem = momentum(layers)
    graph, order = ordering_model(problem), best_order(problem).sequence
    assert graph.lower_bound() == 3 * 64, "no step needs more"
    assert lower_bound.peak_lower_bound(graph, order, bytes_by_step(graph, order), 0) == 64 * (
        layers + 1
    )


@pytest.mark.parametrize("name", ["inceptionv3_b16_r299_train", "gpt2_b4_t512_L12_train"])
def test_training_steps_need_no_search_for_knowing_the_best_order(name, monkeypatch):
    monkeypatch.setattr(ExactOrderSearch, "run", None)
    assert best_order(graph(name)).is_optimal


def test_orders_are_tried_up_to_the_best_and_the_rest_when_asked_for():
    portfolio = Portfolio(graph("gpt2_b4_t512_L12_train"))
    (first,) = portfolio.search(Effort(SECOND), states=1000)
    assert first.is_optimal
    rest = portfolio.rest()
    assert [order.heuristic for order in rest] == [
        OrderHeuristic.POSTORDER,
        OrderHeuristic.NATURAL,
        OrderHeuristic.LIST,
    ]
    assert all(order.peak >= first.peak for order in rest)
    assert not portfolio.rest()


def momentum(layers: int) -> Problem:
    """A way forth and back; on the way back each layer's slope is added to a scaled state.

    The scaled state is made from what is resident: it could be made at any time, best at the last.
    """
    values, steps = list[PlanValue](), list[PlanStep]()

    def step(*inputs: int, bytes: int = 64, kept: bool = False) -> int:
        values.append(PlanValue(bytes, kept=kept))
        steps.append(
            PlanStep(inputs, (len(values) - 1,), tuple((i, 0) for i in range(len(inputs))))
        )
        return len(values) - 1

    forth = [step()]
    for _ in range(layers):
        forth.append(step(forth[-1]))
    states = [step() for _ in range(layers)]
    back = [step(forth[-1])]
    for k in range(layers - 1, 0, -1):
        back.insert(0, step(back[0], forth[k]))
    for state, slope, made in zip(states, back, forth[:-1], strict=True):
        step(state, slope, made, bytes=0, kept=True)
    return Problem(tuple(values), tuple(steps))


def test_what_needs_nothing_is_made_when_it_is_read():
    problem = momentum(20)
    found = best_order(problem, looks=0)
    assert found.peak == best_order(problem, looks=10 * SECOND).peak == 64 * 22
    assert schedule(problem, depth_first_order(problem)).peak > 1.5 * found.peak


def tree(rng: random.Random, count: int) -> Problem:
    """A random tree: each value is read by one later step; the last is kept."""
    operands: list[list[int]] = [[] for _ in range(count)]
    for v in range(count - 1):
        operands[rng.randint(v + 1, min(count - 1, v + 6))].append(v)
    values = [PlanValue(rng.randint(1, 20), kept=v == count - 1) for v in range(count)]
    return Problem(tuple(values), tuple(PlanStep(tuple(operands[v]), (v,)) for v in range(count)))


def liu(problem: Problem) -> int:
    """The smallest peak on a tree: subtrees merged segment by segment (Liu 1987)."""
    segments: list[list[tuple[int, int]]] = []
    for step in problem.steps:
        parts: list[tuple[int, int, int]] = []
        for child in step.inputs:
            low = 0
            for hill, valley in segments[child]:
                parts.append((valley - hill, hill - low, valley - low))
                low = valley
        parts.sort(key=lambda part: part[0])
        level, merged = 0, list[tuple[int, int]]()
        for _, rise, change in parts:
            merged.append((level + rise, level + change))
            level += change
        size = problem.values[step.outputs[0]].bytes
        merged.append((level + size, size))
        segments.append(canonical(merged))
    return max(hill for hill, _ in segments[-1])


def canonical(profile: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The highest hill, the lowest valley after it, the highest hill after that, and so on."""
    result: list[tuple[int, int]] = []
    while profile:
        top = max(range(len(profile)), key=lambda k: (profile[k][0], k))
        low = min(range(top, len(profile)), key=lambda k: (profile[k][1], -k))
        result.append((profile[top][0], profile[low][1]))
        profile = profile[low + 1 :]
    return result


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_search_agrees_with_liu_on_trees(seed):
    rng = random.Random(seed)
    problem = tree(rng, rng.randint(1, 16))
    assert searched(problem) == liu(problem)


# ------------------------------------------------------------------ the portfolio


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_orders_are_complete_legal_and_never_above_the_report(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 30))
    graph = ordering_model(problem)
    before = needs(problem)
    floor = graph.lower_bound()
    portfolio = Portfolio(problem)
    for sequence, peak, *_ in [*portfolio.search(Effort(0), 0), *portfolio.rest()]:
        assert sorted(sequence) == list(range(len(problem.steps)))
        place = {s: position for position, s in enumerate(sequence)}
        assert all(place[p] < place[s] for s in sequence for p in before[s])
        assert floor <= max(bytes_by_step(graph, sequence)) <= peak
        assert max(bytes_by_step(graph, sequence)) == schedule(problem, sequence).peak
    found = candidate_orders(problem)
    assert found[0].peak == min(order.peak for order in found)
    assert found[0].peak <= schedule(problem, depth_first_order(problem)).peak


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_moving_short_runs_ahead_keeps_the_peak(seed):
    rng = random.Random(seed)
    problem = with_after(random_problem(rng, rng.randint(2, 25)), rng)
    graph = ordering_model(problem)
    base = best_order(problem)
    order = pull_safe_runs(graph, base.sequence, base.peak)
    assert sorted(order) == list(range(len(problem.steps)))
    assert runs_in_time(problem, order)
    assert schedule(problem, order).peak == max(bytes_by_step(graph, order)) <= base.peak


def test_short_runs_are_moved_ahead():
    values = (
        PlanValue(4),
        PlanValue(4),
        PlanValue(1),
        PlanValue(0, kept=True),
        PlanValue(9, kept=True),
    )
    chained = (PlanStep((), (0,)), PlanStep((0,), (1,)), PlanStep((1,), (2,)), PlanStep((2,), (3,)))
    graph = ordering_model(Problem(values, (*chained, PlanStep((0,), (4,)))))
    assert pull_safe_runs(graph, [0, 1, 4, 2, 3], 17) == [0, 1, 2, 3, 4]
    assert pull_safe_runs(graph, [0, 4, 1, 2, 3], 7) == [0, 4, 1, 2, 3], "no run beyond the peak"


def test_steps_may_be_given_in_any_order():
    values = tuple(PlanValue(1, kept=v == 2) for v in range(3))
    backwards = Problem(values, (PlanStep((1,), (2,)), PlanStep((0,), (1,)), PlanStep((), (0,))))
    assert natural_order(ordering_model(backwards)) == [2, 1, 0]
    assert best_order(backwards).sequence == [2, 1, 0]


def test_an_empty_problem_has_an_empty_order():
    assert best_order(Problem((), ())).sequence == []
    assert schedule(Problem((), ()), []).peak == 0


RECORDED = {
    "resnet50_b1_r299": 12_960_000,
    "inceptionv3_b1_r299": 8_297_856,
    "vgg16_b1_r224": 25_690_112,
    "mobilenetv2_b1_r224": 6_021_120,
    "unet_b1_416x608": 258_998_272,
    "gpt2_b1_t512_L12": 104_499_200,
    "lstm_T50_b64_d256": 458_752,
    "resnet50_b32_r224_train": 2_556_428_288,
    "mobilenetv2_b32_r224_train": 1_717_788_672,
    "inceptionv3_b16_r299_train": 1_485_910_016,
    "vgg16_b32_r224_train": 1_957_232_640,
    "unet_b8_416x608_train": 9_582_936_064,
    "gpt2_b4_t512_L12_train": 2_641_641_472,
    "lstm_T100_b64_d256_train": 52_953_088,
    "mlp_b256_L6_train": 9_437_184,
}
"""The best peaks known, in bytes; the LSTM's training step can do with 52,887,552."""


@pytest.mark.parametrize("name", RECORDED)
def test_the_order_meets_the_recorded_peak(name):
    problem = graph(name)
    assert best_order(problem).peak <= RECORDED[name]


def test_the_peak_of_a_long_recurrence_is_found_exactly():
    order = best_order(graph("lstm_T100_b64_d256_train"), looks=20 * SECOND)
    assert order.is_optimal
    assert order.peak == 52_887_552


# ------------------------------------------------------------------ writing in place


def chain(*overwrites: bool, sizes: tuple[int, ...] | None = None) -> Problem:
    """A resident input, then a step after the other."""
    sizes = sizes or (8,) * len(overwrites)
    values = [PlanValue(8), *[PlanValue(n) for n in sizes]]
    steps = [
        PlanStep((i,), (i + 1,), ((0, 0),) if allowed else ())
        for i, allowed in enumerate(overwrites)
    ]
    return Problem(tuple(values), tuple(steps))


def test_a_chain_in_place_is_one_storage():
    found = schedule(chain(True, True, True), [0, 1, 2])
    assert found.storages == (Storage(8, 0, 3),)
    assert found.in_place_pairs == ((), ((0, 0),), ((0, 0),))
    assert found.reads[0] == (RESIDENT,)
    assert found.peak == 8


def test_resident_values_are_never_overwritten():
    assert schedule(chain(True), [0]).in_place_pairs == ((),)


def test_other_sizes_and_other_ops_get_their_own_storage():
    assert len(schedule(chain(True, True, sizes=(8, 4)), [0, 1]).storages) == 2
    assert len(schedule(chain(True, False), [0, 1]).storages) == 2


def binary(*reads: tuple[int, ...], **facts: tuple[tuple[int, int], ...]) -> Problem:
    """Value 1 is made from nothing; then steps that read what is given, and may overwrite it."""
    values = [PlanValue(8) for _ in range(len(reads) + 2)]
    steps = [PlanStep((0,), (1,))]
    for k, read in enumerate(reads):
        pairs = facts.get("pairs", tuple((i, 0) for i in range(len(read))))
        steps.append(PlanStep(read, (k + 2,), pairs))
    return Problem(tuple(values), tuple(steps))


def test_an_operand_read_twice_counts_once():
    assert schedule(binary((1, 1)), [0, 1]).in_place_pairs[1] == ((0, 0),)


def test_an_operand_read_where_the_step_forbids_it_is_kept_whole():
    assert schedule(binary((1, 1), pairs=((0, 0),)), [0, 1]).in_place_pairs[1] == ()


def test_only_the_last_reader_overwrites():
    assert schedule(binary((1,), (1,)), [0, 1, 2]).in_place_pairs == ((), (), ((0, 0),))
    assert schedule(binary((1,), (1,)), [0, 2, 1]).in_place_pairs == ((), (), ((0, 0),))


def test_a_live_view_protects_its_base():
    values = (PlanValue(8), PlanValue(8), PlanValue(8, view_of=1), PlanValue(8), PlanValue(8))
    view, over = PlanStep((1,), (2,)), PlanStep((1,), (3,), ((0, 0),))
    last = PlanStep((2,), (4,), ((0, 0),))
    problem = Problem(values, (PlanStep((0,), (1,)), view, over, last))
    found = schedule(problem, [0, 1, 2, 3])
    assert found.in_place_pairs == ((), (), (), ((0, 0),))
    assert found.writes[1] == found.writes[0]


def test_a_smaller_view_is_not_overwritten():
    values = (PlanValue(8), PlanValue(8), PlanValue(4, view_of=1), PlanValue(4))
    steps = (PlanStep((0,), (1,)), PlanStep((2,), (3,), ((0, 0),)))
    assert schedule(Problem(values, steps), [0, 1]).in_place_pairs == ((), ())


def test_kept_values_and_bases_of_kept_views_are_not_overwritten():
    for kept in (1, 2):
        values = [PlanValue(8), PlanValue(8), PlanValue(8, view_of=1), PlanValue(8)]
        values[kept] = PlanValue(8, kept=True, view_of=values[kept].view_of)
        steps = (PlanStep((0,), (1,)), PlanStep((1,), (3,), ((0, 0),)))
        assert schedule(Problem(tuple(values), steps), [0, 1]).in_place_pairs == ((), ())


def test_the_oldest_storage_is_overwritten_first():
    values = tuple(PlanValue(8) for _ in range(4))
    steps = (PlanStep((0,), (1,)), PlanStep((0,), (2,)), PlanStep((2, 1), (3,), ((0, 0), (1, 0))))
    assert schedule(Problem(values, steps), [0, 1, 2]).in_place_pairs[2] == ((1, 0),)


def test_as_many_results_as_possible_are_in_place():
    values = tuple(PlanValue(8) for _ in range(5))
    both = PlanStep((1, 2), (3, 4), ((0, 0), (1, 0), (0, 1)))
    steps = (PlanStep((0,), (1,)), PlanStep((0,), (2,)), both)
    assert schedule(Problem(values, steps), [0, 1, 2]).in_place_pairs[2] == ((1, 0), (0, 1))
    assert match([(1, 0), (2, 0), (1, 1)]) == {0: 2, 1: 1}


def test_values_of_the_whole_run_live_from_the_start():
    values = (PlanValue(8), PlanValue(8), PlanValue(8, kept=True, pinned=True))
    steps = (PlanStep((0,), (1,)), PlanStep((1,), (2,)))
    found = schedule(Problem(values, steps), [0, 1])
    assert found.storages == (Storage(8, 0, 2), Storage(8, 0, 2))
    assert ordering_model(Problem(values, steps)).pinned_bytes == 8
    assert best_order(Problem(values, steps)).peak == found.peak == 16


# ------------------------------------------------------------------ recomputation


def test_a_recomputed_value_has_a_storage_for_each_making():
    problem = binary((1,), (1,), pairs=())
    found = schedule(problem, [0, 1, 0, 2])
    assert [storage.birth for storage in found.storages] == [0, 1, 2, 3]
    assert found.storages[0] == Storage(8, 0, 2)
    assert found.occupants[2] == ((1, 2),)
    assert found.final_storages[1] == 2


def test_reading_what_was_never_made_is_refused():
    with pytest.raises(ValueError, match="value 1 is read before step 0"):
        schedule(binary((1,)), [1, 0])


@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_schedules_with_recomputation_replay(seed):
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 12))
    sequence: list[int] = []
    for s in range(len(problem.steps)):
        sequence += [again for again in range(s) if rng.random() < 0.1]
        sequence.append(s)
    found = schedule(problem, sequence)
    placement = place([*found.storages, *found.scratches], alignment=1, looks=0)
    address = {
        (position, o): placement.offsets[storage]
        for position, written in enumerate(found.writes)
        for o, storage in enumerate(written)
        if storage != RESIDENT
    }
    replay(problem, sequence, address, placement.arena)
    assert placement.bound == found.peak


def test_folding_a_long_chain_takes_memory_by_its_length():
    """A chain that reads nothing in the arena is folded whole, each step listed once."""
    length = 3000
    values = [PlanValue(64), *[PlanValue(64, kept=v == length) for v in range(1, length + 1)]]
    steps = [PlanStep((v,), (v + 1,), ((0, 0),)) for v in range(length)]
    graph = ordering_model(Problem(tuple(values), tuple(steps)))
    tracemalloc.start()
    try:
        folded = contract(graph, range(length))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(folded.model) <= 2
    assert folded.expand(range(len(folded.model))) == list(range(length))
    assert most < 1000 * length
