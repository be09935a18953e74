"""Products of matrices, convolutions and their gradients: sums of products over axes.

    c[stack, rows, columns] = sum over depth of a[stack, rows, depth] * b[stack, depth, columns]

Rows, columns, depth and stack have axes of their own.  A window ties an axis of the rows to one of
the depth: the left operand is read at the coordinate that both give together, and is zero outside.
Outside adds nothing: a sum that is NaN, as that of zeros times an infinity, is added up again
without it.

A block of threads computes a tile of the result.  Slices of both operands lie in memory that the
threads share; each thread keeps some elements of the tile in registers.  Elements along the depth
are added in their order, whatever the tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.gpu.kernels.copies import offset_of
from tawny.engine.gpu.launch import (
    KernelCode,
    Launch,
    ThreadGrid,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I64, Function, Module, Value
from tawny.engine.llvm.ir.places import coordinates, distance
from tawny.engine.llvm.scalar.expressions import emit_op, primitive
from tawny.engine.llvm.scalar.numbers import (
    Number,
    Pair,
    constant,
    flatten,
    load_scalar,
    real,
    round_to_dtype,
    store_scalar,
    unflatten,
)
from tawny.op import Elementwise
from tawny.scalar import Prim

SIDE: Final = 16
"""A block is a square of threads with this side."""

DEPTH: Final = 16
"""Elements of a slice along the depth."""

LARGE: Final = 4
"""Rows and columns of a thread in large products: a tile has 64 of each."""

LARGE_TILES: Final = 64
"""Tiles of large products that keep a GPU busy: with fewer, threads have one element each."""


LONG: Final = 1 << 22
"""Products from which a kernel runs long."""


class StackAxis(NamedTuple):
    """An axis of all three; steps are in bytes."""

    size: int
    a: int
    b: int
    c: int


class RowAxis(NamedTuple):
    """An axis of the left operand and the result; its step is 0 if a window reads along it."""

    size: int
    a: int
    c: int


class ColumnAxis(NamedTuple):
    """An axis of the right operand and the result."""

    size: int
    b: int
    c: int


class DepthAxis(NamedTuple):
    """An axis that is summed over; its step is 0 if a window reads along it."""

    size: int
    a: int
    b: int


class Window(NamedTuple):
    """The left operand's coordinate `origin + row * row_step + depth * depth_step`."""

    row: int
    depth: int
    origin: int
    row_step: int
    depth_step: int
    size: int
    a: int


class Ending(NamedTuple):
    """An op applied to each element of the result, and where its other operand lies, if any."""

    op: Elementwise
    operand: int | None = None
    """The number of the operand among those of the node."""
    start: int = 0
    steps: tuple[int, ...] = ()
    """Along the axes of the stack, the rows and the columns."""


class Contraction(NamedTuple):
    """A sum of products."""

    stack: tuple[StackAxis, ...]
    rows: tuple[RowAxis, ...]
    columns: tuple[ColumnAxis, ...]
    depth: tuple[DepthAxis, ...]
    windows: tuple[Window, ...] = ()
    b_start: int = 0
    c_start: int = 0
    endings: tuple[Ending, ...] = ()
    """What is applied to the sums, one after the other."""


class ContractionStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    axes: tuple[int, int, int, int]
    """How many of the stack, the rows, the columns and the depth."""
    windows: tuple[tuple[int, int], ...]
    """The axes of rows and depth that each ties."""
    each: int
    """Rows and columns of a thread."""
    a_by_depth: bool
    """Whether neighbours of the left operand are along the depth."""
    b_by_depth: bool
    endings: tuple[tuple[Elementwise, bool], ...]
    """The ops applied to the sums, and whether each has another operand."""
    padded: bool
    """Whether windows read outside, and numbers may be NaN."""


