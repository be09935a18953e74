"""The plan: order, in-place writing and offsets of a problem in one immutable result."""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.lazy import cached_property
from tawny.memory.blocks import BlockOrigin, Blocks, allocate_blocks
from tawny.memory.effort import SECOND, Effort
from tawny.memory.inplace import Refusal, declared_refusal
from tawny.memory.lru import LRUCache
from tawny.memory.ordering.portfolio import OrderHeuristic, Portfolio, depth_first_order
from tawny.memory.placement.place import Placement, basic_looks, place
from tawny.memory.problem import Problem
from tawny.memory.schedule import (
    RESIDENT,
    InPlacePairs,
    InstanceLifetimes,
    Schedule,
    Storage,
    instance_lifetimes,
    live_bytes,
    schedule,
)

ORDERING_SHARE = 0.5
"""The share of the looks that the search for a better order gets; chosen by hand: half each."""
LEAST_LOOKS, LOOKS_PER_STEP = 24_000, 20
"""Looks that a plan may take: in any case, and for each step besides.  About 24 ms and 20 us a
step: a plan is a small part of a build."""
PORTFOLIO_LOOKS_PER_STEP = 20
"""Looks that the orders of the portfolio count as for each step."""
HARD_LOOKS = 60 * SECOND
"""Looks that a plan may take if it is to be as tight as can be: about a minute."""
MOST_STATES = 1_000_000
"""States of the search for an order, at most, if a plan is to be as tight as can be."""
LARGEST_SEARCHED = 1200
"""Steps above which no order is searched for in an ordinary plan: its looks find none."""


