"""Fused nodes as the plain ones they were made of, to find what the user wrote in a program."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from tawny.array import evaluator
from tawny.engine.lowering import is_leaf
from tawny.node import Node, Part, make, remake, source_scope, toposort
from tawny.op import ELEMENTWISE, Op
from tawny.ops.bands import Bands
from tawny.ops.body import Body
from tawny.ops.convolution import Convolution
from tawny.ops.fused_products import FusedProduct, epilogue_of, plain_product, transposes
from tawny.ops.fusion import Group
from tawny.ops.linalg import Matmul
from tawny.ops.movement import transpose_node
from tawny.ops.pieces import GatherPieces
from tawny.rewrite.pipeline import SIMPLIFY, optimise

# ---------------------------------------------------------- groups and pieces


class ExpandedGroups(NamedTuple):
    """The plain nodes that the groups of a program compute."""

    members: dict[Node, tuple[Node, ...]]
    """The plain nodes that each node of the program computes."""
    program_node: dict[Node, Node]
    """The node of the program that gives the value of each plain one."""


def expand_groups(results: Sequence[Node]) -> ExpandedGroups:
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
        body = body_of(node.op)
        if body is not None:
            with source_scope(node.sources):
                parts[node], out[node] = _members(node.op, body, inputs)
            plain[node] = parts[node][0]
        elif isinstance(node.op, GatherPieces):
            with source_scope(node.sources):
                out[node] = node.op.expand(inputs)
            plain[node] = out[node][-1]
        elif isinstance(node.op, Part) and node.inputs[0] in parts:
            plain[node] = parts[node.inputs[0]][node.op.index]
        elif inputs != node.inputs:
            plain[node] = remake(node, inputs)
            out[node] = (plain[node],)
    return ExpandedGroups(out, {written: node for node, written in plain.items()})


def simplify_nodes(results: Sequence[Node]) -> dict[Node, Node]:
    """For each node that `results` were written with, the one that simpler operands make of it."""
    order = toposort(results)
    made = optimise(order, evaluate=evaluator(), pipeline=(SIMPLIFY,), measured=False)
    return dict(zip(order, made.outputs, strict=True))


def body_of(op: Op) -> Body | None:
    """The body of a group, of bands, or of a product that one uses up; None for others."""
    return op.body if isinstance(op, (Bands, Group, FusedProduct)) else None


def _members(
    group: Op, body: Body, operands: Sequence[Node]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The results of an op with a body as plain nodes, and all nodes it computes."""
    values, members = list(operands), list[Node]()
    if isinstance(group, FusedProduct):
        values = group.body_operands(operands)
        members.append(group.product_node(operands))
    for step in body.steps:
        inputs = tuple([values[i] for i in step.inputs])
        if isinstance(step.op, Group):
            (made,), inner = _members(step.op, step.op.body, inputs)
            members.extend(inner)
        elif isinstance(step.op, GatherPieces):
            members.extend(step.op.expand(inputs))
            made = members[-1]
        else:
            made = make(step.op, inputs)
            if not step.op.facts().view:
                members.append(made)
        values.append(made)
    return tuple([values[r] for r in body.results]), tuple(members)


# --------------------------------------------- products with what follows them


_ADD: Final = ELEMENTWISE["add"]
_MULTIPLY: Final = ELEMENTWISE["multiply"]
_FMA: Final = ELEMENTWISE["fma"]


class ExpandedFusions(NamedTuple):
    """Plain nodes, and the nodes of a program that compute them."""

    program_node: dict[Node, Node]
    """The node of the program that gives the value of each plain one."""
    inside: dict[Node, Node]
    """The node that computes a plain one on the way, and gives no value for it."""


def expand_fusions(results: Sequence[Node], known: Collection[Node]) -> ExpandedFusions:
    """The plain nodes that a graph of fused ones computes.

    Where a fused node may have been made of several, those among `known` are meant.
    """
    plain: dict[Node, Node] = {}
    own, inside = dict[Node, Node](), dict[Node, Node]()
    for node in toposort(results, is_leaf):
        if is_leaf(node):
            continue
        inputs = tuple([plain.get(i, i) for i in node.inputs])
        with source_scope(node.sources):
            *inner, plain[node] = _expand_fusion(node, inputs, known)
        own[plain[node]] = node
        inside.update(dict.fromkeys(inner, node))
    return ExpandedFusions(own, inside)


def _expand_fusion(node: Node, inputs: tuple[Node, ...], known: Collection[Node]) -> list[Node]:
    """The plain nodes that compute a node, one after the other."""
    op = node.op
    if op is _FMA:
        first, second, third = inputs
        product = _known_order(make(_MULTIPLY, (first, second)), (second, first), known)
        return [product, _known_order(make(_ADD, (product, third)), (third, product), known)]
    plain, epilogue = plain_product(op), epilogue_of(op)
    if epilogue is None or epilogue.scaled or type(op) in (Matmul, Convolution):
        return [node if inputs == node.inputs else remake(node, inputs)]
    first, second, *added = inputs
    transpose_a, transpose_b = transposes(plain)
    first = _swap_last_axes(first) if transpose_a else first
    second = _swap_last_axes(second) if transpose_b else second
    made = [make(plain if isinstance(plain, Convolution) else Matmul(), (first, second))]
    for addend in added:
        made.append(_known_order(make(_ADD, (made[-1], addend)), (addend, made[-1]), known))
    last = epilogue.activation.op
    return made if last is None else [*made, make(last, (made[-1],))]


def _known_order(node: Node, exchanged: tuple[Node, Node], known: Collection[Node]) -> Node:
    """A sum or product, or the one of exchanged operands if that is known."""
    if node in known:
        return node
    other = make(node.op, exchanged)
    return other if other in known else node


def _swap_last_axes(node: Node) -> Node:
    """A node with its last two axes exchanged."""
    rank = len(node.shape)
    return transpose_node(node, (*range(rank - 2), rank - 1, rank - 2))
