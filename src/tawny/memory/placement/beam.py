"""Beam search for a placement: many partial placements grow side by side, in NumPy; or one alone.

Buffers are placed by growing offset, each at the lowest offset that what is placed allows.  Of
each partial placement remain: for each unplaced buffer that lowest offset, for each *section* (a
maximal set of buffers that live together) the bytes still to place.  A section whose lowest usable
offset plus its bytes still to place exceeds the capacity can never be completed.  What it
wastes is gone for good, so the placements that keep most slack are carried on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy
from numpy.typing import NDArray

from tawny.memory.effort import Effort

if TYPE_CHECKING:
    from tawny.memory.placement.place import Incumbent

Ints = NDArray[numpy.int64]
"""Integers; those that are many are 32 bits wide where that is enough."""
Reals = NDArray[numpy.float32]


EXPANSION_LOOKS, LAYER_LOOKS, NUMBERS_PER_LOOK = 150, 4, 60
"""The looks that one expansion of a beam counts as, those for each layer of sections, and the
numbers computed that count as one more; timed on the traces of `benchmarks/memory.py`."""

COMPACT_EVERY = 16
"""Placements after which the buffers that are placed in every column are left out."""

NARROWEST_BEAM, WIDEST_BEAM = 24, 200
"""Partial placements that a beam search carries along at first, and where it may fail; chosen by
hand: its time grows with its width."""
NOISE = 0.5
"""Standard deviations of the noise that makes beams differ from one another."""


class TieBreak(Enum):
    """The order in which buffers with the lowest offset are tried."""

    LIFE = "the longest-lived"
    LOAD = "those in the fullest sections"
    AREA = "the largest in bytes times life"


class SlackScore(Enum):
    """The score by which the slack of the sections is added up."""

    SUM = "plainly"
    ROOT = "by its square root"
    LOG = "by its logarithm"


TIES = (TieBreak.AREA, TieBreak.LOAD, TieBreak.LIFE)
"""The tie breaks in the order in which depth-first searches try them."""


@dataclass(frozen=True, slots=True)
class Sections:
    """The buffers of a placement problem over its sections."""

    sizes: Ints
    clash: NDArray[numpy.bool_]
    """[buffer, buffer]: whether both live in some section."""
    parts: Ints
    """[section, buffer]: the bytes that the buffer has in the section."""
    load: Ints
    layers: list[Ints]
    """Together the buffers of each section: layer k has one of each section that has over k.

    The sections are by falling number of buffers, so a layer is that of the first few.
    """
    ranks: dict[TieBreak, Ints]
    far: int
    """Higher than any offset."""

    @property
    def bound(self) -> int:
        """No placement is lower."""
        return int(self.load.max(initial=0))

    def by_members(self, buffers: NDArray[numpy.bool_]) -> Ints:
        """The sections that have any of some buffers, by falling number of them."""
        counts = (self.parts[:, buffers] > 0).sum(axis=1)
        order = numpy.argsort(-counts, kind="stable")
        return order[: numpy.count_nonzero(counts)]

    def subset(self, buffers: NDArray[numpy.bool_], order: Ints) -> Sections:
        """The sections `order` in that order, of some of the buffers only."""
        parts = self.parts[order][:, buffers]
        section, member = numpy.nonzero(parts)
        counts = numpy.bincount(section, minlength=len(order))
        place = numpy.arange(len(section)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        by_place = member[numpy.argsort(place, kind="stable")]
        layers = numpy.split(by_place, numpy.cumsum(numpy.bincount(place))[:-1])
        return Sections(
            self.sizes[buffers],
            self.clash[buffers][:, buffers],
            parts,
            self.load[order],
            layers,
            {tie: ranks[buffers] for tie, ranks in self.ranks.items()},
            self.far,
        )


def looks_for_sections(count: int) -> int:
    """The looks that finding the sections of `count` buffers counts as."""
    return count * count // 30


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
    index = numpy.arange(len(times))[:, None]
    size = cast("Ints", numpy.array(sizes, kind))
    cover = (first <= index) & (index < stop)
    clash = (first[:, None] < stop) & (first < stop[:, None])
    numpy.fill_diagonal(clash, False)
    parts = cover * size
    load = cast("Ints", parts.sum(axis=1, dtype=kind))
    life = stop - first
    fullest = numpy.where(cover, load[:, None], 0).max(axis=0)
    keys = {
        TieBreak.LIFE: [-size, -life],
        TieBreak.LOAD: [-size, -life, -fullest],
        TieBreak.AREA: [-life, -(size * life)],
    }
    ranks = {tie: ranks_of(numpy.lexsort(by)) for tie, by in keys.items()}
    whole = Sections(size, clash, parts, load, [], ranks, far)
    everything = numpy.ones(len(size), bool)
    return whole.subset(everything, whole.by_members(everything))


def ranks_of(order: Ints) -> Ints:
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


class BeamOptions(NamedTuple):
    """The options of a beam search."""

    width: int
    """Partial placements that are carried along."""
    branching: int
    """Buffers that are tried next, for each of them."""
    tie: TieBreak
    score: SlackScore
    noise: float = 0.0
    seed: int = 0
    distinct: bool = False
    """Whether of partial placements of the same buffers only one is carried on."""


def beam_search(
    problem: Sections, options: BeamOptions, capacity: int, limit: int, effort: Effort
) -> Ints | None:
    """Offsets under `limit`, growing the capacity only when nothing fits; None if it fails."""
    count, sizes = len(problem.sizes), problem.sizes
    random = numpy.random.default_rng(options.seed)
    names = random.integers(1, 1 << 40, count)
    index = numpy.arange(count)
    nothing = numpy.zeros((count, 1), sizes.dtype)
    beam = Beam(nothing, problem.load[:, None], nothing, numpy.zeros(1, numpy.int64))
    for depth in range(count):
        if effort.is_over:
            return None
        if depth % COMPACT_EVERY == COMPACT_EVERY - 1:
            open = numpy.asarray((beam.lowest < problem.far).any(axis=1))
            order = problem.by_members(open)
            problem = problem.subset(open, order)
            index, names = index[open], names[open]
            beam = Beam(beam.lowest[open], beam.rest[order], beam.offsets, beam.name)
        grown = expand(problem, beam, options.branching, problem.ranks[options.tie], names)
        effort.spend(grown.looks)
        needed = grown.floor + grown.rest
        most = needed.max(axis=0)
        capacity = max(capacity, int(most.min()))
        if capacity >= limit:
            return None
        columns = numpy.flatnonzero(most <= capacity)
        key = grown.name[columns] + names @ grown.lowest[:, columns]
        columns = columns[numpy.unique(key, return_index=True)[1]]
        if len(columns) > options.width:
            slack = numpy.where(grown.rest > 0, needed, problem.load[:, None])[:, columns]
            value = total_slack(options.score, capacity, slack)
            columns = best_columns(options, columns, grown.name[columns], value, random)
        beam = grown.select(beam, columns, index)
    heights = (beam.offsets + sizes[:, None]).max(axis=0)
    return beam.offsets[:, heights.argmin()]


def best_columns(
    options: BeamOptions,
    columns: Ints,
    names: Ints,
    value: Reals,
    random: numpy.random.Generator,
) -> Ints:
    """The columns that are carried on, given their names and values."""
    if options.noise:
        value += options.noise * value.std() * random.standard_normal(len(value))
    if options.distinct:
        best = best_of_each(names, value)
        columns, value = columns[best], value[best]
    width = options.width
    if len(columns) <= width:
        return columns
    return columns[numpy.argpartition(-value, width - 1)[:width]]


def best_of_each(names: Ints, value: Reals) -> Ints:
    """Where each name has its highest value."""
    order = numpy.lexsort((-value, names))
    is_first = numpy.ones(len(order), bool)
    is_first[1:] = names[order[1:]] != names[order[:-1]]
    return order[is_first]


@dataclass(frozen=True, slots=True)
class Children:
    """The children of a beam, each with one more buffer placed."""

    parent: Ints
    buffer: Ints
    offset: Ints
    lowest: Ints
    rest: Ints
    floor: Ints
    name: Ints
    looks: int
    """The looks that finding them counts as."""

    def select(self, beam: Beam, columns: Ints, index: Ints) -> Beam:
        """The beam of some of the children; `index` says which buffers the rows are."""
        offsets = beam.offsets[:, self.parent[columns]]
        offsets[index[self.buffer[columns]], numpy.arange(len(columns))] = self.offset[columns]
        return Beam(self.lowest[:, columns], self.rest[:, columns], offsets, self.name[columns])


def expand(problem: Sections, beam: Beam, branching: int, ranks: Ints, names: Ints) -> Children:
    """Place one more buffer in each way worth trying.

    A buffer is not worth placing at or above where another one could end: that one could come
    first.
    """
    sizes, count = problem.sizes, len(problem.sizes)
    worth = beam.lowest < (beam.lowest + sizes[:, None]).min(axis=0)
    ranked = beam.lowest * numpy.int64(ranks.max() + 1) + ranks[:, None]
    key = numpy.where(worth, ranked, numpy.iinfo(numpy.int64).max)
    branching = min(branching, count)
    tried = numpy.argpartition(key.T, branching - 1, axis=1)[:, :branching]
    parent = numpy.repeat(numpy.arange(key.shape[1], dtype=numpy.int64), branching)
    buffer = tried.ravel()
    good = worth[buffer, parent]
    parent, buffer = parent[good], buffer[good]
    offset = beam.lowest[buffer, parent]
    lowest = numpy.maximum(beam.lowest[:, parent], offset)
    numpy.maximum(lowest, problem.clash[:, buffer] * (offset + sizes[buffer]), out=lowest)
    lowest[buffer, numpy.arange(len(buffer))] = problem.far
    rest = beam.rest[:, parent] - problem.parts[:, buffer]
    floor = lowest[problem.layers[0]]
    for layer in problem.layers[1:]:
        numpy.minimum(floor[: len(layer)], lowest[layer], out=floor[: len(layer)])
    floor *= rest != 0
    looks = (
        EXPANSION_LOOKS
        + LAYER_LOOKS * len(problem.layers)
        + (lowest.size + rest.size) // NUMBERS_PER_LOOK
    )
    name = beam.name[parent] + names[buffer]
    return Children(parent, buffer, offset, lowest, rest, floor, name, looks)


def total_slack(score: SlackScore, capacity: int, needed: Ints) -> Reals:
    """The slack that each column leaves, added up over the sections."""
    slack = (capacity - needed).astype(numpy.float32)
    if score is SlackScore.ROOT:
        numpy.sqrt(slack, out=slack)
    elif score is SlackScore.LOG:
        numpy.log(slack + capacity / 3000, out=slack)
    return cast("Reals", slack.sum(axis=0))


def depth_first_search(
    problem: Sections, *, tie: TieBreak, capacity: int, nodes: int, effort: Effort
) -> Ints | None:
    """Offsets within `capacity`; None if there are none or `nodes` were not enough.

    The moves and what rules them out are those of the beam search; here the best-ranked move is
    followed to the end, and each partial placement is looked at once.
    """
    count, ranks = len(problem.sizes), problem.ranks[tie]
    names = numpy.random.default_rng(0).integers(1, 1 << 40, count)
    index = numpy.arange(count)
    nothing = numpy.zeros((count, 1), problem.sizes.dtype)
    start = Beam(nothing, problem.load[:, None], nothing, numpy.zeros(1, numpy.int64))
    stack: list[tuple[int, Beam]] = [(0, start)]
    seen: set[int] = set()
    for _ in range(nodes):
        if not stack or effort.is_over:
            return None
        placed, node = stack.pop()
        if placed == count:
            return node.offsets[:, 0]
        grown = expand(problem, node, count, ranks, names)
        effort.spend(grown.looks)
        fits = numpy.flatnonzero((grown.floor + grown.rest).max(axis=0) <= capacity)
        fits = fits[numpy.lexsort((-ranks[grown.buffer[fits]], -grown.offset[fits]))]
        keys = (grown.name[fits] + names @ grown.lowest[:, fits]).tolist()
        for column, key in zip(fits.tolist(), keys, strict=True):
            if key not in seen:
                seen.add(key)
                stack.append((placed + 1, grown.select(node, numpy.array([column]), index)))
    return None


def deep_searches(incumbent: Incumbent) -> Iterator[list[int]]:
    """Beam and depth-first searches, round after round, until the effort is over.

    In the first round beams are narrow and raise the capacity where they must.  From then on they
    are shaken by noise, so that no two are alike, and most are wide and keep to a capacity: the
    bound, or half-way to it.  Depth-first searches look at more and more.
    """
    problem, effort = incumbent.problem, incumbent.effort
    effort.spend(looks_for_sections(len(problem.sizes)))
    if not problem.sizes or effort.is_over:
        return
    rounds = SearchRounds(incumbent)
    for number in count():
        for found in rounds.run(number):
            if found is not None:
                yield found.tolist()
            if effort.is_over:
                return


class SearchRounds:
    """The rounds of searches for a lower placement than the incumbent's."""

    def __init__(self, incumbent: Incumbent) -> None:
        self.incumbent, self.effort = incumbent, incumbent.effort
        problem = incumbent.problem
        self.sections = sections(problem.births, problem.deaths, problem.sizes)
        self.bound, self.count = problem.bound, len(problem.sizes)
        self._seeds = count()

    def run(self, number: int) -> Iterator[Ints | None]:
        """The searches of a round."""
        nodes = 2 * self.count * 2 ** min(number, 8)
        for score, own_tie in zip(SlackScore, TIES, strict=True):
            for tie in TieBreak if number == 0 else (own_tie,):
                yield self._search_narrow(tie, score, number)
            yield depth_first_search(
                self.sections, tie=own_tie, capacity=self.bound, nodes=nodes, effort=self.effort
            )
            if number:
                yield self._search_wide(TieBreak.LIFE, SlackScore.ROOT, self.bound)
                yield self._search_wide(TieBreak.LOAD, SlackScore.LOG, self.bound)
                half = (self.bound + self.incumbent.height) // 2
                yield self._search_wide(TieBreak.LOAD, SlackScore.LOG, half)
                yield self._search_wide(TieBreak.LOAD, SlackScore.LOG, self.bound)

    def _search_narrow(self, tie: TieBreak, score: SlackScore, number: int) -> Ints | None:
        options = BeamOptions(NARROWEST_BEAM * (number + 1), 5, tie, score)
        if number:
            options = options._replace(noise=NOISE, seed=next(self._seeds))
        return beam_search(self.sections, options, self.bound, self.incumbent.height, self.effort)

    def _search_wide(self, tie: TieBreak, score: SlackScore, capacity: int) -> Ints | None:
        options = BeamOptions(WIDEST_BEAM, 8, tie, score, NOISE, next(self._seeds), distinct=True)
        return beam_search(self.sections, options, capacity, capacity + 1, self.effort)
