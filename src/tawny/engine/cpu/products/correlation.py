"""The gradient of a convolution's kernel: for each tap, a product over all positions.

The rows of the left matrix are the channels that a tap sees, the columns the outputs' gradients.
The common axis is walked run by run: the positions along the last spatial axis whose windows have
the tap inside of the input.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.cpu.products.blocking import Extent
from tawny.engine.cpu.products.line_copies import LINE_NUMBERS, PixelOrder, copy_line
from tawny.engine.cpu.products.lines import Line
from tawny.engine.cpu.products.sharing import Axis
from tawny.engine.cpu.products.tile import Walk, accumulate, evenly_spaced
from tawny.engine.cpu.products.tile_code import Rows, RowSource, TileCode
from tawny.engine.cpu.products.windows import AXIS_NUMBERS, WindowAxis, following
from tawny.engine.llvm.ir.builder import I1, I64, Value
from tawny.ops.convolution import ConvolutionOp

LINE_BYTES: Final = 2**13
"""Longer lines are not copied: they would not fit where the copy is."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """The gradient of a kernel: what windows see, times outputs' gradients, summed over positions.

    Of an axis `a_bytes` are the input's, `b_bytes` the gradient's, `c_bytes` the kernel's.
    """

    batch: int
    axes: tuple[WindowAxis, ...]
    groups: int
    channels: int
    outputs: int
    a_batch: int
    b_batch: int
    a_row: int
    c_row: int
    item: int
    line: Line | None = None
    """What is copied, if rows are taps along copied lines."""

    def along_lines(self) -> Correlation:
        """With all taps of the last axis as rows, from lines that are copied, zeros around them."""
        *outer, last = self.axes
        return replace(
            self,
            axes=(*outer, replace(last, taps=1)),
            channels=self.channels * last.taps,
            a_row=self.item,
            line=Line.of(last, self.channels, self.item, self.a_row),
        )

    @property
    def extent(self) -> Extent:
        """How large the product is; runs are its depth."""
        *outer, last = self.axes
        runs = self.batch * math.prod([axis.count for axis in outer])
        stack = self.groups * math.prod([axis.taps for axis in self.axes])
        return Extent(self.channels, self.outputs, runs, last.count, stack)

    @property
    def stack(self) -> tuple[Axis, ...]:
        """Groups, and the taps of each axis."""
        channels, outputs = self.channels * self.a_row, self.outputs * self.item
        taps = [Axis(a.taps, a.dilation * a.a_bytes, 0, a.c_bytes, 0) for a in self.axes]
        return (Axis(self.groups, channels, outputs, outputs, 0), *taps)

    def numbers(self) -> dict[str, int]:
        """Numbers that compiled code reads."""
        extent = self.extent
        numbers = {
            "depth": extent.depth,
            "taps": extent.taps,
            "b_start": 0,
            "c_start": 0,
            "b_row": self.axes[-1].b_bytes,
            "b_column": self.item,
            "b_depth": 0,
            "a_batch": self.a_batch,
            "b_batch": self.b_batch,
            "a_row": self.a_row,
            "c_row": self.c_row,
        }
        for number, axis in enumerate(self.axes):
            numbers |= axis.numbers(number)
        for number in range(len(self.axes) - 1):
            numbers[f"count{number}"] = max(numbers[f"count{number}"], 1)
        return numbers if self.line is None else {**numbers, **self.line.numbers()}


def correlation(
    op: ConvolutionOp, x: ArrayLayout, gradient: ArrayLayout, result: ArrayLayout
) -> Correlation:
    """The gradient of a convolution's kernel."""
    axes = [
        WindowAxis(
            count=gradient.shape[i + 1],
            size=x.shape[i + 1],
            origin=-op.padding[i][0],
            stride=op.strides[i],
            taps=result.shape[i],
            dilation=op.dilation[i],
            a_bytes=x.strides[i + 1],
            b_bytes=gradient.strides[i + 1],
            c_bytes=result.strides[i],
        )
        for i in range(len(op.strides))
    ]
    return Correlation(
        batch=x.shape[0],
        axes=tuple(axes),
        groups=op.groups,
        channels=result.shape[-2],
        outputs=result.shape[-1] // op.groups,
        a_batch=x.strides[0],
        b_batch=gradient.strides[0],
        a_row=x.strides[-1],
        c_row=result.strides[-2],
        item=result.dtype.itemsize,
    )


