"""The search for recomputation: schedules for every limit, the cheapest whose arena fits.

Live bytes are counted in fixed *levels*.  From a level each way of recomputing (a score of the
simulation, or the chain's checkpoints, on one of the orders) yields a sequence, and from that a
path of cheaper and larger ones up to the highest level.  A budget is answered with the cheapest
schedule, on any path from a level under it, whose arena fits.  A larger budget has the same paths to
choose from and more: it never costs more, and a smaller one never has a larger arena.  That holds
as long as the effort suffices for all levels under the budget; the nearest are tried first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import gcd
from typing import NamedTuple

from tawny.memory.problem import Problem
from tawny.memory.remat import Score, Simulation, Stuck, Walk, walk
from tawny.memory.remat_chain import Chain
from tawny.memory.remat_tables import Tables, tables
from tawny.memory.remat_trim import Path
from tawny.memory.schedule import Schedule, schedule

MOST_LEVELS = 256
WORK_PER_SECOND = 400_000
"""How much of a simulation's work a second of search stands for."""
MOST_SLOWDOWN = 6.0
"""A sequence this many times as slow as the order alone is given up."""
SCORES = (
    Score(time=0.0, size=0.75),
    Score(time=0.25, size=1.0),
    Score(time=0.0, size=0.5),
    Score(time=0.25, size=0.75),
    Score(time=1.0, size=1.0, descendants=True, ahead=False),
    Score(time=0.0, size=1.0),
    Score(time=0.5, size=1.0),
    Score(time=0.25, size=0.5),
    Score(time=1.0, size=1.0),
)
FRUGAL = (0, 1, 3, 7)
"""The scores that are tried when the least memory is sought."""


class Fit(NamedTuple):
    """A schedule, and the bytes of its arena."""

    schedule: Schedule
    arena: int


Place = Callable[[Schedule], int]
"""Places the storages of a schedule; the bytes of the arena."""


class Search:
    """All that was found for one problem; budgets are asked of it one after the other."""

    def __init__(
        self, problem: Problem, orders: Sequence[Sequence[int]], place: Place, seconds: float
    ) -> None:
        self.problem, self.place, self.seconds = problem, place, seconds
        self.tables = tables(problem)
        self.walks = [walk(self.tables, order) for order in dict.fromkeys(map(tuple, orders))]
        self.paths: list[Path] = []
        self.tried: set[tuple[int, int, int]] = set()
        self.chains: dict[int, Chain] = {}
        self.fits: dict[tuple[int, ...], Fit] = {}
        self.work = 0
        self.once = min((self.fit(w.order) for w in self.walks), key=lambda fit: fit.arena)
        """The best without recomputation."""
        self.levels = levels(self.tables, self.walks, self.once.arena)
        self._least: Fit | None = None

    def fit(self, sequence: Sequence[int]) -> Fit:
        """The schedule of a sequence with its arena."""
        key = tuple(sequence)
        if key not in self.fits:
            found = schedule(self.problem, key)
            self.fits[key] = Fit(found, self.place(found))
            self.work += 3 * len(key)
        return self.fits[key]

    def within(self, budget: int) -> Fit | None:
        """The cheapest schedule found whose arena is within the budget."""
        if self.once.arena <= budget:
            return self.once
        top = bisect_right(self.levels, budget) - 1
        end = self.work + int(self.seconds * WORK_PER_SECOND)
        for level in range(top, -1, -1):
            self.explore(level, end)
            if self.work > end:
                break
        else:
            self.least()
        best = self.cheapest(budget, top, end)
        if best is None and self.least().arena <= budget:
            return self.least()
        return best

    def cheapest(self, budget: int, top: int, end: int) -> Fit | None:
        """The cheapest schedule on the paths known, up to the level `top`, whose arena fits."""
        heap = [(p.seconds[top], i, top) for i, p in enumerate(self.paths) if p.start <= top]
        heapify(heap)
        while heap:
            _, index, level = heappop(heap)
            path = self.paths[index]
            found = self.fit(path.at(level))
            if found.arena <= budget:
                return found
            lower = path.below(level)
            if lower is not None:
                heappush(heap, (path.seconds[lower], index, lower))
        return None

    def explore(self, level: int, end: int) -> None:
        """Try every way of recomputing from a level, until the work done reaches `end`."""
        for order, path in enumerate(self.walks):
            for way in range(-1, len(SCORES)):
                if self.work > end:
                    return
                self.attempt(order, path, way, level)

    def attempt(self, order: int, path: Walk, way: int, level: int) -> bool:
        """Try one way from a level; whether it led anywhere."""
        key = (order, way, level)
        if key in self.tried:
            return any(p.key == key for p in self.paths)
        self.tried.add(key)
        limit = self.levels[level]
        if way < 0:
            sequence = self.chain(order, path).sequence(limit)
        else:
            sequence = self.simulate(path, limit, SCORES[way])
        if sequence is None:
            return False
        found = Path(self.tables, sequence, self.levels, level, key)
        self.work += 2 * len(sequence)
        if found.peak > self.levels[-1]:
            return False
        self.paths.append(found)
        return True

    def chain(self, order: int, path: Walk) -> Chain:
        """The chain of an order."""
        if order not in self.chains:
            self.chains[order] = chain = Chain(self.tables, path, self.levels[-1])
            self.work += 40 * len(chain.stages) ** 2
        return self.chains[order]

    def simulate(self, path: Walk, limit: int, score: Score) -> list[int] | None:
        """The sequence of a simulation; None if it is stuck or too slow."""
        run = Simulation(self.tables, path, limit, score, MOST_SLOWDOWN * path.clock[-1])
        try:
            return run.run()
        except Stuck:
            return None
        finally:
            self.work += run.work

    def least(self) -> Fit:
        """The schedule with the least arena that is found: each way from the lowest level it can."""
        if self._least is None:
            best = self.once
            for order, path in enumerate(self.walks):
                for way in (-1, *FRUGAL):
                    level = self.lowest(order, path, way)
                    for p in self.paths:
                        if p.key == (order, way, level):
                            best = min(best, self.fit(p.at(p.start)), key=lambda fit: fit.arena)
            self._least = best
        return self._least

    def lowest(self, order: int, path: Walk, way: int) -> int:
        """The lowest level from which a way leads anywhere, by bisection."""
        low, high = 0, len(self.levels) - 1
        while low < high:
            middle = (low + high) // 2
            if self.attempt(order, path, way, middle):
                high = middle
            else:
                low = middle + 1
        return low


def levels(tables: Tables, walks: Sequence[Walk], most: int) -> list[int]:
    """The limits to search at: from the largest working set of a step to what needs no search."""
    least = max((working_set(tables, s) for s in walks[0].order), default=0) if walks else 0
    unit = gcd(*[size for size in tables.sizes if size], *[s for s in tables.scratch if s]) or 1
    if (most - least) // unit < MOST_LEVELS:
        found = list(range(least, most, unit))
    else:
        ratio = (most / least) ** (1 / MOST_LEVELS)
        steps = [int(least * ratio**i) // unit * unit for i in range(MOST_LEVELS)]
        found = sorted({max(step, least) for step in steps})
    return [*found, most] if not found or found[-1] < most else found


def working_set(tables: Tables, s: int) -> int:
    """The bytes that a step needs for itself, with all in place that may be."""
    read = set(tables.reads[s])
    need = tables.extra[s] + sum(tables.sizes[r] for r in read)
    taken: set[int] = set()
    for operand, result in tables.slides[s]:
        if not taken.intersection((operand, result)):
            taken.update((operand, result))
            need -= tables.sizes[operand]
    return need
