"""The loop over arrays some of which are read through a roll.

    rolled(row, worker, workers, span, shape)

goes row by row.  A read that is rolled along an outer axis has another row; its address moves from
row to row, and goes back where the axis begins again.  One that is rolled along the row is read
where it lies, in pieces of the row without its seam; around a seam a few elements are brought side
by side in a buffer.  `span` and `shape` are those of all loops, as `common` describes them.

Parameters after the number of elements: the length of a row, the number of outer axes, their sizes;
for each read its strides and its shifts along the outer axes, its stride and its shift along a row.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.loops.common import (
    GRAIN,
    LOOP,
    MOST_AXES,
    MOST_PLACES,
    AccessKind,
    AccessTable,
    LoopStrategy,
    call_segment,
    copy_bytes,
    list_places,
    loop_name,
    moves_along,
    use_segment,
    write_digits,
)
from tawny.engine.cpu.kernels.loops.gather import call_gather
from tawny.engine.cpu.kernels.workshare import grain_share
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import provide

ROLLED: Final = "rolled"
"""The library with the function."""

SHORT: Final = 64
"""Elements that are brought together at a time; pieces between seams are multiples of them."""

_BUFFER: Final = SHORT * 16


def _library(module: Module) -> None:
    use_segment(module)
    with module.function(loop_name(LoopStrategy.ROLLED), LOOP) as f:
        _RollWriter(f).write()


provide(ROLLED, _library)


class _RollWriter:
    """Writes the function; holds the values all its parts use."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.row, self.worker, self.workers, self.span, base = f.arguments
        self.shape = shape = AccessTable(f, base)
        parameters = f.element(self.row, shape.first, I64)
        self.total, self.length, self.outer = (f.cell(parameters, i) for i in range(3))
        self.lengths = f.element(parameters, 1, I64)
        self.sizes = f.element(parameters, 3, I64)
        self.each = f.element(self.sizes, self.outer, I64)
        self.last = self.outer - 1
        self.across = f.load(I64, f.element(self.sizes, self.last, I64))
        self.digits = f.stack_buffer(8 * MOST_AXES)
        """Places on the outer axes of the first row of a line."""
        self.steps = f.stack_buffer(8 * MOST_PLACES)
        """Bytes from each read's row to the next."""
        self.rows = f.stack_buffer(8 * MOST_PLACES)
        """Addresses of the rows that are read."""
        self.listed = list_places(f, self.row, shape)
        """Addresses of the rows of reads and results; of turned reads those of pieces of rows."""
        self.turned = f.stack_buffer(8 * MOST_PLACES)
        """Reads that do not lie along a row as the results do, by their numbers."""
        self.turns = self._list_turned()
        self.buffers = f.stack_array(shape.reads * _BUFFER)

    def _list_turned(self) -> Value:
        """List the reads that are turned; how many there are."""
        f = self.f
        with f.loop(0, self.shape.reads, carried=[self.length.of(0)]) as each:
            (count,) = each.carried
            f.store(each.index, f.element(self.turned, count, I64))
            _, _, kind = self.shape.place(each.index)
            _, _, _, shift = self._steps_of(each.index)
            run = kind.equals(AccessKind.RUN.value) & shift.differs(0)
            each.carry(
                count + f.select(run | kind.equals(AccessKind.GATHERED.value), count.of(1), 0)
            )
        return each.carried[0]

    def write(self) -> None:
        """Lines of rows that are neighbours along the last outer axis."""
        f, length, across = self.f, self.length, self.across
        low, high = grain_share(f, self.total, self.worker, self.workers, GRAIN)
        first, last = low.unsigned_over(length), (high + length - 1).unsigned_over(length)
        lines = (last + across - 1).unsigned_over(across)
        with f.loop(first.unsigned_over(across), lines) as line:
            lower = f.maximum(line.index * across, first)
            upper = f.minimum((line.index + 1) * across, last)
            write_digits(f, lower, self.outer, self.sizes, self.digits)
            self._begin(lower)
            with f.loop(lower, upper) as loop:
                begin = loop.index * length
                start, end = f.maximum(low, begin), f.minimum(high, begin + length)
                self._pieces(begin, start, end)
                self._advance(loop.index + 1 - line.index * across)

    def _steps_of(self, read: Value) -> tuple[Value, Value, Value, Value]:
        """A read's strides and shifts along the outer axes, its stride and shift along a row."""
        f = self.f
        strides = f.element(self.each, read * (self.outer * 2 + 2), I64)
        shifts = f.element(strides, self.outer, I64)
        inner = f.element(shifts, self.outer, I64)
        return strides, shifts, inner, f.cell(inner, 1)

    def _begin(self, lower: Value) -> None:
        """List the rows that are read for the first row of a line."""
        f = self.f
        with f.loop(0, self.shape.reads) as each:
            cell, item, kind = self.shape.place(each.index)
            strides, shifts, _, _ = self._steps_of(each.index)
            with f.loop(0, self.outer, carried=[lower.of(0)]) as axes:
                (offset,) = axes.carried
                size, digit, stride, shift = (
                    f.load(I64, f.element(table, axes.index, I64))
                    for table in (self.sizes, self.digits, strides, shifts)
                )
                away = digit - shift
                place = away + f.select(away < 0, size, 0)
                axes.carry(offset + place * stride)
            # The span adds the start to runs, which is counted from the first row.
            back = f.select(moves_along(kind), self.length * item, 0)
            base = f.load(I64, f.element(self.row, cell, I64))
            address = base + axes.carried[0] - lower * back
            self._keep(each.index, address)
            step = f.load(I64, f.element(strides, self.last, I64)) - back
            f.store(step, f.element(self.steps, each.index, I64))

    def _advance(self, digit: Value) -> None:
        """List the rows that are read for the next row, whose place on the last axis is given."""
        f = self.f
        with f.loop(0, self.shape.reads) as each:
            strides, shifts, _, _ = self._steps_of(each.index)
            stride, shift = (
                f.load(I64, f.element(table, self.last, I64)) for table in (strides, shifts)
            )
            back = f.select(shift.equals(digit), self.across * stride, 0)
            address = f.load(I64, f.element(self.rows, each.index, I64))
            step = f.load(I64, f.element(self.steps, each.index, I64))
            self._keep(each.index, address + step - back)

    def _keep(self, read: Value, address: Value) -> None:
        """Note where the row of a read lies."""
        f = self.f
        f.store(address, f.element(self.rows, read, I64))
        f.store(address, f.element(self.listed, read, I64))

    # ------------------------------------------------------------------- a row

    def _pieces(self, begin: Value, start: Value, end: Value) -> None:
        """Compute elements of a row that begins with the element `begin`."""
        f = self.f
        with f.repeat(start) as pieces:
            (here,) = pieces.carried
            column = here - begin
            count = f.minimum(self._clear(column), end - here)
            with f.loop(0, self.turns) as each:
                read = f.load(I64, f.element(self.turned, each.index, I64))
                self._place(read, here, column, count)
            call_segment(f, self.listed, here, count, self.span, self.shape.base)
            pieces.again(end > here + count, here + count)

    def _clear(self, column: Value) -> Value:
        """How many elements are computed at once from a column on.

        All up to the next seam, in whole buffers; one buffer where that is less, or where elements
        of a read are never neighbours.
        """
        f = self.f
        with f.loop(0, self.turns, carried=[self.length - column]) as each:
            (least,) = each.carried
            read = f.load(I64, f.element(self.turned, each.index, I64))
            _, _, kind = self.shape.place(read)
            _, _, _, shift = self._steps_of(read)
            ahead = f.select(shift > column, shift - column, least)
            found = f.select(kind.equals(AccessKind.GATHERED.value), 0, ahead)
            each.carry(f.minimum(least, found))
        (least,) = each.carried
        rest = f.select(least.equals(self.length - column), least, least & -SHORT)
        return f.maximum(rest, SHORT)

    def _place(self, read: Value, here: Value, column: Value, count: Value) -> None:
        """List where a turned read's elements for a piece of a row lie, or bring them together."""
        f = self.f
        _, item, kind = self.shape.place(read)
        _, _, _, shift = self._steps_of(read)
        row = f.load(PTR, f.element(self.rows, read, I64))
        away = column - shift
        source = away + f.select(away < 0, self.length, 0)
        far = kind.equals(AccessKind.GATHERED.value)

        def there() -> list[Value]:
            return [f.offset(row, (source - column) * item)]

        def brought() -> list[Value]:
            buffer = f.offset(self.buffers, read * _BUFFER)
            before = f.minimum(self.length - source, count)
            with f.when(far):
                self._gather(read, buffer, row, source, before)
                with f.when(count > before):
                    behind = f.offset(buffer, before * item)
                    self._gather(read, behind, row, source.of(0), count - before)
            with f.when(~far):
                first = f.offset(row, (here - column) * item)
                copy_bytes(f, buffer, f.offset(first, source * item), before * item)
                behind = f.offset(buffer, before * item)
                copy_bytes(f, behind, first, (count - before) * item)
            # The span adds the start, which the buffer does not know.
            return [f.offset(buffer, -(here * item))]

        (address,) = f.either(far | (source + count > self.length), brought, there)
        f.store(address, f.element(self.listed, read, I64))

    def _gather(self, read: Value, to: Value, source: Value, start: Value, count: Value) -> None:
        """Bring elements of a row that are not neighbours together."""
        f = self.f
        _, item, _ = self.shape.place(read)
        _, _, stride, _ = self._steps_of(read)
        for size in (1, 2, 4, 8, 16):
            with f.when(item.equals(size)):
                one = f.constant(I64, 1)
                call_gather(f, size, to, source, one, self.lengths, stride, start, count)