@dataclass(frozen=True)
class ArenaLayout:
    """The places of all values of a schedule in one arena."""

    schedule: Schedule
    placement: Placement
    """The offsets of the schedule's storages, then of its scratches."""

    @property
    def problem(self) -> Problem:
        """What is planned."""
        return self.schedule.problem

    @property
    def sequence(self) -> tuple[int, ...]:
        """The steps in the order they run."""
        return self.schedule.sequence

    @property
    def arena(self) -> int:
        """Bytes of the arena: all that a run needs beside its resident values."""
        return self.placement.arena

    @property
    def bound(self) -> int:
        """Bytes that no arena for this schedule can go below, each value rounded up."""
        return self.placement.bound

    @cached_property
    def unshared_bytes(self) -> int:
        """Bytes that the run would need if every value had memory of its own."""
        problem = self.problem
        made = [
            problem.values[v].bytes
            for step in problem.steps
            for v in step.outputs
            if problem.values[v].view_of is None
        ]
        scratch = [step.scratch for step in problem.steps]
        return sum(map(problem.round_up, [*made, *scratch]))

    @cached_property
    def placed_storages(self) -> tuple[tuple[Storage, int], ...]:
        """Every storage and scratch, rounded up, with its offset."""
        everything = [*self.schedule.storages, *self.schedule.scratches]
        round_up = self.problem.round_up
        return tuple(
            (Storage(round_up(size), birth, death), offset)
            for (size, birth, death), offset in zip(everything, self.placement.offsets, strict=True)
        )

    @cached_property
    def live(self) -> tuple[int, ...]:
        """At each position the bytes in use, rounded up."""
        return live_bytes(len(self.sequence), [storage for storage, _ in self.placed_storages])

    @cached_property
    def high_water(self) -> tuple[int, ...]:
        """At each position where the highest bytes in use end: live bytes and the holes below."""
        tops = [0] * len(self.sequence)
        following = list(range(len(tops) + 1))
        for (size, birth, death), offset in sorted(
            self.placed_storages, key=lambda item: item[0].bytes + item[1], reverse=True
        ):
            position = birth
            while position < death:
                if following[position] == position:
                    tops[position] = offset + size
                    following[position] = position + 1
                following[position] = position = following[following[position]]
        return tuple(tops)

    @cached_property
    def offsets(self) -> tuple[int | None, ...]:
        """For each value its first byte in the arena when it was last made; None outside it."""
        places = self.placement.offsets
        return tuple([None if s == RESIDENT else places[s] for s in self.schedule.final_storages])

    def writes(self, position: int) -> tuple[int | None, ...]:
        """The first byte of each output of the step at `position`."""
        places = self.placement.offsets
        return tuple(None if s == RESIDENT else places[s] for s in self.schedule.writes[position])

    def reads(self, position: int) -> tuple[int | None, ...]:
        """The first byte of each input of the step at `position`; None outside the arena."""
        places = self.placement.offsets
        return tuple(None if s == RESIDENT else places[s] for s in self.schedule.reads[position])

    @cached_property
    def scratch(self) -> dict[int, int]:
        """The first byte of the scratch memory, for each position that has some."""
        places = self.placement.offsets[len(self.schedule.storages) :]
        scratches = self.schedule.scratches
        return {s.birth: offset for s, offset in zip(scratches, places, strict=True)}

    def sharers(self, value: int) -> tuple[int, ...]:
        """The other values that use some of the bytes of `value` at some time."""
        places, storages, occupants = (
            self.placement.offsets,
            self.schedule.storages,
            self.schedule.occupants,
        )
        found: set[int] = set()
        for mine in self._storages_of.get(value, ()):
            low, high = places[mine], places[mine] + storages[mine].bytes
            for s, who in enumerate(occupants):
                if places[s] < high and low < places[s] + storages[s].bytes:
                    found.update(v for v, _ in who)
        return tuple(sorted(found - {value}))

    def overwrites(self, value: int) -> int | None:
        """The value that `value` was written over when it was last made; None if over none."""
        position, o = self._last_making(value)
        if position < 0:
            return None
        step = self.problem.steps[self.sequence[position]]
        taken = {output: step.inputs[i] for i, output in self.schedule.in_place_pairs[position]}
        return taken.get(o)

    def refusals(self, value: int) -> tuple[tuple[int, Refusal], ...]:
        """For each operand of the step that last made `value` why it was not overwritten.

        Pairs of the operand's position and the reason; the operand that was overwritten is left
        out.
        """
        position, o = self._last_making(value)
        if position < 0:
            return ()
        step = self.problem.steps[self.sequence[position]]
        pairs = dict(self.schedule.in_place_pairs[position])
        read = self._instances.reads[position]
        taken = {read[i]: output for i, output in pairs.items()}
        result: list[tuple[int, Refusal]] = []
        for i in range(len(step.inputs)):
            if taken.get(read[i]) == o and read[i] != RESIDENT:
                continue
            refusal = declared_refusal(self.problem, step, i, o)
            if refusal is None and self._instances.last[read[i]] != position:
                refusal = Refusal.READ_LATER
            if refusal is None:
                refusal = Refusal.TAKEN if read[i] in taken else Refusal.CHOSEN
            result.append((i, refusal))
        return tuple(result)

    @cached_property
    def _storages_of(self) -> dict[int, set[int]]:
        """For each value the storages that ever hold it."""
        homes: dict[int, set[int]] = {}
        for storage, occupants in enumerate(self.schedule.occupants):
            for value, _ in occupants:
                homes.setdefault(value, set()).add(storage)
        return homes

    @cached_property
    def _instances(self) -> InstanceLifetimes:
        """Which instances are read where, and when last."""
        return instance_lifetimes(self.problem, self.sequence)

    @cached_property
    def _last_makings(self) -> dict[int, tuple[int, int]]:
        """For each value where it was last made: position and output."""
        steps = self.problem.steps
        return {
            v: (position, o)
            for position, s in enumerate(self.sequence)
            for o, v in enumerate(steps[s].outputs)
        }

    def _last_making(self, value: int) -> tuple[int, int]:
        return self._last_makings.get(value, (-1, -1))

    def for_problem(self, problem: Problem) -> ArenaLayout:
        """The layout for another problem of the same structure."""
        return replace(self, schedule=replace(self.schedule, problem=problem))


ENTRY_WEIGHT: Final = 100
"""The weight of a remembered plan beside its steps, in steps: what it takes however few it has."""
PLANS: Final = LRUCache[ArenaLayout](capacity=60_000)
"""Layouts by the structure of their problem and how they were planned; they weigh their steps."""
NONE_BELOW: Final = LRUCache[bool](capacity=256)
"""Structures of problems for which no layout below some bytes was found, with these."""
EMPTY_PROBLEM: Final = Problem((), ())
"""Stands for the problem of a layout that is remembered without it."""


