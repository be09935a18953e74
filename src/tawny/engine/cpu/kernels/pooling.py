"""Pooling over windows of up to three spatial axes, channels last: vectors of channels.

Forward kernels share the windows among the workers, row by row.  Backward kernels share images and
vectors of channels, so that what overlapping windows add up is added by one worker, in one order.
Code knows small windows, and walks those that lie inside of the array without loops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import product
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.workshare import nest, worker_share
from tawny.engine.llvm.ir.builder import I1, I64, PTR, Function, Module, Type, Value, integer_of
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.shape import Shape, size

SHARED_ELEMENTS: Final = 1 << 14
"""Elements from which threads share the work; see `workshare`."""

MOST_PLACES: Final = 16
"""Larger windows are walked by loops."""

RANK: Final = 3
BLOCK: Final = 4
"""Vectors of channels that are folded at once."""


class PoolingKind(Enum):
    """Kernels of pooling."""

    MAX = "max"
    MEAN = "mean"
    MAX_SELECT = "elements of another array where the maxima are"
    MAX_GRADIENT = "gradient of max"
    MEAN_GRADIENT = "gradient of mean"


class PoolingGeometry(NamedTuple):
    """Windows over an array of shape (batch, *sizes, channels), for up to three spatial axes."""

    batch: int
    channels: int
    sizes: Shape
    counts: Shape
    """How many windows there are along each axis."""
    window: Shape
    strides: Shape
    before: Shape
    """Padding before the first element of each axis."""

    @property
    def tiling(self) -> bool:
        """Whether each element is seen by one window."""
        whole = [n * w for n, w in zip(self.counts, self.window, strict=True)]
        return self.strides == self.window and not any(self.before) and tuple(whole) == self.sizes


class WindowVariant(NamedTuple):
    """The windows as far as the code of a kernel knows them."""

    window: Shape | None
    """The window, if it is small."""
    tiling: bool
    """Whether each element is seen by one window, in a backward kernel: nothing is added up."""


def pooling_kernel(
    kind: PoolingKind, geometry: PoolingGeometry, element: Element, operands: Sequence[ArrayLayout]
) -> CompiledKernel | None:
    """The kernel; None where channels are not neighbours.

    Of integers and truths there is the greatest alone.
    """
    if any(m.shape[-1] > 1 and m.strides[-1] != element.nbytes for m in operands):
        return None
    parameters = [geometry.batch, geometry.channels]
    for sizes, fill in zip(geometry[2:], (1, 1, 1, 1, 0), strict=True):
        parameters += _three(sizes, fill)
    for operand in operands:
        parameters += [operand.strides[0], *_three(operand.strides[1:-1], 0)]
    shared = size(operands[0].shape) > SHARED_ELEMENTS
    unsigned = operands[0].dtype.kind in "ub"
    library = _library(kind, element, _window_variant(kind, geometry), unsigned)
    return CompiledKernel(library, "pool", tuple(parameters), shared, 0)


def _window_variant(kind: PoolingKind, geometry: PoolingGeometry) -> WindowVariant:
    """What a kernel's code knows of the windows."""
    small = size(geometry.window) <= MOST_PLACES and kind is not PoolingKind.MAX_SELECT
    window = tuple(_three(geometry.window, 1)) if small else None
    forward = kind in {PoolingKind.MAX, PoolingKind.MAX_SELECT, PoolingKind.MEAN}
    return WindowVariant(window, geometry.tiling and small and not forward)


def _three(sizes: Sequence[int], fill: int) -> list[int]:
    """With axes in front, up to three."""
    return [*[fill] * (RANK - len(sizes)), *sizes]


@lazy_library
def _library(
    module: Module, kind: PoolingKind, element: Element, walk: WindowVariant, unsigned: bool
) -> None:
    with module.function("pool", KERNEL) as f:
        row, worker, workers = f.arguments
        operands = 2 if kind in {PoolingKind.MAX_GRADIENT, PoolingKind.MAX_SELECT} else 1
        pool = _PoolingWriter(f, element, row, operands, unsigned)
        if kind is PoolingKind.MAX_SELECT:
            pool.select(worker, workers)
        elif kind in {PoolingKind.MAX, PoolingKind.MEAN}:
            pool.forward(kind, walk.window, worker, workers)
        else:
            pool.backward(kind, walk, worker, workers)


def _dot(f: Function, place: Sequence[int], steps: Sequence[Value]) -> Value:
    """Bytes to a place of a window."""
    offset = f.constant(I64, 0)
    for index, step in zip(place, steps, strict=True):
        offset = offset + step * index
    return offset


# ------------------------------------------------------------------- the kernel


