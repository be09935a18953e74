"""Sums of products of two sequences at every shift of one along the other.

Neighbouring shifts are computed side by side, vectors of them at once: each element of the second
sequence is multiplied with neighbours of the first.  Where these end, lanes are left out.  The sum
of a shift is formed in order, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.dtype import DType, kind_of
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel, KernelSequence
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.expressions import select
from tawny.engine.llvm.scalar.numbers import (
    Number,
    Pair,
    constant,
    flatten,
    lane_bytes,
    load_scalar,
    load_vector,
    parts,
    real,
    storage_type,
    store_vector,
    unflatten,
)

UNROLL: Final = 4
"""Vectors of shifts at once."""

SHARED_PRODUCTS: Final = 1 << 15
"""Products from which threads share the work; see `workshare`."""

BRING, SHIFTS = "bring", "shifts"


def correlate_kernel(
    long: ArrayLayout, other: ArrayLayout, first: int, count: int
) -> KernelSequence:
    """The kernel of `count` shifts from the `first` on, of all that overlap.

    Neighbours of the first sequence are brought together in scratch memory, if they are apart.
    """
    dtype, (n,), (m,) = long.dtype, long.shape, other.shape
    apart = long.strides[0] != dtype.itemsize and n > 1
    cells = (n, m, long.strides[0], other.strides[0], first, count)
    shared = count * min(n, m) > SHARED_PRODUCTS
    scratch = -(-n * dtype.itemsize // 64) * 64 if apart else 0
    kernel = CompiledKernel(
        _library(dtype, apart), BRING if apart else SHIFTS, cells, shared, scratch
    )
    return KernelSequence(kernel, ((SHIFTS, True),) if apart else ())


@lazy_library
def _library(module: Module, dtype: DType, apart: bool) -> None:
    if apart:
        with module.function(BRING, KERNEL) as f:
            _CorrelateWriter(f, dtype, apart).bring()
    with module.function(SHIFTS, KERNEL) as f:
        _CorrelateWriter(f, dtype, apart).shifts()


class _CorrelateWriter:
    """A function being written."""

    def __init__(self, f: Function, dtype: DType, apart: bool) -> None:
        self.f, self.dtype = f, dtype
        row = f.arguments[0]
        self.given, self.other, self.result = (f.cell(row, n, PTR) for n in range(3))
        self.together = f.cell(row, 3, PTR) if apart else self.given
        self.n, self.m, self.stride, self.step, self.first, self.count = (
            f.cell(row, 3 + apart + n) for n in range(6)
        )
        self.lanes = max(host().vector_bytes // lane_bytes(dtype), 1)
        self.parts, self.stored = parts(dtype), storage_type(dtype)

    def bring(self) -> None:
        """Copy the first sequence, so that neighbours lie side by side."""
        f = self.f
        begin, end = worker_share(self.n, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            source = f.offset(self.given, loop.index * self.stride)
            self._copy(source, f.offset(self.together, loop.index * self.dtype.itemsize))

    def _copy(self, source: Value, target: Value) -> None:
        f = self.f
        for part in range(self.parts):
            number = f.load(self.stored, f.element(source, part, self.stored))
            f.store(number, f.element(target, part, self.stored))

    def shifts(self) -> None:
        """The shifts of a worker, some vectors of them at once."""
        f, width = self.f, UNROLL * self.lanes
        chunks = (self.count + (width - 1)).unsigned_over(width)
        begin, end = worker_share(chunks, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            place = loop.index * width
            start = place + self.first - (self.m - 1)
            self._put(place, self._sums(start, width))

    def _sums(self, start: Value, width: int) -> list[Number]:
        """Sums of shifts; the first begins with the element `start`, which may not exist.

        Elements of the other sequence that all, or only some, of these shifts multiply.
        """
        f = self.f
        zero = start.of(0)
        low = f.minimum(f.maximum(zero - start - (width - 1), 0), self.m)
        high = f.maximum(f.minimum(self.n - start, self.m), low)
        whole = f.minimum(f.maximum(zero - start, low), high)
        rest = f.minimum(f.maximum(self.n - start - (width - 1), whole), high)
        sums: list[Number] = [constant(f, self.dtype, 0, self.lanes)] * UNROLL
        for begin, end, all_of_them in (
            (low, whole, False),
            (whole, rest, True),
            (rest, high, False),
        ):
            with f.loop(begin, end, carried=flatten(sums)) as loop:
                found = unflatten(loop.carried, sums)
                loop.carry(
                    *flatten(self._add_products(found, start + loop.index, loop.index, all_of_them))
                )
            sums = unflatten(loop.carried, sums)
        return sums

    def _add_products(
        self, sums: Sequence[Number], place: Value, index: Value, all_of_them: bool
    ) -> list[Number]:
        """Sums with the products of one element of the other sequence."""
        f, out = self.f, list[Number]()
        factor = self._factor(index)
        for number, total in enumerate(sums):
            first = place + number * self.lanes
            address = f.offset(self.together, first * self.dtype.itemsize)
            if all_of_them:
                element = load_vector(f, self.dtype, address, self.lanes)
                out.append(self._multiply_add(element, factor, total))
            else:
                element = self._existing(first, address)
                new = self._multiply_add(element, factor, total)
                out.append(select(f, self._exists(first, self.n, self.lanes), new, total))
        return out

    def _factor(self, index: Value) -> Number:
        """The conjugate of an element of the other sequence, in every lane."""
        f = self.f
        number = load_scalar(f, self.dtype, f.offset(self.other, index * self.step))
        if isinstance(number, Pair):
            return Pair(f.splat(number.real, self.lanes), f.splat(-number.imag, self.lanes))
        return f.splat(number, self.lanes)

    def _exists(self, first: Value, count: Value, lanes: int) -> Value:
        """Which of `lanes` neighbours are among `count` elements, given the number of the first."""
        f = self.f
        numbers = f.splat(first, lanes) + f.counting(I64, lanes)
        return numbers.unsigned_below(f.splat(count, lanes))

    def _existing(self, first: Value, address: Value) -> Number:
        """Neighbours, anything where they do not exist."""
        f, kind = self.f, self.stored.by(self.lanes * self.parts)
        mask = self._exists(first * self.parts, self.n * self.parts, kind.lanes)
        buffer = f.stack_buffer(self.lanes * self.dtype.itemsize)
        f.store(f.masked_load(kind, address, mask, f.constant(kind, 0)), buffer)
        return load_vector(f, self.dtype, buffer, self.lanes)

    def _multiply_add(self, one: Number, other: Number, total: Number) -> Number:
        """`total + one * other`; for truths `or` and `and`."""
        if isinstance(one, Pair):
            assert isinstance(other, Pair)
            assert isinstance(total, Pair)
            left = self._fma(-one.imag, other.imag, total.real)
            right = self._fma(one.imag, other.real, total.imag)
            return Pair(
                self._fma(one.real, other.real, left), self._fma(one.real, other.imag, right)
            )
        a, b, c = real(one), real(other), real(total)
        if self.dtype.kind == "b":
            return (a & b) | c
        return self._fma(a, b, c) if kind_of(self.dtype) == "f" else a * b + c

    def _fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.f.intrinsic("fmuladd", a.type, a, b, c)

    def _put(self, place: Value, sums: Sequence[Number]) -> None:
        """Write sums, as many as are wanted."""
        f, item = self.f, self.dtype.itemsize
        for number, total in enumerate(sums):
            first = place + number * self.lanes
            address = f.offset(self.result, first * item)
            left = self.count - first
            with f.when(left >= self.lanes):
                store_vector(f, self.dtype, total, address)
            with f.when(left < self.lanes):
                buffer = f.stack_buffer(self.lanes * item)
                store_vector(f, self.dtype, total, buffer)
                with f.loop(0, left) as loop:
                    offset = loop.index * item
                    self._copy(f.offset(buffer, offset), f.offset(address, offset))
