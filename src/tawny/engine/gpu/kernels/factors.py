"""Factors of stacks of matrices, and linear systems, a block of some columns at a time.

Threads of one block factor the columns, and wait for each other after each; what follows from them
for the rest of the matrix is computed by a thread for each element or column.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tawny.dtype import DType, real_dtype
from tawny.engine.gpu.kernels.matrices import (
    PIVOT_BYTES,
    WIDTH,
    DeviceMatrices,
    MatrixView,
    binary,
    choose,
    is_zero,
    less_product,
    negative,
    shared_view,
)
from tawny.engine.gpu.launch import (
    STATUS,
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I32, I64, Function, Module, Value
from tawny.engine.llvm.scalar.expressions import emit_op
from tawny.engine.llvm.scalar.numbers import (
    Number,
    Pair,
    constant,
    flatten,
    real,
    storage_type,
    store_scalar,
    unflatten,
)
from tawny.op import ELEMENTWISE

THREADS: Final = ((32, 64), (256, 256))
"""Threads of a block that factors columns, by the most rows they have."""

MOST_THREADS: Final = 512
"""Threads of a block where there are more rows."""


# ------------------------------------------------------------ columns with pivots


class PanelStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    threads: int
    checks: bool
    """Whether a pivot that is zero is noted in `STATUS`."""


def panel_launch(
    dtype: DType,
    matrices: DeviceMatrices,
    sizes: tuple[int, int, int],
    pivots: DeviceMatrices,
    *,
    checks: bool,
) -> Launch:
    """Factor some columns: `P A = L U`, with the greatest element of each column as its pivot.

    `sizes` are those of the stack and of its matrices, and the first column.
    """
    stack, size, first = sizes
    rows, width = size - first, min(WIDTH, size - first)
    threads = next((n for most, n in THREADS if rows <= most), MOST_THREADS)
    code = KernelCode(write_panel, PanelStructure(dtype, threads, checks), long=True)
    numbers = (*matrices.numbers, size, first, first + width, pivots.start)
    places = (matrices.place, pivots.place, *([STATUS] if checks else []))
    return Launch(code, places, numbers, stack, threads)


def write_panel(module: Module, name: str, structure: PanelStructure) -> None:
    """Write the kernel that factors columns: a block for each matrix."""
    with grid_kernel(module, name, 2 + structure.checks, 8) as grid:
        _PivotWriter(grid, structure).write()


class _PivotWriter:
    """Writes a kernel whose blocks factor columns."""

    def __init__(self, grid: ThreadGrid, structure: PanelStructure) -> None:
        self.grid, self.f = grid, grid.f
        self.dtype, self.threads, self.checks = structure
        self.size, self.first, self.end, pivots = grid.numbers[4:]
        self.matrix = MatrixView(grid.f, self.dtype, grid.places[0], grid.numbers[:4], grid.block)
        start = pivots + grid.block * self.size * PIVOT_BYTES
        self.pivots = grid.f.offset(grid.places[1], start)
        module, kind = grid.f.module, storage_type(self.dtype)
        sizes = module.shared_array(f"sizes{self.threads}{kind}", self.threads * kind.nbytes)
        rows = module.shared_array(f"rows{self.threads}", self.threads * 8)
        self.sizes, self.rows = grid.f.shared_address(sizes), grid.f.shared_address(rows)
        self.kind = kind

    def write(self) -> None:
        """Column by column: find the pivot, exchange rows, divide, and take it from the others."""
        f, grid, matrix = self.f, self.grid, self.matrix
        with f.loop(self.first, self.end) as loop:
            k = loop.index
            pivot = self._find_pivot(k)
            with f.when(grid.thread.equals(0)):
                place = f.offset(self.pivots, k * PIVOT_BYTES)
                f.store(f.convert("trunc", pivot, I32), place)
            with f.loop(self.first + grid.thread, self.end, self._step) as columns:
                above, below = (matrix.load(row, columns.index) for row in (k, pivot))
                matrix.store(above, pivot, columns.index)
                matrix.store(below, k, columns.index)
            grid.barrier()
            divisor = matrix.load(k, k)
            zero = is_zero(divisor)
            if self.checks:
                with f.when(zero & grid.thread.equals(0)):
                    f.store(f.constant(I64, 1), grid.places[2])
            with f.loop(k + 1 + grid.thread, self.size, self._step) as rows:
                given = matrix.load(rows.index, k)
                ratio = binary(f, "divide", self.dtype, given, divisor)
                matrix.store(choose(f, zero, given, ratio), rows.index, k)
            grid.barrier()
            self._subtract(k)
            grid.barrier()

    @property
    def _step(self) -> Value:
        return self.f.constant(I64, self.threads)

    def _find_pivot(self, k: Value) -> Value:
        """The row below `k` with the greatest element of a column, the first of equal ones."""
        f, kind = self.f, self.kind
        nothing = f.constant(kind, -1.0)
        with f.loop(k + self.grid.thread, self.size, self._step, carried=[nothing, k]) as loop:
            greatest, row = loop.carried
            found = self.matrix.load(loop.index, k)
            own = (
                f.absolute(found.real) + f.absolute(found.imag)
                if isinstance(found, Pair)
                else f.absolute(found)
            )
            better = own > greatest
            loop.carry(f.select(better, own, greatest), f.select(better, loop.index, row))
        self._keep(self.grid.thread, *loop.carried)
        self.grid.barrier()
        half = self.threads // 2
        while half:
            with f.when(self.grid.thread < half):
                ours, theirs = self._slot(self.grid.thread), self._slot(self.grid.thread + half)
                earlier = theirs[0].equals(ours[0]) & (theirs[1] < ours[1])
                better = (theirs[0] > ours[0]) | earlier
                pairs = zip(theirs, ours, strict=True)
                self._keep(self.grid.thread, *[f.select(better, a, b) for a, b in pairs])
            self.grid.barrier()
            half //= 2
        return self._slot(f.constant(I64, 0))[1]

    def _keep(self, place: Value, size: Value, row: Value) -> None:
        self.f.store(size, self.f.element(self.sizes, place, self.kind))
        self.f.store(row, self.f.element(self.rows, place, I64))

    def _slot(self, place: Value) -> tuple[Value, Value]:
        f = self.f
        return (
            f.load(self.kind, f.element(self.sizes, place, self.kind)),
            f.load(I64, f.element(self.rows, place, I64)),
        )

    def _subtract(self, k: Value) -> None:
        """Take the pivot's row from the rows below, in the columns that follow."""
        f, matrix = self.f, self.matrix
        columns = self.end - k - 1
        with f.loop(self.grid.thread, (self.size - k - 1) * columns, self._step) as loop:
            number, across = (f.convert("trunc", n, I32) for n in (loop.index, columns))
            row = self.grid.widen(number.unsigned_over(across)) + k + 1
            column = self.grid.widen(number.unsigned_rest(across)) + k + 1
            left, right = matrix.load(row, k), matrix.load(k, column)
            matrix.store(less_product(f, matrix.load(row, column), left, right), row, column)


