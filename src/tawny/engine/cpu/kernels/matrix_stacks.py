"""Stacks of matrices: how kernels of linear systems are given them, and reach their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.llvm.ir.builder import F64, I64, PTR, Function, Type, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.scalar.numbers import storage_type

SYMBOL: Final = "system"

SHARED_PRODUCTS: Final = 1 << 15
"""Multiplications from which threads share the work; see `workshare`."""


def lanes_of(type: Type) -> int:
    """Elements of a vector."""
    return max(host().vector_bytes // type.nbytes, 1)


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


class StackWriter:
    """Writes a kernel that walks over a stack of matrices: its row, and elements of matrices."""

    def __init__(self, f: Function, dtypes: Sequence[DType], axes: int, sizes: int = 2) -> None:
        """`sizes` is how many sizes the parameters tell: rows and columns, and any others."""
        self.f, self.dtypes = f, dtypes
        row, count = f.arguments[0], len(dtypes)
        self._bases = [f.cell(row, a, PTR) for a in range(count)]
        place = count
        self.axes = [
            [f.cell(row, place + axis * (count + 1) + c) for c in range(count + 1)]
            for axis in range(axes)
        ]
        place += axes * (count + 1)
        self.n, self.columns, *self.others = (f.cell(row, place + i) for i in range(sizes))
        place += sizes
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
