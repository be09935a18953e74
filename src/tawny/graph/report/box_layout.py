"""Layered drawings: where the boxes of a graph go so that edges run down and cross little.

Layers by longest path; long edges pass each layer in a lane of their own; the order in each layer
by barycentres; the places along it by least squares.  What is not connected stands side by side.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from tawny.graph.report.scope_layout import components, levels

GAP: Final = 26.0
"""Room between two boxes of a layer."""

LANE: Final = 10.0
"""Room a passing edge takes."""

LAYER_GAP: Final = 44.0
PART_GAP: Final = 48.0

ASIDE: Final = 0.3
"""Where an extra edge meets a box, right of its middle, as a part of its width."""

_ORDER_SWEEPS: Final = 12
_MAX_RELAX_SWEEPS: Final = 120
_STRAIGHT: Final = 8.0
"""How much more than a box a lane holds its place."""

_LIGHT: Final = 0.1
"""How much less a box without inputs does, so that the chains beside it run straight."""


class Lane(NamedTuple):
    """The place where an edge passes a layer."""

    x: float
    top: float
    bottom: float


@dataclass(frozen=True)
class BoxLayout:
    """Centres of the boxes, and the lanes of the edges.

    The edges from box `i` share the lanes `i, layer`; extra edge `k` has lanes `boxes + k, layer`.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    layer: tuple[int, ...]
    lanes: dict[tuple[int, int], Lane]
    width: float
    height: float


Size = tuple[float, float]


def port(width: float, position: int, count: int) -> float:
    """Where input `position` of `count` enters a box, right of its middle."""
    if count == 1:
        return 0.0
    return min(width * 0.6, 22.0 * (count - 1)) * (position / (count - 1) - 0.5)


class _End(NamedTuple):
    """An item at the other end of an edge, and where the edge meets it, right of its middle."""

    item: int
    offset: float


def place_boxes(
    sizes: Sequence[Size], inputs: Sequence[Sequence[int]], extra: Sequence[tuple[int, int]]
) -> BoxLayout:
    """Places for boxes of these sizes, each with the numbers of its inputs, which are smaller.

    `extra` are further edges (upper, lower), drawn apart from those to inputs.
    """
    layer = levels(inputs)
    edges = [(source, box) for box, sources in enumerate(inputs) for source in sources]
    groups = components(len(inputs), [*edges, *extra])
    parts = [_Component(sizes, inputs, extra, layer, boxes) for boxes in groups]
    parts.sort(key=lambda p: -p.width * p.height)
    area = sum((p.width + PART_GAP) * (p.height + PART_GAP) for p in parts)
    widest = max([1.6 * math.sqrt(area), *(p.width for p in parts)])
    x, y = [0.0] * len(sizes), [0.0] * len(sizes)
    lanes: dict[tuple[int, int], Lane] = {}
    left = top = tall = right = 0.0
    for part in parts:
        if left and left + part.width > widest:
            left, top, tall = 0.0, top + tall + PART_GAP, 0.0
        for box, (own_x, own_y) in part.places():
            x[box], y[box] = own_x + left, own_y + top
        for key, lane in part.lanes():
            lanes[key] = Lane(lane.x + left, lane.top + top, lane.bottom + top)
        right, tall = max(right, left + part.width), max(tall, part.height)
        left += part.width + PART_GAP
    return BoxLayout(tuple(x), tuple(y), tuple(layer), lanes, right, top + tall)


