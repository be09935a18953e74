"""The table of derivative rules: for each op class that declares one, how cotangents go back.

A rule of reverse mode is a function of the op, the cotangent of the result, the result and the
operands; it gives the cotangent of each operand, None for zero.  A rule of forward mode is a
function of the op, the tangents of the operands (None for zero), the result and the operands; it
gives the tangent of the result.  Where an op has several results, cotangents and results are
tuples.

One of the two is enough: the other is its transpose, which `tawny.autodiff.forward` and
`tawny.autodiff.reverse` find.  An op declared linear or multilinear has one of reverse mode only.
Pairing is `sum(cotangent * tangent)` without conjugation, of which the real part counts: a rule for
complex numbers is right if both sides agree in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tawny.array import Array
from tawny.op import Elementwise, Op

R = TypeVar("R", bound=Callable[..., Any])
Key = type[Op] | Elementwise

Reverse = Callable[..., "Array | Sequence[Array | None] | None"]
Forward = Callable[..., "Array | Sequence[Array | None] | None"]

REVERSE: Final[dict[Key, Reverse]] = {}
FORWARD: Final[dict[Key, Forward]] = {}


def reverse(op: Key) -> Callable[[R], R]:
    """Declare how the cotangent of the result becomes cotangents of the operands."""

    def declare(rule: R) -> R:
        if op in REVERSE:
            raise ValueError(f"{op} has two rules of reverse mode")
        REVERSE[op] = rule
        return rule

    return declare


def forward(op: Key) -> Callable[[R], R]:
    """Declare how tangents of the operands become the tangent of the result."""

    def declare(rule: R) -> R:
        if op in FORWARD:
            raise ValueError(f"{op} has two rules of forward mode")
        FORWARD[op] = rule
        return rule

    return declare


def key_of(op: Op) -> Key:
    """What an op's rules are found by."""
    return op if isinstance(op, Elementwise) else type(op)
