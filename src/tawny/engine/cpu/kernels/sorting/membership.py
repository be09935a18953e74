"""Whether elements occur in a set.

The set is copied to scratch memory and sorted there; then each element is looked for by bisection.
Where there are few elements, or the set is small, all are compared.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel, KernelSequence
from tawny.engine.cpu.kernels.sorting.radix_sort import MOST_LENGTH, RowSortWriter, RowVariant
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I1, I8, I64, PTR, Function, Module, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.expressions import primitive
from tawny.engine.llvm.scalar.folds import spread
from tawny.engine.llvm.scalar.numbers import (
    Number,
    Pair,
    lane_bytes,
    load_scalar,
    load_vector,
    real,
    store_scalar,
)
from tawny.scalar import Prim
from tawny.shape import collapse_axes

FEW: Final = 8
"""Members of a set, or elements, up to which all are compared with all.

Chosen by hand: the members of larger sets are sorted first."""

SHARED_ELEMENTS: Final = 1 << 12
"""Elements from which threads share the work; see `workshare`."""

SORT, SEEK, COMPARE = "sort_set", "seek", "compare"


class _MembershipVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    wanted: DType
    among: DType
    common: DType
    """What both are compared in."""
    ranks: tuple[int, int]
    """Axes of the elements, and of the set."""
    invert: bool
    compares: bool
    """Whether all are compared."""
    lanes: int
    """Elements that are compared at once; 0 where they are apart."""


def membership_kernel(
    wanted: ArrayLayout, among: ArrayLayout, *, invert: bool
) -> KernelSequence | None:
    """The kernel of truths; None where NumPy must compare: integers that have no common dtype."""
    common = dt.promote(wanted.dtype, among.dtype)
    integers = all(x.dtype.kind in "biu" for x in (wanted, among))
    n, m = math.prod(wanted.shape), math.prod(among.shape)
    if (integers and kind_of(common) == "f") or m >= MOST_LENGTH:
        return None
    walks = [_walk(x) for x in (wanted, among)]
    compares = min(n, m) <= FEW
    ranks = tuple([len(sizes) for sizes, _ in walks])
    dense = wanted.dtype == common and walks[0][1] in ((), (common.itemsize,))
    lanes = host().vector_bytes // lane_bytes(common) if dense and compares else 0
    variant = _MembershipVariant(
        wanted.dtype, among.dtype, common, (ranks[0], ranks[1]), invert, compares, lanes
    )
    buffer_size = RowVariant(common).buffer_bytes(m)
    cells = (n, m, buffer_size, *[c for sizes, moves in walks for c in (*sizes, *moves)])
    library = _library(variant)
    if compares:
        shared = n * m > SHARED_ELEMENTS
        return KernelSequence(CompiledKernel(library, COMPARE, cells, shared, 0), ())
    kernel = CompiledKernel(library, SORT, cells, n > SHARED_ELEMENTS, 2 * buffer_size)
    return KernelSequence(kernel, ((SEEK, True),))


def _walk(x: ArrayLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of the axes that elements are walked along."""
    kept = [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n != 1]
    sizes, (moves,) = collapse_axes(tuple([n for n, _ in kept]), [tuple([s for _, s in kept])])
    return sizes, moves


@lazy_library
def _library(module: Module, variant: _MembershipVariant) -> None:
    if variant.compares:
        with module.function(COMPARE, KERNEL) as f:
            _MembershipWriter(f, variant).compare()
        return
    with module.function(SORT, KERNEL) as f:
        _MembershipWriter(f, variant).sort()
    with module.function(SEEK, KERNEL) as f:
        _MembershipWriter(f, variant).seek()


