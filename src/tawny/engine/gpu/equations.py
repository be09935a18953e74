"""How GPUs factor matrices and solve linear systems: a few launches for each block of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.blocks import CopyBlock
from tawny.engine.gpu.kernels.copies import copy_launch
from tawny.engine.gpu.kernels.factors import (
    DeterminantStructure,
    determinant_launch,
    panel_launch,
    root_launch,
)
from tawny.engine.gpu.kernels.matrices import PIVOT_BYTES, WIDTH, DeviceMatrices
from tawny.engine.gpu.kernels.systems import (
    TriangleStructure,
    UpdateStructure,
    clear_launch,
    exchange_launch,
    identity_launch,
    triangle_launch,
    update_launch,
)
from tawny.engine.gpu.launch import DeviceArray, GpuKernel, Launch
from tawny.engine.gpu.table import gpu_rule
from tawny.ops.factorisation import Cholesky
from tawny.ops.systems import Det, Inv, Slogdet, Solve, SolveTriangular, Square
from tawny.shape import Shape, broadcast_strides, contiguous_strides, size

SCRATCH_ALIGNMENT: Final = 64
"""Bytes at multiples of which parts of the scratch memory begin."""

MOST_BLOCKS: Final = 1 << 30
"""DeviceMatrices, or threads, from which the host must compute."""


def _matrices(shape: Shape, itemsize: int, place: int, start: int = 0) -> DeviceMatrices:
    """A new stack of matrices."""
    rows, columns = shape[-2:]
    return DeviceMatrices(place, start, rows * columns * itemsize, columns * itemsize, itemsize)


def _copy_launches(
    given: DeviceArray, shape: Shape, operand: int, place: int, start: int = 0
) -> list[Launch]:
    """Launches that copy an operand, repeated over a stack, to a new array of a shape."""
    item = int(given.dtype.itemsize)
    strides = broadcast_strides(given.shape, given.strides, shape)
    block = CopyBlock(operand, 0, shape, strides, start, contiguous_strides(shape, item))
    launch = copy_launch(block, item, place)
    return [] if launch is None else [launch]


# ------------------------------------------------------------ definite matrices


@gpu_rule(Cholesky)
def cholesky(
    op: Cholesky, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The triangle of some columns, then what they leave of the rest, and so on."""
    (x,), (result,) = operands, results
    count, n, dtype = size(x.shape[:-2]), x.shape[-1], result.dtype
    if not size(x.shape):
        return GpuKernel(())
    if size(x.shape) >= MOST_BLOCKS:
        return None
    whole = _matrices(x.shape, dtype.itemsize, 1)
    whole = whole.transpose if op.upper else whole
    launches: list[Launch | None] = list(_copy_launches(x, x.shape, 0, 1))
    is_complex = dtype.kind == "c"
    for first in range(0, n, WIDTH):
        width = min(WIDTH, n - first)
        left = n - first - width
        corner, panel = whole.part(first, first), whole.part(first + width, first)
        launches.append(root_launch(dtype, corner, count, width))
        if not left:
            break
        structure = TriangleStructure(dtype, unit=False, conjugate=is_complex, checks=False)
        sizes = (count, width, left)
        launches.append(triangle_launch(structure, corner, panel.transpose, sizes))
        update = UpdateStructure(dtype, (False, is_complex), lower=True)
        rest = whole.part(first + width, first + width)
        launches.append(
            update_launch(update, (panel, panel.transpose), rest, (count, left, left, width))
        )
    launches.append(clear_launch(dtype, whole, count, n))
    return _with_checks(launches, 0)


def _with_checks(launches: Sequence[Launch | None], scratch: int) -> GpuKernel:
    """A kernel whose launches note where there is no result."""
    return GpuKernel(tuple([one for one in launches if one is not None]), scratch, verified=True)


# ------------------------------------------------------------ triangles


def _solve_lower(
    structure: TriangleStructure,
    triangle: DeviceMatrices,
    given: DeviceMatrices,
    sizes: tuple[int, int, int],
) -> list[Launch | None]:
    """Launches that solve systems of a lower triangle, in place."""
    stack, n, columns = sizes
    launches = list[Launch | None]()
    for first in range(0, n, WIDTH):
        width = min(WIDTH, n - first)
        after, left = first + width, n - first - width
        own = given.part(first, 0)
        corner = triangle.part(first, first)
        launches.append(triangle_launch(structure, corner, own, (stack, width, columns)))
        update = UpdateStructure(structure.dtype, (structure.conjugate, False), lower=False)
        factors = triangle.part(after, first), own
        rest = given.part(after, 0)
        launches.append(update_launch(update, factors, rest, (stack, left, columns, width)))
    return launches


def _solve_upper(
    structure: TriangleStructure,
    triangle: DeviceMatrices,
    given: DeviceMatrices,
    sizes: tuple[int, int, int],
) -> list[Launch | None]:
    """Launches that solve systems of an upper triangle, in place: from the end on."""
    _, n, columns = sizes
    return _solve_lower(structure, triangle.reverse(n, n), given.reverse(n, columns), sizes)


