"""What a block of a product copies to its own memory: where it lies, and how it gets there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.engine.gpu.kernels.tiles import ITEM, OperandOrder, TensorStructure
from tawny.engine.gpu.kernels.warp import WARP, copy_later
from tawny.engine.gpu.launch import ThreadGrid
from tawny.engine.llvm.ir.builder import I32, I64, Function, Value
from tawny.engine.llvm.ir.places import coordinates, distance

FIRST_AXIS: Final = 5
"""Numbers of a kernel before those of its axes."""


class Slices(NamedTuple):
    """The places of slices of an operand in memory of the block.

    Rows are further apart than they are long, so that the threads of a warp find what they need in
    different banks.
    """

    begin: int
    lines: int
    depth: int
    by_depth: bool

    @property
    def line_step(self) -> int:
        """Bytes from a row or column of the tile to the next."""
        return (self.depth + 4) * ITEM if self.by_depth else ITEM

    @property
    def depth_step(self) -> int:
        """Bytes from a place along the depth to the next."""
        return ITEM if self.by_depth else (self.lines + 8) * ITEM

    @property
    def nbytes(self) -> int:
        """Bytes of a slice."""
        return self.lines * self.line_step if self.by_depth else self.depth * self.depth_step


def slices_of(structure: TensorStructure) -> tuple[Slices, Slices]:
    """The slices of both operands."""
    tile = structure.tile
    a = Slices(0, tile.rows, tile.depth, structure.a.by_depth)
    return a, Slices(a.nbytes, tile.columns, tile.depth, structure.b.by_depth)


def stage_bytes(structure: TensorStructure) -> int:
    """Bytes of a slice of both operands."""
    return sum([s.nbytes for s in slices_of(structure)])


def sum_row(structure: TensorStructure) -> int:
    """Bytes from a row of sums in memory of the block to the next."""
    return (structure.tile.columns + 8) * ITEM


def shared_bytes(structure: TensorStructure) -> int:
    """Bytes of a block's memory: slices, and sums once those are done with."""
    tile = structure.tile
    return max(tile.stages * stage_bytes(structure), tile.rows * sum_row(structure))


class OperandLine(NamedTuple):
    """A row or column whose elements a thread copies."""

    inside: Value
    offset: Value
    """Bytes from the operand's first element to that at the beginning of the depth."""
    windows: Sequence[Value]
    """The coordinate of each window at the beginning of the depth."""


class ProductNumbers:
    """The numbers a kernel is given: sizes and steps in 32 bits."""

    def __init__(self, grid: ThreadGrid, structure: TensorStructure) -> None:
        f = grid.f
        left = iter([f.convert("trunc", n, I32) for n in grid.numbers])
        wide = grid.numbers
        self.wide_starts = wide[:3]

        def take(count: int, each: int) -> list[list[Value]]:
            return [[next(left) for _ in range(each)] for _ in range(count)]

        self.starts = take(1, 3)[0]
        self.chunk, self.parts = next(left), next(left)
        stack, rows, columns, depth = structure.axes
        first = FIRST_AXIS
        self.stack = take(stack, 4)
        self.wide_stack = [wide[first + 4 * i : first + 4 * i + 4] for i in range(stack)]
        self.rows, self.columns, self.depth = take(rows, 3), take(columns, 3), take(depth, 3)
        self.windows = take(len(structure.windows), 5)
        read = [e for e in structure.endings if e.has_operand]
        at = len(wide) - len(read) * (1 + stack + rows + columns)
        self.endings = take(len(read), 1 + stack + rows + columns)
        each = 1 + stack + rows + columns
        self.wide_ends = [wide[at + each * i : at + each * i + 1 + stack] for i in range(len(read))]


class ProductState:
    """A kernel of a product being written: the thread, the tile, and where its operands begin."""

    def __init__(self, grid: ThreadGrid, structure: TensorStructure) -> None:
        self.grid, self.f, self.structure = grid, grid.f, structure
        f = self.f
        self.tile, self.numbers = structure.tile, ProductNumbers(grid, structure)
        self.thread = grid.register("tid")
        self.warp, self.lane = self.thread.shifted_down(5), self.thread & (WARP - 1)
        self.group, self.member = self.lane.shifted_down(2), self.lane & 3
        own = self.numbers
        self.row_count, self.column_count, self.depth_count = (
            product_of_sizes(f, [axis[0] for axis in axes])
            for axes in (own.rows, own.columns, own.depth)
        )
        module = f.module
        self.shared = f.shared_address(module.dynamic_array("tiles", shared_bytes(structure)))
        self.slices = slices_of(structure)
        self.stage_bytes = stage_bytes(structure)
        zero = f.constant(I32, 0)
        self.first_row = self.first_column = self.part = self.product = self.begin = zero
        self.end = self.depth_count
        self.a, self.b, *self.read, self.c = grid.places
        """Where the operands, what endings read, and the result begin for this block."""

    def in_shared(self, offset: Value) -> Value:
        """A place in memory of the block."""
        return self.f.offset(self.shared, self.grid.widen(offset))

    def sign_extended(self, offset: Value) -> Value:
        """An offset in 64 bits."""
        return self.f.convert("sext", offset, I64)


