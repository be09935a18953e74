"""Small systems of equations: elimination with row exchanges, Cholesky's factor.

Matrices are factored in float64 on the stack, whatever their dtype, in rows that begin with a
vector, so that rows are added vector by vector.  Where a pivot is zero, infinite or NaN the kernel
says that it failed, and LAPACK has the last word.  Threads share stacks of matrices.
"""

from __future__ import annotations

import math
from typing import Final

from tawny import dtype as dt
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
from tawny.engine.llvm.ir.builder import F64, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.expressions import emit_op
from tawny.engine.llvm.scalar.numbers import real
from tawny.op import ELEMENTWISE

STACK_BYTES: Final = 1 << 16
"""Bytes on the stack for a matrix and its right-hand side: 64 x 64 with an inverse."""

SAFE: Final = 1e290
"""Products of pivots are trusted between this and its inverse; else LAPACK adds logarithms."""


def elimination_kernel(task: str, matrices: MatrixStack, columns: int) -> CompiledKernel | None:
    """The kernel of "solve", "inv", "det" or "slogdet"; None where matrices are too large.

    Operands are matrices and, of "solve", right-hand sides of `columns` columns.
    """
    n = matrices.arrays[0].shape[-1]
    lanes = lanes_of(F64)
    width = _pad(n, lanes) + _pad(columns, lanes)
    if n == 0 or n * width * 8 > STACK_BYTES:
        return None
    library = _elimination(task, matrices.dtypes, len(matrices.stack))
    count = math.prod(matrices.stack)
    shared = count > 1 and count * n * n * width > SHARED_PRODUCTS
    return CompiledKernel(library, SYMBOL, matrices.parameters(n, columns), shared, 0)


def cholesky_kernel(matrices: MatrixStack, *, upper: bool) -> CompiledKernel | None:
    """The kernel of Cholesky's factor; None where matrices are too large."""
    n = matrices.arrays[0].shape[-1]
    if n == 0 or n * _pad(n, lanes_of(F64)) * 8 > STACK_BYTES:
        return None
    library = _cholesky(matrices.dtypes, len(matrices.stack), upper)
    count = math.prod(matrices.stack)
    shared = count > 1 and count * n * n * n > SHARED_PRODUCTS
    return CompiledKernel(library, SYMBOL, matrices.parameters(n, 0), shared, 0)


