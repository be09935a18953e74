"""The kernel of loops: it calls the interpreter for each step, on the table of the body.

Its row says where values lie; the body's rows say where its kernels look for them.  Before a step
the addresses that have changed are written to the cells of the body's rows: links say which.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.interpreter import COUNT, ENTRIES, ENTRY, STATUS, TABLE
from tawny.engine.cpu.kernels.kernel import KERNEL
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.ops.loops import LAST_SHIFT, SCRAMBLE

RUN, CALL, STOP, LENGTH, REVERSE, PLACE = range(6)
CARRIES, STREAMS, SHARED, FIXED, MOVING, DRAWS, LAST = range(6, 13)
"""Cells of a row.

The interpreter and the call of the body; where is told to stop; how many steps, whether from the
last to the first, and the memory of a step's place; how many records of each kind follow, and which
cell is the last.
"""

HEADER: Final = 13
"""The first cell of the first record."""

FIRST, HOME, OTHER, NBYTES, CURRENT, NEXT = range(6)
"""Cells of a carry: its first value, where the last belongs, a second place, which is the first one
where steps write over it; its bytes; where it is and where the step writes it."""

BASE, STRIDE, ROW = range(3)
"""Cells of what has a row for each step: where it begins, bytes from row to row, the row's place.
"""

TARGET, CELL, SHIFT = range(3)
"""Cells of a link: a cell of the body, the cell of this row that it takes, and bytes added."""

CARRY_CELLS: Final = 6
STREAM_CELLS: Final = 3
LINK_CELLS: Final = 3


@lazy_library
def loop_library(module: Module) -> None:
    """The kernel `loop`; its last two cells are the number of the run and whether it failed."""
    with module.function("loop", KERNEL) as f:
        _LoopWriter(f).write()


class _LoopWriter:
    """Writes the kernel."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.row = row = f.arguments[0]
        self.counts = {
            cell: f.cell(row, cell) for cell in (CARRIES, STREAMS, SHARED, FIXED, MOVING, DRAWS)
        }
        self.length, self.call = f.cell(row, LENGTH), f.cell(row, CALL, PTR)
        last = f.cell(row, LAST)
        self.status, self.draw = self._at(last), self._at(last - 1)
        self.carries = f.constant(I64, HEADER)
        self.streams = self.carries + self.counts[CARRIES] * CARRY_CELLS
        shared = self.streams + self.counts[STREAMS] * STREAM_CELLS
        self.fixed = shared + self.counts[SHARED]
        self.moving = self.fixed + self.counts[FIXED] * LINK_CELLS
        self.draws = self.moving + self.counts[MOVING] * LINK_CELLS

    def write(self) -> None:
        """All steps, one after the other."""
        f = self.f
        with f.loop(0, self.counts[CARRIES]) as loop:
            self._begin(self._record(self.carries, loop.index, CARRY_CELLS))
        self._link(self.fixed, self.counts[FIXED])
        run = scramble(f.load(I64, self.draw))
        run_body, place_cell = f.cell(self.row, RUN, PTR), f.cell(self.row, PLACE, PTR)
        stop, reverse = f.cell(self.row, STOP, PTR), f.cell(self.row, REVERSE).differs(0)
        expected = f.cell(self.call, COUNT)
        with f.loop(0, self.length) as loop:
            with f.when(f.load_atomic(I64, stop, "monotonic").differs(0)):
                f.return_()
            place = f.select(reverse, self.length - 1 - loop.index, loop.index)
            f.store(place, place_cell)
            with f.loop(0, self.counts[STREAMS]) as stream:
                record = self._record(self.streams, stream.index, STREAM_CELLS)
                at = f.cell(record, BASE) + place * f.cell(record, STRIDE)
                f.store(at, f.element(record, ROW, I64))
            self._link(self.moving, self.counts[MOVING])
            with f.when(self.counts[DRAWS].differs(0)):
                self._number_draws(scramble(run + place + 1))
            ran = f.call_address(run_body, self.call, returns=I64)
            with f.when(ran.differs(expected)):
                self._fail(ran)
                f.return_()
            with f.loop(0, self.counts[CARRIES]) as carry:
                self._turn(self._record(self.carries, carry.index, CARRY_CELLS))
        with f.loop(0, self.counts[CARRIES]) as loop:
            self._end(self._record(self.carries, loop.index, CARRY_CELLS))

    def _at(self, number: Value) -> Value:
        """The address of a cell of the row."""
        return self.f.element(self.row, number, I64)

    def _record(self, first: Value, index: Value, cells: int) -> Value:
        return self._at(first + index * cells)

    def _begin(self, carry: Value) -> None:
        """Say where a carry is before the first step, and where that writes it.

        With two places the last step writes it where it belongs, if the first value allows.
        """
        f = self.f
        first, home, other = (f.cell(carry, n) for n in (FIRST, HOME, OTHER))
        with f.when(home.equals(other)):
            self._move(carry, home, first)
        at = f.select(home.equals(other), home, first)
        even = (self.length & 1).equals(0)
        target = f.select(first.equals(home), other, f.select(even, other, home))
        f.store(at, f.element(carry, CURRENT, I64))
        f.store(target, f.element(carry, NEXT, I64))

    def _turn(self, carry: Value) -> None:
        """What a step wrote is what the next one reads."""
        f = self.f
        made = f.cell(carry, NEXT)
        f.store(made, f.element(carry, CURRENT, I64))
        f.store(f.cell(carry, HOME) + f.cell(carry, OTHER) - made, f.element(carry, NEXT, I64))

    def _end(self, carry: Value) -> None:
        """Bring the last value where it belongs."""
        self._move(carry, self.f.cell(carry, HOME), self.f.cell(carry, CURRENT))

    def _move(self, carry: Value, target: Value, source: Value) -> None:
        """Copy a carry from one address to another, if it is not there."""
        f = self.f
        with f.when(target.differs(source)):
            to, of = (f.emit(PTR, f"inttoptr {x} to ptr") for x in (target, source))
            f.move(to, of, f.cell(carry, NBYTES))

    def _link(self, first: Value, count: Value) -> None:
        """Write addresses to cells of the body's rows."""
        f = self.f
        with f.loop(0, count) as loop:
            link = self._record(first, loop.index, LINK_CELLS)
            value = f.load(I64, self._at(f.cell(link, CELL))) + f.cell(link, SHIFT)
            f.store(value, f.cell(link, TARGET, PTR))

    def _number_draws(self, number: Value) -> None:
        """Write the number of the step where the body's rows have it."""
        f = self.f
        with f.loop(0, self.counts[DRAWS]) as loop:
            place = f.load(PTR, self._at(self.draws + loop.index), 8)
            f.store(number, place)

    def _fail(self, ran: Value) -> None:
        """Say that the loop failed, since an entry of the body did, which is ready again."""
        f = self.f
        number = f.load(I64, f.element(f.cell(self.call, ENTRIES, PTR), ran, I64))
        entry = f.element(f.cell(self.call, TABLE, PTR), number * ENTRY, I64)
        f.store(f.constant(I64, 0), f.cell(entry, STATUS, PTR))
        f.store(f.constant(I64, 1), self.status)


def scramble(word: Value) -> Value:
    """The permutation of words by which draws in loops are numbered; see `tawny.ops.loops`."""
    for shift, factor in SCRAMBLE:
        word = (word ^ word.shifted_down(shift)) * as_signed(factor)
    return word ^ word.shifted_down(LAST_SHIFT)


def as_signed(word: int) -> int:
    """The as_signed number with the bits of a word."""
    return word - 2**64 if word >= 2**63 else word
