"""The gradient of a convolution's kernel: for each tap, a product over all positions.

The rows of the left matrix are the channels that a tap sees, the columns the outputs' gradients.
The common axis is walked run by run: the positions along the last spatial axis whose windows have
the tap inside of the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tawny.codegen.builder import I64, Value
from tawny.codegen.kernel import Layout
from tawny.codegen.products.blocking import Extent
from tawny.codegen.products.form import Rows, Source, TileCode
from tawny.codegen.products.stack import Axis
from tawny.codegen.products.tile import Walk, accumulate, spaced
from tawny.codegen.products.windows import AXIS_NUMBERS, WindowAxis
from tawny.ops.convolution import Windowed


@dataclass(frozen=True, slots=True)
class Correlation:
    """What windows see, summed over all positions with the outputs' gradients.

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

    def by_channel(self) -> Correlation | None:
        """The same where each channel goes with one output only: channels as columns."""
        if self.groups == 1 or (self.channels, self.outputs) != (1, 1):
            return None
        return replace(self, groups=1, outputs=self.groups)

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
        """What the code is told."""
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
        return numbers


def correlation(op: Windowed, x: Layout, gradient: Layout, result: Layout) -> Correlation:
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


@dataclass(frozen=True, slots=True)
class Taps(Source):
    """Channels at one tap of a window over so many spatial axes, for all positions.

    The stack of products is that of groups and taps.
    """

    rank: int
    each: bool = False
    """Whether each channel goes with one output only, its own."""

    @property
    def numbers(self) -> tuple[str, ...]:
        own = [f"{name}{axis}" for axis in range(self.rank) for name in AXIS_NUMBERS]
        return ("a_batch", "b_batch", "a_row", "c_row", *own)

    def rows(self, code: TileCode) -> Rows:
        return _TapRows(code, self.rank, self.each)


@dataclass(frozen=True, slots=True)
class _TapRows:
    """Some channels at a tap."""

    code: TileCode
    rank: int
    each: bool

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, n, element = self.code, self.code.f, self.code.numbers, self.code.element
        last, size = self.rank - 1, len(sums)
        firsts = self._first_coordinates()
        low, high = self._seen(firsts[last])
        base = f.advanced(code.left, code.column if self.each else code.start * n["a_row"])
        for axis in range(self.rank):
            base = f.advanced(base, n[f"origin{axis}"] * n[f"a_bytes{axis}"])
        stride, count = n[f"stride{last}"] * n[f"a_bytes{last}"], high - low
        base, panel = f.advanced(base, low * stride), f.advanced(code.panel, low * code.panel_step)
        state = [*sums, *self._run()]
        with f.loop(code.lower, code.upper, carried=state) as loop:
            batch, *places = loop.carried[size:]
            left, right = batch * n["a_batch"], batch * n["b_batch"]
            length = count
            for axis, place in enumerate(places):
                coordinate = place * n[f"stride{axis}"]
                inside = (firsts[axis] + coordinate).unsigned_below(n[f"size{axis}"])
                length = f.select(inside, length, 0)
                left = left + coordinate * n[f"a_bytes{axis}"]
                right = right + place * n[f"b_bytes{axis}"]
            start = f.advanced(base, left)
            rows = spaced(f, start, n["a_row"], code.tile.rows)
            walk = Walk(rows, stride, f.advanced(panel, right), code.panel_step, length, code.ahead)
            before = loop.carried[:size]
            after = accumulate(f, element, code.tile, before, walk, code.masks, self.each)
            loop.carry(*after, *self._following(batch, places))
        return loop.carried[:size]

    def places(self, base: Value, name: str) -> list[Value]:
        code, step = self.code, self.code.numbers[f"{name}_row"]
        return spaced(code.f, code.f.advanced(base, code.start * step), step, code.tile.rows)

    def _first_coordinates(self) -> list[Value]:
        """What the tap sees at the first position of each axis."""
        n, rest, firsts = self.code.numbers, self.code.place, list[Value]()
        for axis in reversed(range(self.rank)):
            tap = rest % n[f"taps{axis}"]
            rest = rest // n[f"taps{axis}"]
            firsts.insert(0, tap * n[f"dilation{axis}"] + n[f"origin{axis}"])
        return firsts

    def _seen(self, first: Value) -> tuple[Value, Value]:
        """The positions of the last axis whose tap is inside of the input, from and to."""
        f, n = self.code.f, self.code.numbers
        last = self.rank - 1
        stride = n[f"stride{last}"]
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
        f, n = self.code.f, self.code.numbers
        carry, following = f.constant(I64, 1), list[Value]()
        for axis in reversed(range(len(places))):
            place = places[axis] + carry
            ends = place.equals(n[f"count{axis}"])
            following.insert(0, f.select(ends, 0, place))
            carry = f.select(ends, carry, 0)
        return [batch + carry, *following]
