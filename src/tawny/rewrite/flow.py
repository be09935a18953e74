"""What passes work on: a graph given by its outputs, and the protocol of a pass.

A pass takes a `Flow` and gives another.  Nodes are immutable and interned, so a pass never changes
a graph: it makes the nodes that differ and shares the rest.  Variables, constants, random draws and
impure delays keep their identity: a rewrite may give an impure node other inputs, but never makes
two of one or one of two.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol, final

from tawny.node import Node, Value, remake, toposort
from tawny.op import Family
from tawny.source import Source

Evaluate = Callable[[Sequence[Node]], "list[Value]"]
"""Fresh values of nodes that depend on no variable; given by the caller: engines sit above."""


RunKey = Callable[[Node], int]
"""Gives the key of the runs a node is part of: nodes of equal keys run in the same runs."""


class Kind(enum.Enum):
    """The promise that a rule makes about values."""

    EXACT = "exact"
    """Equal bits.  (NaN is one value, whatever its sign and payload.)"""
    CONTRACTING = "contracting"
    """Equal up to rounding in the last place."""
    FINITE = "finite"
    """Equal where no NaN or infinity occurs, up to the sign of a zero."""
    REASSOCIATING = "reassociating"
    """Equal but for rounding, and for overflow in between.  Off unless asked for by name."""


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule as it is known by name: its class and the equation it stands for."""

    name: str
    kind: Kind
    says: str


class Recorder(Protocol):
    """The recorder to which passes report what they did, and whom they ask what they may do."""

    def allows(self, rule: RuleInfo) -> bool:
        """Whether the rule is switched on, by its name and by its class."""
        ...

    def record(self, rule: RuleInfo, before: Sequence[Node], after: Sequence[Node]) -> None:
        """Say that `rule` put the nodes `after` in place of the nodes `before`."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """The means that every pass is given besides the flow."""

    evaluate: Evaluate
    recorder: Recorder
    assume_finite: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step of the pipeline, with the rules it may apply.

    It is not run where all of its rules are switched off, or the graph has none of `needs`.
    """

    name: str
    rules: tuple[RuleInfo, ...]
    run: Callable[[Flow, Context], Flow]
    needs: frozenset[Family] = frozenset()
    """Families of ops of which a graph must have one for the pass to find anything, if known."""

    def __call__(self, flow: Flow, context: Context) -> Flow:
        if self.needs and self.needs.isdisjoint(flow.families()):
            return flow
        if self.rules and not any(map(context.recorder.allows, self.rules)):
            return flow
        return self.run(flow, context)


@final
class Flow:
    """A graph, given by its outputs in the order the user asked for them."""

    __slots__ = ("_families", "_order", "outputs")

    def __init__(self, outputs: tuple[Node, ...]) -> None:
        self.outputs: Final = outputs
        self._order: list[Node] | None = None
        self._families: frozenset[Family] | None = None

    def order(self) -> list[Node]:
        """Every node, inputs first; worked out once, and changed by nobody."""
        if self._order is None:
            self._order = toposort(self.outputs)
        return self._order

    def families(self) -> frozenset[Family]:
        """The families of ops there are; worked out once."""
        if self._families is None:
            self._families = frozenset([n.op.family for n in self.order()])
        return self._families

    def uses(self) -> Counter[Node]:
        """How often each node is read: once for every edge and every output.

        A node that is read twice by one consumer counts twice.
        """
        count = Counter(chain.from_iterable([n.inputs for n in self.order()]))
        count.update(self.outputs)
        return count

    def consumers(self) -> dict[Node, list[Node]]:
        """The distinct nodes that read each node, in order; outputs are not listed."""
        order = self.order()
        readers: dict[Node, list[Node]] = {n: [] for n in order}
        for node in order:
            for source in dict.fromkeys(node.inputs):
                readers[source].append(node)
        return readers

    def replace_nodes(self, replacements: Mapping[Node, Node]) -> Flow:
        """The flow with nodes in place of others; see `rebuild`."""
        return self.with_outputs(rebuild(self.outputs, replacements)) if replacements else self

    def with_outputs(self, outputs: tuple[Node, ...]) -> Flow:
        """The flow of other outputs; this one when they are the same."""
        return self if outputs == self.outputs else Flow(outputs)


MOST_SOURCES: Final = 16
"""Places of the user's program that a rewritten node names, at most."""


def is_impure(node: Node) -> bool:
    """Whether `node` must keep its identity: a variable, a random draw, an impure delay."""
    return node.op.facts().impure


def sources_of(nodes: Sequence[Node]) -> tuple[Source, ...]:
    """The places where `nodes` were written, each once, the first ones if they are many."""
    return nodes[0].sources if len(nodes) == 1 else merge_sources([n.sources for n in nodes])


def merge_sources(given: Sequence[tuple[Source, ...]]) -> tuple[Source, ...]:
    """The places named, each once, the first ones if they are many."""
    if len(given) == 1:
        return given[0]
    if len(given) == 2 and len(given[0]) == len(given[1]) == 1:
        (first,), (second,) = given
        same = first.code is second.code and first[1:] == second[1:]
        return given[0] if same else given[0] + given[1]
    out: dict[tuple[int, int, str, str], Source] = {}
    for sources in given:
        for source in sources:
            out.setdefault((id(source.code), *source[1:]), source)
        if len(out) >= MOST_SOURCES:
            break
    return tuple(out.values())[:MOST_SOURCES]


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """`node` with other inputs of the same types; itself when they are the same."""
    return node if inputs == node.inputs else remake(node, inputs)


def rebuild(outputs: Sequence[Node], replacements: Mapping[Node, Node]) -> tuple[Node, ...]:
    """The outputs after `replacements`, which have the types of what they replace.

    Inputs of replacements are rebuilt too; a replacement must not depend on the node it replaces.
    """
    done: dict[Node, Node] = {}
    opened: set[Node] = set()
    stack = list(reversed(outputs))
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        target = replacements.get(node, node)
        pending = [n for n in (node.inputs if target is node else (target,)) if n not in done]
        if pending:
            if node in opened:
                raise ValueError(f"rebuild: the replacement of {node} depends on it")
            opened.add(node)
            stack.extend(reversed(pending))
            continue
        stack.pop()
        if target is node:
            done[node] = with_inputs(node, tuple([done[i] for i in node.inputs]))
        else:
            done[node] = done[target]
    return tuple([done[n] for n in outputs])
