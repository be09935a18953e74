"""Where sleeping threads wake: not on the processor of the thread that wakes them.

A system may wake a thread where its waker runs, though other processors are idle: virtual machines
do.  There it only gets the waker's time, and since each then sleeps while the other works, nothing
tells the system to part them.  So before the waker wakes others it forbids them its own processor,
and they allow it again once they run.

Each thread has a record: its number, the state of that, and the processors it may use.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple, final

from tawny.engine.cpu.threads.sleeping import address_of, allocate_zeros
from tawny.engine.llvm.runtime.library import MachineCode, compile_ir

MASK_BYTES: Final = 1024
"""A bit for each processor: more than any system has."""

STATE, MASK = 8, 64
RECORD_BYTES: Final = MASK + MASK_BYTES

FREE, MOVING, MOVED, SETTLING = range(4)
"""Nothing is forbidden; a waker is about to forbid, or has; the thread is about to allow again."""

IR: Final = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @function(ptr %means, i64 %number) alwaysinline {{
  %place = getelementptr ptr, ptr %means, i64 %number
  %value = load ptr, ptr %place
  ret ptr %value
}}

define internal ptr @record(ptr %means, i64 %number) alwaysinline {{
  %records = call ptr @function(ptr %means, i64 3)
  %offset = mul i64 %number, {RECORD_BYTES}
  %place = getelementptr i8, ptr %records, i64 %offset
  ret ptr %place
}}

; Change a state; gives whether it was as expected.
define internal i1 @turned(ptr %state, i32 %from, i32 %to) alwaysinline {{
  %asked = cmpxchg ptr %state, i32 %from, i32 %to acq_rel acquire
  %done = extractvalue {{ i32, i1 }} %asked, 1
  ret i1 %done
}}

; Forbid a thread the processor %here.
define internal void @forbid(ptr %means, ptr %record, i32 %here) noinline {{
entry:
  %get = call ptr @function(ptr %means, i64 1)
  %set = call ptr @function(ptr %means, i64 2)
  %long = load i64, ptr %record
  %thread = trunc i64 %long to i32
  %state = getelementptr i8, ptr %record, i64 {STATE}
  %mask = getelementptr i8, ptr %record, i64 {MASK}
  %others = alloca [{MASK_BYTES} x i8], align 8
  %free = call i1 @turned(ptr %state, i32 {FREE}, i32 {MOVING})
  br i1 %free, label %ask, label %look
ask:
  %failed = call i32 %get(i32 %thread, i64 {MASK_BYTES}, ptr %mask)
  %known = icmp eq i32 %failed, 0
  br i1 %known, label %move, label %release
release:
  store atomic i32 {FREE}, ptr %state release, align 4
  br label %end
look:
  %moved = call i1 @turned(ptr %state, i32 {MOVED}, i32 {MOVING})
  br i1 %moved, label %move, label %end
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr %mask, i64 {MASK_BYTES}, i1 false)
  %byte = lshr i32 %here, 3
  %low = and i32 %here, 7
  %bit = trunc i32 %low to i8
  %one = shl i8 1, %bit
  %rest = xor i8 %one, -1
  %at = getelementptr i8, ptr %others, i32 %byte
  %all = load i8, ptr %at
  %left = and i8 %all, %rest
  store i8 %left, ptr %at
  %done = call i32 %set(i32 %thread, i64 {MASK_BYTES}, ptr %others)
  store atomic i32 {MOVED}, ptr %state release, align 4
  br label %end
end:
  ret void
}}

; Forbid all threads the processor of this one.
define void @part(ptr %means) {{
entry:
  %which = call ptr @function(ptr %means, i64 0)
  %here = call i32 %which()
  %at = getelementptr i64, ptr %means, i64 4
  %count = load i64, ptr %at
  %known = icmp ult i32 %here, {processors}
  br i1 %known, label %next, label %end
next:
  %number = phi i64 [0, %entry], [%following, %work]
  %more = icmp ult i64 %number, %count
  br i1 %more, label %work, label %end
work:
  %record = call ptr @record(ptr %means, i64 %number)
  call void @forbid(ptr %means, ptr %record, i32 %here)
  %following = add i64 %number, 1
  br label %next
end:
  ret void
}}

; Allow this thread, whose record has a number, what it was forbidden.
define void @settle(ptr %means, i64 %number) {{
entry:
  %record = call ptr @record(ptr %means, i64 %number)
  %state = getelementptr i8, ptr %record, i64 {STATE}
  %now = load atomic i32, ptr %state monotonic, align 4
  %moved = icmp eq i32 %now, {MOVED}
  br i1 %moved, label %ask, label %end
ask:
  %mine = call i1 @turned(ptr %state, i32 {MOVED}, i32 {SETTLING})
  br i1 %mine, label %allow, label %end
allow:
  %set = call ptr @function(ptr %means, i64 2)
  %mask = getelementptr i8, ptr %record, i64 {MASK}
  %done = call i32 %set(i32 0, i64 {MASK_BYTES}, ptr %mask)
  store atomic i32 {FREE}, ptr %state release, align 4
  br label %end
end:
  ret void
}}
"""


class Placing(NamedTuple):
    """A way to part threads: the system's functions."""

    functions: tuple[int, int, int]

    @property
    def part(self) -> int:
        """The address of the function that forbids threads the caller's processor."""
        return _library().address("part")

    @property
    def settle(self) -> int:
        """The address of the function by which a thread allows it again."""
        return _library().address("settle")

    def places(self, most: int) -> Places:
        """What both functions need for at most `most` threads."""
        return Places(self.functions, most)


@final
class Places:
    """The records of some threads, in memory that is never freed; `address` is what code knows."""

    def __init__(self, functions: Sequence[int], most: int) -> None:
        self._records = allocate_zeros(RECORD_BYTES * most)
        self._cells = (ctypes.c_int64 * 5).from_address(allocate_zeros(40))
        self._cells[:] = [*functions, self._records, 0]

    @property
    def address(self) -> int:
        """Where the functions and the records are named."""
        return ctypes.addressof(self._cells)

    def admit(self, threads: Sequence[int]) -> None:
        """From now on threads with these numbers of the system are parted from their wakers."""
        for place, thread in enumerate(threads):
            ctypes.c_int64.from_address(self._records + place * RECORD_BYTES).value = thread
        self._cells[4] = len(threads)


@cache
def _library() -> MachineCode:
    return compile_ir(
        IR.format(
            RECORD_BYTES=RECORD_BYTES,
            MASK_BYTES=MASK_BYTES,
            STATE=STATE,
            MASK=MASK,
            FREE=FREE,
            MOVING=MOVING,
            MOVED=MOVED,
            SETTLING=SETTLING,
            processors=8 * MASK_BYTES,
        )
    )


def way_to_place() -> Placing | None:
    """How threads are parted on this system; None where it has no functions for it."""
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL(None)
        return Placing(
            (
                address_of(library.sched_getcpu),
                address_of(library.sched_getaffinity),
                address_of(library.sched_setaffinity),
            )
        )
    except (OSError, AttributeError):
        return None
