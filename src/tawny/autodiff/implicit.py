"""Derivatives of arrays by the equations that they satisfy."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.array import Array, wrap
from tawny.autodiff.batching import BatchedRule
from tawny.node import make_parts
from tawny.ops.differentiation import GivenRule, Implicit


class EquationRule(GivenRule):
    """A derivative that follows from an equation, whose parameters are among the operands."""

    def batch(self, batched: Sequence[bool]) -> GivenRule:
        return BatchedRule(self, batched)


def attach_equation(x: Array, rule: EquationRule, operands: Sequence[Array]) -> Array:
    """`x`, with its derivative by a rule in some operands, whatever it was computed from."""
    nodes = tuple([a.node for a in (x, *operands)])
    (marked,) = make_parts(Implicit(1, rule), nodes)
    return wrap(marked)
