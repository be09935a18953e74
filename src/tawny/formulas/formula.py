"""A graph as a formula: parts that are read more than once get names and are written once.

Nothing is expanded: the formula is as long as the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple, Protocol

from tawny.formulas.form import ATOM, HIDDEN, Form, Text
from tawny.node import Constant, Node, Variable, toposort
from tawny.ops.differentiation import remove_markers

MOST_PARTS: Final = 24
"""Operations in one expression; a longer one is cut into parts with names."""


class Statement(NamedTuple):
    """A part that has a name."""

    name: str
    text: str
    node: Node


class Formula(NamedTuple):
    """The formula of a value: inputs, named parts, the result."""

    inputs: list[tuple[str, Node]]
    """Variables, and constants too large to be written, by name."""
    statements: list[Statement]
    """Parts, each before what uses it."""
    result: str
    node: Node


class Notation(Protocol):
    """A language that formulas are written in."""

    def form(self, node: Node) -> Form:
        """How a node is written from its inputs."""
        ...

    def literal(self, node: Node, beside: Node | None) -> Text | None:
        """A constant as a literal, an operand of a node; None if it needs a name."""
        ...

    def name(self, name: str) -> str:
        """A name as it may be written."""
        ...

    def parenthesise(self, text: str) -> str:
        """A text between parentheses."""
        ...


def write(result: Node, notation: Notation) -> Formula:
    """The formula of a value."""
    (result,) = remove_markers([result])
    return _Writer(result, notation).write()


class _Writer:
    """Writes one formula."""

    def __init__(self, result: Node, notation: Notation) -> None:
        self.notation = notation
        self.result = result
        self.order = toposort([result])
        self.reads = Counter(x for node in self.order for x in node.inputs)
        self.texts: dict[Node, Text] = {}
        self.parts: dict[Node, int] = {}
        """Operations in the text of each node."""
        self.inputs: list[tuple[str, Node]] = []
        self.statements: list[Statement] = []
        self.places: dict[Node, int] = {}
        """Statements by their nodes, for what is named when it turns out to be read twice."""
        self.names = _FreeNames(notation.name)

    def write(self) -> Formula:
        for node in self.order:
            if isinstance(node.op, Variable):
                self._name_input(node, node.op.name or "v")
        for node in self.order:
            if isinstance(node.op, Constant):
                if self.notation.literal(node, None) is None:
                    self._name_input(node, user_name(node) or "c_#")
            elif not isinstance(node.op, Variable):
                self._write_node(node)
        text = self._operand(self.result, None, 0)
        return Formula(self.inputs, self.statements, text, self.result)

    def _name_input(self, node: Node, name: str) -> None:
        self.texts[node] = Text(self.names.take(name))
        self.inputs.append((self.texts[node].text, node))

    def _write_node(self, node: Node) -> None:
        form = self.notation.form(node)
        for position in form.repeats():
            operand = node.inputs[position]
            if self.parts.get(operand):
                self._name_part(operand)
        written = [self._operand(x, node, form.least_level(i)) for i, x in enumerate(node.inputs)]
        hidden = form.template == HIDDEN.template
        parts = sum([self.parts.get(x, 0) for x in node.inputs]) + (not hidden)
        level = self._text(node.inputs[0], node).level if hidden else form.level
        self.parts[node], self.texts[node] = parts, Text(form.fill(written), level)
        shared = self.reads[node] > 1 and parts and (node.inputs or node.op.facts().impure)
        if shared or parts > MOST_PARTS or user_name(node):
            self._name_part(node)

    def _operand(self, x: Node, reader: Node | None, needed: int) -> str:
        """The text of a value where it is read."""
        known = self._text(x, reader)
        return known.text if known.level >= needed else self.notation.parenthesise(known.text)

    def _text(self, x: Node, reader: Node | None) -> Text:
        known = self.texts.get(x) or self.notation.literal(x, reader)
        assert known is not None, "constants without a literal have names"
        return known

    def _name_part(self, node: Node) -> None:
        """Give the text of a node a name, by which it is read from here on."""
        name = self.names.take(user_name(node) or "h_#")
        self.statements.append(Statement(name, self.texts[node].text, node))
        self.texts[node] = Text(name, ATOM)
        self.parts[node] = 0


class _FreeNames:
    """Names that are not taken yet."""

    def __init__(self, spell: Callable[[str], str]) -> None:
        self._spell = spell
        self._taken: set[str] = set()
        self._numbers: dict[str, count[int]] = {}

    def take(self, wanted: str) -> str:
        """A name, with a number in the place of `#`, or behind it where another has it."""
        numbered = wanted if "#" in wanted else f"{wanted}_#"
        if "#" not in wanted and self._spell(wanted) not in self._taken:
            name = self._spell(wanted)
        else:
            numbers = self._numbers.setdefault(numbered, count(1))
            spelled = (self._spell(numbered.replace("#", str(n))) for n in numbers)
            name = next(s for s in spelled if s not in self._taken)
        self._taken.add(name)
        return name


def user_name(node: Node) -> str | None:
    """What the user calls a value that is no variable."""
    return next((s.name for s in node.sources if s.name), None)
