"""Skyline placement: always fill the lowest line, with the best buffer that lies within it.

The lines are the tops of what is placed, over time.  The lowest one takes, of all unplaced
buffers whose lifetime lies within it, the one of best rank; if there is none it rises to its lower
neighbour and joins it.  Near-linear: each unplaced buffer waits either in the heap of a line
that contains it or at one boundary between lines that cuts it, and only moves when that changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise


def skyline_offsets(
    births: Sequence[int], deaths: Sequence[int], sizes: Sequence[int], ranking: Sequence[int]
) -> list[int]:
    """The offsets of buffers [birth, death) taken in the order of `ranking` wherever they fit."""
    if not ranking:
        return []
    return Skyline(births, deaths, sizes, ranking).run()


class Skyline:
    """The state of one placement; buffers are known by their rank."""

    def __init__(
        self,
        births: Sequence[int],
        deaths: Sequence[int],
        sizes: Sequence[int],
        ranking: Sequence[int],
    ) -> None:
        self.ranking = ranking
        self.birth = [births[b] for b in ranking]
        self.death = [deaths[b] for b in ranking]
        self.size = [sizes[b] for b in ranking]
        count = len(ranking)
        self.by_birth = sorted(range(count), key=self.birth.__getitem__)
        self.sorted_births = [self.birth[b] for b in self.by_birth]
        place = [0] * count
        for i, b in enumerate(self.by_birth):
            place[b] = i
        self.place = place
        self.next = list(range(count + 1))
        """Over positions in `by_birth`: a path to the next buffer that is not placed."""
        start, end = self.sorted_births[0], max(self.death)
        self.end = {start: end}
        self.begin = {end: start}
        self.height = {start: 0}
        self.heap_of = {start: 0}
        self.heaps: list[list[int]] = [list(range(count))]
        self.heap_holding = [0] * count
        """The heap each buffer waits in; -1 if at a boundary or placed."""
        self.waiting_at: dict[int, list[int]] = {}
        """The buffers that wait at each boundary."""
        self.offset = [0] * count

    def run(self) -> list[int]:
        """Place everything."""
        height, offset, size = self.height, self.offset, self.size
        start = self.sorted_births[0]
        lines = [(0, start)]
        left = len(offset)
        while left:
            low, line = heappop(lines)
            if height.get(line) != low:
                continue
            best = self.pop_best(line)
            if best < 0:
                line = self.lift(line)
            else:
                offset[best] = low
                left -= 1
                line = self.put(line, best, low + size[best], lines)
            line = self.join(line)
            heappush(lines, (height[line], line))
        result = [0] * len(offset)
        for b, o in zip(self.ranking, offset, strict=True):
            result[b] = o
        return result

    def pop_best(self, line: int) -> int:
        """Take the first buffer in rank that lies within a line; -1 if there is none."""
        which = self.heap_of[line]
        heap, where, birth, death = self.heaps[which], self.heap_holding, self.birth, self.death
        end = self.end[line]
        while heap:
            b = heappop(heap)
            if where[b] != which:
                continue
            where[b] = -1
            if birth[b] < line:
                self.waiting_at.setdefault(line, []).append(b)
            elif death[b] > end:
                self.waiting_at.setdefault(end, []).append(b)
            else:
                self.next[self.place[b]] = self.place[b] + 1
                return b
        return -1

    def put(self, line: int, b: int, top: int, lines: list[tuple[int, int]]) -> int:
        """Split a line around a buffer placed on it; the line that is its top."""
        low, end, which = self.height[line], self.end[line], self.heap_of[line]
        birth, death = self.birth[b], self.death[b]
        bounds = sorted({line, birth, death, end})
        if len(bounds) == 2:
            self.height[line] = top
            return line
        births = self.sorted_births
        indices = [bisect_left(births, x) for x in bounds]
        widest = max(range(len(bounds) - 1), key=lambda k: indices[k + 1] - indices[k])
        for k, (begin, stop) in enumerate(pairwise(bounds)):
            self.height[begin] = top if begin == birth else low
            self.end[begin] = stop
            self.begin[stop] = begin
            if k == widest:
                self.heap_of[begin] = which
            else:
                self.heap_of[begin] = self.extract(which, indices[k], indices[k + 1], stop)
            if begin != birth:
                heappush(lines, (low, begin))
        return birth

    def extract(self, which: int, first: int, stop: int, end: int) -> int:
        """Move the waiting buffers born in a range of positions out of a heap into their own."""
        where, death, by_birth, cut = self.heap_holding, self.death, self.by_birth, self.waiting_at
        heap: list[int] = []
        new = len(self.heaps)
        i = self.next_unplaced(first)
        while i < stop:
            b = by_birth[i]
            if where[b] == which:
                if death[b] <= end:
                    where[b] = new
                    heap.append(b)
                else:
                    where[b] = -1
                    cut.setdefault(end, []).append(b)
            i = self.next_unplaced(i + 1)
        heapify(heap)
        self.heaps.append(heap)
        return new

    def next_unplaced(self, i: int) -> int:
        """The first position, from `i` on, of a buffer that is not placed."""
        following = self.next
        root = i
        while following[root] != root:
            root = following[root]
        while following[i] != root:
            following[i], i = root, following[i]
        return root

    def lift(self, line: int) -> int:
        """Raise a line to its lower neighbour."""
        above = [
            self.height[other]
            for other in (self.begin.get(line), self.end[line])
            if other is not None and other in self.height
        ]
        self.height[line] = min(above)
        return line

    def join(self, line: int) -> int:
        """Merge a line with the neighbours that are as high; the merged line."""
        height = self.height
        before = self.begin.get(line)
        if before is not None and height[before] == height[line]:
            self.merge(before, line)
            line = before
        after = self.end[line]
        if after in height and height[after] == height[line]:
            self.merge(line, after)
        return line

    def merge(self, left: int, right: int) -> None:
        """Make two lines one, with the buffers that waited at the boundary between them."""
        end = self.end[left] = self.end[right]
        self.begin[end] = left
        del self.height[right], self.end[right], self.begin[right]
        one, two = self.heap_of[left], self.heap_of.pop(right)
        if len(self.heaps[one]) < len(self.heaps[two]):
            one, two = two, one
        self.heap_of[left] = one
        heap, where = self.heaps[one], self.heap_holding
        for b in self.heaps[two]:
            if where[b] == two:
                where[b] = one
                heappush(heap, b)
        self.heaps[two] = []
        for b in self.waiting_at.pop(right, ()):
            where[b] = one
            heappush(heap, b)