class _Column(NamedTuple):
    """A vector of channels of one image, and which of its lanes are used."""

    image: Value
    channel: Value
    mask: Value


class _PoolingWriter:
    """A kernel being written: the row's cells and what is made from them."""

    def __init__(
        self, f: Function, element: Element, row: Value, operands: int, unsigned: bool
    ) -> None:
        self.f, self.element, self._unsigned = f, element, unsigned
        self._row, self._next = row, 0
        *self.operands, self.result = [self._cell(PTR) for _ in range(operands + 1)]
        self.batch, self.channels = self._cells(2)
        self.sizes, self.counts, self.window, self.strides, self.before = (
            self._cells(RANK) for _ in range(5)
        )
        self.steps = [self._cells(1 + RANK) for _ in range(operands)]

    def _cell(self, type: Type = I64) -> Value:
        self._next += 1
        return self.f.cell(self._row, self._next - 1, type)

    def _cells(self, count: int) -> list[Value]:
        return [self._cell() for _ in range(count)]

    # ------------------------------------------------------------------- places

    def at(self, operand: int, image: Value, places: Sequence[Value], channel: Value) -> Value:
        """An address in an operand."""
        offset = channel * self.element.nbytes
        for index, step in zip([image, *places], self.steps[operand], strict=True):
            offset = offset + index * step
        return self.f.offset(self.operands[operand], offset)

    def of_result(
        self, sizes: Sequence[Value], image: Value, places: Sequence[Value], channel: Value
    ) -> Value:
        """An address in the result, whose spatial axes have these sizes."""
        index = image
        for place, n in zip(places, sizes, strict=True):
            index = index * n + place
        index = index * self.channels + channel
        return self.f.offset(self.result, index * self.element.nbytes)

    def _starts(self, window: Sequence[Value]) -> list[Value]:
        """Where a window begins, before the array perhaps."""
        return [w * s - b for w, s, b in zip(window, self.strides, self.before, strict=True)]

    def clip_window(self, window: Sequence[Value]) -> tuple[list[Value], list[tuple[Value, Value]]]:
        """Where a window begins, and which of its places lie in the array."""
        f, starts = self.f, self._starts(window)
        ranges = [
            (f.maximum(-start, 0), f.minimum(n - start, w))
            for start, n, w in zip(starts, self.sizes, self.window, strict=True)
        ]
        return starts, ranges

    def count(self, ranges: Sequence[tuple[Value, Value]]) -> Value:
        """How many elements a window sees, in every lane."""
        total = self.f.constant(I64, 1)
        for begin, end in ranges:
            total = total * (end - begin)
        number = self.f.convert("sitofp", total, self.element.computed)
        return self.f.splat(number, self.element.lanes)

    # ------------------------------------------------------------------ forward

    @contextmanager
    def _windows(self, worker: Value, workers: Value) -> Generator[tuple[Value, list[Value]]]:
        """Each window of a worker: its image, and its place there."""
        f, (high, wide, deep) = self.f, self.counts
        begin, end = worker_share(self.batch * high * wide, worker, workers)
        with f.loop(begin, end) as row, f.loop(0, deep) as last:
            upper = row.index.unsigned_over(wide)
            window = [upper.unsigned_rest(high), row.index.unsigned_rest(wide), last.index]
            yield upper.unsigned_over(high), window

    def forward(
        self, kind: PoolingKind, known: Shape | None, worker: Value, workers: Value
    ) -> None:
        """Each window folded to one element for each channel."""
        f, lanes, mean = self.f, self.element.lanes, kind is PoolingKind.MEAN
        with self._windows(worker, workers) as (image, window):
            inside = None if known is None else self._lies_inside(window)

            def fold(channel: Value, vectors: int, mask: Value | None = None) -> None:
                first, shape = [self._first(kind)] * vectors, known or ()

                def clipped() -> list[Value]:
                    starts, ranges = self.clip_window(window)

                    def step(places: list[Value], folded: list[Value]) -> list[Value]:
                        spots = [s + p for s, p in zip(starts, places, strict=True)]
                        base = self.at(0, image, spots, channel)
                        return self._fold_all(kind, folded, base, mask)

                    folded = nest(f, ranges, first, step)
                    return self._means(folded, self.count(ranges)) if mean else folded

                def whole() -> list[Value]:
                    base, folded = self.at(0, image, self._starts(window), channel), first
                    for place in product(*map(range, shape)):
                        spot = f.offset(base, _dot(f, place, self.steps[0][1:]))
                        folded = self._fold_all(kind, folded, spot, mask)
                    count = f.constant(self.element.vector, size(shape))
                    return self._means(folded, count) if mean else folded

                folded = clipped() if inside is None else f.either(inside, whole, clipped)
                place = self.of_result(self.counts, image, window, channel)
                for number, value in enumerate(folded):
                    to = f.offset(place, number * self.element.vector_bytes)
                    self.element.store(f, value, to, mask)

            whole = self.channels - self.channels.unsigned_rest(lanes)
            wide_end = self.channels - self.channels.unsigned_rest(BLOCK * lanes)
            with f.loop(0, wide_end, BLOCK * lanes) as block:
                fold(block.index, BLOCK)
            with f.loop(wide_end, whole, lanes) as block:
                fold(block.index, 1)
            rest = self.channels - whole
            with f.when(rest > 0):
                fold(whole, 1, f.first_lanes(rest, lanes))

    def _means(self, totals: Sequence[Value], count: Value) -> list[Value]:
        return [total / count for total in totals]

    def _fold_all(
        self, kind: PoolingKind, folded: Sequence[Value], base: Value, mask: Value | None
    ) -> list[Value]:
        """What is folded already with the vectors from a place on."""
        loaded = [self._load(base, number, mask) for number in range(len(folded))]
        return [self._fold(kind, old, new) for old, new in zip(folded, loaded, strict=True)]

    def select(self, worker: Value, workers: Value) -> None:
        """For each window what operand 1 has where the first maximum of operand 0 is."""
        f, element = self.f, self.element
        with self._windows(worker, workers) as (image, window):
            starts, ranges = self.clip_window(window)
            with f.loop(0, self.channels, element.lanes) as block:
                mask = f.first_lanes(self.channels - block.index, element.lanes)
                column = _Column(image, block.index, mask)
                _, chosen = self._first_maximum(column, starts, ranges, self._choice)
                place = self.of_result(self.counts, image, window, block.index)
                element.store(f, chosen, place, mask)

    def _choice(self, column: _Column, spots: Sequence[Value]) -> Value:
        """What operand 1 has at a place."""
        address = self.at(1, column.image, spots, column.channel)
        return self.element.load(self.f, address, column.mask)

    def _load(self, base: Value, number: int, mask: Value | None) -> Value:
        f = self.f
        return self.element.load(f, f.offset(base, number * self.element.vector_bytes), mask)

    def _first(self, kind: PoolingKind) -> Value:
        """What an empty window gives."""
        if kind is PoolingKind.MEAN:
            return self.element.zero(self.f)
        if self.element.computed.floating:
            return self.f.constant(self.element.vector, float("-inf"))
        least = 0 if self._unsigned else -(1 << (8 * self.element.nbytes - 1))
        return self.f.constant(self.element.vector, least)

    def _fold(self, kind: PoolingKind, old: Value, new: Value) -> Value:
        """The sum, or the greater one; NaN stays."""
        if kind is PoolingKind.MEAN:
            return old + new
        if not self.element.computed.floating:
            better = self.f.compare("ugt" if self._unsigned else "sgt", new, old)
        else:
            better = (new > old) | self.f.compare("uno", new, 0.0)
        return self.f.select(better, new, old)

    # ----------------------------------------------------------------- backward

    def backward(
        self, kind: PoolingKind, walk: WindowVariant, worker: Value, workers: Value
    ) -> None:
        """Each window's gradient added to what it sees."""
        f, lanes = self.f, self.element.lanes
        inside = (
            None if walk.window is None else self._spread_inside(kind, walk.window, walk.tiling)
        )
        vectors = (self.channels + (lanes - 1)).unsigned_over(lanes)
        begin, end = worker_share(self.batch * vectors, worker, workers)
        with f.loop(begin, end) as unit:
            image = unit.index.unsigned_over(vectors)
            channel = unit.index.unsigned_rest(vectors) * lanes
            mask = f.first_lanes(self.channels - channel, lanes)
            column = _Column(image, channel, mask)

            def clear(places: list[Value], _: list[Value]) -> Sequence[Value]:
                place = self.of_result(self.sizes, image, places, channel)
                self.element.store(f, self.element.zero(f), place, mask)
                return []

            def spread(window: list[Value], _: list[Value]) -> Sequence[Value]:
                if inside is None:
                    self._spread(kind, image, channel, mask, window)
                elif walk.tiling:
                    inside(column, window)
                else:
                    whole = self._lies_inside(window)
                    with f.when(whole):
                        inside(column, window)
                    with f.when(~whole):
                        self._spread(kind, image, channel, mask, window)
                return []

            if not walk.tiling:
                nest(f, [(0, n) for n in self.sizes], [], clear)
            nest(f, [(0, n) for n in self.counts], [], spread)

    def _lies_inside(self, window: Sequence[Value]) -> Value:
        """Whether all that a window sees is in the array."""
        inside = self.f.constant(I1, 1)
        for start, n, length in zip(self._starts(window), self.sizes, self.window, strict=True):
            inside = inside & (start >= 0) & (start + length <= n)
        return inside

    def _spread_inside(
        self, kind: PoolingKind, window: Shape, tiling: bool
    ) -> Callable[[_Column, Sequence[Value]], None]:
        """How the gradient of a window that lies inside is spread, place by place."""
        f, element = self.f, self.element
        places = list(product(*map(range, window)))
        channels = self.channels * element.nbytes
        steps = [channels * self.sizes[1] * self.sizes[2], channels * self.sizes[2], channels]
        into = [_dot(f, place, steps) for place in places]
        seen = [_dot(f, place, self.steps[0][1:]) for place in places]
        given, number = len(self.operands) - 1, integer_of(element.vector)

        def spread(column: _Column, at: Sequence[Value]) -> None:
            image, channel, mask = column
            starts = self._starts(at)
            slope = element.load(f, self.at(given, image, at, channel), mask)
            base = self.of_result(self.sizes, image, starts, channel)
            chosen = None
            if kind is PoolingKind.MEAN_GRADIENT:
                slope = slope / f.constant(element.vector, len(places))
            else:
                first = self.at(0, image, starts, channel)
                values = [element.load(f, f.offset(first, offset), mask) for offset in seen]
                best, chosen = values[0], f.constant(number, 0)
                for i, new in enumerate(values[1:], 1):
                    first_nan = f.compare("uno", new, 0.0) & f.compare("ord", best, 0.0)
                    better = (new > best) | first_nan
                    best = f.select(better, new, best)
                    chosen = f.select(better, f.constant(number, i), chosen)
            for i, offset in enumerate(into):
                place = f.offset(base, offset)
                old = element.zero(f) if tiling else element.load(f, place, mask)
                new = old + slope
                if chosen is not None:
                    new = f.select(chosen.equals(i), new, old)
                element.store(f, new, place, mask)

        return spread

    def _spread(
        self, kind: PoolingKind, image: Value, channel: Value, mask: Value, window: list[Value]
    ) -> None:
        f = self.f
        starts, ranges = self.clip_window(window)
        given = len(self.operands) - 1
        gradient = self.element.load(f, self.at(given, image, window, channel), mask)
        chosen = None
        if kind is PoolingKind.MEAN_GRADIENT:
            gradient = gradient / self.count(ranges)
        else:
            column = _Column(image, channel, mask)
            chosen, _ = self._first_maximum(column, starts, ranges)

        def add(places: list[Value], _: list[Value]) -> Sequence[Value]:
            spots = [s + p for s, p in zip(starts, places, strict=True)]
            place = self.of_result(self.sizes, image, spots, channel)
            old = self.element.load(f, place, mask)
            new = old + gradient
            if chosen is not None:
                new = f.select(chosen.equals(self._place_number(places, chosen.type)), new, old)
            self.element.store(f, new, place, mask)
            return []

        nest(f, ranges, [], add)

    def _place_number(self, places: Sequence[Value], type: Type) -> Value:
        """The number of a place in the window, in every lane."""
        number = places[0]
        for place, n in zip(places[1:], self.window[1:], strict=True):
            number = number * n + place
        if type.scalar != I64:
            number = self.f.convert("trunc", number, type.scalar)
        return self.f.splat(number, type.lanes)

    def _first_maximum(
        self,
        column: _Column,
        starts: Sequence[Value],
        ranges: Sequence[tuple[Value, Value]],
        taken: Callable[[_Column, Sequence[Value]], Value] | None = None,
    ) -> tuple[Value, Value]:
        """For each channel the number of the place that has the first of the greatest elements.

        Also what is `taken` there, given the place in the array.
        """
        f, element = self.f, self.element
        kind = integer_of(element.vector)

        def step(places: list[Value], carried: list[Value]) -> Sequence[Value]:
            best, which, kept = carried
            spots = [s + p for s, p in zip(starts, places, strict=True)]
            place = self.at(0, column.image, spots, column.channel)
            new = element.load(f, place, column.mask)
            first_nan = f.compare("uno", new, 0.0) & f.compare("ord", best, 0.0)
            better = (which < 0) | (new > best) | first_nan
            number = self._place_number(places, kind)
            if taken is not None:
                kept = f.select(better, taken(column, spots), kept)
            return f.select(better, new, best), f.select(better, number, which), kept

        first = f.constant(element.vector, float("-inf")), f.constant(kind, -1), element.zero(f)
        _, which, kept = nest(f, ranges, first, step)
        return which, kept
