"""Ways of edges around everything that stands between their ends.

An edge goes on straight as long as it can, and moves aside in the room between rows.  Pages do the
same in `web/routes.js`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from tawny.graph.report.placement import ROW_GAP, Rect

ASIDE: Final = 10.0
"""How far beside an obstacle an edge passes: within the frame around it."""

CLEAR: Final = 5.0
"""How far at least."""

TURN: Final = ROW_GAP * 0.75
"""Room in which an edge moves aside."""

MAX_TURNS: Final = 24
"""Obstacles that an edge goes around, at most."""

MAX_LOOKS: Final = 6
"""Items that stand beside an obstacle, or higher than it, and are passed with it."""

TOUCH: Final = 0.5
"""What may overlap."""

PORT: Final = 22.0
"""Room between two edges at a node, at most."""

Point = tuple[float, float]


class Way(Enum):
    """The direction of an edge.

    Ways are found in coordinates in which every edge runs down: `across` and `along` its direction.
    """

    DOWN = "down"
    UP = "up"
    RIGHT = "right"
    LEFT = "left"

    @property
    def sign(self) -> int:
        """Whether coordinates along it grow, or get less."""
        return 1 if self in (Way.DOWN, Way.RIGHT) else -1

    @property
    def is_vertical(self) -> bool:
        """Whether `along` is y."""
        return self in (Way.DOWN, Way.UP)

    def turn(self, x: float, y: float) -> Point:
        """Across and along."""
        return (x, self.sign * y) if self.is_vertical else (y, self.sign * x)

    def turn_back(self, across: float, along: float) -> Point:
        """The point itself."""
        along *= self.sign
        return (across, along) if self.is_vertical else (along, across)


def way_between(a: Rect, b: Rect) -> Way:
    """The direction of an edge from one rectangle to another."""
    if b.y >= a.y + a.tall:
        return Way.DOWN
    if b.y + b.tall <= a.y:
        return Way.UP
    return Way.RIGHT if b.x >= a.x + a.wide else Way.LEFT


def leave(a: Rect, way: Way) -> Point:
    """Where an edge leaves a rectangle."""
    middle = a.x + a.wide / 2, a.y + a.tall / 2
    across, along = way.turn(*middle)
    half = (a.tall if way.is_vertical else a.wide) / 2
    return way.turn_back(across, along + half)


def enter(b: Rect, way: Way, position: int = 0, count: int = 1) -> Point:
    """Where edge `position` of `count` enters a rectangle."""
    across, along = way.turn(b.x + b.wide / 2, b.y + b.tall / 2)
    size, half = (b.wide, b.tall / 2) if way.is_vertical else (b.tall, b.wide / 2)
    gap = min(PORT, size * 0.6 / max(1, count - 1))
    return way.turn_back(across + (position - (count - 1) / 2) * gap, along - half)


class Obstacle(NamedTuple):
    """An obstacle, across and along."""

    left: float
    right: float
    begin: float
    end: float


class Obstacles:
    """The rectangles that edges go around."""

    def __init__(self, rects: Sequence[Rect]) -> None:
        table = np.array(rects, np.float64).reshape(-1, 4)
        x, y, wide, tall = table.T
        spans = {True: (x, x + wide, y, y + tall), False: (y, y + tall, x, x + wide)}
        self._seen: dict[Way, tuple[Any, ...]] = {}
        for way in Way:
            left, right, begin, end = spans[way.is_vertical]
            turned = (begin, end) if way.sign > 0 else (-end, -begin)
            self._seen[way] = left, right, *turned

    def first(
        self, way: Way, left: float, right: float, begin: float, end: float
    ) -> Obstacle | None:
        """What begins first of all that reaches into a rectangle, across and along."""
        lefts, rights, begins, ends = self._seen[way]
        inside = np.flatnonzero(
            (lefts < right - TOUCH)
            & (rights > left + TOUCH)
            & (begins < end - TOUCH)
            & (ends > begin + TOUCH)
        )
        if not inside.size:
            return None
        k = inside[begins[inside].argmin()]
        return Obstacle(*(float(column[k]) for column in (lefts, rights, begins, ends)))


def route(obstacles: Obstacles, way: Way, start: Point, end: Point) -> list[Point]:
    """The points of an edge; it runs along `way` at each of them."""
    (u, v), goal = way.turn(*start), way.turn(*end)
    points = [(u, v)]
    for _ in range(MAX_TURNS):
        turn = min(TURN, goal[1] - v)
        if _in_line(obstacles, way, goal[0], v, goal[1]) is None:
            if abs(goal[0] - u) <= TOUCH:
                break
            low = _clear_from(obstacles, way, (u, v), goal, turn)
            if low is not None:
                points += [(u, low), (goal[0], low + turn)]
                break
        block = _in_line(obstacles, way, u, v, goal[1])
        if block is None:
            points.append((u, goal[1] - turn))
            break
        beside = _free_line(obstacles, way, block, u, goal[0])
        begin = _clear_until(obstacles, way, (u, beside), block.begin, v)
        points += [(u, max(v, begin - TURN)), (beside, begin), (beside, block.end)]
        u, v = beside, block.end
    points.append(goal)
    return [way.turn_back(*point) for point in _without_repeats(points)]


def _in_line(
    obstacles: Obstacles, way: Way, across: float, begin: float, end: float
) -> Obstacle | None:
    """The first obstacle on a straight line."""
    return obstacles.first(way, across - CLEAR, across + CLEAR, begin, end)


def _free_line(obstacles: Obstacles, way: Way, block: Obstacle, u: float, goal: float) -> float:
    """A free line beside an obstacle, on the side that is nearer to the goal if there is one."""
    lines = [block.left - ASIDE, block.right + ASIDE]
    lines.sort(key=lambda line: (abs(line - goal), abs(line - u)))
    for line in lines:
        step, outer = (-1 if line < block.left else 1), line
        for _ in range(MAX_LOOKS):
            other = _in_line(obstacles, way, outer, block.begin, block.end)
            if other is None:
                return outer
            outer = other.left - ASIDE if step < 0 else other.right + ASIDE
    return lines[0]


def _clear_from(
    obstacles: Obstacles, way: Way, at: Point, goal: Point, turn: float
) -> float | None:
    """From where on an edge can move aside to its goal; None where something is in its way."""
    (u, low), (left, right) = at, sorted((at[0], goal[0]))
    for _ in range(MAX_LOOKS):
        block = obstacles.first(way, left, right, low, low + turn)
        if block is None:
            return low if _in_line(obstacles, way, u, at[1], low) is None else None
        low = block.end
        if low + turn > goal[1]:
            break
    return None


def _clear_until(
    obstacles: Obstacles, way: Way, between: Point, begin: float, least: float
) -> float:
    """Until where an edge has to have moved aside, before what stands beside an obstacle."""
    left, right = sorted(between)
    for _ in range(MAX_LOOKS):
        block = obstacles.first(way, left, right, max(least, begin - TURN), begin)
        if block is None or block.begin <= least:
            break
        begin = block.begin
    return begin


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    return [points[0], *[b for a, b in pairwise(points) if a != b]]


def curve(points: Sequence[Point], way: Way) -> list[tuple[Point, Point, Point]]:
    """For each point but the first the two that bend the curve to it, and it itself."""
    out: list[tuple[Point, Point, Point]] = []
    for (ax, ay), (bx, by) in pairwise(points):
        if way.is_vertical:
            out.append(((ax, (ay + by) / 2), (bx, (ay + by) / 2), (bx, by)))
        else:
            out.append((((ax + bx) / 2, ay), ((ax + bx) / 2, by), (bx, by)))
    return out
