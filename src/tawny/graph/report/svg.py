"""Pictures of graphs: SVG drawn here, files of other kinds through Graphviz."""

from __future__ import annotations

import html as markup
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tawny.errors import value_error
from tawny.graph.report.box_layout import ASIDE, BoxLayout, place_boxes, port
from tawny.graph.report.dot import FAINT, LINE, OUTPUT, UPDATE, BlockPlan, Box, Role, boxes, to_dot
from tawny.graph.report.trace import attributes, listing, printable, source_text, type_text

if TYPE_CHECKING:
    from tawny.graph.graph import Graph

MAX_DRAWN: Final = 1000
"""Nodes of the largest graph that is drawn here."""

_MARGIN: Final = 16.0
_GRAPHVIZ_SECONDS: Final = 120
"""Seconds that Graphviz is given."""


# ----------------------------------------------------------------------- files


def visualize(graph: Graph, path: str | os.PathLike[str], plan: BlockPlan | None = None) -> None:
    """Draw a graph into a file: `.dot`, `.svg` or `.png`, by the end of its name.

    With Graphviz installed its `dot` draws; without it SVG is drawn all the same, PNG is not.
    """
    target = Path(path)
    match target.suffix.lower():
        case ".dot" | ".gv":
            target.write_text(to_dot(graph, plan), encoding="utf-8")
        case ".svg":
            drawn = _graphviz(graph, plan, "svg")
            if drawn is None:
                _check_size(graph)
                drawn = svg(graph, plan).encode()
            target.write_bytes(drawn)
        case ".png":
            drawn = _graphviz(graph, plan, "png")
            if drawn is None:
                raise value_error(
                    "visualize",
                    "a PNG picture needs Graphviz, whose program `dot` was not found; install it "
                    "(apt install graphviz, brew install graphviz), or write a .svg file",
                )
            target.write_bytes(drawn)
        case other:
            raise value_error(
                "visualize", f"the file's name ends in {other!r}; accepted: .svg, .png, .dot"
            )


def _check_size(graph: Graph) -> None:
    count = len(listing(graph))
    if count > MAX_DRAWN:
        raise value_error(
            "visualize",
            f"the graph has {count} nodes and at most {MAX_DRAWN} are drawn without Graphviz; "
            "install it, write a .dot file, or read graph.trace()",
        )


def _graphviz(graph: Graph, plan: BlockPlan | None, form: str) -> bytes | None:
    """What Graphviz draws; None where it is not installed."""
    program = shutil.which("dot")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, f"-T{form}"],
            input=to_dot(graph, plan).encode(),
            capture_output=True,
            check=True,
            timeout=_GRAPHVIZ_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise value_error(
            "visualize",
            f"Graphviz did not finish in {_GRAPHVIZ_SECONDS} seconds; write a .dot file",
        ) from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise value_error("visualize", f"Graphviz failed: {said}") from None
    return done.stdout


# ------------------------------------------------------------------------- SVG


def html(graph: Graph, plan: BlockPlan | None = None) -> str:
    """The picture for a notebook, in a frame that scrolls."""
    return f'<div style="overflow:auto;max-height:80vh">{svg(graph, plan)}</div>'


def svg(graph: Graph, plan: BlockPlan | None = None) -> str:
    """The picture as SVG text, drawn without any other program.

    Boxes are as `to_dot` describes them; edges enter a box in the order of its operands.
    """
    if len(listing(graph)) > MAX_DRAWN:
        return _note(f"{graph!r}: too many nodes to draw; see trace() and to_dot()")
    return _Picture(graph, plan).text()


def _note(text: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{8 * len(text) + 32}" height="40">'
        f'<text x="16" y="25" font-family="Helvetica,Arial,sans-serif" font-size="13">'
        f"{_escape(text)}</text></svg>\n"
    )


@dataclass(frozen=True)
class _TextLine:
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


_INK: Final = "#111827"


