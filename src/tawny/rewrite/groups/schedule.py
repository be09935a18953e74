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
from tawny.rewrite.groups.memory import MemoryCheck
from tawny.rewrite.groups.units import GroupUnit, UnitTable

Item = GroupUnit | int
"""A unit, or a node that runs alone."""

LARGEST: Final = 1000
"""Units of a flow, at most, that are put into an order.  It bounds the time to build."""

SMALL: Final = 2**14
"""Bytes of the largest array of a flow, at least, whose units are put into an order.

Smaller arrays fit into the nearest cache.
"""

FEW: Final = 48
"""Units, at most, that are put into the best order that a short search finds."""

STATES: Final = 300
"""States of that search, at most: a count, so that it is the same on every machine."""

FARTHEST: Final = 256
"""Steps, at most, over which a unit is delayed or advanced at the cost of bytes."""


class UnitProblem:
    """Units and nodes that run alone as a problem for the planner."""

    def __init__(self, units: UnitTable, memory: MemoryCheck, items: Sequence[Item]) -> None:
        self._tables: Final = units.tables
        self._memory: Final = memory
        self.items: Final = items
        self.made: Final = [self._results(item) for item in items]
        self.reads: Final = [self._owners(item) for item in items]
        """The owners of what each item reads."""
        self.problem: Final = self._problem(items)

    def as_nodes(self) -> tuple[list[Item], Problem]:
        """The items and the problem as they are once the units are nodes, in depth-first order."""
        steps = tuple([self._as_node(s) for s in range(len(self.items))])
        order = depth_first_order(Problem(self.problem.values, steps))
        problem = Problem(self.problem.values, tuple([steps[s] for s in order]))
        return [self.items[s] for s in order], problem

    def _as_node(self, s: int) -> PlanStep:
        """The step of an item; groups have operands in the order these are made."""
        item, step, reads = self.items[s], self.problem.steps[s], self.reads[s]
        if not isinstance(item, GroupUnit) or len(item.members) == 1:
            return step
        order = sorted(range(len(reads)), key=reads.__getitem__)
        over = [(order.index(operand), result) for operand, result in step.overwrites]
        return PlanStep(tuple([step.inputs[p] for p in order]), step.outputs, tuple(over))

    def _results(self, item: Item) -> list[int]:
        return item.results if isinstance(item, GroupUnit) else [item]

    def _owners(self, item: Item) -> list[int]:
        tables = self._tables
        values = item.inputs if isinstance(item, GroupUnit) else tables.sources[item]
        return list(dict.fromkeys([o for b in values if tables.kind[o := tables.owner[b]]]))

    def _problem(self, items: Sequence[Item]) -> Problem:
        tables, number = self._tables, dict[int, int]()
        values: list[PlanValue] = []
        for made in self.made:
            for r in made:
                number[r] = len(values)
                values.append(PlanValue(tables.bytes[r], kept=tables.kept[r]))
        steps: list[PlanStep] = []
        for item, made, reads in zip(items, self.made, self.reads, strict=True):
            over = [(reads.index(b), made.index(r)) for b, r in self._overwrites(item)]
            inputs, outputs = [number[o] for o in reads], [number[r] for r in made]
            steps.append(PlanStep(tuple(inputs), tuple(outputs), tuple(over)))
        return Problem(tuple(values), tuple(steps))

    def _overwrites(self, item: Item) -> list[tuple[int, int]]:
        """Pairs (operand, result): that result may be written over that operand."""
        if isinstance(item, GroupUnit):
            return self._memory.overwrites((item,), item.results, item.inputs)
        tables, node = self._tables, self._tables.order[item]
        if node.parts:
            return []
        sources, free, own = tables.sources[item], self._memory.free, tables.item[item]
        read = {sources[p] for p in tables.overwritable(item)}
        return [(b, item) for b in read if free[b] == own]


