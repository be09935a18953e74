"""Beam search for a placement: many partial placements grow side by side, in NumPy.

Buffers are placed by growing offset, each at the lowest offset that what is placed allows.  Of
each partial placement remain: for each unplaced buffer that lowest offset, for each *section* (a
maximal set of buffers that live together) the bytes still to place.  A section whose lowest usable
offset plus its bytes still to place exceeds the capacity can never be completed.  What it
wastes is gone for good, so the placements that keep most slack are carried on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy
from numpy.typing import NDArray

Ints = NDArray[numpy.int64]
Reals = NDArray[numpy.float64]

FAR = numpy.int64(1) << 50
"""Higher than any offset."""


class Tie(Enum):
    """Which of the buffers with the lowest offset are tried first."""

    LIFE = "the longest-lived"
    LOAD = "those in the fullest sections"
    AREA = "the largest in bytes times life"


class Score(Enum):
    """How the slack of the sections is added up."""

    SUM = "plainly"
    ROOT = "by its square root"
    LOG = "by its logarithm"


@dataclass(frozen=True, slots=True)
class Sections:
    """The buffers of a placement problem over its sections."""

    sizes: Ints
    cover: NDArray[numpy.bool_]
    """[buffer, section]: whether the buffer lives in it."""
    clash: NDArray[numpy.bool_]
    """[buffer, buffer]: whether both live in some section."""
    load: Ints
    members: Ints
    """The buffers of each section, one section after the other."""
    starts: Ints
    """Where each section's members start."""
    ranks: dict[Tie, Ints]

    @property
    def bound(self) -> int:
        """No placement is lower."""
        return int(self.load.max(initial=0))


def sections(births: Sequence[int], deaths: Sequence[int], sizes: Sequence[int]) -> Sections:
    """The maximal sets of buffers that live together: at a birth that a death follows."""
    begins, ends = sorted(set(births)), sorted(set(deaths))
    times: list[int] = []
    for t, following in zip(begins, [*begins[1:], ends[-1] + 1], strict=True):
        i = bisect_right(ends, t)
        if i < len(ends) and ends[i] <= following:
            times.append(t)
    first = numpy.array([bisect_left(times, t) for t in births], numpy.int64)
    stop = numpy.array([bisect_left(times, t) for t in deaths], numpy.int64)
    count, size = len(times), numpy.array(sizes, numpy.int64)
    index = numpy.arange(count)
    cover = (first[:, None] <= index) & (index < stop[:, None])
    clash = (first[:, None] < stop) & (first < stop[:, None])
    numpy.fill_diagonal(clash, False)
    load = size @ cover
    members = [numpy.flatnonzero(cover[:, k]) for k in range(count)]
    starts = numpy.cumsum([0, *[len(m) for m in members[:-1]]])
    life = stop - first
    fullest = numpy.where(cover, load, 0).max(axis=1)
    keys = {
        Tie.LIFE: [-size, -life],
        Tie.LOAD: [-size, -life, -fullest],
        Tie.AREA: [-life, -size * life],
    }
    ranks = {tie: rank(numpy.lexsort(by)) for tie, by in keys.items()}
    return Sections(size, cover, clash, load, numpy.concatenate(members), starts, ranks)


def rank(order: Ints) -> Ints:
    """The place of each element in an order."""
    ranks = numpy.empty_like(order)
    ranks[order] = numpy.arange(len(order))
    return ranks


@dataclass(frozen=True, slots=True)
class Beam:
    """Partial placements, one a row."""

    lowest: Ints
    """[row, buffer]: the lowest offset of each unplaced buffer; `FAR` for placed ones."""
    rest: Ints
    """[row, section]: bytes still to place."""
    offsets: Ints
    """[row, buffer]: where the placed ones are."""
    name: Ints
    """A number for the set of placed buffers."""


