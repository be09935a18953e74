"""Rules applied to nodes: they are written for arrays, and may be missing in one mode."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.array import Array, array_for
from tawny.autodiff.rules import FORWARD, REVERSE
from tawny.autodiff.rules.quiet import quietly
from tawny.autodiff.rules.registry import key_of
from tawny.errors import value_error
from tawny.node import Node, part
from tawny.op import Elementwise, Gradient

Nodes = Sequence[Node | None]
"""Slopes or tangents, one for each operand or result; None for zero."""


def reverse_rule(node: Node, slopes: Nodes, masked: bool = False) -> Nodes | None:
    """Slopes of the operands by the op's own rule of reverse mode; None if it has none.

    Those that are zero since they are `masked` by `where` stay so.
    """
    rule = REVERSE.get(key_of(node.op))
    if rule is None:
        return None
    given = _arrays(slopes)
    with quietly(masked):
        made = rule(
            node.op, given if node.parts else given[0], _results(node), *map(array_for, node.inputs)
        )
    return _nodes(node, made, len(node.inputs))


def forward_rule(node: Node, tangents: Nodes) -> Nodes | None:
    """Tangents of the results by the op's own rule of forward mode; None if it has none."""
    rule = FORWARD.get(key_of(node.op))
    if rule is None:
        return None
    made = rule(node.op, _arrays(tangents), _results(node), *map(array_for, node.inputs))
    return _nodes(node, made, max(1, len(node.parts)))


def is_derived(node: Node) -> bool:
    """Whether slopes follow from what the op does to one element."""
    op = node.op
    return isinstance(op, Elementwise) and op not in REVERSE and op not in FORWARD


def refuse_undefined(node: Node) -> None:
    """Refuse to differentiate what has no derivative."""
    facts = node.op.facts()
    if facts.gradient is Gradient.NONE:
        raise value_error(
            "grad",
            f"{facts.name} has no derivative; take it for a constant with tw.stop_gradient, or "
            "give it one with tw.custom_vjp",
        )


def _arrays(nodes: Nodes) -> tuple[Array | None, ...]:
    return tuple([None if n is None else array_for(n) for n in nodes])


def _results(node: Node) -> Array | tuple[Array, ...]:
    if not node.parts:
        return array_for(node)
    return tuple([array_for(part(node, i)) for i in range(len(node.parts))])


def _nodes(node: Node, made: Array | Sequence[Array | None] | None, expected: int) -> Nodes:
    """What a rule gave, as nodes."""
    arrays = (made,) if made is None or isinstance(made, Array) else tuple(made)
    if len(arrays) != expected:
        raise AssertionError(f"{node!r}: its rule gave {len(arrays)} of {expected} derivatives")
    return [None if a is None else a.node for a in arrays]