def plan(
    problem: Problem,
    *,
    order: Sequence[int] | None = None,
    looks: int | None = None,
    hard: bool = False,
) -> ArenaLayout:
    """Order, in-place writing and offsets; `order` fixes the first (and may repeat steps).

    `looks` limit the searches that go beyond near-linear methods; `hard` allows more by default,
    and tries to meet the lower bound with all of it.  A problem of the same structure as one
    planned not long ago is given the same layout at once.
    """
    fixed = None if order is None else tuple(order)
    key = problem.structure, fixed, looks, hard
    known = PLANS.get(key)
    if known is not None:
        return known.for_problem(problem)
    made = compute_plan(problem, fixed, looks, hard)
    if made is None:
        raise MemoryError("plan: what is alive at once has 2**63 bytes or more")
    PLANS.put(key, made.for_problem(EMPTY_PROBLEM), len(made.sequence) + ENTRY_WEIGHT)
    return made


def replan(layout: ArenaLayout, problem: Problem) -> ArenaLayout:
    """The decisions of a layout, placed anew for a problem that differs in scratch memory alone.

    The order, what is computed again and what is written in place stay; where no step needs more
    than before, so does the arena, at most.
    """
    before = layout.schedule
    if problem is before.problem:
        return layout
    key = problem.structure, before.sequence, before.in_place_pairs
    known = PLANS.get(key)
    if known is not None:
        return known.for_problem(problem)
    found = replace(before, problem=problem)
    looks = LEAST_LOOKS + LOOKS_PER_STEP * len(found.sequence)
    made = lay_out(found, looks)
    if made.arena > layout.arena:
        made = smaller_layout(made, _place_scratch(layout, found, made.bound))
    PLANS.put(key, made.for_problem(EMPTY_PROBLEM), len(made.sequence) + ENTRY_WEIGHT)
    return made


def _place_scratch(layout: ArenaLayout, found: Schedule, bound: int) -> ArenaLayout:
    """All storages where they are, and scratch memory in the lowest gap between those alive."""
    storages, round_up = found.storages, found.problem.round_up
    offsets = list(layout.placement.offsets[: len(storages)])
    sizes = [round_up(storage.bytes) for storage in storages]
    events = sorted(
        [
            (time, begins, s)
            for s, (size, birth, death) in enumerate(storages)
            if size and birth < death
            for time, begins in ((birth, 1), (death, 0))
        ]
    )
    alive, done = list[tuple[int, int]](), 0
    for size, position, _ in found.scratches:
        while done < len(events) and events[done][0] <= position:
            _, begins, s = events[done]
            piece = offsets[s], offsets[s] + sizes[s]
            if begins:
                insort(alive, piece)
            else:
                alive.remove(piece)
            done += 1
        offsets.append(_lowest_gap(alive, round_up(size)))
    whole = sizes + [round_up(scratch.bytes) for scratch in found.scratches]
    arena = max(map(int.__add__, offsets, whole), default=0)
    return ArenaLayout(found, Placement(tuple(offsets), arena, bound))


def _lowest_gap(pieces: Sequence[tuple[int, int]], size: int) -> int:
    """The lowest offset at which `size` bytes are free, between pieces in order."""
    end = 0
    for first, last in pieces:
        if first - end >= size:
            break
        end = max(end, last)
    return end


def plan_below(problem: Problem, bytes: int, *, hard: bool = False) -> ArenaLayout | None:
    """A layout with an arena below `bytes`, if one is found; what needs more is given up early.

    It is not always that of `plan`, which gives up other orders; so the two are remembered apart.
    """
    key = problem.structure, hard, bytes
    known = PLANS.get(key)
    if known is not None:
        return known.for_problem(problem)
    if NONE_BELOW.get(key):
        return None
    # where values have their places all the time, a peak is no lower bound of the arena
    most = sys.maxsize if problem.pinned_roots else bytes - 1
    made = compute_plan(problem, None, None, hard, most)
    if made is None or made.arena >= bytes:
        NONE_BELOW.put(key, result=True, weight=1)
        return None
    PLANS.put(key, made.for_problem(EMPTY_PROBLEM), len(made.sequence) + ENTRY_WEIGHT)
    return made


