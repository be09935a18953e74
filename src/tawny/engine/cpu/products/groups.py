"""Convolutions of groups of few channels: columns of several groups side by side in vectors.

A kernel of (*window, channels, groups * outputs) has the outputs of all groups side by side, so
that vectors of columns reach over groups.  The lanes of a vector that belong to a group are
multiplied by a channel of that group: the channels of the groups that a vector meets are loaded
together, and each is moved to the lanes of its group.  Where a vector has outputs of one group
only, the channel is loaded into all lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.products.blocking import Panels, cut
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.geometry import Sweep
from tawny.engine.cpu.products.packing import Order
from tawny.engine.cpu.products.preparation import PanelPreparation
from tawny.engine.cpu.products.product import Product
from tawny.engine.cpu.products.tile import MOST_VECTORS, RegisterTile, evenly_spaced, widest
from tawny.engine.cpu.products.tile_code import PackCode, Rows, RowSource, TileCode
from tawny.engine.cpu.products.windows import WindowRows, Windows, dot, each_tap
from tawny.engine.llvm.ir.builder import I64, Function, Value

MOST_SPAN: Final = 2
"""The channels that a vector of columns meets fill at most this many vectors."""


@dataclass(frozen=True, slots=True)
class Span:
    """The channels that meet a vector of columns: those of some groups, side by side."""

    start: int
    """The first, counted from the tile's first."""
    length: int
    lanes: tuple[int, ...]
    """For each lane, where the first channel of its group is."""

    @property
    def is_one_group(self) -> bool:
        """Whether all lanes are of one group."""
        return not any(self.lanes)


