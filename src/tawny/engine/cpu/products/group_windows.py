"""Convolutions of groups of few channels: a pixel is shared by the taps of all windows that see it.

Tiles are segments of lines of positions, with columns of several groups side by side in vectors.
The channels of a pixel are moved to the lanes of their groups once, and multiplied for all
positions of the segment that see it.  Which these are is known when the code is written; so a
gradient of an input takes all places along a line together, whatever the stride.

Pixels outside of the input are left out.  Some are outside for a few segments of a line only: they
are multiplied apart from the others, where they are inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.products.blocking import Panels, cut
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.geometry import Sweep
from tawny.engine.cpu.products.groups import Groups
from tawny.engine.cpu.products.packing import Order
from tawny.engine.cpu.products.preparation import PanelPreparation
from tawny.engine.cpu.products.product import Product
from tawny.engine.cpu.products.sharing import ceil_divide
from tawny.engine.cpu.products.tile import MOST_VECTORS, evenly_spaced, registers
from tawny.engine.cpu.products.tile_code import PackCode, Rows, RowSource, TileCode
from tawny.engine.cpu.products.windows import WindowAxis, Windows, each_tap, position_at
from tawny.engine.llvm.ir.builder import I1, Value

FEW_GROUPS: Final = 2
"""Channels of up to this many groups are loaded for each lane; those of more are shuffled;
`benchmarks/cpu_groups.py`."""

MOST_PIXELS: Final = 32
"""A segment sees at most this many: addresses of more take longer to find than is saved;
`benchmarks/cpu_groups.py`."""

MOST_SHUFFLED: Final = 20
"""The most pixels of a segment whose channels are shuffled, which takes registers;
`benchmarks/cpu_groups.py`."""

ENOUGH_SUMS: Final = 14
"""Tiles of fewer sums wait for results: they are made wider; `benchmarks/cpu_groups.py`."""


class SegmentPixel(NamedTuple):
    """A pixel of the line that a segment sees."""

    place: int
    """Pixels from where the segment begins."""
    always: bool
    """Whether it is inside of the input for all segments of a line."""
    uses: tuple[tuple[int, int], ...]
    """The positions of the segment that see it, each with the tap by which it does."""


def segment_pixels(axis: WindowAxis, length: int) -> tuple[SegmentPixel, ...]:
    """What segments of `length` positions along an axis see, but for what is never inside."""
    uses, pixels = dict[int, list[tuple[int, int]]](), list[SegmentPixel]()
    for position in range(length):
        for tap in range(axis.taps):
            seen = axis.origin + position * axis.stride + tap * axis.dilation
            place, between = divmod(seen, axis.spread)
            if not between:
                uses.setdefault(place, []).append((position, tap))
    step = length * axis.stride // axis.spread
    for place, found in sorted(uses.items()):
        segments = range(ceil_divide(axis.count, length))
        inside = [0 <= place + step * segment < axis.size for segment in segments]
        if any(inside):
            pixels.append(SegmentPixel(place, all(inside), tuple(found)))
    return tuple(pixels)


def segment_length(axis: WindowAxis, vectors: int, most_pixels: int) -> int:
    """The positions of a segment: few segments, and few positions past the end of a line.

    Sums and weights stay in registers, where that can be.
    """

    def fits(length: int) -> bool:
        seen = ((length - 1) * axis.stride + sum(map(abs, axis.reach))) // axis.spread + 1
        return vectors * (length + axis.taps) < registers() and seen <= most_pixels

    lengths = range(1, min(axis.count, registers()) + 1)
    whole = [n for n in lengths if n == axis.count or n % axis.spread == 0]
    shortest = min(axis.spread, axis.count)
    return min(
        filter(fits, whole), key=lambda n: ceil_divide(axis.count, n) * (n + 1), default=shortest
    )


_POSITIONS: Final = ("position_bytes", "residual_bytes", "positions")


@dataclass(frozen=True, slots=True)
class GroupWindows(RowSource):
    """Groups of channels, seen by the windows at segments of lines."""

    rank: int
    groups: Groups
    length: int
    """Positions of a segment."""
    ragged: bool
    """Whether the last segment of a line has positions past its end."""
    pixels: tuple[SegmentPixel, ...]

    @property
    def run(self) -> int:
        return self.length

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*Windows(self.rank).numbers, "b_output", *_POSITIONS)

    def rows(self, code: TileCode) -> Rows:
        return _SegmentRows(code, self)

    def pack(self, code: PackCode) -> None:
        if code.order is Order.COLUMNS:
            self.groups.pack(code, self.rank)
        else:
            Windows(self.rank).pack(code)


FactorOf = Callable[[Value, int], Value]
"""Gives for each lane a channel of its group, from a pixel and the number of a vector."""


class _SegmentRows:
    """The rows of the left matrix that windows at the positions of a segment see."""

    def __init__(self, code: TileCode, source: GroupWindows) -> None:
        self.code, self.source, self.f, self.n = code, source, code.f, code.numbers
        self.groups, self.last = source.groups, source.rank - 1
        self.position = position_at(self.n, source.rank, code.start // source.length)
        self.along = self.position.places[-1] * self.n[f"stride{self.last}"]
        self.pixel_bytes = self.n[f"a_bytes{self.last}"]

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, n = self.code, self.f, self.n
        lines = [
            place * n[f"stride{axis}"] + n[f"origin{axis}"]
            for axis, place in enumerate(self.position.places[:-1])
        ]
        start = code.column // self.groups.outputs * self.groups.channels
        start = start + self.position.batch * n["a_batch"] + self.along * self.pixel_bytes

        def add_taps(taps: Sequence[Value], before: Sequence[Value]) -> list[Value]:
            place, panel, inside = f.offset(code.left, start), code.panel, f.constant(I1, 1)
            for axis, tap in enumerate(taps):
                seen = lines[axis] + tap * n[f"dilation{axis}"]
                place = f.offset(place, seen * n[f"a_bytes{axis}"])
                panel = f.offset(panel, tap * self._tap_step(axis))
                inside = inside & seen.unsigned_below(n[f"size{axis}"])
            add = partial(self._add_line, place, panel, before)
            return f.either(inside, add, partial(list[Value], before))

        return each_tap(f, n, self.last, sums, add_taps)

    def _tap_step(self, axis: int) -> Value:
        """Bytes in the panel from one tap of an axis to the next."""
        rows = self.code.panel_step * self.groups.channels
        return self.n[f"tap_bytes{axis}"] + rows * self.n[f"tap_rows{axis}"]

    def _add_line(self, place: Value, panel: Value, sums: Sequence[Value]) -> list[Value]:
        """The sums with the taps along a line added."""
        f, pixels, size = self.f, self.source.pixels, self.n[f"size{self.last}"]
        after = self._add_pixels([p for p in pixels if p.always], place, panel, sums)
        for pixel in pixels:
            if not pixel.always:
                inside = (self.along + pixel.place).unsigned_below(size)
                add = partial(self._add_pixels, [pixel], place, panel, after)
                after = f.either(inside, add, partial(list[Value], after))
        return after

    def _add_pixels(
        self, pixels: Sequence[SegmentPixel], place: Value, panel: Value, sums: Sequence[Value]
    ) -> list[Value]:
        """The sums with some pixels added, channel after channel."""
        code, f, element, groups = self.code, self.f, self.code.element, self.groups
        if not pixels:
            return list(sums)
        step = self._tap_step(self.last)
        starts = {tap: f.offset(panel, step * tap) for p in pixels for _, tap in p.uses}
        places = [f.offset(place, self.pixel_bytes * pixel.place) for pixel in pixels]
        vectors, most = code.tile.vectors, 1 if code.tile.masked else FEW_GROUPS

        def add_channel(k: Value | int, factor: FactorOf, before: Sequence[Value]) -> list[Value]:
            after, row = list(before), code.panel_step * k
            weights = {tap: self._weights(f.offset(start, row)) for tap, start in starts.items()}
            for pixel, seen in zip(pixels, places, strict=True):
                for v in range(vectors):
                    channel = factor(seen, v)
                    for position, tap in pixel.uses:
                        i = position * vectors + v
                        after[i] = element.multiply_add(f, channel, weights[tap][v], after[i])
            return after

        if groups.has_few_groups(element, vectors, most):
            with f.loop(0, groups.channels, carried=list(sums)) as loop:
                offset = loop.index * element.nbytes
                loop.carry(*add_channel(loop.index, partial(self._splat, offset), loop.carried))
            return loop.carried
        after = list(sums)
        for k in range(groups.channels):
            after = add_channel(k, partial(self._move, k), after)
        return after

    def _weights(self, row: Value) -> list[Value]:
        """A row of the panel."""
        element, masks = self.code.element, self.code.masks
        return [
            element.load(self.f, self.f.offset(row, v * element.vector_bytes), mask)
            for v, mask in enumerate(masks)
        ]

    def _splat(self, offset: Value, place: Value, v: int) -> Value:
        """For each lane a channel of its group, `offset` bytes past the first."""
        return self.groups.splat(self.f, self.code.element, place, v, offset)

    def _move(self, channel: int, place: Value, v: int) -> Value:
        """For each lane a channel of its group."""
        code, f, groups = self.code, self.f, self.groups
        seen = groups.load(f, code.element, code.tile, place, v, code.columns)
        return groups.move(f, code.element, seen, v, channel)

    def places(self, base: Value, name: str) -> list[Value]:
        f, n, source = self.f, self.n, self.source
        array = "r" if name == "residual" else "c"
        offset = self.position.batch * n[f"{array}_batch"]
        for axis, place in enumerate(self.position.places):
            offset = offset + place * n[f"{array}_bytes{axis}"]
        step = n["residual_bytes" if name == "residual" else "position_bytes"]
        found = evenly_spaced(f, f.offset(base, offset), step, source.length)
        if not source.ragged:
            return found
        unused = f.stack_buffer(self.code.tile.width(self.code.element))
        left = n["positions"] - self.position.places[-1] * source.length
        return [f.select(left > i, place, unused) for i, place in enumerate(found)]


# ---------------------------------------------------------------------- sweeps


def group_order(element: Element, sweep: Sweep) -> Order | None:
    """How the kernel of a sweep over groups lies; None where groups are not side by side."""
    item, channels, outputs = element.nbytes, sweep.channels, sweep.outputs
    if (sweep.a_step, sweep.a_group, sweep.c_group) != (item, channels * item, outputs * item):
        return None
    if (sweep.b_column == item or outputs == 1) and sweep.b_group == outputs * item:
        return Order.ROWS
    turned = sweep.b_row == item and sweep.b_group == channels * item
    return Order.COLUMNS if turned and sweep.b_group % outputs == 0 else None


def group_product(
    element: Element, epilogue: TileEpilogue, sweep: Sweep, workers: int, *, prepared: bool
) -> Product:
    """A sweep over groups of few channels as one product."""
    groups, order = Groups(sweep.channels, sweep.outputs), group_order(element, sweep)
    assert order is not None, "groups are side by side"
    panels = Panels.DIRECT if order is Order.ROWS else Panels.PACKED
    panels = Panels.PREPARED if prepared else panels
    whole = replace(sweep, groups=1, outputs=sweep.groups * sweep.outputs)
    axis, last = sweep.axes[-1], len(sweep.axes) - 1
    least = groups.least_vectors(element)
    is_shuffled = not groups.has_few_groups(element, least, FEW_GROUPS)
    length = segment_length(axis, least, MOST_SHUFFLED if is_shuffled else MOST_PIXELS)
    segments = ceil_divide(axis.count, length)
    rows = whole.extent.rows // axis.count * segments
    extent = replace(whole.extent, rows=rows, taps=whole.taps * length)
    wide = least * _widening(axis, length, least, ceil_divide(whole.outputs, least * element.lanes))
    found = cut(element, extent, workers, panels=panels, order=order, wide=wide, high=1)
    blocking = replace(found, depth_blocks=1)
    numbers = {
        **whole.numbers(panels is not Panels.DIRECT),
        "b_output": sweep.b_column,
        "b_column": sweep.b_group // sweep.outputs,
        f"count{last}": segments,
        f"stride{last}": length * axis.stride // axis.spread,
        f"c_bytes{last}": length * axis.c_bytes,
        f"r_bytes{last}": length * axis.r_bytes,
        "position_bytes": axis.c_bytes,
        "residual_bytes": axis.r_bytes,
        "positions": axis.count,
    }
    preparation = None
    if prepared:
        shape = whole.taps, whole.channels, 1, whole.outputs
        preparation = PanelPreparation(element, blocking, *shape)
    pixels, ragged = segment_pixels(axis, length), bool(axis.count % length)
    source = GroupWindows(len(sweep.axes), groups, length, ragged, pixels)
    return Product(
        element,
        epilogue,
        blocking,
        panels,
        order,
        (),
        source,
        numbers,
        preparation=preparation,
    )


def _widening(axis: WindowAxis, length: int, least: int, blocks: int) -> int:
    """How often tiles have the fewest vectors, so that there are sums enough to make at once."""
    fitting = (registers() - 1) // (least * (length + axis.taps))
    wanted = min(ceil_divide(ENOUGH_SUMS, least * length), blocks)
    return max(min(wanted, fitting, MOST_VECTORS // least), 1)