def _rows(box: Box) -> list[_TextLine]:
    if box.is_small:
        out = [_TextLine(box.title, 9, _INK)]
        out += [_TextLine(line, 9, _INK) for line in box.details]
        return [*out, *[_TextLine(line, 8, FAINT) for line in box.where]]
    out = [_TextLine(box.badge, 9, OUTPUT, bold=True)] if box.badge else []
    out.append(_TextLine(box.title, 13, _INK, bold=True))
    out += [_TextLine(line, 10, _INK) for line in box.details]
    return [*out, *[_TextLine(line, 9, FAINT) for line in box.where]]


class _Picture:
    """A graph laid out, and its parts as SVG."""

    def __init__(self, graph: Graph, plan: BlockPlan | None) -> None:
        self.boxes = boxes(graph, plan)
        number = {box.node: box.number for box in self.boxes}
        self.inputs = [[number[i] for i in box.node.inputs] for box in self.boxes]
        self.updates = [(number[t], number[s]) for t, s in graph.update_nodes]
        self.rows = [_rows(box) for box in self.boxes]
        self.sizes = [_size(rows, box) for rows, box in zip(self.rows, self.boxes, strict=True)]
        self.at: BoxLayout = place_boxes(self.sizes, self.inputs, self.updates)

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self) -> Iterator[str]:
        loops = 24.0 if any(t == s for t, s in self.updates) else 0.0
        width, height = self.at.width + 2 * _MARGIN + loops, self.at.height + 2 * _MARGIN + 24
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" '
            'font-family="Helvetica,Arial,sans-serif" text-anchor="middle">'
        )
        yield (
            f'<rect x="{-_MARGIN:.0f}" y="{-_MARGIN:.0f}" width="100%" height="100%" fill="white"/>'
        )
        yield f"<defs>{_arrow('arrow', LINE)}{_arrow('update', UPDATE)}</defs>"
        yield f'<g fill="none" stroke="{LINE}" stroke-width="1">'
        for box, sources in enumerate(self.inputs):
            for position, source in enumerate(sources):
                yield self.edge(source, box, position, len(sources))
        yield "</g>"
        yield f'<g fill="none" stroke="{UPDATE}" stroke-width="1.3" stroke-dasharray="5 3">'
        for edge, (target, source) in enumerate(self.updates, len(self.boxes)):
            yield self.update(edge, target, source)
        yield "</g>"
        for shown in self.boxes:
            yield from self.box(shown)
        yield "</svg>"

    # -------------------------------------------------------------------- boxes

    def box(self, box: Box) -> Iterator[str]:
        number = box.number
        (wide, tall), x, y = self.sizes[number], self.at.x[number], self.at.y[number]
        left, top = x - wide / 2, y - tall / 2
        stroke, thick = (OUTPUT, 1.6) if box.badge else (LINE, 1.0)
        if box.role is Role.VARIABLE:
            thick = 1.8
        elif box.is_small:
            stroke, thick = (stroke if box.badge else FAINT), 0.6
        round_by = 12 if box.role is Role.VARIABLE else 5
        yield f"<g><title>{_escape(_hint(box))}</title>"
        yield _rect(left, top, wide, tall, round_by, box.fill, stroke, thick)
        if box.badge:
            yield _rect(left - 3, top - 3, wide + 6, tall + 6, round_by + 3, "none", stroke, 1.0)
        rows = self.rows[number]
        line = y - sum(r.height for r in rows) / 2
        for row in rows:
            line += row.height
            weight = ' font-weight="bold"' if row.bold else ""
            yield (
                f'<text x="{x:.1f}" y="{line - row.size * 0.3:.1f}" font-size="{row.size:g}" '
                f'fill="{row.colour}"{weight}>{_escape(row.text)}</text>'
            )
        yield "</g>"

    # -------------------------------------------------------------------- edges

    def edge(self, source: int, box: int, position: int, count: int) -> str:
        """Down from the middle of a box, through its lanes, into the reader's operand."""
        end = (self.at.x[box] + port(self.sizes[box][0], position, count), self.top(box) - 1)
        start = (self.at.x[source], self.bottom(source))
        points = [start, *self.lanes(source, source, box), end]
        return f'<path d="{_curve(points)}" marker-end="url(#arrow)"/>'

    def update(self, edge: int, target: int, source: int) -> str:
        """From what a variable becomes to the variable, up where that stands higher."""
        upper, lower = self.at.layer[target], self.at.layer[source]
        if target == source:
            x, y = self.at.x[target] + self.sizes[target][0] / 2, self.at.y[target]
            path = f"M{x:.1f} {y - 7:.1f}c24 -12 24 26 2 14"
        elif upper < lower:
            start = (self.at.x[source] + self.sizes[source][0] * ASIDE, self.top(source))
            end = (self.at.x[target] + self.sizes[target][0] * ASIDE, self.bottom(target) + 1)
            path = _curve([start, *reversed(self.lanes(edge, target, source)), end])
        elif upper > lower:
            start = (self.at.x[source] + self.sizes[source][0] * ASIDE, self.bottom(source))
            path = _curve([start, (self.at.x[target], self.top(target) - 1)])
        else:
            shift = ASIDE if source < target else -ASIDE
            x, y = self.at.x[source] + shift * self.sizes[source][0], self.bottom(source)
            end = (self.at.x[target] + shift * self.sizes[target][0], self.bottom(target) + 1)
            deep = max(y, end[1]) + 34
            bend = f"{x:.1f} {deep:.1f} {end[0]:.1f} {deep:.1f}"
            path = f"M{x:.1f} {y:.1f}C{bend} {end[0]:.1f} {end[1]:.1f}"
        return f'<path d="{path}" marker-end="url(#update)"/>'

    def lanes(self, edge: int, upper: int, lower: int) -> list[tuple[float, float]]:
        """The points at which an edge enters and leaves the layers between two boxes."""
        out: list[tuple[float, float]] = []
        for level in range(self.at.layer[upper] + 1, self.at.layer[lower]):
            lane = self.at.lanes[edge, level]
            out += [(lane.x, lane.top), (lane.x, lane.bottom)]
        return out

    def top(self, box: int) -> float:
        return self.at.y[box] - self.sizes[box][1] / 2 - 3 * bool(self.boxes[box].badge)

    def bottom(self, box: int) -> float:
        return self.at.y[box] + self.sizes[box][1] / 2 + 3 * bool(self.boxes[box].badge)


