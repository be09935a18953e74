"""The driver: rules applied bottom-up until none applies, in time linear in the graph.

Inputs come first, so when a node is looked at they are in their final form.  What a rule gives is
brought to its final form in turn, and every node's final form is remembered: consumers are made on
final inputs and looked at once.

Rules are found by the op of a node and the ops of its operands: which rules can match is worked out
once for each combination met, and is none for most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Final, final

from tawny.node import Node, remake, source_scope
from tawny.op import Family, Op
from tawny.rewrite.facts import NodeFacts
from tawny.rewrite.flow import Context, Flow, Pass, Recorder, sources_of
from tawny.rewrite.pattern import Fill, OpPattern, RewriteRule, orders

Signature = tuple[object, ...]
"""The families of a node's op and of those of its operands, and whether these are one node."""

MOST_SIGNATURES: Final = 50_000
"""Signatures that are remembered, at most: joins of many operands could make ever new ones."""


@final
class Candidates:
    """The rules that can match nodes of one signature."""

    __slots__ = ("by_fill", "filled", "rules")

    def __init__(self, rules: Sequence[RewriteRule]) -> None:
        self.rules: Final = rules
        patterns = [r.pattern.args or () for r in rules]
        places = {p for args in patterns for p, a in enumerate(args) if isinstance(a, Fill)}
        self.filled: Final = tuple(sorted(places))
        """Places of operands that may be filled constants; some rule asks for the value."""
        self.by_fill: Final[dict[tuple[complex | None, ...], Sequence[RewriteRule]]] = {}
        """The rules that can match, for what fills those operands."""

    def rules_for_fills(self, fills: tuple[complex | None, ...]) -> Sequence[RewriteRule]:
        """The rules that can match where these values fill the operands at `filled`."""
        given = dict(zip(self.filled, fills, strict=True))
        found = self.by_fill[fills] = [r for r in self.rules if _accepts(r.pattern, given)]
        return found


def _accepts(pattern: OpPattern, fills: dict[int, complex | None]) -> bool:
    """Whether the operands at some places may be filled with these values; None: with none."""
    for place, arg in enumerate(pattern.args or ()):
        if isinstance(arg, Fill) and place in fills:
            value = fills[place]
            if value is None or arg.value not in (None, value):
                return False
    return True


class RuleSet:
    """Rules, found by the ops of a node and its operands."""

    def __init__(self, rules: Iterable[RewriteRule]) -> None:
        self._by_op: Final[dict[Family, list[RewriteRule]]] = {}
        for rule in rules:
            for pattern in orders(rule.pattern):
                if isinstance(pattern, OpPattern):
                    ordered = rule if pattern is rule.pattern else replace(rule, pattern=pattern)
                    for key in pattern.ops or (Op,):
                        self._by_op.setdefault(key, []).append(ordered)
        self.candidates: Final[dict[Signature, Candidates]] = {}
        """The rules that can match, for each signature met."""
        operands = [a for r in chain(*self._by_op.values()) for a in r.pattern.args or ()]
        self.values: Final = frozenset(
            a.value for a in operands if isinstance(a, Fill) and a.value is not None
        )
        """The values that patterns ask constants to be filled with."""

    def find(self, node: Node, signature: Signature) -> Candidates:
        """The rules that can match, those for every op first; remembered for the signature."""
        inputs = node.inputs
        same = inputs.count(inputs[0]) == len(inputs) if inputs else False
        made_by = [i.op.family for i in inputs]
        rules = [*self._by_op.get(Op, ()), *self._by_op.get(node.op.family, ())]
        rules = [r for r in rules if r.pattern.may_match(made_by, same)]
        if len(self.candidates) >= MOST_SIGNATURES:
            self.candidates.clear()
        found = self.candidates[signature] = Candidates(rules)
        return found


def rules_pass(name: str, *tables: Sequence[RewriteRule]) -> Pass:
    """A pass that applies rule tables to a fixpoint."""
    rules = [rule for table in tables for rule in table]
    infos = tuple({rule.info.name: rule.info for rule in rules}.values())

    @lru_cache(16)
    def without(off: frozenset[str]) -> RuleSet:
        return RuleSet([r for r in rules if r.info.name not in off])

    def run(flow: Flow, context: Context) -> Flow:
        off = frozenset([i.name for i in infos if not context.recorder.allows(i)])
        while True:
            facts = NodeFacts(context.evaluate, context.assume_finite, flow.uses())
            outputs = flow.outputs
            flow = Driver(without(off), facts, context.recorder).rewrite_to_fixpoint(flow)
            if not facts.refused_for_sharing or flow.outputs == outputs:
                return flow

    return Pass(name, infos, run)


NAN: Final = float("nan")


