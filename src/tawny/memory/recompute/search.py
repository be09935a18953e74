"""The search for recomputation: schedules for every limit, the cheapest whose arena fits.

Live bytes are counted in fixed *levels*.  From a level each way of recomputing (a score of the
simulation, or the chain's checkpoints, on one of the orders) yields a sequence, and from that a
path of cheaper and larger ones up to the highest level.  A budget is answered with the cheapest
of all layouts made for it that fits, whatever was asked before.

For a small problem all that can be tried is laid out once, whatever the budget is.  For others the
levels under the budget are tried, the nearest first, as far as the looks allowed go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import gcd, inf
from typing import NamedTuple

from tawny.lazy import cached_property
from tawny.memory.effort import Effort
from tawny.memory.plan import Layout
from tawny.memory.problem import Problem
from tawny.memory.recompute.checkpoints import Chain
from tawny.memory.recompute.eviction import Score, Simulation, Stuck, Walk, walk
from tawny.memory.recompute.layout import lay_out, squeeze
from tawny.memory.recompute.relax import Path
from tawny.memory.recompute.tables import Tables, tables
from tawny.memory.schedule import schedule

MOST_LEVELS = 256
MOST_WORK = 110
"""A simulation that takes more work than this for each step is given up."""
MOST_SLOWDOWN = 6.0
"""A sequence this many times as slow as the order alone is given up."""
NEAR = 8
"""So many levels are tried before anything is laid out."""
PATIENCE = 600
"""Steps for which schedules are placed with more effort that should fit but do not at once."""
SQUEEZING, MORE_SQUEEZING = 300_000, 100
"""The looks that this may take: so many in any case, and for each step."""
DESCENT = 8
"""So many times the looks for a budget are allowed for finding the least memory."""
LAYING_OUT = 40
"""What laying out a schedule counts as for each step."""
CHAIN = -1
"""Stands for the checkpoints of the chain among the ways of recomputing."""
SCORES = (
    Score(time=0.25, size=1.0),
    Score(time=1.0, size=1.0),
    Score(time=0.0, size=0.75),
    Score(time=0.0, size=0.5),
    Score(time=0.25, size=0.75),
    Score(time=1.0, size=1.0, descendants=True, ahead=False),
    Score(time=0.0, size=1.0),
    Score(time=0.5, size=1.0),
    Score(time=0.25, size=0.5),
)
FIRST = (CHAIN, *range(len(SCORES)))
"""What is tried on the first order."""
OTHERS = (CHAIN, 0, 2, 5)
"""What is tried on the others."""
FRUGAL = (CHAIN, 0, 2, 4, 8)
"""What is tried when the least memory is sought."""


class Attempt(NamedTuple):
    """What came of a way from a limit, and the work it took."""

    path: Path | None
    work: int


class Search:
    """Schedules of one problem; each question is answered as if it were the first."""

    def __init__(
        self, problem: Problem, orders: Sequence[Sequence[int]], alignment: int, looks: int
    ) -> None:
        self.problem, self.alignment, self.looks = problem, alignment, looks
        self.tables = tables(problem, alignment)
        self.walks = [walk(self.tables, order) for order in dict.fromkeys(map(tuple, orders))]
        self.chains: dict[int, Chain] = {}
        self.begin()
        self.once = min((self.layout(w.order) for w in self.walks), key=_arena)
        """The best without recomputation."""
        self.levels = levels(self.tables, self.walks, self.once.arena)
        everything = len(self.levels) * len(list(self.ways())) * len(problem.steps)
        self.is_small = 30 * everything <= looks

    def begin(self) -> None:
        """Forget what was found for another question."""
        self.paths: list[Path] = []
        self.tried: dict[tuple[int, int, int], Attempt] = {}
        """By order, way and limit."""
        self.counted: set[int] = set()
        """The orders whose chains are counted as work."""
        self.layouts: dict[tuple[int, ...], Layout] = {}
        """By sequence."""
        self.work = 0

    def layout(self, sequence: Sequence[int]) -> Layout:
        """The layout of a sequence."""
        key = tuple(sequence)
        if key not in self.layouts:
            self.layouts[key] = lay_out(schedule(self.problem, key), self.alignment)
            self.work += LAYING_OUT * len(key)
        return self.layouts[key]

    def squeeze(self, layout: Layout, budget: int) -> Layout:
        """The layout with an arena within the budget, if it can be had, or as it is."""
        effort = Effort(SQUEEZING + MORE_SQUEEZING * len(layout.sequence))
        before = effort.left
        found = squeeze(layout, budget, effort)
        self.work += before - effort.left
        self.layouts[layout.sequence] = found
        return found

    def within(self, budget: int) -> list[Layout]:
        """The layouts found whose arena is within the budget, the cheapest among them."""
        once = self.once
        if once.bound <= budget < once.arena:
            once = self.squeeze(once, budget)
        if once.arena <= budget:
            return [once]
        fitting: list[Layout] = []
        if not self.is_small:
            self.begin()
            self.approach(budget)
            fitting = [layout for layout in self.layouts.values() if layout.arena <= budget]
            self.begin()
        return fitting or [layout for layout in self.smallest if layout.arena <= budget]

    def sweep(self) -> Layout:
        """Try every way from every level, and lay out all that comes of it; the least of that."""
        for level in self.levels:
            for order, way in self.ways():
                self.attempt(order, way, level, self.levels)
        for path in self.paths:
            removed: int | None = len(self.levels) - 1
            self.layout(path.steps)
            while removed is not None:
                self.layout(path.at(removed))
                removed = path.below(removed)
        for layout in list(self.layouts.values()):
            if layout.bound < layout.arena:
                self.squeeze(layout, layout.arena - self.alignment)
        return min([self.once, *self.layouts.values()], key=_arena)

    def approach(self, budget: int) -> None:
        """Try every way from the levels under the budget, the nearest first; lay out the best.

        Levels far below serve only where nothing from the near ones fits; they are tried farther
        and farther apart.
        """
        limits = [level for level in self.levels if level <= budget]
        if len(self.levels) >= MOST_LEVELS and limits:
            limits.append(budget)
        levels = [*limits, *self.levels[len(limits) :]]
        found, near = False, NEAR
        while limits and not found and self.work <= self.looks:
            for limit in limits[: -near - 1 : -max(near // NEAR, 1)]:
                self.explore(limit, levels)
            del limits[-near:]
            near *= 2
            found = self.cheapest(budget)

    def cheapest(self, budget: int) -> bool:
        """Lay out the schedules on the paths known, the cheapest first, until one fits."""
        heap: list[tuple[float, int, int]] = []
        for index, path in enumerate(self.paths):
            level = bisect_right(path.levels, budget) - 1
            if path.start <= level:
                heap.append((path.seconds(level), index, level))
        heapify(heap)
        patience = max(PATIENCE // max(len(self.problem.steps), 1), 1)
        end = self.work + self.looks
        while heap and self.work <= end:
            _, index, level = heappop(heap)
            path = self.paths[index]
            found = self.layout(path.at(level))
            if found.bound <= budget < found.arena and patience > 0:
                patience -= 1
                found = self.squeeze(found, budget)
            if found.arena <= budget:
                return True
            lower = path.below(level)
            if lower is not None:
                heappush(heap, (path.seconds(lower), index, lower))
        return False

    def explore(self, limit: int, levels: Sequence[int]) -> None:
        """Try every way of recomputing from a limit, as far as the looks allowed go."""
        for order, way in self.ways():
            if self.work > self.looks:
                return
            self.attempt(order, way, limit, levels)

    def ways(self) -> Iterator[tuple[int, int]]:
        """The orders, and what is tried on each."""
        for order in range(len(self.walks)):
            for way in OTHERS if order else FIRST:
                yield order, way

    def attempt(self, order: int, way: int, limit: int, levels: Sequence[int]) -> Attempt:
        """Try one way from a limit: the path that starts there, if it leads anywhere."""
        key = (order, way, limit)
        if key not in self.tried:
            before, path = self.work, None
            if way == CHAIN:
                sequence = self.chain(order).sequence(limit)
            else:
                sequence = self.simulate(self.walks[order], limit, SCORES[way])
            if sequence is not None:
                path = Path(self.tables, sequence, levels, limit)
                self.work += 15 * len(sequence)
                if path.peak > levels[-1] or not self.problem.allows(path.steps):
                    path = None
                else:
                    self.paths.append(path)
            self.tried[key] = Attempt(path, self.work - before)
        return self.tried[key]

    def chain(self, order: int) -> Chain:
        """The chain of an order."""
        if order not in self.chains:
            self.chains[order] = Chain(self.tables, self.walks[order], self.levels[-1])
        if order not in self.counted:
            self.counted.add(order)
            self.work += 40 * len(self.chains[order].stages) ** 2
        return self.chains[order]

    def simulate(self, path: Walk, limit: int, score: Score) -> list[int] | None:
        """The sequence of a simulation; None if it is stuck or too slow."""
        slowest = MOST_SLOWDOWN * path.clock[-1]
        most = MOST_WORK * len(path.order)
        run = Simulation(self.tables, path, limit, score, most_seconds=slowest, most_work=most)
        try:
            return run.run()
        except Stuck:
            return None
        finally:
            self.work += run.work

    @cached_property
    def smallest(self) -> list[Layout]:
        """What is found in search of the least arena, which is the first; the others take longer.

        For a small problem that is all that can be tried.
        """
        self.begin()
        least = self.sweep() if self.is_small else self.descend()
        best, front = inf, list[Layout]()
        for layout in sorted(
            [least, *self.layouts.values()], key=lambda one: (one.arena, one.schedule.seconds)
        ):
            if layout.schedule.seconds < best:
                best = layout.schedule.seconds
                front.append(layout)
        self.begin()
        return front

    def least(self) -> Layout:
        """The layout with the least arena found."""
        return self.smallest[0]

    def descend(self) -> Layout:
        """Look for the least arena in the ways that are likely to lead there.

        A way is followed down from little above the lowest level that one before it led anywhere
        from, as far as the looks allowed go.
        """
        best, lowest, end = self.once, len(self.levels) - 1, DESCENT * self.looks
        for order, way in self.ways():
            if way in FRUGAL and self.work <= end:
                path, level = self.lowest(order, way, min(lowest + NEAR, len(self.levels) - 1))
                best, lowest = self.smaller(best, path), min(lowest, level)
        return self.lower(best)

    def lowest(self, order: int, way: int, high: int) -> tuple[Path | None, int]:
        """The path from the lowest level up to `high` that a way leads anywhere from; that level.

        It is bisected for, unless the way leads nowhere from the highest.
        """
        found, low = self.attempt(order, way, self.levels[high], self.levels).path, 0
        while found is not None and low < high:
            middle = (low + high) // 2
            path = self.attempt(order, way, self.levels[middle], self.levels).path
            if path is None:
                low = middle + 1
            else:
                high, found = middle, path
        return found, high

    def lower(self, best: Layout) -> Layout:
        """A layout with a smaller arena, by any way from the levels under it, or the same."""
        end = self.work + self.looks // 4
        for level in reversed(self.levels):
            for order, way in self.ways():
                if level < best.arena and self.work <= end:
                    attempt = self.attempt(order, way, level, self.levels)
                    best = self.smaller(best, attempt.path)
        return best

    def smaller(self, best: Layout, path: Path | None) -> Layout:
        """The one with the smaller arena: the layout, or that of the start of the path."""
        if path is not None and path.peak < best.arena:
            for sequence in (path.steps, path.at(path.start)):
                layout = self.layout(sequence)
                if layout.bound < best.arena <= layout.arena:
                    layout = self.squeeze(layout, best.arena - self.alignment)
                best = min(best, layout, key=_arena)
        return best


def _arena(layout: Layout) -> int:
    return layout.arena


def levels(tables: Tables, walks: Sequence[Walk], most: int) -> list[int]:
    """The limits to search at: from the largest working set of a step to what needs no search."""
    least = max((working_set(tables, s) for s in walks[0].order), default=0) if walks else 0
    least += tables.standing
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
