"""Cuts of loops: they fit, cover all steps, and compute hardly more again than binomial checkpointing."""

from __future__ import annotations

from math import comb

import pytest

from tawny.rewrite.loop_cuts import (
    LoopCut,
    StepBytes,
    bytes_kept,
    choose_cut,
    steps_again,
    whole_segments,
)

ALIKE = StepBytes(1, 1)


def fewest_again(length: int, places: int) -> int:
    """The fewest steps again where so many carries are kept: Griewank and Walther's formula."""
    times = 0
    while comb(places + times, times) < length:
        times += 1
    return times * length - comb(places + times, times - 1) - length if times else 0


def walk(cut: LoopCut | None, length: int, again: int, counts: list[int]) -> list[int]:
    """How often each step is computed again, in order."""
    if cut is None:
        return [*counts, *[again] * length]
    assert cut.segment > 0
    assert cut.segments > 0
    assert cut.steps <= length
    for _ in range(cut.segments):
        counts = walk(cut.inner, cut.segment, again + 1, counts)
    return walk(cut.tail, length - cut.steps, again, counts)


@pytest.mark.parametrize("length", [2, 7, 100, 1000])
@pytest.mark.parametrize("step", [ALIKE, StepBytes(8, 40), StepBytes(24, 8), StepBytes(1, 1000)])
def test_cuts_fit_and_cover_all_steps(length: int, step: StepBytes) -> None:
    whole = length * step.row
    for room in {int(whole * share) for share in (0.99, 0.7, 0.3, 0.12, 0.05, 0.02, 0, -1)}:
        cut = choose_cut(length, room, step)
        counts = walk(cut, length, 0, [])
        assert len(counts) == length
        assert sum(counts) == steps_again(cut)
        fits = bytes_kept(cut, length, step) <= room
        assert fits or cut in (None, whole_segments(length, step))


@pytest.mark.parametrize(
    ("length", "places"), [(100, 90), (100, 20), (1000, 250), (1000, 39), (1000, 20), (10_000, 60)]
)
def test_hardly_more_is_computed_again_than_by_binomial_checkpointing(
    length: int, places: int
) -> None:
    again, fewest = steps_again(choose_cut(length, places, ALIKE)), fewest_again(length, places)
    assert fewest <= again <= 1.25 * fewest + 5


def test_segments_that_leave_nothing_to_join() -> None:
    for length in (64, 97, 100, 10_000, 12_345):
        cut = whole_segments(length, ALIKE)
        assert length - cut.steps < cut.segment
        assert bytes_kept(cut, length, ALIKE) <= 4 * length**0.5
