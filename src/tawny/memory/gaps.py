"""Placement in the order of time: many layouts of what is live are carried along side by side.

All layouts at one moment hold the same buffers, and only where these lie (and when they die)
matters to what comes.  Each new buffer is tried at both ends of every gap that holds it.  Good for
long, repetitive runs that are tight at every moment, such as recurrent networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

STRETCH = 16
"""After how many buffers the layouts are remembered, to come back to."""

MOST_WORK = 800
"""How many pieces are looked at for each buffer, on average, before nothing is tried again."""
WIDEST = 64
"""How many layouts are carried along at most."""

Piece = tuple[int, int, int]
"""Where a live buffer starts and ends, and when it dies."""


class Trail(NamedTuple):
    """Where the buffers so far were put, newest first."""

    offset: int
    before: Trail | None


Layouts = dict[tuple[Piece, ...], Trail | None]


def search(
    births: Sequence[int],
    deaths: Sequence[int],
    sizes: Sequence[int],
    *,
    moment: int,
    key: Callable[[int], int],
    capacity: int,
    limit: int,
    stop: Callable[[], bool],
) -> list[int] | None:
    """Offsets under a limit, or None: from `moment` outward, what lives then stacked by `key`.

    A moment before everything starts with an empty arena.  The capacity is raised where all
    attempts to keep to it fail.
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
        order.sort(key=lambda b: (start[b], -sizes[b], -end[b]))  # noqa: B023
        first = tuple([(offsets[b], offsets[b] + sizes[b], end[b]) for b in stack])
        found = Walk(start, end, sizes, order).run({first: None}, max(capacity, top), limit, stop)
        if found is None:
            return None
        trail, capacity = found
        for b in reversed(order):
            if trail is not None:
                offsets[b], trail = trail
    return offsets


class Walk(NamedTuple):
    """Buffers in the order of birth, to be added to layouts one after the other."""

    births: Sequence[int]
    deaths: Sequence[int]
    sizes: Sequence[int]
    order: Sequence[int]

    def run(
        self, layouts: Layouts, capacity: int, limit: int, stop: Callable[[], bool]
    ) -> tuple[Trail | None, int] | None:
        """Where all buffers are put, and the capacity that took.

        One layout is carried along where that is enough.  Where it comes to an end the last
        stretch is gone over again, from further back and with more layouts each time.
        """
        order, births = self.order, self.births
        marks: list[tuple[int, Layouts]] = []
        now: int | None = None
        i = furthest = tries = work = 0
        width = 1
        while i < len(order):
            b = order[i]
            work += len(layouts) * (16 + len(next(iter(layouts))))
            if births[b] != now:
                now = births[b]
                if stop():
                    return None
                if i > furthest:
                    width, tries = 1, 0
                layouts = kept(layouts, now, width)
                if not marks or i >= marks[-1][0] + STRETCH:
                    marks.append((i, layouts))
            elif len(layouts) > 8 * width:
                layouts = kept(layouts, now, 2 * width)
            grown = with_one_more(layouts, self.sizes[b], self.deaths[b], capacity)
            if grown:
                i, layouts = i + 1, grown
                continue
            furthest, tries, width = max(furthest, i + STRETCH), tries + 1, width * 4
            if width <= WIDEST and work < MOST_WORK * len(order):
                del marks[max(1, len(marks) - 2**tries) :]
                i, layouts = marks.pop()
                now = None
                continue
            capacity = min([top(layout) for layout in layouts]) + self.sizes[b]
            if capacity >= limit:
                return None
        return next(iter(layouts.values())), capacity


def top(layout: tuple[Piece, ...]) -> int:
    """Where the highest piece ends."""
    return layout[-1][1] if layout else 0


def kept(layouts: Layouts, now: int, width: int) -> Layouts:
    """The layouts without what is dead, the least broken up ones if there are many."""
    alive: Layouts = {}
    for layout, trail in layouts.items():
        alive[tuple([piece for piece in layout if piece[2] > now])] = trail
    if len(alive) <= width:
        return alive
    return dict(sorted(alive.items(), key=lambda item: broken(item[0]))[:width])


def broken(layout: tuple[Piece, ...]) -> int:
    """How far a layout's free bytes are from lying together, now and as its pieces die."""
    apart, end, death = 0, 0, 0
    for start, stop, dies in layout:
        apart -= (start - end) * (start - end)
        if start == end:
            apart += abs(dies - death)
        end, death = stop, dies
    return apart


def with_one_more(layouts: Layouts, size: int, death: int, capacity: int) -> Layouts:
    """Every layout with a new buffer at each end of each gap that holds it."""
    grown: Layouts = {}
    for layout, trail in layouts.items():
        end = 0
        for i in range(len(layout) + 1):
            start = layout[i][0] if i < len(layout) else capacity
            if start - end >= size:
                for offset in {end, start - size}:
                    piece = (offset, offset + size, death)
                    grown[(*layout[:i], piece, *layout[i:])] = Trail(offset, trail)
            if i < len(layout):
                end = layout[i][1]
    return grown