def search(
    problem: Sections,
    *,
    width: int,
    branching: int,
    tie: Tie,
    score: Score,
    capacity: int,
    limit: int,
    stop: Callable[[], bool],
    seed: int = 0,
) -> Ints | None:
    """Offsets under `limit`, growing the capacity only when nothing fits; None if it fails."""
    random = numpy.random.default_rng(seed)
    count = len(problem.sizes)
    names = random.integers(1, 1 << 40, count)
    beam = Beam(
        numpy.zeros((1, count), numpy.int64),
        problem.load[None].copy(),
        numpy.zeros((1, count), numpy.int64),
        numpy.zeros(1, numpy.int64),
    )
    for _ in range(count):
        if stop():
            return None
        grown = grow(problem, beam, branching, problem.ranks[tie], names)
        needed = grown.floor + grown.rest
        most = needed.max(axis=1)
        capacity = max(capacity, int(most.min()))
        if capacity >= limit:
            return None
        rows = numpy.flatnonzero(most <= capacity)
        key = (
            grown.name[rows] + numpy.where(grown.lowest[rows] < FAR, grown.lowest[rows], 0) @ names
        )
        rows = rows[numpy.unique(key, return_index=True)[1]]
        if len(rows) > width:
            value = total_slack(score, capacity, needed[rows], problem.load, grown.rest[rows])
            rows = rows[numpy.argpartition(-value, width - 1)[:width]]
        beam = grown.chosen(beam, rows)
    return beam.offsets[(beam.offsets + problem.sizes).max(axis=1).argmin()]


@dataclass(frozen=True, slots=True)
class Grown:
    """The children of a beam, each with one more buffer placed."""

    parent: Ints
    buffer: Ints
    offset: Ints
    lowest: Ints
    rest: Ints
    floor: Ints
    name: Ints

    def chosen(self, beam: Beam, rows: Ints) -> Beam:
        """The beam of some of the children."""
        offsets = beam.offsets[self.parent[rows]]
        offsets[numpy.arange(len(rows)), self.buffer[rows]] = self.offset[rows]
        return Beam(self.lowest[rows], self.rest[rows], offsets, self.name[rows])


def grow(problem: Sections, beam: Beam, branching: int, ranks: Ints, names: Ints) -> Grown:
    """Place one more buffer in each way worth trying.

    A buffer is not worth placing at or above where another one could end: that one could come
    first.
    """
    sizes = problem.sizes
    worth = beam.lowest < (beam.lowest + sizes).min(axis=1)[:, None]
    key = numpy.where(worth, beam.lowest * len(sizes) + ranks, FAR * len(sizes))
    if branching < len(sizes):
        tried = numpy.argpartition(key, branching - 1, axis=1)[:, :branching]
    else:
        tried = numpy.broadcast_to(numpy.arange(len(sizes)), key.shape)
    parent = numpy.repeat(numpy.arange(len(key)), tried.shape[1])
    buffer = tried.ravel()
    good = worth[parent, buffer]
    parent, buffer = parent[good], buffer[good]
    offset = beam.lowest[parent, buffer]
    top = offset + sizes[buffer]
    lowest = numpy.maximum(beam.lowest[parent], offset[:, None])
    numpy.maximum(lowest, top[:, None], out=lowest, where=problem.clash[buffer])
    lowest[numpy.arange(len(buffer)), buffer] = FAR
    rest = beam.rest[parent] - problem.cover[buffer] * sizes[buffer][:, None]
    floor = numpy.minimum.reduceat(lowest[:, problem.members], problem.starts, axis=1)
    floor[rest == 0] = 0
    return Grown(parent, buffer, offset, lowest, rest, floor, beam.name[parent] + names[buffer])


def total_slack(score: Score, capacity: int, needed: Ints, load: Ints, rest: Ints) -> Reals:
    """How much room each row leaves; sections that are complete count as untouched ones."""
    slack = numpy.where(rest > 0, capacity - needed, capacity - load).astype(numpy.float64)
    if score is Score.ROOT:
        numpy.sqrt(slack, out=slack)
    elif score is Score.LOG:
        numpy.log(slack + capacity / 1000, out=slack)
    return slack.sum(axis=1)
