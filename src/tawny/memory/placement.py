"""Placement: an offset in one arena for each storage, as near the lower bound as can be found.

The pipeline stops as soon as the lower bound is met: sweeps outward from the fullest moment, then
skylines, then beam searches while time is left.  Only the first two are near-linear and used for
very many storages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd

from tawny.memory.beam import Score, Tie, search, sections
from tawny.memory.schedule import Storage
from tawny.memory.skyline import skyline
from tawny.memory.sweep import outward

LARGEST_SEARCHED = 2000
"""Storages above which only near-linear methods are used."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Offsets in one arena."""

    offsets: tuple[int, ...]
    arena: int
    """Bytes of the arena."""
    bound: int
    """No arena is smaller: the most bytes that live at once, each storage rounded up."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """What is placed: storages with bytes and a lifetime, rounded up and in units of `unit`."""

    births: list[int]
    deaths: list[int]
    sizes: list[int]
    indices: list[int]
    """Which storages they are."""
    unit: int
    bound: int
    moment: int
    """When the most units are live."""

    def height(self, offsets: Sequence[int]) -> int:
        """Where the highest buffer ends."""
        return max(map(int.__add__, offsets, self.sizes), default=0)


def buffers(storages: Sequence[Storage], alignment: int) -> Buffers:
    """The buffers of storages, with time reduced to the moments when something is born."""
    indices = [i for i, (size, birth, death) in enumerate(storages) if size and birth < death]
    rounded = [-(-storages[i].bytes // alignment) * alignment for i in indices]
    unit = gcd(*rounded) or 1
    moments = sorted({storages[i].birth for i in indices})
    step = {t: k for k, t in enumerate(moments)}
    following = dict(step)
    k = len(moments)
    for t in sorted({storages[i].death for i in indices}.union(moments), reverse=True):
        k = step.get(t, k)
        following[t] = k
    births = [step[storages[i].birth] for i in indices]
    deaths = [following[storages[i].death] for i in indices]
    sizes = [size // unit for size in rounded]
    change = [0] * (len(moments) + 1)
    for birth, death, size in zip(births, deaths, sizes, strict=True):
        change[birth] += size
        change[death] -= size
    live = list(accumulate(change))
    bound = max(live)
    return Buffers(births, deaths, sizes, indices, unit, bound, live.index(bound))


def place(
    storages: Sequence[Storage],
    *,
    alignment: int = 64,
    seconds: float | None = None,
    hard: bool = False,
) -> Placement:
    """Offsets for storages, multiples of `alignment`; `seconds` limits what goes beyond the basics.

    `hard` searches far longer before it settles for an arena above the lower bound.
    """
    problem = buffers(storages, alignment)
    seconds = (60.0 if hard else 0.1) if seconds is None else seconds
    deadline = time.thread_time() + seconds
    offsets, height = [0] * len(problem.sizes), problem.bound + 1
    first = True
    for found in candidates(problem, lambda: height, deadline):
        high = problem.height(found)
        if first or high < height:
            offsets, height, first = found, high, False
        if height == problem.bound:
            break
    result = [0] * len(storages)
    for i, offset in zip(problem.indices, offsets, strict=True):
        result[i] = offset * problem.unit
    unit = problem.unit
    return Placement(tuple(result), height * unit, problem.bound * unit)


def candidates(problem: Buffers, best: Callable[[], int], deadline: float) -> Iterator[list[int]]:
    """One placement after the other, cheap ones first."""
    births, deaths, sizes = problem.births, problem.deaths, problem.sizes
    if not sizes:
        yield []
        return
    life = list(map(int.__sub__, deaths, births))
    area = list(map(int.__mul__, life, sizes))
    yield outward(births, deaths, sizes, problem.moment, lambda b: -life[b])
    yield outward(births, deaths, sizes, problem.moment, births.__getitem__)
    yield outward(births, deaths, sizes, problem.moment, lambda b: -area[b])
    for key in (
        lambda b: (-area[b], b),
        lambda b: (-life[b], -sizes[b], b),
        lambda b: (-sizes[b], -life[b], b),
    ):
        if len(sizes) <= LARGEST_SEARCHED or time.thread_time() < deadline:
            yield skyline(births, deaths, sizes, sorted(range(len(sizes)), key=key))
    if len(sizes) <= LARGEST_SEARCHED:
        yield from beams(problem, best, deadline)


def beams(problem: Buffers, best: Callable[[], int], deadline: float) -> Iterator[list[int]]:
    """Beam searches of growing width."""
    within = sections(problem.births, problem.deaths, problem.sizes)
    width, branching = 1, 2
    while True:
        for slack in (0.0, 0.5):
            for tie in Tie:
                for score in Score if width > 1 else (Score.SUM,):
                    if time.thread_time() >= deadline:
                        return
                    capacity = problem.bound + int((best() - problem.bound) * slack)
                    found = search(
                        within,
                        width=width,
                        branching=branching,
                        tie=tie,
                        score=score,
                        capacity=capacity,
                        limit=best(),
                        stop=lambda: time.thread_time() >= deadline,
                    )
                    if found is not None:
                        yield found.tolist()
        width, branching = width * 6, branching + 2
