"""Rows of short floating-point numbers, widened before they are multiplied.

A tile multiplies each element of its rows by whole vectors: to widen them one by one takes longer
than the products.  Vectors of them are widened at once, and wait in scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import Numbers
from tawny.engine.cpu.products.blocking import Blocking, whole_lines
from tawny.engine.cpu.products.tile import Walk, accumulate, evenly_spaced
from tawny.engine.cpu.products.tile_code import Rows, RowSource, TileCode
from tawny.engine.llvm.ir.builder import I64, Function, Value

CHUNK_BYTES: Final = 2**16
"""Widened rows of a chunk of tiles, which stay in the caches."""


def wide_element(element: Element) -> Element:
    """Numbers as they are computed with."""
    return element._replace(stored=element.computed)


def in_chunks(blocking: Blocking, row_bytes: int) -> tuple[Blocking, int]:
    """The blocking with chunks of few tiles, and bytes of scratch memory for the rows of one."""
    strip = blocking.full if blocking.blocks or blocking.tail is None else blocking.tail
    strips = [strip, blocking.full, *([] if blocking.tail is None else [blocking.tail])]
    height = max(s.tile.rows for s in strips)
    most = max(s.tiles for s in strips)
    tiles = max(min(blocking.chunk_tiles, CHUNK_BYTES // max(row_bytes * height, 1), most), 1)
    return replace(blocking, chunk_tiles=tiles), whole_lines(tiles * height * row_bytes)


@dataclass(frozen=True, slots=True)
class WideRows(RowSource):
    """Rows that are evenly spaced in memory and have their elements side by side, widened."""

    @property
    def gathers(self) -> bool:
        return True

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("a_row", "c_row", "residual_row", "wide_row")

    def rows(self, code: TileCode) -> Rows:
        return _WidenedRows(code)

    def gather(self, f: Function, element: Element, numbers: Numbers) -> Value:
        """Widen the rows from `first` to `last`."""
        _, left, first, last, room = f.arguments
        n, lanes, wide = numbers, element.lanes, wide_element(element)
        follows = n["a_row"].equals(n["depth"] * element.nbytes)
        rows = f.select(follows, f.constant(I64, 1), last - first)
        length = f.select(follows, (last - first) * n["depth"], n["depth"])
        whole = length - (length & (lanes - 1))
        with f.loop(0, rows, carried=[f.offset(left, first * n["a_row"]), room]) as row:
            source, target = row.carried
            for begin, end in ((0, whole), (whole, length)):
                with f.loop(begin, end, lanes) as loop:
                    mask = None if end is whole else element.first(f, length - loop.index)
                    place = f.offset(source, loop.index * element.nbytes)
                    value = element.load(f, place, mask)
                    wide.store(f, value, f.offset(target, loop.index * wide.nbytes), mask)
            row.carry(f.offset(source, n["a_row"]), f.offset(target, n["wide_row"]))
        return f.offset(room, -(first * n["wide_row"]))


@dataclass(frozen=True, slots=True)
class _WidenedRows:
    """Rows of a tile: those of the left matrix widened, the others where they lie."""

    code: TileCode

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f = self.code, self.code.f
        wide = wide_element(code.element)
        first = code.start * code.numbers["wide_row"] + code.lower * wide.nbytes
        rows = evenly_spaced(
            f, f.offset(code.left, first), code.numbers["wide_row"], code.tile.rows
        )
        step, count = f.constant(I64, wide.nbytes), code.upper - code.lower
        walk = Walk(rows, step, code.panel, code.panel_step, count, code.ahead)
        return accumulate(f, code.element, code.tile, sums, walk, code.masks, left=wide)

    def places(self, base: Value, name: str) -> list[Value]:
        code, step = self.code, self.code.numbers[f"{name}_row"]
        return evenly_spaced(code.f, code.f.offset(base, code.start * step), step, code.tile.rows)
