"""The native interpreter: one call runs a list of steps, and can repeat it.

A program's table has entries of five cells: a kernel, its row of cells, how many threads may take
part (0 for the caller alone), where the kernel says that it failed, if it can, and the place in the
interpreter that calls it.  A call runs a list of entries, by their numbers, as often as it is told,
and gives how many it ran before one failed.  It keeps count in four cells: turns completed,
the number of the run that is drawn for, how many cells of rows hold that number, and where their
addresses are listed.  Told 0 turns, it runs the entries once and counts nothing: what comes before
the last entries of a turn.

Processors guess where a call leads by where it led before, and a wrong guess costs as much as a
tiny kernel.  So there are many places that call kernels: a program gives each of its frequent
kernels one of its own, and the way there is a tree of comparisons, which are guessed better.

A second interpreter does the same and writes down when each entry ended.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from tawny.engine.cpu.counter import read_counter
from tawny.engine.cpu.threads.pool_code import ENTER
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library

KERNEL, ROW, MOST, STATUS, SITE = range(5)
ENTRY: Final = 5
"""Cells of an entry, and how many they are."""

SITES: Final = 16
"""Places that call kernels: number 0 any, the others those that run alone and never fail."""

TABLE, ENTRIES, COUNT, POOL, STATE, TURNS, MARKS = range(7)
"""Cells of a call: the addresses of table and entries, how many, the pool's memory, where turns are
counted, and how many to run; for the interpreter with a clock, where it writes what that shows, at
the beginning and after each entry."""

COMPLETED, DRAW, DRAWN, PLACES = range(4)
"""The cells where it keeps count."""

Run = Callable[[int], int]
"""Runs entries, given the address of a call."""


def sites(kernels: Iterable[int]) -> dict[int, int]:
    """The place that calls each of the frequent ones among these kernels, which may be repeated."""
    frequent = Counter(kernels).most_common(SITES - 1)
    return {kernel: number for number, (kernel, _) in enumerate(frequent, 1)}


@lazy_library
def _library(module: Module, *, timed: bool = False) -> None:
    attributes = '"no-jump-tables"="true"'
    with module.function("run", {"call": PTR}, I64, attributes=attributes) as f:
        _RunWriter(f, timed=timed).write()


class _RunWriter:
    """Writes the function that makes a call."""

    def __init__(self, f: Function, *, timed: bool) -> None:
        self.f = f
        (call,) = f.arguments
        self.marks = f.cell(call, MARKS, PTR) if timed else None
        self.table, self.entries = f.cell(call, TABLE, PTR), f.cell(call, ENTRIES, PTR)
        self.pool, self.state = f.cell(call, POOL, PTR), f.cell(call, STATE, PTR)
        self.count, self.turns = f.cell(call, COUNT), f.cell(call, TURNS)
        self.enter = f.load(PTR, f.offset(self.pool, ENTER))

    def write(self) -> None:
        """All turns; the number of entries that were run."""
        f = self.f
        is_counted = self.turns > 0
        self._mark(f.constant(I64, 0))
        with f.repeat(f.constant(I64, 0)) as turns:
            (turn,) = turns.carried
            with f.when(is_counted):
                self._number_draws()
            with f.loop(0, self.count) as step:
                number = f.load(I64, f.element(self.entries, step.index, I64))
                entry = f.element(self.table, number * ENTRY, I64)
                self._run_entry(entry, turn * self.count + step.index)
                self._mark(step.index + 1)
            with f.when(is_counted):
                self._count_up(COMPLETED)
                self._count_up(DRAW)
            turns.again(turn + 1 < self.turns, turn + 1)
        f.return_(f.maximum(self.turns, 1) * self.count)

    def _mark(self, number: Value) -> None:
        """Write down what the clock shows, if there is one."""
        if self.marks is not None:
            self.f.store(read_counter(self.f), self.f.element(self.marks, number, I64))

    def _number_draws(self) -> None:
        """Write the number of the run where rows have it."""
        f, state = self.f, self.state
        number, places = f.cell(state, DRAW), f.cell(state, PLACES, PTR)
        with f.loop(0, f.cell(state, DRAWN)) as loop:
            f.store(number, f.load(PTR, f.element(places, loop.index, PTR)))

    def _count_up(self, cell: int) -> None:
        """Add one to a cell of the state."""
        self.f.store(self.f.cell(self.state, cell) + 1, self.f.element(self.state, cell, I64))

    def _run_entry(self, entry: Value, before: Value) -> None:
        """Call the kernel of an entry where it has its place; `before` entries were run before."""
        f = self.f
        kernel, row = f.cell(entry, KERNEL, PTR), f.cell(entry, ROW, PTR)
        alone = kernel, row, f.constant(I64, 0), f.constant(I64, 1)

        def call(number: int) -> list[Value]:
            if number:
                # Not merged: what makes each place worth having is that it is another one.
                return self._call(*alone, attributes="nomerge")
            most = f.cell(entry, MOST)
            together = self.enter, self.pool, kernel, row, most
            f.either(most.differs(0), lambda: self._call(*together), lambda: self._call(*alone))
            status = f.cell(entry, STATUS, PTR)
            with f.when(status.differs(0)), f.when(f.load(I64, status).differs(0)):
                f.return_(before)
            return []

        self._choose(f.cell(entry, SITE), range(SITES), call)

    def _choose(
        self, site: Value, numbers: range, call: Callable[[int], list[Value]]
    ) -> list[Value]:
        """Write a call for each number, and a tree of comparisons that leads to the site's."""
        if len(numbers) == 1:
            return call(numbers[0])
        middle = len(numbers) // 2
        return self.f.either(
            site.unsigned_below(numbers[middle]),
            lambda: self._choose(site, numbers[:middle], call),
            lambda: self._choose(site, numbers[middle:], call),
        )

    def _call(self, function: Value, *given: Value, attributes: str = "") -> list[Value]:
        """Call a function that gives nothing."""
        self.f.call_address(function, *given, attributes=attributes)
        return []


@cache
def interpreter(*, timed: bool = False) -> Run:
    """The interpreter, as a function that releases the interpreter lock of Python."""
    library = _library(timed=True) if timed else _library()
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library.address("run"))
    function.library = library  # type: ignore[attr-defined]
    return function


def interpreter_address() -> int:
    """Where the interpreter lies, for compiled code that calls it."""
    return _library().address("run")
