"""Copies of a matrix in panels: some columns side by side, row after row.

A panel is as wide as a tile, so that a tile reads it from one end to the other.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.products.tile import RegisterTile
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Type, Value

LONGEST: Final = 16
"""Lanes of the longest vectors that are transposed."""


class Order(enum.Enum):
    """The axis along which elements of the matrix to pack are neighbours."""

    ROWS = "elements of a row"
    COLUMNS = "elements of a column"
    NEITHER = "nothing"


def order_of(element: Element, row_step: int, column_step: int) -> Order:
    """How a matrix lies, given the bytes between its rows and between its columns.

    Squares of short numbers are too large to be transposed in registers.
    """
    if column_step == element.nbytes:
        return Order.ROWS
    transposes = row_step == element.nbytes and element.lanes <= LONGEST
    return Order.COLUMNS if transposes else Order.NEITHER


def declare_pack(
    module: Module, name: str, element: Element, tile: RegisterTile, order: Order
) -> None:
    """A function that packs `count` rows of as many `columns` as a tile of this width uses.

    Lanes beyond the columns are left as they are: tiles do not look at them.
    """
    arguments = {
        "source": PTR,
        "row_step": I64,
        "column_step": I64,
        "count": I64,
        "target": PTR,
        "columns": I64,
    }
    with module.function(name, arguments, internal=True, attributes="noinline") as f:
        match order:
            case Order.ROWS:
                _copy_rows(f, element, tile)
            case Order.COLUMNS:
                _transpose_columns(f, element, tile)
            case Order.NEITHER:
                _copy_elements(f, element, tile)


def _copy_rows(f: Function, element: Element, tile: RegisterTile) -> None:
    source, row_step, _, count, target, columns = f.arguments
    masks, kind = tile.masks(f, element, columns), element.neighbours
    with f.loop(0, count, carried=[source, target]) as loop:
        start, end = loop.carried
        for v, mask in enumerate(masks):
            place, offset = f.offset(end, v * element.vector_bytes), v * element.vector_bytes
            f.store(_load_vector(f, kind, f.offset(start, offset), mask), place)
        loop.carry(f.offset(start, row_step), f.offset(end, tile.width(element)))


def _load_vector(f: Function, kind: Type, address: Value, mask: Value | None) -> Value:
    if mask is None:
        return f.load(kind, address)
    return f.masked_load(kind, address, mask, f.constant(kind, 0))


def _transpose_columns(f: Function, element: Element, tile: RegisterTile) -> None:
    """Squares of as many rows as a vector has lanes; what is left over, element by element."""
    source, _, column_step, count, target, columns = f.arguments
    lanes, width, kind = element.lanes, tile.width(element), element.neighbours
    whole = count - (count & (lanes - 1))
    for v in range(tile.vectors):
        starts: list[Value] = []
        for lane in range(lanes):
            column = f.constant(I64, v * lanes + lane)
            if tile.masked and v == tile.vectors - 1:
                column = f.minimum(column, columns - 1)
            starts.append(f.offset(source, column * column_step))
        panel = f.offset(target, v * element.vector_bytes)
        with f.loop(0, whole, lanes, carried=[panel]) as square:
            (place,) = square.carried
            vectors = [
                f.load(kind, f.element(s, square.index, element.memory_type)) for s in starts
            ]
            for i, vector in enumerate(transpose_square(f, vectors, element.parts)):
                f.store(vector, f.offset(place, i * width))
            square.carry(f.offset(place, lanes * width))
        with f.loop(whole, count, carried=square.carried) as rest:
            (place,) = rest.carried
            for lane, start in enumerate(starts):
                number = f.load(
                    element.memory_type, f.element(start, rest.index, element.memory_type)
                )
                f.store(number, f.element(place, lane, element.memory_type))
            rest.carry(f.offset(place, width))


def transpose_square(f: Function, vectors: list[Value], parts: int = 1) -> list[Value]:
    """A square of vectors of elements, of `parts` lanes each, with rows and columns exchanged.

    Squares of size 2 * d are transposed by exchanging their parts of size d off the diagonal.
    """
    lanes, distance = len(vectors), 1
    while distance < lanes:
        upper = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        lower = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        after = list(vectors)
        for i in range(lanes):
            if not i & distance:
                pair = vectors[i], vectors[i + distance]
                after[i] = f.shuffle(*pair, lanes_of(upper, parts))
                after[i + distance] = f.shuffle(*pair, lanes_of(lower, parts))
        vectors, distance = after, 2 * distance
    return vectors


def lanes_of(elements: Iterable[int], parts: int) -> list[int]:
    """The lanes of elements, each of `parts` lanes side by side."""
    return [element * parts + part for element in elements for part in range(parts)]


def _copy_elements(f: Function, element: Element, tile: RegisterTile) -> None:
    source, row_step, column_step, count, target, columns = f.arguments
    with f.loop(0, count, carried=[source, target]) as rows:
        start, end = rows.carried
        with f.loop(0, columns, carried=[start]) as loop:
            (place,) = loop.carried
            number = f.load(element.memory_type, place)
            f.store(number, f.element(end, loop.index, element.memory_type))
            loop.carry(f.offset(place, column_step))
        rows.carry(f.offset(start, row_step), f.offset(end, tile.width(element)))