class RowKind(enum.Enum):
    """The meaning of the rows of a tile."""

    CHANNELS = "channels at one tap"
    LINES = "channels at all taps of the last axis"


@dataclass(frozen=True, slots=True)
class Taps(RowSource):
    """Inputs that the taps of a window over `rank` spatial axes see, for all positions.

    The stack of products is that of groups and taps.
    """

    rank: int
    kind: RowKind
    order: PixelOrder = PixelOrder.TOGETHER
    """How the pixels of a line of the input lie in memory, where lines are copied."""

    @property
    def numbers(self) -> tuple[str, ...]:
        own = [f"{name}{axis}" for axis in range(self.rank) for name in AXIS_NUMBERS]
        line = LINE_NUMBERS if self.kind is RowKind.LINES else ()
        return ("a_batch", "b_batch", "a_row", "c_row", *own, *line)

    def rows(self, code: TileCode) -> Rows:
        return TapRows(code, self)

    def single_row(self, code: TileCode) -> Rows:
        return _TapAlone(code, self)

    def sees_outside(self, rows: Rows) -> Value | None:
        assert isinstance(rows, TapRows)
        return rows.code.f.constant(I1, 1) if self.kind is RowKind.LINES else None


@dataclass(frozen=True, slots=True)
class _PositionRun:
    """Positions of one line that are walked together."""

    rows: list[Value]
    step: Value
    panel: Value
    count: Value


