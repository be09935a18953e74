"""Broadcasting: elementwise work is done once, on the smallest arrays, and repeated afterwards.

    f(broadcast_to(p), q) = broadcast_to(f(p, q))

One equation covers the report's repeat before a broadcasting op (where q has the full shape nothing
is left to broadcast), both operands repeated, and the same repeated operand twice.
"""

from __future__ import annotations

from typing import Final, cast

from tawny.node import Node, make
from tawny.op import ELEMENTWISE
from tawny.ops.creation import BroadcastTo, Cast
from tawny.ops.movement import broadcasted, reshaped
from tawny.ops.reduction import AllTrue, AnyTrue, Max, Min, Reduction
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Capture, Key, Match, Rule, any_of, call, rule
from tawny.shape import size

EXACT: Final = Kind.EXACT


def _hoisted(m: Match) -> Node | None:
    """The op on what its operands were broadcast from, broadcast."""
    node = m.node
    if not size(node.shape):
        return None
    small = [i.inputs[0] if type(i.op) is BroadcastTo else i for i in node.inputs]
    if node.op is _POWER and m.facts.fill(node.inputs[1]) in _LONE:
        small[1] = node.inputs[1]
    if all(s is i for s, i in zip(small, node.inputs, strict=True)):
        return None
    return broadcasted(make(node.op, tuple(small)), node.shape)


def _reduced_once(m: Match) -> Node | None:
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
    result = make(type(op)(op.axes, True), (broadcasted(source, narrow),))
    return reshaped(result, m.node.shape)


_POWER: Final = ELEMENTWISE["pow"]
_LONE: Final = (2, 0.5, -1)
"""Exponents that round differently alone than in an array: see `algebra`."""

ELEMENTWISE_KEYS: Final[tuple[Key, ...]] = (*ELEMENTWISE.values(), Cast)

BROADCASTS: Final[tuple[Rule, ...]] = (
    rule(
        "hoist_broadcast",
        EXACT,
        any_of(ELEMENTWISE_KEYS, some=(BroadcastTo,)),
        _hoisted,
        "f(broadcast_to(p), q) = broadcast_to(f(p, q))",
    ),
    rule(
        "reduce_broadcast",
        EXACT,
        any_of([Max, Min, AllTrue, AnyTrue], call(BroadcastTo, Capture("x"), name="wide")),
        _reduced_once,
        "max(broadcast_to(x)) = max(x) along the broadcast axes",
    ),
)