# ------------------------------------------------------------ definite matrices


def root_launch(dtype: DType, matrices: DeviceMatrices, stack: int, width: int) -> Launch:
    """The triangles of a few rows of definite matrices; others are noted in `STATUS`."""
    numbers = (*matrices.numbers, width)
    return Launch(KernelCode(write_root, dtype), (matrices.place, STATUS), numbers, stack, 128)


def write_root(module: Module, name: str, dtype: DType) -> None:
    """Write the kernel of a triangle: a block for each matrix, which it keeps in shared memory."""
    with grid_kernel(module, name, 2, 5) as grid:
        f, (*seen, width) = grid.f, grid.numbers
        given = MatrixView(f, dtype, grid.places[0], seen, grid.block)
        own = shared_view(f, dtype, "root", WIDTH + 1)  # columns lie in different banks of memory
        row, first = grid.thread & (WIDTH - 1), grid.thread.shifted_down(WIDTH.bit_length() - 1)
        step = grid.block_size.shifted_down(WIDTH.bit_length() - 1)
        with (
            f.when(row < width),
            f.loop(first, width, step) as columns,
            f.when(columns.index <= row),
        ):
            own.store(given.load(row, columns.index), row, columns.index)
        grid.barrier()
        with f.loop(0, width) as loop:
            _take_column(grid, own, loop.index, width)
            with f.when((row > loop.index) & (row < width)):
                left = own.load(row, loop.index)
                with (
                    f.loop(loop.index + 1 + first, width, step) as columns,
                    f.when(columns.index <= row),
                ):
                    right = own.load(columns.index, loop.index, conjugate=True)
                    total = less_product(f, own.load(row, columns.index), left, right)
                    own.store(total, row, columns.index)
            grid.barrier()
        with (
            f.when(row < width),
            f.loop(first, width, step) as columns,
            f.when(columns.index <= row),
        ):
            given.store(own.load(row, columns.index), row, columns.index)


