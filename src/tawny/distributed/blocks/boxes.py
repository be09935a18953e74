"""Boxes, ranges along every axis of an array, and chunks, the cuts of every axis into ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, product
from math import prod
from typing import Final

from tawny.shape import Shape

Span = tuple[int, int]
"""The first place along an axis, and the one after the last."""

Box = tuple[Span, ...]

Sizes = tuple[int, ...]
"""How long the chunks of one axis are, in order."""

Chunks = tuple[Sizes, ...]

WASTE: Final = 1.25
"""How many times as large as two boxes together one around both may be, to be used instead."""


def whole(shape: Shape) -> Box:
    """The box of a whole array of this shape."""
    return tuple([(0, n) for n in shape])


def box_shape(box: Box) -> Shape:
    """The shape of what is in a box."""
    return tuple([stop - start for start, stop in box])


def volume(box: Box) -> int:
    """How many elements there are in a box."""
    return prod(box_shape(box))


def hull(one: Box, other: Box) -> Box:
    """The smallest box around two."""
    return tuple([(min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other, strict=True)])


def meet(one: Box, other: Box) -> Box | None:
    """What two boxes have in common; None if that is nothing."""
    pairs = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True)]
    return tuple(pairs) if all(start < stop for start, stop in pairs) else None


def covers(one: Box, other: Box) -> bool:
    """Whether all of the other box lies in the one."""
    for (a, b), (c, d) in zip(one, other, strict=True):  # noqa: SIM110  (asked often)
        if c < a or b < d:
            return False
    return True


def relative(box: Box, base: Box) -> Box:
    """A box as it lies in what is in another one."""
    return tuple([(a - c, b - c) for (a, b), (c, _) in zip(box, base, strict=True)])


def merge(boxes: Sequence[Box]) -> list[Box]:
    """Boxes that cover all of these, one for several where that wastes little."""
    if len(boxes) == 1:
        return list(boxes)
    merged: list[Box] = []
    for box in dict.fromkeys(boxes):
        new, at = box, 0
        while at < len(merged):
            around = hull(new, merged[at])
            if volume(around) <= WASTE * (volume(new) + volume(merged[at])):
                new, at = around, 0
                merged = [m for m in merged if not covers(around, m)]
            else:
                at += 1
        merged.append(new)
    return merged


# ------------------------------------------------------------------------ chunks


def single(shape: Shape) -> Chunks:
    """One chunk along every axis."""
    return tuple([(n,) for n in shape])


def is_cut(chunks: Chunks) -> bool:
    """Whether there is more than one block."""
    return any(len(sizes) > 1 for sizes in chunks)


def without_empty(sizes: Sizes) -> Sizes:
    """The chunks that have elements; one without if there are none."""
    return tuple([n for n in sizes if n]) or (0,)


def bounds(sizes: Sizes) -> list[int]:
    """Where chunks begin and end."""
    return [0, *accumulate(sizes)]


def from_bounds(places: Sequence[int]) -> Sizes:
    """The chunks between such places; those without elements are left out."""
    return without_empty(tuple([b - a for a, b in pairwise(places)]) or (0,))


def spans(sizes: Sizes) -> list[Span]:
    """The range of each chunk."""
    return list(pairwise(bounds(sizes)))


def cells(grid: Chunks) -> Iterator[tuple[tuple[int, ...], Box]]:
    """Every block: its place in the grid, and its box."""
    ranges = [spans(sizes) for sizes in grid]
    places = product(*[range(len(sizes)) for sizes in grid])
    for place in places:
        yield place, tuple([r[i] for r, i in zip(ranges, place, strict=True)])


def largest_cell(grid: Chunks) -> Box:
    """The largest block; of several along an axis one in the middle, which has two neighbours."""
    box: list[Span] = []
    for sizes in grid:
        most = max(sizes)
        places = [i for i, n in enumerate(sizes) if n == most]
        box.append(spans(sizes)[places[len(places) // 2]])
    return tuple(box)


def halve(sizes: Sizes) -> Sizes:
    """Chunks of at most half the length."""
    most = max(1, -(-max(sizes) // 2))
    made: list[int] = []
    for n in sizes:
        count = max(1, -(-n // most))
        each, more = divmod(n, count)
        made += [each + (k < more) for k in range(count)]
    return tuple(made)


def overlaps(ends: Sequence[int], span: Span) -> list[tuple[int, Span, Span]]:
    """The chunks that a range touches: which, what of each, and where that lies in the range.

    Chunks are given by their bounds.
    """
    found: list[tuple[int, Span, Span]] = []
    start, stop = span
    number = max(0, bisect_right(ends, start) - 1)
    while number < len(ends) - 1 and ends[number] < stop:
        first, last = ends[number], ends[number + 1]
        low, high = max(first, start), min(last, stop)
        if low < high:
            found.append((number, (low - first, high - first), (low - start, high - start)))
        number += 1
    return found
