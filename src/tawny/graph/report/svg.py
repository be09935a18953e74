"""Pictures of graphs as SVG."""

from __future__ import annotations

import html as markup
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tawny.graph.report.dot import FAINT, LINE, OUTPUT, UPDATE, BlockPlan, Box, Role
from tawny.graph.report.picture import MAX_DRAWN, Edge, Picture
from tawny.graph.report.placement import Rect
from tawny.graph.report.trace import attributes, listing, printable, source_text, type_text

if TYPE_CHECKING:
    from tawny.graph.graph import Graph

_MARGIN: Final = 16.0


def html(graph: Graph, plan: BlockPlan | None = None) -> str:
    """The picture for a notebook, in a frame that scrolls."""
    return f'<div style="overflow:auto;max-height:80vh">{svg(graph, plan)}</div>'


def svg(graph: Graph, plan: BlockPlan | None = None) -> str:
    """The picture as SVG text.

    Boxes are as `to_dot` describes them; edges enter a box in the order of its operands.
    """
    if len(listing(graph)) > MAX_DRAWN:
        return _note(f"{graph!r}: too many nodes to draw; see show(), trace() and to_dot()")
    return "\n".join(_lines(Picture(graph, plan))) + "\n"


def _note(text: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{8 * len(text) + 32}" height="40">'
        f'<text x="16" y="25" font-family="Helvetica,Arial,sans-serif" font-size="13">'
        f"{_escape(text)}</text></svg>\n"
    )


def _lines(picture: Picture) -> Iterator[str]:
    more = 2 * _MARGIN + (24.0 if any(t == s for t, s in picture.updates) else 0.0)
    width, height = picture.whole.wide + more, picture.whole.tall + more
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" '
        'font-family="Helvetica,Arial,sans-serif" text-anchor="middle">'
    )
    yield f'<rect x="{-_MARGIN:.0f}" y="{-_MARGIN:.0f}" width="100%" height="100%" fill="white"/>'
    yield f"<defs>{_arrow('arrow', LINE)}{_arrow('update', UPDATE)}</defs>"
    for frame in picture.frames:
        yield _rect(frame.at, 7, "#00000008", FAINT, 0.7)
        yield (
            f'<text x="{frame.at.x + 8:.1f}" y="{frame.at.y + 16:.1f}" font-size="11" '
            f'fill="{FAINT}" font-weight="bold" text-anchor="start">{_escape(frame.label)}</text>'
        )
    edges = list(picture.edges())
    yield f'<g fill="none" stroke="{LINE}" stroke-width="1">'
    yield from (_edge(edge, "arrow") for edge in edges if not edge.is_update)
    yield "</g>"
    yield f'<g fill="none" stroke="{UPDATE}" stroke-width="1.3" stroke-dasharray="5 3">'
    yield from (_edge(edge, "update") for edge in edges if edge.is_update)
    yield "</g>"
    for box in picture.boxes:
        yield from _box(picture, box)
    yield "</svg>"


def _box(picture: Picture, box: Box) -> Iterator[str]:
    at, lines = picture.at[box.number], picture.lines[box.number]
    stroke, thick = (OUTPUT, 1.6) if box.badge else (LINE, 1.0)
    if box.role is Role.VARIABLE:
        thick = 1.8
    elif box.is_small:
        stroke, thick = (stroke if box.badge else FAINT), 0.6
    round_by = 12 if box.role is Role.VARIABLE else 5
    yield f"<g><title>{_escape(_hint(box))}</title>"
    yield _rect(at, round_by, box.fill, stroke, thick)
    if box.badge:
        yield _rect(picture.frame_of(box.number), round_by + 3, "none", stroke, 1.0)
    base = at.y + (at.tall - sum(line.height for line in lines)) / 2
    for line in lines:
        base += line.height
        weight = ' font-weight="bold"' if line.bold else ""
        yield (
            f'<text x="{at.x + at.wide / 2:.1f}" y="{base - line.size * 0.3:.1f}" '
            f'font-size="{line.size:g}" fill="{line.colour}"{weight}>{_escape(line.text)}</text>'
        )
    yield "</g>"


def _edge(edge: Edge, arrow: str) -> str:
    x, y = edge.start
    out = [f"M{x:.1f} {y:.1f}"]
    for (ax, ay), (bx, by), (ex, ey) in edge.bends:
        if abs(ax - ex) < 0.5 > abs(x - ex) or abs(ay - ey) < 0.5 > abs(y - ey):
            out.append(f"L{ex:.1f} {ey:.1f}")
        else:
            out.append(f"C{ax:.1f} {ay:.1f} {bx:.1f} {by:.1f} {ex:.1f} {ey:.1f}")
        x, y = ex, ey
    return f'<path d="{"".join(out)}" marker-end="url(#{arrow})"/>'


def _rect(at: Rect, round_by: float, fill: str, stroke: str, thick: float) -> str:
    return (
        f'<rect x="{at.x:.1f}" y="{at.y:.1f}" width="{at.wide:.1f}" height="{at.tall:.1f}" '
        f'rx="{round_by:g}" fill="{fill}" stroke="{stroke}" stroke-width="{thick:g}"/>'
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
