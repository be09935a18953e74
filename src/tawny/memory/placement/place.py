"""Placement by several methods in turn: the lowest arena that any of them finds.

The pipeline stops as soon as the lower bound is met: sweeps outward from the fullest moment,
skylines and a search in the order of time, more such searches, then beam searches as long as effort
is left.  Of more storages than these can take, the largest are placed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd

from tawny.memory.effort import SECOND, Effort
from tawny.memory.placement.beam import deep_searches
from tawny.memory.placement.gap_search import search_gaps
from tawny.memory.placement.skyline import skyline_offsets
from tawny.memory.placement.sweep import first_fit, sweep_outward
from tawny.memory.schedule import Storage

LARGEST_SEARCHED = 4000
"""Storages above which only near-linear methods are used: the others take too long."""
FEW = 1000
"""Storages up to which skylines are tried even if no effort is left: about 11 ms each."""
LARGEST_REPEATED = 20_000
"""Storages above which a near-linear method is used only once."""
PAIRS_PER_LOOK, OVERLAPS_PER_LOOK = 2000, 15
"""Pairs of storages that `first_fit` compares in the time of a look, and pairs that live at once,
which it sorts."""
SWEEP_LOOKS, SKYLINE_LOOKS = 2, 11
"""Looks that a sweep, or a skyline, counts as for each storage."""


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
    """Storages to place: sizes, rounded up and in units of `unit`, and lifetimes."""

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
    alignment: int = 1,
    looks: int | None = None,
    hard: bool = False,
    known: Placement | None = None,
) -> Placement:
    """Offsets for storages, multiples of `alignment`; `looks` limit what goes beyond the basics.

    `hard` searches far longer before it settles for an arena above the lower bound; `known` is what
    the basics gave before.
    """
    problem = buffers(storages, alignment)
    looks = (60 * SECOND if hard else SECOND // 10) if looks is None else looks
    count = len(problem.sizes)
    incumbent = Incumbent(problem, Effort(max(looks, basic_looks(count))))
    methods: list[Callable[[Incumbent], Iterator[list[int]]]] = []
    if known is not None:
        incumbent.offer([known.offsets[i] // problem.unit for i in problem.indices])
    elif count <= LARGEST_SEARCHED:
        methods += [sweeps, skyline_by_life, gap_search, skyline_by_area, gap_searches]
    else:
        methods += [sweeps, gap_search, skyline_by_area, skyline_by_life, gap_searches]
    if count <= LARGEST_SEARCHED:
        methods.append(deep_searches)
    else:
        methods += [gap_searches, first_fits] if known is not None else [first_fits]
    for method in methods:
        for offsets in method(incumbent):
            if incumbent.offer(offsets) == problem.bound:
                break
        if incumbent.height == problem.bound:
            break
    result = [0] * len(storages)
    for i, offset in zip(problem.indices, incumbent.offsets, strict=True):
        result[i] = offset * problem.unit
    return Placement(tuple(result), incumbent.height * problem.unit, problem.bound * problem.unit)


def basic_looks(count: int) -> int:
    """The looks that are always spent on a number of storages if need be."""
    return min(25 * count, SECOND // 10 + 5 * count)


StartMoment = tuple[int, Callable[[int], int]]
"""A moment, and the order in which what lives then is stacked."""
BEGINNING: StartMoment = (-1, lambda _: 0)
"""The beginning, when nothing lives."""


class Incumbent:
    """The incumbent: the lowest placement that was found, and the effort to find a lower one."""

    def __init__(self, problem: Buffers, effort: Effort) -> None:
        self.problem = problem
        self.effort = effort
        self.offsets: Sequence[int] = [0] * len(problem.sizes)
        self.height = sum(problem.sizes) + 1
        self.life = list(map(int.__sub__, problem.deaths, problem.births))
        self.area = list(map(int.__mul__, self.life, problem.sizes))

    def offer(self, offsets: Sequence[int]) -> int:
        """Keep a placement if it is lower; the height of the lowest one."""
        high = self.problem.height(offsets)
        if high < self.height:
            self.offsets, self.height = offsets, high
        return self.height

    def is_crowded(self) -> bool:
        """Whether too many buffers live at once to look at all of them for each one."""
        return sum(self.life) > 2_000_000 + 50 * len(self.life)

    @property
    def fullest(self) -> StartMoment:
        """The fullest moment, with what lives longest at the bottom."""
        return self.problem.moment, lambda b: -self.life[b]


def sweeps(incumbent: Incumbent) -> Iterator[list[int]]:
    """Sweeps outward, with the fullest moment stacked in several ways."""
    problem, life, area = incumbent.problem, incumbent.life, incumbent.area
    keys: list[Callable[[int], int]] = [
        lambda b: -life[b],
        problem.births.__getitem__,
        lambda b: -area[b],
        lambda b: -problem.deaths[b],
    ]
    for key in keys if len(life) <= LARGEST_REPEATED else keys[:1]:
        incumbent.effort.spend(SWEEP_LOOKS * len(life))
        yield sweep_outward(problem.births, problem.deaths, problem.sizes, problem.moment, key)


def skyline_by_area(incumbent: Incumbent) -> Iterator[list[int]]:
    """A skyline that prefers large areas."""
    area = incumbent.area
    return skylines(incumbent, lambda b: (-area[b], b))


def skyline_by_life(incumbent: Incumbent) -> Iterator[list[int]]:
    """A skyline that prefers long lives, then large sizes."""
    life, sizes = incumbent.life, incumbent.problem.sizes
    return skylines(incumbent, lambda b: (-life[b], -sizes[b], b))


def skylines(incumbent: Incumbent, key: Callable[[int], tuple[int, ...]]) -> Iterator[list[int]]:
    """A skyline with a ranking by `key`, if effort is left or little is needed."""
    problem, count = incumbent.problem, len(incumbent.life)
    may = count <= FEW or not incumbent.effort.is_over
    if count <= LARGEST_REPEATED and may and not incumbent.is_crowded():
        incumbent.effort.spend(SKYLINE_LOOKS * count)
        ranking = sorted(range(len(incumbent.life)), key=key)
        yield skyline_offsets(problem.births, problem.deaths, problem.sizes, ranking)


def gap_search(incumbent: Incumbent) -> Iterator[list[int]]:
    """The search in the order of time that is likeliest to meet the bound, not for long."""
    large = len(incumbent.life) > LARGEST_REPEATED
    yield from gap_tries(
        incumbent, [(BEGINNING if large else incumbent.fullest, not large)], pieces=150
    )


def gap_searches(incumbent: Incumbent) -> Iterator[list[int]]:
    """More searches in the order of time, first at the bound, where failure shows soon."""
    deaths = incumbent.problem.deaths
    dying: StartMoment = incumbent.problem.moment, lambda b: -deaths[b]
    tries = [(incumbent.fullest, True), (dying, True), (BEGINNING, True), (BEGINNING, False)]
    large = len(incumbent.life) > LARGEST_REPEATED
    yield from gap_tries(
        incumbent, tries[:1] if large else [*tries, (incumbent.fullest, False)], pieces=800
    )


def gap_tries(
    incumbent: Incumbent, tries: Iterable[tuple[StartMoment, bool]], pieces: int
) -> Iterator[list[int]]:
    """Searches in the order of time, each either at the bound only or also above it."""
    problem = incumbent.problem
    for (moment, key), tight in tries:
        if incumbent.effort.is_over or incumbent.is_crowded():
            return
        found = search_gaps(
            problem.births,
            problem.deaths,
            problem.sizes,
            moment=moment,
            key=key,
            capacity=problem.bound,
            limit=problem.bound + 1 if tight else incumbent.height,
            effort=incumbent.effort,
            pieces=pieces,
        )
        if found is not None:
            yield found


def first_fits(incumbent: Incumbent) -> Iterator[list[int]]:
    """Buffers put as low as they can be: the largest first and, with effort, in other orders."""
    problem, life, area = incumbent.problem, incumbent.life, incumbent.area
    sizes, count = problem.sizes, len(life)
    keys: list[Callable[[int], tuple[int, ...]]] = [
        lambda b: (-sizes[b], -life[b], b),
        lambda b: (-area[b], b),
        lambda b: (-life[b], -sizes[b], b),
    ]
    looks = count * count // PAIRS_PER_LOOK + sum(life) // OVERLAPS_PER_LOOK
    for number, key in enumerate(keys):
        if incumbent.effort.left >= looks or (number == 0 and looks <= basic_looks(count)):
            incumbent.effort.spend(looks)
            yield first_fit(problem.births, problem.deaths, sizes, sorted(range(count), key=key))
