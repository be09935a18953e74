"""A budget of bytes: parse it, and find the cheapest schedule whose arena stays within it."""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Sequence
from decimal import Decimal
from math import inf
from operator import index

from tawny.memory.model import model
from tawny.memory.order import NEAR, best_order, eager, natural
from tawny.memory.plan import Layout
from tawny.memory.problem import Problem
from tawny.memory.remat_search import Search
from tawny.memory.schedule import Schedule

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
STATES = 2000
"""How far the order with the smallest peak is searched for; counted, so it is always the same."""
PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(text: str | int) -> int:
    """A number of bytes: an int, or a number and a unit such as "512MB" or "1.5 GiB"."""
    if isinstance(text, str):
        found = PATTERN.fullmatch(text)
        if found is None or found[2].lower() not in UNITS:
            raise ValueError(
                f"memory: {text!r} is no number of bytes; write a number and one of B, kB, MB, GB, "
                "TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)"
            )
        return int(Decimal(found[1]) * UNITS[found[2].lower()])
    try:
        bytes = index(text)
    except TypeError:
        raise TypeError(
            f"memory: a budget is an int (bytes) or a str such as '512MB', got {text!r}"
        ) from None
    if bytes < 0:
        raise ValueError(f"memory: a budget is not negative, got {bytes} bytes")
    return bytes


MOST_LISTED = 5
"""Values named in an error."""


class MemoryBudgetError(MemoryError):
    """No schedule was found whose arena is within the budget."""

    def __init__(self, budget: int, least_bytes: int, alive: tuple[Hashable, ...]) -> None:
        listed = ", ".join(map(str, alive[:MOST_LISTED]))
        more = f" and {len(alive) - MOST_LISTED} more" if len(alive) > MOST_LISTED else ""
        super().__init__(
            f"memory: {budget} bytes are too few; the least that was planned is {least_bytes} "
            f"bytes, when these are alive: {listed or 'none'}{more}"
        )
        self.budget = budget
        self.least_bytes = least_bytes
        """The least arena that was planned: this budget can be met."""
        self.alive = alive
        """The labels of the values that are alive where that plan needs most."""


class Budget:
    """The layouts of one problem by budget; what was found for one budget serves the others."""

    def __init__(
        self,
        problem: Problem,
        orders: Sequence[Sequence[int]] | None = None,
        *,
        alignment: int = 64,
        seconds: float = 2.0,
    ) -> None:
        """`seconds` says how much work to put into each budget, not how long that takes."""
        orders = good_orders(problem, alignment) if orders is None else orders
        self.search = Search(problem, orders, alignment, seconds)

    def within(self, budget: str | int) -> Layout:
        """The cheapest layout found, by the seconds of its steps, that is within the budget."""
        bytes = parse_bytes(budget)
        found = self.search.within(bytes)
        if found is None:
            least = self.search.least()
            raise MemoryBudgetError(bytes, least.arena, bottleneck(least.schedule))
        return found


def good_orders(problem: Problem, alignment: int = 64) -> list[list[int]]:
    """The order with the smallest peak, and the given one where it needs hardly more.

    A given order tends to come back the way it went forth, which makes recomputation cheap; it
    goes first unless its peak is far higher.
    """
    best = best_order(problem, alignment=alignment, seconds=inf, states=STATES)
    graph = model(problem, alignment)
    found = eager(graph, natural(graph), graph.floor(), sys.maxsize)
    if found is None:
        return [best.sequence]
    given, peak = found
    return [given, best.sequence] if peak <= NEAR * best.peak else [best.sequence, given]


def bottleneck(schedule: Schedule) -> tuple[Hashable, ...]:
    """The labels of the values that are alive where a schedule needs most, the largest first."""
    if not schedule.sequence:
        return ()
    position = schedule.live.index(schedule.peak)
    values = schedule.problem.values
    tenants = [
        max(
            schedule.tenants[storage],
            key=lambda tenant: (tenant[1] <= position, tenant[1] * (tenant[1] <= position)),
        )[0]
        for storage in schedule.alive(position)
    ]
    return tuple(values[v].label for v in sorted(tenants, key=lambda v: (-values[v].bytes, v)))
