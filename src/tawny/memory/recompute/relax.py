"""Relaxation: take back repetitions that a sequence does not need under a higher limit.

A repetition is needless if nothing reads what it makes.  It is *taken back* if keeping the former
making alive until then stays inside a limit.  A `Relaxation` takes back one after the other as
the limit rises through given levels, so that one sequence yields a schedule for every limit above
its own, and a higher limit never costs more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tawny.lazy import cached_property
from tawny.memory.recompute.tables import OUTSIDE, RecomputeTables

REFRESH = 16
"""Levels after which the order of what is taken back is computed afresh; chosen by hand: a fresh
order is better, and takes a pass over the sequence."""


def prune(tables: RecomputeTables, sequence: Sequence[int]) -> list[int]:
    """The sequence without repetitions that change nothing or that nothing reads."""
    stamp = [0] * len(tables.sizes)
    seen: dict[int, int] = {}
    changing: list[int] = []
    for s in sequence:
        if s in seen and not tables.writes[s]:
            bases = {tables.roots[v] for v in tables.makes[s]}
            if all(base == OUTSIDE or stamp[base] < seen[s] for base in bases):
                continue  # a view made again of the same making
        changing.append(s)
        seen[s] = len(changing)
        for r in tables.writes[s]:
            stamp[r] = len(changing)
    runs: dict[int, int] = {}
    for s in changing:
        runs[s] = runs.get(s, 0) + 1
    wanted: set[int] = set()
    result: list[int] = []
    for s in reversed(changing):
        if runs[s] > 1 and not wanted.intersection(tables.makes[s]):
            runs[s] -= 1
            continue
        result.append(s)
        wanted.difference_update(tables.makes[s])
        wanted.update(tables.needs[s])
    result.reverse()
    return result


class InstanceHistory:
    """The makings of roots in a sequence, and who reads them."""

    def __init__(self, tables: RecomputeTables, sequence: Sequence[int]) -> None:
        self.root: list[int] = []
        self.birth: list[int] = []
        self.reads: list[list[int]] = []
        """For each instance the positions that read it; the end of the sequence if it is kept."""
        self.former: list[int] = []
        """For each instance the one made before it of the same root, or -1."""
        self.later: list[int] = []
        self.read_at: list[list[int]] = []
        self.made_at: list[list[int]] = []
        current: dict[int, int] = {}
        for position, s in enumerate(sequence):
            read = list(dict.fromkeys([current[v] for v in tables.needs[s] if v in current]))
            for c in read:
                self.reads[c].append(position)
            self.read_at.append(read)
            self.made_at.append([self._make(r, position, current) for r in tables.writes[s]])
            for v in tables.makes[s]:
                if tables.roots[v] not in {v, OUTSIDE}:
                    current[v] = current[tables.roots[v]]
        for r in tables.kept:
            self.reads[current[r]].append(len(sequence))

    def _make(self, r: int, position: int, current: dict[int, int]) -> int:
        """A new instance of `r`."""
        c, before = len(self.root), current.get(r, -1)
        if before >= 0:
            self.later[before] = c
        self.root.append(r)
        self.birth.append(position)
        self.reads.append([])
        self.former.append(before)
        self.later.append(-1)
        current[r] = c
        return c

    def death(self, c: int) -> int:
        """The last position at which an instance is occupied."""
        return self.reads[c][-1] if self.reads[c] else self.birth[c]

    def unlink(self, c: int) -> None:
        """Take an instance out of the makings of its root."""
        before, after = self.former[c], self.later[c]
        if before >= 0:
            self.later[before] = after
        if after >= 0:
            self.former[after] = before


class Relaxation:
    """A sequence, and what it becomes as the limit rises from its own through the levels.

    It rises as far as it is asked about.
    """

    def __init__(
        self,
        tables: RecomputeTables,
        sequence: Sequence[int],
        levels: Sequence[int],
        limit: int,
    ) -> None:
        self.tables, self.levels = tables, levels
        self.steps = prune(tables, sequence)
        self.removal_level = [len(levels)] * len(self.steps)
        """For each position the level from which on it is taken back; past the last if unknown."""
        self.instances = InstanceHistory(tables, self.steps)
        self.overwritten_at: dict[int, int] = {}
        """The instances that are written over, and where."""
        self.live = self._live_bytes()
        self.peak = int(self.live.max())
        lowest = bisect_left(levels, max(self.peak, limit))
        self.start = self.level = min(lowest, len(levels) - 1)
        """The level of the sequence as it is."""
        self.relaxed_to = self.start - 1
        """Up to which level all that fits is taken back."""
        self.refresh, self.changed = self.start + REFRESH, False

    @cached_property
    def queue(self) -> list[tuple[int, float, int]]:
        """The repetitions that may be taken back next."""
        return self._queue()

    def seconds_at(self, level: int) -> float:
        """The seconds of the sequence at a level."""
        self._relax_to(level)
        seconds = self.tables.seconds
        return sum(
            [
                seconds[s]
                for s, gone in zip(self.steps, self.removal_level, strict=True)
                if gone > level
            ]
        )

    def sequence_at(self, level: int) -> list[int]:
        """The sequence at a level."""
        self._relax_to(level)
        kept = [s for s, gone in zip(self.steps, self.removal_level, strict=True) if gone > level]
        return prune(self.tables, kept)

    def next_level_below(self, level: int) -> int | None:
        """The next lower level at which the sequence differs."""
        self._relax_to(level)
        return max((r - 1 for r in self.removal_level if self.start < r <= level), default=None)

    def _live_bytes(self) -> NDArray[np.int64]:
        """Live bytes at each position, as the simulation counts them."""
        tables, instances, length = self.tables, self.instances, len(self.steps)
        change = np.zeros(length + 2, np.int64)
        for c, r in enumerate(instances.root):
            change[instances.birth[c]] += tables.sizes[r]
            change[instances.death(c) + 1] -= tables.sizes[r]
        live = np.cumsum(change)[: length + 1] + tables.pinned_bytes
        for position, s in enumerate(self.steps):
            live[position] += tables.scratch[s]
            if not tables.in_place_pairs[s]:
                continue
            taken: set[int] = set()
            by_root = {instances.root[c]: c for c in instances.read_at[position]}
            for read, written in tables.in_place_pairs[s]:
                c = by_root[read]
                if (
                    c not in self.overwritten_at
                    and written not in taken
                    and instances.death(c) == position
                ):
                    self.overwritten_at[c] = position
                    taken.add(written)
                    live[position] -= tables.sizes[read]
        return live

    def _seconds_per_byte(self, position: int) -> float:
        """Seconds won for each byte and position when the repetition there is taken back."""
        instances = self.instances
        area = 1
        for c in instances.made_at[position]:
            before = instances.former[c]
            if before < 0:
                return 0.0
            area += self.tables.sizes[instances.root[c]] * max(
                position - instances.death(before), 1
            )
        return self.tables.seconds[self.steps[position]] / area if area > 1 else 0.0

    def _peak_without(self, position: int) -> int:
        """The most live bytes while the former makings are kept until `position`'s are read."""
        instances, sizes = self.instances, self.tables.sizes
        parts: list[tuple[int, int]] = []
        for c in instances.made_at[position]:
            start = instances.death(instances.former[c])
            slid = self.overwritten_at.get(instances.former[c]) == start
            parts.append((start if slid else start + 1, sizes[instances.root[c]]))
        parts.sort()
        most = total = 0
        for (start, size), (until, _) in zip(parts, [*parts[1:], (position, 0)], strict=True):
            total += size
            if start < until:
                most = max(most, int(self.live[start:until].max()) + total)
        return most

    def _queue(self) -> list[tuple[int, float, int]]:
        """What can be taken back: the level at which it fits, how little it gains, where."""
        top = len(self.levels)
        queue: list[tuple[int, float, int]] = []
        for position, removed in enumerate(self.removal_level):
            if removed == top and (gain := self._seconds_per_byte(position)):
                level = bisect_left(self.levels, self._peak_without(position), self.level)
                if level < top:
                    queue.append((level, -gain, position))
        heapify(queue)
        return queue

    def _relax_to(self, until: int) -> None:
        """Take back all that fits a level: from the lowest level on, there by the most gain."""
        if until <= self.relaxed_to:
            return
        queue, top = self.queue, len(self.levels)
        while queue and queue[0][0] <= until:
            level, _, position = heappop(queue)
            if self.removal_level[position] == top and (gain := self._seconds_per_byte(position)):
                now = bisect_left(self.levels, self._peak_without(position), self.level)
                if now <= level:
                    self.level, self.changed = level, True
                    self._take_back(position)
                elif now < top:
                    heappush(queue, (now, -gain, position))
            if self.changed and (not queue or queue[0][0] >= self.refresh):
                queue[:] = self._queue()
                self.refresh, self.changed = self.level + REFRESH, False
        self.relaxed_to = until

    def _take_back(self, position: int) -> None:
        """Remove the repetition at `position`; its instances become the former ones, prolonged."""
        instances = self.instances
        for c in instances.made_at[position]:
            before, size = instances.former[c], self.tables.sizes[instances.root[c]]
            death = instances.death(before)
            if self.overwritten_at.get(before) == death:
                self.live[death] += size
                del self.overwritten_at[before]
            self.live[death + 1 : position] += size
            for p in instances.reads[c]:
                if p < len(self.steps):
                    row = instances.read_at[p]
                    row[row.index(c)] = before
            instances.reads[before] = sorted({*instances.reads[before], *instances.reads[c]})
            instances.reads[c] = []
            if c in self.overwritten_at:
                self.overwritten_at[before] = self.overwritten_at.pop(c)
            instances.unlink(c)
        instances.made_at[position] = []
        self._remove(position)

    def _remove(self, position: int) -> None:
        """Remove a position; repetitions whose results only it read go with it."""
        instances, sizes, live = self.instances, self.tables.sizes, self.live
        stack = [position]
        while stack:
            p = stack.pop()
            self.removal_level[p] = self.level
            live[p] -= self.tables.scratch[self.steps[p]]
            for c in instances.made_at[p]:
                live[p] -= sizes[instances.root[c]]
                instances.unlink(c)
            instances.made_at[p] = []
            for c in instances.read_at[p]:
                death = instances.death(c)
                instances.reads[c].remove(p)
                if self.overwritten_at.get(c) == p:
                    live[p] += sizes[instances.root[c]]
                    del self.overwritten_at[c]
                live[instances.death(c) + 1 : death + 1] -= sizes[instances.root[c]]
                birth = instances.birth[c]
                if self._is_needless(birth) and birth not in stack:
                    stack.append(birth)
            instances.read_at[p] = []

    def _is_needless(self, position: int) -> bool:
        """Whether nothing reads what a position makes, and the step also runs before or after."""
        instances, made = self.instances, self.instances.made_at[position]
        return bool(made) and all(
            not instances.reads[c] and (instances.former[c] >= 0 or instances.later[c] >= 0)
            for c in made
        )
