"""Products: the cotangent of a factor is the incoming cotangent times the other factors.

Where a factor was repeated, as over a stack, its cotangent is summed inside that product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.node import Node, make, scalar
from tawny.op import ELEMENTWISE
from tawny.ops.creation import Eye
from tawny.ops.linalg import Einsum, Matmul, einsum
from tawny.ops.movement import broadcast_node, expand_node, reshape_node, transpose_node
from tawny.shape import Shape, size

_MATMUL: Final = Matmul()
_MULTIPLY: Final = ELEMENTWISE["multiply"]
_WHERE: Final = ELEMENTWISE["where"]
_AND: Final = ELEMENTWISE["logical_and"]


@reverse(Matmul)
def _(op: Matmul, cotangent: Array, y: Array, a: Array, b: Array) -> tuple[Array, Array]:
    incoming, left, right = cotangent.node, a.node, b.node
    to_left, to_right = (f(incoming, left, right) for f in (_left_cotangent, _right_cotangent))
    return wrap(to_left), wrap(to_right)


def _left_cotangent(cotangent: Node, a: Node, b: Node) -> Node:
    """The cotangent of the first factor of a matrix product."""
    if len(b.shape) == 1:
        return make(_MULTIPLY, (_column(cotangent) if len(a.shape) > 1 else cotangent, b))
    if len(a.shape) == 1:
        if len(b.shape) == 2:
            return make(_MATMUL, (b, cotangent))
        return make(Einsum("abc,ac->b"), (_flatten_stack(b, 2), _flatten_stack(cotangent, 1)))
    if len(a.shape) == 2 < len(b.shape):
        return make(Einsum("abc,adc->bd"), (_flatten_stack(cotangent, 2), _flatten_stack(b, 2)))
    return make(_MATMUL, (cotangent, _transpose_matrices(b)))


def _right_cotangent(cotangent: Node, a: Node, b: Node) -> Node:
    """The cotangent of the second factor of a matrix product."""
    if len(a.shape) == 1:
        if len(b.shape) == 1:
            return make(_MULTIPLY, (cotangent, a))
        return make(_MULTIPLY, (_row(cotangent), _column(a)))
    if len(b.shape) == 1:
        return make(_MATMUL, (_flatten_stack(cotangent, 0), _flatten_stack(a, 1)))
    if len(b.shape) == 2:
        return make(
            _MATMUL, (_transpose_matrices(_flatten_stack(a, 1)), _flatten_stack(cotangent, 1))
        )
    return make(_MATMUL, (_transpose_matrices(a), cotangent))


def _column(x: Node) -> Node:
    return expand_node(x, (len(x.shape),))


def _row(x: Node) -> Node:
    return expand_node(x, (len(x.shape) - 1,))


def _transpose_matrices(x: Node) -> Node:
    """Matrices transposed."""
    rank = len(x.shape)
    return transpose_node(x, (*range(rank - 2), rank - 1, rank - 2))


def _flatten_stack(x: Node, rank: int) -> Node:
    """All axes of `x` but the last `rank` made one."""
    split = len(x.shape) - rank
    return reshape_node(x, (size(x.shape[:split]), *x.shape[split:]))


@reverse(Einsum)
def _(op: Einsum, cotangent: Array, y: Array, *factors: Array) -> list[Array]:
    inputs, _, output = op.subscripts.partition("->")
    terms = inputs.split(",")
    return [_factor_cotangent(i, cotangent, output, terms, factors) for i in range(len(factors))]


def _factor_cotangent(
    position: int, cotangent: Array, output: str, terms: Sequence[str], factors: Sequence[Array]
) -> Array:
    """The cotangent of one factor: a product by the labels of that factor.

    Its axes of size 1 were stretched, so they are summed over; labels that no other factor and
    not the result has were summed over, so the cotangent is the same all along them; a label that
    it has twice picks a diagonal, outside which the cotangent is zero.
    """
    term, x = terms[position], factors[position].node
    others = [(t, f) for i, (t, f) in enumerate(zip(terms, factors, strict=True)) if i != position]
    elsewhere = output + "".join(t for t, _ in others)
    labels = dict(zip(term, x.shape, strict=True))
    kept = "".join(label for label, n in labels.items() if n != 1 and label in elsewhere)
    product = cotangent
    if others or kept != output:
        subscripts = ",".join([output, *(t for t, _ in others)])
        product = einsum(f"{subscripts}->{kept}", cotangent, *(f for _, f in others))
    found = dict(zip(kept, product.shape, strict=True))
    shape = tuple(found.pop(label, 1) for label in term)
    spread = _on_diagonals(reshape_node(product.node, shape), term, x.shape)
    return wrap(broadcast_node(spread, x.shape))


def _on_diagonals(node: Node, term: str, shape: Shape) -> Node:
    """`node` where all axes of one label have the same index, and zero elsewhere."""
    mask: Node | None = None
    for axis, label in enumerate(term):
        first = term.index(label)
        if first == axis or shape[axis] == 1:
            continue
        n = shape[axis]
        sizes = tuple(n if a in (first, axis) else 1 for a in range(len(shape)))
        here = reshape_node(make(Eye(n, n, 0, dt.BOOL)), sizes)
        mask = here if mask is None else make(_AND, (mask, here))
    if mask is None:
        return node
    return make(_WHERE, (mask, node, scalar(0, node.dtype, "einsum")))
