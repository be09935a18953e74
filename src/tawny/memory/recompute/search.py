"""The search for recomputation: schedules for every limit, the cheapest whose arena fits.

Live bytes are counted in fixed *levels*.  From a level each method (a score of the eviction,
or the chain's checkpoints, on one of the orders) yields a sequence, and its relaxation yields
cheaper and larger ones up to the highest level.  A budget is answered with the cheapest
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
from tawny.memory.plan import ArenaLayout
from tawny.memory.problem import Problem
from tawny.memory.recompute.checkpoints import CheckpointChain
from tawny.memory.recompute.eviction import (
    EvictionScore,
    EvictionSimulation,
    InfeasibleError,
    UseTimes,
    use_times,
)
from tawny.memory.recompute.layout import lay_out_quickly, squeeze
from tawny.memory.recompute.relax import Relaxation
from tawny.memory.recompute.tables import RecomputeTables, recompute_tables
from tawny.memory.schedule import schedule

MOST_LEVELS = 256
MOST_WORK_PER_STEP = 110
"""A simulation that takes more work than this for each step is given up: it bounds
the time of one."""
MOST_SLOWDOWN = 6.0
"""A sequence this many times as slow as the order alone is given up."""
FIRST_LEVELS = 8
"""The number of levels that are tried before anything is laid out."""
PATIENCE = 600
"""Steps, over all schedules, that are placed with more effort where they should fit but do not."""
SQUEEZE_LOOKS, SQUEEZE_LOOKS_PER_STEP = 300_000, 100
"""Looks that placing one schedule with more effort may take: in any case, and for each step."""
DESCENT_FACTOR = 8
"""The search for the least memory may take this many times the looks for a budget."""
LAYOUT_LOOKS_PER_STEP = 40
"""Looks that laying out a schedule counts as for each step."""
CHECKPOINTS = -1
"""Stands for the checkpoints of the chain among the methods, which are else indices of scores."""
SCORES = (
    EvictionScore(time=0.25, size=1.0),
    EvictionScore(time=1.0, size=1.0),
    EvictionScore(time=0.0, size=0.75),
    EvictionScore(time=0.0, size=0.5),
    EvictionScore(time=0.25, size=0.75),
    EvictionScore(time=1.0, size=1.0, descendants=True, ahead=False),
    EvictionScore(time=0.0, size=1.0),
    EvictionScore(time=0.5, size=1.0),
    EvictionScore(time=0.25, size=0.5),
)
METHODS_ON_FIRST_ORDER = (CHECKPOINTS, *range(len(SCORES)))
"""The methods that are tried on the first order."""
METHODS_ON_OTHERS = (CHECKPOINTS, 0, 2, 5)
"""The methods that are tried on the other orders."""
FRUGAL_METHODS = (CHECKPOINTS, 0, 2, 4, 8)
"""The methods that are tried when the least memory is sought."""


class Attempt(NamedTuple):
    """The outcome of a method from a limit, and the work it took."""

    relaxation: Relaxation | None
    work: int


class RecomputeSearch:
    """Schedules of one problem; each question is answered as if it were the first."""

    def __init__(self, problem: Problem, orders: Sequence[Sequence[int]], looks: int) -> None:
        self.problem, self.looks = problem, looks
        self.tables = recompute_tables(problem)
        self.orders = [use_times(self.tables, order) for order in dict.fromkeys(map(tuple, orders))]
        self.chains: dict[int, CheckpointChain] = {}
        self.reset()
        self.without_recomputation = min((self.layout(w.order) for w in self.orders), key=_arena)
        """The smallest layout that runs each step once."""
        self.levels = search_levels(self.tables, self.orders, self.without_recomputation.arena)
        everything = len(self.levels) * len(list(self.methods())) * len(problem.steps)
        self.is_small = 30 * everything <= looks

    def reset(self) -> None:
        """Forget what was found for another question."""
        self.relaxations: list[Relaxation] = []
        self.attempts: dict[tuple[int, int, int], Attempt] = {}
        """What was tried, by order, method and limit."""
        self.counted: set[int] = set()
        """The orders whose chains are counted as work."""
        self.layouts: dict[tuple[int, ...], ArenaLayout] = {}
        """Layouts by their sequence of steps."""
        self.work = 0

    def layout(self, sequence: Sequence[int]) -> ArenaLayout:
        """The layout of a sequence."""
        key = tuple(sequence)
        if key not in self.layouts:
            self.layouts[key] = lay_out_quickly(schedule(self.problem, key))
            self.work += LAYOUT_LOOKS_PER_STEP * len(key)
        return self.layouts[key]

    def squeeze(self, layout: ArenaLayout, budget: int) -> ArenaLayout:
        """The layout with an arena within the budget, if it can be had, or as it is."""
        effort = Effort(SQUEEZE_LOOKS + SQUEEZE_LOOKS_PER_STEP * len(layout.sequence))
        before = effort.left
        found = squeeze(layout, budget, effort)
        self.work += before - effort.left
        self.layouts[layout.sequence] = found
        return found

    def within(self, budget: int) -> list[ArenaLayout]:
        """The layouts found whose arena is within the budget, the cheapest among them."""
        once = self.without_recomputation
        if once.bound <= budget < once.arena:
            once = self.squeeze(once, budget)
        if once.arena <= budget:
            return [once]
        fitting: list[ArenaLayout] = []
        if not self.is_small:
            self.reset()
            self.search_below(budget)
            fitting = [layout for layout in self.layouts.values() if layout.arena <= budget]
            self.reset()
        return fitting or [layout for layout in self.frontier if layout.arena <= budget]

    def try_everything(self) -> ArenaLayout:
        """Try every method from every level and lay out all that comes of it; the smallest."""
        for level in self.levels:
            for order, method in self.methods():
                self.attempt(order, method, level, self.levels)
        for relaxation in self.relaxations:
            removed: int | None = len(self.levels) - 1
            self.layout(relaxation.steps)
            while removed is not None:
                self.layout(relaxation.sequence_at(removed))
                removed = relaxation.next_level_below(removed)
        for layout in list(self.layouts.values()):
            if layout.bound < layout.arena:
                self.squeeze(layout, layout.arena - self.problem.alignment)
        return min([self.without_recomputation, *self.layouts.values()], key=_arena)

    def search_below(self, budget: int) -> None:
        """Try every method from the levels under the budget, the nearest first; lay out the best.

        Levels far below serve only where nothing from the near ones fits; they are tried farther
        and farther apart.
        """
        limits = [level for level in self.levels if level <= budget]
        if len(self.levels) >= MOST_LEVELS and limits:
            limits.append(budget)
        levels = [*limits, *self.levels[len(limits) :]]
        found, near = False, FIRST_LEVELS
        while limits and not found and self.work <= self.looks:
            for limit in limits[: -near - 1 : -max(near // FIRST_LEVELS, 1)]:
                self.try_methods(limit, levels)
            del limits[-near:]
            near *= 2
            found = self.fit_cheapest(budget)

    def fit_cheapest(self, budget: int) -> bool:
        """Lay out the schedules that are known, the cheapest first, until one fits."""
        heap: list[tuple[float, int, int]] = []
        for index, relaxation in enumerate(self.relaxations):
            level = bisect_right(relaxation.levels, budget) - 1
            if relaxation.start <= level:
                heap.append((relaxation.seconds_at(level), index, level))
        heapify(heap)
        patience = max(PATIENCE // max(len(self.problem.steps), 1), 1)
        end = self.work + self.looks
        while heap and self.work <= end:
            _, index, level = heappop(heap)
            relaxation = self.relaxations[index]
            found = self.layout(relaxation.sequence_at(level))
            if found.bound <= budget < found.arena and patience > 0:
                patience -= 1
                found = self.squeeze(found, budget)
            if found.arena <= budget:
                return True
            lower = relaxation.next_level_below(level)
            if lower is not None:
                heappush(heap, (relaxation.seconds_at(lower), index, lower))
        return False

    def try_methods(self, limit: int, levels: Sequence[int]) -> None:
        """Try every method from a limit until the looks that are allowed are spent."""
        for order, method in self.methods():
            if self.work > self.looks:
                return
            self.attempt(order, method, limit, levels)

    def methods(self) -> Iterator[tuple[int, int]]:
        """The pairs of an order and a method that are tried on it."""
        for order in range(len(self.orders)):
            for method in METHODS_ON_OTHERS if order else METHODS_ON_FIRST_ORDER:
                yield order, method

    def attempt(self, order: int, method: int, limit: int, levels: Sequence[int]) -> Attempt:
        """Try one method from a limit: the relaxation that starts there, if it leads anywhere."""
        key = (order, method, limit)
        if key not in self.attempts:
            before, relaxation = self.work, None
            if method == CHECKPOINTS:
                sequence = self.chain(order).sequence(limit)
            else:
                sequence = self.simulate(self.orders[order], limit, SCORES[method])
            if sequence is not None:
                relaxation = Relaxation(self.tables, sequence, levels, limit)
                self.work += 15 * len(sequence)
                if relaxation.peak > levels[-1] or not self.problem.allows(relaxation.steps):
                    relaxation = None
                else:
                    self.relaxations.append(relaxation)
            self.attempts[key] = Attempt(relaxation, self.work - before)
        return self.attempts[key]

    def chain(self, order: int) -> CheckpointChain:
        """The chain of an order."""
        if order not in self.chains:
            self.chains[order] = CheckpointChain(self.tables, self.orders[order], self.levels[-1])
        if order not in self.counted:
            self.counted.add(order)
            self.work += 40 * len(self.chains[order].stages) ** 2
        return self.chains[order]

    def simulate(self, times: UseTimes, limit: int, score: EvictionScore) -> list[int] | None:
        """The sequence of a simulation; None if it is stuck or too slow."""
        slowest = MOST_SLOWDOWN * times.clock[-1]
        most = MOST_WORK_PER_STEP * len(times.order)
        run = EvictionSimulation(
            self.tables, times, limit, score, most_seconds=slowest, most_work=most
        )
        try:
            return run.run()
        except InfeasibleError:
            return None
        finally:
            self.work += run.work

    @cached_property
    def frontier(self) -> list[ArenaLayout]:
        """The layouts found in search of the least arena, by growing arena and falling time.

        For a small problem that is all that can be tried.
        """
        self.reset()
        least = self.try_everything() if self.is_small else self.descend()
        best, front = inf, list[ArenaLayout]()
        for layout in sorted(
            [least, *self.layouts.values()], key=lambda one: (one.arena, one.schedule.seconds)
        ):
            if layout.schedule.seconds < best:
                best = layout.schedule.seconds
                front.append(layout)
        self.reset()
        return front

    def smallest_layout(self) -> ArenaLayout:
        """The layout with the least arena found."""
        return self.frontier[0]

    def descend(self) -> ArenaLayout:
        """Look for the least arena by the methods that are likely to lead there.

        A method is followed down from little above the lowest level that one before it led
        anywhere from, until the looks that are allowed are spent.
        """
        best, lowest, end = (
            self.without_recomputation,
            len(self.levels) - 1,
            DESCENT_FACTOR * self.looks,
        )
        for order, method in self.methods():
            if method in FRUGAL_METHODS and self.work <= end:
                relaxation, level = self.lowest_relaxation(
                    order, method, min(lowest + FIRST_LEVELS, len(self.levels) - 1)
                )
                best, lowest = self.smaller_of(best, relaxation), min(lowest, level)
        return self.lower_further(best)

    def lowest_relaxation(
        self, order: int, method: int, high: int
    ) -> tuple[Relaxation | None, int]:
        """The lowest level up to `high` that a method leads anywhere from, and its relaxation.

        It is bisected for, unless the method leads nowhere from the highest.
        """
        found, low = self.attempt(order, method, self.levels[high], self.levels).relaxation, 0
        while found is not None and low < high:
            middle = (low + high) // 2
            relaxation = self.attempt(order, method, self.levels[middle], self.levels).relaxation
            if relaxation is None:
                low = middle + 1
            else:
                high, found = middle, relaxation
        return found, high

    def lower_further(self, best: ArenaLayout) -> ArenaLayout:
        """A layout with a smaller arena, by any method from the levels under it, or `best`."""
        end = self.work + self.looks // 4
        for level in reversed(self.levels):
            for order, method in self.methods():
                if level < best.arena and self.work <= end:
                    attempt = self.attempt(order, method, level, self.levels)
                    best = self.smaller_of(best, attempt.relaxation)
        return best

    def smaller_of(self, best: ArenaLayout, relaxation: Relaxation | None) -> ArenaLayout:
        """The one with the smaller arena: the layout, or that of the start of the relaxation."""
        if relaxation is not None and relaxation.peak < best.arena:
            for sequence in (relaxation.steps, relaxation.sequence_at(relaxation.start)):
                layout = self.layout(sequence)
                if layout.bound < best.arena <= layout.arena:
                    layout = self.squeeze(layout, best.arena - self.problem.alignment)
                best = min(best, layout, key=_arena)
        return best


def _arena(layout: ArenaLayout) -> int:
    return layout.arena


def search_levels(tables: RecomputeTables, walks: Sequence[UseTimes], most: int) -> list[int]:
    """The limits to search at: from the largest working set of a step to what needs no search."""
    least = max((working_set(tables, s) for s in walks[0].order), default=0) if walks else 0
    least += tables.pinned_bytes
    unit = gcd(*[size for size in tables.sizes if size], *[s for s in tables.scratch if s]) or 1
    if (most - least) // unit < MOST_LEVELS:
        found = list(range(least, most, unit))
    else:
        ratio = (most / least) ** (1 / MOST_LEVELS)
        steps = [int(least * ratio**i) // unit * unit for i in range(MOST_LEVELS)]
        found = sorted({max(step, least) for step in steps})
    return [*found, most] if not found or found[-1] < most else found


def working_set(tables: RecomputeTables, s: int) -> int:
    """The bytes that a step needs for itself, with all in place that may be."""
    read = set(tables.reads[s])
    need = tables.bytes_written[s] + sum(tables.sizes[r] for r in read)
    taken: set[int] = set()
    for operand, result in tables.in_place_pairs[s]:
        if not taken.intersection((operand, result)):
            taken.update((operand, result))
            need -= tables.sizes[operand]
    return need
