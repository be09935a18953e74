"""The pebble game: rules, known values, the solver against brute force, plans as strategies."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from itertools import count
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_checks import all_orders, peak_of_order, random_problem
from tawny import pebble
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.memory.schedule import schedule
from tawny.pebble import Game, Place, Remove, Slide

# The rules.


def test_the_pebbling_that_the_report_draws() -> None:
    """Figure 2, picture by picture."""
    moves = [Place(0), Place(1), Slide(0, 2), Remove(1), Place(3), Slide(3, 4), Remove(2)]
    result = pebble.play(pebble.figure_2(), [*moves, Slide(4, 5)])
    assert result == pebble.StrategyCost(space=2, time=6, pebbles=2, repeated=0)


@pytest.mark.parametrize(
    ("moves", "number", "reason"),
    [
        ([Place(9)], 1, "9 is no vertex of the graph"),
        ([Remove(0)], 1, "0 holds no pebble"),
        ([Place(0), Place(0)], 2, "0 already holds a pebble"),
        ([Place(0), Place(2)], 2, "the predecessors 1 of 2 hold no pebble"),
        ([Place(2)], 1, "the predecessors 0, 1 of 2 hold no pebble"),
        ([Place(0), Place(1), Place(3), Slide(3, 2)], 4, "3 is no predecessor of 2"),
        ([Place(0), Place(1), Slide(0, 2), Remove(0)], 4, "0 holds no pebble"),
        ([Place(0), Place(1), Slide(1, 2)], 3, "sliding from 1 to 2 is forbidden"),
        ([Place(0), Place(1), Slide(0, 2), Place(3), Slide(3, 4)], 5, "3 is kept"),
        ([Place(3), Remove(3)], 2, "3 is kept"),
    ],
)
def test_illegal_moves_say_why(moves: list[pebble.Move], number: int, reason: str) -> None:
    game = Game.of(pebble.figure_2().predecessors, forbidden=[(1, 2)], kept=[3])
    with pytest.raises(pebble.IllegalMove) as caught:
        pebble.play(game, moves)
    assert (caught.value.number, caught.value.move, caught.value.reason) == (
        number,
        moves[-1],
        reason,
    )
    assert str(caught.value) == f"move {number}, {moves[-1]}: {reason}"


def test_every_output_must_be_pebbled() -> None:
    with pytest.raises(pebble.GoalNotReached, match="never pebble the outputs 5") as caught:
        pebble.play(pebble.figure_2(), [Place(0)])
    assert caught.value.missing == (5,)


def test_weights_and_repetitions_are_counted() -> None:
    game = Game.of({"c": ["a", "b"]}, weights={"a": 5, "b": 7, "c": 2})
    moves = [Place("a"), Remove("a"), Place("a"), Place("b"), Slide("a", "c")]
    assert pebble.play(game, moves) == pebble.StrategyCost(space=12, time=4, pebbles=2, repeated=1)


def test_graphs_may_be_given_in_any_order_and_with_double_edges() -> None:
    game = Game.of({2: [1, 1], 1: [0]})
    assert dict(game.predecessors) == {0: (), 1: (0,), 2: (1,)}
    assert list(game.predecessors) == [0, 1, 2]
    assert game.outputs == (2,)
    assert repr(game) == "<Game: 3 vertices, 2 edges>"
    assert Game.from_edges([(1, 2), (0, 1)]).predecessors == game.predecessors


def test_forbidden_may_be_a_predicate() -> None:
    game = Game.of(pebble.chain(3).predecessors, forbidden=lambda u, v: v == 2)
    assert game.forbidden == {(1, 2)}
    assert pebble.least_space(game) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Game.of({0: [1], 1: [0], 2: [0]}), "no cycle; one passes through 0, 1"),
        (lambda: Game.of({0: []}, outputs=[1]), "outputs: 1 is not a vertex"),
        (lambda: Game.of({0: []}, kept=[1]), "kept: 1 is not a vertex"),
        (lambda: Game.of({0: []}, weights={1: 2}), "weights: 1 is not a vertex"),
        (lambda: Game.of({0: []}, weights={0: -2}), "weights: 0 weighs -2"),
        (lambda: Game.of({1: [0]}, forbidden=[(1, 0)]), r"forbidden: \(1, 0\) is not an edge"),
        (lambda: pebble.chain(0), "n is 0; it must be at least 1"),
        (lambda: pebble.fft(-1), "k is -1; it must be at least 0"),
        (lambda: pebble.solve(pebble.grid(5)), "need 25 vertices and the limit is 16"),
        (lambda: pebble.solve(pebble.figure_3(), 1), "space 1 is not enough; .* is 2"),
        (lambda: pebble.solve(pebble.figure_3(), 2, one_shot=True), "not enough; .* is 3"),
        (lambda: pebble.in_order(pebble.chain(2), [1]), "1 comes before its predecessor 0"),
        (lambda: pebble.in_order(pebble.chain(2), [0, 0]), "0 occurs twice"),
        (lambda: pebble.in_order(pebble.chain(2), [7]), "7 is no vertex"),
    ],
)
def test_mistakes_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


# Known values: (space, time) of each trade-off with sliding, without; then one-shot space of both.

KNOWN: list[tuple[str, Game, list[tuple[int, int]], list[tuple[int, int]], int, int]] = [
    ("figure 2", pebble.figure_2(), [(2, 6)], [(3, 6)], 2, 3),
    ("figure 3", pebble.figure_3(), [(2, 8), (3, 6)], [(3, 8), (4, 6)], 3, 4),
    ("fft 4", pebble.fft(2), [(3, 16), (4, 14), (5, 12)], [(4, 15), (5, 13), (6, 12)], 5, 6),
    *[(f"chain {n}", pebble.chain(n), [(1, n)], [(2, n)], 1, 2) for n in (2, 3, 10, 16)],
    *[
        (f"tree {h}", pebble.binary_tree(h), [(h + 1, n)], [(h + 2, n)], h + 1, h + 2)
        for h, n in ((1, 3), (2, 7), (3, 15))
    ],
    *[
        (f"pyramid {h}", pebble.pyramid(h), [(h + 1, n)], [(h + 2, n)], h + 1, h + 2)
        for h, n in ((1, 3), (2, 6), (3, 10), (4, 15))
    ],
    *[(f"grid {k}", pebble.grid(k), [(k, k * k)], [(k + 1, k * k)], k, k + 1) for k in (2, 3, 4)],
]


@pytest.mark.parametrize(
    ("game", "sliding", "placing", "once", "once_placing"),
    [row[1:] for row in KNOWN],
    ids=[row[0] for row in KNOWN],
)
def test_known_values(
    game: Game,
    sliding: list[tuple[int, int]],
    placing: list[tuple[int, int]],
    once: int,
    once_placing: int,
) -> None:
    assert costs(pebble.frontier(game)) == sliding
    assert costs(pebble.frontier(game, slide=False)) == placing
    assert pebble.least_space(game, one_shot=True) == once
    assert pebble.least_space(game, one_shot=True, slide=False) == once_placing
    least = pebble.solve(game)
    assert (least.space, least.time) == sliding[0]


def test_figure_3_has_no_strategy_of_least_space_and_least_time() -> None:
    game = pebble.figure_3()
    assert pebble.solve(game, 2).time == 8
    assert pebble.solve(game, 3).time == pebble.solve(game, 100).time == 6


@pytest.mark.parametrize("family", [pebble.binary_tree, pebble.pyramid, pebble.fft])
def test_the_smallest_of_a_family_is_a_single_vertex(family: object) -> None:
    assert callable(family)
    for game in (family(0), pebble.chain(1), pebble.grid(1)):
        assert costs(pebble.frontier(game)) == costs(pebble.frontier(game, slide=False)) == [(1, 1)]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (3, [(2, 11), (3, 9), (4, 8)]),
        (4, [(2, 16), (3, 12), (4, 11), (5, 10)]),
        (5, [(2, 22), (3, 15), (4, 14), (5, 13), (6, 12)]),
    ],
)
def test_training_steps(layers: int, expected: list[tuple[int, int]]) -> None:
    game = pebble.backprop_chain(layers)
    assert costs(pebble.frontier(game)) == expected
    assert pebble.least_space(game, one_shot=True) == layers + 1


def revolve(steps: int, slots: int) -> int:
    """Griewank and Walther: the least forward steps to reverse a chain with so many checkpoints."""
    again = next(r for r in count() if comb(slots + r, slots) >= steps)
    return again * steps - comb(slots + again, slots + 1)


def test_revolve_closed_form() -> None:
    cases = {(10, 2): 20, (10, 3): 15, (56, 5): 140, (100, 5): 316, (100, 10): 222}
    assert {case: revolve(*case) for case in cases} == cases


@pytest.mark.parametrize("layers", range(1, 8))
def test_training_steps_cost_what_revolve_says(layers: int) -> None:
    """Two pebbles walk; each further one is a checkpoint."""
    game = pebble.backprop_chain(layers)
    for space in range(2, layers + 2):
        assert pebble.solve(game, space).time == revolve(layers + 1, space - 1) + layers + 2


def test_fft_of_eight_points_once() -> None:
    game = pebble.fft(3)
    kept = Game.of(game.predecessors, kept=game.outputs)
    assert pebble.least_space(game, one_shot=True, limit=32) == 9
    assert pebble.least_space(game, one_shot=True, slide=False, limit=32) == 10
    # in the report's order, the results kept
    assert pebble.play(kept, pebble.in_order(kept)).space == 15
    assert pebble.play(kept, pebble.in_order(kept, slide=False)).space == 16


def test_post_order_visits_predecessors_in_order() -> None:
    assert pebble.postorder(pebble.figure_2()) == (0, 1, 2, 3, 4, 5)
    assert pebble.postorder(pebble.figure_3()) == (0, 1, 2, 3, 4, 5)
    assert len(pebble.postorder(pebble.chain(50_000))) == 50_000


def costs(strategies: tuple[pebble.Strategy, ...]) -> list[tuple[int, int]]:
    return [(s.space, s.time) for s in strategies]


# The solver against brute force.


@st.composite
def games(draw: st.DrawFn, most: int = 5) -> Game:
    n = draw(st.integers(1, most))
    graph = {v: draw(st.sets(st.integers(0, v - 1))) if v else set() for v in range(n)}
    vertices = st.integers(0, n - 1)
    edges = [(u, v) for v, before in graph.items() for u in before]
    return Game.of(
        graph,
        draw(st.none() | st.sets(vertices, min_size=1)),
        weights=draw(st.none() | st.fixed_dictionaries(dict.fromkeys(graph, st.integers(0, 4)))),
        forbidden=draw(st.sets(st.sampled_from(edges))) if edges else (),
        kept=draw(st.sets(vertices)),
    )


def brute_force(game: Game, space: int, *, slide: bool, one_shot: bool = False) -> int | None:
    """The least time within `space`, trying every single move from every state."""
    heap: list[tuple[int, int, frozenset[object], frozenset[object]]] = []
    heappush(heap, (0, 0, frozenset(), frozenset()))
    seen: set[object] = set()
    tie = count()
    while heap:
        time, _, pebbled, visited = heappop(heap)
        if visited >= set(game.outputs):
            return time
        if (pebbled, visited) in seen:
            continue
        seen.add((pebbled, visited))
        after = [(0, pebbled - {v}, visited) for v in pebbled - game.kept]
        for v, before in game.predecessors.items():
            if v in pebbled or not pebbled.issuperset(before) or (one_shot and v in visited):
                continue
            after.append((1, pebbled | {v}, visited | {v}))
            if slide:
                after += [
                    (1, (pebbled - {u}) | {v}, visited | {v})
                    for u in before
                    if u not in game.kept and (u, v) not in game.forbidden
                ]
        for cost, state, reached in after:
            if sum(game.weights[v] for v in state) <= space:
                heappush(heap, (time + cost, next(tie), state, reached))
    return None


@settings(deadline=None, max_examples=150)
@given(games(), st.booleans())
def test_the_frontier_is_that_of_brute_force(game: Game, slide: bool) -> None:
    expected: list[tuple[int, int]] = []
    for space in range(sum(game.weights.values()) + 1):
        time = brute_force(game, space, slide=slide)
        if time is not None and (not expected or time < expected[-1][1]):
            expected.append((space, time))
    found = pebble.frontier(game, slide=slide)
    assert costs(found) == expected
    for space, time in expected:
        assert pebble.solve(game, space, slide=slide).time == time
    assert costs((pebble.solve(game, slide=slide),)) == expected[:1]


@settings(deadline=None, max_examples=150)
@given(games(), st.booleans())
def test_one_shot_is_that_of_brute_force(game: Game, slide: bool) -> None:
    best = pebble.solve(game, one_shot=True, slide=slide)
    assert brute_force(game, best.space, slide=slide, one_shot=True) == best.time
    assert best.space == 0 or (
        brute_force(game, best.space - 1, slide=slide, one_shot=True) is None
    )


@settings(deadline=None, max_examples=150)
@given(games(9), st.booleans())
def test_strategies_are_legal_and_cost_what_they_say(game: Game, slide: bool) -> None:
    once = pebble.solve(game, one_shot=True, slide=slide)
    found = pebble.frontier(game, slide=slide)
    for strategy in (once, *found):
        result = pebble.play(game, strategy.moves)
        assert (result.space, result.time) == (strategy.space, strategy.time)
        assert slide or not any(isinstance(move, Slide) for move in strategy.moves)
    assert pebble.play(game, once.moves).repeated == 0
    assert found[0].space <= once.space
    assert costs(found[-1:]) == costs((once,))
    spaces, times = zip(*costs(found), strict=True)
    assert sorted(set(spaces)) == list(spaces)
    assert sorted(set(times), reverse=True) == list(times)


@settings(deadline=None)
@given(games(9), st.booleans())
def test_pebbling_in_order_is_legal_and_never_better_than_the_best(game: Game, slide: bool) -> None:
    result = pebble.play(game, pebble.in_order(game, slide=slide))
    assert result.repeated == 0
    assert result.space >= pebble.least_space(game, one_shot=True, slide=slide)
    pebble.play(game, pebble.in_order(game, game.predecessors, slide=slide))


# Plans as strategies.


@settings(deadline=None, max_examples=300)
@given(st.randoms(use_true_random=False), st.integers(1, 12), st.booleans())
def test_every_schedule_is_a_legal_pebbling_of_the_same_peak(
    random_: random.Random, steps: int, in_place: bool
) -> None:
    problem = random_problem(random_, steps)
    plan = schedule(problem, range(steps), in_place=in_place)
    assert pebble.from_schedule(plan).play().space == plan.peak


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 8), st.integers(1, 5))
def test_schedules_that_recompute_are_legal_pebblings_of_the_same_peak(
    random_: random.Random, steps: int, again: int
) -> None:
    problem = random_problem(random_, steps, rich=False)
    sequence = list(range(steps))
    for s in random_.choices(range(steps), k=again):
        if not any(problem.values[v].kept for v in problem.steps[s].outputs):
            sequence.insert(random_.randint(sequence.index(s) + 1, len(sequence)), s)
    plan = schedule(problem, sequence)
    result = pebble.from_schedule(plan).play()
    assert result.space == plan.peak
    assert result.repeated == len(sequence) - steps


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_least_space_is_the_least_peak_over_all_orders(
    random_: random.Random, steps: int
) -> None:
    drawn = random_problem(random_, steps, rich=False)
    read = {v for step in drawn.steps for v in step.inputs}
    values = tuple(
        PlanValue(value.bytes, kept=value.kept or v not in read)
        for v, value in enumerate(drawn.values)
    )
    scratch = [random_.choice([0, 3]) for _ in drawn.steps]
    problem = Problem(
        values,
        tuple(
            PlanStep(step.inputs, step.outputs, step.overwrites, extra)
            for step, extra in zip(drawn.steps, scratch, strict=True)
        ),
    )
    best = min(peak_of_order(problem, order) for order in all_orders(problem))
    assert pebble.least_space(pebble.from_problem(problem), one_shot=True) == best


def figure_3_problem() -> Problem:
    """The report's Figure 3, each value of 8 bytes and every overwriting allowed."""
    steps = [
        PlanStep(before, (v,), tuple((i, 0) for i in range(len(before))))
        for v, before in enumerate([(), (0,), (1,), (), (2, 3), (4, 1)])
    ]
    return Problem(tuple(PlanValue(8, kept=v == 5) for v in range(6)), tuple(steps))


