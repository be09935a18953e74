"""What a few factored columns mean for the rest of matrices, and systems of triangles.

A thread computes an element, or a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.gpu.kernels.matrices import (
    PIVOT_BYTES,
    WIDTH,
    DeviceMatrices,
    MatrixView,
    binary,
    choose,
    is_zero,
    less_product,
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
from tawny.engine.llvm.ir.builder import I32, I64, Module, Value
from tawny.engine.llvm.scalar.numbers import (
    Number,
    constant,
    flatten,
    store_scalar,
    unflatten,
)


def exchange_launch(
    dtype: DType, matrices: DeviceMatrices, sizes: tuple[int, int, int, int], pivots: DeviceMatrices
) -> Launch:
    """Exchange rows as the columns from the first on were pivoted.

    `sizes` are those of the stack, of its matrices, how many columns are given, and the first.
    """
    stack, size, columns, first = sizes
    total, last = stack * columns, min(first + WIDTH, size)
    numbers = (total, columns, size, first, last, pivots.start, *matrices.numbers)
    code, places = KernelCode(write_exchange, dtype), (matrices.place, pivots.place)
    return Launch(code, places, numbers, blocks_for(total))


def write_exchange(module: Module, name: str, dtype: DType) -> None:
    """Write the kernel that exchanges rows: a thread for each column."""
    with grid_kernel(module, name, 2, 10) as grid:
        f, (total, columns, size, first, last, pivots, *seen) = grid.f, grid.numbers
        with f.when(grid.number < total):
            number, column = grid.number.unsigned_over(columns), grid.number.unsigned_rest(columns)
            matrix = MatrixView(f, dtype, grid.places[0], seen, number)
            own = f.offset(grid.places[1], pivots + number * size * PIVOT_BYTES)
            with f.loop(first, last) as loop:
                place = f.load(I32, f.offset(own, loop.index * PIVOT_BYTES))
                pivot = grid.widen(place)
                above, below = (matrix.load(row, column) for row in (loop.index, pivot))
                matrix.store(above, pivot, column)
                matrix.store(below, loop.index, column)


class TriangleStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    unit: bool
    """Whether the diagonal is taken for ones."""
    conjugate: bool
    checks: bool
    """Whether a zero on the diagonal is noted in `STATUS`."""


def triangle_launch(
    structure: TriangleStructure,
    triangle: DeviceMatrices,
    given: DeviceMatrices,
    sizes: tuple[int, int, int],
) -> Launch:
    """Solve systems of a small lower triangle, in place.

    `sizes` are those of the stack, of the triangle, and how many columns are given.
    """
    stack, width, columns = sizes
    threads = _threads(structure.dtype)
    across = -(-columns // threads)
    places = (triangle.place, given.place, *([STATUS] if structure.checks else []))
    numbers = (across, columns, width, *triangle.numbers, *given.numbers)
    return Launch(KernelCode(write_triangle, structure), places, numbers, stack * across, threads)


def _threads(dtype: DType) -> int:
    """Threads of a block, whose columns fit its memory beside the triangle."""
    return 64 if dtype.itemsize <= 8 else 32


def write_triangle(module: Module, name: str, structure: TriangleStructure) -> None:
    """Write the kernel that solves a triangle: a thread for each column, in shared memory."""
    dtype = structure.dtype
    with grid_kernel(module, name, 2 + structure.checks, 11) as grid:
        f, (across, columns, width, *seen) = grid.f, grid.numbers
        number, threads = grid.block.unsigned_over(across), _threads(dtype)
        column = grid.block.unsigned_rest(across) * threads + grid.thread
        triangle = MatrixView(f, dtype, grid.places[0], seen[:4], number)
        given = MatrixView(f, dtype, grid.places[1], seen[4:], number)
        own_triangle = shared_view(f, dtype, "triangle", WIDTH)
        own = shared_view(f, dtype, "columns", threads)
        with f.loop(grid.thread, width * WIDTH, f.constant(I64, threads)) as loop:
            row = loop.index.shifted_down(WIDTH.bit_length() - 1)
            place = loop.index & (WIDTH - 1)
            with f.when(place <= row):
                factor = triangle.load(row, place, structure.conjugate)
                own_triangle.store(factor, row, place)
        grid.barrier()
        with f.when(column < columns):
            with f.loop(0, width) as rows:
                own.store(given.load(rows.index, column), rows.index, grid.thread)
            with f.loop(0, width) as rows:
                found = _solve_row(grid, structure, own_triangle, own, rows.index)
                own.store(found, rows.index, grid.thread)
                given.store(found, rows.index, column)


def _solve_row(
    grid: ThreadGrid,
    structure: TriangleStructure,
    triangle: MatrixView,
    own: MatrixView,
    row: Value,
) -> Number:
    """An element of this thread's column, once those above it are there."""
    f = grid.f
    start = own.load(row, grid.thread)
    with f.loop(0, row, carried=flatten([start])) as loop:
        (before,) = unflatten(loop.carried, [start])
        factors = triangle.load(row, loop.index), own.load(loop.index, grid.thread)
        loop.carry(*flatten([less_product(f, before, *factors)]))
    (found,) = unflatten(loop.carried, [start])
    if structure.unit:
        return found
    divisor = triangle.load(row, row)
    if structure.checks:
        with f.when(is_zero(divisor)):
            f.store(f.constant(I64, 1), grid.places[2])
    return binary(f, "divide", structure.dtype, found, divisor)


class UpdateStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    conjugates: tuple[bool, bool]
    """Whether the conjugates of the left and of the right factor are taken."""
    lower: bool
    """Whether what is above the diagonal is left as it is."""
    by_rows: tuple[bool, bool] = (True, True)
    """Whether neighbours of the left and of the right factor are in a row; else in a column."""


EACH: Final = 4
"""Elements that a thread computes, in rows below each other."""


def update_launch(
    structure: UpdateStructure,
    factors: tuple[DeviceMatrices, DeviceMatrices],
    given: DeviceMatrices,
    sizes: tuple[int, int, int, int],
) -> Launch | None:
    """Take products of matrices from others; `sizes` are the stack, rows, columns and the depth.

    The depth is `WIDTH` at most.
    """
    stack, rows, columns, depth = sizes
    down, across = -(-rows // WIDTH), -(-columns // WIDTH)
    if not stack * down * across:
        return None
    left, right = factors
    by_rows = abs(left.column) <= abs(left.row), abs(right.column) <= abs(right.row)
    views = (*left.numbers, *right.numbers, *given.numbers)
    numbers = (down, across, rows, columns, depth, *views)
    places = left.place, right.place, given.place
    code = KernelCode(write_update, structure._replace(by_rows=by_rows))
    return Launch(code, places, numbers, stack * down * across, WIDTH * WIDTH // EACH)


def write_update(module: Module, name: str, structure: UpdateStructure) -> None:
    """Write the kernel that subtracts products: a block for each square of `WIDTH` elements."""
    dtype = structure.dtype
    with grid_kernel(module, name, 3, 17) as grid:
        f, (down, across, rows, columns, depth, *seen) = grid.f, grid.numbers
        number, right_tile = grid.block.unsigned_over(across), grid.block.unsigned_rest(across)
        down_tile, number = number.unsigned_rest(down), number.unsigned_over(down)
        left, right, given = (
            MatrixView(f, dtype, base, seen[4 * i : 4 * i + 4], number)
            for i, base in enumerate(grid.places)
        )
        padding = int(dtype.itemsize <= 8)  # two squares fit the memory that every device has
        own = [shared_view(f, dtype, side, WIDTH + padding) for side in ("left", "right")]
        first_row, first_column = down_tile * WIDTH, right_tile * WIDTH
        is_there = right_tile <= down_tile if structure.lower else right_tile < across
        with f.when(is_there):
            ends = rows - first_row, columns - first_column
            for side, (factor, start, sizes) in enumerate(
                (
                    (left, (first_row, None), (ends[0], depth)),
                    (right, (None, first_column), (depth, ends[1])),
                )
            ):
                _take_square(grid, structure, side, factor, own[side], start, sizes)
            grid.barrier()
            _subtract(
                grid, structure, own, given, (first_row, first_column), (rows, columns, depth)
            )


def _take_square(
    grid: ThreadGrid,
    structure: UpdateStructure,
    side: int,
    factor: MatrixView,
    own: MatrixView,
    corner: tuple[Value | None, Value | None],
    sizes: tuple[Value, Value],
) -> None:
    """Copy a part of a factor to shared memory, neighbours by neighbouring threads."""
    f = grid.f
    over = grid.thread.shifted_down(WIDTH.bit_length() - 1)
    within = grid.thread & (WIDTH - 1)
    for turn in range(EACH):
        outer = over + turn * (WIDTH // EACH)
        row, column = (outer, within) if structure.by_rows[side] else (within, outer)
        with f.when((row < sizes[0]) & (column < sizes[1])):
            at_row = row if corner[0] is None else corner[0] + row
            at_column = column if corner[1] is None else corner[1] + column
            own.store(factor.load(at_row, at_column, structure.conjugates[side]), row, column)


def _subtract(
    grid: ThreadGrid,
    structure: UpdateStructure,
    own: Sequence[MatrixView],
    given: MatrixView,
    corner: tuple[Value, Value],
    sizes: tuple[Value, Value, Value],
) -> None:
    """Take the products of two squares from elements of a matrix."""
    f, (left, right), (rows, columns, depth) = grid.f, own, sizes
    within = grid.thread & (WIDTH - 1)
    over = grid.thread.shifted_down(WIDTH.bit_length() - 1)
    places = [over + turn * (WIDTH // EACH) for turn in range(EACH)]
    zero = constant(f, structure.dtype, 0, 0)
    with f.loop(0, depth, carried=flatten([zero] * EACH)) as loop:
        totals = unflatten(loop.carried, [zero] * EACH)
        factor = right.load(loop.index, within)
        loop.carry(
            *flatten(
                [
                    less_product(f, total, left.load(place, loop.index), factor)
                    for total, place in zip(totals, places, strict=True)
                ]
            )
        )
    column = corner[1] + within
    for place, total in zip(places, unflatten(loop.carried, [zero] * EACH), strict=True):
        row = corner[0] + place
        inside = (row < rows) & (column < columns)
        with f.when(inside & (column <= row) if structure.lower else inside):
            whole = binary(f, "add", structure.dtype, given.load(row, column), total)
            given.store(whole, row, column)


def identity_launch(dtype: DType, place: int, stack: int, size: int) -> Launch:
    """Ones on the diagonal, and zeros."""
    total = stack * size * size
    code = KernelCode(write_identity, dtype)
    return Launch(code, (place,), (total, size), blocks_for(total))


def write_identity(module: Module, name: str, dtype: DType) -> None:
    """Write the kernel of identity matrices: a thread for each element."""
    with grid_kernel(module, name, 1, 2) as grid:
        f, (total, size) = grid.f, grid.numbers
        with f.when(grid.number < total):
            within = grid.number.unsigned_rest(size * size)
            on_diagonal = within.unsigned_rest(size + 1).equals(0)
            one, zero = (constant(f, dtype, n, 0) for n in (1, 0))
            target = f.offset(grid.places[0], grid.number * dtype.itemsize)
            store_scalar(f, dtype, choose(f, on_diagonal, one, zero), target)


def clear_launch(dtype: DType, matrices: DeviceMatrices, stack: int, size: int) -> Launch:
    """Zeros above the diagonal."""
    total = stack * size * size
    numbers = (total, size, *matrices.numbers)
    return Launch(KernelCode(write_clear, dtype), (matrices.place,), numbers, blocks_for(total))


def write_clear(module: Module, name: str, dtype: DType) -> None:
    """Write the kernel that clears a triangle: a thread for each element."""
    with grid_kernel(module, name, 1, 6) as grid:
        f, (total, size, *seen) = grid.f, grid.numbers
        with f.when(grid.number < total):
            number, column = grid.number.unsigned_over(size), grid.number.unsigned_rest(size)
            row = number.unsigned_rest(size)
            with f.when(row < column):
                matrix = MatrixView(f, dtype, grid.places[0], seen, number.unsigned_over(size))
                matrix.store(constant(f, dtype, 0, 0), row, column)
