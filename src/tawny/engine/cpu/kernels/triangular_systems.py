"""Triangular systems of equations of any size: rows of the result are computed where they lie.

Threads share stacks of matrices, and columns of right-hand sides.
"""

from __future__ import annotations

import math
from typing import Final

from tawny.dtype import DType
from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel
from tawny.engine.cpu.kernels.matrix_stacks import (
    SHARED_PRODUCTS,
    SYMBOL,
    MatrixStack,
    StackWriter,
    lanes_of,
)
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I32, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.numbers import storage_type

COLUMNS: Final = 8
"""Vectors of right-hand sides of a triangle that are computed at once, in registers."""


def triangular_kernel(
    matrices: MatrixStack, columns: int, *, lower: bool, unit: bool
) -> CompiledKernel | None:
    """The kernel that solves triangular systems; None where there are none.

    The arrays are triangles, right-hand sides of `columns` columns, and the results.
    """
    triangle = matrices.arrays[0]
    n, item = triangle.shape[-1], triangle.dtype.itemsize
    if n == 0 or columns == 0:
        return None
    by_rows, by_columns = triangle.strides[-1] == item, triangle.strides[-2] == item
    dense = matrices.arrays[2].strides[-2] == item
    form = "dot" if by_rows else "add" if by_columns else "walk"
    if columns > 1 or not dense:
        form = "columns"
    library = _triangular(triangle.dtype, len(matrices.stack), form, lower, unit)
    work = math.prod(matrices.stack) * n * n * columns
    units = math.prod(matrices.stack) * columns
    parameters = matrices.parameters(n, columns)
    return CompiledKernel(library, SYMBOL, parameters, units > 1 and work > SHARED_PRODUCTS, 0)


@lazy_library
def _triangular(
    module: Module, dtype: DType, axes: int, form: str, lower: bool, unit: bool
) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _TriangularWriter(StackWriter(f, [dtype] * 3, axes), form, lower, unit).write()


