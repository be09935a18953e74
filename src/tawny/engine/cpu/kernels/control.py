"""Kernels of loops and branches: they call the interpreter on the table of a body.

Its row says where values lie; the body's rows say where its kernels look for them.  Before a step
the addresses that have changed are written to the cells of the body's rows: links say which.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.interpreter import COUNT, ENTRIES, ENTRY, STATUS, TABLE
from tawny.engine.cpu.kernels.kernel import KERNEL
from tawny.engine.llvm.ir.builder import I8, I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.philox import scramble, unscramble

RUN, CALL, STOP, LENGTH, REVERSE, PLACE, BEGINS, GOES_ON, MOST_AT_ONCE, AT = range(10)
CARRIES, STREAMS, SHARED, FIXED, MOVING, DRAWS, LAST = range(10, 17)
FIRST_DRAW, DRAW_SEGMENT = range(17, 19)
"""Cells of a loop's row.

The interpreter and the call of the body; where is told to stop; how many steps at most, whether
from the last to the first, and the memory of a step's place; where it is said whether there is a
first step, and after each whether there is another; how many steps one call makes at most, and how
many earlier calls have made of those that are not over; how many records of each kind follow, and
which cell is the last; how steps that draw are numbered.
"""

HEADER: Final = 19
"""The first cell of the first record."""

PAUSED: Final = 2
"""What a loop that is not over says in place of 1 for failure."""

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


class _BodyWriter:
    """Writes what calls a body."""

    def __init__(self, f: Function, last: int) -> None:
        self.f = f
        self.row = f.arguments[0]
        number = f.cell(self.row, last)
        self.status, self.draw = self._at(number), self._at(number - 1)

    def _at(self, number: Value) -> Value:
        """The address of a cell of the row."""
        return self.f.element(self.row, number, I64)

    def _link(self, first: Value, count: Value) -> None:
        """Write addresses to cells of the body's rows."""
        f = self.f
        with f.loop(0, count) as loop:
            link = self._at(first + loop.index * LINK_CELLS)
            value = f.load(I64, self._at(f.cell(link, CELL))) + f.cell(link, SHIFT)
            f.store(value, f.cell(link, TARGET, PTR))

    def _number_draws(self, first: Value, count: Value, number: Value) -> None:
        """Write the number by which to draw where the body's rows have it."""
        f = self.f
        with f.loop(0, count) as loop:
            place = f.load(PTR, self._at(first + loop.index), 8)
            f.store(number, place)

    def _run(self, call: Value) -> None:
        """Compute the body; if that fails, so does this kernel."""
        f = self.f
        ran = f.call_address(f.cell(self.row, RUN, PTR), call, returns=I64)
        with f.when(ran.differs(f.cell(call, COUNT))):
            self._fail(call, ran)
            f.return_()

    def _fail(self, call: Value, ran: Value) -> None:
        """Say that an entry of the body failed, and make it ready again."""
        f = self.f
        number = f.load(I64, f.element(f.cell(call, ENTRIES, PTR), ran, I64))
        entry = f.element(f.cell(call, TABLE, PTR), number * ENTRY, I64)
        f.store(f.constant(I64, 0), f.cell(entry, STATUS, PTR))
        f.store(f.constant(I64, 1), self.status)


