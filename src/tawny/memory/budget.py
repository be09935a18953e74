"""A budget of bytes: parse it, and find the cheapest schedule whose arena stays within it."""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import inf
from operator import index
from typing import TYPE_CHECKING, Final

from tawny.errors import type_error, value_error
from tawny.forking import fork_safe_lock
from tawny.lazy import LazyModule
from tawny.memory.effort import SECOND
from tawny.memory.lru import LRUCache
from tawny.memory.ordering.contract import contract
from tawny.memory.ordering.model import ordering_model
from tawny.memory.ordering.portfolio import (
    LARGEST_SEARCHED,
    NEAR,
    best_order,
    natural_order,
    pull_safe_runs,
    pull_safe_steps,
)
from tawny.memory.plan import ENTRY_WEIGHT, ArenaLayout
from tawny.memory.problem import Problem
from tawny.memory.schedule import Schedule

if TYPE_CHECKING:
    import decimal

    from tawny.memory.recompute import search as recompute_search
else:
    decimal, recompute_search = LazyModule("decimal"), LazyModule("tawny.memory.recompute.search")

UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
MOST_STATES = 2000
"""States of the search for the order with the smallest peak; counted, so that plans are the same
on every machine."""
PATTERN = re.compile(r"\s*((?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


SMALLEST_FRACTIONAL = 1000
"""Bytes below which a number that is not whole is refused: it was meant to have another unit."""


def parse_bytes(text: str | float) -> int:
    """A number of bytes: a number, or one and a unit such as "512MB" or "1.5 GiB"."""
    if isinstance(text, str):
        found = PATTERN.fullmatch(text)
        if found is None or found[2].lower() not in UNITS:
            raise value_error(
                "memory",
                f"{text!r} is no number of bytes; write a number and one of B, kB, MB, GB, "
                "TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)",
            )
        return int(decimal.Decimal(found[1]) * UNITS[found[2].lower()])
    try:
        whole = isinstance(text, float) and (text.is_integer() or SMALLEST_FRACTIONAL <= text < inf)
        bytes = int(text) if whole else index(text)  # type: ignore[arg-type]
    except TypeError:
        raise type_error(
            "memory", f"a budget is a number of bytes or a str such as '512MB', got {text!r}"
        ) from None
    if bytes < 0:
        raise value_error("memory", f"a budget is not negative, got {bytes} bytes")
    return bytes


MOST_LISTED = 5
"""Values named in an error."""


LabelledBytes = tuple[int, Hashable]
"""Bytes, and the label of the value they are for."""


class MemoryBudgetError(MemoryError):
    """No schedule was found whose arena is within the budget."""

    def __init__(self, budget: int, least_bytes: int, alive: Sequence[LabelledBytes] = ()) -> None:
        listed = ", ".join([f"{label} ({bytes:,})" for bytes, label in alive[:MOST_LISTED]])
        more = f" and {len(alive) - MOST_LISTED} more" if len(alive) > MOST_LISTED else ""
        super().__init__(
            f"memory: {budget:,} bytes are too few; the least that was planned is "
            f"{least_bytes:,} bytes, when these are alive: {listed or 'none'}{more}"
        )
        self.budget = budget
        self.least_bytes = least_bytes
        """The least arena that was planned: this budget can be met."""
        self.alive = tuple([label for _, label in alive])
        """The labels of the values that are alive where that plan needs most."""


MOST_REMEMBERED = 32
"""Budgets of one structure whose answers are remembered."""


class CachedSearch:
    """The layouts found for problems of one structure, by budget; labels are left out.

    An answer depends on the problem and the budget, never on what was asked before.
    """

    def __init__(self, search: recompute_search.RecomputeSearch) -> None:
        self.search = search
        self._lock = fork_safe_lock()
        self._layouts = LRUCache[tuple[ArenaLayout | None]](MOST_REMEMBERED)

    def within(self, budget: int) -> ArenaLayout | None:
        """The cheapest layout found within the budget."""
        with self._lock:
            (found,) = self._layouts.get_or_make(
                budget, lambda: (self._search_within(budget),), weight=1
            )
            return found

    def least(self) -> ArenaLayout:
        """The layout with the least arena found."""
        with self._lock:
            return self.search.smallest_layout()

    def _search_within(self, budget: int) -> ArenaLayout | None:
        fitting = self.search.within(budget)
        return min(fitting, key=lambda x: (x.schedule.seconds, x.arena), default=None)


SEARCHES: Final = LRUCache[CachedSearch](capacity=50_000)
"""Searches by the structure of problems and how they are searched; they weigh their steps."""


class Budget:
    """The layouts of one problem by budget.

    Problems of the same structure share what was found.
    """

    def __init__(
        self,
        problem: Problem,
        orders: Sequence[Sequence[int]] | None = None,
        *,
        looks: int = SECOND,
    ) -> None:
        """`looks` say how much work to put into each budget."""
        self.problem = problem
        given = None if orders is None else tuple(map(tuple, orders))

        def answers() -> CachedSearch:
            plain = problem.without_labels
            tried = starting_orders(plain) if given is None else given
            return CachedSearch(recompute_search.RecomputeSearch(plain, tried, looks))

        key = problem.structure, problem.costs, given, looks
        self.cached_search = SEARCHES.get_or_make(key, answers, len(problem.steps) + ENTRY_WEIGHT)

    def within(self, budget: str | int) -> ArenaLayout:
        """The cheapest layout found, by the seconds of its steps, that is within the budget."""
        bytes = parse_bytes(budget)
        found = self.cached_search.within(bytes)
        if found is None:
            least = self.cached_search.least().for_problem(self.problem)
            raise MemoryBudgetError(bytes, least.arena, bottleneck(least.schedule))
        return found.for_problem(self.problem)


def every_schedule_needs(problem: Problem, bytes: int) -> bool:
    """Whether every schedule needs that many bytes: for what is kept, or for one step.

    If not, some may still do: where a value has its place all the time, others of a step may be in
    it, so that the two are not added.
    """
    kept = sum([problem.round_up(problem.values[v].bytes) for v in problem.kept_roots])
    if kept >= bytes:
        return True
    values = tuple([v._replace(pinned=False) if v.pinned else v for v in problem.values])
    return ordering_model(replace(problem, values=values)).lower_bound() >= bytes


def starting_orders(problem: Problem) -> list[list[int]]:
    """The order with the smallest peak, the given one, and that one with short runs moved ahead.

    A given order tends to come back the way it went forth, which makes recomputation cheap; it
    goes first unless its peak is far higher.  Values that die soon when their readers run at once
    (slopes, in the updates of parameters) would otherwise be in the way of what is computed again.
    """
    best = best_order(problem, looks=SECOND, states=MOST_STATES)
    graph = ordering_model(problem)
    contracted = contract(graph, natural_order(graph))
    small = contracted.model
    found = pull_safe_steps(small, natural_order(small), small.lower_bound(), sys.maxsize)
    if found is None:
        return [best.sequence]
    given, peak = contracted.expand(found[0]), found[1]
    orders = [given, best.sequence] if peak <= NEAR * best.peak else [best.sequence, given]
    if len(small) <= LARGEST_SEARCHED:
        orders.append(contracted.expand(pull_safe_runs(small, found[0], peak)))
    return orders


def bottleneck(schedule: Schedule) -> list[LabelledBytes]:
    """The values that are alive where a schedule needs most, the largest first, and scratch."""
    if not schedule.sequence:
        return []
    position = schedule.live.index(schedule.peak)
    problem = schedule.problem
    found: list[tuple[int, int, Hashable]] = []
    for storage in schedule.alive(position):
        occupants = schedule.occupants[storage]
        value = max(occupants, key=lambda occupant: (occupant[1] <= position, occupant[1]))[0]
        found.append((-schedule.storages[storage].bytes, value, problem.values[value].label))
    step = problem.steps[schedule.sequence[position]]
    found.append((-step.scratch, -1, f"scratch of {step.label}"))
    return [(-size, label) for size, _, label in sorted(found, key=lambda n: n[:2]) if size]