class _TriangularWriter:
    """Writes rows of the result one after the other, computed where it lies."""

    def __init__(self, stack: StackWriter, form: str, lower: bool, unit: bool) -> None:
        self.stack, self.f, self.n, self.form = stack, stack.f, stack.n, form
        self.lower, self.unit = lower, unit
        self.type = storage_type(stack.dtypes[0])
        self.lanes = lanes_of(self.type)

    def write(self) -> None:
        """Blocks of columns of one matrix of the stack after the other."""
        f, block = self.f, COLUMNS * self.lanes
        columns = self.stack.columns
        blocks = (columns + (block - 1)).unsigned_over(block)
        begin, end = worker_share(self.stack.count * blocks, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            self.stack.go_to(loop.index.unsigned_over(blocks))
            first = loop.index.unsigned_rest(blocks) * block
            count = f.minimum(columns - first, block)
            self._bring(first, count)
            if self.form == "columns":
                with f.when(count.equals(block)):
                    self._columns(first, None)
                with f.when(count < block), f.loop(0, count, self.lanes) as part:
                    left = f.minimum(count - part.index, self.lanes)
                    rest = f.first_lanes(f.convert("trunc", left, I32), self.lanes)
                    self._columns(first + part.index, rest)
            else:
                self._one_column()

    def _bring(self, first: Value, count: Value) -> None:
        """Copy right-hand sides to the result."""
        f, stack = self.f, self.stack
        with f.loop(0, self.n) as row, f.loop(first, first + count) as column:
            number = stack.read(1, row.index, column.index)
            f.store(number, stack.place(2, row.index, column.index))

    def _row(self, step: Value) -> Value:
        """The row that is solved in a step: from the first on, or from the last."""
        return step if self.lower else self.n - 1 - step

    def _solved_rows(self, i: Value) -> tuple[Value, Value]:
        """The rows that are solved before row `i`."""
        return (self.stack.number(0), i) if self.lower else (i + 1, self.n)

    def _diagonal(self, i: Value) -> Value | None:
        """What a row is divided by, if anything."""
        if self.unit:
            return None
        pivot = self.stack.read(0, i, i)
        self.stack.fail_unless(self.f.absolute(pivot) > 0)
        return pivot

    def _columns(self, first: Value, mask: Value | None) -> None:
        """Some vectors of columns at once; with a mask a vector of which some lanes exist."""
        f, stack, kind = self.f, self.stack, self.type.by(self.lanes)
        vectors = COLUMNS if mask is None else 1

        def places(row: Value) -> list[Value]:
            start = stack.place(2, row, first)
            return [f.element(start, v * self.lanes, self.type) for v in range(vectors)]

        def load(place: Value) -> Value:
            if mask is None:
                return f.load(kind, place)
            return f.masked_load(kind, place, mask, f.constant(kind, 0))

        with f.loop(0, self.n) as step:
            i = self._row(step.index)
            rest = [load(p) for p in places(i)]
            with f.loop(*self._solved_rows(i), carried=rest) as solved:
                factor = f.splat(-stack.read(0, i, solved.index), self.lanes)
                known = [load(p) for p in places(solved.index)]
                both = zip(known, solved.carried, strict=True)
                solved.carry(*[f.fma(x, factor, total) for x, total in both])
            pivot = self._diagonal(i)
            for place, number in zip(places(i), solved.carried, strict=True):
                found = number if pivot is None else number / f.splat(pivot, self.lanes)
                if mask is None:
                    f.store(found, place)
                else:
                    f.masked_store(found, place, mask)

    def _one_column(self) -> None:
        f, stack, zero = self.f, self.stack, self.stack.number(0)
        with f.loop(0, self.n) as step:
            i = self._row(step.index)
            place = stack.place(2, i, zero)
            rest = f.load(self.type, place)
            if self.form != "add":
                rest = rest - self._dot(i, *self._solved_rows(i))
            pivot = self._diagonal(i)
            found = rest if pivot is None else rest / pivot
            f.store(found, place)
            if self.form == "add":
                self._subtract_column(i, found)

    def _dot(self, i: Value, begin: Value, end: Value) -> Value:
        """The product of a row of the triangle with what is solved."""
        f, stack, zero = self.f, self.stack, self.stack.number(0)
        total, middle = f.constant(self.type, 0), begin
        if self.form == "dot":
            kind = self.type.by(self.lanes)
            middle = begin + (end - begin).unsigned_over(self.lanes) * self.lanes
            with f.loop(begin, middle, self.lanes, carried=[f.constant(kind, 0)]) as loop:
                factor = f.load(kind, stack.place(0, i, loop.index))
                known = f.load(kind, stack.place(2, loop.index, zero))
                loop.carry(f.fma(factor, known, loop.carried[0]))
            for lane in range(self.lanes):
                total = total + f.lane(loop.carried[0], lane)
        with f.loop(middle, end, carried=[total]) as loop:
            factor = stack.read(0, i, loop.index)
            known = f.load(self.type, stack.place(2, loop.index, zero))
            loop.carry(f.fma(factor, known, loop.carried[0]))
        return loop.carried[0]

    def _subtract_column(self, k: Value, known: Value) -> None:
        """Subtract what one solved row adds to the rows that are not solved."""
        f, stack, zero = self.f, self.stack, self.stack.number(0)
        begin, end = (k + 1, self.n) if self.lower else (zero, k)
        middle = begin + (end - begin).unsigned_over(self.lanes) * self.lanes
        for first, last, lanes in ((begin, middle, self.lanes), (middle, end, 0)):
            kind, factor = self.type.by(lanes), f.splat(-known, lanes)
            with f.loop(first, last, max(lanes, 1)) as loop:
                place = stack.place(2, loop.index, zero)
                column = f.load(kind, stack.place(0, loop.index, k))
                f.store(f.fma(column, factor, f.load(kind, place)), place)
