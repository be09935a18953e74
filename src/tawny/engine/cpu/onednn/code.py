"""The compiled function that carries a recipe out: a kernel like any other.

A kernel's row ends with how many threads may work, the addresses of its recipe and of what keeps
the workers of our pool from spinning, and its failure.

A recipe is a list of cells: the address of the functions, how many calls there are and, for each of
them, what is called, its kind, how many arguments there are and, for each of those, its number, the
descriptor of its memory, the cell of the row that holds its address, and the bytes from there.  The
kinds are a primitive; one that copies, so that nothing is to be done where its two first arguments
are the same memory; a kernel of ours that works alone; one that all threads of OpenMP share.  To
kernels of ours arguments are the cells of their row: numbers, where no cell is named.

Nothing is shared between calls: threads of Python may run the same recipe at the same time.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tawny.engine.llvm.runtime.library import MachineCode, compile_ir

LIBRARY: Final = ("memory_create", "memory_destroy", "primitive_execute")
OPENMP: Final = (
    "omp_get_max_threads",
    "omp_set_num_threads",
    "omp_get_thread_num",
    "omp_get_num_threads",
    "GOMP_parallel",
)
"""The functions it calls, in the order of their table; the engine and the stream follow."""

COMPUTES, COPIES, ALONE, SHARED = range(4)
"""The kinds of calls."""

MOST_CELLS: Final = 8
"""The most addresses that a row can hold."""

MOST_ARGUMENTS: Final = 16
"""The most arguments of a call."""

IR: Final = """
%argument = type {{ i32, ptr }}

define internal i64 @cell(ptr %cells, i64 %number) alwaysinline {{
  %place = getelementptr i64, ptr %cells, i64 %number
  %value = load i64, ptr %place
  ret i64 %value
}}

define internal ptr @held(ptr %cells, i64 %number) alwaysinline {{
  %place = getelementptr i64, ptr %cells, i64 %number
  %value = load ptr, ptr %place
  ret ptr %value
}}

; Where argument %number of a call lies, or the number itself: %arguments are its arguments' cells.
define internal ptr @lies(ptr %row, ptr %arguments, i64 %number) alwaysinline {{
  %first = mul i64 %number, 4
  %third = add i64 %first, 2
  %fourth = add i64 %first, 3
  %named = call i64 @cell(ptr %arguments, i64 %third)
  %none = icmp slt i64 %named, 0
  %where = select i1 %none, i64 0, i64 %named
  %held = call ptr @held(ptr %row, i64 %where)
  %base = select i1 %none, ptr null, ptr %held
  %offset = call i64 @cell(ptr %arguments, i64 %fourth)
  %place = getelementptr i8, ptr %base, i64 %offset
  ret ptr %place
}}

; The share of one thread: %task has a kernel, its row, and the table of functions.
define internal void @share(ptr %task) {{
  %kernel = call ptr @held(ptr %task, i64 0)
  %cells = call ptr @held(ptr %task, i64 1)
  %functions = call ptr @held(ptr %task, i64 2)
  %number = call ptr @held(ptr %functions, i64 {NUMBER})
  %team = call ptr @held(ptr %functions, i64 {TEAM})
  %mine = call i32 %number()
  %all = call i32 %team()
  %worker = sext i32 %mine to i64
  %workers = sext i32 %all to i64
  call void %kernel(ptr %cells, i64 %worker, i64 %workers)
  ret void
}}

; Call a kernel of ours, alone or in so many shares.
define internal void @ours(
    ptr %row, ptr %functions, ptr %kernel, i64 %count, ptr %arguments, i32 %threads) {{
entry:
  %cells = alloca [{MOST_ARGUMENTS} x ptr], align 16
  %task = alloca [3 x ptr], align 16
  br label %fill
fill:
  %n = phi i64 [0, %entry], [%n_next, %fill]
  %value = call ptr @lies(ptr %row, ptr %arguments, i64 %n)
  %at = getelementptr ptr, ptr %cells, i64 %n
  store ptr %value, ptr %at
  %n_next = add i64 %n, 1
  %more = icmp slt i64 %n_next, %count
  br i1 %more, label %fill, label %choose
choose:
  %several = icmp sgt i32 %threads, 1
  br i1 %several, label %together, label %alone
alone:
  call void %kernel(ptr %cells, i64 0, i64 1)
  ret void
together:
  store ptr %kernel, ptr %task
  %second = getelementptr ptr, ptr %task, i64 1
  store ptr %cells, ptr %second
  %third = getelementptr ptr, ptr %task, i64 2
  store ptr %functions, ptr %third
  %parallel = call ptr @held(ptr %functions, i64 {PARALLEL})
  call void %parallel(ptr @share, ptr %task, i32 %threads, i32 0)
  ret void
}}

