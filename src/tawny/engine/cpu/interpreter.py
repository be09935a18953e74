"""The native interpreter: one call runs many steps, many times over.

A program's table has entries of four cells: a kernel, its row of cells, how many threads may take
part (0 for the caller alone), and where the kernel says that it failed, if it can.  A call runs a
list of entries, by their numbers, as often as it is told, and gives how many it ran before one
failed.  It keeps count in four cells: turns completed so far, the number of the run that is drawn
for, how many cells of rows hold that number, and where their addresses are listed.  Told 0 turns,
it runs the entries once and counts nothing: what comes before the last entries of a turn.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from tawny.codegen.library import compiled
from tawny.engine.cpu.pool_code import ENTER

ENTRY: Final = 4
"""Cells of an entry."""

IR: Final = """
define i64 @run(ptr %table, ptr %entries, i64 %count, ptr %pool, ptr %state, i64 %turns) {{
entry:
  %at = getelementptr i8, ptr %pool, i64 {ENTER}
  %enter = load ptr, ptr %at
  %draw_place = getelementptr i64, ptr %state, i64 1
  %cells_place = getelementptr i64, ptr %state, i64 2
  %list_place = getelementptr i64, ptr %state, i64 3
  %some = icmp sgt i64 %count, 0
  %counted = icmp sgt i64 %turns, 0
  br i1 %counted, label %again, label %begin
again:
  %turn = phi i64 [0, %entry], [%following, %complete]
  %draw = load i64, ptr %draw_place
  %cells = load i64, ptr %cells_place
  %drawn = icmp sgt i64 %cells, 0
  br i1 %drawn, label %tell, label %begin
tell:
  %cell = phi i64 [0, %again], [%cell_after, %tell]
  %list = load ptr, ptr %list_place
  %listed = getelementptr ptr, ptr %list, i64 %cell
  %target = load ptr, ptr %listed
  store i64 %draw, ptr %target
  %cell_after = add i64 %cell, 1
  %more_cells = icmp slt i64 %cell_after, %cells
  br i1 %more_cells, label %tell, label %begin
begin:
  %round = phi i64 [0, %entry], [%turn, %again], [%turn, %tell]
  br i1 %some, label %step, label %done
step:
  %number = phi i64 [0, %begin], [%next, %on]
  %where = getelementptr i64, ptr %entries, i64 %number
  %entry_number = load i64, ptr %where
  %row_place = getelementptr {{ ptr, ptr, i64, ptr }}, ptr %table, i64 %entry_number, i32 1
  %kernel_place = getelementptr {{ ptr, ptr, i64, ptr }}, ptr %table, i64 %entry_number, i32 0
  %most_place = getelementptr {{ ptr, ptr, i64, ptr }}, ptr %table, i64 %entry_number, i32 2
  %kernel = load ptr, ptr %kernel_place
  %row = load ptr, ptr %row_place
  %most = load i64, ptr %most_place
  %parallel = icmp ne i64 %most, 0
  br i1 %parallel, label %together, label %alone
alone:
  call void %kernel(ptr %row, i64 0, i64 1)
  br label %after
together:
  call void %enter(ptr %pool, ptr %kernel, ptr %row, i64 %most)
  br label %after
after:
  %status_place = getelementptr {{ ptr, ptr, i64, ptr }}, ptr %table, i64 %entry_number, i32 3
  %status = load ptr, ptr %status_place
  %fallible = icmp ne ptr %status, null
  br i1 %fallible, label %ask, label %on
ask:
  %failure = load i64, ptr %status
  %failed = icmp ne i64 %failure, 0
  br i1 %failed, label %stop, label %on
stop:
  %before = mul i64 %round, %count
  %ran = add i64 %before, %number
  ret i64 %ran
on:
  %next = add i64 %number, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %step, label %done
done:
  br i1 %counted, label %complete, label %end
complete:
  %completed = load i64, ptr %state
  %completed_after = add i64 %completed, 1
  store i64 %completed_after, ptr %state
  %draw_before = load i64, ptr %draw_place
  %draw_after = add i64 %draw_before, 1
  store i64 %draw_after, ptr %draw_place
  %following = add i64 %round, 1
  %on_again = icmp slt i64 %following, %turns
  br i1 %on_again, label %again, label %end
end:
  %rounds = phi i64 [1, %done], [%turns, %complete]
  %whole = mul i64 %rounds, %count
  ret i64 %whole
}}
"""

Run = Callable[[int, int, int, int, int, int], int]
"""Runs entries, given the addresses of table and entries, how many, the pool's memory, where turns
are counted, and how many to run."""


@cache
def interpreter() -> Run:
    """The interpreter, as a function that releases the interpreter lock of Python."""
    library = compiled(IR.format(ENTER=ENTER))
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
    )
    function = kind(library.address("run"))
    function.library = library  # type: ignore[attr-defined]
    return function