@gpu_rule(SolveTriangular)
def solve_triangular(
    op: SolveTriangular, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The triangle's systems, in a copy of the right sides."""
    (a, b), (result,) = operands, results
    columns = _as_columns(b, result)
    if not size(result.shape):
        return GpuKernel(())
    stack, n = columns.shape[:-2], a.shape[-1]
    shape, dtype = (*stack, n, n), result.dtype
    if a.dtype != b.dtype or max(size(shape), size(columns.shape)) >= MOST_BLOCKS:
        return None
    launches: list[Launch | None] = list(_copy_launches(columns, columns.shape, 1, 2))
    if a.contiguous and a.shape == shape:
        triangle, scratch = _matrices(shape, dtype.itemsize, 0), 0
    else:
        triangle, scratch = _matrices(shape, dtype.itemsize, 3), size(shape) * dtype.itemsize
        launches += _copy_launches(a, shape, 0, 3)
    structure = TriangleStructure(
        dtype, op.unit, op.transposed == 2 and dtype.kind == "c", checks=not op.unit
    )
    right = _matrices(columns.shape, dtype.itemsize, 2)
    solve_from = _solve_lower if op.lower is not bool(op.transposed) else _solve_upper
    triangle = triangle.transpose if op.transposed else triangle
    launches += solve_from(structure, triangle, right, (size(stack), n, columns.shape[-1]))
    return _with_checks(launches, scratch)


def _as_columns(b: DeviceArray, result: DeviceArray) -> DeviceArray:
    """Right sides as columns, repeated over the stack of the result."""
    shape, strides = b.shape, b.strides
    wide = result.shape
    if len(shape) == 1:
        shape, strides, wide = (*shape, 1), (*strides, 0), (*wide, 1)
    return DeviceArray(wide, broadcast_strides(shape, strides, wide), b.dtype)


# ------------------------------------------------------------ any matrix


class _Elimination:
    """Launches that factor matrices with pivots, and take the same steps on right sides."""

    def __init__(self, a: DeviceArray, stack: Shape, place: int) -> None:
        n = a.shape[-1]
        self.shape, self.dtype, self.n = (*stack, n, n), a.dtype, n
        self.count = size(stack)
        self.work = _matrices(self.shape, a.dtype.itemsize, place)
        nbytes = size(self.shape) * a.dtype.itemsize
        first = -(-nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        self.pivots = self.work._replace(start=first)
        self.scratch = first + max(self.count * n, 1) * PIVOT_BYTES
        self.launches: list[Launch | None] = list(_copy_launches(a, self.shape, 0, place))

    def run(self, right: DeviceMatrices | None, columns: int) -> None:
        """Go through the columns: what is left is an upper triangle."""
        for first in range(0, self.n, WIDTH):
            after = min(first + WIDTH, self.n)
            sizes = (self.count, self.n, first)
            checks = right is not None
            self.launches.append(
                panel_launch(self.dtype, self.work, sizes, self.pivots, checks=checks)
            )
            if after < self.n:
                self._follow(first, self.work.part(0, after), self.n - after)
            if right is not None:
                self._follow(first, right, columns)

    def _follow(self, first: int, given: DeviceMatrices, columns: int) -> None:
        """What one panel means for some columns."""
        width = min(WIDTH, self.n - first)
        after = first + width
        sizes = (self.count, self.n, columns, first)
        self.launches.append(exchange_launch(self.dtype, given, sizes, self.pivots))
        structure = TriangleStructure(self.dtype, unit=True, conjugate=False, checks=False)
        own, corner = given.part(first, 0), self.work.part(first, first)
        self.launches.append(triangle_launch(structure, corner, own, (self.count, width, columns)))
        update = UpdateStructure(self.dtype, (False, False), lower=False)
        left = (self.count, self.n - after, columns, width)
        factors = self.work.part(after, first), own
        self.launches.append(update_launch(update, factors, given.part(after, 0), left))

    def substitute(self, right: DeviceMatrices, columns: int) -> None:
        """Solve the systems of the upper triangle that is left."""
        structure = TriangleStructure(self.dtype, unit=False, conjugate=False, checks=False)
        sizes = (self.count, self.n, columns)
        self.launches += _solve_upper(structure, self.work, right, sizes)


@gpu_rule(Solve)
def solve(
    op: Solve, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """Elimination with pivots, in copies of both sides."""
    del op
    (a, b), (result,) = operands, results
    columns = _as_columns(b, result)
    if not size(result.shape):
        return GpuKernel(())
    largest = max(size(columns.shape), size(columns.shape[:-2]) * size(a.shape[-2:]))
    if a.dtype != b.dtype or largest >= MOST_BLOCKS:
        return None
    own = _Elimination(a, columns.shape[:-2], 3)
    own.launches += _copy_launches(columns, columns.shape, 1, 2)
    right = _matrices(columns.shape, result.dtype.itemsize, 2)
    own.run(right, columns.shape[-1])
    own.substitute(right, columns.shape[-1])
    return _with_checks(own.launches, own.scratch)


@gpu_rule(Inv)
def inv(
    op: Inv, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The systems whose right sides are the columns of identity matrices."""
    del op
    (a,), (result,) = operands, results
    if not size(a.shape):
        return GpuKernel(())
    if size(a.shape) >= MOST_BLOCKS:
        return None
    own = _Elimination(a, a.shape[:-2], 2)
    own.launches.append(identity_launch(a.dtype, 1, own.count, own.n))
    right = _matrices(result.shape, result.dtype.itemsize, 1)
    own.run(right, own.n)
    own.substitute(right, own.n)
    return _with_checks(own.launches, own.scratch)


@gpu_rule(Det, Slogdet)
def determinant(
    op: Square, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The product of the pivots."""
    (a,) = operands
    if not size(results[0].shape):
        return GpuKernel(())
    if size(a.shape) >= MOST_BLOCKS:
        return None
    own = _Elimination(a, a.shape[:-2], 1 + len(results))
    own.run(None, 0)
    structure = DeterminantStructure(a.dtype, isinstance(op, Slogdet))
    own.launches.append(determinant_launch(structure, own.work, own.count, own.n, own.pivots))
    return GpuKernel(tuple([one for one in own.launches if one is not None]), own.scratch)
