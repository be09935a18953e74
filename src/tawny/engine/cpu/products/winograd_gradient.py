"""The gradient of a kernel of 3 by 3 by fewer multiplications: Winograd's algorithm transposed.

Slopes s of two neighbouring outputs of one axis and the four inputs d that these see make the
slopes g of three weights:

    g0 = p0 + (p1 + p2) / 2         p0 = (d0 - d2) s0              p1 = (d1 + d2) (s0 + s1)
    g1 = (p1 - p2) / 2              p3 = (d3 - d1) s1              p2 = (d2 - d1) (s0 - s1)
    g2 = p3 + (p1 + p2) / 2

Along both axes, a square of 2 by 2 outputs takes 16 products instead of 36; summed over all squares
they are 16 products of matrices.  Inputs and slopes are transformed for some squares at a time, a
segment, and some channels and outputs: a task.  Its sums wait until all segments are done.

What one tap does not see cancels out in its slope, up to rounding.  So all taps must see most of
the positions; and where a slope is not finite, those of its channel are computed again, product by
product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel, Names, Numbers
from tawny.engine.cpu.products.blocking import whole_lines
from tawny.engine.cpu.products.correlation import Correlation
from tawny.engine.cpu.products.sharing import ceil_divide, shares
from tawny.engine.cpu.products.tile import (
    RegisterTile,
    Walk,
    accumulate,
    evenly_spaced,
    tallest,
    unusual,
    widest,
)
from tawny.engine.cpu.products.winograd import of_inputs
from tawny.engine.cpu.products.winograd_direct import POINTS, TAPS
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library

SEGMENT: Final = 64
"""The most squares of a segment, so that all that it needs stays in the second cache."""

ROWS: Final = 16
"""Channels of a task are a multiple of this, so that tiles have two heights only."""

MOST_ROWS: Final = 64

SLICES: Final = ("high", "wide")

_NUMBERS: Final = (
    "squares",
    "segments",
    "rows",
    "row_blocks",
    "blocks",
    "column_blocks",
    "channels",
    "a_plane",
    "b_plane",
    "c_plane",
    "b_at",
    "c_at",
    "slots",
    "slot_bytes",
    *[f"{axis}{kind}" for axis in SLICES for kind in ("", "_count", "_size", "_origin")],
    *[f"{array}_{axis}" for array in "abc" for axis in SLICES],
    "a_batch",
    "b_batch",
    "c_row",
)
"""`high` and `wide` count squares.  Of a task, a `plane` is the bytes of transformed inputs (a), of
transformed slopes (b) and of sums (c) of one product; `b_at` and `c_at` say where they begin.  Of
`column_blocks` the first `blocks` are as wide as whole tiles."""

_TASK: Final = {"numbers": PTR, "x": PTR, "slopes": PTR, "result": PTR, "room": PTR, "rows": I64}
_DIRECT: Final = {"numbers": PTR, "x": PTR, "slopes": PTR, "result": PTR}
_TILE: Final = {
    "left": PTR,
    "left_step": I64,
    "panel": PTR,
    "sums": PTR,
    "count": I64,
    "first": I64,
}


def winograd_gradient(element: Element, found: Correlation, workers: int) -> CompiledKernel:
    """The kernel of a gradient that suits; its operands are the input and the slopes."""
    high, wide = found.axes
    lines = ceil_divide(high.count, 2), ceil_divide(wide.count, 2)
    squares = found.batch * lines[0] * lines[1]
    segments = ceil_divide(squares, SEGMENT)
    vectors = min(widest(), found.outputs // element.lanes)
    width = vectors * element.lanes
    blocks, rest = divmod(found.outputs, width)
    columns = blocks + (rest > 0)
    rows = _rows(element, found.channels, columns, width, workers)
    most, nbytes = ceil_divide(squares, segments), element.nbytes
    planes = [n * nbytes for n in (most * rows, most * width, rows * width)]
    b_at = whole_lines(POINTS * planes[0])
    c_at = b_at + whole_lines(POINTS * planes[1])
    slot = c_at + whole_lines(POINTS * planes[2])
    numbers = {
        "squares": squares,
        "segments": segments,
        "rows": rows,
        "row_blocks": ceil_divide(found.channels, rows),
        "blocks": blocks,
        "column_blocks": columns,
        "channels": found.channels,
        **dict(zip(("a_plane", "b_plane", "c_plane"), planes, strict=True)),
        "b_at": b_at,
        "c_at": c_at,
        "slots": workers,
        "slot_bytes": slot,
        "a_batch": found.a_batch,
        "b_batch": found.b_batch,
        "c_row": found.c_row,
    }
    for name, axis, count in zip(SLICES, found.axes, lines, strict=True):
        numbers |= {
            name: count,
            f"{name}_count": axis.count,
            f"{name}_size": axis.size,
            f"{name}_origin": axis.origin,
            f"a_{name}": axis.a_bytes,
            f"b_{name}": axis.b_bytes,
            f"c_{name}": axis.c_bytes,
        }
    library = _library(element, vectors, rest // element.lanes)
    parameters = Names(_NUMBERS).values(numbers)
    return CompiledKernel(library, "kernel", parameters, workers > 1, slot * workers)


def _rows(element: Element, channels: int, columns: int, width: int, workers: int) -> int:
    """How many channels a task has: no worker should have much more to do than another.

    Beside its products a task transforms inputs and slopes, each about as long as 4 products.
    """

    def seconds(rows: int) -> int:
        tasks = ceil_divide(channels, rows) * columns
        products = POINTS * rows * width // element.lanes
        transformed = 4 * POINTS * (rows + width) // element.lanes
        return ceil_divide(tasks, workers) * (products + transformed)

    return min(range(MOST_ROWS, 0, -ROWS), key=seconds)


# -------------------------------------------------------------------- the kernel


@lazy_library
def _library(module: Module, element: Element, vectors: int, rest: int) -> None:
    """The code for blocks of columns `vectors` wide, and for the `rest` of the columns."""
    module.zeros("zeros", MOST_ROWS * element.nbytes + widest() * element.vector_bytes)
    for number in sorted({vectors, rest or vectors}):
        for rows in (tallest(widest()), tallest(widest()) - 1):
            _declare_tile(module, element, RegisterTile(rows, number))
        _declare_direct(module, element, number)
        with module.function(f"task{number}", _TASK, internal=True, attributes="noinline") as f:
            _GradientTaskWriter(f, element, number).write()
    with module.function("kernel", KERNEL) as f:
        row, worker, workers = f.arguments
        x, slopes, result, scratch = (f.cell(row, i, PTR) for i in range(4))
        n = Numbers(f, Names(_NUMBERS), f.element(row, 4, I64))
        room = f.offset(scratch, worker * n["slot_bytes"])
        tasks = n["row_blocks"] * n["column_blocks"]
        first, last = shares(f, tasks, worker, f.minimum(workers, n["slots"]))
        with f.loop(first, last) as task:
            block = task.index % n["column_blocks"]
            channel = task.index // n["column_blocks"] * n["rows"]
            count = f.minimum(n["rows"], n["channels"] - channel)
            column = block * (vectors * element.vector_bytes)
            offset = channel * element.nbytes
            given = (
                n.address,
                f.offset(x, offset),
                f.offset(slopes, column),
                f.offset(result, channel * n["c_row"] + column),
                room,
                count,
            )
            whole = block < n["blocks"]
            with f.when(whole):
                f.call(f"task{vectors}", VOID, *given)
            if rest:
                with f.when(block >= n["blocks"]):
                    f.call(f"task{rest}", VOID, *given)


def _declare_tile(module: Module, element: Element, tile: RegisterTile) -> None:
    """A function that adds to a tile's sums the products of a segment, or begins with them."""
    name = f"tile{tile.rows}_{tile.vectors}"
    with module.function(name, _TILE, internal=True, attributes="noinline") as f:
        left, left_step, panel, sums, count, first = f.arguments
        width = tile.width(element)
        places = [
            f.offset(sums, row * width + v * element.vector_bytes)
            for row in range(tile.rows)
            for v in range(tile.vectors)
        ]
        before = f.either(
            first.differs(0),
            lambda: [element.zero(f)] * len(places),
            lambda: [element.load(f, place) for place in places],
        )
        unit, step = f.constant(I64, element.nbytes), f.constant(I64, width)
        rows = evenly_spaced(f, left, unit, tile.rows)
        walk = Walk(rows, left_step, panel, step, count, f.constant(I64, 0))
        masks = [None] * tile.vectors
        for value, place in zip(
            accumulate(f, element, tile, before, walk, masks), places, strict=True
        ):
            element.store(f, value, place)


