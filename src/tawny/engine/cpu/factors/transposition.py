"""Square matrices transposed where they lie; what was below the diagonal becomes zeros."""

from __future__ import annotations

from typing import Final

from tawny.dtype import DType
from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel
from tawny.engine.cpu.kernels.matrix_stacks import SHARED_PRODUCTS, SYMBOL, MatrixStack, StackWriter
from tawny.engine.llvm.ir.builder import Module, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.numbers import storage_type

TILE: Final = 16
"""Side of the squares that are exchanged at a time."""


def triangle_kernel(matrices: MatrixStack, *, turned: bool) -> CompiledKernel:
    """The kernel that clears what is below the diagonal; `turned`, what is above goes there."""
    (array,) = matrices.arrays
    n = array.shape[-1]
    library = _library(array.dtype, len(matrices.stack), turned)
    return CompiledKernel(library, SYMBOL, matrices.parameters(n, 0), n * n > SHARED_PRODUCTS, 0)


@lazy_library
def _library(module: Module, dtype: DType, axes: int, turned: bool) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        stack = StackWriter(f, [dtype], axes)
        with f.loop(0, stack.count) as matrix:
            stack.go_to(matrix.index)
            if turned:
                _move_up_down(stack)
            else:
                _clear_below(stack)


def _clear_below(stack: StackWriter) -> None:
    f, zero = stack.f, stack.f.constant(storage_type(stack.dtypes[0]), 0)
    _, worker, workers = f.arguments
    with f.loop(worker, stack.n, workers) as row, f.loop(0, row.index) as column:
        f.store(zero, stack.place(0, row.index, column.index))


def _move_up_down(stack: StackWriter) -> None:
    """Tiles above the diagonal to where they belong below; workers take rows of them in turns."""
    f, n = stack.f, stack.n
    _, worker, workers = f.arguments
    tiles = (n + (TILE - 1)).unsigned_over(TILE)
    with f.loop(worker, tiles, workers) as row, f.loop(row.index, tiles) as column:
        last = f.minimum((row.index + 1) * TILE, n)
        with f.loop(row.index * TILE, last) as inner:
            _move_row(stack, inner.index, column.index)


def _move_row(stack: StackWriter, i: Value, tile: Value) -> None:
    f, zero = stack.f, stack.f.constant(storage_type(stack.dtypes[0]), 0)
    first = f.maximum(tile * TILE, i + 1)
    with f.loop(first, f.minimum((tile + 1) * TILE, stack.n)) as loop:
        number = stack.read(0, i, loop.index)
        f.store(number, stack.place(0, loop.index, i))
        f.store(zero, stack.place(0, i, loop.index))
