"""Ops that only say how to differentiate are left out once derivatives have been taken."""

from __future__ import annotations

from typing import Final

from tawny.node import Node, Part
from tawny.ops.differentiation import DerivativeMarker, StopGradient
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Capture, Match, RewriteRule, any_of, call, rule

EXACT: Final = Kind.EXACT
x: Final = Capture("x")


def _result(m: Match) -> Node | None:
    """The result that is a part of a function with its own derivative."""
    (whole,) = m.node.inputs
    if not isinstance(m.node.op, Part) or not isinstance(whole.op, DerivativeMarker):
        return None
    return whole.inputs[m.node.op.index]


ANNOTATIONS: Final[tuple[RewriteRule, ...]] = (
    rule("stop_gradient", EXACT, call(StopGradient, x), x, "stop_gradient(x) = x"),
    rule(
        "own_derivative",
        EXACT,
        any_of([Part]),
        _result,
        "the result of f with its own derivative = f",
    ),
)
