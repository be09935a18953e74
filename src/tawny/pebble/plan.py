"""A plan as a pebbling: every schedule of the planner is a strategy whose moves can be checked.

Vertices are the values that have memory of their own in the arena (roots, by index); views share
their root's pebble, and resident values are no vertices.  A pebble weighs the bytes of its value.
The scratch memory of step s is a vertex of its own, `StepVertex(s)`, pebbled while the step runs;
it counts in the time of a strategy as the values do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from tawny.errors import value_error
from tawny.memory.inplace import declared_refusal
from tawny.memory.problem import PlanStep, Problem
from tawny.memory.schedule import Schedule
from tawny.pebble.game import Edge, Game, Move, Place, Remove, Slide, StrategyCost, Vertex, play

OverwrittenRoots: TypeAlias = Mapping[int, frozenset[int]]
"""For each output of a step, by position, the roots that it is written over in some run."""


class StepVertex(NamedTuple):
    """The vertex that stands for a step while it runs; it weighs the step's scratch memory."""

    step: int


class Pebbling(NamedTuple):
    """A game and a strategy for it."""

    game: Game
    moves: tuple[Move, ...]

    def play(self) -> StrategyCost:
        """Check the moves; the space is the peak, in bytes."""
        return play(self.game, self.moves)


def from_problem(problem: Problem) -> Game:
    """The game of a problem whose steps make one value each: its schedules are strategies.

    The least space of a one-shot strategy is then the least peak over all orders.  What lives
    outside the arena is no part of the game, nor is which steps must not run `after` others.
    """
    for s, step in enumerate(problem.steps):
        count = len(_outputs_with_memory(problem, step))
        if count > 1:
            raise value_error(
                "pebble.from_problem",
                f"step {s} makes {count} values at once, and a move makes one; "
                "play a schedule of the problem instead (from_schedule)",
            )
    return _game(problem, {})


def from_schedule(schedule: Schedule) -> Pebbling:
    """The game of the schedule's problem, and the schedule as its moves.

    Several outputs of one step are pebbled one after the other, those in place last.  Where a run
    writes two outputs over two inputs, the second cannot ask for the input that the first has
    overwritten: `StepVertex(step)`, pebbled before both, asks for all inputs in its stead.
    """
    problem, end = schedule.problem, len(schedule.sequence)
    taken = _overwritten_roots(schedule)
    game = _game(problem, taken)
    tenant: dict[int, int] = {}
    ending: list[list[int]] = [[] for _ in range(end + 1)]
    for index, storage in enumerate(schedule.storages):
        ending[storage.death].append(index)
    moves: list[Move] = []
    for position, s in enumerate(schedule.sequence):
        step, work = problem.steps[s], StepVertex(s)
        sources = {o: problem.root(step.inputs[i]) for i, o in schedule.in_place_pairs[position]}
        if work in game.predecessors:
            moves.append(Place(work))
        for o in _output_order(problem, s, sources, taken.get(s, {})):
            v = step.outputs[o]
            moves.append(Slide(sources[o], v) if o in sources else Place(v))
            tenant[schedule.writes[position][o]] = v
        if work in game.predecessors:
            moves.append(Remove(work))
        moves += [
            Remove(tenant[index])
            for index in ending[position + 1]
            if position + 1 < end or tenant[index] not in game.kept
        ]
    return Pebbling(game, tuple(moves))


def _game(problem: Problem, taken: Mapping[int, OverwrittenRoots]) -> Game:
    """The game of a problem; `taken` for the steps that write over several inputs in one run."""
    graph: dict[Vertex, list[Vertex]] = {}
    weights: dict[Vertex, int] = {}
    allowed: set[Edge] = set()
    for s, step in enumerate(problem.steps):
        inputs = _operands(problem, step)
        own = _outputs_with_memory(problem, step)
        work = [StepVertex(s)] if own and (step.scratch or s in taken) else []
        for vertex in work:
            graph[vertex] = [*inputs]
            weights[vertex] = step.scratch
        for o in own:
            v = step.outputs[o]
            lost = _unavailable(taken.get(s, {}), o)
            graph[v] = [*work, *(u for u in inputs if u not in lost)]
            weights[v] = problem.values[v].bytes
        allowed |= {
            (problem.root(step.inputs[i]), step.outputs[o])
            for i, o in step.overwrites
            if declared_refusal(problem, step, i, o) is None
        }
    kept = sorted(problem.kept_roots)
    return Game.of(
        graph, kept, weights=weights, forbidden=lambda u, v: (u, v) not in allowed, kept=kept
    )


def _outputs_with_memory(problem: Problem, step: PlanStep) -> list[int]:
    """The positions of the outputs that have memory of their own."""
    return [o for o, v in enumerate(step.outputs) if problem.values[v].view_of is None]


def _operands(problem: Problem, step: PlanStep) -> list[int]:
    """The roots a step reads in the arena."""
    roots = dict.fromkeys(problem.root(v) for v in step.inputs)
    return [root for root in roots if problem.makers[root] is not None]


def _overwritten_roots(schedule: Schedule) -> dict[int, OverwrittenRoots]:
    """The steps that in some run write over several inputs, with what they write over."""
    problem = schedule.problem
    several = {
        s
        for s, pairs in zip(schedule.sequence, schedule.in_place_pairs, strict=True)
        if len(pairs) > 1
    }
    taken: dict[int, dict[int, frozenset[int]]] = {s: {} for s in several}
    for s, pairs in zip(schedule.sequence, schedule.in_place_pairs, strict=True):
        if s in several:
            for i, o in pairs:
                root = problem.root(problem.steps[s].inputs[i])
                taken[s][o] = taken[s].get(o, frozenset()) | {root}
    return dict(taken)


def _unavailable(taken: OverwrittenRoots, o: int) -> frozenset[int]:
    """The inputs that only other outputs than `o` are written over: they may be gone."""
    others = frozenset(root for other, roots in taken.items() if other != o for root in roots)
    return others - taken.get(o, frozenset())


def _output_order(
    problem: Problem, s: int, sources: Mapping[int, int], taken: OverwrittenRoots
) -> Iterator[int]:
    """The outputs with memory of their own: each before its inputs are overwritten."""
    step = problem.steps[s]
    yield from (o for o in _outputs_with_memory(problem, step) if o not in sources)
    waiting = list(sources)
    while waiting:
        asked = {o: frozenset(_operands(problem, step)) - _unavailable(taken, o) for o in waiting}
        free = [
            o
            for o in waiting
            if not any(sources[o] in asked[other] for other in waiting if other != o)
        ]
        if not free:
            raise value_error(
                "pebble.from_schedule",
                f"step {s} writes its outputs over the same inputs in different ways when it runs "
                "again; no sequence of single moves does that",
            )
        yield free[0]
        waiting.remove(free[0])