; Execute one primitive; gives 0, or why it failed.
define internal i32 @call(ptr %row, ptr %functions, ptr %primitive, i64 %count, ptr %arguments) {{
entry:
  %made = alloca [{MOST_ARGUMENTS} x %argument], align 16
  %create = call ptr @held(ptr %functions, i64 0)
  %destroy = call ptr @held(ptr %functions, i64 1)
  %execute = call ptr @held(ptr %functions, i64 2)
  %engine = call ptr @held(ptr %functions, i64 {ENGINE})
  %stream = call ptr @held(ptr %functions, i64 {STREAM})
  br label %make
make:
  %n = phi i64 [0, %entry], [%n_next, %good]
  %whole = icmp eq i64 %n, %count
  br i1 %whole, label %run, label %next
next:
  %first = mul i64 %n, 4
  %second = add i64 %first, 1
  %number = call i64 @cell(ptr %arguments, i64 %first)
  %descriptor = call ptr @held(ptr %arguments, i64 %second)
  %place = call ptr @lies(ptr %row, ptr %arguments, i64 %n)
  %number_place = getelementptr %argument, ptr %made, i64 %n, i32 0
  %memory_place = getelementptr %argument, ptr %made, i64 %n, i32 1
  %short = trunc i64 %number to i32
  store i32 %short, ptr %number_place
  %status = call i32 %create(ptr %memory_place, ptr %descriptor, ptr %engine, ptr %place)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %clean, label %good
good:
  %n_next = add i64 %n, 1
  br label %make
run:
  %few = trunc i64 %count to i32
  %done = call i32 %execute(ptr %primitive, ptr %stream, i32 %few, ptr %made)
  br label %clean
clean:
  %made_count = phi i64 [%n, %next], [%count, %run]
  %result = phi i32 [%status, %next], [%done, %run]
  br label %drop
drop:
  %left = phi i64 [%made_count, %clean], [%fewer, %dropped]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %over, label %dropped
dropped:
  %fewer = sub i64 %left, 1
  %at = getelementptr %argument, ptr %made, i64 %fewer, i32 1
  %memory = load ptr, ptr %at
  %ignored = call i32 %destroy(ptr %memory)
  br label %drop
over:
  ret i32 %result
}}

; Carry a recipe out; %ending is the end of the row.
define internal void @carry_out(ptr %row, ptr %ending) {{
entry:
  %threads = call i64 @cell(ptr %ending, i64 0)
  %recipe = call ptr @held(ptr %ending, i64 1)
  %resting = call ptr @held(ptr %ending, i64 2)
  %failure = getelementptr i64, ptr %ending, i64 3
  %functions = call ptr @held(ptr %recipe, i64 0)
  %calls = call i64 @cell(ptr %recipe, i64 1)
  %begin = getelementptr i64, ptr %recipe, i64 2
  %get_threads = call ptr @held(ptr %functions, i64 {GET})
  %set_threads = call ptr @held(ptr %functions, i64 {SET})
  %before = call i32 %get_threads()
  %count = trunc i64 %threads to i32
  call void %set_threads(i32 %count)
  %more = atomicrmw add ptr %resting, i64 1 monotonic
  br label %look
look:
  %turn = phi i64 [0, %entry], [%turn_next, %on]
  %cells = phi ptr [%begin, %entry], [%cells_next, %on]
  %whole = icmp eq i64 %turn, %calls
  br i1 %whole, label %end, label %step
step:
  %what = call ptr @held(ptr %cells, i64 0)
  %kind = call i64 @cell(ptr %cells, i64 1)
  %number = call i64 @cell(ptr %cells, i64 2)
  %arguments = getelementptr i64, ptr %cells, i64 3
  switch i64 %kind, label %compute [
    i64 {COPIES}, label %compare
    i64 {ALONE}, label %kernel
    i64 {SHARED}, label %kernel
  ]
compare:
  %source = call ptr @lies(ptr %row, ptr %arguments, i64 0)
  %target = call ptr @lies(ptr %row, ptr %arguments, i64 1)
  %same = icmp eq ptr %source, %target
  br i1 %same, label %on, label %compute
kernel:
  %shared = icmp eq i64 %kind, {SHARED}
  %team = select i1 %shared, i32 %count, i32 1
  call void @ours(
      ptr %row, ptr %functions, ptr %what, i64 %number, ptr %arguments, i32 %team)
  br label %on
compute:
  %status = call i32 @call(ptr %row, ptr %functions, ptr %what, i64 %number, ptr %arguments)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %fail, label %on
fail:
  %why = zext i32 %status to i64
  store i64 %why, ptr %failure
  br label %end
on:
  %turn_next = add i64 %turn, 1
  %cells_of = mul i64 %number, 4
  %cells_next = getelementptr i64, ptr %arguments, i64 %cells_of
  br label %look
end:
  %fewer = atomicrmw sub ptr %resting, i64 1 monotonic
  call void %set_threads(i32 %before)
  ret void
}}
"""

ENTRANCE: Final = """
define void @execute{cells}(ptr %row, i64 %worker, i64 %workers) {{
  %ending = getelementptr i64, ptr %row, i64 {cells}
  call void @carry_out(ptr %row, ptr %ending)
  ret void
}}
"""


@cache
def interpreter() -> MachineCode:
    """Functions `execute2` and so on, for rows of 2 and more addresses."""
    openmp = [len(LIBRARY) + number for number in range(len(OPENMP))]
    get, put, number, team, parallel = openmp
    text = IR.format(
        MOST_ARGUMENTS=MOST_ARGUMENTS,
        GET=get,
        SET=put,
        NUMBER=number,
        TEAM=team,
        PARALLEL=parallel,
        ENGINE=parallel + 1,
        STREAM=parallel + 2,
        COPIES=COPIES,
        ALONE=ALONE,
        SHARED=SHARED,
    )
    return compile_ir(text + "".join(ENTRANCE.format(cells=n) for n in range(2, MOST_CELLS + 1)))
