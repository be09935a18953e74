"""Gradients of kernels of groups of few channels: each pixel is shared by the taps that see it.

Rows are channels at all taps of the last axis, columns the outputs of several groups, side by side
in vectors.  A line of the input is walked pixel by pixel, whose channels are moved to the lanes of
their groups once, and multiplied by the gradients of all positions that see the pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.products.blocking import Panels, cut
from tawny.engine.cpu.products.correlation import Correlation, RowKind, TapRows, Taps
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.groups import Groups
from tawny.engine.cpu.products.packing import Order
from tawny.engine.cpu.products.product import Product
from tawny.engine.cpu.products.tile import MOST_VECTORS, registers
from tawny.engine.cpu.products.tile_code import Rows, RowSource, TileCode
from tawny.engine.cpu.products.windows import WindowAxis
from tawny.engine.llvm.ir.builder import Value

BESIDE: Final = 4
"""Registers for what is multiplied, beside the sums of a tile."""

_BOUNDS: Final = ("from", "low", "high", "to")
"""Steps along a line: all of them, and in between those at which all taps are inside."""


class SeenPixel(NamedTuple):
    """A pixel of a step along a line, and the taps by which positions see it."""

    place: int
    """Pixels from the first of the step."""
    taps: tuple[tuple[int, int], ...]
    """The number of each tap, and how many positions before the step's its position is."""


def seen_pixels(axis: WindowAxis) -> tuple[SeenPixel, ...]:
    """The pixels of a step along an axis: as many as its stride, but for those that no tap sees.

    Position `q` and tap `t` see pixel `origin + q * stride + t * dilation`: that of step
    `q + t * dilation // stride`, at place `t * dilation % stride`.
    """
    places = dict[int, list[tuple[int, int]]]()
    for tap in range(axis.taps):
        back, place = divmod(tap * axis.dilation, axis.stride)
        places.setdefault(place, []).append((tap, back))
    return tuple([SeenPixel(place, tuple(taps)) for place, taps in places.items()])


