"""Broadcasting: elementwise work is done once, on the smallest arrays, and repeated afterwards.

    f(broadcast_to(p), q) = broadcast_to(f(p, q))

One equation covers the report's repeat before a broadcasting op (where q has the full shape nothing
is left to broadcast), both operands repeated, and the same repeated operand twice.
"""

from __future__ import annotations

from typing import Final, cast

from tawny.node import Node, make, make_as
from tawny.op import ELEMENTWISE, Family
from tawny.ops.creation import Cast
from tawny.ops.movement import BroadcastTo, Reshape
from tawny.ops.reduction import CHOOSING, Reduction
from tawny.rewrite.facts import NodeFacts, broadcast_to, reshape_to
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Capture, Match, RewriteRule, any_of, call, rule
from tawny.shape import broadcast, size

EXACT: Final = Kind.EXACT


def _hoist(m: Match) -> Node | None:
    """The op on what its operands were broadcast from, broadcast."""
    node = m.node
    if 0 in node.shape:
        return None
    small = [i.inputs[0] if type(i.op) is BroadcastTo else i for i in node.inputs]
    if node.op is _POWER and m.facts.fill(node.inputs[1]) in _LONE:
        small[1] = node.inputs[1]
        if small[0] is node.inputs[0]:
            return None
    shape = node.op.infer_shape(*[n.shape for n in small])
    return broadcast_to(make_as(node.op, tuple(small), shape, node.dtype), node.shape)


def _only_adds_ones(node: Node, facts: NodeFacts) -> bool:
    """Whether nothing is repeated."""
    del facts
    return size(node.shape) == size(node.inputs[0].shape) > 0


def _adds_ones(node: Node) -> bool:
    """Whether `node` only puts axes of size 1 before those of its operand."""
    if type(node.op) is not Reshape:
        return False
    new = len(node.shape) - len(node.inputs[0].shape)
    return new > 0 and node.shape == (1,) * new + node.inputs[0].shape


def _without_ones(m: Match) -> Node | None:
    """The op on operands without axes that broadcasting puts there anyway."""
    node, inputs = m.node, m.node.inputs
    for operand in dict.fromkeys(filter(_adds_ones, node.inputs)):
        (source,) = operand.inputs
        fewer = tuple(source if n is operand else n for n in inputs)
        if broadcast(node.name, [n.shape for n in fewer]) == node.shape:
            inputs = fewer
    return None if inputs == node.inputs else make(node.op, inputs)


def _reduce_once(m: Match) -> Node | None:
    """The extremum without the axes along which all elements are the same."""
    op = cast("Reduction", m.node.op)
    source, wide = m["x"], m["wide"]
    if not size(wide.shape):
        return None
    offset = len(wide.shape) - len(source.shape)
    equal = [
        a for a in op.axes if wide.shape[a] != 1 and (a < offset or source.shape[a - offset] == 1)
    ]
    if not equal:
        return None
    narrow = tuple(1 if a in equal else n for a, n in enumerate(wide.shape))
    result = make(type(op)(op.axes, True), (broadcast_to(source, narrow),))
    return reshape_to(result, m.node.shape)


_POWER: Final = ELEMENTWISE["pow"]
_LONE: Final = (2, 0.5, -1)
"""Exponents that round differently alone than in an array: see `algebra`."""

ELEMENTWISE_KEYS: Final[tuple[Family, ...]] = (*ELEMENTWISE.values(), Cast)

BROADCASTS: Final[tuple[RewriteRule, ...]] = (
    rule(
        "hoist_broadcast",
        EXACT,
        any_of(ELEMENTWISE_KEYS, some=(BroadcastTo,)),
        _hoist,
        "f(broadcast_to(p), q) = broadcast_to(f(p, q))",
    ),
    rule(
        "broadcast_ones",
        EXACT,
        call(BroadcastTo, Capture("x")),
        lambda m: reshape_to(m["x"], m.node.shape),
        "broadcast_to(x) = reshape(x) where it only adds axes of size 1",
        only=_only_adds_ones,
    ),
    rule(
        "reduce_broadcast",
        EXACT,
        any_of(CHOOSING, call(BroadcastTo, Capture("x"), name="wide")),
        _reduce_once,
        "max(broadcast_to(x)) = max(x) along the broadcast axes",
    ),
)

ONES: Final[tuple[RewriteRule, ...]] = (
    rule(
        "drop_ones",
        EXACT,
        any_of(tuple(ELEMENTWISE.values()), some=(Reshape,)),
        _without_ones,
        "f(reshape(x, (1, n)), y) = f(x, y) where broadcasting adds the axis",
    ),
)
