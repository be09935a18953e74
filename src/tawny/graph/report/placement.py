"""Where the items of boxes go, row by row: below what they read, and as straight as there is room.

Pages do the same in `web/placement.js`, since there boxes open and close.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from tawny.graph.report.rows import Row
from tawny.graph.report.scope_layout import ScopeLayout

GAP: Final = 26.0
"""Room between two items of a row."""

ROW_GAP: Final = 46.0
PADDING: Final = 14.0
"""Room between the frame of a box and what is in it."""

HEAD: Final = 24.0
"""Room for the name of a box."""

SWEEPS: Final = 8
LAST_SWEEPS: Final = 2
"""Sweeps in which items look both ways."""

LIGHT: Final = 0.1
"""How much less an item counts that has nobody to follow."""

SHAPE: Final = 1.5
"""How much wider than high parts that are not connected are together."""

Size = tuple[float, float]
WidthOf = Callable[[int], float]


class Rect(NamedTuple):
    """A rectangle by its left upper corner."""

    x: float
    y: float
    wide: float
    tall: float


@dataclass(frozen=True)
class GraphPlacement:
    """Rectangles of nodes and of boxes; the first box is everything."""

    nodes: list[Rect]
    boxes: list[Rect]


def place_all(
    layout: ScopeLayout, sizes: Sequence[Size], inputs: Sequence[Sequence[int]]
) -> GraphPlacement:
    """Places for nodes of these sizes, with all boxes open."""
    count = len(sizes)
    whole: list[Size] = [*sizes, *[(0.0, 0.0)] * len(layout.boxes)]
    corner: list[tuple[float, float]] = [(0.0, 0.0)] * len(whole)
    near = layout.neighbours(inputs)
    downward = list(layout.boxes_downward())
    for box in reversed(downward):
        own = layout.boxes[box]
        pad, head = (PADDING, HEAD) if box else (0.0, 0.0)
        sides = [_pack(parts, layout.id, whole, near) for parts in (own.parts, own.back) if parts]
        tall, left = max([side.tall for side in sides], default=0.0), pad
        for number, side in enumerate(sides):
            top = pad + head + (tall - side.tall if number else 0.0)
            for item, (x, y) in side.corners.items():
                corner[layout.id(item)] = left + x, top + y
            left += side.wide + GAP
        title = 7.0 * len(own.label) + 40 if box else 0.0
        whole[count + box] = max(left - GAP + pad, title), tall + 2 * pad + head
    for box in downward:
        x, y = corner[count + box]
        for item in layout.boxes[box].items:
            own_x, own_y = corner[layout.id(item)]
            corner[layout.id(item)] = x + own_x, y + own_y
    rects = [Rect(*at, *size) for at, size in zip(corner, whole, strict=True)]
    return GraphPlacement(rects[:count], rects[count:])


class _Side(NamedTuple):
    """Parts that stand beside and below each other."""

    corners: dict[int, tuple[float, float]]
    wide: float
    tall: float


def _pack(
    parts: Sequence[list[Row]],
    id_of: Callable[[int], int],
    sizes: Sequence[Size],
    near: Sequence[Sequence[int]],
) -> _Side:
    placed: list[tuple[dict[int, tuple[float, float]], float, float]] = []
    for rows in parts:
        centre = relax_rows(rows, lambda i: sizes[id_of(i)][0], lambda i: near[id_of(i)])
        edges = [
            (x - sizes[id_of(i)][0] / 2, x + sizes[id_of(i)][0] / 2) for i, x in centre.items()
        ]
        least, top = min(left for left, _ in edges), 0.0
        corners: dict[int, tuple[float, float]] = {}
        for row in rows:
            for item in row:
                corners[item] = centre[item] - sizes[id_of(item)][0] / 2 - least, top
            top += max(sizes[id_of(i)][1] for i in row) + ROW_GAP
        placed.append((corners, max(right for _, right in edges) - least, top - ROW_GAP))
    area = sum((wide + GAP) * (tall + ROW_GAP) for _, wide, tall in placed)
    widest = max([SHAPE * math.sqrt(area), *(wide for _, wide, _ in placed)])
    left = top = lowest = right = 0.0
    out: dict[int, tuple[float, float]] = {}
    for corners, wide, tall in placed:
        if left and left + wide > widest:
            left, top, lowest = 0.0, top + lowest + ROW_GAP, 0.0
        out.update({item: (left + x, top + y) for item, (x, y) in corners.items()})
        right, lowest = max(right, left + wide), max(lowest, tall)
        left += wide + GAP
    return _Side(out, right, top + lowest)


def relax_rows(
    rows: Sequence[Row], width: WidthOf, near: Callable[[int], Sequence[int]]
) -> dict[int, float]:
    """The middle of each item: near to those it is joined with, without overlaps."""
    x: dict[int, float] = {}
    level = {item: k for k, row in enumerate(rows) for item in row}
    for row in rows:
        left = 0.0
        for item in row:
            x[item] = left + width(item) / 2
            left += width(item) + GAP
        for item in row:
            x[item] -= (left - GAP) / 2
    for sweep in range(SWEEPS):
        direction = 0 if sweep >= SWEEPS - LAST_SWEEPS else 1 - 2 * (sweep % 2)
        for k in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            wishes = [_wish(item, near(item), level, x, direction) for item in rows[k]]
            x.update(zip(rows[k], _spread([width(i) for i in rows[k]], wishes), strict=True))
    return x


def _wish(
    item: int, near: Sequence[int], level: dict[int, int], x: dict[int, float], direction: int
) -> tuple[float, float]:
    """Where an item would be, and how much it matters."""
    total = weight = 0.0
    for other in near:
        if other not in level:
            continue
        away = level[item] - level[other]
        if away * direction > 0 or (not direction and away):
            total += x[other] / abs(away)
            weight += 1 / abs(away)
    return (total / weight, 1.0) if weight else (x[item], LIGHT)


def _spread(widths: Sequence[float], wishes: Sequence[tuple[float, float]]) -> list[float]:
    """The places nearest to those wished for, in least squares, at which no two items overlap.

    Less the room before them, places are in ascending order: this is isotonic regression.
    """
    room = [0.0]
    for left, right in pairwise(widths):
        room.append(room[-1] + (left + right) / 2 + GAP)
    groups: list[tuple[float, float, int]] = []
    for (wish, weight), before in zip(wishes, room, strict=True):
        mean, mass, items = wish - before, weight, 1
        while groups and groups[-1][0] > mean:
            other, heavy, more = groups.pop()
            mean = (other * heavy + mean * mass) / (heavy + mass)
            mass, items = heavy + mass, more + items
        groups.append((mean, mass, items))
    shared = [mean for mean, _, items in groups for _ in range(items)]
    return [s + r for s, r in zip(shared, room, strict=True)]
