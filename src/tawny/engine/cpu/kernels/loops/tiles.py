"""The loop over arrays that lie crosswise to the result, such as transposed operands.

    tiles(row, worker, workers, span, shape)

goes by strips of a few rows, and in each by tiles of a few columns.  Reads whose rows do not lie as
runs are copied to a buffer, tile by tile; then each row of the tile is computed.  Rows of a strip
are neighbours along the last outer axis, along which those reads have small strides.  `span` and
`shape` are those of all loops, as `common` describes them.

Parameters after the number of elements: the length of a row, the number of outer axes, their sizes;
for each read its strides along the outer axes and along a row; the results' strides along the outer
axes, in elements.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.loops.common import (
    LOOP,
    MOST_AXES,
    MOST_PLACES,
    AccessKind,
    AccessTable,
    LoopStrategy,
    call_segment,
    loop_name,
    offset_of,
    use_segment,
    write_digits,
)
from tawny.engine.cpu.kernels.loops.transpose import TILE_COLUMNS, TILE_ROWS, call_transpose
from tawny.engine.cpu.kernels.workshare import grain_share
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import provide

TILES: Final = "tiles"
"""The library with the function."""

_TILE_BYTES: Final = TILE_ROWS * TILE_COLUMNS * 16


def _library(module: Module) -> None:
    use_segment(module)
    with module.function(loop_name(LoopStrategy.TILES), LOOP) as f:
        _TileWriter(f).write()


provide(TILES, _library)


class _TileWriter:
    """Writes the function; holds the values all its parts use."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.row, self.worker, self.workers, self.span, base = f.arguments
        self.shape = shape = AccessTable(f, base)
        parameters = f.element(self.row, shape.first, I64)
        self.total, self.length, self.outer = (f.cell(parameters, i) for i in range(3))
        self.sizes = f.element(parameters, 3, I64)
        self.strides = f.element(self.sizes, self.outer, I64)
        self.own = f.element(self.strides, shape.reads * (self.outer + 1), I64)
        self.last = self.outer - 1
        self.digits = f.stack_buffer(8 * MOST_AXES)
        """Places on the outer axes of a strip's first row."""
        self.listed = f.stack_buffer(8 * MOST_PLACES)
        self.buffers = f.stack_array(shape.reads * _TILE_BYTES)

    def write(self) -> None:
        """Write loops over strips, over the tiles of each, and over the rows of these."""
        f = self.f
        size = f.load(I64, f.element(self.sizes, self.last, I64))
        across = (size + (TILE_ROWS - 1)).unsigned_over(TILE_ROWS)
        strips = self.total.unsigned_over(f.maximum(size * self.length, 1)) * across
        low, high = grain_share(f, strips, self.worker, self.workers, 1)
        with f.loop(low, high) as strip:
            write_digits(f, strip.index.unsigned_over(across), self.last, self.sizes, self.digits)
            first = strip.index.unsigned_rest(across) * TILE_ROWS
            f.store(first, f.element(self.digits, self.last, I64))
            rows = f.minimum(size - first, TILE_ROWS)
            with f.loop(0, self.length, TILE_COLUMNS) as column:
                count = f.minimum(self.length - column.index, TILE_COLUMNS)
                self._bring(column.index, rows, count)
                with f.loop(0, rows) as line:
                    self._list(column.index, line.index)
                    zero = f.constant(I64, 0)
                    call_segment(f, self.listed, zero, count, self.span, self.shape.base)

    def _bring(self, column: Value, rows: Value, count: Value) -> None:
        """Copy a tile of each read that lies crosswise."""
        f = self.f
        with f.loop(0, self.shape.reads) as reads:
            _, item, kind = self.shape.place(reads.index)
            with f.when(kind.equals(AccessKind.GATHERED.value)):
                source, down, along = self._corner(reads.index, column)
                buffer = f.offset(self.buffers, reads.index * _TILE_BYTES)
                for size in (1, 2, 4, 8, 16):
                    with f.when(item.equals(size)):
                        call_transpose(f, size, buffer, source, rows, count, down, along)

    def _corner(self, read: Value, column: Value) -> tuple[Value, Value, Value]:
        """Where a read's tile begins, its stride from row to row and along a row."""
        f = self.f
        cell, _, _ = self.shape.place(read)
        own = f.element(self.strides, read * (self.outer + 1), I64)
        down, along = (f.load(I64, f.element(own, n, I64)) for n in (self.last, self.outer))
        offset = offset_of(f, self.outer, self.digits, own) + column * along
        base = f.load(PTR, f.element(self.row, cell, I64))
        return f.offset(base, offset), down, along

    def _list(self, column: Value, line: Value) -> None:
        """Write the places' addresses for one row of the tile."""
        f, shape = self.f, self.shape
        with f.loop(0, shape.reads) as reads:
            _, item, kind = shape.place(reads.index)
            corner, down, _ = self._corner(reads.index, column)
            buffer = f.offset(self.buffers, reads.index * _TILE_BYTES)
            brought = f.offset(buffer, line * TILE_COLUMNS * item)
            there = f.offset(corner, line * down)
            address = f.select(kind.equals(AccessKind.GATHERED.value), brought, there)
            f.store(address, f.element(self.listed, reads.index, I64))
        down = f.load(I64, f.element(self.own, self.last, I64))
        start = offset_of(f, self.outer, self.digits, self.own) + line * down + column
        with f.loop(shape.reads, shape.reads + shape.writes) as writes:
            cell, item, _ = shape.place(writes.index)
            base = f.load(PTR, f.element(self.row, cell, I64))
            f.store(f.offset(base, start * item), f.element(self.listed, writes.index, I64))