def _pad(n: int, lanes: int) -> int:
    return -(-n // lanes) * lanes


class _LocalMatrix:
    """A matrix of float64 on the stack whose rows begin with a vector."""

    def __init__(self, f: Function, width: Value) -> None:
        self.f, self.width, self.lanes = f, width, lanes_of(F64)
        self.base = f.stack_buffer(STACK_BYTES)

    def place(self, i: Value, j: Value) -> Value:
        """Where an element lies."""
        return self.f.element(self.base, i * self.width + j, F64)

    def get(self, i: Value, j: Value) -> Value:
        """An element."""
        return self.f.load(F64, self.place(i, j))

    def put(self, i: Value, j: Value, number: Value) -> None:
        """Write an element."""
        self.f.store(number, self.place(i, j))

    def clear(self, count: Value) -> None:
        """Fill the first `count` rows with zeros."""
        with self.f.loop(0, count * self.width, self.lanes) as loop:
            zero = self.f.constant(F64.by(self.lanes), 0)
            self.f.store(zero, self.f.element(self.base, loop.index, F64))

    def exchange(self, i: Value, k: Value, first: Value) -> None:
        """Exchange two rows from a column on that begins a vector."""
        with self.f.loop(first, self.width, self.lanes) as loop:
            here, there = self.place(i, loop.index), self.place(k, loop.index)
            one, other = (self.f.load(F64.by(self.lanes), p) for p in (here, there))
            self.f.store(one, there)
            self.f.store(other, here)

    def subtract(self, i: Value, k: Value, factor: Value, first: Value) -> None:
        """Subtract a multiple of row `k` from row `i`, from a column on that begins a vector."""
        factors = self.f.splat(-factor, self.lanes)
        with self.f.loop(first, self.width, self.lanes) as loop:
            place, kind = self.place(i, loop.index), F64.by(self.lanes)
            other = self.f.load(kind, self.place(k, loop.index))
            self.f.store(self.f.fma(other, factors, self.f.load(kind, place)), place)

    def divide(self, i: Value, by: Value, first: Value) -> None:
        """Divide a row from a column on that begins a vector."""
        divisors = self.f.splat(by, self.lanes)
        with self.f.loop(first, self.width, self.lanes) as loop:
            place = self.place(i, loop.index)
            self.f.store(self.f.load(F64.by(self.lanes), place) / divisors, place)

    def start_of(self, column: Value) -> Value:
        """The column with which the vector of a column begins."""
        return column - column.unsigned_rest(self.lanes)


# ------------------------------------------------------------------ elimination


@lazy_library
def _elimination(module: Module, task: str, dtypes: tuple[DType, ...], axes: int) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _EliminationWriter(StackWriter(f, dtypes, axes), task).write()


class _EliminationWriter:
    """Makes matrices upper triangles by exchanging rows and subtracting multiples of them."""

    def __init__(self, stack: StackWriter, task: str) -> None:
        self.stack, self.f, self.task = stack, stack.f, task
        self.n, self.columns = stack.n, stack.columns
        lanes = lanes_of(F64)
        self.right = (self.n + (lanes - 1)).unsigned_over(lanes) * lanes
        width = self.right + (self.columns + (lanes - 1)).unsigned_over(lanes) * lanes
        self.rows = _LocalMatrix(self.f, width)

    def write(self) -> None:
        """One matrix of the stack after the other."""
        begin, end = worker_share(self.stack.count, *self.f.arguments[1:])
        with self.f.loop(begin, end) as loop:
            self.stack.go_to(loop.index)
            self._bring()
            determinant = self._eliminate()
            if self.task in ("solve", "inv"):
                self._substitute()
                self._put_solution()
            else:
                self._put_determinant(determinant)

    def _bring(self) -> None:
        """The matrix, and beside it the right-hand side or ones on the diagonal."""
        f, rows = self.f, self.rows
        rows.clear(self.n)
        with f.loop(0, self.n) as row:
            with f.loop(0, self.n) as column:
                rows.put(row.index, column.index, self.stack.take(0, row.index, column.index))
            if self.task == "solve":
                with f.loop(0, self.columns) as column:
                    number = self.stack.take(1, row.index, column.index)
                    rows.put(row.index, self.right + column.index, number)
            if self.task == "inv":
                rows.put(row.index, self.right + row.index, f.constant(F64, 1))

    def _eliminate(self) -> Value:
        """Make the matrix a triangle; gives the product of its diagonal, signed by exchanges."""
        f, rows = self.f, self.rows
        with f.loop(0, self.n, carried=[f.constant(F64, 1)]) as step:
            k = step.index
            size, pivot_row = self._largest(k)
            self.stack.fail_unless((size > 0) & (size < math.inf))
            first = rows.start_of(k)
            rows.exchange(k, pivot_row, first)
            pivot = rows.get(k, k)
            inverse = 1.0 / pivot
            with f.loop(k + 1, self.n) as below:
                rows.subtract(below.index, k, rows.get(below.index, k) * inverse, first)
            product = step.carried[0] * f.select(pivot_row.differs(k), -pivot, pivot)
            if self.task in ("det", "slogdet"):
                size = f.absolute(product)
                self.stack.fail_unless((size > 1 / SAFE) & (size < SAFE))
            step.carry(product)
        return step.carried[0]

    def _largest(self, k: Value) -> tuple[Value, Value]:
        """The size and the row of the largest element of a column, from the diagonal on."""
        f, rows = self.f, self.rows
        first = f.absolute(rows.get(k, k))
        with f.loop(k + 1, self.n, carried=[first, k]) as below:
            size = f.absolute(rows.get(below.index, k))
            best, place = below.carried
            larger = size > best
            below.carry(f.select(larger, size, best), f.select(larger, below.index, place))
        best, place = below.carried
        return best, place

    def _substitute(self) -> None:
        """Solve the triangle from its last row to its first."""
        f, rows = self.f, self.rows
        with f.loop(0, self.n) as step:
            i = self.n - 1 - step.index
            rows.divide(i, rows.get(i, i), self.right)
            with f.loop(0, i) as above:
                rows.subtract(above.index, i, rows.get(above.index, i), self.right)

    def _put_solution(self) -> None:
        f, result = self.f, len(self.stack.dtypes) - 1
        with f.loop(0, self.n) as row, f.loop(0, self.columns) as column:
            number = self.rows.get(row.index, self.right + column.index)
            self.stack.put(result, row.index, column.index, number)

    def _put_determinant(self, product: Value) -> None:
        f, zero = self.f, self.stack.number(0)
        if self.task == "det":
            self.stack.put(1, zero, zero, product)
            return
        self.stack.put(1, zero, zero, f.copysign(f.constant(F64, 1), product))
        logarithm = emit_op(f, ELEMENTWISE["log"], (dt.FLOAT64,), [f.absolute(product)])
        self.stack.put(2, zero, zero, real(logarithm))


# --------------------------------------------------------------------- Cholesky


@lazy_library
def _cholesky(module: Module, dtypes: tuple[DType, ...], axes: int, upper: bool) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _CholeskyWriter(StackWriter(f, dtypes, axes), upper).write()


class _CholeskyWriter:
    """Writes rows of the upper factor one after the other: its transpose is the lower one."""

    def __init__(self, stack: StackWriter, upper: bool) -> None:
        self.stack, self.f, self.n, self.upper = stack, stack.f, stack.n, upper
        lanes = lanes_of(F64)
        self.rows = _LocalMatrix(self.f, (self.n + (lanes - 1)).unsigned_over(lanes) * lanes)

    def write(self) -> None:
        """One matrix of the stack after the other."""
        f, rows = self.f, self.rows
        begin, end = worker_share(self.stack.count, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            self.stack.go_to(loop.index)
            rows.clear(self.n)
            with f.loop(0, self.n) as row, f.loop(row.index, self.n) as column:
                number = self.stack.take(0, *self._transposed_place(row.index, column.index))
                rows.put(row.index, column.index, number)
            with f.loop(0, self.n) as row:
                self._step(row.index)
            with f.loop(0, self.n) as row, f.loop(0, self.n) as column:
                number = f.select(column.index < row.index, 0.0, rows.get(row.index, column.index))
                self.stack.put(1, *self._transposed_place(row.index, column.index), number)

    def _transposed_place(self, i: Value, j: Value) -> tuple[Value, Value]:
        """The place in the operand and the result of an element of the upper factor."""
        return (i, j) if self.upper else (j, i)

    def _step(self, k: Value) -> None:
        f, rows = self.f, self.rows
        pivot = rows.get(k, k)
        self.stack.fail_unless((pivot > 0) & (pivot < math.inf))
        rows.divide(k, f.sqrt(pivot), rows.start_of(k))
        with f.loop(k + 1, self.n) as below:
            i = below.index
            rows.subtract(i, k, rows.get(k, i), rows.start_of(i))