class OperandPlaces:
    """The places of elements of an operand."""

    def __init__(self, writer: ProductState, operand: int) -> None:
        self.writer, self.f, self.operand = writer, writer.f, operand
        own = writer.numbers
        self.axes = own.columns if operand else own.rows
        self.count = writer.column_count if operand else writer.row_count
        self.order = writer.structure.b if operand else writer.structure.a
        self.windows = (
            [] if operand else list(zip(writer.structure.windows, own.windows, strict=True))
        )

    def line(self, number: Value) -> OperandLine:
        """A row of the left operand, or a column of the right one."""
        places = coordinates(number, [axis[0] for axis in self.axes])
        offset = distance(places, [axis[1] for axis in self.axes])
        starts: list[Value] = []
        for (row, _), (origin, row_step, _, _, step) in self.windows:
            at = origin + places[row] * row_step
            offset = offset + at * step
            starts.append(at)
        return OperandLine(number.unsigned_below(self.count), offset, starts)

    def depth(self, number: Value) -> tuple[Value, Value, list[Value]]:
        """A place along the depth: whether it is there, its offset, and its steps in windows."""
        own = self.writer.numbers.depth
        inside = number < self.writer.end
        if self.order.is_linear:
            return inside, number * own[-1][1 + self.operand], []
        places = coordinates(number, [axis[0] for axis in own])
        offset = distance(places, [axis[1 + self.operand] for axis in own])
        moves: list[Value] = []
        for (_, depth), (_, _, depth_step, _, step) in self.windows:
            move = places[depth] * depth_step
            offset = offset + move * step
            moves.append(move)
        return inside, offset, moves

    def element(
        self, line: OperandLine, depth: tuple[Value, Value, Sequence[Value]]
    ) -> tuple[Value, Value]:
        """Whether an element is there, and its offset."""
        inside, offset, moves = depth
        inside = line.inside & inside
        for start, move, (_, numbers) in zip(line.windows, moves, self.windows, strict=True):
            inside = inside & (start + move).unsigned_below(numbers[3])
        return inside, line.offset + offset


class SliceCopier:
    """Copies slices of an operand: what each thread copies, and where to."""

    def __init__(self, writer: ProductState, number: int, order: OperandOrder) -> None:
        self.writer, self.f, self.order = writer, writer.f, order
        self.operand, self.slices = OperandPlaces(writer, number), writer.slices[number]
        self.base = writer.b if number else writer.a
        first_line = writer.first_column if number else writer.first_row
        lines, each, thread = self.slices.lines, order.each, writer.thread
        across = (self.slices.depth if order.by_depth else lines) // each
        fast, slow = thread.unsigned_rest(across) * each, thread.unsigned_over(across)
        self.step = writer.tile.threads // across
        """Lines, or places along the depth, from one copy of a thread to its next."""
        self.count = (lines if order.by_depth else self.slices.depth) // self.step
        line, self.depth = (slow, fast) if order.by_depth else (fast, slow)
        places = [line + self.step * n for n in range(self.count if order.by_depth else 1)]
        self.lines = [self.operand.line(first_line + place) for place in places]
        offset = line * self.slices.line_step + self.depth * self.slices.depth_step
        self.target = writer.grid.widen(offset + self.slices.begin)

    def copy(self, stage: Value, depth: Value) -> None:
        """Copy the slice that begins at a place along the depth."""
        f, by_depth, slices = self.f, self.order.by_depth, self.slices
        target = f.offset(stage, self.target)
        found = self.operand.depth(depth + self.depth) if by_depth else None
        for n in range(self.count):
            line = self.lines[n if by_depth else 0]
            at = found or self.operand.depth(depth + self.depth + self.step * n)
            inside, offset = self.operand.element(line, at)
            source = f.offset(self.base, self.writer.sign_extended(f.select(inside, offset, 0)))
            move = n * self.step * (slices.line_step if by_depth else slices.depth_step)
            copy_later(f, f.offset(target, move), source, self.order.each * ITEM, inside)


def product_of_sizes(f: Function, sizes: Sequence[Value]) -> Value:
    """How many elements axes of these sizes have."""
    total = f.constant(I32, 1)
    for size in sizes:
        total = total * size
    return total
