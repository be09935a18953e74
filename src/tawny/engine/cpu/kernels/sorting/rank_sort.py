"""Sorting short rows: each element goes to the place that is the number of those before it.

Elements become integers that are in the elements' order: NaN last, both zeros equal.  Those of a
vector are compared with one element of the row after another, so that nothing is guessed; of equal
elements those count that came before.  The work grows with the square of the length, but short rows
are done before others have begun.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tawny.dtype import DType, kind_of
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.outer_axes import CELLS, OuterAxes, RowPlaces
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Type, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.sort_keys import signed_key

LONGEST: Final = 256
"""Elements of the longest row that is sorted by ranks."""

LONGEST_BYTES: Final = 1024
"""Bytes of the longest row that is sorted by ranks: with fewer lanes it takes longer."""

SHARED_COMPARISONS: Final = 1 << 18
"""Comparisons from which threads share the work; see `workshare`."""

SYMBOL: Final = "sort"


class _RankSortVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    outer: int
    """Axes besides the sorted one."""
    lanes: int
    places: bool
    """Whether places are wanted instead of elements."""
    descending: bool


def rank_sort_kernel(
    given: ArrayLayout, result: ArrayLayout, axis: int, *, places: bool, descending: bool
) -> CompiledKernel | None:
    """The kernel of sorted elements, or of their places; None for long rows and complex numbers.

    A row is read whole before it is written.
    """
    length, dtype = given.shape[axis], given.dtype
    if kind_of(dtype) not in "biuf" or dtype.itemsize > 8:
        return None
    if length > LONGEST or length * dtype.itemsize > LONGEST_BYTES:
        return None
    outer = OuterAxes.all_but(given, result, axis)
    lanes = max(host().vector_bytes // max(dtype.itemsize, 2), 1)
    variant = _RankSortVariant(dtype, outer.number, lanes, places, descending)
    along = length, given.strides[axis], result.strides[axis]
    shared = outer.rows > 1 and outer.rows * length * length > SHARED_COMPARISONS
    return CompiledKernel(_library(variant), SYMBOL, (*outer.parameters, *along), shared, 0)


@lazy_library
def _library(module: Module, variant: _RankSortVariant) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _RankSortWriter(f, variant).write()


class _RankSortWriter:
    """Writes the kernel."""

    def __init__(self, f: Function, variant: _RankSortVariant) -> None:
        self.f, self.variant = f, variant
        row = f.arguments[0]
        self.source, self.result = f.cell(row, 0, PTR), f.cell(row, 1, PTR)
        self.rows = RowPlaces(f, row, 2, variant.outer)
        place = 2 + CELLS * variant.outer
        self.length, self.stride, self.step = (f.cell(row, place + n) for n in range(3))
        self.stored = Type(f"i{8 * variant.dtype.itemsize}")
        self.key = Type(f"i{8 * max(variant.dtype.itemsize, 2)}")
        nbytes = (LONGEST + variant.lanes) * self.key.nbytes
        self.keys, self.before = f.stack_buffer(nbytes), f.stack_buffer(nbytes)
        self.copies = None if variant.places else f.stack_buffer(LONGEST * self.stored.nbytes)

    def write(self) -> None:
        """The rows of a worker."""
        f = self.f
        units = self.rows.times_rows(f.constant(I64, 1))
        begin, end = worker_share(units, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            source, result = self.rows.find(loop.index, self.source, self.result)
            self._read(source)
            with f.loop(0, self.length, self.variant.lanes) as vector:
                self._count(vector.index)
            self._put(result)

    def _read(self, source: Value) -> None:
        """Bring the elements of a row together, and their keys."""
        f = self.f
        with f.loop(0, self.length) as loop:
            bits = f.load(self.stored, f.offset(source, loop.index * self.stride))
            if self.copies is not None:
                f.store(bits, f.element(self.copies, loop.index, self.stored))
            f.store(self._key(bits), f.element(self.keys, loop.index, self.key))

    def _key(self, bits: Value) -> Value:
        """A signed integer that is in the order of the elements, given their bits."""
        f, variant = self.f, self.variant
        key = signed_key(f, variant.dtype, bits)
        if self.key != self.stored:
            key = f.convert("sext", key, self.key)
        return ~key if variant.places and variant.descending else key

    def _count(self, first: Value) -> None:
        """How many come before each element of a vector."""
        f, lanes, kind = self.f, self.variant.lanes, self.key.by(self.variant.lanes)
        mine = f.load(kind, f.element(self.keys, first, self.key), self.key.nbytes)
        behind = f.minimum(first + lanes, self.length)
        start = f.splat(f.convert("trunc", first, self.key) if self.key != I64 else first, lanes)
        numbers = start + f.counting(self.key, lanes)
        ranges = ((first.of(0), first), (first, behind), (behind, self.length))
        total = f.constant(kind, 0)
        for part, (begin, end) in enumerate(ranges):
            with f.loop(begin, end, carried=[total]) as loop:
                other = f.splat(f.load(self.key, f.element(self.keys, loop.index, self.key)), lanes)
                if part == 0:
                    counts = other <= mine
                elif part == 2:
                    counts = other < mine
                else:
                    index = loop.index
                    here = f.convert("trunc", index, self.key) if self.key != I64 else index
                    later = numbers > f.splat(here, lanes)
                    counts = (other < mine) | (later & other.equals(mine))
                loop.carry(loop.carried[0] + f.convert("zext", counts, self.key))
            (total,) = loop.carried
        f.store(total, f.element(self.before, first, self.key), self.key.nbytes)

    def _put(self, result: Value) -> None:
        """Write each element, or its number, to its place."""
        f = self.f
        with f.loop(0, self.length) as loop:
            place = f.load(self.key, f.element(self.before, loop.index, self.key))
            place = place if self.key == I64 else f.convert("zext", place, I64)
            if self.copies is None:
                value = loop.index
            else:
                value = f.load(self.stored, f.element(self.copies, loop.index, self.stored))
                if self.variant.descending:
                    place = self.length - 1 - place
            f.store(value, f.offset(result, place * self.step))
