"""Running sums and products along an axis.

Each element is combined with the result before it, one after the other as NumPy does, so the bits
are NumPy's.  Where neighbours lie side by side along another axis, a vector of rows is walked at
once; threads share the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tawny.codegen.ir.builder import KERNEL, PTR, Function, Module, Value
from tawny.codegen.kernels.kernel import ArrayLayout, CompiledKernel
from tawny.codegen.kernels.workshare import digits, worker_share
from tawny.codegen.runtime.host import host
from tawny.codegen.runtime.library import lazy_library
from tawny.codegen.scalar.casts import cast
from tawny.codegen.scalar.expressions import emit_op, is_supported
from tawny.codegen.scalar.numbers import (
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
from tawny.dtype import DType
from tawny.op import Elementwise

SYMBOL: Final = "scan"

SHARED_ELEMENTS: Final = 1 << 14
"""Threads share the work only of more elements."""

MOST_VECTORS: Final = 4
"""So many vectors of rows are walked at once."""


class ScanSpec(NamedTuple):
    """A running fold: how neighbours are combined, along which axis, and what stands in front."""

    combine: Elementwise
    axis: int
    first: float | None
    """An element before all others, if the result has one."""


def scan_kernel(scan: ScanSpec, given: ArrayLayout, result: ArrayLayout) -> CompiledKernel | None:
    """The kernel; None where NumPy must combine."""
    dtypes = result.dtype, result.dtype
    if not is_supported(scan.combine, dtypes) or (given.dtype.kind == "c") > (
        result.dtype.kind == "c"
    ):
        return None
    axis, shape = scan.axis, given.shape
    others = [a for a in range(len(shape)) if a != axis and shape[a] != 1]
    lanes = max(host().vector_bytes // max(map(lane_bytes, (given.dtype, result.dtype))), 1)
    vectors = 0
    if others and others[-1] > axis and given.strides[others[-1]] == given.dtype.itemsize:
        vectors = min(shape[others[-1]] // lanes, MOST_VECTORS)
    across = others.pop() if vectors else None
    code = _Code(scan.combine, given.dtype, result.dtype, scan.first, len(others), lanes, vectors)
    outer = [n for a in others for n in (shape[a], given.strides[a], result.strides[a])]
    width = 1 if across is None else shape[across]
    walked = (shape[axis], given.strides[axis], result.strides[axis])
    rows = math.prod([shape[a] for a in others]) * width
    shared = rows > 1 and math.prod(shape) > SHARED_ELEMENTS
    return CompiledKernel(_library(*code), SYMBOL, (*outer, width, *walked), shared, 0)


class _Code(NamedTuple):
    """What the code depends on."""

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
def _library(*numbers: Any) -> str:
    module = Module()
    with module.function(SYMBOL, KERNEL) as f:
        _Scan(f, _Code(*numbers)).write()
    return module.text()


class _Scan:
    """The kernel being written."""

    def __init__(self, f: Function, code: _Code) -> None:
        self.f, self.code = f, code
        row = f.arguments[0]
        self.source, self.result = f.cell(row, 0, PTR), f.cell(row, 1, PTR)
        self.outer = [[f.cell(row, 2 + 3 * a + n) for n in range(3)] for a in range(code.outer)]
        place = 2 + 3 * code.outer
        self.width, self.length, self.stride, self.step = (f.cell(row, place + n) for n in range(4))

    def write(self) -> None:
        """Blocks of rows, or single rows."""
        f, code = self.f, self.code
        block = max(code.lanes * code.vectors, 1)
        blocks = (self.width + (block - 1)).unsigned_over(block)
        units = blocks
        for n, _, _ in self.outer:
            units = units * n
        begin, end = worker_share(units, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            source, result = self.source, self.result
            places = digits(loop.index.unsigned_over(blocks), [n for n, _, _ in self.outer])
            for place, (_, stride, step) in zip(places, self.outer, strict=True):
                source = f.offset(source, place * stride)
                result = f.offset(result, place * step)
            first = loop.index.unsigned_rest(blocks) * block
            source = f.offset(source, first * code.given.itemsize)
            result = f.offset(result, first * code.dtype.itemsize)
            self._rows(source, result, f.minimum(self.width - first, block))

    def _rows(self, source: Value, result: Value, count: Value) -> None:
        """As many rows side by side as there are."""
        f, code = self.f, self.code
        if not code.vectors:
            self._walk(source, result, 0)
            return

        def whole() -> Sequence[Value]:
            self._walk(source, result, code.vectors)
            return []

        def few() -> Sequence[Value]:
            with f.loop(0, count) as loop:
                here = f.offset(source, loop.index * code.given.itemsize)
                there = f.offset(result, loop.index * code.dtype.itemsize)
                self._walk(here, there, 0)
            return []

        f.either(count.equals(code.lanes * code.vectors), whole, few)

    def _walk(self, source: Value, result: Value, vectors: int) -> None:
        """One element of each row after another; no vectors mean a single row."""
        f, code = self.f, self.code
        if code.first is not None:
            lanes = code.lanes if vectors else 0
            self._store([constant(f, code.dtype, code.first, lanes)] * max(vectors, 1), result)
            result = f.offset(result, self.step)
        with f.when(self.length > 0):
            totals = self._load(source, vectors)
            self._store(totals, result)
            with f.loop(1, self.length, carried=flatten(totals)) as loop:
                here = self._load(f.offset(source, loop.index * self.stride), vectors)
                both = zip(unflatten(loop.carried, totals), here, strict=True)
                dtypes = code.dtype, code.dtype
                sums = [emit_op(f, code.combine, dtypes, pair) for pair in both]
                self._store(sums, f.offset(result, loop.index * self.step))
                loop.carry(*flatten(sums))

    def _load(self, address: Value, vectors: int) -> list[Number]:
        f, code = self.f, self.code
        if not vectors:
            return [cast(f, load_scalar(f, code.given, address), code.given, code.dtype)]
        each = code.lanes * code.given.itemsize
        places = [f.offset(address, n * each) for n in range(vectors)]
        read = [load_vector(f, code.given, p, code.lanes) for p in places]
        return [cast(f, n, code.given, code.dtype) for n in read]

    def _store(self, numbers: Sequence[Number], address: Value) -> None:
        f, code = self.f, self.code
        each = code.lanes * code.dtype.itemsize
        for n, number in enumerate(numbers):
            place = f.offset(address, n * each)
            if _is_vector(number):
                store_vector(f, code.dtype, number, place)
            else:
                store_scalar(f, code.dtype, number, place)


def _is_vector(number: Number) -> bool:
    return bool(flatten([number])[0].type.lanes)
