"""Groups taken apart where the planner would need more memory with them than without.

That two units may run as one is decided pair by pair, for any order or for a good one.  An order as
good as that of the nodes alone may still not be found once they are units.  So both are put into
order as the planner does.  Where the units need more, those that are there at the peak are taken
apart: those that run then, and those that make or read what is alive then.  This is repeated, and
in the end everything runs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from tawny.memory.model import model
from tawny.memory.order import Run, best_order
from tawny.rewrite.group_memory import Memory
from tawny.rewrite.group_places import ALIGNMENT, PLAIN
from tawny.rewrite.group_schedule import STATES, Item, Work, good_order
from tawny.rewrite.group_unit import Unit, Units

LARGEST: Final = 2000
"""More nodes are not put into an order: what is certain must do."""

SPARE: Final = 1 / 100
"""How much of the peak of the nodes alone may be added: a few small arrays."""

MOST_ROUNDS: Final = 4
"""After so many rounds everything runs alone."""


def relieved(units: Units, memory: Memory, items: list[Item]) -> list[Item]:
    """The items, with units taken apart until their peak is that of the nodes alone."""
    alone: list[Item] = [i for i, kind in enumerate(units.places.kind) if kind >= PLAIN]
    if len(alone) == len(items) or len(alone) > LARGEST:
        return items
    planned = _Planned(Work(units, memory, items))
    problem = Work(units, memory, alone).problem
    graph = model(problem, ALIGNMENT)
    if planned.peak <= graph.floor():
        return items
    most = int(good_order(problem, graph)[1] * (1 + SPARE))
    if planned.fits(most):
        return items
    for _ in range(MOST_ROUNDS):
        apart = planned.units_at_peak()
        if not apart:
            break
        items = [part for item in items for part in _parts(item, apart)]
        planned = _Planned(Work(units, memory, items))
        if planned.peak <= most:
            return items
    return alone


def _parts(item: Item, apart: set[Unit]) -> Sequence[Item]:
    """The members of a unit that is taken apart, in order; else the item."""
    return sorted(item.members) if isinstance(item, Unit) and item in apart else (item,)


class _Planned:
    """Items in a good order."""

    def __init__(self, work: Work) -> None:
        self._items, problem = work.written()
        self._model: Final = model(problem, ALIGNMENT)
        self._problem: Final = problem
        self._order, self.peak = good_order(problem, self._model)

    def fits(self, most: int) -> bool:
        """Whether an order within a peak is found, after a short search if need be."""
        if self.peak > most:
            found = best_order(self._problem, alignment=ALIGNMENT, seconds=inf, states=STATES)
            self._order, self.peak = found.sequence, found.peak
        return self.peak <= most

    def units_at_peak(self) -> set[Unit]:
        """The units of several nodes that run at the peak, or make or read what is alive then."""
        graph, at = self._model, self._peak_at()
        made = {c for step in self._order[: at + 1] for c in graph.outputs[step]}
        read = {c for step in self._order[at:] for c in graph.reads[step]}
        alive = {c for c in made & read if graph.size[c] > SPARE * self.peak}
        found = {self._order[at]}
        for step in range(len(graph)):
            if not alive.isdisjoint((*graph.reads[step], *graph.outputs[step])):
                found.add(step)
        units = [self._items[step] for step in found]
        return {u for u in units if isinstance(u, Unit) and len(u.members) > 1}

    def _peak_at(self) -> int:
        """The place in the order of the first step that needs most."""
        run, needs = Run(self._model), list[int]()
        for step in self._order:
            needs.append(run.live + run.need(step))
            run.step(step)
        return needs.index(max(needs))
