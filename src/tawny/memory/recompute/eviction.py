"""Eviction: run an order inside a limit of bytes, dropping values and making them again.

An `EvictionSimulation` walks an order once.  When the next step does not fit it drops the value
with the least score; when a step reads a dropped value, what made it runs again.  The outcome is a
sequence of steps with repetitions: what it occupies is for `schedule` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from tawny.memory.recompute.tables import RecomputeTables

NEVER = 1 << 60
"""A position after every other."""

MOST_FOLLOWED = 160
"""Values that the cost of one is followed to, at most: it bounds the time of a score."""


class EvictionScore(NamedTuple):
    """The score of keeping a value: `cost / (bytes**size * clock**time)`; the least goes."""

    time: float = 1.0
    size: float = 1.0
    descendants: bool = False
    """Whether the cost counts the dropped values that are made from this one."""
    ahead: bool = True
    """Whether the clock is the time to the next use, or the time since the last one."""
    foresee: bool = True
    """Whether the cost counts operands that will be gone by the next use."""


class InfeasibleError(Exception):
    """The order cannot be run inside the limit this way, or only too slowly."""


class UseTimes(NamedTuple):
    """An order, and when it uses each root."""

    order: tuple[int, ...]
    uses: tuple[tuple[int, ...], ...]
    """For each root the positions that read it."""
    clock: tuple[float, ...]
    """For each position the seconds before it; one more for the end."""


def use_times(tables: RecomputeTables, order: Sequence[int]) -> UseTimes:
    """The positions and times at which an order uses each root."""
    uses: list[list[int]] = [[] for _ in tables.sizes]
    clock = [0.0]
    for position, s in enumerate(order):
        for r in tables.reads[s]:
            uses[r].append(position)
        clock.append(clock[-1] + tables.seconds[s])
    return UseTimes(tuple(order), tuple(map(tuple, uses)), tuple(clock))


class EvictionSimulation:
    """The state of one walk."""

    def __init__(
        self,
        tables: RecomputeTables,
        times: UseTimes,
        limit: int,
        score: EvictionScore,
        *,
        most_seconds: float = inf,
        most_work: float = inf,
    ) -> None:
        count = len(tables.sizes)
        self.tables, self.times, self.limit, self.score = tables, times, limit, score
        self.most_seconds, self.most_work = most_seconds, most_work
        self.exists = [maker is None for maker in tables.makers]
        self.alive: dict[int, None] = {}
        self.live = tables.pinned_bytes
        self.locks = [0] * count
        self.wanted = [0] * count
        self.pointer = [0] * count
        self.next = [uses[0] if uses else NEVER for uses in times.uses]
        self.last = [uses[-1] if uses else -1 for uses in times.uses]
        self.touched = [0.0] * count
        self.made = [False] * count
        self.cost = [-1.0] * count
        self.watchers: list[list[int]] = [[] for _ in range(count)]
        self.weight = [max(size, 1) ** score.size for size in tables.sizes]
        self.dropped_anchors = 0
        self.bit = dict(tables.anchor_bits)
        self.held_for = dict.fromkeys(self.bit, 0)
        self.position = 0
        self.now = 0.0
        self.tick = times.clock[-1] / max(len(times.order), 1) or 1.0
        self.sequence: list[int] = []
        self.work = 0
        self.ended = bytearray(len(tables.after))
        """The steps that must not run any more."""

    def run(self) -> list[int]:
        """Walk the order: the sequence that runs it within the limit, or `InfeasibleError`."""
        tables, uses, pointer = self.tables, self.times.uses, self.pointer
        for position, s in enumerate(self.times.order):
            self.position = position
            self.make_ready(s)
            for r in tables.reads[s]:
                at = pointer[r] = pointer[r] + 1
                row = uses[r]
                self.next[r] = row[at] if at < len(row) else NEVER
                self.cost[r] = -1.0
            self.execute(s)
        return self.sequence

    def make_ready(self, s: int) -> None:
        """Make again what `s` reads and is gone, and lock all that `s` reads."""
        tables, exists = self.tables, self.exists
        if all(exists[v] for v in tables.needs[s]):
            for r in tables.reads[s]:
                self.locks[r] += 1
            return
        wants = self.closure(s)
        for r in wants:
            self.wanted[r] += 1
        stack = [s]
        self.lock_present(s)
        while stack:
            top = stack[-1]
            missing = next((v for v in tables.needs[top] if not exists[v]), None)
            if missing is not None:
                maker = tables.makers[missing]
                if maker is None or not tables.repeatable[maker] or self.ended[maker]:
                    raise InfeasibleError
                stack.append(maker)
                self.lock_present(maker)
                continue
            stack.pop()
            if not stack:
                break
            below = stack[-1]
            self.execute(top, below)
            if self.now > self.most_seconds or self.work > self.most_work:
                raise InfeasibleError
        for r in wants:
            self.wanted[r] -= 1
            self.release(r)

    def closure(self, s: int) -> list[int]:
        """The roots read by the steps that have to run before `s` can, once for each."""
        tables, exists = self.tables, self.exists
        seen, stack, wants = {s}, [s], list[int]()
        while stack:
            for v in tables.needs[stack.pop()]:
                maker = tables.makers[v]
                if not exists[v] and maker is not None and maker not in seen:
                    seen.add(maker)
                    stack.append(maker)
                    wants.extend(tables.reads[maker])
        self.work += len(wants)
        return wants

    def lock_present(self, s: int) -> None:
        """Lock what `s` reads and exists."""
        for r in self.tables.reads[s]:
            if r in self.alive:
                self.locks[r] += 1

    def execute(self, s: int, parent: int | None = None) -> None:
        """Run `s`, whose operands exist and are locked, and let go what nothing needs any more."""
        tables, alive = self.tables, self.alive
        self.free_bytes_for(s)
        self.sequence.append(s)
        for before in tables.after[s]:
            self.ended[before] = True
        self.work += 3
        self.now += tables.seconds[s]
        fresh: list[int] = []
        for r in tables.writes[s]:
            if r not in alive:
                alive[r] = None
                self.live += tables.sizes[r]
                fresh.append(r)
            for v in tables.views[r]:
                self.exists[v] = False
            self.touched[r] = self.now
            self.made[r] = True
        for v in tables.makes[s]:
            self.exists[v] = True
        for r in fresh:
            self.forget_costs(r)
            if self.held_for and self.next[r] != NEVER:
                self.hold(r, -1)
        if parent is not None:
            for r in tables.reads[parent]:
                if r in fresh:
                    self.locks[r] += 1
        for r in tables.reads[s]:
            self.locks[r] -= 1
            self.touched[r] = self.now
            self.release(r)
        for r in fresh:
            self.release(r)

    def release(self, r: int) -> None:
        """Let `r` go if nothing needs it."""
        if (
            self.next[r] == NEVER
            and not self.locks[r]
            and not self.wanted[r]
            and r in self.alive
            and r not in self.tables.kept
            and not (r in self.bit and self.is_anchor(r))
        ):
            self.remove(r)

    def is_anchor(self, r: int) -> bool:
        """Whether a value that is used later could only be made again from `r`."""
        bit = self.bit[r]
        return self.held_for[r] > 0 or any(
            anchors & bit and self.next[x] != NEVER for x, anchors in enumerate(self.tables.anchors)
        )

    def hold(self, r: int, change: int) -> None:
        """Count `r` as one more (or less) value that is gone and used later."""
        for anchor, bit in self.bit.items():
            if self.tables.anchors[r] & bit:
                self.held_for[anchor] += change

    def remove(self, r: int) -> None:
        """Drop `r` and its views."""
        del self.alive[r]
        self.live -= self.tables.sizes[r]
        self.exists[r] = False
        for v in self.tables.views[r]:
            self.exists[v] = False
        self.forget_costs(r)
        if r in self.bit:
            self.dropped_anchors |= self.bit[r]
        elif self.held_for and self.next[r] != NEVER:
            self.hold(r, 1)

    def forget_costs(self, r: int) -> None:
        """Forget the costs that depend on whether `r` exists."""
        cost, watchers = self.cost, self.watchers[r]
        cost[r] = -1.0
        for x in watchers:
            cost[x] = -1.0
        watchers.clear()

    def free_bytes_for(self, s: int) -> None:
        """Drop values until `s` fits."""
        tables, alive = self.tables, self.alive
        short = self.live + tables.bytes_written[s] - self.limit
        for r in tables.writes[s]:
            if r in alive:
                short -= tables.sizes[r]
        over: dict[int, int] = {}
        for read, written in tables.in_place_pairs[s]:
            if written in over.values() or read in over or written in alive:
                continue
            if self.locks[read] > 1 or self.wanted[read] > 1:
                continue
            if self.next[read] == NEVER and read not in self.bit:
                short -= tables.sizes[read]
                over[read] = written
            elif tables.repeatable[tables.makers[read] or 0]:
                over[read] = written
        if short > 0:
            self.drop(s, short, over)

    def drop(self, s: int, short: int, over: dict[int, int]) -> None:
        """Drop values, the least score first, until `short` bytes are free."""
        sizes = self.tables.sizes
        ranked = sorted([(self.score_of(r), r) for r in self.candidates(over)])
        self.work += len(self.alive) // 4
        chosen: list[int] = []
        for _, r in ranked:
            if short <= 0:
                break
            chosen.append(r)
            short -= sizes[r]
        if short > 0:
            chosen, short = self.last_resort(chosen, short)
        for r in reversed(chosen[:-1]):
            if short + sizes[r] <= 0:
                short += sizes[r]
                chosen.remove(r)
        for r in chosen:
            if r in over and self.locks[r]:
                self.overwrite(s, r)
            else:
                self.remove(r)

    def overwrite(self, s: int, r: int) -> None:
        """Drop an operand of `s` that its result is written over."""
        self.locks[r] -= 1
        self.remove(r)
        self.locks[r] += 1

    def last_resort(self, chosen: list[int], short: int) -> tuple[list[int], int]:
        """Drop values that cannot be made again and are only held in case they are needed."""
        for r in list(self.alive):
            if short <= 0:
                break
            if (
                r in self.bit
                and self.next[r] == NEVER
                and not self.locks[r]
                and not self.wanted[r]
                and not self.held_for[r]
            ):
                bit = self.bit[r]
                if not any(self.tables.anchors[x] & bit for x in chosen):
                    chosen.append(r)
                    short -= self.tables.sizes[r]
        if short > 0:
            raise InfeasibleError
        return chosen, short

    def candidates(self, over: dict[int, int]) -> list[int]:
        """What can be made again later and nothing is about to read."""
        locks, next, wanted = self.locks, self.next, self.wanted
        remade, anchors, gone = self.tables.droppable, self.tables.anchors, self.dropped_anchors
        makers, ended = self.tables.makers, self.ended
        return [
            r
            for r in self.alive
            if remade[r]
            and not ended[makers[r] or 0]
            and (not locks[r] or r in over)
            and (next[r] != NEVER or wanted[r])
            and not (gone and anchors[r] & gone)
        ]

    def score_of(self, r: int) -> float:
        """The score of `r`."""
        score, cost = self.score, self.cost[r]
        if cost < 0:
            cost = self.cost[r] = self.recompute_seconds(r)
        weight: float = self.weight[r]
        if score.time:
            if self.wanted[r]:
                clock = self.tick
            elif score.ahead:
                clock = self.times.clock[self.next[r]] - self.times.clock[self.position] + self.tick
            else:
                clock = self.now - self.touched[r] + self.tick
            weight *= clock**score.time
        return float(cost / weight)

    def recompute_seconds(self, r: int) -> float:
        """The seconds it takes to make `r` again, and those that would then read it."""
        tables, alive, last, score = self.tables, self.alive, self.last, self.score
        makers, seconds, sources = tables.makers, tables.seconds, tables.sources
        watchers = self.watchers
        when = self.next[r] if score.foresee and not self.wanted[r] else -1
        seen, steps, stack = {r}, set[int](), [r]
        total = 0.0
        while stack:
            x = stack.pop()
            maker = makers[x]
            if maker is not None and maker not in steps:
                steps.add(maker)
                total += seconds[maker]
            for u in sources[x]:
                if u not in seen:
                    seen.add(u)
                    watchers[u].append(r)
                    if u not in alive or (last[u] < when and u not in tables.kept):
                        stack.append(u)
            if len(seen) > MOST_FOLLOWED:
                break
        if score.descendants:
            stack = [r]
            while stack and len(seen) <= MOST_FOLLOWED:
                for x in tables.readers[stack.pop()]:
                    if x not in seen and self.made[x]:
                        seen.add(x)
                        watchers[x].append(r)
                        if x not in alive and self.next[x] != NEVER:
                            stack.append(x)
                            maker = makers[x]
                            total += 0.0 if maker is None else seconds[maker]
        self.work += len(seen)
        return total
