"""Gathering: elements, or runs of them, from places that index arrays name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.cpu.kernels.copies import ELEMENTS, Axis, walk
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.workshare import RowCells, worker_share
from tawny.engine.llvm.ir.builder import I1, I64, PTR, Function, Module, Type, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.shape import size

SHARED_BYTES: Final = 1 << 17
"""Bytes of a result from which threads share the work; see `workshare`."""

SHORT_ROW: Final = 64
"""Bytes of the longest runs that are moved by as many instructions as they need, without a loop."""

LARGEST_ELEMENT: Final = 8
"""Bytes of the largest elements that are gathered by vectors of indices."""

Loop = tuple[int, ...]
"""An axis of the result: its size, its stride, and those of what is read along it."""


class GatherSpec(NamedTuple):
    """A gather: `axes` of the first operand are indexed by the last operands.

    The axes that the index arrays give stand in the result before axis `place` of those left.
    """

    pieces: tuple[ArrayLayout, ...]
    """The first operand; or several, which are one after the other along axis 0, and then this is
    the axis that is indexed, and its place is 0."""
    indices: tuple[ArrayLayout, ...]
    """Index arrays, all of one shape."""
    axes: tuple[int, ...]
    place: int


def gather_kernel(spec: GatherSpec, result: ArrayLayout) -> CompiledKernel:
    """The kernel; its last parameter is set where an index is outside its axis."""
    source = spec.pieces[0]
    left = [a for a in range(len(source.shape)) if a not in spec.axes]
    given = spec.indices[0].shape
    place, rank = spec.place, len(given)
    before = _unindexed_loops(spec, left[:place], result.strides[:place])
    after = _unindexed_loops(spec, left[place:], result.strides[place + rank :])
    if any(count == 0 for count, *_ in before):  # nothing is moved: only the indices are looked at
        before, after = [], [*before, *after]
    strides = [m.strides for m in spec.indices]
    middle = merge_axes(zip(given, result.strides[place : place + rank], *strides, strict=True))
    itemsize = result.dtype.itemsize
    kinds = tuple([m.dtype for m in spec.indices])
    exists = all(source.shape[a] for a in spec.axes)
    row = _short_row(after, itemsize) if exists and (before or middle) else 0
    lanes = _lanes(middle, kinds, itemsize) if row == itemsize and not after else 0
    counts = len(before), len(middle), len(after)
    library = _library(len(spec.pieces), kinds, *counts, itemsize, row, lanes)
    sizes = [(sum([p.shape[a] for p in spec.pieces]), source.strides[a]) for a in spec.axes]
    loops = [*before, *middle, *after, *sizes, *_starts(spec.pieces)]
    parameters = [n for loop in loops for n in loop]
    shared = size(result.shape) * result.dtype.itemsize > SHARED_BYTES
    return CompiledKernel(library, "gather", (*parameters, 0), shared, 0)


def _unindexed_loops(spec: GatherSpec, axes: Sequence[int], steps: Sequence[int]) -> list[Loop]:
    """Loops over axes of the source that are not indexed."""
    shape, strides = spec.pieces[0].shape, [p.strides for p in spec.pieces]
    return merge_axes(
        (shape[a], step, *[s[a] for s in strides]) for a, step in zip(axes, steps, strict=True)
    )


def _short_row(after: Sequence[Loop], itemsize: int) -> int:
    """Bytes of what an index names, where that is an element or one short run; else 0."""
    if not after:
        return itemsize
    if len(after) != 1 or any(stride != itemsize for stride in after[0][1:]):
        return 0
    nbytes = after[0][0] * itemsize
    return nbytes if nbytes <= SHORT_ROW else 0


def _lanes(middle: Sequence[Loop], kinds: Sequence[DType], itemsize: int) -> int:
    """How many indices are looked at together, where they and the elements lie side by side."""
    if not middle or itemsize > LARGEST_ELEMENT:
        return 0
    _, step, *strides = middle[-1]
    dense = step == itemsize and all(s == k.itemsize for s, k in zip(strides, kinds, strict=True))
    return host().vector_bytes // I64.nbytes if dense else 0


def _starts(pieces: Sequence[ArrayLayout]) -> Iterator[Loop]:
    """Where each piece but the first begins, and its stride along axis 0."""
    start = 0
    for before, piece in pairwise(pieces):
        start += before.shape[0]
        yield start, piece.strides[0]


def merge_axes(axes: Iterable[Loop]) -> list[Loop]:
    """Without axes of size 1, and with axes that follow each other as one."""
    out: list[Loop] = []
    for n, *strides in axes:
        if n == 1:
            continue
        if out and list(out[-1][1:]) == [n * s for s in strides]:
            out[-1] = (out[-1][0] * n, *strides)
        else:
            out.append((n, *strides))
    return out


# ------------------------------------------------------------------------ code


class _GatherVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    pieces: int
    kinds: tuple[DType, ...]
    """Dtypes of the index arrays."""
    before: int
    """Loops over axes of the source that stand before those of the index arrays."""
    middle: int
    after: int
    itemsize: int
    row: int
    """Bytes of what an index names, if it is one short run; else 0."""
    lanes: int
    """Indices that are looked at together; 0 for one by one."""


@lazy_library
def _library(module: Module, *numbers: Any) -> None:
    with module.function("gather", KERNEL) as f:
        _GatherWriter(f, _GatherVariant(*numbers)).write()


class _GatherWriter:
    """Writes the kernel."""

    def __init__(self, f: Function, shape: _GatherVariant) -> None:
        self.f, self.shape = f, shape
        row = f.arguments[0]
        count, pieces = len(shape.kinds), shape.pieces
        self.pieces = [f.cell(row, i, PTR) for i in range(pieces)]
        self.indices = [f.cell(row, pieces + i, PTR) for i in range(count)]
        self.result = f.cell(row, pieces + count, PTR)
        cells = RowCells(f, pieces + count + 1)
        self.before = cells.take(shape.before, 3)
        self.middle = cells.take(shape.middle, 2 + count)
        self.after = cells.take(shape.after, 2 + pieces)
        self.sizes = cells.take(count, 2)
        self.starts = cells.take(pieces - 1, 2)
        self.status = f.element(row, cells.place, I64)

    def write(self) -> None:
        """The outermost loop is shared; an index that is outside is noted."""
        f = self.f
        outside = self._walk_before(0, self.result, self.pieces[0], f.constant(I1, 0))
        with f.when(outside):
            f.store(f.constant(I64, 1), self.status, 8)

    def _range(self, first: bool, count: Value) -> tuple[Value, Value]:
        f = self.f
        return worker_share(count, *f.arguments[1:]) if first else (f.constant(I64, 0), count)

    def _walk_before(self, level: int, target: Value, source: Value, outside: Value) -> Value:
        """Loops over kept axes, then those over the index arrays."""
        f = self.f
        if level == len(self.before):
            return self._walk_indices(0, target, source, self.indices, outside)
        count, step, stride = self.before[level]
        begin, end = self._range(level == 0, count)
        with f.loop(begin, end, carried=[outside]) as loop:
            place = f.offset(target, loop.index * step)
            there = f.offset(source, loop.index * stride)
            loop.carry(self._walk_before(level + 1, place, there, loop.carried[0]))
        return loop.carried[0]

    def _walk_indices(
        self, level: int, target: Value, source: Value, indices: Sequence[Value], outside: Value
    ) -> Value:
        f = self.f
        if level == len(self.middle):
            return outside | self._pick(target, source, indices)
        count, step, *strides = self.middle[level]
        begin, end = self._range(level == 0 and not self.before, count)
        if self.shape.lanes and level == len(self.middle) - 1 and not self.starts:
            begin, outside = self._walk_together(begin, end, target, source, indices, outside)
        with f.loop(begin, end, carried=[outside]) as loop:
            moved = [f.offset(i, loop.index * s) for i, s in zip(indices, strides, strict=True)]
            place = f.offset(target, loop.index * step)
            loop.carry(self._walk_indices(level + 1, place, source, moved, loop.carried[0]))
        return loop.carried[0]

    def _walk_together(
        self,
        begin: Value,
        end: Value,
        target: Value,
        source: Value,
        indices: Sequence[Value],
        outside: Value,
    ) -> tuple[Value, Value]:
        """As many whole vectors of indices as there are; where they end, and if one was outside."""
        f, lanes, itemsize = self.f, self.shape.lanes, self.shape.itemsize
        whole = begin + ((end - begin) & -lanes)
        with f.loop(begin, whole, lanes, carried=[f.splat(outside, lanes)]) as loop:
            places = [
                f.offset(i, loop.index * kind.itemsize)
                for i, kind in zip(indices, self.shape.kinds, strict=True)
            ]
            inside, offsets = self._look_at(places)
            loop.carry(loop.carried[0] | ~inside)
            for lane in range(lanes):
                value = f.load(ELEMENTS[itemsize], f.offset(source, f.lane(offsets, lane)))
                f.store(value, f.element(target, loop.index + lane, ELEMENTS[itemsize]))
        bits = f.bitcast(loop.carried[0], Type(f"i{lanes}"))
        return whole, bits.differs(0)

    def _look_at(self, places: Sequence[Value]) -> tuple[Value, Value]:
        """Which lanes' indices are inside, and where what they name lies; the first if outside."""
        f, lanes = self.f, self.shape.lanes
        inside, offsets = f.constant(I1.by(lanes), 1), f.constant(I64.by(lanes), 0)
        for at, kind, (count, stride) in zip(places, self.shape.kinds, self.sizes, strict=True):
            stored = f.load(ELEMENTS[kind.itemsize].by(lanes), at, kind.itemsize)
            index = stored
            if kind.itemsize < I64.nbytes:
                index = f.convert("sext" if kind.kind == "i" else "zext", stored, I64)
            length = f.splat(count, lanes)
            wrapped = f.select(index < 0, index + length, index)
            here = wrapped.unsigned_below(length)
            inside = inside & here
            offsets = offsets + f.select(here, wrapped, 0) * f.splat(stride, lanes)
        return inside, offsets

    def _pick(self, target: Value, source: Value, indices: Sequence[Value]) -> Value:
        """Move what the indices name; whether one of them is outside."""
        f = self.f
        inside = f.constant(I1, 1)
        axes = [(count, stride, step) for count, step, stride, *_ in self.after]
        for at, kind, (count, stride) in zip(indices, self.shape.kinds, self.sizes, strict=True):
            index = load_index(f, at, kind)
            wrapped = f.select(index < 0, index + count, index)
            here = wrapped.unsigned_below(count)
            inside = inside & here
            if self.starts:
                source, axes = self._piece(wrapped, stride)
            else:
                wrapped = f.select(here, wrapped, 0) if self.shape.row else wrapped
                source = f.offset(source, wrapped * stride)
        if self.shape.row and not self.starts:
            self._move_short(target, source)
        else:
            with f.when(inside):
                self._move(target, source, axes)
        return ~inside

    def _move_short(self, target: Value, source: Value) -> None:
        """Move a short run: first all loads, then all stores."""
        f, done, left = self.f, 0, self.shape.row
        align = min(self.shape.itemsize, 8)
        pieces: list[tuple[int, Value]] = []
        while left:
            nbytes = 1 << (min(left, host().vector_bytes).bit_length() - 1)
            kind = I64.by(nbytes // 8) if nbytes > 8 else Type(f"i{8 * nbytes}")
            pieces.append((done, f.load(kind, f.offset(source, done), align)))
            done, left = done + nbytes, left - nbytes
        for place, value in pieces:
            f.store(value, f.offset(target, place), align)

    def _piece(self, index: Value, stride: Value) -> tuple[Value, list[Axis]]:
        """Where an index of all pieces together lies, and the axes that are left there.

        It is in the last piece that begins no later: those before have ended, or are empty.
        """
        f, piece, place = self.f, self.pieces[0], index
        strides = [own for _, _, own, *_ in self.after]
        for number, (start, along) in enumerate(self.starts, 1):
            here = start <= index
            piece = f.select(here, self.pieces[number], piece)
            place = f.select(here, index - start, place)
            stride = f.select(here, along, stride)
            strides = [
                f.select(here, loop[2 + number], own)
                for loop, own in zip(self.after, strides, strict=True)
            ]
        axes = [
            (count, own, step) for (count, step, *_), own in zip(self.after, strides, strict=True)
        ]
        return f.offset(piece, place * stride), axes

    def _move(self, target: Value, source: Value, axes: Sequence[Axis]) -> None:
        f, element = self.f, ELEMENTS[self.shape.itemsize]
        alone = not self.before and not self.middle
        if self.after and alone:
            self._shared_walk(element, source, target, axes)
        elif self.after:
            walk(f, element, source, target, axes)
        elif alone:
            with f.when(f.arguments[1].equals(0)):
                f.store(f.load(element, source), target)
        else:
            f.store(f.load(element, source), target)

    def _shared_walk(
        self, element: Type, source: Value, target: Value, axes: Sequence[Axis]
    ) -> None:
        """One pick, whose outermost axis is shared."""
        f, (count, stride, step) = self.f, axes[0]
        begin, end = self._range(True, count)
        walk(
            f,
            element,
            f.offset(source, begin * stride),
            f.offset(target, begin * step),
            [(end - begin, stride, step), *axes[1:]],
        )


def load_index(f: Function, place: Value, kind: DType) -> Value:
    """An index as a 64-bit integer."""
    stored = ELEMENTS[kind.itemsize]
    value = f.load(stored, place)
    if stored == I64:
        return value
    return f.convert("sext" if kind.kind == "i" else "zext", value, I64)
