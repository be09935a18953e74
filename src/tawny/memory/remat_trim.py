"""Take back recomputation that a sequence does not need: dead repetitions, and those that fit.

A repetition is needless if nothing reads what it makes.  It is *taken back* if keeping the former
making alive until then stays inside the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tawny.memory.remat_tables import OUTSIDE, Tables


def prune(tables: Tables, sequence: Sequence[int]) -> list[int]:
    """The sequence without repetitions that change nothing or that nothing reads."""
    stamp = [0] * len(tables.sizes)
    seen: dict[int, int] = {}
    kept: list[int] = []
    for s in sequence:  # a view that is made again of the same making
        if not tables.writes[s] and s in seen and tables.makes[s]:
            base = tables.roots[tables.makes[s][0]]
            if base == OUTSIDE or stamp[base] < seen[s]:
                continue
        kept.append(s)
        seen[s] = len(kept)
        for r in tables.writes[s]:
            stamp[r] = len(kept)
    wanted: set[int] = set()
    runs: dict[int, int] = {}
    for s in kept:
        runs[s] = runs.get(s, 0) + 1
    result: list[int] = []
    final = set[int]()
    for s in reversed(kept):
        makes = tables.makes[s]
        first_kept = s not in final and any(tables.roots[v] in tables.kept for v in makes)
        if runs[s] > 1 and not first_kept and not any(v in wanted for v in makes):
            runs[s] -= 1
            continue
        final.add(s)
        result.append(s)
        wanted.difference_update(makes)
        wanted.update(tables.needs[s])
    result.reverse()
    return result


class Trim:
    """A sequence whose repetitions are taken back one by one."""

    def __init__(self, tables: Tables, sequence: Sequence[int], limit: int) -> None:
        self.tables, self.limit = tables, limit
        self.sequence: list[int | None] = list(sequence)
        self.reads: list[list[int]] = []
        """For each cell the positions that read it."""
        self.birth: list[int] = []
        self.root: list[int] = []
        self.cells_read: list[list[int]] = []
        self.cells_made: list[list[int]] = []
        self.former: list[int] = []
        """For each cell the one made before it of the same root, or -1."""
        self._follow()
        self.live = self._profile()

    def _follow(self) -> None:
        """Find the cells that each position reads and makes."""
        tables = self.tables
        current: dict[int, int] = {}
        for position, s in enumerate(self.sequence):
            assert s is not None
            read = list(dict.fromkeys(current[v] for v in tables.needs[s] if v in current))
            for c in read:
                self.reads[c].append(position)
            made: list[int] = []
            for r in tables.writes[s]:
                self.former.append(current.get(r, -1))
                current[r] = len(self.root)
                made.append(len(self.root))
                self.root.append(r)
                self.birth.append(position)
                self.reads.append([])
            for v in tables.makes[s]:
                if tables.roots[v] not in {v, OUTSIDE}:
                    current[v] = current[tables.roots[v]]
            self.cells_read.append(read)
            self.cells_made.append(made)
        end = len(self.sequence)
        for r in tables.kept:
            self.reads[current[r]].append(end)

    def _profile(self) -> NDArray[np.int64]:
        """Live bytes at each position, as the simulation counts them."""
        tables, length = self.tables, len(self.sequence)
        change = np.zeros(length + 2, np.int64)
        for c, r in enumerate(self.root):
            change[self.birth[c]] += tables.sizes[r]
            change[self.death(c) + 1] -= tables.sizes[r]
        live = np.cumsum(change)[: length + 1]
        self.slid: dict[int, int] = {}
        for position, s in enumerate(self.sequence):
            assert s is not None
            live[position] += tables.extra[s] - sum(tables.sizes[r] for r in tables.writes[s])
            taken: set[int] = set()
            for read, written in tables.slides[s]:
                for c in self.cells_read[position]:
                    if self.root[c] == read and self.death(c) == position:
                        if c not in self.slid and written not in taken:
                            self.slid[c] = position
                            taken.add(written)
                            live[position] -= tables.sizes[written]
        return live

    def death(self, c: int) -> int:
        """The last position at which a cell is occupied."""
        return self.reads[c][-1] if self.reads[c] else self.birth[c]

    def gain(self, position: int) -> float:
        """Seconds won for each byte and position when the repetition there is taken back."""
        s = self.sequence[position]
        if s is None or not self.cells_made[position]:
            return 0.0
        area = 1
        for c in self.cells_made[position]:
            before = self.former[c]
            if before < 0:
                return 0.0
            area += self.tables.sizes[self.root[c]] * max(position - self.death(before), 1)
        return self.tables.seconds[s] / area

    def fits(self, position: int) -> bool:
        """Whether the former makings can be kept until `position`'s are read."""
        need: dict[int, int] = {}
        sizes = self.tables.sizes
        for c in self.cells_made[position]:
            before = self.former[c]
            start = self.death(before)
            if self.slid.get(before) != start:
                start += 1
            need[start] = need.get(start, 0) + sizes[self.root[c]]
        total = 0
        starts = sorted(need)
        for start, until in zip(starts, [*starts[1:], position], strict=True):
            total += need[start]
            if start < until and int(self.live[start:until].max()) + total > self.limit:
                return False
        return True

    def take_back(self, position: int) -> None:
        """Drop the repetition at `position`; its cells become the former ones, prolonged."""
        for c in self.cells_made[position]:
            before, size = self.former[c], self.tables.sizes[self.root[c]]
            death = self.death(before)
            if self.slid.get(before) == death:
                self.live[death] += size
                del self.slid[before]
            self.live[death + 1 : position] += size
            for p in self.reads[c]:
                if p < len(self.sequence):
                    row = self.cells_read[p]
                    row[row.index(c)] = before
            self.reads[before].extend(self.reads[c])
            if c in self.slid:
                self.slid[before] = self.slid.pop(c)
            self.reads[c] = []
            for later in range(c + 1, len(self.former)):
                if self.former[later] == c:
                    self.former[later] = before
                    break
        self._forget(position)

    def _forget(self, position: int) -> None:
        """Remove a position; repetitions whose results only it read go with it."""
        stack = [position]
        while stack:
            p = stack.pop()
            s = self.sequence[p]
            self.sequence[p] = None
            for c in self.cells_read[p]:
                size, death = self.tables.sizes[self.root[c]], self.death(c)
                self.reads[c].remove(p)
                new = self.death(c)
                if new < death:
                    if self.slid.get(c) == death:
                        del self.slid[c]
                        self.live[p] += size if s is None else 0
                    self.live[new + 1 : death + 1] -= size
                if not self.reads[c] and self._needless(self.birth[c]):
                    for dead in self.cells_made[self.birth[c]]:
                        self.live[self.birth[c]] -= self.tables.sizes[self.root[dead]]
                        for later in range(dead + 1, len(self.former)):
                            if self.former[later] == dead:
                                self.former[later] = self.former[dead]
                    stack.append(self.birth[c])
            self.cells_read[p] = []
            self.cells_made[p] = []

    def _needless(self, position: int) -> bool:
        """Whether the position repeats a step (or is repeated) and nothing reads its results."""
        made = self.cells_made[position]
        s = self.sequence[position]
        return (
            s is not None
            and not any(self.reads[c] for c in made)
            and all(self.former[c] >= 0 for c in made)
        )

    def run(self) -> list[int]:
        """Take back all that fits, the most seconds for a byte first."""
        queue = [(-g, p) for p in range(len(self.sequence)) if (g := self.gain(p)) > 0]
        heapify(queue)
        while queue:
            old, position = heappop(queue)
            new = -self.gain(position)
            if new == 0:
                continue
            if new > old and queue and new > queue[0][0]:
                heappush(queue, (new, position))
                continue
            if self.fits(position):
                self.take_back(position)
        return [s for s in self.sequence if s is not None]


def trim(tables: Tables, sequence: Sequence[int], limit: int) -> list[int]:
    """The sequence with every repetition taken back that need not be, inside `limit` live bytes."""
    return prune(tables, Trim(tables, prune(tables, sequence), limit).run())
