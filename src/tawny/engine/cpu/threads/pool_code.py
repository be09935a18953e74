"""The compiled part of the pool: what workers and callers do, and the memory they share."""

from __future__ import annotations

import platform
import sys
from functools import cache
from typing import Final

from tawny.engine.llvm.runtime.library import MachineCode, compile_ir

PAUSE: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""What tells the processor that a thread is spinning: the intrinsic's declaration and its call."""

LINE: Final = 64
"""Bytes of a cache line: what different threads write is kept that far apart."""

TICKET, TASK, SLEEPING, PENDING, WAITING, BUSY, FIXED = range(0, 7 * LINE, LINE)
"""Where the pool's memory holds what: the ticket, the work itself, how many workers sleep, how many
shares are not done, whether the caller sleeps, whether a caller has the pool, and what is set by
Python alone.  The ticket is one number: that of the newest piece of work in its upper half, then
how many shares it has, and in the lowest 16 bits the number of its next share."""

EPOCH: Final = TICKET + 4 * (sys.byteorder == "little")
"""The upper half of the ticket: the number of the work, for which workers wait."""

FUNCTION, ROW = TASK, TASK + 8
ENTER, THREADS, SPINS, SLEEP, WAKE, MEANS, STOP, RESTING = range(FIXED, FIXED + LINE, 8)
PLACES, PART, SETTLE = range(FIXED + LINE, FIXED + LINE + 24, 8)
"""What parts threads, and the functions that do; null where threads stay where they are."""

STATE_BYTES: Final = FIXED + 2 * LINE

MOST_THREADS: Final = 2**15
"""Numbers of shares fit into 16 bits."""