def test_recomputation_is_a_pebbling_too() -> None:
    problem = figure_3_problem()
    once = pebble.from_schedule(schedule(problem, [0, 1, 2, 3, 4, 5])).play()
    again = pebble.from_schedule(schedule(problem, [0, 1, 2, 3, 4, 0, 1, 5])).play()
    assert (once.space, once.time, once.repeated) == (24, 6, 0)
    assert (again.space, again.time, again.repeated) == (16, 8, 2)
    assert costs(pebble.frontier(pebble.from_problem(problem))) == [(16, 8), (24, 6)]


def test_a_plan_that_drops_a_kept_value_is_no_pebbling() -> None:
    values = (PlanValue(8), PlanValue(8, kept=True), PlanValue(8, kept=True))
    problem = Problem(values, (PlanStep((0,), (1,)), PlanStep((1,), (2,))))
    pebbling = pebble.from_schedule(schedule(problem, [0, 1, 0]))
    with pytest.raises(pebble.IllegalMove, match=r"Remove\(1\): 1 is kept"):
        pebbling.play()


def test_two_outputs_over_two_inputs() -> None:
    values = (
        PlanValue(1),
        PlanValue(4),
        PlanValue(8),
        PlanValue(8),
        PlanValue(4),
        PlanValue(1, kept=True),
    )
    steps = (
        PlanStep((0,), (1, 2)),
        PlanStep((1, 2), (3, 4), ((1, 0), (0, 1)), scratch=3),
        PlanStep((3, 4), (5,)),
    )
    plan = schedule(Problem(values, steps), range(3))
    assert plan.in_place_pairs[1] == ((1, 0), (0, 1))
    assert pebble.from_schedule(plan).play().space == plan.peak == 15


