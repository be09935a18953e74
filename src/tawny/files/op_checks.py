"""What the makers of ops take care of, checked for ops that come from a file.

The functions of `tawny.numpy` give ops attributes that fit their operands: axes that exist, sizes
that are not negative, modes that are known; and they convert operands to a common dtype where a
kernel reads them as one.  Shape inference relies on it, and so does native code: what is accepted
here must be what a maker, or the optimiser, can make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from tawny.attributes import Bounds, integer_bounds
from tawny.op import Elementwise, Op, Type


class MalformedError(ValueError):
    """Something cannot be written or read; its place in the graph or file is not known here."""


def check_op(op: Op, types: Sequence[Type]) -> None:
    """Refuse an op that no maker gives operands of these types."""
    facts = op.facts()
    if not facts.saved:
        raise MalformedError(f"op {facts.name} is never in a file")
    accepted = op.operand_counts()
    if accepted is not None and len(types) not in accepted:
        words = " or ".join(map(str, accepted)) if len(accepted) < 3 else f"at least {accepted[0]}"
        raise MalformedError(f"{facts.name}: {len(types)} operands came; expected {words}")
    if isinstance(op, Elementwise):
        return
    bounds = integer_bounds(type(op))
    for field in op.fields:
        value = getattr(op, field)
        if isinstance(value, Op):  # an op in an attribute is applied to the first operands
            check_op(value, types[: value.facts().arity])
        _check_integers(facts.name, field, value, bounds.get(field, Bounds()))
    problem = op.mistake(types)
    if problem:
        raise MalformedError(f"{facts.name}: {problem}")


def _check_integers(name: str, field: str, value: Any, bounds: Bounds) -> None:
    """Refuse integers outside the bounds of an attribute."""
    least, below = bounds
    for number in _integers(value):
        if least is not None and number < least:
            raise MalformedError(f"{name}: {field} is {value}; expected at least {least}")
        if below is not None and number >= below:
            raise MalformedError(f"{name}: {field} is {value}; expected less than {below}")


def _integers(value: object) -> Iterator[int]:
    """The integers in a number or nested tuple."""
    if isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            yield from _integers(item)
    elif type(value) is int:
        yield value
