"""The table of operators: what each one of ONNX means, as a function of its call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tawny.array import Array
from tawny.onnx.call import NodeCall
from tawny.onnx.values import Results

Meaning = Callable[[NodeCall], Results]
"""Makes the results of a node."""

OPERATORS: Final[dict[tuple[str, str], Meaning]] = {}
"""By domain and name."""

ON_INTEGERS: Final[dict[tuple[str, str], Callable[[NodeCall], Results | None]]] = {}
"""What operators mean whose operands stand for integers; None where they mean nothing special."""

MICROSOFT: Final = "com.microsoft"
MACHINE_LEARNING: Final = "ai.onnx.ml"
TRAINING: Final = "ai.onnx.preview.training"


def operator(*names: str, domain: str = "") -> Callable[[Meaning], Meaning]:
    """Declare what operators of these names mean."""

    def declare(meaning: Meaning) -> Meaning:
        for name in names:
            OPERATORS[domain, name] = meaning
        return meaning

    return declare


def on_integers(
    *names: str,
) -> Callable[[Callable[[NodeCall], Results | None]], Callable[[NodeCall], Results | None]]:
    """Declare what operators of these names mean where operands stand for integers."""

    def declare(
        meaning: Callable[[NodeCall], Results | None],
    ) -> Callable[[NodeCall], Results | None]:
        for name in names:
            ON_INTEGERS["", name] = meaning
        return meaning

    return declare


def one_operand(function: Callable[[Array], Array]) -> Meaning:
    """The meaning of an operator that is a function of one array."""

    def meaning(call: NodeCall) -> Array:
        call.count(1, 1)
        return function(call.array(0))

    return meaning


def two_operands(function: Callable[[Array, Array], Array]) -> Meaning:
    """The meaning of an operator that is a function of two arrays."""

    def meaning(call: NodeCall) -> Array:
        call.count(2, 2)
        return function(call.array(0), call.array(1))

    return meaning