IR: Final = """
{declared}
declare i64 @llvm.umin.i64(i64, i64)

define internal ptr @field(ptr %pool, i64 %offset) alwaysinline {{
  %place = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %place
}}

define internal void @pause() alwaysinline {{
  {pause}
  ret void
}}

; Call what lets threads sleep while the word at %place is %number, or wakes so many who do.
define internal void @system(ptr %pool, i64 %which, ptr %place, i32 %number) noinline {{
  %at = call ptr @field(ptr %pool, i64 %which)
  %function = load ptr, ptr %at
  %where = call ptr @field(ptr %pool, i64 {MEANS})
  %means = load ptr, ptr %where
  call void %function(ptr %means, ptr %place, i32 %number)
  ret void
}}

; Wait until the word at %place is not %value: spin, then sleep, counting the sleepers.  Nobody
; spins while threads of another library are at work.
define internal i32 @changed(ptr %pool, ptr %place, i32 %value, ptr %sleepers) noinline {{
entry:
  %at = call ptr @field(ptr %pool, i64 {SPINS})
  %spins = load i64, ptr %at
  %rest = call ptr @field(ptr %pool, i64 {RESTING})
  br label %look
look:
  %turn = phi i64 [0, %entry], [%next, %spin], [0, %sleep]
  %now = load atomic i32, ptr %place acquire, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %wait, label %done
wait:
  %resting = load atomic i64, ptr %rest monotonic, align 8
  %others = icmp ne i64 %resting, 0
  %most = select i1 %others, i64 0, i64 %spins
  %tired = icmp uge i64 %turn, %most
  br i1 %tired, label %sleep, label %spin
spin:
  call void @pause()
  %next = add i64 %turn, 1
  br label %look
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @system(ptr %pool, i64 {SLEEP}, ptr %place, i32 %value)
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %look
done:
  ret i32 %now
}}

; Tell some who sleep that the word at %place has changed.
define internal void @tell(ptr %pool, ptr %place, ptr %sleepers, i32 %some) alwaysinline {{
  %count = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp ne i32 %count, 0
  br i1 %any, label %wake, label %done
wake:
  call void @system(ptr %pool, i64 {WAKE}, ptr %place, i32 %some)
  br label %done
done:
  ret void
}}

define internal i64 @share(i64 %ticket) alwaysinline {{
  %share = and i64 %ticket, 65535
  ret i64 %share
}}

define internal i64 @shares(i64 %ticket) alwaysinline {{
  %shifted = lshr i64 %ticket, 16
  %shares = and i64 %shifted, 65535
  ret i64 %shares
}}

; Take the next share of the work in hand: gives the ticket, -1 if no share is left.
define internal i64 @claimed(ptr %ticket) alwaysinline {{
entry:
  %first = load atomic i64, ptr %ticket acquire, align 8
  br label %look
look:
  %seen = phi i64 [%first, %entry], [%newer, %ask]
  %share = call i64 @share(i64 %seen)
  %shares = call i64 @shares(i64 %seen)
  %over = icmp uge i64 %share, %shares
  br i1 %over, label %none, label %ask
ask:
  %next = add i64 %seen, 1
  %asked = cmpxchg ptr %ticket, i64 %seen, i64 %next acq_rel acquire
  %newer = extractvalue {{ i64, i1 }} %asked, 0
  %mine = extractvalue {{ i64, i1 }} %asked, 1
  br i1 %mine, label %found, label %look
found:
  ret i64 %seen
none:
  ret i64 -1
}}

; Keep those who sleep from being woken where this thread runs.
define internal void @part(ptr %pool) noinline {{
entry:
  %at = call ptr @field(ptr %pool, i64 {PLACES})
  %places = load ptr, ptr %at
  %parted = icmp ne ptr %places, null
  br i1 %parted, label %work, label %done
work:
  %which = call ptr @field(ptr %pool, i64 {PART})
  %function = load ptr, ptr %which
  call void %function(ptr %places)
  br label %done
done:
  ret void
}}

; Let worker %number, which runs, use all processors again.
define internal void @settle(ptr %pool, i64 %number) alwaysinline {{
entry:
  %at = call ptr @field(ptr %pool, i64 {PLACES})
  %places = load ptr, ptr %at
  %parted = icmp ne ptr %places, null
  br i1 %parted, label %work, label %done
work:
  %which = call ptr @field(ptr %pool, i64 {SETTLE})
  %function = load ptr, ptr %which
  call void %function(ptr %places, i64 %number)
  br label %done
done:
  ret void
}}

; What worker %own does all its life.  A share it has taken is not over before it says so, and only
; then may the caller change the work: so the work is read after the share is taken.
define void @pool_work(ptr %pool, i64 %own) {{
entry:
  %ticket = call ptr @field(ptr %pool, i64 {TICKET})
  %epoch = call ptr @field(ptr %pool, i64 {EPOCH})
  %sleeping = call ptr @field(ptr %pool, i64 {SLEEPING})
  %pending = call ptr @field(ptr %pool, i64 {PENDING})
  %waiting = call ptr @field(ptr %pool, i64 {WAITING})
  %stop = call ptr @field(ptr %pool, i64 {STOP})
  %function = call ptr @field(ptr %pool, i64 {FUNCTION})
  %row = call ptr @field(ptr %pool, i64 {ROW})
  br label %next
next:
  %last = phi i32 [0, %entry], [%number, %look]
  %number = call i32 @changed(ptr %pool, ptr %epoch, i32 %last, ptr %sleeping)
  call void @settle(ptr %pool, i64 %own)
  %ends = load i64, ptr %stop
  %over = icmp ne i64 %ends, 0
  br i1 %over, label %done, label %look
look:
  %taken = call i64 @claimed(ptr %ticket)
  %none = icmp eq i64 %taken, -1
  br i1 %none, label %next, label %work
work:
  %share = call i64 @share(i64 %taken)
  %shares = call i64 @shares(i64 %taken)
  %kernel = load ptr, ptr %function
  %cells = load ptr, ptr %row
  call void %kernel(ptr %cells, i64 %share, i64 %shares)
  %left = atomicrmw sub ptr %pending, i32 1 seq_cst
  %final = icmp eq i32 %left, 1
  br i1 %final, label %tell, label %look
tell:
  call void @tell(ptr %pool, ptr %pending, ptr %waiting, i32 1)
  br label %look
done:
  ret void
}}

; Run a kernel in at most so many shares; alone, if another caller has the pool just now.  The
; caller takes shares too, and those of workers that are not awake, so it waits for nobody who has
; not begun.
define void @pool_enter(ptr %pool, ptr %kernel, ptr %cells, i64 %most) {{
entry:
  %at = call ptr @field(ptr %pool, i64 {THREADS})
  %threads = load i64, ptr %at
  %shares = call i64 @llvm.umin.i64(i64 %threads, i64 %most)
  %several = icmp ugt i64 %shares, 1
  br i1 %several, label %ask, label %alone
ask:
  %busy = call ptr @field(ptr %pool, i64 {BUSY})
  %asked = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %asked, 1
  br i1 %mine, label %open, label %alone
alone:
  call void %kernel(ptr %cells, i64 0, i64 1)
  ret void
open:
  %ticket = call ptr @field(ptr %pool, i64 {TICKET})
  %epoch = call ptr @field(ptr %pool, i64 {EPOCH})
  %sleeping = call ptr @field(ptr %pool, i64 {SLEEPING})
  %pending = call ptr @field(ptr %pool, i64 {PENDING})
  %waiting = call ptr @field(ptr %pool, i64 {WAITING})
  %function = call ptr @field(ptr %pool, i64 {FUNCTION})
  %row = call ptr @field(ptr %pool, i64 {ROW})
  store ptr %kernel, ptr %function
  store ptr %cells, ptr %row
  %all = trunc i64 %shares to i32
  store atomic i32 %all, ptr %pending monotonic, align 4
  %last = load atomic i64, ptr %ticket monotonic, align 8
  %number = lshr i64 %last, 32
  %following = add i64 %number, 1
  %high = shl i64 %following, 32
  %middle = shl i64 %shares, 16
  %both = or i64 %high, %middle
  %opened = or i64 %both, 1
  store atomic i64 %opened, ptr %ticket seq_cst, align 8
  %asleep = load atomic i32, ptr %sleeping seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  call void @part(ptr %pool)
  %others = sub i32 %all, 1
  call void @system(ptr %pool, i64 {WAKE}, ptr %epoch, i32 %others)
  br label %work
work:
  %share = phi i64 [0, %open], [0, %wake], [%other, %again]
  call void %kernel(ptr %cells, i64 %share, i64 %shares)
  %left = atomicrmw sub ptr %pending, i32 1 acq_rel
  %final = icmp eq i32 %left, 1
  br i1 %final, label %done, label %more
more:
  %taken = call i64 @claimed(ptr %ticket)
  %none = icmp eq i64 %taken, -1
  br i1 %none, label %join, label %again
again:
  %other = call i64 @share(i64 %taken)
  br label %work
join:
  %open_shares = load atomic i32, ptr %pending acquire, align 4
  %whole = icmp eq i32 %open_shares, 0
  br i1 %whole, label %done, label %wait
wait:
  %now = call i32 @changed(ptr %pool, ptr %pending, i32 %open_shares, ptr %waiting)
  br label %join
done:
  store atomic i32 0, ptr %busy release, align 4
  ret void
}}

; Let every worker return; gives whether the pool was free to do so.
define i32 @pool_stop(ptr %pool) {{
entry:
  %busy = call ptr @field(ptr %pool, i64 {BUSY})
  %asked = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %asked, 1
  br i1 %mine, label %tell, label %taken
taken:
  ret i32 0
tell:
  %stop = call ptr @field(ptr %pool, i64 {STOP})
  %epoch = call ptr @field(ptr %pool, i64 {EPOCH})
  %sleeping = call ptr @field(ptr %pool, i64 {SLEEPING})
  store i64 1, ptr %stop
  %old = atomicrmw add ptr %epoch, i32 1 seq_cst
  call void @tell(ptr %pool, ptr %epoch, ptr %sleeping, i32 2147483647)
  ret i32 1
}}

; Spin %turns times, to learn how long one takes.
define void @pool_spin(i64 %turns) {{
entry:
  br label %again
again:
  %turn = phi i64 [0, %entry], [%next, %again]
  call void @pause()
  %next = add i64 %turn, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %again, label %done
done:
  ret void
}}
"""


@cache
def pool_library() -> MachineCode:
    """The functions of the pool."""
    declared, pause = PAUSE.get(platform.machine(), ("", ""))
    return compile_ir(
        IR.format(
            declared=declared,
            pause=pause,
            TICKET=TICKET,
            EPOCH=EPOCH,
            SLEEPING=SLEEPING,
            PENDING=PENDING,
            WAITING=WAITING,
            BUSY=BUSY,
            FUNCTION=FUNCTION,
            ROW=ROW,
            THREADS=THREADS,
            SPINS=SPINS,
            SLEEP=SLEEP,
            WAKE=WAKE,
            MEANS=MEANS,
            STOP=STOP,
            RESTING=RESTING,
            PLACES=PLACES,
            PART=PART,
            SETTLE=SETTLE,
        )
    )