def _declare_direct(module: Module, element: Element, vectors: int) -> None:
    """A function that makes the slopes of a channel from the positions that each tap sees."""
    with module.function(f"direct{vectors}", _DIRECT, internal=True, attributes="noinline") as f:
        numbers, x, slopes, result = f.arguments
        n, tile, zero = (
            Numbers(f, Names(_NUMBERS), numbers),
            RegisterTile(1, vectors),
            f.constant(I64, 0),
        )
        with f.loop(0, TAPS) as tap:
            places = tap.index // 3, tap.index % 3
            ranges: list[tuple[Value, Value, Value]] = []
            for axis, place in zip(SLICES, places, strict=True):
                first = n[f"{axis}_origin"] + place
                low = f.maximum(-first, 0)
                high = f.minimum(n[f"{axis}_size"] - first, n[f"{axis}_count"])
                ranges.append((first, low, f.maximum(high, low)))
            (top, begin, end), (side, low, high) = ranges
            lines = end - begin
            batch = n["squares"] // (n["high"] * n["wide"])
            sums = [element.zero(f)] * vectors
            with f.loop(0, batch * lines, carried=sums) as line:
                image, y = line.index // lines, begin + line.index % lines
                seen = image * n["a_batch"] + (top + y) * n["a_high"] + (side + low) * n["a_wide"]
                met = image * n["b_batch"] + y * n["b_high"] + low * n["b_wide"]
                panel = f.offset(slopes, met), n["b_wide"], high - low, zero
                walk = Walk([f.offset(x, seen)], n["a_wide"], *panel)
                masks = [None] * vectors
                line.carry(*accumulate(f, element, tile, line.carried, walk, masks))
            place = f.offset(result, n["c_high"] * places[0] + n["c_wide"] * places[1])
            for v, total in enumerate(line.carried):
                element.store(f, total, f.offset(place, v * element.vector_bytes))