class _LoopWriter(_BodyWriter):
    """Writes the kernel of loops."""

    def __init__(self, f: Function) -> None:
        super().__init__(f, LAST)
        row = self.row
        self.counts = {
            cell: f.cell(row, cell) for cell in (CARRIES, STREAMS, SHARED, FIXED, MOVING, DRAWS)
        }
        self.length, self.call = f.cell(row, LENGTH), f.cell(row, CALL, PTR)
        self.carries = f.constant(I64, HEADER)
        self.streams = self.carries + self.counts[CARRIES] * CARRY_CELLS
        shared = self.streams + self.counts[STREAMS] * STREAM_CELLS
        self.fixed = shared + self.counts[SHARED]
        self.moving = self.fixed + self.counts[FIXED] * LINK_CELLS
        self.draws = self.moving + self.counts[MOVING] * LINK_CELLS

    def write(self) -> None:
        """All steps, one after the other."""
        f = self.f
        made = f.cell(self.row, AT)
        with f.when(made.equals(0)), f.loop(0, self.counts[CARRIES]) as loop:
            self._begin(self._record(self.carries, loop.index, CARRY_CELLS))
        self._link(self.fixed, self.counts[FIXED])
        limit = f.minimum(self.length, made + f.cell(self.row, MOST_AT_ONCE))
        begins = (self._is_true(BEGINS) | made.differs(0)) & (self.length > 0)
        with f.when(begins):
            with f.repeat(made, f.constant(I64, 0)) as steps:
                index, _ = steps.carried
                self._step(index)
                with f.loop(0, self.counts[CARRIES]) as carry:
                    self._turn(self._record(self.carries, carry.index, CARRY_CELLS))
                goes_on = self._is_true(GOES_ON) & (index + 1 < self.length)
                left = f.select(goes_on, f.constant(I64, 1), 0)
                steps.again(goes_on & (index + 1 < limit), index + 1, left)
            done, left = steps.carried
            with f.when(left.differs(0)):
                self._pause(done)
                f.return_()
        self._forget()
        with f.loop(0, self.counts[CARRIES]) as loop:
            self._end(self._record(self.carries, loop.index, CARRY_CELLS))

    def _is_true(self, cell: int) -> Value:
        """Whether the byte is not 0 whose address is in a cell."""
        return self.f.load(I8, self.f.cell(self.row, cell, PTR)).differs(0)

    def _step(self, index: Value) -> None:
        """One step, unless it is told to stop."""
        f, row = self.f, self.row
        with f.when(f.load_atomic(I64, f.cell(row, STOP, PTR), "monotonic").differs(0)):
            self._forget()
            f.return_()
        reverse = f.cell(row, REVERSE).differs(0)
        place = f.select(reverse, self.length - 1 - index, index)
        f.store(place, f.cell(row, PLACE, PTR))
        with f.loop(0, self.counts[STREAMS]) as stream:
            record = self._record(self.streams, stream.index, STREAM_CELLS)
            at = f.cell(record, BASE) + place * f.cell(record, STRIDE)
            f.store(at, f.element(record, ROW, I64))
        self._link(self.moving, self.counts[MOVING])
        with f.when(self.counts[DRAWS].differs(0)):
            run = scramble(f.load(I64, self.draw)) + f.cell(row, FIRST_DRAW)
            segment = f.cell(row, DRAW_SEGMENT)
            own, parts = scramble(run + place + 1), unscramble(run + place * segment)
            number = f.select(segment.equals(0), own, parts)
            self._number_draws(self.draws, self.counts[DRAWS], number)
        self._run(self.call)

    def _pause(self, made: Value) -> None:
        """Say that the loop is not over after some steps; another call goes on there."""
        self.f.store(made, self._at(self.f.constant(I64, AT)))
        self.f.store(self.f.constant(I64, PAUSED), self.status)

    def _forget(self) -> None:
        """Let the next call begin with the first step."""
        self.f.store(self.f.constant(I64, 0), self._at(self.f.constant(I64, AT)))

    def _fail(self, call: Value, ran: Value) -> None:
        self._forget()
        super()._fail(call, ran)

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


BRANCHES, INDEX, LAST_OF_SWITCH = range(1, 4)
"""Cells of a switch's row after that of the interpreter: how many branches there are, the address
of the number of the one that is taken, and which cell is the last."""

SWITCH_HEADER: Final = 4
"""The first cell of the first branch."""

OWN_CALL, OWN_LINKS, LINK_COUNT, OWN_DRAWS, DRAW_COUNT = range(5)
"""Cells of a branch: its call, its first link and how many, its first draw and how many."""

BRANCH_CELLS: Final = 5


@lazy_library
def switch_library(module: Module) -> None:
    """The kernel `switch`; its last two cells are the number of the run and whether it failed."""
    with module.function("switch", KERNEL) as f:
        _SwitchWriter(f, LAST_OF_SWITCH).write()


class _SwitchWriter(_BodyWriter):
    """Writes the kernel of branches."""

    def write(self) -> None:
        """The branch whose number is nearest."""
        f, row = self.f, self.row
        wanted = f.load(I64, f.cell(row, INDEX, PTR))
        number = f.maximum(f.minimum(wanted, f.cell(row, BRANCHES) - 1), 0)
        branch = self._at(number * BRANCH_CELLS + SWITCH_HEADER)
        self._link(f.cell(branch, OWN_LINKS), f.cell(branch, LINK_COUNT))
        draw = f.load(I64, self.draw)
        self._number_draws(f.cell(branch, OWN_DRAWS), f.cell(branch, DRAW_COUNT), draw)
        self._run(f.cell(branch, OWN_CALL, PTR))
