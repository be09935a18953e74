"""What becomes of the sums of a product: endings, results, and sums of parts of the depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tawny import dtype as dt
from tawny.engine.gpu.kernels.product_slices import FIRST_AXIS, ProductState
from tawny.engine.gpu.kernels.tiles import ITEM, ReadEnding, TensorProduct
from tawny.engine.gpu.launch import KernelCode, Launch, ThreadGrid, blocks_for, grid_kernel
from tawny.engine.llvm.ir.builder import F32, I32, Function, Module, Value
from tawny.engine.llvm.ir.places import coordinates, distance
from tawny.engine.llvm.scalar.expressions import emit_op
from tawny.engine.llvm.scalar.numbers import real


class ResultPlaces:
    """The places of what endings read for a column, and of results."""

    def __init__(self, writer: ProductState, column: Value) -> None:
        self.writer, self.f, self.structure = writer, writer.f, writer.structure
        own = writer.numbers
        self.column = column
        self.columns = coordinates(column, [axis[0] for axis in own.columns])
        self.stack = self.structure.axes[0]
        self.of_column: dict[int, list[Value]] = {}
        """Operands that are the same in all rows."""

    def _steps(self, ending: int) -> tuple[list[Value], list[Value]]:
        """The steps of an ending's operand along the rows and the columns."""
        _, *steps = self.writer.numbers.endings[ending]
        rows = self.structure.axes[1]
        return steps[self.stack : self.stack + rows], steps[self.stack + rows :]

    def _endings_that_read(self) -> list[ReadEnding]:
        return [e for e in self.structure.endings if e.has_operand]

    def read_columns(self) -> None:
        """Read what is the same in all rows."""
        for n, ending in enumerate(self._endings_that_read()):
            if ending.by_column:
                self.of_column[n] = self._load(n, self.f.constant(I32, 0))

    def _load(self, n: int, offset: Value) -> list[Value]:
        """An operand's element for each neighbour."""
        _, steps = self._steps(n)
        place = offset + distance(self.columns, steps)
        base = self.f.offset(self.writer.read[n], self.writer.sign_extended(place))
        each = self.structure.store_each
        if self._endings_that_read()[n].step:
            return load_neighbours(self.f, base, each)
        return [self.f.load(F32, base)] * each

    def row_places(self, row: Value) -> list[Value]:
        """A row's places along the axes of the rows; itself where its number is enough."""
        if self.structure.has_linear_rows or self.structure.has_parts:
            return [row]
        return coordinates(row, [axis[0] for axis in self.writer.numbers.rows])

    def _offset_along(self, places: Sequence[Value], steps: Sequence[Value]) -> Value:
        return distance(places, steps[-1:] if len(places) == 1 else steps)

    def read(self, places: Sequence[Value]) -> list[list[Value]]:
        """The operands of the endings for an element."""
        return [
            self.of_column[n]
            if n in self.of_column
            else self._load(n, self._offset_along(places, self._steps(n)[0]))
            for n in range(len(self._endings_that_read()))
        ]

    def result(self, row: Value, places: Sequence[Value]) -> Value:
        """Where an element is stored: in the result, or among sums of parts."""
        f, writer = self.f, self.writer
        if self.structure.has_parts:
            wide = writer.grid.widen
            columns, rows = wide(writer.column_count), wide(writer.row_count)
            part = wide(writer.product) * wide(writer.numbers.parts) + wide(writer.part)
            return f.offset(
                writer.c, ((part * rows + wide(row)) * columns + wide(self.column)) * ITEM
            )
        own = writer.numbers
        place = self._offset_along(places, [axis[2] for axis in own.rows])
        place = place + distance(self.columns, [axis[2] for axis in own.columns])
        return f.offset(writer.c, writer.sign_extended(place))


def load_neighbours(f: Function, place: Value, count: int) -> list[Value]:
    """Numbers that lie side by side, by one instruction where there are 4."""
    return [
        f.load(F32, f.offset(place, n * ITEM), ITEM if n else count * ITEM) for n in range(count)
    ]


def apply_endings(
    f: Function, endings: Sequence[ReadEnding], total: Value, operands: Sequence[Value]
) -> Value:
    """What endings make of a sum."""
    left = iter(operands)
    for ending in endings:
        given = [total, next(left)] if ending.has_operand else [total]
        total = real(emit_op(f, ending.op, (dt.FLOAT32,) * len(given), given))
    return total


# ------------------------------------------------------------------- parts of the depth


class SumStructure(NamedTuple):
    """All that the code depends on that adds up the sums of parts."""

    axes: tuple[int, int, int]
    """How many of the stack, the rows and the columns."""
    parts: int
    endings: tuple[ReadEnding, ...]


def sum_launch(product: TensorProduct, places: tuple[int, ...]) -> Launch:
    """The launch that adds up the sums of parts, and applies the endings."""
    structure = product.structure
    stack, rows, columns, depth = structure.axes
    given = list(product.numbers)
    c_start, first = given[2], FIRST_AXIS
    numbers = [c_start]
    for count, width in ((stack, 4), (rows, 3), (columns, 3)):
        for _ in range(count):
            axis = given[first : first + width]
            numbers += [axis[0], axis[-1]]
            first += width
    first += 3 * depth + 5 * len(structure.windows)
    numbers += given[first:]
    own = SumStructure((stack, rows, columns), product.parts, structure.endings)
    total = product.sizes[0] * product.sizes[1] * product.sizes[2]
    code = KernelCode(write_sum, own)
    return Launch(code, places, (total, *numbers), blocks_for(total))


def write_sum(module: Module, name: str, structure: SumStructure) -> None:
    """Write the kernel that adds up the sums of parts."""
    axes = sum(structure.axes)
    read = sum([e.has_operand for e in structure.endings])
    numbers = 2 + 2 * axes + read * (1 + axes)
    with (
        grid_kernel(module, name, 2 + read, numbers) as grid,
        grid.f.when(grid.number < grid.numbers[0]),
    ):
        _write_sum(grid, structure, grid.number)


def _write_sum(grid: ThreadGrid, structure: SumStructure, number: Value) -> None:
    """Add up the sums of the parts of one element, in their order."""
    f = grid.f
    total_count, c_start, *left = grid.numbers
    axes = sum(structure.axes)
    sizes, steps = left[: 2 * axes : 2], left[1 : 2 * axes : 2]
    ends = left[2 * axes :]
    *read, result, scratch = grid.places
    at = coordinates(number, sizes)
    each = _wide_product(sizes[structure.axes[0] :])
    product, inner = number.unsigned_over(each), number.unsigned_rest(each)
    place = f.offset(scratch, (product * each * structure.parts + inner) * ITEM)
    sums = [f.load(F32, f.offset(place, each * (part * ITEM))) for part in range(structure.parts)]
    operands: list[Value] = []
    for base in read:
        start, *own = ends[: 1 + axes]
        ends = ends[1 + axes :]
        operands.append(f.load(F32, f.offset(base, start + distance(at, own))))
    del total_count
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    ended = apply_endings(f, structure.endings, total, operands)
    f.store(ended, f.offset(result, c_start + distance(at, steps)))


def _wide_product(sizes: Sequence[Value]) -> Value:
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total