def contraction_launch(found: Contraction, dtype: DType, result: int = 2) -> Launch | None:
    """The launch that computes operands 0 and 1 into a result; None where nothing is computed."""
    rows, columns, stack = (
        math.prod([a.size for a in axes]) for axes in (found.rows, found.columns, found.stack)
    )
    if not rows * columns * stack:
        return None

    def tiles(each: int) -> int:
        return -(-rows // (SIDE * each)) * -(-columns // (SIDE * each)) * stack

    each = LARGE if tiles(LARGE) >= LARGE_TILES else 1
    structure = ContractionStructure(
        dtype,
        (len(found.stack), len(found.rows), len(found.columns), len(found.depth)),
        tuple([(w.row, w.depth) for w in found.windows]),
        each,
        _closest([a.a for a in found.depth]) <= _closest([a.a for a in found.rows]),
        _closest([a.b for a in found.depth]) < _closest([a.b for a in found.columns]),
        tuple([(e.op, e.operand is not None) for e in found.endings]),
        kind_of(dtype) in "fc" and any(reads_outside(found, w) for w in found.windows),
    )
    numbers = [found.b_start, found.c_start]
    for axes in (found.stack, found.rows, found.columns, found.depth):
        numbers += [n for axis in axes for n in axis]
    numbers += [n for w in found.windows for n in w[2:]]
    read = [e for e in found.endings if e.operand is not None]
    numbers += [n for e in read for n in (e.start, *e.steps)]
    products = rows * columns * stack * math.prod([a.size for a in found.depth])
    return Launch(
        KernelCode(write_contraction, structure, products >= LONG),
        (0, 1, *[e.operand for e in read if e.operand is not None], result),
        tuple(numbers),
        tiles(each),
        SIDE * SIDE,
    )


def reads_outside(found: Contraction, window: Window) -> bool:
    """Whether some row and place of the depth lie before or behind the left operand."""
    last_row, last = found.rows[window.row].size - 1, found.depth[window.depth].size - 1
    ends = [(0, step * n) for step, n in ((window.row_step, last_row), (window.depth_step, last))]
    lowest, highest = (window.origin + sum(map(f, ends)) for f in (min, max))
    return lowest < 0 or highest >= window.size


def _closest(steps: Sequence[int]) -> int:
    """The least distance of neighbours along some axes."""
    return min([abs(s) for s in steps if s], default=1 << 62)


# ------------------------------------------------------------------------ writing


def write_contraction(module: Module, name: str, structure: ContractionStructure) -> None:
    """Write the kernel of a contraction."""
    stack, rows, columns, depth = structure.axes
    count = 2 + 4 * stack + 3 * (rows + columns + depth) + 5 * len(structure.windows)
    read = sum([has for _, has in structure.endings])
    count += read * (1 + stack + rows + columns)
    with grid_kernel(module, name, 3 + read, count) as grid:
        _ContractionWriter(grid, structure).write()


class _ContractionWriter:
    """Writes a kernel that has a tile of the result for each block."""

    def __init__(self, grid: ThreadGrid, structure: ContractionStructure) -> None:
        self.grid, self.f, self.structure = grid, grid.f, structure
        left = iter(grid.numbers)
        self.b_start, self.c_start = next(left), next(left)
        stack, rows, columns, depth = structure.axes
        self.stack = _take(left, stack, 4)
        self.rows, self.columns, self.depth = (_take(left, n, 3) for n in (rows, columns, depth))
        self.windows = [[next(left) for _ in range(5)] for _ in structure.windows]
        self.endings = [
            [next(left) for _ in range(1 + stack + rows + columns)]
            for _, has_operand in structure.endings
            if has_operand
        ]
        """Start and steps of what the endings read."""
        self.row_count, self.column_count, self.depth_count = (
            _product(self.f, [axis[0] for axis in axes])
            for axes in (self.rows, self.columns, self.depth)
        )
        self.side = SIDE * structure.each
        self.item = structure.dtype.itemsize
        self.wide = dt.accumulation_dtype(structure.dtype)
        """What is computed with."""
        self.slot = self.wide.itemsize
        row = self.side * DEPTH * self.slot
        module = grid.f.module
        self.shared_a = self.f.shared_address(module.shared_array(f"left{row}", row))
        self.shared_b = self.f.shared_address(module.shared_array(f"right{row}", row))

    def write(self) -> None:
        """Compute a tile."""
        f, structure = self.f, self.structure
        side = f.constant(I64, self.side)
        across = (self.column_count + (self.side - 1)).unsigned_over(side)
        down = (self.row_count + (self.side - 1)).unsigned_over(side)
        tile = self.grid.block
        first_column = tile.unsigned_rest(across) * self.side
        tile = tile.unsigned_over(across)
        first_row = tile.unsigned_rest(down) * self.side
        self._enter_stack(tile.unsigned_over(down))
        starts = [constant(f, self.wide, 0, 0)] * structure.each**2
        with f.loop(0, self.depth_count, DEPTH, carried=flatten(starts)) as loop:
            self._load_slices(first_row, first_column, loop.index)
            self.grid.barrier()
            totals = unflatten(loop.carried, starts)
            left = f.minimum(self.depth_count - loop.index, DEPTH)
            with f.loop(0, left, carried=flatten(totals)) as inner:
                inner.carry(*flatten(self._multiply(inner.index, unflatten(inner.carried, starts))))
            loop.carry(*flatten(unflatten(inner.carried, starts)))
            self.grid.barrier()
        self._store(first_row, first_column, unflatten(loop.carried, starts))

    @property
    def _thread_column(self) -> Value:
        return self.grid.thread.unsigned_rest(SIDE)

    @property
    def _thread_row(self) -> Value:
        return self.grid.thread.unsigned_over(SIDE)

    def _enter_stack(self, number: Value) -> None:
        """Move on to the operands of one product of the stack."""
        f = self.f
        a, b, *read, c = self.grid.places
        b, c = f.offset(b, self.b_start), f.offset(c, self.c_start)
        stack = coordinates(number, [axis[0] for axis in self.stack])
        self.read = [
            f.offset(base, offset_of(stack, steps[: len(stack)], start))
            for base, (start, *steps) in zip(read, self.endings, strict=True)
        ]
        for at, axis in zip(stack, self.stack, strict=True):
            a, b, c = (
                f.offset(base, at * step) for base, step in zip((a, b, c), axis[1:], strict=True)
            )
        self.a, self.b, self.c = a, b, c

    # -------------------------------------------------------------------- slices

    def _load_slices(self, row: Value, column: Value, depth: Value) -> None:
        """Let the threads load a slice of both operands, side by side where they lie so."""
        threads, count = SIDE * SIDE, self.side * DEPTH
        for first in range(0, count, threads):
            number = self.grid.thread + first
            line, at = self._split(number, self.structure.a_by_depth)
            self._load_a(row + line, depth + at, self._slot(self.shared_a, at, line))
            line, at = self._split(number, self.structure.b_by_depth)
            self._load_b(column + line, depth + at, self._slot(self.shared_b, at, line))

    def _split(self, number: Value, by_depth: bool) -> tuple[Value, Value]:
        """A row or column of the tile, and a place along the depth."""
        if by_depth:
            return number.unsigned_over(DEPTH), number.unsigned_rest(DEPTH)
        return number.unsigned_rest(self.side), number.unsigned_over(self.side)

    def _slot(self, base: Value, depth: Value, line: Value) -> Value:
        return self.f.offset(base, (depth * self.side + line) * self.slot)

    def _place_of_a(self, row: Value, depth: Value) -> tuple[Value, Value]:
        """Whether there is an element of the left operand, and where it lies."""
        rows = coordinates(row, [axis[0] for axis in self.rows])
        depths = coordinates(depth, [axis[0] for axis in self.depth])
        place = distance(rows, [axis[1] for axis in self.rows]) + distance(
            depths, [axis[1] for axis in self.depth]
        )
        inside = (row < self.row_count) & (depth < self.depth_count)
        for (r, d), (origin, row_step, depth_step, size, step) in zip(
            self.structure.windows, self.windows, strict=True
        ):
            at = origin + rows[r] * row_step + depths[d] * depth_step
            inside = inside & at.unsigned_below(size)
            place = place + at * step
        return inside, place

    def _place_of_b(self, column: Value, depth: Value) -> Value:
        """Where an element of the right operand lies."""
        columns = coordinates(column, [axis[0] for axis in self.columns])
        depths = coordinates(depth, [axis[0] for axis in self.depth])
        return distance(columns, [axis[1] for axis in self.columns]) + distance(
            depths, [axis[2] for axis in self.depth]
        )

    def _load_a(self, row: Value, depth: Value, slot: Value) -> None:
        """An element of the left operand, zero outside, in its place."""
        inside, place = self._place_of_a(row, depth)
        self._keep(inside, self.f.offset(self.a, self.f.select(inside, place, 0)), slot)

    def _load_b(self, column: Value, depth: Value, slot: Value) -> None:
        """An element of the right operand in its place."""
        inside = (column < self.column_count) & (depth < self.depth_count)
        place = self._place_of_b(column, depth)
        self._keep(inside, self.f.offset(self.b, self.f.select(inside, place, 0)), slot)

    def _keep(self, inside: Value, place: Value, slot: Value) -> None:
        """What lies at a place, or zero, in shared memory."""
        f, zero = self.f, constant(self.f, self.wide, 0, 0)
        found = f.either(
            inside,
            lambda: flatten([load_scalar(f, self.structure.dtype, place)]),
            lambda: flatten([zero]),
        )
        (number,) = unflatten(found, [zero])
        store_scalar(f, self.wide, number, slot)

    # ------------------------------------------------------------------ products

    def _multiply(self, depth: Value, totals: list[Number]) -> list[Number]:
        """Add the products at one place along the depth."""
        f, each = self.f, self.structure.each
        a = [self._shared_element(self.shared_a, depth, self._thread_row, i) for i in range(each)]
        b = [
            self._shared_element(self.shared_b, depth, self._thread_column, i) for i in range(each)
        ]
        return [
            multiply_add(f, self.wide, a[i], b[j], totals[i * each + j])
            for i in range(each)
            for j in range(each)
        ]

    def _shared_element(self, base: Value, depth: Value, line: Value, number: int) -> Number:
        """An element of a slice: a thread's lines are as far apart as threads are many."""
        return load_scalar(self.f, self.wide, self._slot(base, depth, line + SIDE * number))

    def _store(self, row: Value, column: Value, totals: Sequence[Number]) -> None:
        f, each = self.f, self.structure.each
        for i in range(each):
            for j in range(each):
                r, c = row + self._thread_row + SIDE * i, column + self._thread_column + SIDE * j
                with f.when((r < self.row_count) & (c < self.column_count)):
                    rows = coordinates(r, [axis[0] for axis in self.rows])
                    columns = coordinates(c, [axis[0] for axis in self.columns])
                    place = distance(rows, [axis[2] for axis in self.rows])
                    place = place + distance(columns, [axis[2] for axis in self.columns])
                    total = self._without_padding(totals[i * each + j], r, c)
                    ended = self._end(total, [*rows, *columns])
                    store_scalar(f, self.structure.dtype, ended, f.offset(self.c, place))

    def _without_padding(self, total: Number, row: Value, column: Value) -> Number:
        """A sum to which padding may have added NaN, without what padding adds."""
        if not self.structure.padded:
            return total
        is_nan, _ = primitive(self.f, Prim.ISNAN, self.wide, [total])
        found = self.f.either(
            real(is_nan),
            lambda: flatten([self._sum_inside(row, column)]),
            lambda: flatten([total]),
        )
        return unflatten(found, [total])[0]

    def _sum_inside(self, row: Value, column: Value) -> Number:
        """The sum of the products along the depth whose left operand is inside."""
        f = self.f
        zero = constant(f, self.wide, 0, 0)
        with f.loop(0, self.depth_count, carried=flatten([zero])) as loop:
            (total,) = unflatten(loop.carried, [zero])
            inside, place = self._place_of_a(row, loop.index)

            def added() -> list[Value]:
                a = load_scalar(f, self.structure.dtype, f.offset(self.a, place))
                b_place = self._place_of_b(column, loop.index)
                b = load_scalar(f, self.structure.dtype, f.offset(self.b, b_place))
                return flatten([multiply_add(f, self.wide, a, b, total)])

            loop.carry(*f.either(inside, added, lambda: flatten([total])))
        return unflatten(loop.carried, [zero])[0]

    def _end(self, total: Number, at: Sequence[Value]) -> Number:
        """Apply the endings to a sum, each rounded as an op of its own is."""
        f, dtype = self.f, self.structure.dtype
        if not isinstance(total, Pair):
            total = round_to_dtype(f, dtype, total)
        read = zip(self.read, self.endings, strict=True)
        for op, has_operand in self.structure.endings:
            operands = [total]
            if has_operand:
                base, (_, *steps) = next(read)
                place = distance(at, steps[len(self.stack) :])
                operands.append(load_scalar(f, dtype, f.offset(base, place)))
            total = emit_op(f, op, (dtype,) * len(operands), operands)
        return total


def multiply_add(f: Function, dtype: DType, a: Number, b: Number, total: Number) -> Number:
    """`total + a * b`, with one rounding where numbers are real."""
    if isinstance(a, Pair) or isinstance(b, Pair) or isinstance(total, Pair):
        product, _ = primitive(f, Prim.MUL, dtype, [a, b])
        return primitive(f, Prim.ADD, dtype, [total, product])[0]
    if kind_of(dtype) == "f":
        return f.fma(a, b, total)
    return total | (a & b) if dtype.kind == "b" else total + a * b


def _take(left: Iterator[Value], count: int, each: int) -> list[list[Value]]:
    return [[next(left) for _ in range(each)] for _ in range(count)]


def _product(f: Function, sizes: Sequence[Value]) -> Value:
    total = f.constant(I64, 1)
    for size in sizes:
        total = total * size
    return total