def compute_plan(
    problem: Problem,
    order: Sequence[int] | None,
    looks: int | None,
    hard: bool,
    most: int = sys.maxsize,
) -> ArenaLayout | None:
    """The layout that `plan` gives, computed; none if all orders need more than `most`."""
    steps = len(problem.steps)
    if looks is None:
        looks = HARD_LOOKS if hard else LEAST_LOOKS + LOOKS_PER_STEP * steps
    if order is not None:
        return lay_out(schedule(problem, order), looks)
    ordering = Effort(int(looks * ORDERING_SHARE) if hard or steps <= LARGEST_SEARCHED else 0)
    effort = Effort(looks - PORTFOLIO_LOOKS_PER_STEP * steps - ordering.left)
    portfolio = Portfolio(problem, most)
    found = portfolio.search(ordering, MOST_STATES if hard else 50_000)
    if not found:
        return None
    effort.spend(-ordering.left)
    first = best = lay_out(schedule(problem, found[0].sequence))
    if best.arena > found[0].peak:
        found += portfolio.rest()
    for other in found[1:]:
        if found[0].peak < best.arena >= other.peak and 2 * effort.left >= basic_looks(steps):
            effort.spend(basic_looks(steps))
            best = smaller_layout(best, lay_out(schedule(problem, other.sequence)))
    if best.arena > found[0].peak and not effort.is_over:
        best = smaller_layout(best, lay_out(first.schedule, effort.left, first.placement))
    for report in [order for order in found if order.heuristic is OrderHeuristic.REPORT]:
        if report.peak < best.arena > best.bound:
            blocks = allocate_blocks(problem, report.sequence)
            if sum(map(problem.round_up, blocks.sizes)) < best.arena:
                return layout_of_blocks(blocks)
    return best


def plan_as_in_report(problem: Problem) -> ArenaLayout:
    """The layout of the report's pipeline: depth first, blocks by Algorithm 1."""
    return layout_of_blocks(allocate_blocks(problem, depth_first_order(problem)))


def smaller_layout(one: ArenaLayout, other: ArenaLayout) -> ArenaLayout:
    """The layout with the smaller arena; if equal, with the larger bound, which it is nearer."""
    return min(one, other, key=lambda layout: (layout.arena, -layout.bound))


def lay_out(found: Schedule, looks: int = 0, known: Placement | None = None) -> ArenaLayout:
    """The layout of a schedule; `looks` are for searches beyond the basics."""
    storages = [*found.storages, *found.scratches]
    placement = place(storages, alignment=found.problem.alignment, looks=looks, known=known)
    return ArenaLayout(found, placement)


def layout_of_blocks(blocks: Blocks) -> ArenaLayout:
    """The layout with the report's blocks one after the other."""
    problem, starts = blocks.problem, [0]
    for size in blocks.sizes:
        starts.append(starts[-1] + problem.round_up(size))
    over = {c.value: c.block for c in blocks.history if c.origin is BlockOrigin.IN_PLACE}
    in_place_pairs: list[InPlacePairs] = []
    for step in map(problem.steps.__getitem__, blocks.order):
        pairs = {
            step.outputs[o]: (i, o)
            for i, o in step.overwrites
            if over.get(step.outputs[o]) == blocks.block_of[step.inputs[i]]
            and declared_refusal(problem, step, i, o) is None
        }
        in_place_pairs.append(tuple(pairs.values()))
    found = schedule(problem, blocks.order, in_place_pairs=in_place_pairs)
    homes = [blocks.block_of[occupants[0][0]] for occupants in found.occupants]
    homes += [choice.block for choice in blocks.history if choice.value is None]
    offsets = tuple([0 if block is None else starts[block] for block in homes])
    layout = ArenaLayout(found, Placement(offsets, starts[-1], 0))
    bound = max(layout.live, default=0)
    return ArenaLayout(found, Placement(offsets, starts[-1], bound))
