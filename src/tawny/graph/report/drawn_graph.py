"""A graph as pages draw it: its nodes, those of loops and branches among them, and their boxes."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from tawny.graph.report.scope_layout import LoopScope, ScopeLayout, ScopePath
from tawny.graph.report.trace import attributes, scope_of, small_value, type_text
from tawny.node import Constant, Node, Part, Variable, toposort
from tawny.op import Elementwise
from tawny.ops.loops import BodyOp
from tawny.ops.subgraph import Subgraph
from tawny.shape import size
from tawny.source import Source

MAX_PLACES: Final = 3
"""Lines of the user's program that are listed for a node."""

MAX_TEXT: Final = 2000
"""Characters of the longest text that is shown whole."""

LEAST_FUNCTIONS: Final = 2
"""Functions that nodes without a scope are written in, for these to be shown as scopes."""


class Texts:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.lines: dict[int, int] = {}
        """For a place in the user's program the text of its line."""
        self._places: dict[Source, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, which is cut if it is long."""
        cut = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
        return self.numbers.setdefault(cut, len(self.numbers))

    def places(self, sources: Iterable[Source]) -> list[int]:
        """Places in the user's program, with their scopes."""
        return list(dict.fromkeys(map(self._place, sources)))[:MAX_PLACES]

    def _place(self, source: Source) -> int:
        if source not in self._places:
            place = self._places[source] = self.number(str(source))
            self.lines[place] = self.number(linecache.getline(source.file, source.line).strip())
        return self._places[source]


@dataclass(slots=True)
class DrawnNode:
    """A node of a drawing; one that is computed within another may be there several times."""

    node: Node
    title: str
    inputs: list[int]
    """What its edges come from."""
    path: ScopePath
    owner: int = -1
    """The loop or branch that computes it, if any."""
    is_inline: bool = False
    """Whether it is shown inside its readers."""


class DrawnGraph:
    """A graph as it is drawn: its nodes, and the boxes they stand in.

    The nodes of the bodies of loops and branches stand before the loop; they read its operands, and
    it reads their results.
    """

    def __init__(
        self,
        results: Sequence[Node],
        names: Mapping[Node, str],
        texts: Texts,
        state: Iterable[Node] = (),
    ) -> None:
        order = toposort(results)
        self.names, self.texts = names, texts
        self.results = frozenset(results)
        self._state = frozenset(state)
        self._shows_functions = len(_functions(order)) >= LEAST_FUNCTIONS
        self.drawn: list[DrawnNode] = []
        self.number: dict[Node, int] = {}
        """The nodes of the graph itself."""
        self._add_all(order, self.number, (), -1)
        self.layout = ScopeLayout(
            [None if one.is_inline else one.path for one in self.drawn],
            [kind_of(one.node) for one in self.drawn],
            [one.inputs for one in self.drawn],
        )

    def data(self, label: str) -> dict[str, Any]:
        """Columns with an entry for each node, and the boxes."""
        number = self.texts.number
        nodes = [one.node for one in self.drawn]
        return {
            "label": label,
            "name": [number(one.title) for one in self.drawn],
            "role": [number(self._role(one)) for one in self.drawn],
            "type": [number(type_text(node)) for node in nodes],
            "detail": [number(_detail(node)) for node in nodes],
            "class": [number(_chapter(node)) for node in nodes],
            "places": [self.texts.places(node.sources) for node in nodes],
            "bytes": list(map(node_bytes, nodes)),
            "inputs": [one.inputs for one in self.drawn],
            "inline": [int(one.is_inline) for one in self.drawn],
            "owner": {k: one.owner for k, one in enumerate(self.drawn) if one.owner >= 0},
            "home": self.layout.home,
            "boxes": [
                [number(box.label), box.kind, box.parent, box.nodes, box.parts, box.back]
                for box in self.layout.boxes
            ],
        }

    # -------------------------------------------------------------------- nodes

    def _add(self, one: DrawnNode) -> int:
        self.drawn.append(one)
        return len(self.drawn) - 1

    def _add_all(
        self, order: Iterable[Node], number: dict[Node, int], around: ScopePath, owner: int
    ) -> None:
        """Add nodes, and note their numbers; `around` are the scopes of the loop they are in."""
        for node in order:
            if node in number:
                continue
            path = (*around, *self._path(node, around))
            inputs = [number[i] for i in node.inputs]
            made = DrawnNode(node, node_title(node), inputs, path, owner)
            if isinstance(node.op, BodyOp):
                self._add_bodies(node.op, made)
            made.is_inline = node not in self.results and self._is_inline(node)
            number[node] = self._add(made)

    def _add_bodies(self, op: BodyOp, made: DrawnNode) -> None:
        """Add what an op computes; `made`, its own node, then reads the results of that."""
        made.path = (*made.path, LoopScope(op.title(), len(self.drawn)))
        bodies, first = op.bodies(), len(self.drawn)
        results: list[int] = []
        for count, body in enumerate(bodies):
            path = made.path
            if len(bodies) > 1:
                path = (*path, LoopScope(f"branch {count}", len(self.drawn)))
            results += self._add_body(op, body, made.inputs, path)
        taken = {argument.operand for argument in op.arguments()}
        rest = [i for k, i in enumerate(made.inputs) if k not in taken]
        for one in self.drawn[first:]:
            one.owner = one.owner if one.owner >= 0 else len(self.drawn)
        made.inputs = [*rest, *dict.fromkeys(results)]

    def _add_body(
        self, op: BodyOp, body: Subgraph, operands: Sequence[int], path: ScopePath
    ) -> list[int]:
        """Add the nodes of a body; gives the numbers of its results."""
        inner: dict[Node, int] = {}
        used = {*chain.from_iterable(node.inputs for node in body.order), *body.results}
        for node, argument in zip(body.arguments, op.arguments(), strict=True):
            if node in used:
                source = [] if argument.operand is None else [operands[argument.operand]]
                inner[node] = self._add(self._argument(node, argument.role, source, path))
        self._add_all(body.order, inner, path, -1)
        return [inner[result] for result in body.results]

    def _argument(self, node: Node, role: str, source: list[int], path: ScopePath) -> DrawnNode:
        """An argument of a body, called by what it takes if that has a name."""
        title, is_inline = role, False
        for taken in map(self.drawn.__getitem__, source):
            is_inline = taken.is_inline and role == "shared"
            if is_inline or (isinstance(taken.node.op, Variable) and taken.node in self.number):
                title = taken.title if is_inline else f"{role}: {taken.title}"
        return DrawnNode(node, title, source, path, is_inline=is_inline)

    def _is_inline(self, node: Node) -> bool:
        """Whether a node is a constant, or a parameter of a module."""
        if isinstance(node.op, Variable):
            return node in self._state or "." in node.name
        return isinstance(node.op, Constant)

    def _path(self, node: Node, around: ScopePath) -> tuple[str, ...]:
        """The scopes that hold all of a node; the function it is written in if there are none."""
        path = scope_of(node)
        if around:
            outer = [name for name in around if isinstance(name, str)]
            return path[len(outer) :] if list(path[: len(outer)]) == outer else path
        if not path and self._shows_functions:
            path = tuple(_functions([node]))
        return path

    def _role(self, one: DrawnNode) -> str:
        if one.owner >= 0:
            return ""
        role = self.names.get(one.node, "")
        return "" if role == one.title else role or ("result" if one.node in self.results else "")


def _functions(nodes: Iterable[Node]) -> list[str]:
    """The functions in which nodes without any scope are written; none where one has several."""
    found: dict[str, None] = {}
    for node in nodes:
        names = {source.code.co_name for source in node.sources}
        is_free = not any(source.scope for source in node.sources)
        if is_free and len(names) == 1 and not isinstance(node.op, Variable):
            found.update(dict.fromkeys(name for name in names if not name.startswith("<")))
    return list(found)


def kind_of(node: Node) -> str:
    """What a node's op is called."""
    return node.op.label


def _chapter(node: Node) -> str:
    """The class of an op: the chapter it is declared in."""
    if isinstance(node.op, Part):
        return _chapter(node.inputs[0])
    if isinstance(node.op, (Variable, Constant)):
        return kind_of(node)
    if isinstance(node.op, Elementwise):
        return "elementwise"
    return type(node.op).__module__.rpartition(".")[2]


def _detail(node: Node) -> str:
    if isinstance(node.op, BodyOp):
        return node.op.title()
    value = small_value(node)
    return attributes(node) if value is None else f"= {value}"


def node_title(node: Node) -> str:
    """The name of a node; of one result among several, whose it is."""
    op = node.op
    return f"{node.inputs[0].name}[{op.index}]" if isinstance(op, Part) else node.name


def node_bytes(node: Node) -> int:
    """Bytes of all results of a node."""
    types = node.parts or ((node.shape, node.dtype),)
    return sum(size(shape) * dtype.itemsize for shape, dtype in types)
