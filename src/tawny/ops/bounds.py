"""Indices that must lie within an axis: checked at once if they are known, else as they come."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.array import Array, wrap
from tawny.attributes import Natural
from tawny.dtype_rules import integer
from tawny.errors import value_error
from tawny.node import Node, Value, make
from tawny.op import BatchOperand, Gradient, Op


class CheckedIndices(Op, name="places", dtype=integer, gradient=Gradient.ZERO):
    """Operand 0 as it is: integers, each of which must be from 0 to below `count`.

    A run that meets another one is ended by an IndexError that names `function`, the public
    function the user called.
    """

    count: Natural
    function: str

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(self, (operands[0].node,))


def check_within(places: Array, n: int, op: str) -> Array:
    """`places`, which must be from 0 to below `n`: checked at once if they are known."""
    node = places.node
    if node.value is None:
        return wrap(make(CheckedIndices(n, op), (node,)))
    outside = index_outside(node.value, n)
    if outside is not None:
        raise value_error(op, f"index {outside} is outside; it must be from 0 to {n - 1}")
    return places


def index_outside(places: Value, n: int) -> int | None:
    """A place that is not from 0 to below `n`, if there is one."""
    if not places.size:
        return None
    low, high = int(places.min()), int(places.max())
    return low if low < 0 else high if high >= n else None
