"""A graph as Graphviz text, and what every picture of a graph shows of a node."""

from __future__ import annotations

import colorsys
import enum
import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tawny.graph.report.trace import (
    attributes,
    common_prefix,
    listing,
    printable,
    read_counts,
    scope_of,
    small_value,
    type_text,
)
from tawny.node import Constant, Node, Variable

if TYPE_CHECKING:
    from tawny.graph.graph import Graph


class BlockPlan(Protocol):
    """A memory plan, as far as pictures need it."""

    def block_of(self, node: Node, /) -> int | None:
        """The block of memory a node's value lies in; None for what has none in the plan."""
        ...


class Role(enum.Enum):
    """The part a node plays, by which it is drawn."""

    VARIABLE = "#dbeafe"
    CONSTANT = "#f3f4f6"
    DRAWN_ANEW = "#fef3c7"
    COMPUTED = "#ffffff"


LINE: Final = "#374151"
FAINT: Final = "#6b7280"
UPDATE: Final = "#c2410c"
OUTPUT: Final = "#15803d"


@dataclass(frozen=True)
class Box:
    """The box of a node in a picture, with its text."""

    node: Node
    number: int
    role: Role
    name: str
    details: tuple[str, ...]
    where: tuple[str, ...]
    """The scopes and names it belongs to, if any, and the lines that wrote it."""
    fill: str
    badge: str
    """Which output it is; empty if none."""

    @property
    def title(self) -> str:
        """The name, cut short."""
        return _shorten(self.name, 32)

    @property
    def is_small(self) -> bool:
        """Whether the box is to take little room."""
        return self.role is Role.CONSTANT


def boxes(graph: Graph, plan: BlockPlan | None = None) -> list[Box]:
    """Every node of a graph as it is drawn, in the order of their numbers."""
    count = read_counts(graph)
    badges: dict[Node, str] = {}
    for position, node in enumerate(graph.output_nodes):
        words = f"{badges[node]}," if node in badges else "output"
        badges[node] = words if len(graph.output_nodes) == 1 else f"{words} {position}"
    return [
        _box(
            node, number, graph.names.get(node, node.name), count[node], badges.get(node, ""), plan
        )
        for number, node in enumerate(listing(graph))
    ]


def _box(node: Node, number: int, name: str, count: int, badge: str, plan: BlockPlan | None) -> Box:
    role = _role(node)
    block = None if plan is None else plan.block_of(node)
    value = small_value(node)
    facts = [f"#{number}", f"s:{type_text(node)}", f"r:{count}"]
    if value is not None:
        facts[1] = f"v:{value} {node.dtype}" if not node.shape else f"v:{value} {type_text(node)}"
    if block is not None:
        facts.append(f"b:{block}")
    extra = _shorten(attributes(node), 40)
    return Box(
        node=node,
        number=number,
        role=role,
        name=name,
        details=(*([extra] if extra else []), " ".join(facts)),
        where=tuple([_shorten(line, 40) for line in _where(node)]),
        fill=role.value if block is None else block_colour(block),
        badge=badge,
    )


def _where(node: Node) -> Iterator[str]:
    paths = dict.fromkeys(s.path for s in node.sources if s.path)
    places = dict.fromkeys(s.place for s in node.sources)
    if paths:
        yield " + ".join(paths)
    if places:
        yield ", ".join(places)


