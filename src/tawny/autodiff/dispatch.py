"""Finds the rule of a node's op and applies it; rules are written for arrays."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.array import Array, array_for
from tawny.errors import value_error
from tawny.node import Node, part
from tawny.op import Derivatives, Elementwise, Gradient
from tawny.ops.differentiation import keep_zeros

DerivativeNodes = Sequence[Node | None]
"""Cotangents or tangents, one for each operand or result; None for zero."""


def apply_pullback(
    node: Node, cotangents: DerivativeNodes, masked: bool = False
) -> DerivativeNodes | None:
    """Cotangents of the operands by the op's own rule of reverse mode; None if it has none.

    Cotangents that are zero since they are `masked` by `where` stay zero.
    """
    if not node.op.facts().has_pullback:
        return None
    given = _arrays(cotangents)
    with keep_zeros(masked):
        made = node.op.pullback(
            given if node.parts else given[0], _results(node), *map(array_for, node.inputs)
        )
    return _nodes(node, made, len(node.inputs))


def apply_pushforward(node: Node, tangents: DerivativeNodes) -> DerivativeNodes | None:
    """Tangents of the results by the op's own rule of forward mode; None if it has none."""
    facts = node.op.facts()
    if not facts.has_pushforward:
        return None
    given = _arrays(tangents)
    made = node.op.pushforward(
        given[0] if facts.arity == 1 else given, _results(node), *map(array_for, node.inputs)
    )
    return _nodes(node, made, max(1, len(node.parts)))


def has_scalar_derivative(node: Node) -> bool:
    """Whether the derivative follows from the op's scalar expression."""
    op = node.op
    return isinstance(op, Elementwise) and op.info.gradient is not Gradient.RULE


def check_differentiable(node: Node) -> None:
    """Refuse to differentiate what has no derivative."""
    facts = node.op.facts()
    if facts.gradient is Gradient.NONE:
        raise value_error(
            "grad",
            f"{facts.name} has no derivative; take it for a constant with tw.stop_gradient, or "
            "give it one with tw.custom_vjp",
        )


def _arrays(nodes: DerivativeNodes) -> tuple[Array | None, ...]:
    return tuple([None if n is None else array_for(n) for n in nodes])


def _results(node: Node) -> Array | tuple[Array, ...]:
    if not node.parts:
        return array_for(node)
    return tuple([array_for(part(node, i)) for i in range(len(node.parts))])


def _nodes(node: Node, made: Derivatives, expected: int) -> DerivativeNodes:
    """What a rule gave, as nodes."""
    arrays = (made,) if made is None or isinstance(made, Array) else tuple(made)
    if len(arrays) != expected:
        raise AssertionError(f"{node!r}: its rule gave {len(arrays)} of {expected} derivatives")
    return [None if a is None else a.node for a in arrays]
