"""Convolutions of groups whose outputs fill vectors: tiles are segments of lines of positions.

The channels that some lines of positions see are copied, group by group, with zeros around them.
So positions of a segment see pixels that are equally far apart, by a number that the code knows: a
tile needs one address for each segment.  Neighbouring lines of positions share what is copied.
Taps that see nothing of the input are left out: of lines always, along a line where segments are
whole lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.row import Numbers
from tawny.engine.cpu.products.blocking import Blocking, Panels, cut, whole_lines
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.geometry import Sweep
from tawny.engine.cpu.products.packing import Order, order_of
from tawny.engine.cpu.products.preparation import PanelPreparation
from tawny.engine.cpu.products.product import Product
from tawny.engine.cpu.products.tile import evenly_spaced, most_sums
from tawny.engine.cpu.products.tile_code import PackCode, Rows, RowSource, TileCode
from tawny.engine.cpu.products.windows import WindowAxis, dot, each_tap
from tawny.engine.llvm.ir.builder import I1, I64, VOID, Function, Type, Value

COPY_BYTES: Final = 2**17
"""What is copied at a time stays in the second cache; from `benchmarks/cpu_groups.py`."""

TOGETHER_BYTES: Final = 2**7
"""Bytes of each pixel that are copied at a time; from `benchmarks/cpu_groups.py`."""


class Tap(NamedTuple):
    """A tap along a line, as the positions of a segment see it."""

    shift: int
    """Pixels from the first that the window sees, or passes over."""
    first: int
    last: int
    """From and to where positions of a segment see the input, as far as that is known."""


_HIGH: Final = ("count0", "size0", "stride0", "taps0", "dilation0", "first0", "shift0", "span0")
_WIDE: Final = ("count1", "size1", "taps1", "first1", "pixels", "low", "high")
_STEPS: Final = ("a_bytes", "b_bytes", "c_bytes", "tap_bytes", "tap_rows")


@dataclass(frozen=True, slots=True)
class Segments(RowSource):
    """Segments of lines, as tiles see them in the copy."""

    channels: int
    """Channels of a group."""
    together: int
    """How many groups are copied at a time."""
    length: int
    """Positions."""
    stride: int
    """Pixels from what a position sees to what the next one does."""
    taps: tuple[Tap, ...]
    """Along a line."""
    exact: bool
    """Whether positions see the input wherever `taps` says so."""

    @property
    def gathers(self) -> bool:
        return True

    @property
    def run(self) -> int:
        return self.length

    @property
    def numbers(self) -> tuple[str, ...]:
        steps = [f"{step}{axis}" for step in _STEPS for axis in range(2)]
        return ("a_batch", "c_batch", "b_output", "plane", "lines", *_HIGH, *_WIDE, *steps)

    def rows(self, code: TileCode) -> Rows:
        return _SegmentRows(code, self)

    def alone(self, code: TileCode) -> Rows:
        return _PositionRow(code, self)

    def outside(self, rows: Rows) -> Value | None:
        assert isinstance(rows, _SegmentRows)
        return None if self.exact else rows.f.constant(I1, 1)

    def pack(self, code: PackCode) -> None:
        f, n = code.f, code.numbers
        steps, count = (n["b_row"], n["b_output"]), f.constant(I64, self.channels)

        def pack_tap(taps: Sequence[Value], state: Sequence[Value]) -> list[Value]:
            start, (target,) = f.offset(code.source, dot(n, taps, "b_bytes")), state
            f.call(code.function, VOID, start, *steps, count, target, code.columns)
            return [f.offset(target, count * code.width)]

        each_tap(f, n, 2, [code.target], pack_tap)

    def gather(self, f: Function, element: Element, numbers: Numbers) -> Value:
        """The lines of the input that segments `first` to `last` see; a plane for each group."""
        n = numbers
        _, left, first, last, room = f.arguments
        line_bytes = n["pixels"] * (self.channels * element.nbytes)
        begin = _input_line(n, first * self.length // n["count1"])
        end = _input_line(n, (last * self.length - 1) // n["count1"]) + n["span0"]
        with f.loop(begin, end, carried=[room]) as line:
            (target,) = line.carried
            image, place = line.index // n["lines"], line.index % n["lines"] + n["first0"]
            with f.when(place.unsigned_below(n["size0"])):
                offset = image * n["a_batch"] + place * n["a_bytes0"]
                self._copy_line(f, element, n, f.offset(left, offset), target)
            line.carry(f.offset(target, line_bytes))
        return f.offset(room, -(begin * line_bytes))

    def _copy_line(
        self, f: Function, element: Element, n: Numbers, source: Value, target: Value
    ) -> None:
        """One line of the input, with zeros before and after it."""
        pixel, kind = self.channels * element.nbytes, element.stored.by(self.channels)
        planes = evenly_spaced(f, target, n["plane"], self.together)
        planes = _clear(f, kind, planes, f.constant(I64, 0), n["low"], pixel)
        start = f.offset(source, (n["first1"] + n["low"]) * n["a_bytes1"])
        with f.loop(n["low"], n["high"], carried=[start, *planes]) as loop:
            at, *places = loop.carried
            for group, place in enumerate(places):
                own = f.offset(at, group * pixel)
                f.store(f.load(kind, own, element.nbytes), place, element.nbytes)
            moved = [f.offset(place, pixel) for place in places]
            loop.carry(f.offset(at, n["a_bytes1"]), *moved)
        _clear(f, kind, loop.carried[1:], n["high"], n["pixels"], pixel)


def _clear(
    f: Function, kind: Type, places: Sequence[Value], first: Value, last: Value, pixel: int
) -> list[Value]:
    """Write zeros for some pixels of each plane; where the next ones are."""
    with f.loop(first, last, carried=list(places)) as loop:
        for place in loop.carried:
            f.store(f.constant(kind, 0), place, kind.scalar.nbytes)
        loop.carry(*[f.offset(place, pixel) for place in loop.carried])
    return loop.carried


def _input_line(n: Numbers, line: Value) -> Value:
    """The number of the first line of the input that a line of positions sees.

    Lines are counted on from one image to the next, with those outside of it that are seen.
    """
    return line // n["count0"] * n["lines"] + line % n["count0"] * n["stride0"]


class _SegmentRows:
    """What the windows at a tile's positions see in the copy."""

    def __init__(self, code: TileCode, source: Segments) -> None:
        self.code, self.source = code, source
        self.f, self.n = code.f, code.numbers
        self.length = min(source.length, code.tile.rows)
        starts = [code.start + i for i in range(0, code.tile.rows, self.length)]
        self.lines = [start // self.n["count1"] for start in starts]
        self.along = [start % self.n["count1"] for start in starts]
        self.pixel = source.channels * code.element.nbytes

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f, n = self.code, self.f, self.n
        bases, seen = self._bases(), list[Value]()
        for line in self.lines:
            seen.append(line % n["count0"] * n["stride0"] + n["first0"] + n["shift0"])
        with f.loop(0, n["taps0"], carried=[*sums, code.panel]) as loop:
            *before, panel = loop.carried
            down = loop.index * n["dilation0"]
            places = [f.offset(base, down * (n["pixels"] * self.pixel)) for base in bases]
            inside = [(line + down).unsigned_below(n["size0"]) for line in seen]
            after = self._add_lines(places, inside, panel, before)
            loop.carry(*after, f.offset(panel, self._panel_steps()[0]))
        return loop.carried[:-1]

    def _bases(self) -> list[Value]:
        """Where each segment's first position sees the first tap."""
        code, f, n = self.code, self.f, self.n
        plane = code.column // code.tile.width(code.element) * n["plane"]
        left, bases = f.offset(code.left, plane), list[Value]()
        for line, along in zip(self.lines, self.along, strict=True):
            pixels = (_input_line(n, line) + n["shift0"]) * n["pixels"]
            moved = along * self.source.stride
            bases.append(f.offset(left, (pixels + moved) * self.pixel))
        return bases

    def _panel_steps(self) -> list[Value]:
        """Bytes in the panel from one tap of each axis to the next."""
        n, rows = self.n, self.code.panel_step * self.source.channels
        return [n[f"tap_bytes{axis}"] + rows * n[f"tap_rows{axis}"] for axis in range(2)]

    def _add_lines(
        self,
        places: Sequence[Value],
        inside: Sequence[Value],
        panel: Value,
        sums: Sequence[Value],
    ) -> list[Value]:
        """The sums with the taps of one line of the window added, for segments that see it."""
        f, size, everywhere = self.f, len(sums) // len(places), inside[0]
        for other in inside[1:]:
            everywhere = everywhere & other

        def add_some() -> list[Value]:
            if len(places) == 1:
                return list(sums)
            after: list[Value] = []
            for s, (place, sees) in enumerate(zip(places, inside, strict=True)):
                own = list(sums[s * size : (s + 1) * size])
                add = partial(self._add_line, [place], panel, own)
                after += f.either(sees, add, partial(list[Value], own))
            return after

        return f.either(everywhere, lambda: self._add_line(places, panel, sums), add_some)

    def _add_line(
        self, places: Sequence[Value], panel: Value, sums: Sequence[Value]
    ) -> list[Value]:
        """The sums of some segments with the taps of one line of the window added."""
        after = list(sums)
        for tap in self.source.taps:
            after = self._add_tap(tap, places, panel, after)
            panel = self.f.offset(panel, self._panel_steps()[1])
        return after

    def _add_tap(
        self, tap: Tap, places: Sequence[Value], panel: Value, sums: Sequence[Value]
    ) -> list[Value]:
        """The sums with one tap added, channel after channel."""
        code, f, element, vectors = self.code, self.f, self.code.element, self.code.tile.vectors
        rows = [
            (segment * self.length + row, place, row * self.source.stride + tap.shift)
            for segment, place in enumerate(places)
            for row in range(tap.first, tap.last)
        ]
        with f.loop(0, self.source.channels, carried=[*sums, panel, f.constant(I64, 0)]) as loop:
            *after, panel, offset = loop.carried
            columns = [
                element.load(f, f.offset(panel, v * element.vector_bytes)) for v in range(vectors)
            ]
            for row, place, pixel in rows:
                seen = f.offset(f.offset(place, offset), pixel * self.pixel)
                factor = element.splat(f, seen)
                for i, column in enumerate(columns, row * vectors):
                    after[i] = element.multiply_add(f, factor, column, after[i])
            loop.carry(*after, f.offset(panel, code.panel_step), offset + element.nbytes)
        return loop.carried[:-2]

    def places(self, base: Value, name: str) -> list[Value]:
        del name
        f, n, found = self.f, self.n, list[Value]()
        for line, along in zip(self.lines, self.along, strict=True):
            image, place = line // n["count0"], line % n["count0"]
            offset = image * n["c_batch"] + place * n["c_bytes0"] + along * n["c_bytes1"]
            found += evenly_spaced(f, f.offset(base, offset), n["c_bytes1"], self.length)
        return found


class _PositionRow(_SegmentRows):
    """What the window at one position sees of the input itself."""

    def _add_tap(
        self, tap: Tap, places: Sequence[Value], panel: Value, sums: Sequence[Value]
    ) -> list[Value]:
        n, (along,) = self.n, self.along
        seen = along * self.source.stride + n["first1"] + tap.shift
        return self.f.either(
            seen.unsigned_below(n["size1"]),
            lambda: super(_PositionRow, self)._add_tap(Tap(tap.shift, 0, 1), places, panel, sums),
            lambda: list(sums),
        )


# ---------------------------------------------------------------------- sweeps


@dataclass(frozen=True, slots=True)
class SegmentSweep:
    """A sweep over groups of which some are copied together, by segments."""

    element: Element
    """With as many lanes as a group has outputs, where these fill half of a vector."""
    sweep: Sweep
    """Over two axes; what is copied together is one group of it."""
    source: Segments

    @property
    def vectors(self) -> int:
        """Vectors of a group's outputs."""
        return self.sweep.outputs // (self.source.together * self.element.lanes)

    def blocking(self, workers: int, panels: Panels, order: Order) -> Blocking:
        """Segments are rows; each takes as long as that many positions."""
        (high, wide), source = self.sweep.axes, self.source
        rows = self.sweep.batch * high.count * (wide.count // source.length)
        taps = self.sweep.taps * source.length
        found = cut(
            self.element,
            replace(self.sweep.extent, rows=rows, taps=taps),
            workers,
            panels=panels,
            order=order,
            wide=self.vectors,
            high=most_sums() // (self.vectors * source.length),
        )
        room = COPY_BYTES // (source.together * self._line_bytes)
        lines = max((room - _span(high)) // high.stride + 1, 1)
        segments = lines * (wide.count // source.length)
        return replace(found, chunk_tiles=max(segments // found.full.tile.rows, 1))

    @property
    def _line_bytes(self) -> int:
        """Bytes of a copied line of one group."""
        return _count_seen(self.sweep.axes[1]) * self.source.channels * self.element.nbytes

    def plane(self, blocking: Blocking) -> int:
        """Bytes of the copy of one group, for a chunk of tiles."""
        high, wide = self.sweep.axes
        in_line = wide.count // self.source.length
        segments = blocking.chunk_tiles * blocking.full.tile.rows
        lines = min((segments + in_line - 2) // in_line + 1, self.sweep.batch * high.count)
        images = (lines - 1 + high.count - 1) // high.count
        between = max(_span(high) - high.stride, 0) * images
        return whole_lines(((lines - 1) * high.stride + between + _span(high)) * self._line_bytes)

    def numbers(self, *, packed: bool, plane: int) -> dict[str, int]:
        """Numbers that compiled code reads."""
        high, wide = self.sweep.axes
        first, pixels = wide.origin + wide.reach[0], _count_seen(wide)
        low, top = (min(max(place - first, 0), pixels) for place in (0, wide.size))
        return {
            **self.sweep.numbers(packed),
            "b_column": self.sweep.b_group // self.sweep.outputs,
            "b_output": self.sweep.b_column,
            "plane": plane,
            "lines": _count_seen(high),
            "first0": high.origin + high.reach[0],
            "shift0": -high.reach[0],
            "span0": _span(high),
            "first1": first,
            "pixels": pixels,
            "low": low,
            "high": max(low, top),
        }


def _span(axis: WindowAxis) -> int:
    """How many coordinates a window sees, or passes over."""
    low, high = axis.reach
    return high - low + 1


def _count_seen(axis: WindowAxis) -> int:
    """How many coordinates all windows see, or pass over."""
    return (axis.count - 1) * axis.stride + _span(axis)


ONE_LINE: Final = WindowAxis(1, 1, 0, 1, 1, 1, 0, 0, 0)
"""The other axis of what has only one."""


def segment_element(element: Element, outputs: int) -> Element:
    """How elements are computed with: a vector is halved where a group's outputs fill half."""
    return element._replace(lanes=outputs) if 2 * outputs == element.lanes else element


def both_axes(sweep: Sweep) -> tuple[WindowAxis, WindowAxis]:
    """The axis of lines and that along them."""
    high, wide = (ONE_LINE, *sweep.axes)[-2:]
    return high, wide


def segment_length(element: Element, sweep: Sweep) -> int:
    """The most positions of a segment: lines are cut evenly, and sums stay in registers."""
    most, count = most_sums() // (sweep.outputs // element.lanes), sweep.axes[-1].count
    return max(n for n in range(1, most + 1) if count % n == 0)


def segment_sweep(element: Element, sweep: Sweep) -> SegmentSweep:
    """A sweep over groups whose outputs fill vectors, or half of one."""
    element, axes = segment_element(element, sweep.outputs), both_axes(sweep)
    length, together = segment_length(element, sweep), _together(element, sweep)
    wide = axes[1]
    source = Segments(sweep.channels, together, length, wide.stride, *_taps(wide, length))
    groups = {
        "groups": sweep.groups // together,
        "outputs": sweep.outputs * together,
        "a_group": sweep.a_group * together,
        "b_group": sweep.b_group * together,
        "c_group": sweep.c_group * together,
    }
    return SegmentSweep(element, replace(sweep, axes=axes, **groups), source)


def _together(element: Element, sweep: Sweep) -> int:
    """How many groups are copied at a time."""
    pixel = sweep.channels * element.nbytes
    follow = sweep.a_group == pixel and sweep.c_group == sweep.outputs * element.nbytes
    if not follow or sweep.b_group % sweep.outputs:
        return 1
    most = max(TOGETHER_BYTES // pixel, 1)
    return max(n for n in range(1, most + 1) if sweep.groups % n == 0)


def _taps(axis: WindowAxis, length: int) -> tuple[tuple[Tap, ...], bool]:
    """The taps of windows along segments, and whether it is known what they see of the input."""
    taps, exact = list[Tap](), True
    for tap in range(axis.taps):
        seen, shift = axis.origin + tap * axis.dilation, tap * axis.dilation - axis.reach[0]
        inside = [i for i in range(axis.count) if 0 <= seen + i * axis.stride < axis.size]
        if length == axis.count:
            taps.append(Tap(shift, inside[0], inside[-1] + 1) if inside else Tap(shift, 0, 0))
        else:
            taps.append(Tap(shift, 0, length))
            exact = exact and len(inside) == axis.count
    return tuple(taps), exact


def segment_product(
    element: Element, epilogue: TileEpilogue, sweep: Sweep, workers: int, *, prepared: bool
) -> Product:
    """A sweep over groups whose outputs fill vectors, or half of one, as a product."""
    found = segment_sweep(element, sweep)
    element, sweep = found.element, found.sweep
    order = order_of(element, sweep.b_row, sweep.b_column)
    panels = Panels.DIRECT if order is Order.ROWS else Panels.PACKED
    panels = Panels.PREPARED if prepared else panels
    blocking = found.blocking(workers, panels, order)
    group, preparation = sweep.group(element.nbytes), None
    if prepared:
        shape = sweep.taps, sweep.channels, sweep.groups, sweep.outputs
        preparation = PanelPreparation(element, blocking, *shape)
        group = group._replace(b=preparation.group_bytes)
    plane = found.plane(blocking)
    return Product(
        element,
        epilogue,
        blocking,
        panels,
        order,
        (group,),
        found.source,
        found.numbers(packed=panels is not Panels.DIRECT, plane=plane),
        rows_bytes=plane * found.source.together,
        preparation=preparation,
    )
