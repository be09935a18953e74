"""A good order of the units, and which of them may be united as long as it stays so.

Some units belong together though it is not certain that memory never grows: in a bad order of the
rest it would.  So the units are put into an order that the planner finds good, and one is delayed
to a reader, or a reader advanced, only where in this order no step then needs more than the peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.memory.effort import UNLIMITED, Effort
from tawny.memory.ordering.model import OrderingModel
from tawny.memory.ordering.portfolio import (
    Portfolio,
    StepOrder,
    best_order,
    bytes_by_step,
    depth_first_order,
)
from tawny.memory.problem import PlanStep, PlanValue, Problem
from tawny.rewrite.group_memory import Memory
from tawny.rewrite.group_places import ALIGNMENT
from tawny.rewrite.group_unit import Unit, Units

Item = Unit | int
"""A unit, or a node that runs alone."""

LARGEST: Final = 1000
"""More units are not put into an order: what is certain must do."""

SMALL: Final = 2**14
"""Nor are those of a flow whose largest array has fewer bytes: they fit into the nearest cache."""

FEW: Final = 48
"""So few units are put into the best order that a short search finds."""

STATES: Final = 300
"""The length of that search: the same on every machine."""

FARTHEST: Final = 256
"""Steps over which a unit is delayed where bytes are to be had."""


class Work:
    """Units and nodes that run alone as a problem for the planner."""

    def __init__(self, units: Units, memory: Memory, items: Sequence[Item]) -> None:
        self._places: Final = units.places
        self._memory: Final = memory
        self.items: Final = items
        self.made: Final = [self._results(item) for item in items]
        self.reads: Final = [self._owners(item) for item in items]
        """The owners of what each item reads."""
        self.problem: Final = self._problem(items)

    def written(self) -> tuple[list[Item], Problem]:
        """The items and the problem as they are once the units are nodes, written depth first."""
        steps = tuple([self._as_node(s) for s in range(len(self.items))])
        order = depth_first_order(Problem(self.problem.values, steps))
        problem = Problem(self.problem.values, tuple([steps[s] for s in order]))
        return [self.items[s] for s in order], problem

    def _as_node(self, s: int) -> PlanStep:
        """The step of an item; groups have operands in the order these are made."""
        item, step, reads = self.items[s], self.problem.steps[s], self.reads[s]
        if not isinstance(item, Unit) or len(item.members) == 1:
            return step
        places = sorted(range(len(reads)), key=reads.__getitem__)
        over = [(places.index(operand), result) for operand, result in step.overwrites]
        return PlanStep(tuple([step.inputs[p] for p in places]), step.outputs, tuple(over))

    def _results(self, item: Item) -> list[int]:
        return item.results if isinstance(item, Unit) else [item]

    def _owners(self, item: Item) -> list[int]:
        places = self._places
        values = item.inputs if isinstance(item, Unit) else places.sources[item]
        return list(dict.fromkeys([o for b in values if places.kind[o := places.owner[b]]]))

    def _problem(self, items: Sequence[Item]) -> Problem:
        places, number = self._places, dict[int, int]()
        values: list[PlanValue] = []
        for made in self.made:
            for r in made:
                number[r] = len(values)
                values.append(PlanValue(places.bytes[r], kept=places.kept[r]))
        steps: list[PlanStep] = []
        for item, made, reads in zip(items, self.made, self.reads, strict=True):
            over = [(reads.index(b), made.index(r)) for b, r in self._overwrites(item)]
            inputs, outputs = [number[o] for o in reads], [number[r] for r in made]
            steps.append(PlanStep(tuple(inputs), tuple(outputs), tuple(over)))
        return Problem(tuple(values), tuple(steps))

    def _overwrites(self, item: Item) -> list[tuple[int, int]]:
        """Pairs (operand, result): that result may be written over that operand."""
        if isinstance(item, Unit):
            return self._memory.overwrites((item,), item.results, item.inputs)
        places, node = self._places, self._places.order[item]
        if node.parts:
            return []
        sources, free, own = places.sources[item], self._memory.free, places.item[item]
        read = {sources[p] for p in places.overwritable(item)}
        return [(b, item) for b in read if free[b] == own]


class Schedule:
    """Units and nodes that run alone, in a good order, with the bytes that are alive."""

    def __init__(self, units: Units, memory: Memory, items: Sequence[Item]) -> None:
        self._units: Final = units
        self._places: Final = units.places
        self._memory: Final = memory
        work = Work(units, memory, items)
        graph, (order, self.peak, *_) = good_order(work.problem)
        self.items: Final = [items[s] for s in order]
        self.at: Final[dict[Item, int]] = {item: at for at, item in enumerate(self.items)}
        for item in self.items:
            if isinstance(item, Unit):
                item.at = self.at[item]
        self._read: dict[int, list[Item]] = {}
        """Who reads each owner's memory."""
        for item, reads in zip(items, work.reads, strict=True):
            for o in reads:
                self._read.setdefault(o, []).append(item)
        self._live: Final = bytes_by_step(graph, order)

    def may_wait(self, maker: Unit, reader: Unit) -> bool:
        """Whether `maker` may be delayed to `reader`; then it is taken to be."""
        places, cost = self._places, self._memory.cost
        start, stop = self.at[maker], self.at[reader]
        inside = 0
        results = reader.results
        for r in maker.results:
            others = [u for item in self._read.get(r, ()) if (u := _now(item)) is not maker]
            if any(u is not reader and self.at[u] < stop for u in others):
                return False
            if places.output[r] or any(u is not reader for u in others):
                results = [*results, r]
            elif r in reader.inputs:
                inside += places.bytes[r]
        for b in reader.inputs:
            if places.owner[b] != b and self._units.of[places.owner[b]] is maker:
                return False
        fresh: list[tuple[int, int]] = []
        for o in {places.owner[b] for b in maker.inputs if cost[b]}:
            last = max([self.at[_now(item)] for item in self._read[o]])
            if last < stop:
                fresh.append((last, cost[o]))
        more = sum([bytes for _, bytes in fresh])
        inputs = {*maker.inputs, *reader.inputs}.difference(maker.results)
        there = more - inside + self._memory.matched(reader.space, reader.results, reader.inputs)
        there -= self._memory.reused((maker, reader), results, inputs)
        if self._live[stop] + there > self.peak:
            return False
        added = self._added(start, stop, fresh, maker.made)
        if added is None:
            return False
        self._live[start:stop] = added
        self._live[stop] += there
        return True

    def _added(
        self, start: int, stop: int, fresh: Sequence[tuple[int, int]], made: int
    ) -> list[int] | None:
        """The bytes alive from `start` to `stop` once a unit waits; None if they are too many."""
        more = sum([bytes for _, bytes in fresh])
        if stop - start > FARTHEST:
            return None if more > made else self._live[start:stop]
        live = [bytes - made for bytes in self._live[start:stop]]
        for last, bytes in fresh:
            for t in range(max(last + 1, start), stop):
                live[t - start] += bytes
        return None if more > made and max(live, default=0) > self.peak else live

    def may_hurry(self, maker: Unit, reader: Unit) -> bool:
        """Whether `reader` may be advanced to `maker`; then it is taken to be."""
        places, of = self._places, self._units.of
        start, stop = self.at[maker], self.at[reader]
        for b in reader.inputs:
            o = places.owner[b]
            if not places.kind[o] or of[b] is maker:
                continue
            unit = of[o]
            if unit is maker or self.at[o if unit is None else unit] > start:
                return False
        results, gone = reader.results, 0
        for r in maker.results:
            if places.output[r] or self._units.read_by_others(r, (maker, reader)):
                results = [*results, r]
            else:
                gone += places.bytes[r]
        more = reader.made - gone
        dying = [b for b in maker.inputs if b not in reader.inputs]
        inputs = {*maker.inputs, *reader.inputs}.difference(maker.results)
        there = more + self._memory.matched(maker.space, maker.results, dying)
        there -= self._memory.reused((maker, reader), results, inputs)
        if stop - start > FARTHEST or self._live[start] + there > self.peak:
            return False
        live = [bytes + more for bytes in self._live[start + 1 : stop]]
        if more > 0 and max(live, default=0) > self.peak:
            return False
        self._live[start] += there
        self._live[start + 1 : stop] = live
        return True

    def is_kept_by(self, planned: Planned) -> bool:
        """Whether what the units have become is in an order as good as this one."""
        return planned.peak <= self.peak

    def moved(self, unit: Unit) -> None:
        """Note where a unit runs that two have become."""
        self.at[unit] = unit.at