@dataclass(frozen=True, slots=True)
class Groups(RowSource):
    """Groups of channels and outputs, seen by windows over some spatial axes."""

    rank: int
    channels: int
    """Channels of a group."""
    outputs: int
    """Outputs of a group."""

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*Windows(self.rank).numbers, "b_output")

    def least_vectors(self, element: Element) -> int:
        """The fewest vectors that have whole groups."""
        return math.lcm(self.outputs, element.lanes) // element.lanes

    def span(self, element: Element, vector: int) -> Span:
        """What meets a vector of a tile, which begins with a group."""
        columns = range(vector * element.lanes, (vector + 1) * element.lanes)
        first = columns[0] // self.outputs
        groups = [column // self.outputs - first for column in columns]
        lanes = tuple([group * self.channels for group in groups])
        return Span(first * self.channels, (groups[-1] + 1) * self.channels, lanes)

    def load(
        self,
        f: Function,
        element: Element,
        tile: RegisterTile,
        place: Value,
        vector: int,
        columns: Value,
        channels: int = 0,
    ) -> Value:
        """The elements in memory that meet a vector of a tile with this many columns.

        `place` is that of the tile's first; only some `channels` of the last group may be wanted.
        """
        span, unwanted = self.span(element, vector), self.channels - (channels or self.channels)
        length, place = span.length - unwanted, f.offset(place, span.start * element.nbytes)
        kind = element.stored.by(length)
        if not tile.masked or vector < tile.vectors - 1:
            return f.load(kind, place)
        count = columns // self.outputs * self.channels - (span.start + unwanted)
        return f.masked_load(kind, place, f.first_lanes(count, length), f.constant(kind, 0))

    def rows(self, code: TileCode) -> Rows:
        return _GroupRows(code, self)

    def alone(self, code: TileCode) -> Rows:
        return _GroupRows(code, self)

    def outside(self, rows: Rows) -> Value | None:
        return Windows(self.rank).outside(rows)

    def pack(self, code: PackCode) -> None:
        """Pack a panel of a kernel that has the channels of a group side by side, then groups.

        So it is in gradients of inputs, where channels and outputs have changed places.
        """
        f, n, element = code.f, code.numbers, code.element

        def pack_tap(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
            start, (target,) = f.offset(code.source, dot(n, taps, "b_bytes")), state
            for v in range(code.tile.vectors):
                for k, vector in enumerate(self._transpose(code, start, v)):
                    place = f.offset(target, k * code.width + v * element.vector_bytes)
                    f.store(vector, place)
            return [f.offset(target, self.channels * code.width)]

        each_tap(f, n, self.rank, [code.target], pack_tap)

    def _transpose(self, code: PackCode, start: Value, v: int) -> list[Value]:
        """For each channel a vector of the weights that its group's outputs have for it."""
        f, element, span = code.f, code.element, self.span(code.element, v)
        own = [(v * element.lanes + lane) % self.outputs for lane in range(element.lanes)]
        made = [f.constant(element.neighbours, 0)] * self.channels
        for output in sorted(set(own)):
            place = f.offset(start, code.numbers["b_output"] * output)
            row = self.load(f, element, code.tile, place, v, code.columns)
            lanes = [i + element.lanes * (of == output) for i, of in enumerate(own)]
            for k in range(self.channels):
                moved = f.shuffle(row, None, [first + k for first in span.lanes])
                made[k] = f.shuffle(made[k], moved, lanes)
        return made


class _GroupRows(WindowRows):
    """What the windows at a tile's positions see of the groups that the tile has columns of."""

    def __init__(self, code: TileCode, source: Groups) -> None:
        super().__init__(code, source.rank, each=True)
        self.source = source

    def first(self) -> Value:
        code, source = self.code, self.source
        return code.column // source.outputs * source.channels

    def add_products(
        self, rows: Sequence[Value], panel: Value, count: Value, sums: Sequence[Value]
    ) -> list[Value]:
        element, vectors = self.code.element, range(self.code.tile.vectors)
        spans = [self.source.span(element, v) for v in vectors]
        if all(span.is_one_group for span in spans):
            return self._add_channels(spans, rows, panel, count, sums)
        return self.f.either(
            count.differs(0),
            lambda: self._add_all(spans, rows, panel, sums),
            lambda: list(sums),
        )

    def _add_channels(
        self,
        spans: Sequence[Span],
        rows: Sequence[Value],
        panel: Value,
        count: Value,
        sums: Sequence[Value],
    ) -> list[Value]:
        """The sums with products added, channel after channel, each in all lanes of a vector."""
        f, element = self.f, self.code.element
        with f.loop(0, count, carried=[*sums, panel, f.constant(I64, 0)]) as loop:
            *before, place, offset = loop.carried
            columns = [self._weights(place, v) for v in range(len(spans))]
            totals, after = iter(before), list[Value]()
            for row in rows:
                for span, column in zip(spans, columns, strict=True):
                    seen = f.offset(f.offset(row, offset), span.start * element.nbytes)
                    factor = element.splat(f, seen)
                    after.append(element.multiply_add(f, factor, column, next(totals)))
            loop.carry(*after, f.offset(place, self.code.panel_step), offset + element.nbytes)
        return loop.carried[:-2]

    def _add_all(
        self, spans: Sequence[Span], rows: Sequence[Value], panel: Value, sums: Sequence[Value]
    ) -> list[Value]:
        """The sums with the products of all channels added, vector after vector."""
        code, f, element, after = self.code, self.f, self.code.element, list(sums)
        panels = evenly_spaced(f, panel, code.panel_step, self.source.channels)
        for v, span in enumerate(spans):
            columns = [self._weights(place, v) for place in panels]
            for r, row in enumerate(rows):
                i = r * len(spans) + v
                seen = self.source.load(f, element, code.tile, row, v, code.columns)
                if element.stored != element.computed:
                    seen = f.convert("fpext", seen, element.computed)
                for k, column in enumerate(columns):
                    factors = f.shuffle(seen, None, [first + k for first in span.lanes])
                    after[i] = element.multiply_add(f, factors, column, after[i])
        return after

    def _weights(self, panel: Value, v: int) -> Value:
        """A vector of a row of the panel."""
        code = self.code
        place = self.f.offset(panel, v * code.element.vector_bytes)
        return code.element.load(self.f, place, code.masks[v])


def group_order(element: Element, sweep: Sweep) -> Order | None:
    """How the kernel of a sweep over groups lies; None where groups are not side by side."""
    item, channels, outputs = element.nbytes, sweep.channels, sweep.outputs
    if (sweep.a_step, sweep.a_group, sweep.c_group) != (item, channels * item, outputs * item):
        return None
    if sweep.b_column == item and sweep.b_group == outputs * item:
        return Order.ROWS
    turned = sweep.b_row == item and sweep.b_group == channels * item
    return Order.COLUMNS if turned and sweep.b_group % outputs == 0 else None


def group_width(element: Element, sweep: Sweep) -> int:
    """The vectors of tiles, which have whole groups; 0 where these would be too many."""
    source = Groups(len(sweep.axes), sweep.channels, sweep.outputs)
    least = source.least_vectors(element)
    vectors = widest() // least * least or least
    longest = max(source.span(element, v).length for v in range(vectors))
    fits = vectors <= MOST_VECTORS and longest <= MOST_SPAN * element.lanes
    return vectors if fits else 0


def group_product(
    element: Element, epilogue: TileEpilogue, sweep: Sweep, workers: int, *, prepared: bool
) -> Product:
    """A sweep over groups of few channels as one product."""
    source, order = (
        Groups(len(sweep.axes), sweep.channels, sweep.outputs),
        group_order(element, sweep),
    )
    assert order is not None, "groups are side by side"
    panels = Panels.DIRECT if order is Order.ROWS else Panels.PACKED
    panels = Panels.PREPARED if prepared else panels
    whole = replace(sweep, groups=1, outputs=sweep.groups * sweep.outputs)
    width = group_width(element, sweep)
    blocking = cut(element, whole.extent, workers, panels=panels, order=order, wide=width)
    preparation = None
    if prepared:
        preparation = PanelPreparation(
            element, blocking, whole.taps, whole.channels, 1, whole.outputs
        )
    numbers = {
        **whole.numbers(panels is not Panels.DIRECT),
        "b_output": sweep.b_column,
        "b_column": sweep.b_group // sweep.outputs,
    }
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
