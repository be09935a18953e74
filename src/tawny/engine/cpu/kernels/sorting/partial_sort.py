"""The first elements of sorted rows, found among those before the last of the best.

A row is read once.  An element that comes before the last of the best is put into a buffer;
when that is full, it is sorted, and the best are kept.  Few elements get there: what comes later
has ever more to come before.  Equal elements stay in order, since sorts of the buffer are stable
and an element that is equal to the last of the best is not let in.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.outer_axes import OuterAxes, RowPlaces
from tawny.engine.cpu.kernels.sorting.radix_sort import RowSortWriter, RowVariant
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Module, Type, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.sort_keys import signed_key
from tawny.pages import LINE

ROOM: Final = 4
"""How many times as many elements as are wanted the buffer has room for."""

LEAST_ROOM: Final = 32
"""Elements it has room for at least."""

FEW: Final = 160
"""Elements up to which each is brought to its place among those before it."""

MOST_SLOTS: Final = 8
"""Rows that are read at the same time, at most: each has buffers of its own."""

SHARED_ELEMENTS: Final = 1 << 14
"""Elements from which threads share the work; see `workshare`."""

SYMBOL: Final = "partial_sort"


class _PartialSortVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    outer: int
    """Axes besides the sorted one."""
    lanes: int
    """Neighbours that are looked at together; 0 where elements are apart."""
    places: bool
    descending: bool


def partial_sort_kernel(
    given: ArrayLayout, result: ArrayLayout, axis: int, *, places: bool, descending: bool = False
) -> CompiledKernel:
    """The kernel of the first elements of sorted rows, or of their places."""
    length, count, dtype = given.shape[axis], result.shape[axis], given.dtype
    outer = OuterAxes.all_but(given, result, axis)
    lanes = host().vector_bytes // dtype.itemsize
    dense = given.strides[axis] == dtype.itemsize
    variant = _PartialSortVariant(dtype, outer.number, lanes * dense, places, descending)
    room = max(ROOM * count, LEAST_ROOM) + lanes
    slots = max(min(outer.rows, MOST_SLOTS), 1)
    buffer = -(-room * 8 // LINE) * LINE
    along = outer.rows, length, count, given.strides[axis], result.strides[axis]
    shared = outer.rows > 1 and outer.rows * length > SHARED_ELEMENTS
    parameters = (*along, room, slots, buffer, *outer.parameters)
    return CompiledKernel(_library(variant), SYMBOL, parameters, shared, slots * buffer * BUFFERS)


BUFFERS: Final = 5
"""Elements, their numbers, their order, and two for sorting."""

_ORDER: Final = {"elements": PTR, "count": I64, "order": PTR, "first": PTR, "second": PTR}


@lazy_library
def _library(module: Module, variant: _PartialSortVariant) -> None:
    with module.function("order", _ORDER, internal=True, attributes="noinline") as f:
        elements, count, order, first, second = f.arguments
        row = RowVariant(variant.dtype, True, variant.descending)
        item, place = count.of(variant.dtype.itemsize), count.of(8)
        RowSortWriter(f, row, count, item, place).write(elements, order, (first, second))
    with module.function(SYMBOL, KERNEL) as f:
        _PartialSortWriter(f, variant).write()


class _PartialSortWriter:
    """Writes the kernel."""

    def __init__(self, f: Function, variant: _PartialSortVariant) -> None:
        self.f, self.variant = f, variant
        row = f.arguments[0]
        self.source, self.result, self.scratch = (f.cell(row, i, PTR) for i in range(3))
        names = (f.cell(row, 3 + i) for i in range(8))
        self.rows, self.length, self.count, self.stride, self.step, *others = names
        self.room, self.slots, self.buffer = others
        self.places = RowPlaces(f, row, 11, variant.outer)
        self.word = Type(f"i{8 * variant.dtype.itemsize}")

    def write(self) -> None:
        """The rows of a worker that has a slot."""
        f = self.f
        _, worker, workers = f.arguments
        workers = f.minimum(workers, self.slots)
        with f.when(worker < workers):
            own = f.offset(self.scratch, worker * self.buffer * BUFFERS)
            buffers = [f.offset(own, self.buffer * i) for i in range(BUFFERS)]
            self.elements, self.numbers, self.order, self.first, self.second = buffers
            begin, end = worker_share(self.rows, worker, workers)
            with f.loop(begin, end) as loop:
                source, result = self.places.find(loop.index, self.source, self.result)
                self._search(source)
                self._put(result)

    def _key(self, bits: Value) -> Value:
        """A signed integer in the order that is wanted."""
        key = signed_key(self.f, self.variant.dtype, bits)
        return ~key if self.variant.descending else key

    def _search(self, source: Value) -> None:
        """Gather in the buffer what may be among the first, all in the beginning, and sort it."""
        f, lanes = self.f, self.variant.lanes
        most = f.constant(self.word, (1 << (self.word.bits - 1)) - 1)
        state = [f.constant(I64, 0), most, f.constant(I64, 0)]
        whole = self.length.of(0)
        if lanes:
            whole = self.length.unsigned_over(lanes) * lanes
            with f.loop(0, whole, lanes, carried=state) as loop:
                bits = f.load(self.word.by(lanes), f.element(source, loop.index, self.word))
                better = self._is_better(self._key(bits), loop.carried)
                chosen = f.bitcast(better, Type(f"i{lanes}"))
                loop.carry(*self._add_lanes(source, loop.index, chosen, loop.carried))
            state = loop.carried
        with f.loop(whole, self.length, carried=state) as loop:
            key = self._key(f.load(self.word, f.offset(source, loop.index * self.stride)))
            better, index, known = self._is_better(key, loop.carried), loop.index, loop.carried

            def add() -> list[Value]:
                self._add(source, index, known[0])
                return self._sort_if_full([known[0] + 1, *known[1:]])

            loop.carry(*f.either(better, add, lambda: list(known)))
        self._sort(loop.carried[0])

    def _is_better(self, key: Value, state: list[Value]) -> Value:
        """Whether elements come before the last of the best, or there are too few of these."""
        f, (_, last, full) = self.f, state
        lanes = key.type.lanes
        few = f.splat(full.equals(0), lanes)
        return (key < f.splat(last, lanes)) | few

    def _add_lanes(
        self, source: Value, first: Value, chosen: Value, state: list[Value]
    ) -> list[Value]:
        """Put chosen lanes into the buffer, one after another."""
        f = self.f

        def add() -> list[Value]:
            bits = chosen if chosen.type == I64 else f.convert("zext", chosen, I64)
            with f.repeat(bits, state[0]) as lanes:
                left, count = lanes.carried
                lane = f.intrinsic("cttz", I64, left, f.constant(Type("i1"), 1), overload=(I64,))
                self._add(source, first + lane, count)
                rest = left & (left - 1)
                lanes.again(rest.differs(0), rest, count + 1)
            return self._sort_if_full([lanes.carried[1], *state[1:]])

        return f.either(chosen.differs(0), add, lambda: list(state))

    def _add(self, source: Value, number: Value, count: Value) -> None:
        f = self.f
        bits = f.load(self.word, f.offset(source, number * self.stride))
        f.store(bits, f.element(self.elements, count, self.word))
        f.store(number, f.element(self.numbers, count, I64))

    def _sort_if_full(self, state: list[Value]) -> list[Value]:
        """Keep the best alone where there is no room for as many elements as come at a time."""
        f = self.f
        count = state[0]
        full = count + max(self.variant.lanes, 1) > self.room

        def sort() -> list[Value]:
            self._sort(count)
            last = f.load(self.word, f.element(self.elements, self.count - 1, self.word))
            return [self.count, self._key(last), f.constant(I64, 1)]

        return f.either(full, sort, lambda: list(state))

    def _sort(self, count: Value) -> None:
        """Bring the best of `count` elements to the beginning, in order."""
        f = self.f
        few = count <= FEW
        with f.when(few), f.loop(1, count) as loop:
            self._insert(loop.index)
        with f.when(~few):
            self._sort_many(count)

    def _insert(self, number: Value) -> None:
        """Bring an element to its place among those before it, which are in order."""
        f = self.f
        bits = f.load(self.word, f.element(self.elements, number, self.word))
        own, key = f.load(I64, f.element(self.numbers, number, I64)), self._key(bits)
        with f.repeat(number) as place:
            (here,) = place.carried
            before = here - 1
            other = f.load(self.word, f.element(self.elements, before, self.word))
            moves = self._key(other) > key
            with f.when(moves):
                moved = f.load(I64, f.element(self.numbers, before, I64))
                f.store(other, f.element(self.elements, here, self.word))
                f.store(moved, f.element(self.numbers, here, I64))
            after = f.select(moves, before, here)
            place.again(moves & (after > 0), after)
        (found,) = place.carried
        f.store(bits, f.element(self.elements, found, self.word))
        f.store(own, f.element(self.numbers, found, I64))

    def _sort_many(self, count: Value) -> None:
        f = self.f
        f.call("order", VOID, self.elements, count, self.order, self.first, self.second)
        kinds = ((self.elements, self.first, self.word), (self.numbers, self.second, I64))
        for buffer, room, kind in kinds:
            with f.loop(0, self.count) as loop:
                place = f.load(I64, f.element(self.order, loop.index, I64))
                f.store(
                    f.load(kind, f.element(buffer, place, kind)),
                    f.element(room, loop.index, kind),
                )
            with f.loop(0, self.count) as loop:
                f.store(
                    f.load(kind, f.element(room, loop.index, kind)),
                    f.element(buffer, loop.index, kind),
                )

    def _put(self, result: Value) -> None:
        f = self.f
        buffer, kind = (self.numbers, I64) if self.variant.places else (self.elements, self.word)
        with f.loop(0, self.count) as loop:
            found = f.load(kind, f.element(buffer, loop.index, kind))
            f.store(found, f.offset(result, loop.index * self.step))