def _bounds(axis: WindowAxis) -> dict[str, int]:
    """The numbers of `_BOUNDS`."""
    firsts, ends = list[int](), list[int]()
    for pixel in seen_pixels(axis):
        first = -(-(-axis.origin - pixel.place) // axis.stride)
        end = -(-(axis.size - axis.origin - pixel.place) // axis.stride)
        for _, back in pixel.taps:
            firsts.append(max(first, back))
            ends.append(min(end, back + axis.count))
    begin = min(firsts)
    to = max(begin, *ends)
    low = min(max(firsts), to)
    return {"from": begin, "low": low, "high": max(low, min(ends)), "to": to}


@dataclass(frozen=True, slots=True)
class GroupTaps(RowSource):
    """Channels of groups at the taps of the last axis, for all positions."""

    rank: int
    groups: Groups
    pixels: tuple[SeenPixel, ...]

    @property
    def run(self) -> int:
        return sum([len(pixel.taps) for pixel in self.pixels])

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*Taps(self.rank, RowKind.CHANNELS).numbers, "tap_row", *_BOUNDS)

    def rows(self, code: TileCode) -> Rows:
        return _GroupTapRows(code, self)


class _GroupTapRows(TapRows):
    """Some channels of groups at the taps of the last axis."""

    def __init__(self, code: TileCode, source: GroupTaps) -> None:
        super().__init__(code, Taps(source.rank, RowKind.CHANNELS))
        self.source = source
        self.taps, self.channels = source.run, code.tile.rows // source.run
        self.channel = code.start // source.run

    def places(self, base: Value, name: str) -> list[Value]:
        f, n = self.code.f, self.code.numbers
        first = f.offset(base, self.channel * n[f"{name}_row"])
        return [
            f.offset(first, n[f"{name}_row"] * channel + n["tap_row"] * tap)
            for channel in range(self.channels)
            for tap in range(self.taps)
        ]

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, size = self.code, self.code.f, len(sums)
        with f.loop(code.lower, code.upper, carried=[*sums, *self._run()]) as loop:
            before, (batch, *places) = loop.carried[:size], loop.carried[size:]
            inside, left, right = self._line(batch, places)
            add = partial(self._add_line, left, right, before)
            after = f.either(inside, add, partial(list[Value], before))
            loop.carry(*after, *self._following(batch, places))
        return loop.carried[:size]

    def _add_line(self, left: Value, right: Value, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of a line added: those of its ends, then the others."""
        f, n = self.code.f, self.code.numbers
        with f.loop(0, 2, carried=list(sums)) as side:
            is_first = side.index.equals(0)
            begin = f.select(is_first, n["from"], n["high"])
            end = f.select(is_first, n["low"], n["to"])
            side.carry(*self._add_steps(left, right, begin, end, side.carried, checks=True))
        return self._add_steps(left, right, n["low"], n["high"], side.carried, checks=False)

    def _add_steps(
        self,
        left: Value,
        right: Value,
        begin: Value,
        end: Value,
        sums: Sequence[Value],
        *,
        checks: bool,
    ) -> list[Value]:
        """The sums with some steps added; of steps with `checks` only what is inside."""
        code, f, n, last = self.code, self.code.f, self.code.numbers, self.rank - 1
        pixel, groups = n[f"a_bytes{last}"], self.source.groups
        stride = n[f"stride{last}"] * pixel
        start = code.column // groups.outputs * groups.channels
        start = start + self.channel * code.element.nbytes + left + n[f"origin{last}"] * pixel
        a = f.offset(code.left, start + begin * stride)
        b = f.offset(code.panel, right + begin * code.panel_step)
        with f.loop(begin, end, carried=[*sums, a, b]) as loop:
            *after, a, b = loop.carried
            for seen in self._parts(checks=checks):
                add = partial(self._add_pixel, seen, f.offset(a, pixel * seen.place), b, after)
                if checks:
                    inside = self._is_inside(seen, loop.index)
                    after = f.either(inside, add, partial(list[Value], after))
                else:
                    after = add()
            loop.carry(*after, f.offset(a, stride), f.offset(b, code.panel_step))
        return loop.carried[:-2]

    def _parts(self, *, checks: bool) -> Sequence[SeenPixel]:
        """The pixels of a step; with `checks` one for each tap."""
        pixels = self.source.pixels
        alone = [SeenPixel(pixel.place, (tap,)) for pixel in pixels for tap in pixel.taps]
        return alone if checks else pixels

    def _is_inside(self, seen: SeenPixel, step: Value) -> Value:
        """Whether a step's pixel, seen by one tap, and the tap's position are."""
        n, last, ((_, back),) = self.code.numbers, self.rank - 1, seen.taps
        pixel = step * n[f"stride{last}"] + n[f"origin{last}"] + seen.place
        is_position = (step - back).unsigned_below(n[f"count{last}"])
        return pixel.unsigned_below(n[f"size{last}"]) & is_position

    def _add_pixel(
        self, seen: SeenPixel, place: Value, position: Value, sums: Sequence[Value]
    ) -> list[Value]:
        """The sums with the products of a pixel added."""
        code, f, element, after = self.code, self.code.f, self.code.element, list(sums)
        vectors = range(code.tile.vectors)
        gradients = [f.offset(position, code.panel_step * -back) for _, back in seen.taps]
        for v in vectors:
            columns = [
                element.load(f, f.offset(start, v * element.vector_bytes), code.masks[v])
                for start in gradients
            ]
            for channel, factor in enumerate(self._factors(place, v)):
                for (tap, _), column in zip(seen.taps, columns, strict=True):
                    i = (channel * self.taps + tap) * len(vectors) + v
                    after[i] = element.multiply_add(f, factor, column, after[i])
        return after

    def _factors(self, place: Value, v: int) -> list[Value]:
        """For each channel of the tile, that of each lane's group."""
        code, f, element, groups = self.code, self.code.f, self.code.element, self.source.groups
        channels = range(self.channels)
        if len(groups.span(element, v).groups) == 1:
            return [groups.splat(f, element, place, v, k * element.nbytes) for k in channels]
        seen = groups.load(f, element, code.tile, place, v, code.columns, self.channels)
        return [groups.move(f, element, seen, v, k) for k in channels]


def gradient_width(element: Element, found: Correlation) -> tuple[int, int]:
    """The vectors and the channels of tiles; none of either where these would be too many."""
    groups = Groups(found.channels, found.outputs)
    taps, least = found.axes[-1].taps, groups.least_vectors(element)
    fitting = (registers() - BESIDE) // max(taps * least, 1)
    if not fitting or not groups.fits(element):
        return 0, 0
    channels = min(found.channels, fitting)
    return min(fitting // channels, MOST_VECTORS // least) * least, channels


def group_gradient(
    element: Element, epilogue: TileEpilogue, found: Correlation, workers: int
) -> Product:
    """The gradient of the kernel of a convolution of groups of few channels, as a product."""
    *outer, last = found.axes
    vectors, channels = gradient_width(element, found)
    groups = Groups(found.channels, found.outputs)
    alone = (*outer, replace(last, taps=1))
    whole = replace(found, axes=alone, groups=1, outputs=found.groups * found.outputs)
    extent = replace(whole.extent, taps=last.count * last.taps)
    blocking = cut(element, extent, workers, wide=vectors, high=channels)
    blocking = replace(blocking, sets=last.taps)
    return Product(
        element,
        epilogue,
        blocking,
        Panels.DIRECT,
        Order.ROWS,
        whole.stack,
        GroupTaps(len(found.axes), groups, seen_pixels(last)),
        {**whole.numbers(), "tap_row": last.c_bytes, **_bounds(last)},
    )