@dataclass(frozen=True, slots=True)
class _Segment:
    """Some squares."""

    first: Value
    last: Value


class _GradientTaskWriter:
    """Writes the slopes of some channels' weights for a block of outputs some vectors wide."""

    def __init__(self, f: Function, element: Element, vectors: int) -> None:
        self.f, self.element, self.vectors = f, element, vectors
        numbers, self.x, self.slopes, self.result, self.room, self.rows = f.arguments
        self.n = Numbers(f, Names(_NUMBERS), numbers)
        self.width = vectors * element.vector_bytes
        self.row_bytes = self.rows * element.nbytes
        self.zeros = f.global_address("zeros")

    def write(self) -> None:
        """All segments, then what their sums make."""
        f, n = self.f, self.n
        with f.loop(0, n["segments"]) as loop:
            first, last = (n["squares"] * i // n["segments"] for i in (loop.index, loop.index + 1))
            segment = _Segment(first, last)
            self._transform_inputs(segment)
            self._transform_slopes(segment)
            begins = f.select(loop.index.equals(0), f.constant(I64, 1), 0)
            with f.loop(0, POINTS) as point:
                self._multiply(point.index, last - first, begins)
        self._finish()

    def _place(self, name: str, point: Value | int) -> Value:
        """Where a product has its inputs, slopes or sums."""
        offset = self.n[f"{name}_plane"] * point
        if name != "a":
            offset = offset + self.n[f"{name}_at"]
        return self.f.offset(self.room, offset)

    # ---------------------------------------------------------- transformations

    def _transform_inputs(self, segment: _Segment) -> None:
        f, n, element = self.f, self.n, self.element
        targets = [self._place("a", point) for point in range(POINTS)]
        with f.loop(segment.first, segment.last, carried=[f.constant(I64, 0)]) as square:
            (offset,) = square.carried
            origins = n["high_origin"], n["wide_origin"]
            seen = self._places_seen(square.index, 4, "a", self.x, origins, "size")
            with f.loop(0, self.row_bytes, element.vector_bytes) as channel:
                lines = [
                    [element.load(f, f.offset(place, channel.index)) for place in line]
                    for line in seen
                ]
                across = [of_inputs(line) for line in lines]
                down = [of_inputs([line[x] for line in across]) for x in range(4)]
                for point, target in enumerate(targets):
                    place = f.offset(target, offset + channel.index)
                    element.store(f, down[point % 4][point // 4], place)
            square.carry(offset + self.row_bytes)

    def _transform_slopes(self, segment: _Segment) -> None:
        f, element, zero = self.f, self.element, self.f.constant(I64, 0)
        targets = [self._place("b", point) for point in range(POINTS)]
        with f.loop(segment.first, segment.last, carried=[zero]) as square:
            (offset,) = square.carried
            seen = self._places_seen(square.index, 2, "b", self.slopes, (zero, zero), "count")
            for v in range(self.vectors):
                shift = v * element.vector_bytes
                lines = [
                    [element.load(f, f.offset(place, shift)) for place in line] for line in seen
                ]
                across = [_of_slopes(line) for line in lines]
                down = [_of_slopes([line[x] for line in across]) for x in range(4)]
                for point, target in enumerate(targets):
                    place = f.offset(target, offset + shift)
                    element.store(f, down[point % 4][point // 4], place)
            square.carry(offset + self.width)

    def _places_seen(
        self,
        square: Value,
        side: int,
        array: str,
        start: Value,
        origins: tuple[Value, Value],
        limit: str,
    ) -> list[list[Value]]:
        """Addresses of the places of a square in an array; zeros for those outside."""
        f, n = self.f, self.n
        line = square // n["wide"]
        batch, y, x = line // n["high"], line % n["high"], square % n["wide"]
        base = f.offset(start, batch * n[f"{array}_batch"])
        places: list[list[Value]] = []
        for down in range(side):
            high = y * 2 + origins[0] + down
            places.append([])
            for along in range(side):
                wide = x * 2 + origins[1] + along
                inside = high.unsigned_below(n[f"high_{limit}"])
                inside = inside & wide.unsigned_below(n[f"wide_{limit}"])
                offset = high * n[f"{array}_high"] + wide * n[f"{array}_wide"]
                places[-1].append(f.select(inside, f.offset(base, offset), self.zeros))
        return places

    # ----------------------------------------------------------------- products

    def _multiply(self, point: Value, count: Value, begins: Value) -> None:
        """One of the 16 products of a segment: tiles of two heights."""
        f, height = self.f, tallest(widest())
        left, panel, sums = (self._place(name, point) for name in "abc")
        tiles = (self.rows + (height - 1)) // height
        tall = self.rows - tiles * (height - 1)
        for rows, begin, end in (
            (height, f.constant(I64, 0), tall),
            (height - 1, tall, tiles),
        ):
            with f.loop(begin, end) as tile:
                start = tile.index * rows + (tall if rows < height else 0)
                given = (
                    f.offset(left, start * self.element.nbytes),
                    self.row_bytes,
                    panel,
                    f.offset(sums, start * self.width),
                    count,
                    begins,
                )
                f.call(f"tile{rows}_{self.vectors}", VOID, *given)

    def _finish(self) -> None:
        """The slopes of the weights from the sums of all products."""
        f, n, element = self.f, self.n, self.element
        planes = [self._place("c", point) for point in range(POINTS)]
        with f.loop(0, self.rows) as row:
            made = list[Value]()
            for v in range(self.vectors):
                offset = row.index * self.width + v * element.vector_bytes
                sums = [element.load(f, f.offset(plane, offset)) for plane in planes]
                across = [_of_products(sums[4 * y : 4 * y + 4]) for y in range(4)]
                down = [_of_products([line[x] for line in across]) for x in range(3)]
                to = row.index * n["c_row"] + v * element.vector_bytes
                place = f.offset(self.result, to)
                for y in range(3):
                    for x in range(3):
                        tap = f.offset(place, n["c_high"] * y + n["c_wide"] * x)
                        element.store(f, down[x][y], tap)
                made += [value for line in down for value in line]
            with f.when(unusual(f, made)):
                own = f.offset(self.x, row.index * element.nbytes)
                place = f.offset(self.result, row.index * n["c_row"])
                f.call(f"direct{self.vectors}", VOID, n.address, own, self.slopes, place)


def _of_slopes(s: Sequence[Value]) -> list[Value]:
    return [s[0], s[0] + s[1], s[0] - s[1], -s[1]]


def _of_products(p: Sequence[Value]) -> list[Value]:
    half, other = (p[1] + p[2]) * 0.5, (p[1] - p[2]) * 0.5
    return [p[0] + half, other, p[3] + half]