class UnitSchedule:
    """Units and nodes that run alone, in a good order, with the bytes that are alive."""

    def __init__(self, units: UnitTable, memory: MemoryCheck, items: Sequence[Item]) -> None:
        self._units: Final = units
        self._tables: Final = units.tables
        self._memory: Final = memory
        work = UnitProblem(units, memory, items)
        graph, (order, self.peak, *_) = good_order(work.problem)
        self.items: Final = [items[s] for s in order]
        self.at: Final[dict[Item, int]] = {item: at for at, item in enumerate(self.items)}
        for item in self.items:
            if isinstance(item, GroupUnit):
                item.position = self.at[item]
        self._read: dict[int, list[Item]] = {}
        """Who reads each owner's memory."""
        for item, reads in zip(items, work.reads, strict=True):
            for o in reads:
                self._read.setdefault(o, []).append(item)
        self._live: Final = bytes_by_step(graph, order)

    def may_wait(self, maker: GroupUnit, reader: GroupUnit) -> bool:
        """Whether `maker` may be delayed to `reader`; if it may, it is noted."""
        tables, cost = self._tables, self._memory.cost
        start, stop = self.at[maker], self.at[reader]
        inside = 0
        results = reader.results
        for r in maker.results:
            others = [u for item in self._read.get(r, ()) if (u := _current(item)) is not maker]
            if any(u is not reader and self.at[u] < stop for u in others):
                return False
            if tables.output[r] or any(u is not reader for u in others):
                results = [*results, r]
            elif r in reader.inputs:
                inside += tables.bytes[r]
        for b in reader.inputs:
            if tables.owner[b] != b and self._units.of[tables.owner[b]] is maker:
                return False
        fresh: list[tuple[int, int]] = []
        for o in {tables.owner[b] for b in maker.inputs if cost[b]}:
            last = max([self.at[_current(item)] for item in self._read[o]])
            if last < stop:
                fresh.append((last, cost[o]))
        more = sum([bytes for _, bytes in fresh])
        inputs = {*maker.inputs, *reader.inputs}.difference(maker.results)
        there = (
            more - inside + self._memory.matched_bytes(reader.space, reader.results, reader.inputs)
        )
        there -= self._memory.reused_bytes((maker, reader), results, inputs)
        if self._live[stop] + there > self.peak:
            return False
        added = self._live_while_waiting(start, stop, fresh, maker.result_bytes)
        if added is None:
            return False
        self._live[start:stop] = added
        self._live[stop] += there
        return True

    def _live_while_waiting(
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

    def may_advance(self, maker: GroupUnit, reader: GroupUnit) -> bool:
        """Whether `reader` may be advanced to `maker`; if it may, it is noted."""
        tables, of = self._tables, self._units.of
        start, stop = self.at[maker], self.at[reader]
        for b in reader.inputs:
            o = tables.owner[b]
            if not tables.kind[o] or of[b] is maker:
                continue
            unit = of[o]
            if unit is maker or self.at[o if unit is None else unit] > start:
                return False
        results, gone = reader.results, 0
        for r in maker.results:
            if tables.output[r] or self._units.is_read_by_others(r, (maker, reader)):
                results = [*results, r]
            else:
                gone += tables.bytes[r]
        more = reader.result_bytes - gone
        dying = [b for b in maker.inputs if b not in reader.inputs]
        inputs = {*maker.inputs, *reader.inputs}.difference(maker.results)
        there = more + self._memory.matched_bytes(maker.space, maker.results, dying)
        there -= self._memory.reused_bytes((maker, reader), results, inputs)
        if stop - start > FARTHEST or self._live[start] + there > self.peak:
            return False
        live = [bytes + more for bytes in self._live[start + 1 : stop]]
        if more > 0 and max(live, default=0) > self.peak:
            return False
        self._live[start] += there
        self._live[start + 1 : stop] = live
        return True

    def is_matched_by(self, planned: PlannedUnits) -> bool:
        """Whether what the units have become is in an order as good as this one."""
        return planned.peak <= self.peak

    def note_move(self, unit: GroupUnit) -> None:
        """Note where a unit runs that two have become."""
        self.at[unit] = unit.position


class PlannedUnits:
    """Items in a good order, once the units are nodes."""

    def __init__(self, units: UnitTable, memory: MemoryCheck, items: Sequence[Item]) -> None:
        self.items, self._problem = UnitProblem(units, memory, items).as_nodes()
        self.model, (self.order, self.peak, *_) = good_order(self._problem)

    def fits(self, most: int) -> bool:
        """Whether an order within a peak is found, after a short search if need be."""
        if self.peak > most:
            found = best_order(self._problem, looks=UNLIMITED, states=STATES)
            self.order, self.peak = found.sequence, found.peak
        return self.peak <= most

    def fullest(self) -> list[int]:
        """The places in the order of the steps that need most."""
        needs = bytes_by_step(self.model, self.order)
        most = max(needs)
        return [at for at, need in enumerate(needs) if need == most]


def good_order(problem: Problem) -> tuple[OrderingModel, StepOrder]:
    """A problem as ordering sees it, and the best of the planner's orders that are found fast."""
    portfolio = Portfolio(problem)
    return portfolio.model, quick_orders(portfolio)[0]


def quick_orders(portfolio: Portfolio) -> list[StepOrder]:
    """The orders of a portfolio that are found fast, by growing peak."""
    return portfolio.search(Effort(UNLIMITED if len(portfolio.model) <= FEW else 0), STATES)


def _current(item: Item) -> Item:
    """The unit that a unit has become a part of."""
    while isinstance(item, GroupUnit) and item.merged_into is not None:
        item = item.merged_into
    return item
