"""Patterns as data: what a rule looks for, and what it puts there instead.

    negative(negative(x))    a call of an op on patterns
    Capture("x")             any node, captured under a name; the same name twice, the same node
    Filled("z", 0)           a constant filled with one value, also behind `broadcast_to`
    Filled("k")              the same with any value

The same trees serve as results: captures stand for what was matched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from tawny.node import Constant, Node, make
from tawny.op import ELEMENTWISE, Elementwise, Op, Trait
from tawny.ops.creation import Cast
from tawny.ops.movement import broadcasted
from tawny.rewrite.flow import Kind, RuleInfo

if TYPE_CHECKING:
    from tawny.rewrite.facts import Facts

Key = Elementwise | type[Op]
"""What rules are indexed by: the row of the elementwise table, or the class of the op."""


def key_of(op: Op) -> Key:
    """The index of `op`."""
    return op if type(op) is Elementwise else type(op)


class Made(NamedTuple):
    """What decides which rules can match: the op, and the value that fills a constant."""

    by: Key
    filled_with: complex | None = None
    """None if it is no filled constant, NaN if no pattern asks for its value."""


@final
class Match:
    """Where a pattern was found: the node, what it captured, and the nodes it looked through."""

    __slots__ = ("captured", "facts", "node", "through")

    def __init__(self, node: Node, facts: Facts) -> None:
        self.node = node
        self.facts = facts
        self.captured: dict[str, Node] = {}
        self.through: list[Node] = []

    def __getitem__(self, name: str) -> Node:
        return self.captured[name]

    def fill(self, name: str) -> Any:
        """The value a captured constant is filled with."""
        return self.facts.fill(self.captured[name])


@dataclass(frozen=True, slots=True)
class Capture:
    """Any node; the same name twice is the same node."""

    name: str

    def matches(self, node: Node, match: Match) -> bool:
        return match.captured.setdefault(self.name, node) is node


@dataclass(frozen=True, slots=True)
class Filled:
    """A constant with one value everywhere, known without computing anything."""

    name: str
    value: complex | None = None

    def matches(self, node: Node, match: Match) -> bool:
        value = match.facts.fill(node)
        if value is None or (self.value is not None and value != self.value):
            return False
        return match.captured.setdefault(self.name, node) is node


@dataclass(frozen=True, slots=True)
class Call:
    """An op applied to patterns; without `args` to anything, without `ops` any op.

    `name` captures the node itself; `once` asks that nothing else reads it and it is no output;
    `some` and `each` ask that at least one, or every, operand is made by one of these ops.
    """

    ops: tuple[Key, ...]
    args: tuple[Pattern, ...] | None = None
    name: str = ""
    once: bool = False
    some: tuple[Key, ...] = ()
    each: tuple[Key, ...] = ()

    def may_match(self, operands: Sequence[Made], same: bool) -> bool:
        """Whether a node can match whose operands are made like this; `same`: all one node.

        This is all a rule needs to know to be left out for nearly every node.
        """
        if self.some and not any(made.by in self.some for made in operands):
            return False
        if self.each and not (operands and all(made.by in self.each for made in operands)):
            return False
        if self.args is None:
            return True
        if len(self.args) != len(operands):
            return False
        if len(self.args) > 1 and len(set(self.args)) == 1 and not same:
            return isinstance(self.args[0], Call)
        return all(_may_be(a, made) for a, made in zip(self.args, operands, strict=True))

    def matches(self, node: Node, match: Match) -> bool:
        if self.ops and key_of(node.op) not in self.ops:
            return False
        if self.once and match.facts.uses.get(node) != 1:
            return False
        if self.args is not None and len(self.args) != len(node.inputs):
            return False
        return self.matches_operands(node, match)

    def matches_operands(self, node: Node, match: Match) -> bool:
        """Whether the operands match, for a node that `may_match` said can."""
        if self.name:
            match.captured[self.name] = node
        match.through.append(node)
        args = self.args
        if args is not None:
            for arg, source in zip(args, node.inputs):  # noqa: B905  (lengths were compared)
                if not arg.matches(source, match):
                    return False
        return True


def _may_be(pattern: Pattern, made: Made) -> bool:
    if isinstance(pattern, Filled):
        return made.filled_with is not None and pattern.value in (None, made.filled_with)
    return not isinstance(pattern, Call) or not pattern.ops or made.by in pattern.ops


Pattern = Capture | Filled | Call
OF_CONSTANTS: Final = Call((), each=(Constant,))
"""Any op, applied to constants."""
Build = Callable[[Match], Node | None]


def elementwise(name: str) -> Callable[..., Call]:
    """A maker of patterns for the elementwise op called `name`."""
    op = ELEMENTWISE[name]

    def pattern(*args: Pattern, name: str = "", once: bool = False) -> Call:
        return Call((op,), args, name, once)

    return pattern


def call(op: type[Op], *args: Pattern, name: str = "", once: bool = False) -> Call:
    """A pattern for an op with attributes."""
    return Call((op,), args, name, once)


def any_of(ops: Sequence[Key], *args: Pattern, name: str = "", some: tuple[Key, ...] = ()) -> Call:
    """A pattern for one of several ops; without `args` whatever they are applied to."""
    return Call(tuple(ops), args or None, name, some=some)


def always(match: Match) -> bool:
    """No side condition."""
    del match
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a table: where `pattern` matches and `when` holds, `result` has the same value.

    A result that is a pattern is built from the captures and takes the type of what it replaces:
    it is broadcast to its shape, and a lone capture is converted to its dtype.  A function gives
    the node itself, or None where the rule does not apply.
    """

    info: RuleInfo
    pattern: Call
    result: Pattern | Build
    when: Callable[[Match], bool] = always

    def match(self, node: Node, facts: Facts) -> Match | None:
        """Where the rule applies to `node`, whose op and operands are those of the pattern."""
        match = Match(node, facts)
        if not self.pattern.matches_operands(node, match):
            return None
        return match if self.when is always or self.when(match) else None

    def build(self, match: Match) -> Node | None:
        """What stands for the node that was matched."""
        if not isinstance(self.result, (Capture, Filled, Call)):
            return self.result(match)
        new, node = built(self.result, match), match.node
        if new.dtype != node.dtype:
            if isinstance(self.result, Call):
                return None
            new = make(Cast(node.dtype), (new,))
        return broadcasted(new, node.shape)


def built(template: Pattern, match: Match) -> Node:
    """The node a result describes."""
    if not isinstance(template, Call):
        return match[template.name]
    (op,) = template.ops
    if not isinstance(op, Elementwise):
        raise TypeError(f"a result that calls {op.__name__} has attributes: write a function")
    return make(op, tuple(built(a, match) for a in template.args or ()))


def rule(
    name: str,
    kind: Kind,
    pattern: Call,
    result: Pattern | Build,
    says: str,
    when: Callable[[Match], bool] = always,
) -> Rule:
    """A row of a rule table."""
    return Rule(RuleInfo(name, kind, says), pattern, result, when)


def orders(pattern: Pattern) -> list[Pattern]:
    """The pattern with the operands of its commutative ops in every order."""
    if not isinstance(pattern, Call) or pattern.args is None:
        return [pattern]
    choices = [orders(a) for a in pattern.args]
    out = [replace(pattern, args=args) for args in itertools.product(*choices)]
    op, *others = pattern.ops
    commutes = isinstance(op, Elementwise) and Trait.COMMUTATIVE in op.info.traits
    if commutes and not others and len(set(pattern.args)) > 1:
        out += [replace(p, args=p.args[::-1]) for p in out if p.args is not None]
    return list(out)
