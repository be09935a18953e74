"""The native interpreter: one call runs many steps.

A program's table has entries of four cells: a kernel, its row of cells, how many threads may take
part (0 for the caller alone), and where the kernel says that it failed, if it can.  A call runs a
list of entries, by their numbers, and gives how many it ran before one failed.
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
define i64 @run(ptr %table, ptr %entries, i64 %count, ptr %pool) {{
entry:
  %at = getelementptr i8, ptr %pool, i64 {ENTER}
  %enter = load ptr, ptr %at
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %step, label %done
step:
  %turn = phi i64 [0, %entry], [%next, %on]
  %where = getelementptr i64, ptr %entries, i64 %turn
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
  ret i64 %turn
on:
  %next = add i64 %turn, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %step, label %done
done:
  ret i64 %count
}}
"""

Run = Callable[[int, int, int, int], int]
"""Runs entries, given the addresses of table and entries, how many, and the pool's memory."""


@cache
def interpreter() -> Run:
    """The interpreter, as a function that releases the interpreter lock of Python."""
    library = compiled(IR.format(ENTER=ENTER))
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
    )
    function = kind(library.address("run"))
    function.library = library  # type: ignore[attr-defined]
    return function
