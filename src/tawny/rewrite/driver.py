"""The driver: rules applied bottom-up until none applies, in time linear in the graph.

Inputs come first, so when a node is looked at they are in their final form.  What a rule gives is
brought to its final form in turn, and every node's final form is remembered: consumers are made on
final inputs and looked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tawny.node import Node, written_at
from tawny.op import Op
from tawny.rewrite.facts import Facts
from tawny.rewrite.flow import (
    Context,
    Flow,
    Pass,
    Recorder,
    remade,
    united_sources,
)
from tawny.rewrite.pattern import Call, Key, Rule, key_of, orders

Index = Mapping[Key, Sequence[Rule]]


def indexed(rules: Iterable[Rule]) -> Index:
    """The rules by the op at the root of their patterns; those for every op under `Op`."""
    out: dict[Key, list[Rule]] = {}
    for rule in rules:
        for pattern in orders(rule.pattern):
            if isinstance(pattern, Call):
                for key in pattern.ops or (Op,):
                    out.setdefault(key, []).append(replace(rule, pattern=pattern))
    return out


def rules_pass(name: str, *tables: Sequence[Rule]) -> Pass:
    """A pass that applies rule tables to a fixpoint."""
    rules = [rule for table in tables for rule in table]
    infos = tuple({rule.info.name: rule.info for rule in rules}.values())
    index = indexed(rules)

    def run(flow: Flow, context: Context) -> Flow:
        facts = Facts(context.evaluate, context.assume_finite, flow.uses())
        off = {info.name for info in infos if not context.recorder.allows(info)}
        allowed = _without(index, off) if off else index
        return Driver(allowed, facts, context.recorder).normal(flow)

    return Pass(name, infos, run)


def _without(index: Index, off: set[str]) -> Index:
    return {key: [r for r in rules if r.info.name not in off] for key, rules in index.items()}


class Driver:
    """One run of a set of rules over a graph."""

    def __init__(self, index: Index, facts: Facts, recorder: Recorder) -> None:
        self._index: Final = index
        self._general: Final = index.get(Op, ())
        self._facts: Final = facts
        self._recorder: Final = recorder
        self._done: Final[dict[Node, Node]] = {}

    def normal(self, flow: Flow) -> Flow:
        """The flow with every node in its final form."""
        done = self._done
        forward: dict[Node, Node] = {}
        stack = list(reversed(flow.outputs))
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            target = forward.get(node)
            if target is not None:
                if target not in done:
                    raise RuntimeError(f"the rules for {node} come back to it")
                done[node] = done[target]
                stack.pop()
                continue
            inputs = node.inputs
            pending = [i for i in inputs if i not in done]
            if pending:
                stack.extend(reversed(pending))
                continue
            current = remade(node, tuple([done[i] for i in inputs])) if inputs else node
            if current is not node:
                if current in done:
                    done[node] = done[current]
                    stack.pop()
                    continue
                self._inherit(node, current)
            new = self._rewritten(current)
            if new is None:
                done[current] = done[node] = current
                stack.pop()
            elif new in done:
                done[current] = done[node] = done[new]
                stack.pop()
            else:
                forward[current] = forward[node] = new
                stack.append(new)
        return Flow(tuple([done[n] for n in flow.outputs]))

    def _inherit(self, old: Node, new: Node) -> None:
        """A node made anew is read where the old one was."""
        uses = self._facts.uses
        uses[new] += uses[old]

    def _rewritten(self, node: Node) -> Node | None:
        """What the first rule that applies puts in place of `node`."""
        facts = self._facts
        for rule in (*self._general, *self._index.get(key_of(node.op), ())):
            match = rule.match(node, facts)
            if match is None:
                continue
            with written_at(united_sources(match.through)):
                new = rule.build(match)
            if new is None or new is node:
                continue
            if new.shape != node.shape or new.dtype != node.dtype:
                raise RuntimeError(f"rule {rule.info.name} changes the type of {node} to {new}")
            self._inherit(node, new)
            gone = [n for n in match.through if n is node or facts.uses[n] == 1]
            self._recorder.record(rule.info, gone, self._made(new))
            return new
        return None

    def _made(self, new: Node) -> list[Node]:
        """The nodes of a result that were not there before, inputs first."""
        out: dict[Node, None] = {}
        stack = [new]
        while stack:
            node = stack.pop()
            if node not in self._done and node not in out:
                out[node] = None
                stack.extend(node.inputs)
        return list(out)[::-1]
