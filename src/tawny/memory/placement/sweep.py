"""Placement by sweeping outward from the fullest moment: near-linear, often at the lower bound.

The buffers that live at that moment are stacked without gaps.  From there one sweep goes forward in
time and one backward; each puts the buffers it meets into the smallest gap that holds them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush

import numpy

SKY = 1 << 62
"""The end of the gap above everything."""


def sweep_outward(
    births: Sequence[int],
    deaths: Sequence[int],
    sizes: Sequence[int],
    moment: int,
    key: Callable[[int], int],
) -> list[int]:
    """The offsets of buffers [birth, death); those that live at `moment` are stacked by `key`."""
    everything = range(len(sizes))
    offsets = [0] * len(sizes)
    stack = sorted([b for b in everything if births[b] <= moment < deaths[b]], key=key)
    top = 0
    for b in stack:
        offsets[b] = top
        top += sizes[b]
    later = [b for b in everything if births[b] > moment]
    later.sort(key=lambda b: (births[b], -deaths[b]))
    fill_gaps(births, deaths, sizes, offsets, stack, later)
    earlier = [b for b in everything if deaths[b] <= moment]
    earlier.sort(key=lambda b: (-deaths[b], births[b]))
    back, forth = [-t for t in deaths], [-t for t in births]
    fill_gaps(back, forth, sizes, offsets, stack, earlier)
    return offsets


def fill_gaps(
    births: Sequence[int],
    deaths: Sequence[int],
    sizes: Sequence[int],
    offsets: list[int],
    stack: Sequence[int],
    order: Iterable[int],
) -> None:
    """Place the buffers of `order`, which is by birth, above and into a stack without gaps."""
    ends = [(deaths[b], b) for b in stack]
    heapify(ends)
    top = max([offsets[b] + sizes[b] for b in stack], default=0)
    gaps = [(SKY - top, top)]
    end_of, start_of = {top: SKY}, {SKY: top}
    for b in order:
        now = births[b]
        while ends and ends[0][0] <= now:
            _, dead = heappop(ends)
            low = offsets[dead]
            high = low + sizes[dead]
            if low in start_of:
                start = start_of.pop(low)
                del end_of[start], gaps[bisect_left(gaps, (low - start, start))]
                low = start
            if high in end_of:
                end = end_of.pop(high)
                del start_of[end], gaps[bisect_left(gaps, (end - high, high))]
                high = end
            end_of[low], start_of[high] = high, low
            insort(gaps, (high - low, low))
        size = sizes[b]
        room, low = gaps.pop(bisect_left(gaps, (size, -1)))
        high = end_of.pop(low)
        offsets[b] = low
        if room > size:
            end_of[low + size], start_of[high] = high, low + size
            insort(gaps, (room - size, low + size))
        else:
            del start_of[high]
        heappush(ends, (deaths[b], b))


def first_fit(
    births: Sequence[int], deaths: Sequence[int], sizes: Sequence[int], ranking: Iterable[int]
) -> list[int]:
    """The offsets of buffers that are taken in order of `ranking`, each put as low as it can be.

    Each is compared with all before it, in NumPy.
    """
    count = len(sizes)
    born, dead, low, high = (numpy.empty(count, numpy.int64) for _ in range(4))
    offsets = [0] * count
    for done, b in enumerate(ranking):
        others = numpy.flatnonzero((born[:done] < deaths[b]) & (dead[:done] > births[b]))
        if len(others):
            others = others[numpy.argsort(low[others], kind="stable")]
            starts = numpy.append(low[others], SKY)
            ends = numpy.append(0, numpy.maximum.accumulate(high[others]))
            offsets[b] = int(ends[numpy.argmax(starts - ends >= sizes[b])])
        born[done], dead[done] = births[b], deaths[b]
        low[done], high[done] = offsets[b], offsets[b] + sizes[b]
    return offsets
