"""Small systems of equations: elimination with row exchanges, Cholesky's factor, triangles.

Matrices are factored in float64 on the stack, whatever their dtype, in rows that begin with a
vector, so that rows are added vector by vector.  Where a pivot is zero, infinite or NaN the kernel
says that it failed, and LAPACK has the last word.  Threads share stacks of matrices, and columns of
triangular systems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny import dtype as dt
from tawny.dtype import DType
from tawny.engine.cpu.kernels.kernel import KERNEL, ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import F64, I32, I64, PTR, Function, Module, Type, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.expressions import emit_op
from tawny.engine.llvm.scalar.numbers import real, storage_type
from tawny.op import ELEMENTWISE

SYMBOL: Final = "system"

STACK_BYTES: Final = 1 << 16
"""Bytes on the stack for a matrix and its right-hand side: 64 x 64 with an inverse."""

SHARED_PRODUCTS: Final = 1 << 15
"""Multiplications from which threads share the work; see `workshare`."""

COLUMNS: Final = 8
"""Vectors of right-hand sides of a triangle that are computed at once, in registers."""

SAFE: Final = 1e290
"""Products of pivots are trusted between this and its inverse; else LAPACK adds logarithms."""


class MatrixStack(NamedTuple):
    """The layout of stacks of matrices: for each of the stack one of each operand and result."""

    stack: tuple[int, ...]
    arrays: tuple[ArrayLayout, ...]
    """Operands and results; the stack's axes come first, two axes of the matrix last."""

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtype of each array."""
        return tuple([a.dtype for a in self.arrays])

    def parameters(self, *sizes: int) -> tuple[int, ...]:
        """What a kernel's row holds after the addresses; the last says of failure."""
        rank = len(self.stack)
        outer = [
            number
            for axis, n in enumerate(self.stack)
            for number in (n, *[a.strides[axis] for a in self.arrays])
        ]
        inner = [stride for a in self.arrays for stride in a.strides[rank:]]
        return (*outer, *sizes, *inner, 0)


def elimination_kernel(task: str, matrices: MatrixStack, columns: int) -> CompiledKernel | None:
    """The kernel of "solve", "inv", "det" or "slogdet"; None where matrices are too large.

    Operands are matrices and, of "solve", right-hand sides of `columns` columns.
    """
    n = matrices.arrays[0].shape[-1]
    lanes = _lanes(F64)
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
    if n == 0 or n * _pad(n, _lanes(F64)) * 8 > STACK_BYTES:
        return None
    library = _cholesky(matrices.dtypes, len(matrices.stack), upper)
    count = math.prod(matrices.stack)
    shared = count > 1 and count * n * n * n > SHARED_PRODUCTS
    return CompiledKernel(library, SYMBOL, matrices.parameters(n, 0), shared, 0)


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
    form = "columns" if columns > 1 else "dot" if by_rows else "add" if by_columns else "walk"
    library = _triangular(triangle.dtype, len(matrices.stack), form, lower, unit)
    work = math.prod(matrices.stack) * n * n * columns
    units = math.prod(matrices.stack) * columns
    parameters = matrices.parameters(n, columns)
    return CompiledKernel(library, SYMBOL, parameters, units > 1 and work > SHARED_PRODUCTS, 0)


