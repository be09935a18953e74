"""Stacks of matrices as kernels find them, and the arithmetic of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import I64, Function, Value
from tawny.engine.llvm.scalar.expressions import emit_op
from tawny.engine.llvm.scalar.numbers import (
    Number,
    Pair,
    flatten,
    load_scalar,
    real,
    store_scalar,
)
from tawny.op import ELEMENTWISE

WIDTH: Final = 32
"""Columns that are factored by one block of threads, one after the other."""

PIVOT_BYTES: Final = 4
"""Bytes of the number of a row."""


class DeviceMatrices(NamedTuple):
    """A stack of matrices in memory; steps are in bytes."""

    place: int
    """Which place of the launch."""
    start: int
    stack: int
    """From a matrix to the next."""
    row: int
    column: int

    def part(self, row: int, column: int) -> DeviceMatrices:
        """What begins at an element."""
        return self._replace(start=self.start + row * self.row + column * self.column)

    @property
    def transpose(self) -> DeviceMatrices:
        """Rows for columns."""
        return self._replace(row=self.column, column=self.row)

    def reverse(self, rows: int, columns: int) -> DeviceMatrices:
        """The last element first: of an upper triangle a lower one."""
        last = self.part(rows - 1, columns - 1)
        return last._replace(row=-self.row, column=-self.column)

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """What a kernel is told."""
        return self.start, self.stack, self.row, self.column


class MatrixView:
    """A matrix of the stack, as a kernel being written finds it."""

    def __init__(
        self, f: Function, dtype: DType, base: Value, numbers: Sequence[Value], number: Value
    ) -> None:
        start, stack, self._row, self._column = numbers
        self._f, self.dtype = f, dtype
        self._base = f.offset(base, start + number * stack)

    def address(self, row: Value, column: Value) -> Value:
        """Where an element lies."""
        return self._f.offset(self._base, row * self._row + column * self._column)

    def load(self, row: Value, column: Value, conjugate: bool = False) -> Number:
        """An element."""
        found = load_scalar(self._f, self.dtype, self.address(row, column))
        return Pair(found.real, -found.imag) if conjugate and isinstance(found, Pair) else found

    def store(self, number: Number, row: Value, column: Value) -> None:
        """Write an element."""
        store_scalar(self._f, self.dtype, number, self.address(row, column))


def shared_view(f: Function, dtype: DType, name: str, columns: int) -> MatrixView:
    """A matrix of `WIDTH` rows in memory that the threads of a block share."""
    item = dtype.itemsize
    own = f.module.shared_array(f"{name}{columns}of{item}", WIDTH * columns * item)
    steps = [f.constant(I64, n) for n in (0, 0, columns * item, item)]
    return MatrixView(f, dtype, f.shared_address(own), steps, steps[0])


# ------------------------------------------------------------ arithmetic


def binary(f: Function, name: str, dtype: DType, x: Number, y: Number) -> Number:
    """An op of two numbers."""
    return emit_op(f, ELEMENTWISE[name], (dtype, dtype), [x, y])


def negative(x: Number) -> Number:
    """The other sign."""
    return Pair(-x.real, -x.imag) if isinstance(x, Pair) else -x


def is_zero(x: Number) -> Value:
    """Whether a number is zero."""
    if isinstance(x, Pair):
        return x.real.equals(0.0) & x.imag.equals(0.0)
    return x.equals(0.0)


def choose(f: Function, condition: Value, x: Number, y: Number) -> Number:
    """One of two numbers."""
    pairs = zip(flatten([x]), flatten([y]), strict=True)
    parts = [f.select(condition, a, b) for a, b in pairs]
    return Pair(*parts) if len(parts) > 1 else parts[0]


def less_product(f: Function, total: Number, a: Number, b: Number) -> Number:
    """A number less a product."""
    if isinstance(total, Pair) and isinstance(a, Pair) and isinstance(b, Pair):
        first = f.fma(-a.real, b.real, f.fma(a.imag, b.imag, total.real))
        return Pair(first, f.fma(-a.real, b.imag, f.fma(-a.imag, b.real, total.imag)))
    return f.fma(-real(a), real(b), real(total))