def _take_column(grid: ThreadGrid, own: MatrixView, k: Value, width: Value) -> None:
    """Divide a column by the root of its first element, which takes that element's place."""
    f, dtype = grid.f, own.dtype
    kind, part = storage_type(dtype), real_dtype(dtype)
    square = own.load(k, k)
    square = square.real if isinstance(square, Pair) else square
    root = f.sqrt(square)
    with f.when(~(square > 0.0) & grid.thread.equals(0)):
        f.store(f.constant(I64, 1), grid.places[1])
    grid.barrier()
    with f.when(grid.thread.equals(0)):
        own.store(Pair(root, f.constant(kind, 0.0)) if dtype.kind == "c" else root, k, k)
    with f.loop(k + 1 + grid.thread, width, grid.block_size) as rows:
        given = flatten([own.load(rows.index, k)])
        parts = [real(binary(f, "divide", part, one, root)) for one in given]
        own.store(Pair(*parts) if len(parts) > 1 else parts[0], rows.index, k)
    grid.barrier()


# ------------------------------------------------------------ determinants


class DeterminantStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    has_log: bool
    """Whether the sign and the logarithm of the size are wanted."""


def determinant_launch(
    structure: DeterminantStructure,
    matrices: DeviceMatrices,
    stack: int,
    size: int,
    pivots: DeviceMatrices,
) -> Launch:
    """Determinants of matrices that were factored."""
    results = (1, 2) if structure.has_log else (1,)
    code = KernelCode(write_determinant, structure)
    numbers = (stack, size, pivots.start, *matrices.numbers)
    places = (matrices.place, pivots.place, *results)
    return Launch(code, places, numbers, blocks_for(stack, 64), 64)


def write_determinant(module: Module, name: str, structure: DeterminantStructure) -> None:
    """Write the kernel of determinants: a thread for each matrix."""
    dtype, has_log = structure
    part = real_dtype(dtype)
    with grid_kernel(module, name, 3 + has_log, 7) as grid:
        f, (stack, size, pivots, *seen) = grid.f, grid.numbers
        with f.when(grid.number < stack):
            matrix = MatrixView(f, dtype, grid.places[0], seen, grid.number)
            own = f.offset(grid.places[1], pivots + grid.number * size * PIVOT_BYTES)
            one, nothing = constant(f, dtype, 1, 0), constant(f, part, 0, 0)
            with f.loop(0, size, carried=flatten([one, nothing])) as loop:
                total, log = unflatten(loop.carried, [one, nothing])
                found = matrix.load(loop.index, loop.index)
                if has_log:
                    kinds = (dtype,)
                    absolute = emit_op(f, ELEMENTWISE["abs"], kinds, [found])
                    own_log = emit_op(f, ELEMENTWISE["log"], (part,), [absolute])
                    log = binary(f, "add", part, log, own_log)
                    found = _unit_of(f, found, real(absolute))
                place = f.load(I32, f.offset(own, loop.index * PIVOT_BYTES))
                moved = grid.widen(place).differs(loop.index)
                total = binary(f, "multiply", dtype, total, found)
                loop.carry(*flatten([choose(f, moved, negative(total), total), log]))
            total, log = unflatten(loop.carried, [one, nothing])
            at = f.offset(grid.places[2], grid.number * dtype.itemsize)
            store_scalar(f, dtype, total, at)
            if has_log:
                at = f.offset(grid.places[3], grid.number * part.itemsize)
                store_scalar(f, part, log, at)


def _unit_of(f: Function, x: Number, size: Value) -> Number:
    """A number divided by its size; zero stays zero."""
    zero = size.equals(0.0)
    parts = [f.select(zero, 0.0, p / size) for p in flatten([x])]
    return Pair(*parts) if len(parts) > 1 else parts[0]
