"""A graph laid out as a picture: where its nodes, scopes and edges are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tawny.errors import value_error
from tawny.graph.report.dot import FAINT, OUTPUT, BlockPlan, Box, boxes
from tawny.graph.report.placement import Rect, place_all
from tawny.graph.report.routes import (
    Obstacles,
    Point,
    curve,
    enter,
    leave,
    route,
    way_between,
)
from tawny.graph.report.scope_layout import ScopeLayout
from tawny.graph.report.trace import listing, scope_of

if TYPE_CHECKING:
    from tawny.graph.graph import Graph

MAX_DRAWN: Final = 5000
"""Nodes of the largest graph that is drawn."""

INK: Final = "#111827"
BADGE: Final = 3.0
"""Room for the second frame of an output."""


@dataclass(frozen=True)
class TextLine:
    """A line of text in a box."""

    text: str
    size: float
    colour: str
    bold: bool = False

    @property
    def width(self) -> float:
        """An estimate, a little generous: what draws the text chooses the font."""
        return len(self.text) * self.size * (0.62 if self.bold else 0.56)

    @property
    def height(self) -> float:
        """Room it takes downward."""
        return self.size * 1.3


def text_lines(box: Box) -> list[TextLine]:
    """What stands in a box."""
    if box.is_small:
        out = [TextLine(box.title, 9, INK)]
        out += [TextLine(line, 9, INK) for line in box.details]
        return [*out, *[TextLine(line, 8, FAINT) for line in box.where]]
    out = [TextLine(box.badge, 9, OUTPUT, bold=True)] if box.badge else []
    out.append(TextLine(box.title, 13, INK, bold=True))
    out += [TextLine(line, 10, INK) for line in box.details]
    return [*out, *[TextLine(line, 9, FAINT) for line in box.where]]


class ScopeFrame(NamedTuple):
    """The frame of a scope."""

    label: str
    at: Rect


class Edge(NamedTuple):
    """A line from one box to another."""

    source: int
    reader: int
    start: Point
    bends: list[tuple[Point, Point, Point]]
    """For each further point the two that bend the line to it, and it itself."""
    is_update: bool


class Picture:
    """A graph laid out."""

    def __init__(self, graph: Graph, plan: BlockPlan | None = None) -> None:
        check_size(graph)
        self.boxes = boxes(graph, plan)
        number = {box.node: box.number for box in self.boxes}
        inputs = [[number[i] for i in box.node.inputs] for box in self.boxes]
        self.updates = [(number[t], number[s]) for t, s in graph.update_nodes]
        self.lines = [text_lines(box) for box in self.boxes]
        sizes = [_size(lines, box) for lines, box in zip(self.lines, self.boxes, strict=True)]
        kinds, paths = [b.name for b in self.boxes], [scope_of(b.node) for b in self.boxes]
        layout = ScopeLayout(paths, kinds, inputs, fold=False)
        placed = place_all(layout, sizes, inputs)
        self.at = placed.nodes
        self.frames = [
            ScopeFrame(scope.label, at)
            for scope, at in zip(layout.boxes[1:], placed.boxes[1:], strict=True)
        ]
        self.whole = placed.boxes[0]
        self._inputs = inputs
        names = [Rect(f.at.x + 6, f.at.y + 4, 6.5 * len(f.label), 16) for f in self.frames]
        self._obstacles = Obstacles([*self.at, *names])

    def edges(self) -> Iterator[Edge]:
        """The lines from what is read to its readers, then those of updates."""
        for reader, sources in enumerate(self._inputs):
            for position, source in enumerate(sources):
                yield self._edge(source, reader, position, len(sources))
        for target, source in self.updates:
            if target == source:
                at = self.frame_of(target)
                x, y = at.x + at.wide, at.y + at.tall / 2
                bends = [((x + 24, y - 19), (x + 24, y + 19), (x + 2, y + 7))]
                yield Edge(source, target, (x, y - 7), bends, is_update=True)
            else:
                yield self._edge(source, target, 0, 1, is_update=True)

    def frame_of(self, box: int) -> Rect:
        """A box with all its frames."""
        at, by = self.at[box], BADGE if self.boxes[box].badge else 0.0
        return Rect(at.x - by, at.y - by, at.wide + 2 * by, at.tall + 2 * by)

    def _edge(
        self, source: int, reader: int, position: int, count: int, *, is_update: bool = False
    ) -> Edge:
        a, b = self.frame_of(source), self.frame_of(reader)
        way = way_between(a, b)
        points = route(self._obstacles, way, leave(a, way), enter(b, way, position, count))
        return Edge(source, reader, points[0], curve(points, way), is_update)


def check_size(graph: Graph) -> None:
    """Refuse what is too large for a picture."""
    count = len(listing(graph))
    if count > MAX_DRAWN:
        raise value_error(
            "visualize",
            f"the graph has {count} nodes and at most {MAX_DRAWN} are drawn; look at it with "
            "graph.show(), write a .dot file, or read graph.trace()",
        )


def _size(lines: Sequence[TextLine], box: Box) -> tuple[float, float]:
    inside = 8.0 if box.is_small else 18.0
    return max(r.width for r in lines) + inside, sum(r.height for r in lines) + inside / 2
