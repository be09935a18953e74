"""What the steps of a program were written as: the user's own arrays, also inside fused groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tawny.graph.lowering import is_leaf
from tawny.node import Node, Part, make, remake, toposort, written_at
from tawny.op import Trait
from tawny.ops.fused import Group, ProductGroup


class Written(NamedTuple):
    """How the nodes of a program were written, where that was otherwise."""

    members: dict[Node, tuple[Node, ...]]
    """What each node computes."""
    own: dict[Node, Node]
    """The program's node that stands for each one that was written."""


def written_out(results: Sequence[Node]) -> Written:
    """The plain nodes that a program with groups computes.

    Equal nodes are the same object, so these are the nodes that the groups were made of, as long as
    somebody holds them.
    """
    plain: dict[Node, Node] = {}
    parts: dict[Node, tuple[Node, ...]] = {}
    out: dict[Node, tuple[Node, ...]] = {}
    for node in toposort(results, is_leaf):
        if is_leaf(node):
            continue
        inputs = tuple([plain.get(i, i) for i in node.inputs])
        if isinstance(node.op, (Group, ProductGroup)):
            parts[node], out[node] = _members(node, node.op, inputs)
            plain[node] = parts[node][0]
        elif isinstance(node.op, Part) and node.inputs[0] in parts:
            plain[node] = parts[node.inputs[0]][node.op.index]
        elif inputs != node.inputs:
            plain[node] = remake(node, inputs)
            out[node] = (plain[node],)
    return Written(out, {written: node for node, written in plain.items()})


def _members(
    node: Node, group: Group | ProductGroup, operands: Sequence[Node]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The results of a group as plain nodes, and all nodes it computes."""
    values, members = list(operands), list[Node]()
    with written_at(node.sources):
        if isinstance(group, ProductGroup):
            values = group.multiplied(operands)
            members.append(values[0])
        for step in group.body.steps:
            made = make(step.op, tuple([values[i] for i in step.inputs]))
            values.append(made)
            if Trait.VIEW not in step.op.facts().traits:
                members.append(made)
    return tuple([values[r] for r in group.body.results]), tuple(members)
