"""A program's table once more, every kernel called by one that notes when and where it ran.

The program's own table is left as it is, so that runs that nobody measures cost what they did.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tawny.engine.cpu.counter import read_counter
from tawny.engine.cpu.interpreter import ENTRY, KERNEL, MOST, ROW, SITE
from tawny.engine.cpu.table import Cells, Table, address
from tawny.engine.llvm.ir.builder import I32, I64, PTR, Module
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.unique import Unique

START, STOP, STACK = range(3)
"""Cells of a note on a share of the work: the counter before and after it, and where the stack was,
which tells threads apart."""

NOTE: Final = 3
"""How many cells that are."""

_CALLED, _OWN, _NOTES = range(3)
"""Cells of a row: a kernel, its own row, and where the notes on its shares begin."""

_CELLS: Final = 3
_BYTES: Final = 8


@lazy_library
def _library(module: Module) -> None:
    """The kernel `timed`, which calls another one and takes a note."""
    with module.function("timed", {"row": PTR, "worker": I64, "workers": I64}) as f:
        row, worker, workers = f.arguments
        kernel, own, notes = (f.cell(row, number, PTR) for number in range(_CELLS))
        note = f.element(notes, worker * NOTE, I64)
        f.store(read_counter(f), f.element(note, START, I64))
        f.call_address(kernel, own, worker, workers)
        f.store(read_counter(f), f.element(note, STOP, I64))
        stack = f.intrinsic("frameaddress", PTR, f.constant(I32, 0))
        f.store(stack, f.element(note, STACK, I64))


class TimedTable(Unique):
    """Entries with the numbers of those of a table, and room for notes on a run of each."""

    def __init__(self, table: Table, threads: int) -> None:
        """`threads` is the number of threads of the pool."""
        entries = table.entry_cells.copy()
        count = len(entries)
        self.shares = np.maximum(np.minimum(entries[:, MOST], threads), 1)
        """The most notes on each entry."""
        self.first_note = np.concatenate([[0], np.cumsum(self.shares)])
        self.notes = np.zeros((int(self.first_note[-1]), NOTE), np.int64)
        self.marks = np.zeros(3 * count + 4, np.int64)
        """Where the interpreter writes: once for each call, and for each entry it comes to."""
        self._rows = np.empty((count, _CELLS), np.int64)
        self._rows[:, _CALLED] = entries[:, KERNEL]
        self._rows[:, _OWN] = entries[:, ROW]
        self._rows[:, _NOTES] = address(self.notes) + NOTE * _BYTES * self.first_note[:-1]
        self._code = _library()
        entries[:, KERNEL] = self._code.address("timed")
        entries[:, ROW] = address(self._rows) + _CELLS * _BYTES * np.arange(count)
        entries[:, SITE] = 0
        self._entries: Cells = np.ascontiguousarray(entries).reshape(-1, ENTRY)
        self.address = address(self._entries)

    def begin(self) -> None:
        """Forget all notes."""
        self.notes.fill(0)
