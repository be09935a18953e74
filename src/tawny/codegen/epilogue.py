"""What follows a product while its sums are in registers: bias, residual, activation, writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawny.codegen.builder import Function, Value
from tawny.codegen.element import Element
from tawny.codegen.tile import Tile
from tawny.ops.fused import Activation, Epilogue


@dataclass(frozen=True, slots=True)
class Ending:
    """An epilogue, and whether its bias is one number for all columns."""

    epilogue: Epilogue
    constant_bias: bool = False


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses at the first column of a tile: of the bias, and of each row of the other two."""

    results: Sequence[Value]
    bias: Value
    residuals: Sequence[Value]


def finish(
    f: Function,
    element: Element,
    tile: Tile,
    ending: Ending,
    sums: Sequence[Value],
    places: Places,
    masks: Sequence[Value | None],
) -> None:
    """Apply the epilogue to a tile's sums and write them."""
    epilogue = ending.epilogue
    biases: list[Value] = []
    if epilogue.bias and ending.constant_bias:
        biases = [element.splat(f, places.bias)] * tile.vectors
    elif epilogue.bias:
        biases = [
            element.load(f, f.advanced(places.bias, v * element.vector_bytes), masks[v])
            for v in range(tile.vectors)
        ]
    for row in range(tile.rows):
        for v in range(tile.vectors):
            value, offset = sums[row * tile.vectors + v], v * element.vector_bytes
            if epilogue.bias:
                value = element.rounded(f, value) + biases[v]
            if epilogue.residual:
                residual = element.load(f, f.advanced(places.residuals[row], offset), masks[v])
                value = element.rounded(f, value) + residual
            value = activated(f, element, epilogue.activation, value)
            element.store(f, value, f.advanced(places.results[row], offset), masks[v])


def activated(f: Function, element: Element, activation: Activation, value: Value) -> Value:
    """The activation of a vector."""
    match activation:
        case Activation.NONE:
            return value
        case Activation.RELU:
            return f.select(f.compare("ugt", value, 0), value, 0)
        case _:
            raise NotImplementedError