class Planned:
    """Items in a good order, once the units are nodes."""

    def __init__(self, units: Units, memory: Memory, items: Sequence[Item]) -> None:
        self.items, self._problem = Work(units, memory, items).written()
        self.model, (self.order, self.peak, *_) = good_order(self._problem)

    def fits(self, most: int) -> bool:
        """Whether an order within a peak is found, after a short search if need be."""
        if self.peak > most:
            found = best_order(self._problem, alignment=ALIGNMENT, looks=UNLIMITED, states=STATES)
            self.order, self.peak = found.sequence, found.peak
        return self.peak <= most

    def fullest(self) -> list[int]:
        """The places in the order of the steps that need most."""
        needs = bytes_by_step(self.model, self.order)
        most = max(needs)
        return [at for at, need in enumerate(needs) if need == most]


def good_order(problem: Problem) -> tuple[OrderingModel, StepOrder]:
    """A problem as ordering sees it, and the best of the planner's orders that are found fast."""
    portfolio = Portfolio(problem, ALIGNMENT)
    return portfolio.model, found_fast(portfolio)[0]


def found_fast(portfolio: Portfolio) -> list[StepOrder]:
    """The orders of a portfolio that are found fast, by growing peak."""
    return portfolio.search(Effort(UNLIMITED if len(portfolio.model) <= FEW else 0), STATES)


def _now(item: Item) -> Item:
    """The unit that a unit has become a part of."""
    while isinstance(item, Unit) and item.into is not None:
        item = item.into
    return item
