"""The pass that makes groups: elementwise ops and reductions that run as one kernel each.

`group_choice` says which nodes run together, and why; here they become `Group` nodes.  A flow that
has groups already is first written out, so the pass gives the same groups again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tawny.node import Node, Part, make, part, toposort, written_at
from tawny.op import Type
from tawny.ops.fused import Body, Group, Step, expanded
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, remade, united_sources
from tawny.rewrite.group_choice import Choice, Unit
from tawny.rewrite.group_lifetime import is_leaf

GROUP: Final = RuleInfo(
    "group", Kind.EXACT, "elementwise ops and reductions over one space run as one kernel"
)


def grouping(moment: Callable[[Node], object] | None = None) -> Pass:
    """The pass; with `moment`, only nodes for which it gives the same run together.

    The flow must then have no groups yet.
    """

    def run(flow: Flow, context: Context) -> Flow:
        if not context.recorder.allows(GROUP):
            return flow
        outputs, origins = flow.outputs, dict[Node, Node]()
        order = toposort(outputs, is_leaf)
        had = {n for n in order if type(n.op) is Group}
        if had:
            outputs, origins = ungrouped(outputs, order)
            order = toposort(outputs, is_leaf)
        rebuilding = _Rebuilding(Choice(order, outputs, moment), origins)
        for before, group in rebuilding.groups:
            if group not in had:
                context.recorder.record(GROUP, before, (group,))
        return flow.with_outputs(rebuilding.outputs(outputs))

    return Pass("group_elementwise", (GROUP,), run)


group_elementwise: Final = grouping()


def ungrouped(
    outputs: Sequence[Node], order: Sequence[Node]
) -> tuple[tuple[Node, ...], dict[Node, Node]]:
    """The outputs with every group written out, and where each node made for that came from."""
    origins: dict[Node, Node] = {}
    done: dict[Node, Node] = {}
    results: dict[Node, tuple[Node, ...]] = {}
    for node in order:
        if is_leaf(node):
            done[node] = node
            continue
        if type(node.op) is Part and node.inputs[0] in results:
            done[node] = results[node.inputs[0]][node.op.index]
            continue
        inputs = tuple([done[i] for i in node.inputs])
        if type(node.op) is Group:
            results[node] = expanded(node, inputs)
            done[node] = results[node][0]
            continue
        done[node] = remade(node, inputs)
        if done[node] is not node:
            origins[done[node]] = node
    return tuple([done[n] for n in outputs]), origins


class _Rebuilding:
    """The graph of the chosen units."""

    def __init__(self, choice: Choice, origins: Mapping[Node, Node]) -> None:
        self.choice = choice
        self.origins = origins
        self.made: list[Node | None] = [None] * len(choice.order)
        """What stands for each node, once it is made."""
        self.groups: list[tuple[list[Node], Node]] = []
        for i, node in enumerate(choice.order):
            if choice.leaf[i]:
                self.made[i] = node
        units = [u for u in choice.units if u.members]
        for unit in sorted(units, key=lambda u: u.level):
            if len(unit.members) > 1:
                self._group(unit)
            else:
                self._alone(unit.members[0])

    def outputs(self, outputs: Sequence[Node]) -> tuple[Node, ...]:
        """What stands for the outputs."""
        index = self.choice.lifetimes.index
        return tuple([self._node(index[n]) for n in outputs])

    def _node(self, i: int) -> Node:
        """What stands for a node whose inputs have been made; free views are made now."""
        made, reads, order = self.made, self.choice.lifetimes.reads, self.choice.order
        path: list[int] = []
        while (known := made[i]) is None:
            path.append(i)
            i = reads[i][0]
        for view in reversed(path):
            known = made[view] = self._remade(order[view], (known,))
        return known

    def _remade(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The node with other inputs: the one the flow had, where it had one."""
        return remade(self.origins.get(node, node), inputs)

    def _alone(self, i: int) -> None:
        node, reads = self.choice.order[i], self.choice.lifetimes.reads[i]
        self.made[i] = self._remade(node, tuple([self._node(s) for s in reads]))

    def _group(self, unit: Unit) -> None:
        choice = self.choice
        members = sorted(unit.members)
        nodes = [choice.order[i] for i in members]
        results = [i for i in members if choice.result[i]]
        operands, body = self._body(members, results)
        with written_at(united_sources(nodes)):
            group = make(Group(body), operands)
            if len(results) == 1:
                self.made[results[0]] = group
            else:
                for number, i in enumerate(results):
                    self.made[i] = part(group, number)
        self.groups.append((nodes, group))

    def _body(self, members: list[int], results: list[int]) -> tuple[tuple[Node, ...], Body]:
        """The operands of a group, in the order they are first read, and its steps."""
        choice = self.choice
        order, reads, base = choice.order, choice.lifetimes.reads, choice.base
        inside = set(members)
        operands: dict[int, int] = {}
        needed: list[int] = []
        taken: set[int] = set()
        for i in members:
            for read in reads[i]:
                s = read
                path: list[int] = []
                while base[s] != s and s not in taken:
                    path.append(s)
                    s = reads[s][0]
                if base[s] == s and s not in inside and s not in operands:
                    operands[s] = len(operands)
                if path:
                    taken.update(path)
                    needed.extend(reversed(path))
            needed.append(i)
        operands = {s: number for number, s in enumerate(sorted(operands))}
        numbers = dict(operands)
        steps: list[Step] = []
        for i in needed:
            node = order[i]
            numbers[i] = len(numbers)
            inputs = tuple([numbers[s] for s in reads[i]])
            steps.append(Step(node.op, inputs, node.shape, node.dtype))
        given = tuple([self._node(s) for s in operands])
        types: tuple[Type, ...] = tuple([(n.shape, n.dtype) for n in given])
        return given, Body.of(types, tuple(steps), tuple([numbers[i] for i in results]))
