"""Sorting long rows digit by digit, the lowest digit first.

Elements become unsigned integers that are in their order.  For each digit all elements of a row are
moved from one buffer to another, to where those with lesser digits end: elements with the same
digit stay in order, so that the sort is stable.  All digits are counted before, while the row is
read; a digit that all elements share is passed over.

- Elements are moved as they are, so that both zeros and every NaN come out as they went in.
- Places are moved with 32 bits of the key beside them; keys of 64 bits are sorted by their lower
  half, then by their upper half.
- Complex numbers are sorted by the imaginary part, by the real part, then by which of both is NaN.

A worker sorts a row in scratch memory of its own; where the result's row is dense, that is the
second buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType, real_dtype
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.outer_axes import OuterAxes, RowPlaces
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.sort_keys import is_nan_bits, unsigned_key
from tawny.pages import LINE

BITS: Final = 8
"""Bits of a digit."""

BUCKETS: Final = 1 << BITS

MOST_LENGTH: Final = 1 << 31
"""Rows are shorter: places fit into 32 bits."""

MOST_SLOTS: Final = 8
"""Rows that are sorted at the same time, at most: each has buffers of its own."""

SHARED_ELEMENTS: Final = 1 << 12
"""Elements from which threads share the work; see `workshare`."""

SYMBOL: Final = "radix_sort"


class RowVariant(NamedTuple):
    """All that the code that sorts a row depends on."""

    dtype: DType
    places: bool = False
    """Whether places are wanted instead of elements."""
    descending: bool = False

    @property
    def words(self) -> int:
        """Numbers that an element consists of."""
        return 2 if self.dtype.kind == "c" else 1

    @property
    def word(self) -> Type:
        """The integer of a number's size."""
        return Type(f"i{8 * self.dtype.itemsize // self.words}")

    @property
    def nbytes(self) -> int:
        """Bytes that are moved for each element."""
        return 8 if self.places else self.dtype.itemsize

    def buffer_bytes(self, length: int) -> int:
        """Bytes of a buffer for `length` elements."""
        return -(-length * self.nbytes // LINE) * LINE


class _RadixSortVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    row: RowVariant
    outer: int
    """Axes besides the sorted one."""
    dense: bool
    """Whether the rows of the result are dense."""


def radix_sort_kernel(
    given: ArrayLayout, result: ArrayLayout, axis: int, *, places: bool, descending: bool
) -> CompiledKernel | None:
    """The kernel of sorted elements, or of their places; None for rows that are too long.

    A row is read whole before it is written.
    """
    length = given.shape[axis]
    if length >= MOST_LENGTH:
        return None
    outer = OuterAxes.all_but(given, result, axis)
    rows = outer.rows if length else 0
    dense = result.strides[axis] == result.dtype.itemsize
    row_variant = RowVariant(given.dtype, places, descending)
    start, stride = 0, given.strides[axis]
    if descending and not places:
        start, stride = (length - 1) * stride, -stride
    slots = max(min(rows, MOST_SLOTS), 1)
    buffer_size = row_variant.buffer_bytes(length)
    one = buffer_size if dense else 2 * buffer_size
    numbers = rows, length, start, stride, result.strides[axis], slots, one, buffer_size
    shared = rows > 1 and rows * length > SHARED_ELEMENTS
    library = _library(_RadixSortVariant(row_variant, outer.number, dense))
    parameters = *numbers, *outer.parameters
    return CompiledKernel(library, SYMBOL, parameters, shared, max(slots * one, LINE))


@lazy_library
def _library(module: Module, variant: _RadixSortVariant) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _rows(f, variant)


def _rows(f: Function, variant: _RadixSortVariant) -> None:
    """The rows of a worker that has a slot."""
    row, worker, workers = f.arguments
    given, made, scratch = (f.cell(row, n, PTR) for n in range(3))
    rows, length, start, stride, step, slots, one, buffer_size = (
        f.cell(row, 3 + n) for n in range(8)
    )
    places = RowPlaces(f, row, 11, variant.outer)
    sort = RowSortWriter(f, variant.row, length, stride, step)
    workers = f.minimum(workers, slots)
    with f.when(worker < workers):
        first = f.offset(scratch, worker * one)
        second = f.offset(first, buffer_size)
        begin, end = worker_share(rows, worker, workers)
        with f.loop(begin, end) as loop:
            source, result = places.find(loop.index, f.offset(given, start), made)
            sort.write(source, result, (first, result if variant.dense else second))


Digit = Callable[[Value], Value]
"""The digit of the element at an address."""


class RowSortWriter:
    """Writes code that sorts a row of `length` elements."""

    def __init__(
        self, f: Function, variant: RowVariant, length: Value, stride: Value, step: Value
    ) -> None:
        """`stride` is the bytes from element to element, `step` those in the result."""
        self.f, self.variant = f, variant
        self.length, self.stride, self.step = length, stride, step
        self.per_word = -(-variant.word.bits // BITS)
        self.counts = f.stack_buffer(8 * BUCKETS * (self.per_word * variant.words + 1))

    def write(self, source: Value, result: Value, buffers: tuple[Value, Value]) -> None:
        """Sort a row of at least one element, in buffers of which the second may be the result."""
        if self.variant.places:
            self._order(source, result, buffers)
        else:
            self._sort(source, result, buffers)

    # ---------------------------------------------------------------- elements

    def _sort(self, source: Value, result: Value, buffers: tuple[Value, Value]) -> None:
        """Sort the elements of a row; the lowest digit is never passed over."""
        f, variant = self.f, self.variant
        self._clear(self.per_word * variant.words + (variant.words > 1))
        with f.loop(0, self.length) as loop:
            self._count(f.offset(source, loop.index * self.stride))
        state = [source, self.stride, *buffers]
        with f.loop(0, self.per_word * variant.words, carried=state) as loop:
            shift, base = self._shift(loop.index), self._base(loop.index)
            counts = self._counts(loop.index)
            loop.carry(
                *self._pass(loop.carried, counts, self._digit(base, shift), loop.index.equals(0))
            )
        state = loop.carried
        if variant.words > 1:
            counts = self._counts(f.constant(I64, self.per_word * variant.words))
            state = self._pass(state, counts, self._special, None)
        self._bring(state[0], result)

    def _shift(self, number: Value) -> Value:
        """By how many bits a digit is shifted up in its word."""
        return number.unsigned_rest(self.per_word) * BITS

    def _base(self, number: Value) -> Value:
        """Where in an element the word of a digit is: the imaginary part comes first."""
        variant = self.variant
        if variant.words == 1:
            return number.of(0)
        upper = number < self.per_word
        return self.f.select(upper, number.of(variant.word.nbytes), number.of(0))

    def _counts(self, number: Value) -> Value:
        """The counters of a digit."""
        return self.f.element(self.counts, number * BUCKETS, I64)

    def _clear(self, tables: int) -> None:
        f = self.f
        with f.loop(0, tables * BUCKETS, 8) as loop:
            place = f.element(self.counts, loop.index, I64)
            f.store(f.constant(I64.by(8), 0), place, 8)

    def _count(self, address: Value) -> None:
        """Count all digits of an element."""
        f, variant = self.f, self.variant
        number = 0
        for word in reversed(range(variant.words)):
            key = self._key(f.offset(address, word * variant.word.nbytes))
            for digit in range(self.per_word):
                self._increase(number, self._cut(key, key.of(digit * BITS)))
                number += 1
        if variant.words > 1:
            self._increase(number, self._special(address))

    def _increase(self, number: int, digit: Value) -> None:
        f = self.f
        place = f.element(self.counts, digit + number * BUCKETS, I64)
        f.store(f.load(I64, place) + 1, place)

    def _key(self, address: Value) -> Value:
        """The integer of the number at an address."""
        variant = self.variant
        key = unsigned_key(self.f, real_dtype(variant.dtype), self.f.load(variant.word, address))
        return ~key if variant.descending else key

    def _cut(self, key: Value, shift: Value) -> Value:
        """A digit of an integer."""
        f = self.f
        digit = key.shifted_down(shift)
        if digit.type.bits > BITS:
            digit = digit & (BUCKETS - 1)
        return digit if digit.type == I64 else f.convert("zext", digit, I64)

    def _digit(self, base: Value, shift: Value) -> Digit:
        f, word = self.f, self.variant.word
        by = shift if word == I64 else f.convert("trunc", shift, word)
        return lambda address: self._cut(self._key(f.offset(address, base)), by)

    def _special(self, address: Value) -> Value:
        """Which parts of a complex number are NaN: numbers, x + nan j, nan + x j, nan + nan j."""
        f, variant = self.f, self.variant
        parts = [f.load(variant.word, f.element(address, n, variant.word)) for n in (0, 1)]
        real, imag = (f.convert("zext", is_nan_bits(p), I64) for p in parts)
        kind = real * 2 + imag
        return 3 - kind if variant.descending else kind

    def _pass(
        self, state: Sequence[Value], counts: Value, digit: Digit, always: Value | None
    ) -> list[Value]:
        """Sort by a digit unless all elements share it; where they are then, and where to next."""
        f = self.f
        source, stride, target, spare = state
        shared = f.load(I64, f.element(counts, digit(source), I64))
        needed = shared.differs(self.length)
        if always is not None:
            needed = needed | always

        def move() -> list[Value]:
            self._add_up(counts)
            with f.loop(0, self.length) as loop:
                address = f.offset(source, loop.index * stride)
                element = self._element(address)
                counter = f.element(counts, digit(address), I64)
                place = f.load(I64, counter)
                self._put(element, f.offset(target, place * self.variant.nbytes))
                f.store(place + 1, counter)
            return [target, stride.of(self.variant.nbytes), spare, target]

        return f.either(needed, move, lambda: list(state))

    def _add_up(self, counts: Value) -> None:
        """From how often each digit occurs to where its elements begin."""
        f = self.f
        with f.loop(0, BUCKETS, carried=[f.constant(I64, 0)]) as loop:
            place = f.element(counts, loop.index, I64)
            here = f.load(I64, place)
            f.store(loop.carried[0], place)
            loop.carry(loop.carried[0] + here)

    def _element(self, address: Value) -> list[Value]:
        """What is moved for an element."""
        f, variant = self.f, self.variant
        kind, count = (I64, 1) if variant.places else (variant.word, variant.words)
        return [f.load(kind, f.element(address, n, kind)) for n in range(count)]

    def _put(self, element: Sequence[Value], address: Value) -> None:
        for n, word in enumerate(element):
            self.f.store(word, self.f.element(address, n, word.type))

    def _bring(self, source: Value, result: Value) -> None:
        """Copy the sorted elements to the result, unless they are there."""
        f = self.f
        away = f.compare("ne", source, result)
        with f.when(away), f.loop(0, self.length) as loop:
            address = f.offset(source, loop.index * self.variant.nbytes)
            self._put(self._element(address), f.offset(result, loop.index * self.step))

    # ------------------------------------------------------------------ places

    def _order(self, source: Value, result: Value, buffers: tuple[Value, Value]) -> None:
        """Sort the places of a row's elements, by 32 bits of the keys after another."""
        f, variant = self.f, self.variant
        halves = [(word, low) for word in reversed(range(variant.words)) for low in self._halves()]
        state = [*buffers]
        for number, (word, low) in enumerate(halves):

            def upper(address: Value, word: int = word, low: int = low) -> Value:
                key = self._key(f.offset(address, word * variant.word.nbytes)).shifted_down(low)
                wide = key if variant.word == I64 else f.convert("zext", key, I64)
                return wide << 32

            state = self._sort_by(state, source, upper, min(variant.word.nbytes, 4), number == 0)
        if variant.words > 1:
            state = self._sort_by(state, source, lambda a: self._special(a) << 32, 1, False)
        sorted_places = state[0]
        with f.loop(0, self.length) as loop:
            element = f.load(I64, f.element(sorted_places, loop.index, I64))
            f.store(element & 0xFFFF_FFFF, f.offset(result, loop.index * self.step))

    def _halves(self) -> Sequence[int]:
        """Where in a word each 32 bits begin."""
        return range(0, self.variant.word.bits, 32)

    def _sort_by(
        self,
        state: Sequence[Value],
        source: Value,
        upper: Callable[[Value], Value],
        count: int,
        first: bool,
    ) -> list[Value]:
        """Sort places by `count` digits of a key, which `upper` gives for an element's address."""
        f = self.f
        self._clear(count)
        here, _ = state
        with f.loop(0, self.length) as loop:
            cell = f.element(here, loop.index, I64)
            place = loop.index if first else f.load(I64, cell) & 0xFFFF_FFFF
            element = upper(f.offset(source, place * self.stride)) | place
            f.store(element, cell)
            for number in range(count):
                self._increase(number, self._cut(element, element.of(32 + number * BITS)))
        both = [here, f.constant(I64, 8), state[1], here]
        with f.loop(0, count, carried=both) as loop:
            shift = loop.index * BITS + 32

            def digit(address: Value) -> Value:
                return self._cut(f.load(I64, address), shift)

            loop.carry(*self._pass(loop.carried, self._counts(loop.index), digit, None))
        after, _, target, _ = loop.carried
        return [after, target]
