"""Blocks of matrices in memory, and the calls that compute with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.blocks import CopyBlock
from tawny.engine.cpu.factors.panels import PANEL, exchange_kernel, panel_kernel
from tawny.engine.cpu.factors.sequence import KernelCall, RowAddress
from tawny.engine.cpu.kernels.copies import copy_kernel
from tawny.engine.cpu.kernels.element import product_element
from tawny.engine.cpu.kernels.linear_systems import cholesky_kernel
from tawny.engine.cpu.kernels.matrix_stacks import MatrixStack
from tawny.engine.cpu.kernels.triangular_systems import triangular_kernel
from tawny.engine.cpu.products.matmul import matmul_kernel
from tawny.engine.layout import Memory
from tawny.ops.fused_products import Epilogue

BASE: Final = 48
"""Rows of triangles that are solved, and factored, element by element: all others by products."""


class MatrixBlock(NamedTuple):
    """Matrices of a stack: a cell of the row, bytes from there, and how elements lie."""

    cell: int
    offset: int
    memory: Memory

    @property
    def place(self) -> RowAddress:
        """Where it begins."""
        return RowAddress(self.cell, self.offset)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.memory.shape[-2]

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.memory.shape[-1]

    @property
    def transpose(self) -> MatrixBlock:
        """With rows and columns exchanged."""
        (*shape, m, n), (*strides, row, column) = self.memory.shape, self.memory.strides
        memory = Memory((*shape, n, m), (*strides, column, row), self.memory.dtype)
        return self._replace(memory=memory)

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> MatrixBlock:
        """Some rows and columns, each from a number up to another."""
        (*shape, _, _), (*strides, row, column) = self.memory.shape, self.memory.strides
        offset = self.offset + rows[0] * row + columns[0] * column
        inner = rows[1] - rows[0], columns[1] - columns[0]
        memory = Memory((*shape, *inner), (*strides, row, column), self.memory.dtype)
        return MatrixBlock(self.cell, offset, memory)

    @property
    def by_rows(self) -> bool:
        """Whether elements of a row are side by side."""
        return self.memory.strides[-1] == self.memory.dtype.itemsize


def halves(n: int, unit: int) -> int:
    """Where the second half begins: after whole units, unless that leaves one alone."""
    middle = -(-n // (2 * unit)) * unit
    return middle if n - middle > 1 else (n + 1) // 2


@dataclass
class BlockProgram:
    """Calls that compute blocks from blocks, for a number of workers."""

    dtype: DType
    workers: int
    calls: list[KernelCall] = field(default_factory=list[KernelCall])

    def subtract_product(
        self,
        a: MatrixBlock,
        b: MatrixBlock,
        source: MatrixBlock,
        target: MatrixBlock,
        *,
        waits: bool = True,
    ) -> None:
        """`target = source - a @ b`; the target may be the source."""
        element = product_element(self.dtype)
        assert element is not None
        made = matmul_kernel(
            a.memory,
            b.memory,
            target.memory,
            (source.memory,),
            epilogue=Epilogue(residual=True),
            workers=self.workers,
            element=element._replace(subtracts=True),
        )
        assert made is not None, "rows of source and target are dense"
        places = a.place, b.place, source.place, target.place
        self.calls.append(KernelCall(made.code, places, waits=waits))

    def copy(self, source: MatrixBlock, target: MatrixBlock) -> None:
        """`target = source`."""
        given, made = source.memory, target.memory
        block = CopyBlock(0, 0, given.shape, given.strides, 0, made.strides)
        code = copy_kernel([block], 1, given.dtype.itemsize)
        self.calls.append(KernelCall(code, (source.place, target.place)))

    def solve(
        self,
        triangle: MatrixBlock,
        source: MatrixBlock,
        target: MatrixBlock,
        *,
        lower: bool,
        unit: bool = False,
    ) -> None:
        """The target is what the triangle times it gives the source; it may be the source.

        `unit` takes the diagonal for ones.
        """
        if not source.by_rows and source.columns > 1:
            self.copy(source, target)
            source = target
        n, columns = triangle.rows, (0, target.columns)
        if n <= BASE or target.columns == 1:
            self._solve_base(triangle, source, target, lower=lower, unit=unit)
            return
        middle = halves(n, BASE)
        upper, under = (0, middle), (middle, n)
        first, second = (upper, under) if lower else (under, upper)
        solved, rest = target.part(first, columns), target.part(second, columns)
        own = triangle.part(first, first)
        self.solve(own, source.part(first, columns), solved, lower=lower, unit=unit)
        between = triangle.part(second, first)
        self.subtract_product(between, solved, source.part(second, columns), rest)
        self.solve(triangle.part(second, second), rest, rest, lower=lower, unit=unit)

    def _solve_base(
        self,
        triangle: MatrixBlock,
        source: MatrixBlock,
        target: MatrixBlock,
        *,
        lower: bool,
        unit: bool,
    ) -> None:
        arrays = triangle.memory, source.memory, target.memory
        stack = MatrixStack(target.memory.shape[:-2], arrays)
        code = triangular_kernel(stack, target.columns, lower=lower, unit=unit)
        assert code is not None, "there are rows and columns"
        places = triangle.place, source.place, target.place
        self.calls.append(KernelCall(code, places, fallible=True))

    def factor(self, source: MatrixBlock, target: MatrixBlock) -> None:
        """The upper triangle of the target, its own transpose on its left, gives the source.

        What is below the diagonal is left as it is, but for zeros in blocks on the diagonal.
        """
        n = source.rows
        if n <= BASE:
            stack = MatrixStack(source.memory.shape[:-2], (source.memory, target.memory))
            code = cholesky_kernel(stack, upper=True)
            assert code is not None, "blocks fit the stack"
            self.calls.append(KernelCall(code, (source.place, target.place), fallible=True))
            return
        middle = halves(n, BASE)
        upper, under = (0, middle), (middle, n)
        self.factor(source.part(upper, upper), target.part(upper, upper))
        beside = target.part(upper, under)
        triangle = target.part(upper, upper).transpose
        self.solve(triangle, source.part(upper, under), beside, lower=True)
        own = target.part(under, under)
        self._subtract_square(beside, source.part(under, under), own)
        self.factor(own, own)

    def _subtract_square(
        self, beside: MatrixBlock, source: MatrixBlock, target: MatrixBlock
    ) -> None:
        """`target = source - beside.T @ beside`, but for what lies far below the diagonal."""
        n, depth = source.rows, (0, beside.rows)
        parts = max(min(round(n / SQUARE), 4), 1)
        starts = [n * i // parts // 8 * 8 for i in range(parts)] + [n]
        for number, rows in enumerate(pairwise(starts)):
            columns = rows[0], n
            left, right = beside.part(depth, rows).transpose, beside.part(depth, columns)
            own = source.part(rows, columns), target.part(rows, columns)
            self.subtract_product(left, right, *own, waits=number == 0)

    def eliminate(self, target: MatrixBlock, exchanges: MatrixBlock) -> None:
        """Make a block its factors: columns of the matrix from the diagonal on, in all rows below.

        Below the diagonal is the lower factor, whose own diagonal is ones.  `exchanges` are those
        of all of the matrix' rows; rows of other blocks are not exchanged.
        """
        self._eliminate(target, exchanges, 0, min(target.rows, target.columns))
        rows, columns = target.rows, target.columns
        if columns > rows:
            beside, whole = (rows, columns), (0, rows)
            rest = target.part(whole, beside)
            self.exchange(rest, exchanges, 0)
            self.solve(target.part(whole, whole), rest, rest, lower=True, unit=True)

    def _eliminate(self, whole: MatrixBlock, exchanges: MatrixBlock, first: int, last: int) -> None:
        """Eliminate in some columns, from their diagonal down."""
        below, one = (first, whole.rows), (0, 1)
        if last - first <= PANEL:
            panel = whole.part(below, (first, last))
            own = exchanges.part((first, last), one)
            stack = MatrixStack(whole.memory.shape[:-2], (panel.memory, own.memory))
            code = panel_kernel(stack, first)
            self.calls.append(KernelCall(code, (panel.place, own.place)))
            return
        middle = first + halves(last - first, PANEL)
        done, left, under = (first, middle), (middle, last), (middle, whole.rows)
        self._eliminate(whole, exchanges, first, middle)
        self.exchange(whole.part((0, whole.rows), left), exchanges.part(done, one), first)
        beside = whole.part(done, left)
        self.solve(whole.part(done, done), beside, beside, lower=True, unit=True)
        own = whole.part(under, left)
        self.subtract_product(whole.part(under, done), beside, own, own)
        self._eliminate(whole, exchanges, middle, last)
        self.exchange(whole.part((0, whole.rows), done), exchanges.part(left, one), middle)

    def exchange(
        self, target: MatrixBlock, exchanges: MatrixBlock, first: int, *, reverse: bool = False
    ) -> None:
        """Exchange rows of the target, beginning with a number."""
        stack = MatrixStack(target.memory.shape[:-2], (target.memory, exchanges.memory))
        code = exchange_kernel(stack, first, reverse=reverse)
        self.calls.append(KernelCall(code, (target.place, exchanges.place)))


SQUARE: Final = 96
"""Rows of the parts in which a symmetric product is computed, about."""