def test_inputs_overwritten_in_different_ways_by_two_runs_are_refused() -> None:
    values = (PlanValue(1), *[PlanValue(4)] * 4, PlanValue(1), PlanValue(1, kept=True))
    both = ((0, 0), (1, 1), (0, 1), (1, 0))
    steps = (
        PlanStep((0,), (1, 2)),
        PlanStep((1, 2), (3, 4), both),
        PlanStep((3, 4), (5,)),
        PlanStep((5, 3, 4), (6,)),
    )
    plan = schedule(Problem(values, steps), (0, 1, 2, 0, 1, 3))
    assert plan.in_place_pairs[1] == plan.in_place_pairs[4]
    assert len(plan.in_place_pairs[1]) == 2
    assert pebble.from_schedule(plan).play().space == plan.peak
    crossed = type(plan)(
        plan.problem,
        plan.sequence,
        (
            *plan.in_place_pairs[:4],
            tuple((1 - i, o) for i, o in plan.in_place_pairs[4]),
            plan.in_place_pairs[5],
        ),
        plan.reads,
        plan.writes,
        plan.storages,
    )
    with pytest.raises(ValueError, match="step 1 writes its outputs over the same inputs"):
        pebble.from_schedule(crossed)


def test_a_step_that_makes_several_values_is_no_single_move() -> None:
    problem = Problem((PlanValue(1), PlanValue(1)), (PlanStep((), (0, 1)),))
    with pytest.raises(ValueError, match="step 0 makes 2 values at once"):
        pebble.from_problem(problem)
