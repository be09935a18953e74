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
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from tawny.engine.cpu.threads.pool_code import ENTER
from tawny.engine.llvm.runtime.library import compile_ir

ENTRY: Final = 5
"""Cells of an entry."""

SITES: Final = 16
"""Places that call kernels: number 0 any, the others those that run alone and never fail."""

TURNS: Final = 5
"""A call has cells for the addresses of table and entries, how many, the pool's memory, where turns
are counted, and how many to run: that is the cell of this number."""

IR: Final = """
define i64 @run(ptr %call) "no-jump-tables"="true" {{
entry:
  %table = load ptr, ptr %call
  %entries_place = getelementptr i64, ptr %call, i64 1
  %entries = load ptr, ptr %entries_place
  %count_place = getelementptr i64, ptr %call, i64 2
  %count = load i64, ptr %count_place
  %pool_place = getelementptr i64, ptr %call, i64 3
  %pool = load ptr, ptr %pool_place
  %state_place = getelementptr i64, ptr %call, i64 4
  %state = load ptr, ptr %state_place
  %turns_place = getelementptr i64, ptr %call, i64 5
  %turns = load i64, ptr %turns_place
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
  %place = getelementptr {{ ptr, ptr, i64, ptr, i64 }}, ptr %table, i64 %entry_number
  %row_place = getelementptr i64, ptr %place, i64 1
  %most_place = getelementptr i64, ptr %place, i64 2
  %status_place = getelementptr i64, ptr %place, i64 3
  %site_place = getelementptr i64, ptr %place, i64 4
  %kernel = load ptr, ptr %place
  %row = load ptr, ptr %row_place
  %site = load i64, ptr %site_place
{SITES}
site0:
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

Run = Callable[[int], int]
"""Runs entries, given the address of a call."""


def sites(kernels: Iterable[int]) -> dict[int, int]:
    """The place that calls each of the frequent ones among these kernels, which may be repeated."""
    frequent = Counter(kernels).most_common(SITES - 1)
    return {kernel: number for number, (kernel, _) in enumerate(frequent, 1)}


def _sites() -> str:
    """The tree of comparisons that leads to the places that call kernels, and all but the first."""
    lines = [f"  br label %sites0_{SITES}"]
    halves = [(0, SITES)]
    while halves:
        low, high = halves.pop()
        middle = (low + high) // 2
        lines.append(f"sites{low}_{high}:")
        if high - low > 1:
            lines.append(f"  %before{low}_{high} = icmp ult i64 %site, {middle}")
            ways = f"label %sites{low}_{middle}, label %sites{middle}_{high}"
            lines.append(f"  br i1 %before{low}_{high}, {ways}")
            halves += [(middle, high), (low, middle)]
        elif low == 0:
            lines.append("  br label %site0")
        else:
            # Not merged: what makes each place worth having is that it is another one.
            lines.append("  call void %kernel(ptr %row, i64 0, i64 1) nomerge")
            lines.append("  br label %on")
    return "\n".join(lines)


@cache
def interpreter() -> Run:
    """The interpreter, as a function that releases the interpreter lock of Python."""
    library = compile_ir(IR.format(ENTER=ENTER, SITES=_sites()))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library.address("run"))
    function.library = library  # type: ignore[attr-defined]
    return function