class _MembershipWriter:
    """A function being written."""

    def __init__(self, f: Function, variant: _MembershipVariant) -> None:
        self.f, self.variant = f, variant
        row = f.arguments[0]
        self.wanted, self.among, self.result = (f.cell(row, n, PTR) for n in range(3))
        place = 3
        if not variant.compares:
            self.set = f.cell(row, place, PTR)
            place += 1
        self.count, self.members, self.buffer_size = (f.cell(row, place + n) for n in range(3))
        place += 3
        self.walks: list[tuple[list[Value], list[Value]]] = []
        for rank in variant.ranks:
            cells = [f.cell(row, place + n) for n in range(2 * rank)]
            self.walks.append((cells[:rank], cells[rank:]))
            place += 2 * rank

    # ---------------------------------------------------------------- elements

    def _element(self, base: Value, dtype: DType, index: Value, number: int) -> Number:
        """An element of an operand as it is compared."""
        f, (sizes, moves) = self.f, self.walks[number]
        for place, move in zip(coordinates(index, sizes), moves, strict=True):
            base = f.offset(base, place * move)
        return cast(f, load_scalar(f, dtype, base), dtype, self.variant.common)

    def _wanted_element(self, index: Value) -> Number:
        return self._element(self.wanted, self.variant.wanted, index, 0)

    def _member(self, index: Value) -> Number:
        return self._element(self.among, self.variant.among, index, 1)

    def _write_answer(self, found: Value, index: Value) -> None:
        """Write whether an element was found."""
        f = self.f
        truth = ~found if self.variant.invert else found
        f.store(f.convert("zext", truth, I8), f.element(self.result, index, I8), 1)

    def _equal(self, one: Number, other: Number) -> Value:
        f, common = self.f, self.variant.common
        if common.kind == "b":
            return ~(real(one) ^ real(other))
        return real(primitive(f, Prim.EQ, common, [one, other])[0])

    def _less(self, one: Number, other: Number) -> Value:
        """Whether a member of the sorted set comes before an element that is not NaN."""
        f, common = self.f, self.variant.common
        if isinstance(one, Pair):
            assert isinstance(other, Pair)
            known = f.compare("ord", one.real, one.imag)
            tie = one.real.equals(other.real) & (one.imag < other.imag)
            return known & ((one.real < other.real) | tie)
        if common.kind == "b":
            return ~one & real(other)
        return real(primitive(f, Prim.LT, common, [one, other])[0])

    # --------------------------------------------------------------- functions

    def compare(self) -> None:
        """Compare the elements of a worker with all members."""
        f = self.f
        begin, end = worker_share(self.count, *f.arguments[1:])
        if self.variant.lanes:
            whole = begin + ((end - begin) & -self.variant.lanes)
            with f.loop(begin, whole, self.variant.lanes) as loop:
                self._compare(loop.index, self.variant.lanes)
            begin = whole
        with f.loop(begin, end) as loop:
            self._compare(loop.index, 0)

    def _compare(self, index: Value, lanes: int) -> None:
        """Compare an element, or `lanes` neighbours, with all members."""
        f, common = self.f, self.variant.common
        if lanes:
            value = load_vector(f, common, f.offset(self.wanted, index * common.itemsize), lanes)
        else:
            value = self._wanted_element(index)
        with f.loop(0, self.members, carried=[f.constant(I1.by(lanes), 0)]) as loop:
            equal = self._equal(spread(f, self._member(loop.index), lanes), value)
            loop.carry(loop.carried[0] | equal)
        self._write_answer(loop.carried[0], index)

    def sort(self) -> None:
        """Copy the members and sort them; one worker does."""
        f, common = self.f, self.variant.common
        step = f.constant(I64, common.itemsize)
        with f.when(f.arguments[1].equals(0)):
            with f.loop(0, self.members) as loop:
                place = f.offset(self.set, loop.index * step)
                store_scalar(f, common, self._member(loop.index), place)
            sort = RowSortWriter(f, RowVariant(common), self.members, step, step)
            sort.write(self.set, self.set, (f.offset(self.set, self.buffer_size), self.set))

    def seek(self) -> None:
        """Look for the elements of a worker among the sorted members, of which there are some."""
        f = self.f
        begin, end = worker_share(self.count, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            value = self._wanted_element(loop.index)
            with f.repeat(f.constant(I64, 0), self.members) as steps:
                low, left = steps.carried
                half = left.shifted_down(1)
                middle = low + half
                before = self._less(self._sorted(middle), value)
                after = f.select(before, left - half - 1, half)
                steps.again(after > 0, f.select(before, middle + 1, low), after)
            place = f.minimum(steps.carried[0], self.members - 1)
            self._write_answer(self._equal(self._sorted(place), value), loop.index)

    def _sorted(self, index: Value) -> Number:
        f, common = self.f, self.variant.common
        return load_scalar(f, common, f.offset(self.set, index * common.itemsize))
