"""The native interpreter: one call runs many steps.

A program's table has entries of three cells: a kernel, its row of cells, and whether all threads
take part.  A call runs a list of entries, by their numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from tawny.codegen.library import compiled
from tawny.engine.cpu.pool import ENTER

ENTRY: Final = 3
"""Cells of an entry."""

IR: Final = """
define void @run(ptr %table, ptr %entries, i64 %count, ptr %pool) {{
entry:
  %at = getelementptr i8, ptr %pool, i64 {ENTER}
  %enter = load ptr, ptr %at
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %step, label %done
step:
  %turn = phi i64 [0, %entry], [%next, %after]
  %where = getelementptr i64, ptr %entries, i64 %turn
  %entry_number = load i64, ptr %where
  %row_place = getelementptr {{ ptr, ptr, i64 }}, ptr %table, i64 %entry_number, i32 1
  %kernel_place = getelementptr {{ ptr, ptr, i64 }}, ptr %table, i64 %entry_number, i32 0
  %flag_place = getelementptr {{ ptr, ptr, i64 }}, ptr %table, i64 %entry_number, i32 2
  %kernel = load ptr, ptr %kernel_place
  %row = load ptr, ptr %row_place
  %flag = load i64, ptr %flag_place
  %parallel = icmp ne i64 %flag, 0
  br i1 %parallel, label %together, label %alone
alone:
  call void %kernel(ptr %row, i64 0, i64 1)
  br label %after
together:
  call void %enter(ptr %pool, ptr %kernel, ptr %row)
  br label %after
after:
  %next = add i64 %turn, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %step, label %done
done:
  ret void
}}
"""

Run = Callable[[int, int, int, int], None]
"""Runs steps, given the addresses of table and entries, how many, and the pool's memory."""


@cache
def interpreter() -> Run:
    """The interpreter, as a function that releases the interpreter lock of Python."""
    library = compiled(IR.format(ENTER=ENTER))
    kind = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
    )
    function = kind(library.address("run"))
    function.library = library  # type: ignore[attr-defined]
    return function
