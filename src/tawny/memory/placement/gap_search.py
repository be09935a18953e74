"""Placement in the order of time: many layouts of what is live are carried along side by side.

All layouts at one moment hold the same buffers, and only where these lie (and when they die)
matters to what comes.  Each new buffer is tried at both ends of every gap that holds it.  Good for
long, repetitive runs that are tight at every moment, such as recurrent networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tawny.memory.effort import Effort

CHECKPOINT_EVERY = 16
"""Buffers after which the layouts are remembered, to come back to; chosen by hand: more memory
against going over more of them again."""

PIECES_PER_LOOK = 3
"""Pieces that are gone through in the time of a look."""

MOST_LAYOUTS = 64
"""The most layouts that are carried along side by side."""

Piece = tuple[int, int, int]
"""Where a live buffer starts and ends, and when it dies."""


class Trail(NamedTuple):
    """The offsets of the buffers that are placed, newest first."""

    offset: int
    before: Trail | None


Layouts = dict[tuple[Piece, ...], Trail | None]


def search_gaps(
    births: Sequence[int],
    deaths: Sequence[int],
    sizes: Sequence[int],
    *,
    moment: int,
    key: Callable[[int], int],
    capacity: int,
    limit: int,
    effort: Effort,
    pieces: int = 800,
) -> list[int] | None:
    """Offsets under a limit, or None: from `moment` outward, what lives then stacked by `key`.

    A moment before everything starts with an empty arena.  The capacity is raised where all
    attempts to keep to it fail; these look at no more than `pieces` for each buffer.
    """
    everything = range(len(sizes))
    offsets = [0] * len(sizes)
    stack = sorted([b for b in everything if births[b] <= moment < deaths[b]], key=key)
    top = 0
    for b in stack:
        offsets[b] = top
        top += sizes[b]
    later = [b for b in everything if births[b] > moment]
    earlier = [b for b in everything if deaths[b] <= moment]
    back, forth = [-t for t in deaths], [-t for t in births]
    for order, start, end in ((later, births, deaths), (earlier, back, forth)):
        order.sort(key=lambda b: (start[b], -sizes[b], -end[b]))
        first = tuple([(offsets[b], offsets[b] + sizes[b], end[b]) for b in stack])
        walk = GapSearch(start, end, sizes, order, min(pieces, 50 + 4_000_000 // (len(order) or 1)))
        found = walk.run({first: None}, max(capacity, top), limit, effort)
        if found is None:
            return None
        trail, capacity = found
        for b in reversed(order):
            if trail is not None:
                offsets[b], trail = trail
    return offsets


class GapSearch(NamedTuple):
    """Buffers in the order of birth, to be added to layouts one after the other."""

    births: Sequence[int]
    deaths: Sequence[int]
    sizes: Sequence[int]
    order: Sequence[int]
    pieces: int

    def run(
        self, layouts: Layouts, capacity: int, limit: int, effort: Effort
    ) -> tuple[Trail | None, int] | None:
        """Where all buffers are put, and the capacity that took.

        One layout is carried along where that is enough.  Where it comes to an end the last
        stretch is gone over again, from further back and with more layouts each time; not so once
        the effort is over.
        """
        order, births = self.order, self.births
        most_work = self.pieces * len(order)
        marks: list[tuple[int, Layouts]] = []
        i = furthest = tries = work = counted = 0
        width, late, again = 1, False, True
        while i < len(order):
            b = order[i]
            now = births[b]
            if again or now != births[order[i - 1]]:
                again = False
                effort.spend((work - counted) // PIECES_PER_LOOK)
                counted = work - (work - counted) % PIECES_PER_LOOK
                late = late or effort.is_over
                if work > 2 * most_work:
                    return None
                if i > furthest:
                    width, tries = 1, 0
                layouts = drop_dead(layouts, now)
                if not marks or i >= marks[-1][0] + CHECKPOINT_EVERY:
                    marks.append((i, layouts))
                if width == 1 and len(layouts) == 1:
                    reached, layouts, done = self.extend_single(i, layouts, capacity)
                    if reached > i:
                        i, work, again = reached, work + done, True
                        continue
            grown = add_buffer(layouts, self.sizes[b], now, self.deaths[b], capacity, width)
            work += len(layouts) * (8 + len(next(iter(layouts))))
            if grown:
                i, layouts = i + 1, grown
                continue
            late = late or work > most_work
            furthest, tries, width = max(furthest, i + CHECKPOINT_EVERY), tries + 1, width * 4
            if late or width > MOST_LAYOUTS:
                lowest = min(layouts, key=top)
                needed = top(lowest) + self.sizes[b]
                capacity = needed if late else min(needed, capacity + capacity // 64 + 1)
                if capacity >= limit:
                    return None
                layouts, width, tries = {lowest: layouts[lowest]}, 1, 2
            if not late:
                del marks[max(1, len(marks) - 2**tries) :]
                i, layouts = marks.pop()
                again = True
        return next(iter(layouts.values())), capacity

    def extend_single(self, i: int, layouts: Layouts, capacity: int) -> tuple[int, Layouts, int]:
        """Add a stretch of buffers to a single layout, or those born before one that cannot be.

        Where to go on from, with which layout, and the work done.
        """
        order, births, deaths, sizes = self.order, self.births, self.deaths, self.sizes
        ((pieces, trail),) = layouts.items()
        layout, before, work = list(pieces), (i, layouts), 0
        last = min(i + CHECKPOINT_EVERY, len(order)) - 1
        now = births[order[i]]
        while i < len(order) and (i <= last or births[order[i]] == now):
            b = order[i]
            if births[b] != now:
                now = births[b]
                layout = [piece for piece in layout if piece[2] > now]
                before = i, {tuple(layout): trail}
            work += 8 + len(layout)
            found = best_offset(layout, sizes[b], now, deaths[b], capacity)
            if found is None:
                return *before, work
            offset, index = found
            layout.insert(index, (offset, offset + sizes[b], deaths[b]))
            trail = Trail(offset, trail)
            i += 1
        return i, {tuple(layout): trail}, work


def top(layout: tuple[Piece, ...]) -> int:
    """Where the highest piece ends."""
    return layout[-1][1] if layout else 0


def drop_dead(layouts: Layouts, now: int) -> Layouts:
    """The layouts without what is dead."""
    return {
        tuple([piece for piece in layout if piece[2] > now]): trail
        for layout, trail in layouts.items()
    }


def add_buffer(
    layouts: Layouts, size: int, now: int, death: int, capacity: int, width: int
) -> Layouts:
    """The layouts with a new buffer, in the least harmful ways."""
    ways: list[tuple[int, int, int, tuple[Piece, ...]]] = []
    for layout in layouts:
        found = candidate_offsets(layout, size, now, death, capacity)
        if width == 1:
            ways.extend([(*min(found), layout)] if found else ())
            continue
        before = fragmentation(layout, now, capacity)
        ways.extend([(before + harm, offset, i, layout) for harm, offset, i in found])
    if len(ways) > width:
        ways.sort()
        del ways[width:]
    return {
        (*layout[:i], (offset, offset + size, death), *layout[i:]): Trail(offset, layouts[layout])
        for _, offset, i, layout in ways
    }


def fragmentation(layout: tuple[Piece, ...], now: int, capacity: int) -> int:
    """How scattered the free bytes of the next moment are: minus the sum of squared gaps."""
    apart = end = 0
    for start, stop, dies in layout:
        if dies > now + 1:
            apart -= (start - end) * (start - end)
            end = stop
    return apart - (capacity - end) * (capacity - end)


def best_offset(
    layout: Sequence[Piece], size: int, now: int, death: int, capacity: int
) -> tuple[int, int] | None:
    """The least harmful of `candidate_offsets`, if it is the lowest or highest between two pieces.

    Pieces that die at the next moment do not count.
    """
    best: tuple[int, int] | None = None
    least = lowest = -1
    low = end = left = highest = first = last = 0
    soon = now + 1
    for i, (start, stop, dies) in enumerate((*layout, (capacity, capacity, soon + 1))):
        if start - end >= size:
            if death <= soon:
                return end, i
            if lowest < 0:
                lowest, first = end, i
            highest, last = start - size, i
        end = stop
        if dies <= soon:
            continue
        if lowest >= 0:
            room = start - low
            below = lowest - low
            above = room - size - below
            harm = room * room - below * below - above * above
            if not below:
                harm += abs(death - left)
            if not above:
                harm += abs(death - dies)
            if harm < least or best is None:
                least, best = harm, (lowest, first)
            if highest > lowest:
                below = highest - low
                above = room - size - below
                harm = room * room - below * below - above * above
                if not above:
                    harm += abs(death - dies)
                if harm < least:
                    least, best = harm, (highest, last)
            lowest = -1
        low, left = stop, dies
    return best


def candidate_offsets(
    layout: tuple[Piece, ...], size: int, now: int, death: int, capacity: int
) -> list[tuple[int, int, int]]:
    """Both ends of each gap that holds a new buffer: (harm done, offset, index in the layout).

    The harm is how much it breaks up what is free at the next moment, and how unlike the times are
    when it and the neighbours it touches die.
    """
    result: list[tuple[int, int, int]] = []
    held: list[tuple[int, int, int]] = []
    low = end = left = 0
    for i, (start, stop, dies) in enumerate((*layout, (capacity, capacity, now + 2))):
        if start - end >= size:
            held.append((end, start - size, i))
        end = stop
        if dies <= now + 1:
            continue
        for first, last, index in held:
            for offset in (first, last) if last > first else (first,):
                below, above = offset - low, start - offset - size
                harm = 0
                if death > now + 1:
                    harm = (start - low) * (start - low) - below * below - above * above
                    if not below:
                        harm += abs(death - left)
                    if not above:
                        harm += abs(death - dies)
                result.append((harm, offset, index))
        held.clear()
        low, left = stop, dies
    return result