class Driver:
    """One run of a set of rules over a graph."""

    def __init__(self, rules: RuleSet, facts: NodeFacts, recorder: Recorder) -> None:
        self._rules: Final = rules
        self._facts: Final = facts
        self._recorder: Final = recorder
        self._place: Final = source_scope(())
        """Where the nodes come from that rules make."""
        self._final: Final[dict[Node, Node]] = {}
        """The final form of each node met."""
        self._fills: Final[dict[Node, complex | None]] = {}
        """The answers of `_fill_of`."""

    def rewrite_to_fixpoint(self, flow: Flow) -> Flow:
        """The flow with every node in its final form."""
        final = self._final
        with self._place:
            for node in flow.order():
                if node in final:
                    continue
                current = self._on_final_inputs(node)
                if current is not node and current in final:
                    final[node] = final[current]
                    continue
                rules = self._rules_for(current)
                new = self._apply_first(current, rules) if rules else None
                if new is None:
                    final[node] = final[current] = current
                else:
                    if new not in final:
                        self._finalise(new)
                    final[node] = final[current] = final[new]
        return flow.with_outputs(tuple([final[n] for n in flow.outputs]))

    def _finalise(self, root: Node) -> None:
        """Find the final form of the result of a rule, and of the nodes that it is made of."""
        final = self._final
        stack = [root]
        forward: dict[Node, Node] = {}
        while stack:
            node = stack.pop()
            if node in final:
                continue
            if node in forward:
                if forward[node] not in final:
                    raise RuntimeError(f"the rules for {node} come back to it")
                final[node] = final[forward[node]]
                continue
            pending = [i for i in node.inputs if i not in final]
            if pending:
                stack.append(node)
                stack += reversed(pending)
                continue
            current = self._on_final_inputs(node)
            if current in final:
                final[node] = final[current]
                continue
            rules = self._rules_for(current)
            new = self._apply_first(current, rules) if rules else None
            if new is None:
                final[current] = final[node] = current
            else:
                forward[current] = forward[node] = new
                stack += (node, new)

    def _on_final_inputs(self, node: Node) -> Node:
        """The node made on final inputs, itself if they are; the new one is read where it was."""
        final, inputs = self._final, node.inputs
        if len(inputs) == 2:
            first, second = inputs
            inputs = (final[first], final[second])
        elif len(inputs) == 1:
            inputs = (final[inputs[0]],)
        else:
            inputs = tuple([final[i] for i in inputs])
        if inputs == node.inputs:
            return node
        new, uses = remake(node, inputs), self._facts.uses
        uses[new] = uses.get(new, 0) + uses.get(node, 0)
        return new

    def _rules_for(self, node: Node) -> Sequence[RewriteRule]:
        """The rules that can match, by what `node` and its operands are made by."""
        inputs = node.inputs
        signature: Signature
        if len(inputs) == 2:
            first, second = inputs
            signature = (node.op.family, first.op.family, second.op.family, first is second)
        elif len(inputs) == 1:
            signature = (node.op.family, inputs[0].op.family)
        elif inputs:
            same = inputs.count(inputs[0]) == len(inputs)
            signature = (node.op.family, *[i.op.family for i in inputs], same)
        else:
            signature = (node.op.family,)
        found = self._rules.candidates.get(signature)
        if found is None:
            found = self._rules.find(node, signature)
        if not found.filled:
            return found.rules
        asked = self._fills
        fills = tuple(
            [asked[n] if (n := inputs[p]) in asked else self._fill_of(n) for p in found.filled]
        )
        rules = found.by_fill.get(fills)
        return found.rules_for_fills(fills) if rules is None else rules

    def _fill_of(self, operand: Node) -> complex | None:
        """The value that fills a constant, NaN if no pattern asks for it, None if there is none."""
        fill = self._facts.fill(operand)
        value: complex | None = None if fill is None else fill.item()
        if value is not None and value not in self._rules.values:
            value = NAN
        self._fills[operand] = value
        return value

    def _apply_first(self, node: Node, rules: Sequence[RewriteRule]) -> Node | None:
        """What the first rule that applies puts in place of `node`."""
        for rule in rules:
            match = rule.match(node, self._facts)
            if match is None:
                continue
            new = rule.captured_result(match)
            if new is None:
                self._place.set_sources(sources_of(match.through))
                new = rule.build(match)
                if new is None or new is node:
                    continue
                if new.shape != node.shape or new.dtype != node.dtype:
                    raise RuntimeError(f"rule {rule.info.name} changes the type of {node} to {new}")
            uses = self._facts.uses
            gone = [n for n in match.through if n is node or uses.get(n) == 1]
            uses[new] = uses.get(new, 0) + uses.get(node, 0)
            self._recorder.record(rule.info, gone, self._new_nodes(new))
            return new
        return None

    def _new_nodes(self, new: Node) -> Sequence[Node]:
        """The nodes of a result that were not there before, inputs first."""
        if new in self._final:
            return ()
        out: dict[Node, None] = {}
        stack = [new]
        while stack:
            node = stack.pop()
            if node not in self._final and node not in out:
                out[node] = None
                stack.extend(node.inputs)
        return list(out)[::-1]
