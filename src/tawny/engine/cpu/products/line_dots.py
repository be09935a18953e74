"""Windows of few outputs: dot products of lines of pixels with lines of the kernel.

Vectors of outputs would be mostly empty.  Here lanes are what a window sees of a line, one after
another: taps that follow each other, with all their channels.  Each sum is made of as many partial
sums as a vector has lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tawny import pages
from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.products.blocking import Blocking, Panels, cut
from tawny.engine.cpu.products.dot import fold_vectors
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.geometry import Sweep
from tawny.engine.cpu.products.line_copies import PixelOrder, woven_channels
from tawny.engine.cpu.products.lines import CopiedLines, LineAlone, LineRows, Lines, copied_lines
from tawny.engine.cpu.products.packing import Order
from tawny.engine.cpu.products.product import Product
from tawny.engine.cpu.products.sharing import ceil_divide
from tawny.engine.cpu.products.tile import registers
from tawny.engine.cpu.products.tile_code import Rows, TileCode
from tawny.engine.cpu.products.windows import WindowRows, Windows, dot, each_tap
from tawny.engine.llvm.ir.builder import I1, I64, Value

_SUMS: Final = {32: 24, 16: 12}
"""By the number of vector registers: sums of a tile, beside vectors of what is multiplied."""

MOST_ROWS: Final = 12
"""More rows have more addresses than there are registers."""

DOT_NUMBERS: Final = ("dot_bytes", "output_bytes")
"""Bytes from a line of the kernel to the next, and from an output to the next."""


class LinePanels(NamedTuple):
    """Packs a kernel of (*window, channels, outputs): lines of outputs, filled up with zeros."""

    lines: int
    length: int
    outputs: int
    lanes: int
    item: int

    @property
    def padded_length(self) -> int:
        """Elements of a line, filled up."""
        return ceil_divide(self.length, self.lanes) * self.lanes

    @property
    def nbytes(self) -> int:
        """Bytes of all lines."""
        return self.lines * self.outputs * self.padded_length * self.item

    def __call__(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The lines of an array."""
        made = pages.empty((self.nbytes // array.dtype.itemsize,), array.dtype)
        lines = made.reshape(self.lines, self.outputs, self.padded_length)
        given = array.reshape(self.lines, self.length, self.outputs)
        lines[..., : self.length] = np.moveaxis(given, 2, 1)
        lines[..., self.length :] = 0
        return made


def dot_product(element: Element, epilogue: TileEpilogue, sweep: Sweep, workers: int) -> Product:
    """A sweep as dot products, with a kernel that is packed before the run."""
    seen = copied_lines(sweep, element.nbytes, prepared=True)
    length, item = seen.sweep.channels, element.nbytes
    rows = min(_SUMS[registers()] // sweep.outputs, MOST_ROWS)
    blocking = cut(element, seen.sweep.extent, workers, panels=Panels.PREPARED, wide=1, high=rows)
    blocking = replace(blocking, depth_blocks=1)
    packed = LinePanels(seen.lines, length, sweep.outputs, element.lanes, item)
    numbers = {
        **seen.numbers(packed=True),
        "dot_bytes": sweep.outputs * packed.padded_length * item,
        "output_bytes": packed.padded_length * item,
        "b_start": 0,
    }
    source, room = _source(element, sweep, seen, blocking)
    blocking = blocking if room is None else room
    group = seen.sweep.group(item)._replace(b=packed.nbytes)
    return Product(
        element,
        epilogue,
        blocking,
        Panels.PREPARED,
        Order.ROWS,
        (group,),
        source,
        numbers,
        rows_bytes=0 if room is None else seen.room(blocking),
        preparation=packed,
    )


def _source(
    element: Element, sweep: Sweep, seen: CopiedLines, blocking: Blocking
) -> tuple[DotWindows | DotLines, Blocking | None]:
    """Where rows are read: where they lie, if nothing else is seen, or from copies in chunks."""
    rank, order = len(sweep.axes), seen.line.order
    inside = all(
        axis.origin + axis.reach[0] >= 0
        and axis.origin + (axis.count - 1) * axis.stride + axis.reach[1] < axis.size
        for axis in sweep.axes
    )
    if inside and order is PixelOrder.TOGETHER:
        return DotWindows(rank, sweep.outputs), None
    woven = woven_channels(element, order, sweep.channels)
    return DotLines(rank, order, woven, sweep.outputs), seen.in_chunks(blocking)


@dataclass(frozen=True, slots=True)
class DotLines(Lines):
    """Copied lines for a few `outputs`."""

    outputs: int = 0

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*Lines(self.rank, self.order).numbers, *DOT_NUMBERS)

    def rows(self, code: TileCode) -> Rows:
        return DotRows(LineRows(code, self.rank), self.outputs)

    def single_row(self, code: TileCode) -> Rows:
        return DotRows(LineAlone(code, self.rank), self.outputs)

    def sees_outside(self, rows: Rows) -> Value | None:
        assert isinstance(rows, DotRows)
        return rows.seen.f.constant(I1, 1)


@dataclass(frozen=True, slots=True)
class DotWindows(Windows):
    """Lines where they lie, for a few `outputs`, of windows that see nothing else."""

    outputs: int = 0

    @property
    def numbers(self) -> tuple[str, ...]:
        outer = [f"lines{axis}" for axis in range(self.rank - 1)]
        return (*Windows(self.rank).numbers, *outer, *DOT_NUMBERS)

    def rows(self, code: TileCode) -> Rows:
        return DotRows(InputLines(code, self.rank), self.outputs)

    def sees_outside(self, rows: Rows) -> Value | None:
        del rows
        return None


class InputLines(WindowRows):
    """Lines of the input itself."""

    def bases(self) -> list[Value]:
        """What the first tap of each row sees."""
        f, n = self.f, self.n
        return [
            f.offset(self.code.left, p.batch * n["a_batch"] + dot(n, coordinates, "a_bytes"))
            for p, coordinates in zip(self.positions, self.coordinates, strict=True)
        ]

    def tap_offset(self, taps: Sequence[Value]) -> Value:
        """Bytes from the first tap to another one."""
        n = self.n
        return dot(n, [tap * n[f"dilation{i}"] for i, tap in enumerate(taps)], "a_bytes")

    def part(self, taps: Sequence[Value], count: Value) -> tuple[Value, Value]:
        """What is multiplied of a line's elements: all of them."""
        del taps
        return self.f.constant(I64, 0), count


@dataclass(frozen=True, slots=True)
class DotRows:
    """Sums of a tile, made of the lines that the windows at its positions see."""

    seen: LineRows | InputLines
    outputs: int

    def places(self, base: Value, name: str) -> list[Value]:
        return self.seen.places(base, name)

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        seen = self.seen
        code, f, n, outer = seen.code, seen.f, seen.n, seen.rank - 1
        bases, nbytes = seen.bases(), code.element.nbytes

        def tapped(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
            line = f.constant(I64, 0)
            for axis, tap in enumerate(taps[:outer]):
                line = line + tap * n[f"lines{axis}"]
            begin, length = seen.part(taps, code.upper - code.lower)
            moved = seen.tap_offset(taps) + begin * nbytes
            rows = [f.offset(base, moved) for base in bases]
            kernel = f.offset(code.panel, line * n["dot_bytes"] + begin * nbytes)
            places = [f.offset(kernel, n["output_bytes"] * i) for i in range(self.outputs)]
            return self._add(rows, places, length, state)

        partial = [code.element.zero(f)] * (len(bases) * self.outputs)
        made = self._totals(each_tap(f, n, seen.rank, partial, tapped))
        return [total + before for total, before in zip(made, sums, strict=True)]

    def _add(
        self,
        rows: Sequence[Value],
        places: Sequence[Value],
        length: Value,
        partial: Sequence[Value],
    ) -> list[Value]:
        """The partial sums, row by row, with the products of a line added."""
        f, element = self.seen.f, self.seen.code.element

        def added(before: Sequence[Value], index: Value, mask: Value | None = None) -> list[Value]:
            offset = index * element.nbytes
            ours = [element.load(f, f.offset(row, offset), mask) for row in rows]
            after = list(before)
            for i, place in enumerate(places):
                other = element.load(f, f.offset(place, offset), mask)
                for row, own in enumerate(ours):
                    at = row * self.outputs + i
                    after[at] = element.multiply_add(f, own, other, after[at])
            return after

        whole = length - (length & (element.lanes - 1))
        with f.loop(0, whole, element.lanes, carried=partial) as loop:
            loop.carry(*added(loop.carried, loop.index))
        with f.loop(whole, length, element.lanes, carried=loop.carried) as rest:
            mask = element.first(f, length - rest.index)
            rest.carry(*added(rest.carried, rest.index, mask))
        return rest.carried

    def _totals(self, partial: Sequence[Value]) -> list[Value]:
        """For each row a vector with the sum of each output in a lane."""
        f, element, outputs = self.seen.f, self.seen.code.element, self.outputs
        lanes, zero, totals = element.lanes, element.zero(f), list[Value]()
        together = lanes // outputs * outputs
        for first in range(0, len(partial), together):
            some = list(partial[first : first + together])
            count = 1 << (len(some) - 1).bit_length()
            folded = fold_vectors(f, [*some, *[zero] * (count - len(some))])
            wide = f.shuffle(folded, None, [min(i, count - 1) for i in range(lanes)])
            for row in range(0, len(some), outputs):
                taken = [row + i if i < outputs else lanes for i in range(lanes)]
                totals.append(f.shuffle(wide, zero, taken))
        return totals
