"""Placement: an offset in one arena for each storage, as near the lower bound as can be found.

The pipeline stops as soon as the lower bound is met: sweeps outward from the fullest moment,
skylines and a search in the order of time, more such searches, then beam searches as long as effort
is left.  Of more storages than these can take, the largest are placed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from math import gcd

from tawny.memory.effort import SECOND, Effort
from tawny.memory.placement.beam import (
    Ints,
    SlackScore,
    TieBreak,
    beam_search,
    depth_first_search,
    looks_for_sections,
    sections,
)
from tawny.memory.placement.gap_search import search_gaps
from tawny.memory.placement.skyline import skyline
from tawny.memory.placement.sweep import fit, outward
from tawny.memory.schedule import Storage

LARGEST_SEARCHED = 4000
"""Storages above which only near-linear methods are used."""
FEW = 1000
"""Storages up to which skylines are tried even if no effort is left: they take little."""
LARGEST_REPEATED = 20_000
"""Storages above which even these are used only once."""
NARROWEST_BEAM, WIDEST_BEAM = 24, 200
"""How many partial placements a beam search carries along at first, and where it may fail."""
NOISE = 0.5
"""By how many standard deviations beams are shaken."""
FITTED_A_LOOK = 400
"""Pairs of storages that are compared in the time of a look."""
SWEEP, SKYLINE = 2, 11
"""Looks that a sweep, or a skyline, counts as for each storage."""
TIES = (TieBreak.AREA, TieBreak.LOAD, TieBreak.LIFE)
"""In which order depth-first searches try them."""


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
    race = Race(problem, Effort(max(looks, basic_looks(count))))
    methods: list[Callable[[Race], Iterator[list[int]]]] = []
    if known is not None:
        race.enter([known.offsets[i] // problem.unit for i in problem.indices])
    elif count <= LARGEST_SEARCHED:
        methods += [sweeps, skyline_by_life, gap_search, skyline_by_area, gap_searches]
    else:
        methods += [sweeps, gap_search, skyline_by_area, skyline_by_life, gap_searches]
    if count <= LARGEST_SEARCHED:
        methods.append(deep_searches)
    else:
        methods += [gap_searches, fits] if known is not None else [fits]
    for method in methods:
        for offsets in method(race):
            if race.enter(offsets) == problem.bound:
                break
        if race.height == problem.bound:
            break
    result = [0] * len(storages)
    for i, offset in zip(problem.indices, race.offsets, strict=True):
        result[i] = offset * problem.unit
    return Placement(tuple(result), race.height * problem.unit, problem.bound * problem.unit)


def basic_looks(count: int) -> int:
    """The looks that are always spent on a number of storages if need be."""
    return min(25 * count, SECOND // 10 + 5 * count)


Start = tuple[int, Callable[[int], int]]
"""A moment, and the order in which what lives then is stacked."""
FIRST: Start = (-1, lambda _: 0)
"""The beginning, when nothing lives."""


class Race:
    """The lowest placement so far, and the effort to find a lower one."""

    def __init__(self, problem: Buffers, effort: Effort) -> None:
        self.problem = problem
        self.effort = effort
        self.offsets: Sequence[int] = [0] * len(problem.sizes)
        self.height = sum(problem.sizes) + 1
        self.life = list(map(int.__sub__, problem.deaths, problem.births))
        self.area = list(map(int.__mul__, self.life, problem.sizes))

    def enter(self, offsets: Sequence[int]) -> int:
        """Note a placement; the height of the lowest so far."""
        high = self.problem.height(offsets)
        if high < self.height:
            self.offsets, self.height = offsets, high
        return self.height

    def crowded(self) -> bool:
        """Whether so much lives at once that looking at all of it each time takes too long."""
        return sum(self.life) > 2_000_000 + 50 * len(self.life)

    @property
    def fullest(self) -> Start:
        """The fullest moment, with what lives longest at the bottom."""
        return self.problem.moment, lambda b: -self.life[b]


def sweeps(race: Race) -> Iterator[list[int]]:
    """Sweeps outward, with the fullest moment stacked in several ways."""
    problem, life, area = race.problem, race.life, race.area
    keys: list[Callable[[int], int]] = [
        lambda b: -life[b],
        problem.births.__getitem__,
        lambda b: -area[b],
        lambda b: -problem.deaths[b],
    ]
    for key in keys if len(life) <= LARGEST_REPEATED else keys[:1]:
        race.effort.spend(SWEEP * len(life))
        yield outward(problem.births, problem.deaths, problem.sizes, problem.moment, key)


def skyline_by_area(race: Race) -> Iterator[list[int]]:
    """A skyline that prefers large areas."""
    area = race.area
    return skylines(race, lambda b: (-area[b], b))


def skyline_by_life(race: Race) -> Iterator[list[int]]:
    """A skyline that prefers long lives, then large sizes."""
    life, sizes = race.life, race.problem.sizes
    return skylines(race, lambda b: (-life[b], -sizes[b], b))


def skylines(race: Race, key: Callable[[int], tuple[int, ...]]) -> Iterator[list[int]]:
    """A skyline with a ranking by `key`, if effort is left or little is needed."""
    problem, count = race.problem, len(race.life)
    may = count <= FEW or not race.effort.is_over
    if count <= LARGEST_REPEATED and may and not race.crowded():
        race.effort.spend(SKYLINE * count)
        ranking = sorted(range(len(race.life)), key=key)
        yield skyline(problem.births, problem.deaths, problem.sizes, ranking)


def gap_search(race: Race) -> Iterator[list[int]]:
    """The search in the order of time that is likeliest to meet the bound, not for long."""
    large = len(race.life) > LARGEST_REPEATED
    yield from gap_tries(race, [(FIRST if large else race.fullest, not large)], pieces=150)


def gap_searches(race: Race) -> Iterator[list[int]]:
    """More searches in the order of time, first at the bound, where failure shows soon."""
    deaths = race.problem.deaths
    dying: Start = race.problem.moment, lambda b: -deaths[b]
    tries = [(race.fullest, True), (dying, True), (FIRST, True), (FIRST, False)]
    large = len(race.life) > LARGEST_REPEATED
    yield from gap_tries(race, tries[:1] if large else [*tries, (race.fullest, False)], pieces=800)


def gap_tries(race: Race, tries: Iterable[tuple[Start, bool]], pieces: int) -> Iterator[list[int]]:
    """Searches in the order of time, each either at the bound only or also above it."""
    problem = race.problem
    for (moment, key), tight in tries:
        if race.effort.is_over or race.crowded():
            return
        found = search_gaps(
            problem.births,
            problem.deaths,
            problem.sizes,
            moment=moment,
            key=key,
            capacity=problem.bound,
            limit=problem.bound + 1 if tight else race.height,
            effort=race.effort,
            pieces=pieces,
        )
        if found is not None:
            yield found


def fits(race: Race) -> Iterator[list[int]]:
    """Buffers put as low as they can be: the largest first and, with effort, in other orders."""
    problem, life, area = race.problem, race.life, race.area
    sizes, count = problem.sizes, len(life)
    keys: list[Callable[[int], tuple[int, ...]]] = [
        lambda b: (-sizes[b], -life[b], b),
        lambda b: (-area[b], b),
        lambda b: (-life[b], -sizes[b], b),
    ]
    for number, key in enumerate(keys):
        if not race.effort.is_over or (number == 0 and count <= LARGEST_REPEATED):
            race.effort.spend(count * count // FITTED_A_LOOK)
            yield fit(problem.births, problem.deaths, sizes, sorted(range(count), key=key))


def deep_searches(race: Race) -> Iterator[list[int]]:
    """Beam and depth-first searches, round after round, until the effort is over.

    In the first round beams are narrow and raise the capacity where they must.  From then on they
    are shaken by noise, so that no two are alike, and most are wide and keep to a capacity: the
    bound, or half-way to it.  Depth-first searches look at more and more.
    """
    problem = race.problem
    effort = race.effort
    effort.spend(looks_for_sections(len(problem.sizes)))
    if not problem.sizes or effort.is_over:
        return
    within = sections(problem.births, problem.deaths, problem.sizes)
    bound, seeds = problem.bound, count()

    def narrow(tie: TieBreak, score: SlackScore, width: int, noise: float) -> Ints | None:
        return beam_search(
            within,
            width=width,
            branching=5,
            tie=tie,
            score=score,
            capacity=bound,
            limit=race.height,
            effort=race.effort,
            noise=noise,
            seed=next(seeds) if noise else 0,
        )

    def wide(tie: TieBreak, score: SlackScore, capacity: int) -> Ints | None:
        return beam_search(
            within,
            width=WIDEST_BEAM,
            branching=8,
            tie=tie,
            score=score,
            capacity=capacity,
            limit=capacity + 1,
            effort=race.effort,
            noise=NOISE,
            seed=next(seeds),
            distinct=True,
        )

    def round(number: int) -> Iterator[Ints | None]:
        nodes = 2 * len(problem.sizes) * 2 ** min(number, 8)
        for score, own_tie in zip(SlackScore, TIES, strict=True):
            for tie in TieBreak if number == 0 else (own_tie,):
                width = NARROWEST_BEAM * (number + 1)
                yield narrow(tie, score, width, NOISE if number else 0.0)
            yield depth_first_search(
                within, tie=own_tie, capacity=bound, nodes=nodes, effort=effort
            )
            if number:
                yield wide(TieBreak.LIFE, SlackScore.ROOT, bound)
                yield wide(TieBreak.LOAD, SlackScore.LOG, bound)
                yield wide(TieBreak.LOAD, SlackScore.LOG, (bound + race.height) // 2)
                yield wide(TieBreak.LOAD, SlackScore.LOG, bound)

    for number in count():
        for found in round(number):
            if found is not None:
                yield found.tolist()
            if effort.is_over:
                return
