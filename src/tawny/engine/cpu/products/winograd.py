"""Convolutions with windows of 3 by 3 by fewer multiplications: Winograd's algorithm F(2, 3).

Two neighbouring outputs y of one axis see four inputs d through three weights g:

    y0 = m0 + m1 + m2       m0 = (d0 - d2) g0                 m1 = (d1 + d2) (g0 + g1 + g2) / 2
    y1 = m1 - m2 - m3       m3 = (d1 - d3) g2                 m2 = (d2 - d1) (g0 - g1 + g2) / 2

Along both axes, a square of 2 by 2 outputs takes 16 products instead of 36; summed over channels
they are 16 products of matrices.  Inputs are transformed for some squares at a time, kernels when
their panels are packed.  Each output is made from what its own window sees alone.

Sums and differences of infinite numbers are NaN, and a NaN among the weights would reach what sees
only padding through it.  So where an output is not finite, its square is computed again, product by
product; and a panel with such weights keeps them as they are.

A transformed kernel has 16 numbers for 9: it is read from memory longer than the kernel, and a
second copy.  So it is made in every run, for some columns at a time, while those that come next are
fetched; but before the run where the panels of all workers would take more than that copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import Numbers
from tawny.engine.cpu.products.blocking import Blocking, Extent, Panels, cut, whole_lines
from tawny.engine.cpu.products.epilogue import EpilogueCode, TileEpilogue
from tawny.engine.cpu.products.geometry import Sweep
from tawny.engine.cpu.products.packing import Order, order_of
from tawny.engine.cpu.products.product import Product, packed_before
from tawny.engine.cpu.products.sharing import ceil_divide
from tawny.engine.cpu.products.tile import (
    SECOND_CACHE,
    Walk,
    accumulate,
    evenly_spaced,
    prefetch,
    unusual,
)
from tawny.engine.cpu.products.tile_code import (
    FinishCode,
    PackCode,
    Rows,
    RowSource,
    TileCode,
    numbers_at,
    zeros,
)
from tawny.engine.cpu.products.windows import WindowAxis
from tawny.engine.cpu.products.winograd_direct import (
    DIRECT,
    DIRECT_ARGUMENTS,
    MOST_CHANNELS,
    POINTS,
    TAPS,
    DirectWriter,
    position,
)
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Value

ROOM_BYTES: Final = 2**18
LEAST_TILES: Final = 4
"""Transformed inputs and products of some squares should stay in the second cache: this many
bytes, but not fewer tiles, since each reads the transformed kernel again."""

PANELS_BYTES: Final = 2**20
"""Transformed kernels are made for as many columns at a time as this holds, at least one panel."""

SLICE_BYTES: Final = 2**19
SLICED_ROOM: Final = 2**19
"""A panel should stay in the second cache, too: it is made for slices of some channels, if all that
is kept of inputs and sums has at most `SLICED_ROOM` bytes."""

APART: Final = 1
"""Rows left free between the matrices of a panel: a row of each is written at a time, and the
places of rows that are a power of two apart would be the same in the caches."""

AHEAD: Final = 16
"""Channels of the kernel are fetched this many channels before they are transformed."""

_NUMBERS: Final = (
    "channels",
    "plane",
    "high",
    "wide",
    "high_count",
    "wide_count",
    "high_size",
    "wide_size",
    "high_origin",
    "wide_origin",
    "a_batch",
    "a_high",
    "a_wide",
    "b_high",
    "b_wide",
    "c_batch",
    "c_high",
    "c_wide",
    "r_batch",
    "r_high",
    "r_wide",
)
"""`high` and `wide` count squares; a `plane` is the bytes between transformed inputs."""


def winograd_product(
    element: Element,
    epilogue: TileEpilogue,
    sweep: Sweep,
    workers: int,
    *,
    known: bool = False,
    prepared: bool = False,
) -> Product:
    """A sweep that suits as a product.

    A kernel that is `known` is transformed before the run where that takes less memory, with
    `prepared` in any case.
    """
    sweep = _walk_ahead(sweep)
    squares = [ceil_divide(axis.count, 2) for axis in sweep.axes]
    extent = Extent(sweep.batch * math.prod(squares), sweep.outputs, sweep.channels, POINTS)
    blocking = _blocking(element, extent, workers)
    product = _product(element, epilogue, sweep, *_cut_slices(element, extent, blocking))
    copy = blocking.prepared_bytes(element, POINTS * (sweep.channels + APART))
    if prepared or (known and workers * product.room.packed > copy):
        return packed_before(_product(element, epilogue, sweep, blocking, 1), _PACKED_BY)
    return product


_PACKED_BY: Final = frozenset({"channels", "taps", "b_row", "b_column", "b_high", "b_wide"})
"""The numbers that `Squares.pack` reads."""


def _product(
    element: Element, epilogue: TileEpilogue, sweep: Sweep, blocking: Blocking, slices: int
) -> Product:
    """A product whose kernel is transformed in every run, `slices` one after another."""
    high, wide = sweep.axes
    channels = sweep.channels // slices
    strips = [strip for strip in (blocking.full, blocking.tail) if strip is not None]
    rows = max(strip.tile.rows * min(strip.tiles, blocking.chunk_tiles) for strip in strips)
    plane = whole_lines(rows * channels * element.nbytes)
    numbers = {
        "slices": slices,
        "slice_a": channels * element.nbytes,
        "slice_b": channels * sweep.b_row,
        "depth": POINTS,
        "taps": channels + APART,
        "b_start": sweep.b_start,
        "c_start": sweep.c_start,
        "b_row": sweep.b_row,
        "b_column": sweep.b_column,
        "b_depth": 0,
        "channels": channels,
        "plane": plane,
        "high": ceil_divide(high.count, 2),
        "wide": ceil_divide(wide.count, 2),
        "a_batch": sweep.a_batch,
        "c_batch": sweep.c_batch,
        "r_batch": sweep.r_batch,
    }
    for name, axis in (("high", high), ("wide", wide)):
        numbers |= {
            f"{name}_count": axis.count,
            f"{name}_size": axis.size,
            f"{name}_origin": axis.origin,
            f"a_{name}": axis.a_bytes,
            f"b_{name}": axis.b_bytes,
            f"c_{name}": axis.c_bytes,
            f"r_{name}": axis.r_bytes,
        }
    return Product(
        element,
        epilogue,
        blocking,
        Panels.PACKED,
        order_of(element, sweep.b_row, sweep.b_column),
        (),
        Squares(),
        numbers,
        rows_bytes=POINTS * plane,
    )


def _walk_ahead(sweep: Sweep) -> Sweep:
    """A sweep whose windows are walked ahead along each axis."""
    axes, start = list[WindowAxis](), sweep.b_start
    for axis in sweep.axes:
        if axis.dilation > 0:
            axes.append(axis)
            continue
        far = axis.taps - 1
        start += far * axis.b_bytes
        turned = {"dilation": -axis.dilation, "b_bytes": -axis.b_bytes}
        axes.append(replace(axis, origin=axis.origin + far * axis.dilation, **turned))
    return replace(sweep, axes=tuple(axes), b_start=start)


def _blocking(element: Element, extent: Extent, workers: int) -> Blocking:
    """Blocks of the common axis are the products of matrices, each with sums of its own."""
    found = cut(element, extent, workers, panels=Panels.PACKED)
    width = found.full.tile.width(element)
    row = POINTS * (extent.depth * element.nbytes + width)
    blocks = min(found.chunk_blocks, max(PANELS_BYTES // (POINTS * extent.depth * width), 1))
    return replace(
        found,
        depth_blocks=POINTS,
        chunks=max(ceil_divide(found.blocks, blocks), 1),
        chunk_blocks=blocks,
        chunk_tiles=max(ROOM_BYTES // (row * found.full.tile.rows), LEAST_TILES),
        sets=POINTS,
    )


def _cut_slices(element: Element, extent: Extent, blocking: Blocking) -> tuple[Blocking, int]:
    """A blocking that transforms the kernel in slices of some channels, and how many.

    That is for few rows and many channels: sums of all tiles wait for the next slice.
    """
    tile, tiles = blocking.full.tile, blocking.full.tiles
    if blocking.tail is not None or blocking.parts > 1 or blocking.chunk_blocks > 1:
        return blocking, 1
    panel = POINTS * extent.depth * tile.width(element)
    cuts = range(1, extent.depth // element.lanes + 1)
    possible = [n for n in cuts if extent.depth % (n * element.lanes) == 0]
    slices = next((n for n in possible if panel <= n * SLICE_BYTES), possible[-1])
    row = POINTS * (extent.depth // slices * element.nbytes + tile.width(element))
    if tiles * tile.rows * row > SLICED_ROOM:
        return blocking, 1
    return replace(blocking, chunk_tiles=tiles), slices


@dataclass(frozen=True, slots=True)
class Squares(RowSource):
    """Squares of outputs."""

    @property
    def gathers(self) -> bool:
        return True

    @property
    def numbers(self) -> tuple[str, ...]:
        return _NUMBERS

    def rows(self, code: TileCode) -> Rows:
        raise AssertionError("tiles of squares are gathered")

    # ------------------------------------------------------------------ kernels

    def pack(self, code: PackCode) -> None:
        """The transformed kernel: 16 matrices, one after another."""
        f = code.f
        ordered = code.order is Order.ROWS
        with f.when(unusual(f, self._pack_rows(code) if ordered else self._pack_turned(code))):
            self._pack_plainly(code)

    def _pack_rows(self, code: PackCode) -> list[Value]:
        """The transformed kernel, channel by channel; sums of all weights of some columns."""
        f, n, none = code.f, code.numbers, [code.element.zero(code.f)] * code.tile.vectors
        with f.loop(0, n["channels"], carried=[code.source, code.target, *none]) as channel:
            source, target, *sums = channel.carried
            taps = [self._tap(code, source, tap) for tap in range(TAPS)]
            self._fetch_later(code, taps)
            sums = self._transform_row(code, taps, target, sums)
            moved = f.offset(source, n["b_row"]), f.offset(target, code.width)
            channel.carry(*moved, *sums)
        return channel.carried[2:]

    def _pack_turned(self, code: PackCode) -> list[Value]:
        """The transformed kernel where its columns lie in rows: some channels at a time."""
        f, n, none = code.f, code.numbers, [code.element.zero(code.f)] * code.tile.vectors
        lanes, square = code.element.lanes, code.element.lanes * code.width
        room, state = f.stack_buffer(TAPS * square), [code.source, code.target, *none]
        with f.loop(0, n["channels"], lanes, carried=state) as some:
            source, target, *before = some.carried
            copies = [f.offset(room, tap * square) for tap in range(TAPS)]
            for tap, copy in enumerate(copies):
                code.rows(self._tap(code, source, tap), f.constant(I64, lanes), copy)
            with f.loop(0, square, code.width, carried=before) as row:
                taps, own = [f.offset(copy, row.index) for copy in copies], row.carried
                row.carry(*self._transform_row(code, taps, f.offset(target, row.index), own))
            moved = f.offset(source, n["b_row"] * lanes), f.offset(target, square)
            some.carry(*moved, *row.carried)
        return some.carried[2:]

    def _pack_plainly(self, code: PackCode) -> None:
        """The kernel as it is: a matrix for each tap, and NaN at the last point to tell of it."""
        f, n, element = code.f, code.numbers, code.element
        plane = n["taps"] * code.width
        with f.loop(0, TAPS) as tap:
            source, target = self._tap(code, code.source, tap.index), plane * tap.index
            code.rows(source, n["channels"], f.offset(code.target, target))
        mark = f.offset(code.target, plane * (POINTS - 1))
        for v in range(code.tile.vectors):
            place = f.offset(mark, v * element.vector_bytes)
            element.store(f, f.constant(element.vector, math.nan), place)

    def _fetch_later(self, code: PackCode, taps: Sequence[Value]) -> None:
        """Fetch what taps have for a channel that is transformed later."""
        f, later = code.f, code.numbers["b_row"] * AHEAD
        for tap in taps:
            for v in range(code.tile.vectors):
                place = f.offset(tap, v * code.element.vector_bytes)
                prefetch(f, f.offset(place, later), SECOND_CACHE)

    def _transform_row(
        self, code: PackCode, taps: Sequence[Value], target: Value, sums: Sequence[Value]
    ) -> list[Value]:
        """One row of all 16 matrices, from what each tap has for a channel.

        Sums with what has a part of all taps added: they are finite only if all weights are.
        """
        f, element = code.f, code.element
        plane, added = code.numbers["taps"] * code.width, list[Value]()
        for v in range(code.tile.vectors):
            offset = v * element.vector_bytes
            weights = [element.load(f, f.offset(tap, offset)) for tap in taps]
            across = [_of_weights(weights[y : y + 3]) for y in range(0, TAPS, 3)]
            down = [_of_weights([row[x] for row in across]) for x in range(4)]
            for point in range(POINTS):
                y, x = divmod(point, 4)
                matrix = f.offset(target, plane * point)
                element.store(f, down[x][y], f.offset(matrix, offset))
            added.append(sums[v] + down[1][1])
        return added

    def _tap(self, code: PackCode | TileCode, place: Value, tap: int | Value) -> Value:
        """A tap of the kernel, from where its first one is."""
        y, x, n = tap // 3, tap % 3, code.numbers
        return code.f.offset(place, n["b_high"] * y + n["b_wide"] * x)

    # ------------------------------------------------------------------- inputs

    def gather(self, f: Function, element: Element, numbers: Numbers) -> Value:
        """The transformed inputs of squares `first` to `last`: 16 matrices of a row for each."""
        _, left, first, last, room = f.arguments
        n, row = numbers, numbers["channels"] * element.nbytes
        with f.loop(first, last, carried=[room]) as square:
            (target,) = square.carried
            outside = zeros(f, MOST_CHANNELS * element.nbytes)
            places = self._places_seen(f, n, left, square.index, outside)
            with f.loop(0, row, element.vector_bytes) as channel:
                seen = [
                    [element.load(f, f.offset(place, channel.index)) for place in line]
                    for line in places
                ]
                across = [of_inputs(line) for line in seen]
                down = [of_inputs([line[x] for line in across]) for x in range(4)]
                for point in range(POINTS):
                    y, x = divmod(point, 4)
                    place = f.offset(target, n["plane"] * point)
                    element.store(f, down[x][y], f.offset(place, channel.index))
            square.carry(f.offset(target, row))
        return f.offset(room, -(first * row))

    def _places_seen(
        self, f: Function, n: Numbers, left: Value, square: Value, outside: Value
    ) -> list[list[Value]]:
        """Addresses of the 4 by 4 places that a square sees, or of what those outside see."""
        batch, y, x = position(n, square)
        base = f.offset(left, batch * n["a_batch"])
        places = list[list[Value]]()
        for down in range(4):
            high = y * 2 + n["high_origin"] + down
            line = f.offset(base, high * n["a_high"])
            places.append([])
            for along in range(4):
                wide = x * 2 + n["wide_origin"] + along
                inside = high.unsigned_below(n["high_size"]) & wide.unsigned_below(n["wide_size"])
                place = f.offset(line, wide * n["a_wide"])
                places[-1].append(f.select(inside, place, outside))
        return places

    # -------------------------------------------------------------------- tiles

    @property
    def finishes(self) -> bool:
        return True

    def tile(self, code: TileCode) -> None:
        """One of the 16 products for some squares."""
        f, n, element, tile = code.f, code.numbers, code.element, code.tile
        row, point = n["channels"] * element.nbytes, code.lower
        first = f.offset(code.left, point * n["plane"] + code.start * row)
        rows = evenly_spaced(f, first, row, tile.rows)
        unit, count = f.constant(I64, element.nbytes), tile.rows * tile.vectors
        panel = code.panel, code.panel_step
        walk = Walk(rows, unit, *panel, n["channels"], code.ahead, fetched=self._fetch_place(code))
        further = point * (count * element.sum_bytes)
        sums = accumulate(f, element, tile, code.first_sums(further), walk, code.masks)
        code.keep(sums, f.offset(code.after, further))

    def _fetch_place(self, code: TileCode) -> tuple[Value, Value]:
        """What is fetched during a product: a tap of what is packed next, or the next panel."""
        f, n, point = code.f, code.numbers, code.lower
        packs = (point < TAPS) & code.fetch.differs(f.constant(PTR, 0))
        place = f.select(
            packs, self._tap(code, code.fetch, point), f.offset(code.panel, code.ahead)
        )
        return place, f.select(packs, n["b_row"], code.panel_step)

    def finish(self, code: FinishCode) -> None:
        """The outputs of a tile's squares from their 16 products."""
        f, n, element, vectors = code.f, code.numbers, code.element, code.vectors
        finish = EpilogueCode(f, element, code.epilogue, code.masks)
        affine = finish.affine(code.bias, code.scale)
        nbytes = element.sum_bytes
        row, plane = vectors * nbytes, code.rows * (vectors * nbytes)
        with f.loop(0, code.rows) as loop:
            place = f.offset(code.sums, loop.index * row)
            places = evenly_spaced(f, place, plane, POINTS)
            outputs: list[list[list[Value]]] = []
            for v in range(vectors):
                products = [f.load(element.vector, f.offset(p, v * nbytes), nbytes) for p in places]
                across = [_of_products(products[4 * y : 4 * y + 4]) for y in range(4)]
                outputs.append([_of_products([line[x] for line in across]) for x in range(2)])
            square = code.start + loop.index
            outputs = self._recompute_unless_finite(code, square, outputs)
            batch, y, x = position(n, square)
            for down in range(2):
                for along in range(2):
                    high, wide = y * 2 + down, x * 2 + along
                    with f.when((high < n["high_count"]) & (wide < n["wide_count"])):
                        residual, pixel = None, (batch, high, wide)
                        if code.epilogue.parts.residual:
                            residual = _place(code, code.residual, "r", pixel)
                        values = [output[along][down] for output in outputs]
                        finish.row(values, affine, _place(code, code.result, "c", pixel), residual)

    def _recompute_unless_finite(
        self, code: FinishCode, square: Value, outputs: Sequence[Sequence[Sequence[Value]]]
    ) -> list[list[list[Value]]]:
        """The outputs of a square, computed again where one of them is not finite."""
        f, element = code.f, code.element
        flat = [value for vector in outputs for line in vector for value in line]
        nbytes = element.sum_bytes
        if f.module.first_time(DIRECT):
            with f.module.function(
                DIRECT, DIRECT_ARGUMENTS, internal=True, attributes="noinline"
            ) as own:
                DirectWriter(
                    own, element, code.vectors, numbers_at(self, own, own.arguments[0])
                ).write()

        def again() -> list[Value]:
            room, lie = (
                f.stack_buffer(len(flat) * nbytes),
                (code.ungathered, code.unpacked, code.packed),
            )
            f.call(DIRECT, VOID, code.numbers.address, *lie, code.columns, square, room)
            # The room has an output after another, each with all vectors.
            order = [
                (2 * down + along) * code.vectors + v
                for v in range(code.vectors)
                for along in range(2)
                for down in range(2)
            ]
            return [f.load(element.vector, f.offset(room, i * nbytes), nbytes) for i in order]

        found = iter(f.either(unusual(f, flat), again, lambda: flat))
        return [[[next(found) for _ in range(2)] for _ in range(2)] for _ in range(code.vectors)]


def of_inputs(d: Sequence[Value]) -> list[Value]:
    """What four neighbouring inputs are multiplied as."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _of_weights(g: Sequence[Value]) -> list[Value]:
    ends = (g[0] + g[2]) * 0.5
    middle = g[1] * 0.5
    return [g[0], ends + middle, ends - middle, g[2]]


def _of_products(m: Sequence[Value]) -> list[Value]:
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def _place(code: FinishCode, base: Value, array: str, pixel: tuple[Value, Value, Value]) -> Value:
    """Where a pixel lies in an array: its batch, and its places along both axes."""
    batch, high, wide = pixel
    steps = [code.numbers[f"{array}_{name}"] for name in ("batch", "high", "wide")]
    return code.f.offset(base, batch * steps[0] + high * steps[1] + wide * steps[2])