def _lanes(type: Type) -> int:
    return max(host().vector_bytes // type.nbytes, 1)


def _pad(n: int, lanes: int) -> int:
    return -(-n // lanes) * lanes


class _StackWriter:
    """A kernel being written: its row, and a loop over a stack of matrices."""

    def __init__(self, f: Function, dtypes: Sequence[DType], axes: int) -> None:
        self.f, self.dtypes = f, dtypes
        row, count = f.arguments[0], len(dtypes)
        self._bases = [f.cell(row, a, PTR) for a in range(count)]
        place = count
        self.axes = [
            [f.cell(row, place + axis * (count + 1) + c) for c in range(count + 1)]
            for axis in range(axes)
        ]
        place += axes * (count + 1)
        self.n, self.columns = f.cell(row, place), f.cell(row, place + 1)
        place += 2
        self.strides = [
            (f.cell(row, place + 2 * a), f.cell(row, place + 2 * a + 1)) for a in range(count)
        ]
        self._status = f.element(row, place + 2 * count, I64)
        self.bases = self._bases

    @property
    def count(self) -> Value:
        """The number of matrices in the stack."""
        total = self.f.constant(I64, 1)
        for size, *_ in self.axes:
            total = total * size
        return total

    def go_to(self, number: Value) -> None:
        """Let the arrays begin with the matrix of a number."""
        places = coordinates(number, [size for size, *_ in self.axes])
        self.bases = [
            self._matrix_address(base, places, array) for array, base in enumerate(self._bases)
        ]

    def _matrix_address(self, base: Value, places: Sequence[Value], array: int) -> Value:
        for place, (_, *strides) in zip(places, self.axes, strict=True):
            base = self.f.offset(base, place * strides[array])
        return base

    def place(self, array: int, i: Value, j: Value) -> Value:
        """Where an element of a matrix lies."""
        by_row, by_column = self.strides[array]
        return self.f.offset(self.bases[array], i * by_row + j * by_column)

    def read(self, array: int, i: Value, j: Value) -> Value:
        """An element as it is stored."""
        return self.f.load(storage_type(self.dtypes[array]), self.place(array, i, j))

    def take(self, array: int, i: Value, j: Value) -> Value:
        """An element as float64."""
        number = self.read(array, i, j)
        return number if number.type == F64 else self.f.convert("fpext", number, F64)

    def put(self, array: int, i: Value, j: Value, number: Value) -> None:
        """Write an element that is given as float64."""
        kind = storage_type(self.dtypes[array])
        rounded = number if kind == F64 else self.f.convert("fptrunc", number, kind)
        self.f.store(rounded, self.place(array, i, j))

    def fail_unless(self, condition: Value) -> None:
        """Say that the kernel failed where a condition does not hold."""
        with self.f.when(~condition):
            self.f.store(self.f.constant(I64, 1), self._status, 8)

    def number(self, n: int) -> Value:
        """A whole number."""
        return self.f.constant(I64, n)


class _LocalMatrix:
    """A matrix of float64 on the stack whose rows begin with a vector."""

    def __init__(self, f: Function, width: Value) -> None:
        self.f, self.width, self.lanes = f, width, _lanes(F64)
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
        _EliminationWriter(_StackWriter(f, dtypes, axes), task).write()


class _EliminationWriter:
    """Makes matrices upper triangles by exchanging rows and subtracting multiples of them."""

    def __init__(self, stack: _StackWriter, task: str) -> None:
        self.stack, self.f, self.task = stack, stack.f, task
        self.n, self.columns = stack.n, stack.columns
        lanes = _lanes(F64)
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
        _CholeskyWriter(_StackWriter(f, dtypes, axes), upper).write()


class _CholeskyWriter:
    """Writes rows of the upper factor one after the other: its transpose is the lower one."""

    def __init__(self, stack: _StackWriter, upper: bool) -> None:
        self.stack, self.f, self.n, self.upper = stack, stack.f, stack.n, upper
        lanes = _lanes(F64)
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


# -------------------------------------------------------------------- triangles


@lazy_library
def _triangular(
    module: Module, dtype: DType, axes: int, form: str, lower: bool, unit: bool
) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _TriangularWriter(_StackWriter(f, [dtype] * 3, axes), form, lower, unit).write()


class _TriangularWriter:
    """Writes rows of the result one after the other, computed where it lies."""

    def __init__(self, stack: _StackWriter, form: str, lower: bool, unit: bool) -> None:
        self.stack, self.f, self.n, self.form = stack, stack.f, stack.n, form
        self.lower, self.unit = lower, unit
        self.type = storage_type(stack.dtypes[0])
        self.lanes = _lanes(self.type)

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