class TapRows:
    """Some channels at a tap, or at the taps of a line."""

    def __init__(self, code: TileCode, source: Taps) -> None:
        self.code = code
        self.rank = source.rank
        self.kind = source.kind
        self.order = source.order
        self.firsts = self._first_coordinates()

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, size = self.code, self.code.f, len(sums)
        run_of = self._runs_copied() if self.kind is RowKind.LINES else self._runs_inside()
        with f.loop(code.lower, code.upper, carried=[*sums, *self._run()]) as loop:
            batch, *places = loop.carried[size:]
            run = run_of(batch, places)
            walk = Walk(run.rows, run.step, run.panel, code.panel_step, run.count, code.ahead)
            before = loop.carried[:size]
            after = accumulate(f, code.element, code.tile, before, walk, code.masks)
            loop.carry(*after, *self._following(batch, places))
        return loop.carried[:size]

    def _runs_inside(self) -> Callable[[Value, Sequence[Value]], _PositionRun]:
        """Runs of the positions of a line whose tap is inside of the input."""
        code, f, n, last = self.code, self.code.f, self.code.numbers, self.rank - 1
        low, high = self._positions_inside()
        offset = code.start * n["a_row"]
        step, a_row = n[f"stride{last}"] * n[f"a_bytes{last}"], n["a_row"]
        base = f.offset(code.left, offset + n[f"origin{last}"] * n[f"a_bytes{last}"])
        base, panel = f.offset(base, low * step), f.offset(code.panel, low * code.panel_step)

        def run(batch: Value, places: Sequence[Value]) -> _PositionRun:
            inside, left, right = self._line(batch, places)
            rows = evenly_spaced(f, f.offset(base, left), a_row, code.tile.rows)
            count = f.select(inside, high - low, 0)
            return _PositionRun(rows, step, f.offset(panel, right), count)

        return run

    def _runs_copied(self) -> Callable[[Value, Sequence[Value]], _PositionRun]:
        """Runs of all positions of a line, whose input is copied with zeros around it."""
        code, f, n, last = self.code, self.code.f, self.code.numbers, self.rank - 1
        room, item = f.stack_buffer(LINE_BYTES), code.element.nbytes
        first = f.offset(room, code.start * item)
        rows = [f.offset(first, row * item) for row in range(code.tile.rows)]
        step, (low, high) = n[f"stride{last}"] * n["pixel_bytes"], self._positions_copied()
        rows = [f.offset(row, low * step) for row in rows]
        panel = f.offset(code.panel, low * code.panel_step)

        def run(batch: Value, places: Sequence[Value]) -> _PositionRun:
            inside, left, right = self._line(batch, places)
            with f.when(inside):
                source = f.offset(code.left, left)
                copy_line(f, code.element, n, source, room, inside, last, self.order)
            count = f.select(inside, high - low, 0)
            return _PositionRun(rows, step, f.offset(panel, right), count)

        return run

    def _positions_copied(self) -> tuple[Value, Value]:
        """The positions of a copied line that are multiplied, from and to."""
        return self.code.f.constant(I64, 0), self.code.numbers[f"count{self.rank - 1}"]

    def _line(self, batch: Value, places: Sequence[Value]) -> tuple[Value, Value, Value]:
        """Whether a line's taps of the outer axes are inside, and its bytes in both arrays.

        Those of the input are from where the tap of the first position would be.
        """
        f, n = self.code.f, self.code.numbers
        inside = f.constant(I1, 1)
        left, right = batch * n["a_batch"], batch * n["b_batch"]
        for axis, place in enumerate(places):
            coordinate = place * n[f"stride{axis}"]
            seen = self.firsts[axis] + coordinate
            inside = inside & seen.unsigned_below(n[f"size{axis}"])
            left = left + (coordinate + n[f"origin{axis}"]) * n[f"a_bytes{axis}"]
            right = right + place * n[f"b_bytes{axis}"]
        return inside, left, right

    def places(self, base: Value, name: str) -> list[Value]:
        code, step = self.code, self.code.numbers[f"{name}_row"]
        return evenly_spaced(code.f, code.f.offset(base, code.start * step), step, code.tile.rows)

    def _first_coordinates(self) -> list[Value]:
        """What the tap sees at the first position of each axis."""
        n, rest, firsts = self.code.numbers, self.code.place, list[Value]()
        for axis in reversed(range(self.rank)):
            tap = rest % n[f"taps{axis}"]
            rest = rest // n[f"taps{axis}"]
            firsts.insert(0, tap * n[f"dilation{axis}"] + n[f"origin{axis}"])
        return firsts

    def _positions_inside(self) -> tuple[Value, Value]:
        """The positions of the last axis whose tap is inside of the input, from and to."""
        f, n, last = self.code.f, self.code.numbers, self.rank - 1
        first, stride = self.firsts[last], n[f"stride{last}"]
        low, end = (
            (f.maximum(length, 0) + stride - 1) // stride
            for length in (-first, n[f"size{last}"] - first)
        )
        return low, f.maximum(f.minimum(end, n[f"count{last}"]), low)

    def _run(self) -> list[Value]:
        """Where the first run of a block is: an element of the batch, a place along each axis."""
        n, rest, places = self.code.numbers, self.code.lower, list[Value]()
        for axis in reversed(range(self.rank - 1)):
            places.insert(0, rest % n[f"count{axis}"])
            rest = rest // n[f"count{axis}"]
        return [rest, *places]

    def _following(self, batch: Value, places: Sequence[Value]) -> list[Value]:
        """The next run."""
        after, carry = following(self.code.f, self.code.numbers, "count", places)
        return [batch + carry, *after]


class _TapAlone(TapRows):
    """One channel at one tap of a copied line, at the positions where that is the input's."""

    def _positions_copied(self) -> tuple[Value, Value]:
        channels = self.code.numbers["pixel_bytes"] // self.code.element.nbytes
        self.firsts[-1] = self.firsts[-1] + self.code.start // channels
        return self._positions_inside()