def _size(rows: Sequence[_TextLine], box: Box) -> tuple[float, float]:
    inside = 8.0 if box.is_small else 18.0
    return max(r.width for r in rows) + inside, sum(r.height for r in rows) + inside / 2


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A path that leaves and enters every point vertically."""
    x, y = points[0]
    out = [f"M{x:.1f} {y:.1f}"]
    for right, low in points[1:]:
        bend = (y + low) / 2
        if abs(right - x) < 0.5:
            out.append(f"L{right:.1f} {low:.1f}")
        else:
            out.append(f"C{x:.1f} {bend:.1f} {right:.1f} {bend:.1f} {right:.1f} {low:.1f}")
        x, y = right, low
    return "".join(out)


def _rect(
    x: float,
    y: float,
    wide: float,
    tall: float,
    round_by: float,
    fill: str,
    stroke: str,
    thick: float,
) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" rx="{round_by:g}" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="{thick:g}"/>'
    )


def _arrow(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto" markerUnits="userSpaceOnUse">'
        f'<path d="M0 1L8 4L0 7z" fill="{colour}" stroke="none"/></marker>'
    )


def _hint(box: Box) -> str:
    """What is shown when the pointer rests on a box: nothing is cut short."""
    node = box.node
    parts = (f"#{box.number} {box.name}", attributes(node), type_text(node), source_text(node))
    return "\n".join(p for p in parts if p)


def _escape(text: str) -> str:
    """Text as XML holds it; characters that XML has not are replaced."""
    return markup.escape("\n".join(map(printable, text.split("\n"))))
