"""Counts of integers, or sums of their weights.

Workers count shares of the integers in tables of their own, which are added up after.  With few
bins a worker has several tables, so that equal neighbours do not wait for each other.  Weights are
added by one worker, in the order in which they come.
"""

from __future__ import annotations

from typing import Final

from tawny.dtype import DType
from tawny.engine.cpu.kernels.indexing import load_index
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel, KernelSequence
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.numbers import storage_type
from tawny.pages import LINE

MOST_SLOTS: Final = 8
"""Workers that have tables, at most."""

FEW_BINS: Final = 1 << 12
"""Bins up to which a worker has several tables."""

MOST_BINS: Final = 1 << 16
"""Bins up to which workers share the integers."""

TABLES: Final = 4
"""Tables of a worker, where bins are few."""

SHARED_ELEMENTS: Final = 1 << 14
"""Integers from which threads share the work; see `workshare`."""

COUNT: Final = "count"
ADD_UP: Final = "add_up"


def count_kernel(given: ArrayLayout, result: ArrayLayout) -> KernelSequence:
    """The kernel of how often each integer occurs; its last parameter says that one is outside."""
    (n,), (bins,) = given.shape, result.shape
    shared = n > SHARED_ELEMENTS and bins <= MOST_BINS
    slots, tables = MOST_SLOTS if shared else 1, TABLES if bins <= FEW_BINS else 1
    table = max(-(-bins * 8 // LINE) * LINE, LINE)
    library = _counts(given.dtype, tables)
    parameters = n, given.strides[0], bins, slots, table, 0
    code = CompiledKernel(library, COUNT, parameters, shared, slots * tables * table)
    return KernelSequence(code, ((ADD_UP, shared),))


def weight_kernel(given: ArrayLayout, weights: ArrayLayout, result: ArrayLayout) -> CompiledKernel:
    """The kernel of the sums of weights; its last parameter says that an integer is outside."""
    steps = given.strides[0], weights.strides[0]
    parameters = given.shape[0], *steps, result.shape[0], 0
    return CompiledKernel(_sums(given.dtype, result.dtype), COUNT, parameters, False, 0)


@lazy_library
def _counts(module: Module, dtype: DType, tables: int) -> None:
    with module.function(COUNT, KERNEL) as f:
        _write_counts(f, dtype, tables)
    with module.function(ADD_UP, KERNEL) as f:
        row, worker, workers = f.arguments
        bins, slots, table = (f.cell(row, 5 + i) for i in range(3))
        begin, end = worker_share(bins, worker, workers)
        with f.loop(begin, end) as loop:
            first = f.element(f.cell(row, 2, PTR), loop.index, I64)
            with f.loop(0, slots * tables, carried=[f.constant(I64, 0)]) as each:
                number = f.load(I64, f.offset(first, each.index * table))
                each.carry(each.carried[0] + number)
            f.store(each.carried[0], f.element(f.cell(row, 1, PTR), loop.index, I64))


def _write_counts(f: Function, dtype: DType, tables: int) -> None:
    """A worker's share of the integers; tables of workers that are not there are cleared too."""
    row, worker, workers = f.arguments
    source, scratch = f.cell(row, 0, PTR), f.cell(row, 2, PTR)
    n, stride, bins, slots, table = (f.cell(row, 3 + i) for i in range(5))
    share = f.minimum(workers, slots)
    outside = f.constant(I64, 0)
    with f.when(worker < share):
        own = table * tables
        with f.loop(worker, slots, share) as slot, f.loop(0, own, LINE) as line:
            cleared = f.offset(scratch, slot.index * own + line.index)
            f.store(f.constant(I64.by(LINE // 8), 0), cleared, 8)
        first = f.offset(scratch, worker * own)
        begin, end = worker_share(n, worker, share)
        whole = begin + (end - begin).unsigned_over(tables) * tables

        def count(place: Value, number: int) -> Value:
            index = load_index(f, f.offset(source, place * stride), dtype)
            inside = index.unsigned_below(bins)
            known = f.select(inside, index, 0)
            cell = f.element(f.offset(first, table * number), known, I64)
            f.store(f.load(I64, cell) + 1, cell)
            return f.select(inside, outside, 1)

        with f.loop(begin, whole, tables, carried=[outside]) as loop:
            found = [count(loop.index + i, i) for i in range(tables)]
            total = loop.carried[0]
            for one in found:
                total = total | one
            loop.carry(total)
        with f.loop(whole, end, carried=loop.carried) as rest:
            rest.carry(rest.carried[0] | count(rest.index, 0))
        with f.when(rest.carried[0].differs(0)):
            f.store(f.constant(I64, 1), f.element(row, 8, I64))


@lazy_library
def _sums(module: Module, dtype: DType, kind: DType) -> None:
    with module.function(COUNT, KERNEL) as f:
        row, number = f.arguments[0], storage_type(kind)
        source, weights, result = (f.cell(row, i, PTR) for i in range(3))
        n, stride, step, bins = (f.cell(row, 3 + i) for i in range(4))
        with f.loop(0, bins) as loop:
            f.store(f.constant(number, 0), f.element(result, loop.index, number))
        with f.loop(0, n) as loop:
            index = load_index(f, f.offset(source, loop.index * stride), dtype)
            inside = index.unsigned_below(bins)
            with f.when(inside):
                cell = f.element(result, index, number)
                weight = f.load(number, f.offset(weights, loop.index * step))
                f.store(f.load(number, cell) + weight, cell)
            with f.when(~inside):
                f.store(f.constant(I64, 1), f.element(row, 7, I64))
