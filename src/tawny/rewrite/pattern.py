"""Patterns as data: what a rule looks for, and what it puts there instead.

    negative(negative(x))    a call of an op on patterns
    Capture("x")             any node, captured under a name; the same name twice, the same node
    Fill("z", 0)             a constant filled with one value, also behind `broadcast_to`
    Fill("k")                a constant filled with any one value

The same trees serve as results: captures stand for what was matched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from tawny.node import Constant, Node, make
from tawny.op import ELEMENTWISE, Elementwise, Family, Op, Trait
from tawny.ops.creation import Cast
from tawny.ops.movement import BroadcastTo
from tawny.rewrite.facts import NodeFacts, broadcast_to
from tawny.rewrite.flow import Kind, RuleInfo


@final
class Match:
    """A match of a pattern: the node, what it captured, the nodes it looked through."""

    __slots__ = ("captured", "facts", "node", "through")

    def __init__(self, node: Node, facts: NodeFacts) -> None:
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
class Fill:
    """A constant with one value everywhere, known without computing anything."""

    name: str
    value: complex | None = None

    def matches(self, node: Node, match: Match) -> bool:
        value = match.facts.fill(node)
        if value is None or (self.value is not None and value != self.value):
            return False
        return match.captured.setdefault(self.name, node) is node


@dataclass(frozen=True, slots=True)
class OpPattern:
    """An op applied to patterns; without `args` to anything, without `ops` any op.

    `name` captures the node itself; `once` asks that nothing else reads it and it is no output;
    `some` and `each` ask that at least one, or every, operand is made by one of these ops.
    """

    ops: tuple[Family, ...]
    args: tuple[Pattern, ...] | None = None
    name: str = ""
    once: bool = False
    some: tuple[Family, ...] = ()
    each: tuple[Family, ...] = ()

    def may_match(self, operands: Sequence[Family], same: bool) -> bool:
        """Whether a node can match whose operands are made by these; `same`: all one node.

        This is all a rule needs to know to be left out for nearly every node.
        """
        if self.some and not any(made_by in self.some for made_by in operands):
            return False
        if self.each and not (operands and all(made_by in self.each for made_by in operands)):
            return False
        if self.args is None:
            return True
        if len(self.args) != len(operands):
            return False
        if len(self.args) > 1 and len(set(self.args)) == 1 and not same:
            return isinstance(self.args[0], OpPattern)
        return all(map(_may_be, self.args, operands))

    def matches(self, node: Node, match: Match) -> bool:
        if self.ops and node.op.family not in self.ops:
            return False
        if self.once and match.facts.uses.get(node) != 1:
            return False
        if self.args is not None and len(self.args) != len(node.inputs):
            return False
        if self.name:
            match.captured[self.name] = node
        match.through.append(node)
        args = self.args
        if args is not None:
            for arg, source in zip(args, node.inputs):  # noqa: B905  (lengths were compared)
                if not arg.matches(source, match):
                    return False
        return True


def _may_be(pattern: Pattern, made_by: Family) -> bool:
    if isinstance(pattern, Fill):
        return made_by is Constant or made_by is BroadcastTo
    return not isinstance(pattern, OpPattern) or not pattern.ops or made_by in pattern.ops


Pattern = Capture | Fill | OpPattern
OF_CONSTANTS: Final = OpPattern((), each=(Constant,))
"""Any op, applied to constants."""
Build = Callable[[Match], Node | None]


def elementwise(name: str) -> Callable[..., OpPattern]:
    """A maker of patterns for the elementwise op called `name`."""
    op = ELEMENTWISE[name]

    def pattern(*args: Pattern, name: str = "", once: bool = False) -> OpPattern:
        return OpPattern((op,), args, name, once)

    return pattern


def call(op: type[Op], *args: Pattern, name: str = "", once: bool = False) -> OpPattern:
    """A pattern for an op with attributes."""
    return OpPattern((op,), args, name, once)


def any_of(
    ops: Sequence[Family], *args: Pattern, name: str = "", some: tuple[Family, ...] = ()
) -> OpPattern:
    """A pattern for one of several ops; without `args` whatever they are applied to."""
    return OpPattern(tuple(ops), args or None, name, some=some)


def no_condition(match: Match) -> bool:
    """No side condition."""
    del match
    return True


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """One row of a table: where `pattern` matches and `when` holds, `result` has the same value.

    A result that is a pattern is built from the captures and takes the type of what it replaces:
    it is broadcast to its shape, and a lone capture is converted to its dtype.  A function gives
    the node itself, or None where the rule does not apply.
    """

    info: RuleInfo
    pattern: OpPattern
    result: Pattern | Build
    when: Callable[[Match], bool] = no_condition
    only: Callable[[Node, NodeFacts], bool] | None = None
    """A condition on the node alone, asked before its operands are looked at."""

    def match(self, node: Node, facts: NodeFacts) -> Match | None:
        """Where the rule applies to `node`, which may match and is filled as the pattern asks."""
        if self.only is not None and not self.only(node, facts):
            return None
        match = Match(node, facts)
        match.through.append(node)
        pattern, captured = self.pattern, match.captured
        if pattern.name:
            captured[pattern.name] = node
        if pattern.args is not None:
            for arg, source in zip(pattern.args, node.inputs):  # noqa: B905  (as many as operands)
                if type(arg) is OpPattern:
                    if not arg.matches(source, match):
                        return None
                elif captured.setdefault(arg.name, source) is not source:
                    return None
        return match if self.when is no_condition or self.when(match) else None

    def captured_result(self, match: Match) -> Node | None:
        """The node captured, where it is what stands for the one that was matched."""
        if not isinstance(self.result, (Capture, Fill)):
            return None
        node, new = match.node, match.captured[self.result.name]
        return new if new.shape == node.shape and new.dtype == node.dtype else None

    def build(self, match: Match) -> Node | None:
        """What stands for the node that was matched."""
        if not isinstance(self.result, (Capture, Fill, OpPattern)):
            return self.result(match)
        new, node = instantiate(self.result, match), match.node
        if new.dtype != node.dtype:
            if isinstance(self.result, OpPattern):
                return None
            new = make(Cast(node.dtype), (new,))
        return broadcast_to(new, node.shape)


def instantiate(template: Pattern, match: Match) -> Node:
    """The node a result describes."""
    if not isinstance(template, OpPattern):
        return match[template.name]
    (op,) = template.ops
    if not isinstance(op, Elementwise):
        raise TypeError(f"a result that calls {op.__name__} has attributes: write a function")
    return make(op, tuple([instantiate(a, match) for a in template.args or ()]))


def rule(
    name: str,
    kind: Kind,
    pattern: OpPattern,
    result: Pattern | Build,
    says: str,
    when: Callable[[Match], bool] = no_condition,
    only: Callable[[Node, NodeFacts], bool] | None = None,
) -> RewriteRule:
    """A row of a rule table."""
    return RewriteRule(RuleInfo(name, kind, says), pattern, result, when, only)


def orders(pattern: Pattern) -> list[Pattern]:
    """The pattern with the operands of its commutative ops in every order, its own first."""
    if not isinstance(pattern, OpPattern) or pattern.args is None:
        return [pattern]
    choices = [orders(a) for a in pattern.args]
    _, *changed = itertools.product(*choices)
    out = [pattern, *[replace(pattern, args=args) for args in changed]]
    op, *others = pattern.ops
    commutes = isinstance(op, Elementwise) and Trait.COMMUTATIVE in op.info.traits
    if commutes and not others and len(set(pattern.args)) > 1:
        out += [replace(p, args=p.args[::-1]) for p in out if p.args is not None]
    return list(out)
