"""Gathering: elements, or runs of them, from places that index arrays name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from tawny.codegen.builder import I1, I64, PTR, Function, Module, Type, Value
from tawny.codegen.copying import ELEMENTS, Axis, walk
from tawny.codegen.kernel import Compiled, Layout
from tawny.codegen.library import Library, compiled
from tawny.codegen.walking import Cells, share
from tawny.dtype import DType
from tawny.shape import size

SHARED_BYTES: Final = 1 << 17
"""Threads share the work only of larger results."""

Loop = tuple[int, ...]
"""An axis of the result: its size, its stride, and those of what is read along it."""


class Picks(NamedTuple):
    """What is gathered: `axes` of the first operand are indexed by the operands after it.

    The axes that the index arrays give stand in the result before axis `place` of those left.
    """

    source: Layout
    indices: tuple[Layout, ...]
    """All of one shape."""
    axes: tuple[int, ...]
    place: int


def gathering(picks: Picks, result: Layout) -> Compiled:
    """The kernel; its last parameter is set where an index is outside its axis."""
    left = [a for a in range(len(picks.source.shape)) if a not in picks.axes]
    given = picks.indices[0].shape
    place, rank = picks.place, len(given)
    before = _kept(picks, left[:place], result.strides[:place])
    after = _kept(picks, left[place:], result.strides[place + rank :])
    strides = [m.strides for m in picks.indices]
    middle = merged(zip(given, result.strides[place : place + rank], *strides, strict=True))
    itemsize = result.dtype.itemsize
    kinds = tuple([m.dtype for m in picks.indices])
    library = _library(kinds, len(before), len(middle), len(after), itemsize)
    sizes = [(picks.source.shape[a], picks.source.strides[a]) for a in picks.axes]
    parameters = [n for loop in [*before, *middle, *after, *sizes] for n in loop]
    shared = size(result.shape) * result.dtype.itemsize > SHARED_BYTES
    return Compiled(library, "gather", (*parameters, 0), shared, 0)


def _kept(picks: Picks, axes: Sequence[int], steps: Sequence[int]) -> list[Loop]:
    """Loops over axes of the source that are not indexed."""
    shape, strides = picks.source.shape, picks.source.strides
    return merged((shape[a], step, strides[a]) for a, step in zip(axes, steps, strict=True))


def merged(axes: Iterable[Loop]) -> list[Loop]:
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


class _Shape(NamedTuple):
    """What the code depends on."""

    kinds: tuple[DType, ...]
    """Dtypes of the index arrays."""
    before: int
    """Loops over axes of the source that stand before those of the index arrays."""
    middle: int
    after: int
    itemsize: int


@cache
def _library(*numbers: Any) -> Library:
    module = Module()
    with module.function("gather", {"row": PTR, "worker": I64, "workers": I64}) as f:
        _Gathering(f, _Shape(*numbers)).write()
    return compiled(module.text())


class _Gathering:
    """The kernel being written."""

    def __init__(self, f: Function, shape: _Shape) -> None:
        self.f, self.shape = f, shape
        row = f.arguments[0]
        count = len(shape.kinds)
        self.source = f.cell(row, 0, PTR)
        self.indices = [f.cell(row, 1 + i, PTR) for i in range(count)]
        self.result = f.cell(row, 1 + count, PTR)
        cells = Cells(f, 2 + count)
        self.before = cells.take(shape.before, 3)
        self.middle = cells.take(shape.middle, 2 + count)
        self.after = cells.take(shape.after, 3)
        self.sizes = cells.take(count, 2)
        self.status = f.element(row, cells.place, I64)

    def write(self) -> None:
        """The outermost loop is shared."""
        self._before(0, self.result, self.source)

    def _range(self, first: bool, count: Value) -> tuple[Value, Value]:
        f = self.f
        return share(count, *f.arguments[1:]) if first else (f.constant(I64, 0), count)

    def _before(self, level: int, target: Value, source: Value) -> None:
        """Loops over kept axes, then those over the index arrays."""
        f = self.f
        if level == len(self.before):
            self._middle(0, target, source, self.indices)
            return
        count, step, stride = self.before[level]
        begin, end = self._range(level == 0, count)
        with f.loop(begin, end) as loop:
            place = f.advanced(target, loop.index * step)
            self._before(level + 1, place, f.advanced(source, loop.index * stride))

    def _middle(self, level: int, target: Value, source: Value, indices: Sequence[Value]) -> None:
        f = self.f
        if level == len(self.middle):
            self._pick(target, source, indices)
            return
        count, step, *strides = self.middle[level]
        begin, end = self._range(level == 0 and not self.before, count)
        with f.loop(begin, end) as loop:
            moved = [f.advanced(i, loop.index * s) for i, s in zip(indices, strides, strict=True)]
            self._middle(level + 1, f.advanced(target, loop.index * step), source, moved)

    def _pick(self, target: Value, source: Value, indices: Sequence[Value]) -> None:
        """Move what the indices name; note an index that is outside."""
        f = self.f
        inside = f.constant(I1, 1)
        for at, kind, (count, stride) in zip(indices, self.shape.kinds, self.sizes, strict=True):
            index = load_index(f, at, kind)
            wrapped = f.select(index < 0, index + count, index)
            inside = inside & wrapped.unsigned_below(count)
            source = f.advanced(source, wrapped * stride)
        f.either(inside, lambda: self._move(target, source), self._note)

    def _note(self) -> Sequence[Value]:
        self.f.store(self.f.constant(I64, 1), self.status, 8)
        return []

    def _move(self, target: Value, source: Value) -> Sequence[Value]:
        f, element = self.f, ELEMENTS[self.shape.itemsize]
        if not self.after:
            alone = not self.before and not self.middle
            if alone:
                with f.when(f.arguments[1].equals(0)):
                    f.store(f.load(element, source), target)
            else:
                f.store(f.load(element, source), target)
            return []
        axes = [(count, stride, step) for count, step, stride in self.after]
        if self.before or self.middle:
            walk(f, element, source, target, axes)
        else:
            self._shared_walk(element, source, target, axes)
        return []

    def _shared_walk(
        self, element: Type, source: Value, target: Value, axes: Sequence[Axis]
    ) -> None:
        """One pick, whose outermost axis is shared."""
        f, (count, stride, step) = self.f, axes[0]
        begin, end = self._range(True, count)
        walk(
            f,
            element,
            f.advanced(source, begin * stride),
            f.advanced(target, begin * step),
            [(end - begin, stride, step), *axes[1:]],
        )


def load_index(f: Function, place: Value, kind: DType) -> Value:
    """An index as a 64-bit integer."""
    stored = ELEMENTS[kind.itemsize]
    value = f.load(stored, place)
    if stored == I64:
        return value
    return f.convert("sext" if kind.kind == "i" else "zext", value, I64)
