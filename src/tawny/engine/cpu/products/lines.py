"""Rows that are read from copies of the input's lines, with zeros around them.

A line is what the windows of one line of positions see of one line of the input.  Where channels
are few, or not side by side in memory, a copy of it serves many windows: no window has to be
checked, and the taps along a line follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import Numbers
from tawny.engine.cpu.products.blocking import Blocking, whole_lines
from tawny.engine.cpu.products.geometry import Sweep
from tawny.engine.cpu.products.line_copies import LINE_NUMBERS, PixelOrder, copy_line
from tawny.engine.cpu.products.sharing import ceil_divide
from tawny.engine.cpu.products.tile import Walk, accumulate, evenly_spaced
from tawny.engine.cpu.products.tile_code import PackCode, Rows, RowSource, TileCode
from tawny.engine.cpu.products.windows import PositionRows, WindowAxis, Windows, each_tap, tap_steps
from tawny.engine.llvm.ir.builder import I1, I64, Function, Value

CHUNK_BYTES: Final = 2**17
"""Copies of lines that are read again and again: they stay in the second cache."""

MOST_LINES: Final = 2
"""Lines of positions that a chunk has at most, if it would have fewer tiles otherwise."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the input, as far as the windows of a line of positions see it."""

    pixel_bytes: int
    """Bytes of all channels, in the copy."""
    pixels: int
    first: int
    """The coordinate of the first pixel."""
    size: int
    """Coordinates of the input; what lies outside is zero."""
    a_step: int
    """From one channel of the input to the next."""
    order: PixelOrder
    """How the input's pixels lie in memory."""

    @staticmethod
    def of(axis: WindowAxis, channels: int, item: int, a_step: int) -> Line:
        """The line along an axis."""
        (low, high), pixel = axis.reach, channels * item
        return Line(
            pixel,
            (axis.count - 1) * axis.stride + high - low + 1,
            axis.origin + low,
            axis.size,
            a_step,
            PixelOrder.of(item, channels, axis.a_bytes, a_step),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of a copy."""
        return self.pixels * self.pixel_bytes

    def numbers(self) -> dict[str, int]:
        """Numbers that compiled code reads: pixels `low` to `high` of a copy are the input's."""
        low, high = (min(max(n - self.first, 0), self.pixels) for n in (0, self.size))
        own = self.pixel_bytes, self.pixels, self.first, low, high, self.a_step
        return dict(zip(LINE_NUMBERS, own, strict=True))


@dataclass(frozen=True, slots=True)
class CopiedLines:
    """A sweep over copied lines."""

    sweep: Sweep
    """As it is seen in the copies: where taps follow each other they are one, and deeper."""
    line: Line
    shift: int
    """Pixels from the first of a line to what the first tap of the first position sees."""
    lines: int
    """How many lines each line of positions sees."""

    def in_chunks(self, cut: Blocking) -> Blocking:
        """The blocking with chunks of as many tiles as see some lines, if copies stay in a cache.

        A chunk copies all lines that it sees, those at its ends too, which others see as well.
        """
        count, nbytes = self.sweep.axes[-1].count, self.lines * self.line.nbytes
        seen = min(max(CHUNK_BYTES // nbytes - 1, 1), MOST_LINES) if nbytes else 1
        tiles = ceil_divide(seen * count, _tallest(cut))
        return replace(cut, chunk_tiles=max(cut.chunk_tiles, tiles))

    def room(self, cut: Blocking) -> int:
        """Bytes of scratch memory for the lines of a chunk of tiles."""
        positions, count = cut.chunk_tiles * _tallest(cut), self.sweep.axes[-1].count
        return whole_lines(((positions + count - 2) // count + 1) * self.lines * self.line.nbytes)

    def numbers(self, packed: bool) -> dict[str, int]:
        """Numbers that compiled code reads."""
        numbers = {
            **self.sweep.numbers(packed=packed),
            **self.line.numbers(),
            "lines": self.lines,
            "line_bytes": self.line.nbytes,
            "shift": self.shift,
        }
        inner = 1
        for number, outer in reversed(list(enumerate(self.sweep.axes[:-1]))):
            numbers[f"lines{number}"] = inner
            inner *= outer.taps
        return numbers


def _tallest(cut: Blocking) -> int:
    """Rows of the tallest tile."""
    return max(cut.full.tile.rows, 0 if cut.tail is None else cut.tail.tile.rows)


def copied_lines(sweep: Sweep, item: int, *, prepared: bool = False) -> CopiedLines:
    """A sweep whose lines are copied.

    Taps of the kernel follow each other where they lie so, or if it is `prepared`.
    """
    *outer, last = sweep.axes
    line = Line.of(last, sweep.channels, item, sweep.a_step)
    follow = prepared or last.b_bytes == sweep.channels * sweep.b_row
    seen = sweep
    if follow and last.dilation == 1:
        axes = (*outer, replace(last, taps=1))
        seen = replace(sweep, axes=axes, channels=sweep.channels * last.taps)
    return CopiedLines(seen, line, -last.reach[0], math.prod([axis.taps for axis in outer]))


@dataclass(frozen=True, slots=True)
class Lines(RowSource):
    """Copied lines of an input with `rank` spatial axes."""

    rank: int
    order: PixelOrder
    woven: int = 0
    """How many channels of planes are woven into each other, where they are few."""

    @property
    def gathers(self) -> bool:
        return True

    @property
    def numbers(self) -> tuple[str, ...]:
        own = [f"lines{axis}" for axis in range(self.rank - 1)]
        return (*Windows(self.rank).numbers, *LINE_NUMBERS, "lines", "line_bytes", "shift", *own)

    def rows(self, code: TileCode) -> Rows:
        return LineRows(code, self.rank)

    def single_row(self, code: TileCode) -> Rows:
        return LineAlone(code, self.rank)

    def sees_outside(self, rows: Rows) -> Value | None:
        assert isinstance(rows, LineRows)
        return rows.f.constant(I1, 1)  # to find out would take longer than to look at the sums

    def pack(self, code: PackCode) -> None:
        Windows(self.rank).pack(code)

    def gather(self, f: Function, element: Element, numbers: Numbers) -> Value:
        """All lines that positions `first` to `last` see."""
        _, left, first, last, room = f.arguments
        n, count = numbers, numbers[f"count{self.rank - 1}"]
        begin, end = first // count, (last + count - 1) // count
        step = n["lines"] * n["line_bytes"]
        with f.loop(begin, end, carried=[room]) as line:
            rest, places = line.index, list[Value]()
            for axis in reversed(range(self.rank - 1)):
                places.insert(0, rest % n[f"count{axis}"])
                rest = rest // n[f"count{axis}"]
            start = f.offset(left, rest * n["a_batch"])

            def tapped(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
                (target,) = state
                source, inside = start, f.constant(I1, 1)
                for axis, (tap, place) in enumerate(zip(taps, places, strict=True)):
                    seen = place * n[f"stride{axis}"] + n[f"origin{axis}"]
                    seen = seen + tap * n[f"dilation{axis}"]
                    inside = inside & seen.unsigned_below(n[f"size{axis}"])
                    source = f.offset(source, seen * n[f"a_bytes{axis}"])
                copy_line(
                    f, element, n, source, target, inside, self.rank - 1, self.order, self.woven
                )
                return [f.offset(target, n["line_bytes"])]

            line.carry(*each_tap(f, n, self.rank - 1, line.carried, tapped))
        return f.offset(room, -(begin * step))


class LineRows(PositionRows):
    """The rows that the windows at a tile's positions see in copied lines.

    Mostly all positions are on one line, and all that they see and make is evenly spaced.
    """

    def bases(self) -> list[Value]:
        """What the first tap of each row sees."""
        code, f, n, last = self.code, self.f, self.n, self.rank - 1
        positions, line = n[f"count{last}"], n["lines"] * n["line_bytes"]
        step = n[f"stride{last}"] * n["pixel_bytes"]
        begin = n["shift"] * n["pixel_bytes"] + code.lower * code.element.nbytes
        first, number = f.offset(code.left, begin), code.start // positions
        base = f.offset(first, number * line + self.first.places[last] * step)

        def one_by_one() -> list[Value]:
            bases, at = list[Value](), number
            for row, position in enumerate(self.all_positions()):
                place = position.places[last]
                at = f.select(place.equals(0), at + 1, at) if row else at
                bases.append(f.offset(first, at * line + place * step))
            return bases

        return self._spaced_rows(base, step, one_by_one)

    def places(self, base: Value, name: str) -> list[Value]:
        step = self.n[f"{'r' if name == 'residual' else 'c'}_bytes{self.rank - 1}"]

        def one_by_one() -> list[Value]:
            return [self.place(base, name, position) for position in self.all_positions()]

        return self._spaced_rows(self.place(base, name, self.first), step, one_by_one)

    def _spaced_rows(
        self, first: Value, step: Value, one_by_one: Callable[[], list[Value]]
    ) -> list[Value]:
        """An address for each row: evenly spaced if all are on one line."""
        rows, last = self.code.tile.rows, self.rank - 1
        if rows == 1:
            return [first]
        ends = self.first.places[last] + rows <= self.n[f"count{last}"]
        return self.f.either(ends, lambda: evenly_spaced(self.f, first, step, rows), one_by_one)

    def tap_offset(self, taps: Sequence[Value]) -> Value:
        """Bytes from the first tap to another one."""
        n, last = self.n, self.rank - 1
        offset = taps[last] * n[f"dilation{last}"] * n["pixel_bytes"]
        for axis, tap in enumerate(taps[:last]):
            offset = offset + tap * n[f"lines{axis}"] * n["line_bytes"]
        return offset

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, n, element = self.code, self.f, self.n, self.code.element
        count, bases = code.upper - code.lower, self.bases()
        steps = tap_steps(code, self.rank, count)
        unit = f.constant(I64, element.nbytes)

        def tapped(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
            moved, place = self.tap_offset(taps), code.panel
            for tap, step in zip(taps, steps, strict=True):
                place = f.offset(place, tap * step)
            begin, length = self.part(taps, count)
            rows = [f.offset(base, moved + begin * element.nbytes) for base in bases]
            place = f.offset(place, begin * code.panel_step)
            walk = Walk(rows, unit, place, code.panel_step, length, code.ahead)
            return accumulate(f, element, code.tile, state, walk, code.masks)

        return each_tap(f, n, self.rank, sums, tapped)

    def part(self, taps: Sequence[Value], count: Value) -> tuple[Value, Value]:
        """What is multiplied of a tap's elements, `count` in the block: from where, how many."""
        del taps
        return self.f.constant(I64, 0), count


class LineAlone(LineRows):
    """The pixels of the input itself that the window at one position sees."""

    def part(self, taps: Sequence[Value], count: Value) -> tuple[Value, Value]:
        """The elements of the pixels, one or several, that are the input's."""
        code, f, n, last = self.code, self.f, self.n, self.rank - 1
        seen = [
            place * n[f"stride{i}"] + n[f"origin{i}"] + tap * n[f"dilation{i}"]
            for i, (place, tap) in enumerate(zip(self.first.places, taps, strict=True))
        ]
        channels = n["pixel_bytes"] // code.element.nbytes
        before = f.maximum(-seen[last], 0) * channels
        after = f.maximum(n[f"size{last}"] - seen[last], 0) * channels
        begin = f.maximum(before - code.lower, 0)
        length = f.maximum(f.minimum(after - code.lower, count) - begin, 0)
        for axis, place in enumerate(seen[:last]):
            length = f.select(place.unsigned_below(n[f"size{axis}"]), length, 0)
        return begin, length
