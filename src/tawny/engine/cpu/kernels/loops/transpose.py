"""Tiles of an array whose rows lie far apart in the loop's order, brought row by row.

    transpose4(to, from, rows, columns, row_stride, column_stride)

copies a tile of at most `TILE_ROWS` by `TILE_COLUMNS` elements of 4 bytes; in `to` each row begins
`TILE_COLUMNS` elements after the one before.  Where neighbours in memory are neighbours in a
column, squares of elements are transposed in registers.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.copies import ELEMENTS
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import provide

TILE_ROWS: Final = 16
TILE_COLUMNS: Final = 64

_LIBRARY: Final = "transpose"
_ARGUMENTS: Final = {
    "to": PTR,
    "from": PTR,
    "rows": I64,
    "columns": I64,
    "row_stride": I64,
    "column_stride": I64,
}


def call_transpose(f: Function, itemsize: int, *arguments: Value) -> None:
    """Copy a tile of elements of `itemsize` bytes; the arguments are the shared function's."""
    f.module.require(_LIBRARY)
    name = f"{_LIBRARY}{itemsize}"
    f.module.declare(name, VOID, list(_ARGUMENTS.values()))
    f.call(name, VOID, *arguments)


def _library(module: Module) -> None:
    for itemsize, element in ELEMENTS.items():
        with module.function(f"{_LIBRARY}{itemsize}", _ARGUMENTS) as f:
            _write(f, itemsize, element)


provide(_LIBRARY, _library)


def _write(f: Function, itemsize: int, element: Type) -> None:
    """The body of the function for one size of element."""
    none = f.constant(I64, 0)
    if element.lanes:
        _one_by_one(f, itemsize, element, none)
        return
    rows, row_stride = f.arguments[2], f.arguments[4]
    square = rows.equals(TILE_ROWS) & row_stride.equals(itemsize)
    (done,) = f.either(square, lambda: [_squares(f, itemsize, element)], lambda: [none])
    _one_by_one(f, itemsize, element, done)


def _one_by_one(f: Function, itemsize: int, type: Type, first: Value) -> None:
    """Copy the columns from `first` on, element by element."""
    to, source, rows, columns, row_stride, column_stride = f.arguments
    align = min(itemsize, 8)
    with f.loop(first, columns) as column:
        start = f.offset(source, column.index * column_stride)
        target = f.offset(to, column.index * itemsize)
        with f.loop(0, rows) as row:
            item = f.load(type, f.offset(start, row.index * row_stride), align)
            place = f.offset(target, row.index * (TILE_COLUMNS * itemsize))
            f.store(item, place, align)


def _squares(f: Function, itemsize: int, type: Type) -> Value:
    """Copy whole squares of elements; how many columns that were."""
    to, source, _, columns, _, column_stride = f.arguments
    side = TILE_ROWS
    whole = columns & -side
    with f.loop(0, whole, side) as loop:
        lines = [
            f.load(type.by(side), f.offset(source, (loop.index + i) * column_stride))
            for i in range(side)
        ]
        target = f.offset(to, loop.index * itemsize)
        for row, line in enumerate(transpose_square(f, lines)):
            f.store(line, f.offset(target, row * TILE_COLUMNS * itemsize))
    return whole


def transpose_square(f: Function, lines: list[Value]) -> list[Value]:
    """A square of elements with rows and columns exchanged; the side is a power of two.

    Each round interleaves a line of the first half with its fellow of the second half.
    """
    side = len(lines)
    half = side // 2
    low = [n for i in range(half) for n in (i, side + i)]
    high = [n + half for n in low]
    for _ in range(side.bit_length() - 1):
        pairs = list(zip(lines[:half], lines[half:], strict=True))
        lines = [f.shuffle(a, b, order) for a, b in pairs for order in (low, high)]
    return lines