class _Component:
    """A connected part: items by layer, which are boxes and the lanes in which edges pass.

    Edges join items of neighbouring layers.  The first items are the boxes.
    """

    def __init__(
        self,
        sizes: Sequence[Size],
        inputs: Sequence[Sequence[int]],
        extra: Sequence[tuple[int, int]],
        layer: Sequence[int],
        boxes: Sequence[int],
    ) -> None:
        self.boxes = boxes
        self.sizes = [sizes[b] for b in boxes]
        self.layer = [layer[b] for b in boxes]
        self.box_width = [w for w, _ in self.sizes]
        self.up: list[list[_End]] = [[] for _ in boxes]
        self.down: list[list[_End]] = [[] for _ in boxes]
        self.lane: dict[tuple[int, int], int] = {}
        own = {box: item for item, box in enumerate(boxes)}
        for box in boxes:
            for position, source in enumerate(inputs[box]):
                offset = port(sizes[box][0], position, len(inputs[box]))
                self.join(source, own[source], own[box], offset)
        for number, (upper, lower) in enumerate(extra):
            if upper in own and layer[upper] < layer[lower]:
                aside = sizes[lower][0] * ASIDE
                self.join(len(inputs) + number, own[upper], own[lower], aside)
        least = min(self.layer)
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer) - least + 1)]
        for item, level in enumerate(self.layer):
            self.rows[level - least].append(item)
        self.x = [0.0] * len(self.layer)
        self.order()
        self.relax()
        self.measure(least)

    def join(self, edge: int, upper: int, lower: int, offset: float) -> None:
        """An edge between two boxes, in the lanes of `edge`."""
        above = upper
        for level in range(self.layer[upper] + 1, self.layer[lower]):
            item = self.lane.get((edge, level))
            if item is None:
                item = self.lane[edge, level] = len(self.layer)
                self.layer.append(level)
                self.up.append([_End(above, 0.0)])
                self.down.append([])
                self.down[above].append(_End(item, 0.0))
            above = item
        self.up[lower].append(_End(above, -offset))
        self.down[above].append(_End(lower, offset))

    def width_of(self, item: int) -> float:
        return self.box_width[item] if item < len(self.boxes) else LANE

    # -------------------------------------------------------------------- order

    def order(self) -> None:
        """Put each layer in an order with few crossings: that of the best sweep."""
        best, fewest = [list(r) for r in self.rows], self.crossings()
        for sweep in range(_ORDER_SWEEPS):
            if not fewest:
                break
            place = self.positions()
            near = self.down if sweep % 2 else self.up
            for row in self.rows[-2::-1] if sweep % 2 else self.rows[1:]:
                wishes = [_mean([_rank(place, e) for e in near[i]], place[i]) for i in row]
                row[:] = [i for _, i in sorted(zip(wishes, row, strict=True), key=_first)]
                for position, item in enumerate(row):
                    place[item] = position
            self.swap(place)
            crossings = self.crossings()
            if crossings < fewest:
                best, fewest = [list(r) for r in self.rows], crossings
        self.rows = best

    def swap(self, place: list[float]) -> None:
        """Exchange neighbours wherever their edges cross less that way round."""
        for row in self.rows:
            for k in range(len(row) - 1):
                left, right = row[k], row[k + 1]
                gain = 0
                for near in (self.up, self.down):
                    ends = [
                        (_rank(place, a), _rank(place, b)) for a in near[left] for b in near[right]
                    ]
                    gain += sum((a > b) - (a < b) for a, b in ends)
                if gain > 0:
                    row[k], row[k + 1] = right, left
                    place[left], place[right] = k + 1, k

    def positions(self) -> list[float]:
        place = [0.0] * len(self.layer)
        for row in self.rows:
            for position, item in enumerate(row):
                place[item] = position
        return place

    def crossings(self) -> int:
        """How many pairs of edges between neighbouring layers cross."""
        place = self.positions()
        total = 0
        for row in self.rows[:-1]:
            ends: list[float] = []
            for item in row:
                below = [_rank(place, e) for e in self.down[item]]
                total += sum(len(ends) - bisect_right(ends, b) for b in below)
                for b in below:
                    insort(ends, b)
        return total

    # ------------------------------------------------------------------- places

    def relax(self) -> None:
        """Let items move along their layers towards what they are joined with."""
        for row in self.rows:
            reached = 0.0
            for item in row:
                self.x[item] = reached + self.width_of(item) / 2
                reached += self.width_of(item) + GAP
        for sweep in range(_MAX_RELAX_SWEEPS):
            upward, late = sweep % 2 == 1, sweep > _MAX_RELAX_SWEEPS // 4
            moved = 0.0
            for row in self.rows[::-1] if upward else self.rows:
                wishes = [self.wish(i, upward, late) for i in row]
                for item, x in zip(row, self.spread(row, wishes), strict=True):
                    moved = max(moved, abs(self.x[item] - x))
                    self.x[item] = x
            if late and moved < 0.5:
                break

    def wish(self, item: int, upward: bool, late: bool) -> tuple[float, float]:
        """Where an item would be, and how much it matters.

        Lanes go on straight from where the sweep comes from; in late sweeps boxes look both ways.
        Boxes without inputs follow the others.
        """
        came, ahead = (self.down, self.up) if upward else (self.up, self.down)
        if item >= len(self.boxes):
            return _mean([self.x[n] + o for n, o in came[item]], self.x[item]), _STRAIGHT
        near = came[item] + ahead[item] if late else came[item]
        if not near:
            return self.x[item], _LIGHT
        firm = [e for e in near if e.item >= len(self.boxes) or self.up[e.item]] or near
        place = _mean([self.x[n] + o for n, o in firm], self.x[item])
        return place, 1.0 if self.up[item] else _LIGHT

    def spread(self, row: list[int], wishes: list[tuple[float, float]]) -> list[float]:
        """The places nearest to those wished for, in least squares, at which no two items overlap.

        Less the room before them, places are in ascending order: this is isotonic regression.
        """
        room, boxes = [0.0], len(self.boxes)
        for left, right in pairwise(row):
            gap = LANE if left >= boxes and right >= boxes else GAP
            room.append(room[-1] + (self.width_of(left) + self.width_of(right)) / 2 + gap)
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

    def measure(self, least: int) -> None:
        """Fix the layers' heights and the width of all."""
        spans = [(self.x[i] - self.width_of(i) / 2, self.x[i] + self.width_of(i) / 2)
                 for row in self.rows for i in row]  # fmt: skip
        self.left = min(s for s, _ in spans)
        self.width = max(e for _, e in spans) - self.left
        self.borders: dict[int, tuple[float, float]] = {}
        reached = 0.0
        for level, row in enumerate(self.rows, least):
            tall = max((self.sizes[i][1] for i in row if i < len(self.boxes)), default=LANE)
            self.borders[level] = (reached, reached + tall)
            reached += tall + LAYER_GAP
        self.height = reached - LAYER_GAP

    def places(self) -> list[tuple[int, tuple[float, float]]]:
        """The centre of each box."""
        return [
            (box, (self.x[i] - self.left, sum(self.borders[self.layer[i]]) / 2))
            for i, box in enumerate(self.boxes)
        ]

    def lanes(self) -> list[tuple[tuple[int, int], Lane]]:
        """Where edges pass."""
        return [
            ((edge, level), Lane(self.x[item] - self.left, *self.borders[level]))
            for (edge, level), item in self.lane.items()
        ]


def _rank(place: Sequence[float], end: _End) -> float:
    """The position of an edge's end in its layer; ends at one box are told apart."""
    return place[end.item] + end.offset / (2 * abs(end.offset) + 100.0)


def _first(pair: tuple[float, int]) -> float:
    return pair[0]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
