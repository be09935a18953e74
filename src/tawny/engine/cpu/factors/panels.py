"""Elimination in a panel of a few columns, with exchanges of rows, and exchanges elsewhere.

An exchange is written as the number of the row with which a row changes places: those of a matrix
are made one after another, from the first row on.
"""

from __future__ import annotations

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
from tawny.engine.cpu.kernels.workshare import grain_share, worker_share
from tawny.engine.llvm.ir.builder import I32, I64, Module, Value, integer_of
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.numbers import storage_type

PANEL: Final = 16
"""Columns of a panel."""

GRAIN: Final = 16
"""Columns of which workers' shares are multiples."""


def panel_kernel(matrices: MatrixStack, first: int) -> CompiledKernel:
    """The kernel that makes a panel the factors of its rows, which are exchanged.

    The arrays are the panel, whose columns are at most `PANEL`, and the exchanges as columns of one
    element; `first` is the number of the panel's first row.
    """
    panel = matrices.arrays[0]
    rows, columns = panel.shape[-2:]
    library = _panel(panel.dtype, matrices.arrays[1].dtype, len(matrices.stack))
    parameters = matrices.parameters(rows, columns, first)
    return CompiledKernel(library, SYMBOL, parameters, bool(matrices.stack), 0)


def exchange_kernel(matrices: MatrixStack, first: int, *, reverse: bool) -> CompiledKernel:
    """The kernel that exchanges rows, from the first on or, in reverse, from the last on.

    The arrays are matrices and exchanges; `first` is the number of the row to exchange first.
    """
    array, exchanges = matrices.arrays
    count, columns = exchanges.shape[-2], array.shape[-1]
    library = _exchange(array.dtype, exchanges.dtype, len(matrices.stack), reverse)
    parameters = matrices.parameters(count, columns, first)
    return CompiledKernel(library, SYMBOL, parameters, count * columns > SHARED_PRODUCTS // 4, 0)


@lazy_library
def _panel(module: Module, dtype: DType, number: DType, axes: int) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        _PanelWriter(StackWriter(f, [dtype, number], axes, 3)).write()


class _PanelWriter:
    """Writes elimination column by column; rows are vectors with some lanes unused."""

    def __init__(self, stack: StackWriter) -> None:
        self.stack, self.f = stack, stack.f
        self.type = storage_type(stack.dtypes[0])
        self.lanes = min(lanes_of(self.type), PANEL)
        self.kind, self.whole = self.type.by(self.lanes), integer_of(self.type.by(self.lanes))
        self.count = PANEL // self.lanes
        self.sizes = self.f.stack_buffer(PANEL * 8)
        self.rows = self.f.stack_buffer(PANEL * 8)

    def write(self) -> None:
        """One panel of the stack after the other."""
        f, stack = self.f, self.stack
        begin, end = worker_share(stack.count, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            stack.go_to(loop.index)
            self.masks = [self._first(stack.columns - v * self.lanes) for v in range(self.count)]
            self._find(None, stack.number(0))
            with f.loop(0, f.minimum(stack.columns, stack.n)) as step:
                self._eliminate(step.index)

    def _first(self, count: Value) -> Value:
        """A mask of the first lanes."""
        f = self.f
        some = f.minimum(f.maximum(count, 0), self.lanes)
        return f.first_lanes(f.convert("trunc", some, I32), self.lanes)

    def _load(self, row: Value) -> list[Value]:
        f, zero = self.f, self.stack.number(0)
        start, none = self.stack.place(0, row, zero), f.constant(self.kind, 0)
        places = [f.element(start, v * self.lanes, self.type) for v in range(self.count)]
        return [
            f.masked_load(self.kind, p, m, none) for p, m in zip(places, self.masks, strict=True)
        ]

    def _store(self, row: Value, vectors: list[Value]) -> None:
        f, start = self.f, self.stack.place(0, row, self.stack.number(0))
        for v, (vector, mask) in enumerate(zip(vectors, self.masks, strict=True)):
            f.masked_store(vector, f.element(start, v * self.lanes, self.type), mask)

    def _eliminate(self, k: Value) -> None:
        """Bring a column's largest element to the diagonal, and subtract multiples of its row."""
        f, stack, zero = self.f, self.stack, self.stack.number(0)
        column = f.element(self.rows, k, self.whole.scalar)
        found = f.load(self.whole.scalar, column)
        best = found if found.type == I64 else f.convert("zext", found, I64)
        f.store(best + stack.others[0], stack.place(1, k, zero))
        here, there = self._load(k), self._load(best)
        self._store(best, here)
        self._store(k, there)
        pivot = stack.read(0, k, k)
        inverse = f.select(pivot.equals(0), 0.0, 1.0 / pivot)
        self._find((k, there, inverse), k + 1)

    def _find(self, step: tuple[Value, list[Value], Value] | None, first: Value) -> None:
        """Subtract from the rows from one on, and note the largest element of each column there."""
        f, stack = self.f, self.stack
        none, rows = f.constant(self.kind, -1), f.constant(self.whole, 0)
        numbers = [
            f.counting(self.whole.scalar, self.lanes) + v * self.lanes for v in range(self.count)
        ]
        taken: list[tuple[Value, Value]] = []
        if step is not None:
            k, pivots, _ = step
            column = self._all(k)
            taken = [
                (f.select(n > column, p, f.constant(self.kind, 0)), n.equals(column))
                for n, p in zip(numbers, pivots, strict=True)
            ]
        with f.loop(first, stack.n, carried=[none, rows] * self.count) as loop:
            row, vectors = loop.index, self._load(loop.index)
            if step is not None:
                factor = stack.read(0, row, step[0]) * step[2]
                factors = f.splat(factor, self.lanes)
                vectors = [
                    f.select(own, factors, f.fma(-factors, pivot, v))
                    for v, (pivot, own) in zip(vectors, taken, strict=True)
                ]
                self._store(row, vectors)
            state: list[Value] = []
            for v, vector in enumerate(vectors):
                size, place = loop.carried[2 * v : 2 * v + 2]
                mine = f.unary("fabs", vector)
                larger = mine > size
                state += [
                    f.select(larger, mine, size),
                    f.select(larger, self._all(row), place),
                ]
            loop.carry(*state)
        for v in range(self.count):
            place = f.element(self.rows, v * self.lanes, self.whole.scalar)
            f.store(loop.carried[2 * v + 1], place, self.whole.nbytes)

    def _all(self, number: Value) -> Value:
        """A number in all lanes."""
        f, kind = self.f, self.whole.scalar
        return f.splat(number if kind == I64 else f.convert("trunc", number, kind), self.lanes)


@lazy_library
def _exchange(module: Module, dtype: DType, number: DType, axes: int, reverse: bool) -> None:
    with module.function(SYMBOL, KERNEL) as f:
        stack = StackWriter(f, [dtype, number], axes, 3)
        _, worker, workers = f.arguments
        low, high = grain_share(f, stack.columns, worker, workers, GRAIN)
        with f.loop(0, stack.count) as matrix:
            stack.go_to(matrix.index)
            with f.when(high > low), f.loop(0, stack.n) as loop:
                k = stack.n - 1 - loop.index if reverse else loop.index
                other = stack.read(1, k, stack.number(0))
                own = k + stack.others[0]
                with f.when(other.differs(own)):
                    _exchange_rows(stack, own, other, low, high)


def _exchange_rows(stack: StackWriter, i: Value, k: Value, low: Value, high: Value) -> None:
    """Exchange two rows from a column up to another: whole vectors, then what is left."""
    f, type = stack.f, storage_type(stack.dtypes[0])
    lanes = lanes_of(type)
    middle = low + (high - low).unsigned_over(lanes) * lanes
    for first, last, count in ((low, middle, lanes), (middle, high, 0)):
        kind = type.by(count)
        with f.loop(first, last, max(count, 1)) as loop:
            here, there = (stack.place(0, row, loop.index) for row in (i, k))
            one, other = f.load(kind, here), f.load(kind, there)
            f.store(one, there)
            f.store(other, here)
