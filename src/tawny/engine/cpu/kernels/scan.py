"""Running sums and products along an axis.

Each element is combined with the result before it, one after the other as NumPy does, so the bits
are NumPy's.  Where neighbours lie side by side along another axis, a vector of rows is walked at
once; threads share the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.outer_axes import CELLS, OuterAxes, RowPlaces
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import PTR, Function, Module, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.expressions import emit_op, is_supported
from tawny.engine.llvm.scalar.numbers import (
    Number,
    constant,
    flatten,
    lane_bytes,
    load_scalar,
    load_vector,
    store_scalar,
    store_vector,
    unflatten,
)
from tawny.op import Elementwise

SYMBOL: Final = "scan"

SHARED_ELEMENTS: Final = 1 << 14
"""Elements from which threads share the work; see `workshare`."""

MOST_VECTORS: Final = 4
"""Vectors of rows that are walked at once, at most: their sums wait for each other's latency."""


class ScanSpec(NamedTuple):
    """A running fold: how neighbours are combined, along which axis, and what stands in front."""

    combine: Elementwise
    axis: int
    first: float | None
    """An element before all others, if the result has one."""


def scan_kernel(spec: ScanSpec, given: ArrayLayout, result: ArrayLayout) -> CompiledKernel | None:
    """The kernel; None where NumPy must combine."""
    dtypes = result.dtype, result.dtype
    if not is_supported(spec.combine, dtypes) or (given.dtype.kind == "c") > (
        result.dtype.kind == "c"
    ):
        return None
    axis, shape = spec.axis, given.shape
    others = [a for a in range(len(shape)) if a != axis and shape[a] != 1]
    lanes = max(host().vector_bytes // max(map(lane_bytes, (given.dtype, result.dtype))), 1)
    vectors = 0
    if others and others[-1] > axis and given.strides[others[-1]] == given.dtype.itemsize:
        vectors = min(shape[others[-1]] // lanes, MOST_VECTORS)
    across = others.pop() if vectors else None
    outer = OuterAxes.of(given, result, others)
    variant = _ScanVariant(
        spec.combine, given.dtype, result.dtype, spec.first, outer.number, lanes, vectors
    )
    width = 1 if across is None else shape[across]
    walked = (shape[axis], given.strides[axis], result.strides[axis])
    rows = outer.rows * width
    shared = rows > 1 and math.prod(shape) > SHARED_ELEMENTS
    return CompiledKernel(
        _library(*variant), SYMBOL, (*outer.parameters, width, *walked), shared, 0
    )


class _ScanVariant(NamedTuple):
    """All that the code depends on: it is made once for each."""

    combine: Elementwise
    given: DType
    dtype: DType
    first: float | None
    outer: int
    """Axes besides the walked one and that of the lanes."""
    lanes: int
    vectors: int
    """Vectors of rows that are walked at once; 0 where rows are walked one by one."""


@lazy_library
def _library(module: Module, *numbers: Any) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _ScanWriter(f, _ScanVariant(*numbers)).write()


class _ScanWriter:
    """Writes the kernel."""

    def __init__(self, f: Function, variant: _ScanVariant) -> None:
        self.f, self.variant = f, variant
        row = f.arguments[0]
        self.source, self.result = f.cell(row, 0, PTR), f.cell(row, 1, PTR)
        self.rows = RowPlaces(f, row, 2, variant.outer)
        place = 2 + CELLS * variant.outer
        self.width, self.length, self.stride, self.step = (f.cell(row, place + n) for n in range(4))

    def write(self) -> None:
        """Blocks of rows, or single rows."""
        f, variant = self.f, self.variant
        block = max(variant.lanes * variant.vectors, 1)
        blocks = (self.width + (block - 1)).unsigned_over(block)
        begin, end = worker_share(self.rows.times_rows(blocks), *f.arguments[1:])
        with f.loop(begin, end) as loop:
            number = loop.index.unsigned_over(blocks)
            source, result = self.rows.find(number, self.source, self.result)
            first = loop.index.unsigned_rest(blocks) * block
            source = f.offset(source, first * variant.given.itemsize)
            result = f.offset(result, first * variant.dtype.itemsize)
            self._rows(source, result, f.minimum(self.width - first, block))

    def _rows(self, source: Value, result: Value, count: Value) -> None:
        """As many rows side by side as there are."""
        f, variant = self.f, self.variant
        if not variant.vectors:
            self._walk(source, result, 0)
            return

        def whole() -> Sequence[Value]:
            self._walk(source, result, variant.vectors)
            return []

        def few() -> Sequence[Value]:
            with f.loop(0, count) as loop:
                here = f.offset(source, loop.index * variant.given.itemsize)
                there = f.offset(result, loop.index * variant.dtype.itemsize)
                self._walk(here, there, 0)
            return []

        f.either(count.equals(variant.lanes * variant.vectors), whole, few)

    def _walk(self, source: Value, result: Value, vectors: int) -> None:
        """One element of each row after another; no vectors mean a single row."""
        f, variant = self.f, self.variant
        if variant.first is not None:
            lanes = variant.lanes if vectors else 0
            self._store(
                [constant(f, variant.dtype, variant.first, lanes)] * max(vectors, 1), result
            )
            result = f.offset(result, self.step)
        with f.when(self.length > 0):
            totals = self._load(source, vectors)
            self._store(totals, result)
            with f.loop(1, self.length, carried=flatten(totals)) as loop:
                here = self._load(f.offset(source, loop.index * self.stride), vectors)
                both = zip(unflatten(loop.carried, totals), here, strict=True)
                dtypes = variant.dtype, variant.dtype
                sums = [emit_op(f, variant.combine, dtypes, pair) for pair in both]
                self._store(sums, f.offset(result, loop.index * self.step))
                loop.carry(*flatten(sums))

    def _load(self, address: Value, vectors: int) -> list[Number]:
        f, variant = self.f, self.variant
        if not vectors:
            return [cast(f, load_scalar(f, variant.given, address), variant.given, variant.dtype)]
        each = variant.lanes * variant.given.itemsize
        places = [f.offset(address, n * each) for n in range(vectors)]
        read = [load_vector(f, variant.given, p, variant.lanes) for p in places]
        return [cast(f, n, variant.given, variant.dtype) for n in read]

    def _store(self, numbers: Sequence[Number], address: Value) -> None:
        f, variant = self.f, self.variant
        each = variant.lanes * variant.dtype.itemsize
        for n, number in enumerate(numbers):
            place = f.offset(address, n * each)
            if _is_vector(number):
                store_vector(f, variant.dtype, number, place)
            else:
                store_scalar(f, variant.dtype, number, place)


def _is_vector(number: Number) -> bool:
    return bool(flatten([number])[0].type.lanes)
