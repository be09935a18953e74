"""Layouts of the schedules that recompute: quickly, or with more effort where that may fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tawny.memory.effort import Effort
from tawny.memory.placement.beam import (
    BeamOptions,
    SlackScore,
    TieBreak,
    beam_search,
    looks_for_sections,
    sections,
)
from tawny.memory.placement.gap_search import search_gaps
from tawny.memory.placement.place import Buffers, Placement, buffers
from tawny.memory.placement.skyline import skyline_offsets
from tawny.memory.placement.sweep import sweep_outward
from tawny.memory.plan import ArenaLayout
from tawny.memory.schedule import Schedule

LARGEST_WIDE = 400
"""Storages above which beams stay narrow; above four times as many, nothing is searched."""
FEWEST_PIECES, MOST_PIECES = 100, 800
"""Pieces that the first and the last gap search look at for each storage."""


def lay_out_quickly(schedule: Schedule) -> ArenaLayout:
    """The layout of a schedule by near-linear methods."""
    todo = _buffers(schedule)
    best: Sequence[int] = [0] * len(todo.sizes)
    height = -1
    for offsets in _quick_offsets(todo) if todo.sizes else ():
        if height < 0 or todo.height(offsets) < height:
            best, height = offsets, todo.height(offsets)
        if height == todo.bound:
            break
    return _layout(schedule, todo, best)


def _buffers(schedule: Schedule) -> Buffers:
    return buffers([*schedule.storages, *schedule.scratches], schedule.problem.alignment)


def squeeze(layout: ArenaLayout, budget: int, effort: Effort) -> ArenaLayout:
    """The layout with an arena within the budget by searching longer, or as it is."""
    schedule = layout.schedule
    todo = _buffers(schedule)
    for offsets in _thorough_offsets(todo, budget // todo.unit + 1, effort):
        if offsets is not None:
            return _layout(schedule, todo, offsets)
    return layout


def _layout(schedule: Schedule, todo: Buffers, offsets: Sequence[int]) -> ArenaLayout:
    """The layout with these offsets of its buffers."""
    places = [0] * (len(schedule.storages) + len(schedule.scratches))
    for i, offset in zip(todo.indices, offsets, strict=True):
        places[i] = offset * todo.unit
    arena, bound = todo.height(offsets) * todo.unit, todo.bound * todo.unit
    return ArenaLayout(schedule, Placement(tuple(places), arena, bound))


def _quick_offsets(todo: Buffers) -> Iterator[list[int]]:
    """Sweeps outward from the fullest moment, then skylines."""
    births, deaths, sizes = todo.births, todo.deaths, todo.sizes
    life = [death - birth for birth, death in zip(births, deaths, strict=True)]
    area = [span * size for span, size in zip(life, sizes, strict=True)]
    keys: list[Callable[[int], int]] = [
        lambda b: -life[b],
        births.__getitem__,
        lambda b: -area[b],
    ]
    for key in keys:
        yield sweep_outward(births, deaths, sizes, todo.moment, key)
    for key in (keys[2], keys[0]):
        yield skyline_offsets(births, deaths, sizes, sorted(range(len(sizes)), key=key))


def _thorough_offsets(todo: Buffers, limit: int, effort: Effort) -> Iterator[list[int] | None]:
    """Searches in the order of time, and beam searches, for offsets under the limit."""
    count = len(todo.sizes)
    if not 0 < count <= 4 * LARGEST_WIDE:
        return
    life = [death - birth for birth, death in zip(todo.births, todo.deaths, strict=True)]

    def in_time(pieces: int) -> list[int] | None:
        return search_gaps(
            todo.births,
            todo.deaths,
            todo.sizes,
            moment=todo.moment,
            key=lambda b: -life[b],
            capacity=todo.bound,
            limit=limit,
            effort=effort,
            pieces=pieces,
        )

    yield in_time(FEWEST_PIECES)
    effort.spend(looks_for_sections(count))
    if effort.is_over:
        return
    parts = sections(todo.births, todo.deaths, todo.sizes)
    for width, branching in ((1, 2), (6, 4)) if count <= LARGEST_WIDE else ((1, 2),):
        for tie in TieBreak:
            options = BeamOptions(width, branching, tie, SlackScore.SUM)
            found = beam_search(parts, options, todo.bound, limit, effort)
            yield None if found is None else found.tolist()
    yield in_time(MOST_PIECES)
