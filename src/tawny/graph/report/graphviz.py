"""Pictures of graphs in files; Graphviz makes pixels of what is laid out here."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tawny.errors import value_error
from tawny.graph.report.dot import (
    FAINT,
    LINE,
    UPDATE,
    BlockPlan,
    attribute_list,
    quote,
    to_dot,
)
from tawny.graph.report.picture import Edge, Picture, check_size
from tawny.graph.report.placement import Rect
from tawny.graph.report.routes import Point
from tawny.graph.report.svg import svg

if TYPE_CHECKING:
    from tawny.graph.graph import Graph

POINTS: Final = 72
"""Points of an inch, in which Graphviz measures boxes."""

ARROW: Final = 6.0
"""Points of an arrow's length."""

GRAPHVIZ_SECONDS: Final = 120
"""Seconds that Graphviz is given."""


def visualize(graph: Graph, path: str | os.PathLike[str], plan: BlockPlan | None = None) -> None:
    """Draw a graph into a file: `.dot`, `.svg` or `.png`, by the end of its name.

    For pixels Graphviz must be installed.
    """
    target = Path(path)
    match target.suffix.lower():
        case ".dot" | ".gv":
            target.write_text(to_dot(graph, plan), encoding="utf-8")
        case ".svg":
            check_size(graph)
            target.write_text(svg(graph, plan), encoding="utf-8")
        case ".png":
            target.write_bytes(_pixels(graph, plan))
        case other:
            raise value_error(
                "visualize", f"the file's name ends in {other!r}; accepted: .svg, .png, .dot"
            )


def _pixels(graph: Graph, plan: BlockPlan | None) -> bytes:
    program = shutil.which("neato")
    if program is None:
        raise value_error(
            "visualize",
            "a PNG picture needs Graphviz, whose program `neato` was not found; install it "
            "(apt install graphviz, brew install graphviz), or write a .svg file",
        )
    text = "\n".join(_graphviz_lines(Picture(graph, plan))) + "\n"
    try:
        done = subprocess.run(
            [program, "-n2", "-Tpng"],
            input=text.encode(),
            capture_output=True,
            check=True,
            timeout=GRAPHVIZ_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise value_error(
            "visualize",
            f"Graphviz did not finish in {GRAPHVIZ_SECONDS} seconds; write a .svg file",
        ) from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise value_error("visualize", f"Graphviz failed: {said}") from None
    return done.stdout


def _graphviz_lines(picture: Picture) -> Iterator[str]:
    """Graphviz text in which everything has its place; its y runs upward."""
    yield "digraph {"
    yield (
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=12, '
        f'color="{LINE}", fixedsize=true];'
    )
    yield f'  edge [color="{LINE}", arrowsize=0.6];'
    for number, frame in enumerate(picture.frames):
        yield (
            f"  s{number} [{_place(frame.at)}, label={quote(frame.label)}, labelloc=t, "
            f'fillcolor="#00000008", color="{FAINT}", fontcolor="{FAINT}"];'
        )
    for edge in picture.edges():
        colour = f', color="{UPDATE}", style=dashed' if edge.is_update else ""
        yield f'  n{edge.source} -> n{edge.reader} [pos="{_spline(edge)}"{colour}];'
    for box in picture.boxes:
        listed = ", ".join([_place(picture.at[box.number]), *attribute_list(box)])
        yield f"  n{box.number} [{listed}];"
    yield "}"


def _place(at: Rect) -> str:
    middle = f"{at.x + at.wide / 2:.1f},{-at.y - at.tall / 2:.1f}"
    return f'pos="{middle}", width={at.wide / POINTS:.4f}, height={at.tall / POINTS:.4f}'


def _spline(edge: Edge) -> str:
    """A line that ends before the arrow, and where that points to."""
    points = [edge.start, *[point for bend in edge.bends for point in bend]]
    (x, y), (to_x, to_y) = points[-2:]
    length = math.hypot(to_x - x, to_y - y) or 1.0
    part = min(ARROW / length, 0.9)
    last = to_x - part * (to_x - x), to_y - part * (to_y - y)
    return f"e,{_text(points[-1])} " + " ".join(map(_text, [*points[:-1], last]))


def _text(point: Point) -> str:
    return f"{point[0]:.1f},{-point[1]:.1f}"
