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

MOST_WORK = 1500
"""How many pieces are looked at for each buffer, on average, before the search is given up."""

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
    widest: int,
    stop: Callable[[], bool],
) -> list[int] | None:
    """Offsets within a capacity, or None: from `moment` outward, what lives then stacked by `key`.

    A moment before everything starts with an empty arena.
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
        layouts = carry({first: None}, order, start, end, sizes, capacity, widest, stop)
        if not layouts:
            return None
        trail = next(iter(layouts.values()))
        for b in reversed(order):
            if trail is not None:
                offsets[b], trail = trail
    return offsets


def carry(
    layouts: Layouts,
    order: Sequence[int],
    births: Sequence[int],
    deaths: Sequence[int],
    sizes: Sequence[int],
    capacity: int,
    widest: int,
    stop: Callable[[], bool],
) -> Layouts:
    """The layouts after all buffers of `order`, which is by birth, have been added.

    One layout is carried along where that is enough.  Where it comes to an end the last stretch is
    gone over again, from further back and with more layouts each time.
    """
    marks: list[tuple[int, Layouts]] = []
    now: int | None = None
    i = furthest = tries = work = 0
    width = 1
    while i < len(order):
        b = order[i]
        work += len(layouts) * (16 + len(next(iter(layouts))))
        if work > MOST_WORK * len(order):
            return {}
        if births[b] != now:
            now = births[b]
            if stop():
                return {}
            if i > furthest:
                width, tries = 1, 0
            layouts = kept(layouts, now, width)
            if not marks or i >= marks[-1][0] + STRETCH:
                marks.append((i, layouts))
        elif len(layouts) > 8 * width:
            layouts = kept(layouts, now, 2 * width)
        layouts = with_one_more(layouts, sizes[b], deaths[b], capacity)
        i += 1
        if not layouts:
            furthest, tries, width = max(furthest, i + STRETCH), tries + 1, width * 4
            if width > widest:
                return {}
            del marks[max(1, len(marks) - 2**tries) :]
            i, layouts = marks.pop()
            now = None
    return layouts


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
