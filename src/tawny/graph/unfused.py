"""Fused nodes as the plain ones they were made of, to find what the user wrote in a program."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from tawny.graph.lowering import is_leaf
from tawny.node import Node, make, remake, toposort, written_at
from tawny.op import ELEMENTWISE
from tawny.ops.convolution import Convolution
from tawny.ops.fused import FusedConvolution, FusedMatmul
from tawny.ops.linalg import Matmul
from tawny.ops.movement import permuted

_ADD: Final = ELEMENTWISE["add"]
_MULTIPLY: Final = ELEMENTWISE["multiply"]
_FMA: Final = ELEMENTWISE["fma"]


class Unfused(NamedTuple):
    """Plain nodes, and the nodes of a program that compute them."""

    own: dict[Node, Node]
    """Those that give the value of a plain one."""
    inside: dict[Node, Node]
    """Those that compute it on the way, and give no value for it."""


def unfused(results: Sequence[Node], known: Collection[Node]) -> Unfused:
    """The plain nodes that a graph of fused ones computes.

    Where a fused node may have been made of several, those among `known` are meant.
    """
    plain: dict[Node, Node] = {}
    own, inside = dict[Node, Node](), dict[Node, Node]()
    for node in toposort(results, is_leaf):
        if is_leaf(node):
            continue
        inputs = tuple([plain.get(i, i) for i in node.inputs])
        with written_at(node.sources):
            *inner, plain[node] = _plain(node, inputs, known)
        own[plain[node]] = node
        inside.update(dict.fromkeys(inner, node))
    return Unfused(own, inside)


def _plain(node: Node, inputs: tuple[Node, ...], known: Collection[Node]) -> list[Node]:
    """The plain nodes that compute a node, one after the other."""
    op = node.op
    if op is _FMA:
        first, second, third = inputs
        product = _either(make(_MULTIPLY, (first, second)), (second, first), known)
        return [product, _either(make(_ADD, (product, third)), (third, product), known)]
    if not isinstance(op, (FusedMatmul, FusedConvolution)) or op.epilogue.scaled:
        return [node if inputs == node.inputs else remake(node, inputs)]
    first, second, *added = inputs
    if isinstance(op, FusedMatmul):
        first = _exchanged(first) if op.transpose_a else first
        second = _exchanged(second) if op.transpose_b else second
        made = [make(Matmul(), (first, second))]
    else:
        geometry = (op.strides, op.padding, op.dilation, op.groups)
        made = [make(Convolution(*geometry), (first, second))]
    for addend in added:
        made.append(_either(make(_ADD, (made[-1], addend)), (addend, made[-1]), known))
    last = op.epilogue.activation.op
    return made if last is None else [*made, make(last, (made[-1],))]


def _either(node: Node, exchanged: tuple[Node, Node], known: Collection[Node]) -> Node:
    """A sum or product, or the one of exchanged operands if that is known."""
    if node in known:
        return node
    other = make(node.op, exchanged)
    return other if other in known else node


def _exchanged(node: Node) -> Node:
    """A node with its last two axes exchanged."""
    rank = len(node.shape)
    return permuted(node, (*range(rank - 2), rank - 1, rank - 2))
