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
from typing import cast

import numpy
from numpy.typing import NDArray

Ints = NDArray[numpy.int64]
"""Integers; those that are many are 32 bits wide where that is enough."""
Reals = NDArray[numpy.float32]


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
    clash: NDArray[numpy.bool_]
    """[buffer, buffer]: whether both live in some section."""
    parts: Ints
    """[section, buffer]: the bytes that the buffer has in the section."""
    load: Ints
    members: Ints
    """The buffers of each section, one section after the other."""
    starts: Ints
    """Where each section's members start."""
    ranks: dict[Tie, Ints]
    far: int
    """Higher than any offset."""

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
    far = 1 << (29 if sum(sizes) < 1 << 28 else 58)
    kind = numpy.int32 if far < 1 << 31 else numpy.int64
    first = numpy.array([bisect_left(times, t) for t in births])
    stop = numpy.array([bisect_left(times, t) for t in deaths])
    index, size = numpy.arange(len(times))[:, None], numpy.array(sizes, kind)
    cover = (first <= index) & (index < stop)
    clash = (first[:, None] < stop) & (first < stop[:, None])
    numpy.fill_diagonal(clash, False)
    parts = cover * size
    load = parts.sum(axis=1, dtype=kind)
    where, members = numpy.nonzero(cover)
    life = stop - first
    fullest = numpy.where(cover, load[:, None], 0).max(axis=0)
    keys = {
        Tie.LIFE: [-size, -life],
        Tie.LOAD: [-size, -life, -fullest],
        Tie.AREA: [-life, -(size * life)],
    }
    return Sections(
        cast("Ints", size),
        clash,
        cast("Ints", parts),
        cast("Ints", load),
        members,
        numpy.searchsorted(where, numpy.arange(len(times))),
        {tie: rank(numpy.lexsort(by)) for tie, by in keys.items()},
        far,
    )


def rank(order: Ints) -> Ints:
    """The place of each element in an order."""
    ranks = numpy.empty_like(order)
    ranks[order] = numpy.arange(len(order))
    return ranks


@dataclass(frozen=True, slots=True)
class Beam:
    """Partial placements, one a column."""

    lowest: Ints
    """[buffer, column]: the lowest offset of each unplaced buffer; far for placed ones."""
    rest: Ints
    """[section, column]: bytes still to place."""
    offsets: Ints
    """[buffer, column]: where the placed ones are."""
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
) -> Ints | None:
    """Offsets under `limit`, growing the capacity only when nothing fits; None if it fails."""
    count = len(problem.sizes)
    names = numpy.random.default_rng(0).integers(1, 1 << 40, count)
    nothing = numpy.zeros((count, 1), problem.sizes.dtype)
    beam = Beam(nothing, problem.load[:, None], nothing, numpy.zeros(1, numpy.int64))
    for _ in range(count):
        if stop():
            return None
        grown = grow(problem, beam, branching, problem.ranks[tie], names)
        needed = grown.floor + grown.rest
        most = needed.max(axis=0)
        capacity = max(capacity, int(most.min()))
        if capacity >= limit:
            return None
        columns = numpy.flatnonzero(most <= capacity)
        key = grown.name[columns] + names @ grown.lowest[:, columns]
        columns = columns[numpy.unique(key, return_index=True)[1]]
        if len(columns) > width:
            slack = numpy.where(grown.rest > 0, needed, problem.load[:, None])[:, columns]
            value = total_slack(score, capacity, slack)
            columns = columns[numpy.argpartition(-value, width - 1)[:width]]
        beam = grown.chosen(beam, columns)
    heights = (beam.offsets + problem.sizes[:, None]).max(axis=0)
    return cast("Ints", beam.offsets[:, heights.argmin()])


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

    def chosen(self, beam: Beam, columns: Ints) -> Beam:
        """The beam of some of the children."""
        offsets = beam.offsets[:, self.parent[columns]]
        offsets[self.buffer[columns], numpy.arange(len(columns))] = self.offset[columns]
        return Beam(self.lowest[:, columns], self.rest[:, columns], offsets, self.name[columns])


def grow(problem: Sections, beam: Beam, branching: int, ranks: Ints, names: Ints) -> Grown:
    """Place one more buffer in each way worth trying.

    A buffer is not worth placing at or above where another one could end: that one could come
    first.
    """
    sizes, count = problem.sizes, len(problem.sizes)
    worth = beam.lowest < (beam.lowest + sizes[:, None]).min(axis=0)
    key = numpy.where(worth, beam.lowest * numpy.int64(count) + ranks[:, None], problem.far * count)
    branching = min(branching, count)
    tried = numpy.argpartition(key.T, branching - 1, axis=1)[:, :branching]
    parent = numpy.repeat(numpy.arange(key.shape[1]), branching)
    buffer = tried.ravel()
    good = worth[buffer, parent]
    parent, buffer = parent[good], buffer[good]
    offset = beam.lowest[buffer, parent]
    lowest = numpy.maximum(beam.lowest[:, parent], offset)
    numpy.maximum(lowest, problem.clash[:, buffer] * (offset + sizes[buffer]), out=lowest)
    lowest[buffer, numpy.arange(len(buffer))] = problem.far
    rest = beam.rest[:, parent] - problem.parts[:, buffer]
    floor = numpy.minimum.reduceat(lowest[problem.members], problem.starts, axis=0)
    floor *= rest != 0
    return Grown(parent, buffer, offset, lowest, rest, floor, beam.name[parent] + names[buffer])


def total_slack(score: Score, capacity: int, needed: Ints) -> Reals:
    """How much room each column leaves."""
    slack = (capacity - needed).astype(numpy.float32)
    if score is Score.ROOT:
        numpy.sqrt(slack, out=slack)
    elif score is Score.LOG:
        numpy.log(slack + capacity / 1000, out=slack)
    return cast("Reals", slack.sum(axis=0))