def _role(node: Node) -> Role:
    if isinstance(node.op, Variable):
        return Role.VARIABLE
    if isinstance(node.op, Constant):
        return Role.CONSTANT
    return Role.DRAWN_ANEW if node.op.facts().volatile else Role.COMPUTED


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def block_colour(block: int) -> str:
    """A light colour for a block of memory; neighbours in number are far apart in colour."""
    hue = (block * 0.381966 + 0.55) % 1.0
    red, green, blue = colorsys.hls_to_rgb(hue, (0.84, 0.78, 0.88)[block // 8 % 3], 0.7)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


# -------------------------------------------------------------------- Graphviz


def to_dot(graph: Graph, plan: BlockPlan | None = None) -> str:
    """The graph in Graphviz's language.

    A box is a node: its number, its op or name, `s:` dtype and shape (`v:` a number's value), `r:`
    how often it is read, and the line that wrote it.  With a plan, `b:` is the block of memory it
    lies in, and boxes of one block have one colour.  Outputs have a double border; dashed edges
    are updates.  Boxes of a scope are framed.
    """
    return "\n".join(_lines(graph, plan)) + "\n"


def _lines(graph: Graph, plan: BlockPlan | None) -> Iterator[str]:
    all_boxes = boxes(graph, plan)
    number = {box.node: box.number for box in all_boxes}
    yield f"digraph {quote(graph.name or 'graph')} {{"
    yield '  graph [rankdir=TB, nodesep=0.3, ranksep=0.4, fontname="Helvetica"];'
    yield (
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=12, '
        f'color="{LINE}", margin="0.12,0.06", height=0.3];'
    )
    yield f'  edge [color="{LINE}", arrowsize=0.6, fontname="Helvetica", fontsize=9];'
    yield from _cluster_lines(all_boxes)
    for box in all_boxes:
        for source in box.node.inputs:
            yield f"  n{number[source]} -> n{box.number};"
    for target, source in graph.update_nodes:
        yield (
            f"  n{number[source]} -> n{number[target]} [style=dashed, constraint=false, "
            f'color="{UPDATE}", fontcolor="{UPDATE}", label="update"];'
        )
    yield "}"


def _cluster_lines(all_boxes: Sequence[Box]) -> Iterator[str]:
    """The boxes, those of a scope inside a frame with its name, frames of inner scopes inside."""
    by_scope: dict[tuple[str, ...], list[Box]] = {}
    for box in all_boxes:
        by_scope.setdefault(scope_of(box.node), []).append(box)
    open_scope: tuple[str, ...] = ()
    for number, scope in enumerate(sorted(by_scope)):
        common = len(common_prefix((open_scope, scope)))
        for depth in range(len(open_scope), common, -1):
            yield f"{'  ' * depth}}}"
        for depth in range(common, len(scope)):
            indent = "  " * (depth + 1)
            yield f"{indent}subgraph cluster_{number}_{depth} {{"
            yield (
                f"{indent}  label={quote(scope[depth])}; labeljust=l; "
                f'color="{FAINT}"; fontcolor="{FAINT}"; style=rounded;'
            )
        open_scope = scope
        indent = "  " * (len(scope) + 1)
        for box in by_scope[scope]:
            yield f"{indent}n{box.number} [{', '.join(attribute_list(box))}];"
    for depth in range(len(open_scope), 0, -1):
        yield f"{'  ' * depth}}}"


def attribute_list(box: Box) -> Iterator[str]:
    """What Graphviz is told of a box."""
    yield f"label={_label(box)}"
    yield f'fillcolor="{box.fill}"'
    if box.role is Role.VARIABLE:
        yield "penwidth=1.8"
    elif box.is_small:
        yield f'color="{FAINT}", penwidth=0.6, margin="0.06,0.02"'
    if box.badge:
        yield f'peripheries=2, color="{OUTPUT}"'


def _label(box: Box) -> str:
    """The text of a box, in Graphviz's own markup."""
    rows = [f'<FONT POINT-SIZE="9" COLOR="{OUTPUT}"><B>{box.badge}</B></FONT>'] if box.badge else []
    size = 8 if box.is_small else 10
    rows.append(
        _escape_markup(box.title) if box.is_small else f"<B>{_escape_markup(box.title)}</B>"
    )
    rows += [f'<FONT POINT-SIZE="{size}">{_escape_markup(line)}</FONT>' for line in box.details]
    rows += [
        f'<FONT POINT-SIZE="8" COLOR="{FAINT}">{_escape_markup(line)}</FONT>' for line in box.where
    ]
    joined = "<BR/>".join(rows)
    return f'<<FONT POINT-SIZE="9">{joined}</FONT>>' if box.is_small else f"<{joined}>"


def _escape_markup(text: str) -> str:
    """Text as Graphviz's markup shows it; characters that are no text are replaced."""
    return html.escape(printable(text))


def quote(text: str) -> str:
    """Text as Graphviz reads it."""
    shown = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"'
