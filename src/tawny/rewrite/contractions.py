"""Contractions of three operands and more: two at a time, those first that leave the least."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Final, NamedTuple, cast

from tawny.node import Node, make
from tawny.ops.einsum import Einsum, relabel
from tawny.rewrite.facts import NodeFacts
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Match, RewriteRule, any_of, rule
from tawny.shape import size

LARGER: Final = 8
"""How many times the elements of all operands and the result what lies between may have."""

MOST: Final = 12
"""Operands, at most, whose pairs are looked through."""


class Factor(NamedTuple):
    """An operand, or the contraction of some, and its labels."""

    node: Node
    labels: str


def _has_several(node: Node, facts: NodeFacts) -> bool:
    del facts
    return 2 < len(node.inputs) <= MOST


def _in_pairs(m: Match) -> Node | None:
    """Contractions of two operands each; None where they multiply no less, or take much memory."""
    op, node = cast("Einsum", m.node.op), m.node
    inputs, _, output = op.subscripts.partition("->")
    factors = [Factor(*pair) for pair in zip(node.inputs, inputs.split(","), strict=True)]
    most = LARGER * (sum([size(n.shape) for n in node.inputs]) + size(node.shape))
    spent = 0
    while len(factors) > 1:
        left, right, kept = _cheapest(factors, output)
        joined = Einsum(relabel(f"{left.labels},{right.labels}->{kept}"))
        made = make(joined, (left.node, right.node))
        spent += joined.multiply_adds(made.shape, [left.node.shape, right.node.shape])
        if size(made.shape) > most:
            return None
        factors = [f for f in factors if f is not left and f is not right]
        factors.append(Factor(made, kept))
    direct = op.multiply_adds(node.shape, [n.shape for n in node.inputs])
    return factors[0].node if spent < direct else None


def _cheapest(factors: Sequence[Factor], output: str) -> tuple[Factor, Factor, str]:
    """The two whose contraction adds the fewest elements to what there is; and what labels it has.

    Of several they are those that multiply the least.
    """

    def cost(pair: tuple[Factor, Factor]) -> tuple[int, int]:
        sizes = _sizes(pair)
        made = prod([sizes[label] for label in _labels_needed(pair, factors, output)])
        return made - sum([size(f.node.shape) for f in pair]), prod(sizes.values())

    left, right = min(combinations(factors, 2), key=cost)
    last = len(factors) == 2
    return left, right, output if last else _labels_needed((left, right), factors, output)


def _sizes(pair: tuple[Factor, Factor]) -> dict[str, int]:
    """The sizes of the axes that two factors have together."""
    sizes: dict[str, int] = {}
    for node, labels in pair:
        for label, n in zip(labels, node.shape, strict=True):
            sizes[label] = max(n, sizes.get(label, 1))
    return sizes


def _labels_needed(pair: tuple[Factor, Factor], factors: Sequence[Factor], output: str) -> str:
    """The labels of two factors that others or the result have, too."""
    others = output + "".join([f.labels for f in factors if f is not pair[0] and f is not pair[1]])
    return "".join([label for label in _sizes(pair) if label in others])


CONTRACTIONS: Final[tuple[RewriteRule, ...]] = (
    rule(
        "einsum_pairs",
        Kind.CONTRACTING,
        any_of((Einsum,)),
        _in_pairs,
        "einsum(a, b, c) = einsum(einsum(a, b), c), where that multiplies less",
        only=_has_several,
    ),
)
