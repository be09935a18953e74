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
from itertools import chain
from typing import Any, Final, cast

from tawny.node import Constant, Node, written_at
from tawny.op import Elementwise, Op
from tawny.ops.creation import BroadcastTo
from tawny.rewrite.facts import Facts
from tawny.rewrite.flow import Context, Flow, Pass, Recorder, remade, united_sources
from tawny.rewrite.pattern import Call, Filled, Key, Made, Rule, orders

Signature = tuple[object, ...]
"""Whether all operands are one node, the op of a node, and what makes each operand."""


class RuleSet:
    """Rules, found by the ops of a node and its operands."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_op: Final[dict[Key, list[Rule]]] = {}
        for rule in rules:
            for pattern in orders(rule.pattern):
                if isinstance(pattern, Call):
                    for key in pattern.ops or (Op,):
                        self._by_op.setdefault(key, []).append(replace(rule, pattern=pattern))
        self.found: Final[dict[Signature, list[Rule]]] = {}
        """The rules that can match, for each signature met."""
        operands = [a for r in chain(*self._by_op.values()) for a in r.pattern.args or ()]
        self.values: Final = frozenset(
            a.value for a in operands if isinstance(a, Filled) and a.value is not None
        )
        """The values that patterns ask constants to be filled with."""

    def find(self, signature: Signature) -> list[Rule]:
        """The rules that can match; those for every op come first."""
        same, *keys = signature
        made = [Made(*key) if isinstance(key, tuple) else Made(cast("Key", key)) for key in keys]
        rules = [*self._by_op.get(Op, ()), *self._by_op.get(made[0].by, ())]
        found = [r for r in rules if r.pattern.may_match(made[1:], bool(same))]
        self.found[signature] = found
        return found


def rules_pass(name: str, *tables: Sequence[Rule]) -> Pass:
    """A pass that applies rule tables to a fixpoint."""
    rules = [rule for table in tables for rule in table]
    infos = tuple({rule.info.name: rule.info for rule in rules}.values())
    everything = RuleSet(rules)

    def run(flow: Flow, context: Context) -> Flow:
        off = {info.name for info in infos if not context.recorder.allows(info)}
        allowed = RuleSet(r for r in rules if r.info.name not in off) if off else everything
        facts = Facts(context.evaluate, context.assume_finite, flow.uses())
        return Driver(allowed, facts, context.recorder).settled(flow)

    return Pass(name, infos, run)


NAN: Final = float("nan")


class Driver:
    """One run of a set of rules over a graph."""

    def __init__(self, rules: RuleSet, facts: Facts, recorder: Recorder) -> None:
        self._rules: Final = rules
        self._facts: Final = facts
        self._recorder: Final = recorder
        self._final: Final[dict[Node, Node]] = {}
        """The final form of each node met."""

    def settled(self, flow: Flow) -> Flow:
        """The flow with every node in its final form."""
        final = self._final
        for node in flow.order():
            if node not in final:
                current = self._on_final_inputs(node)
                if current in final:
                    final[node] = final[current]
                elif (new := self._rewritten(current)) is None:
                    final[node] = final[current] = current
                else:
                    self._settle(new)
                    final[node] = final[current] = final[new]
        return flow.with_outputs(tuple([final[n] for n in flow.outputs]))

    def _settle(self, root: Node) -> None:
        """Find the final form of what a rule gave, and of the nodes it made for it."""
        final = self._final
        stack = [root]
        forward: dict[Node, Node] = {}
        while stack:
            node = stack[-1]
            if node in final:
                stack.pop()
            elif node in forward:
                if forward[node] not in final:
                    raise RuntimeError(f"the rules for {node} come back to it")
                final[node] = final[forward[node]]
            elif pending := [i for i in node.inputs if i not in final]:
                stack.extend(reversed(pending))
            else:
                current = self._on_final_inputs(node)
                if current in final:
                    final[node] = final[current]
                elif (new := self._rewritten(current)) is None:
                    final[current] = final[node] = current
                else:
                    forward[current] = forward[node] = new
                    stack.append(new)

    def _on_final_inputs(self, node: Node) -> Node:
        final = self._final
        for source in node.inputs:
            if final[source] is not source:
                break
        else:
            return node
        new = remade(node, tuple([final[i] for i in node.inputs]))
        self._inherit(node, new)
        return new

    def _inherit(self, old: Node, new: Node) -> None:
        """What stands for a node is read where that was."""
        uses = self._facts.uses
        uses[new] = uses.get(new, 0) + uses.get(old, 0)

    def _rules_for(self, node: Node) -> list[Rule]:
        """The rules that can match, by what `node` and its operands are made by."""
        inputs = node.inputs
        signature: list[object] = [len(inputs) > 1 and inputs.count(inputs[0]) == len(inputs)]
        for operand in (node, *inputs):
            op = operand.op
            made_by = op if type(op) is Elementwise else type(op)
            if (made_by is Constant or made_by is BroadcastTo) and operand is not node:
                signature.append((made_by, self._asked_for(self._facts.fill(operand))))
            else:
                signature.append(made_by)
        key = tuple(signature)
        found = self._rules.found.get(key)
        return self._rules.find(key) if found is None else found

    def _asked_for(self, fill: Any) -> complex | None:
        """The value that fills a constant, if some pattern asks for it."""
        if fill is None:
            return None
        value: complex = fill.item()
        return value if value in self._rules.values else NAN

    def _rewritten(self, node: Node) -> Node | None:
        """What the first rule that applies puts in place of `node`."""
        for rule in self._rules_for(node):
            match = rule.match(node, self._facts)
            if match is None:
                continue
            with written_at(united_sources(match.through)):
                new = rule.build(match)
            if new is None or new is node:
                continue
            if new.shape != node.shape or new.dtype != node.dtype:
                raise RuntimeError(f"rule {rule.info.name} changes the type of {node} to {new}")
            uses = self._facts.uses
            gone = [n for n in match.through if n is node or uses.get(n) == 1]
            self._inherit(node, new)
            self._recorder.record(rule.info, gone, self._made(new))
            return new
        return None

    def _made(self, new: Node) -> list[Node]:
        """The nodes of a result that were not there before, inputs first."""
        out: dict[Node, None] = {}
        stack = [new]
        while stack:
            node = stack.pop()
            if node not in self._final and node not in out:
                out[node] = None
                stack.extend(node.inputs)
        return list(out)[::-1]
