"""What the steps of a program were written as: the user's own arrays, also inside fused groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.array import evaluator
from tawny.graph.lowering import is_leaf
from tawny.node import Node, Part, make, remake, toposort, written_at
from tawny.op import Trait
from tawny.ops.bands import Bands
from tawny.ops.fused import Group, ProductGroup
from tawny.ops.pieces import GatherPieces
from tawny.rewrite.pipeline import PIPELINE, optimise


class Written(NamedTuple):
    """How the nodes of a program were written, where that was otherwise."""

    members: dict[Node, tuple[Node, ...]]
    """What each node computes."""
    own: dict[Node, Node]
    """The program's node that stands for each one that was written."""


def written_out(results: Sequence[Node]) -> Written:
    """The plain nodes that a program with groups, or gathers from pieces, computes.

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
        if isinstance(node.op, (Bands, Group, ProductGroup)):
            with written_at(node.sources):
                parts[node], out[node] = _members(node.op, inputs)
            plain[node] = parts[node][0]
        elif isinstance(node.op, GatherPieces):
            with written_at(node.sources):
                out[node] = node.op.written(inputs)
            plain[node] = out[node][-1]
        elif isinstance(node.op, Part) and node.inputs[0] in parts:
            plain[node] = parts[node.inputs[0]][node.op.index]
        elif inputs != node.inputs:
            plain[node] = remake(node, inputs)
            out[node] = (plain[node],)
    return Written(out, {written: node for node, written in plain.items()})


_SIMPLIFY: Final = tuple(p for p in PIPELINE if p.name == "simplify")


def simplified(results: Sequence[Node]) -> dict[Node, Node]:
    """For each node that `results` were written with, the one that simpler operands make of it."""
    order = toposort(results)
    made = optimise(order, evaluate=evaluator(), pipeline=_SIMPLIFY, measured=False)
    return dict(zip(order, made.outputs, strict=True))


def _members(
    group: Bands | Group | ProductGroup, operands: Sequence[Node]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The results of a group as plain nodes, and all nodes it computes."""
    values, members = list(operands), list[Node]()
    if isinstance(group, ProductGroup):
        values = group.given(operands)
        members.append(group.multiplied(operands))
    for step in group.body.steps:
        inputs = tuple([values[i] for i in step.inputs])
        if isinstance(step.op, Group):
            (made,), inner = _members(step.op, inputs)
            members.extend(inner)
        elif isinstance(step.op, GatherPieces):
            members.extend(step.op.written(inputs))
            made = members[-1]
        else:
            made = make(step.op, inputs)
            if Trait.VIEW not in step.op.facts().traits:
                members.append(made)
        values.append(made)
    return tuple([values[r] for r in group.body.results]), tuple(members)
