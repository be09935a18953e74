"""The threads that share the work of a step.

Workers are Python threads that stay inside compiled code, without the interpreter lock.  Each waits
for the next piece of work: it spins for a moment, then sleeps in the kernel until it is woken.
There is one pool for each number of threads; it is made when it is first used, and made anew in a
process that was forked.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import platform
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Final, final

from tawny.codegen.library import Library, compiled
from tawny.errors import value_error

SPIN_SECONDS: Final = 50e-6
"""How long a thread spins before it sleeps: longer than most gaps between two pieces of work."""

JOIN_SECONDS: Final = 5.0
"""How long the end of the process waits for a worker that is still at work."""

FUTEX: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""Linux's number of the call by which threads sleep and wake each other."""

PAUSE: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""What tells the processor that a thread is spinning: the intrinsic's declaration and its call."""

LINE: Final = 64
"""Bytes of a cache line: what different threads write is kept that far apart."""

TICKET, TASK, SLEEPING, PENDING, WAITING, BUSY, FIXED = range(0, 7 * LINE, LINE)
"""Where the pool's memory holds what: the number of the newest piece of work and of its next share,
the work itself, how many workers sleep, how many shares are not done, whether the caller sleeps,
whether a caller has the pool, and what is set by Python alone."""

EPOCH: Final = TICKET + 4 * (sys.byteorder == "little")
"""The upper half of the ticket: the number of the work, for which workers wait."""

FUNCTION, ROW = TASK, TASK + 8
ENTER, THREADS, SPINS, SYSCALL, NUMBER, STOP = range(FIXED, FIXED + 48, 8)
STATE_BYTES: Final = FIXED + LINE

IR: Final = """
{declared}
define internal ptr @field(ptr %pool, i64 %offset) alwaysinline {{
  %place = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %place
}}

define internal void @pause() alwaysinline {{
  {pause}
  ret void
}}

; Sleep while the word at %place is %value (operation 128), or wake all who do (operation 129).
define internal void @futex(ptr %pool, ptr %place, i64 %operation, i32 %value) noinline {{
  %at = call ptr @field(ptr %pool, i64 {SYSCALL})
  %syscall = load ptr, ptr %at
  %where = call ptr @field(ptr %pool, i64 {NUMBER})
  %number = load i64, ptr %where
  %done = call i64 (i64, ...) %syscall(
      i64 %number, ptr %place, i64 %operation, i32 %value, ptr null, ptr null, i32 0)
  ret void
}}

; Wait until the word at %place is not %value: spin, then sleep, counting the sleepers.
define internal i32 @changed(ptr %pool, ptr %place, i32 %value, ptr %sleepers) noinline {{
entry:
  %at = call ptr @field(ptr %pool, i64 {SPINS})
  %spins = load i64, ptr %at
  br label %look
look:
  %turn = phi i64 [0, %entry], [%next, %spin], [0, %sleep]
  %now = load atomic i32, ptr %place acquire, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %wait, label %done
wait:
  %tired = icmp uge i64 %turn, %spins
  br i1 %tired, label %sleep, label %spin
spin:
  call void @pause()
  %next = add i64 %turn, 1
  br label %look
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @futex(ptr %pool, ptr %place, i64 128, i32 %value)
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %look
done:
  ret i32 %now
}}

; Tell everybody that the word at %place has changed, if anybody sleeps.
define internal void @tell(ptr %pool, ptr %place, ptr %sleepers) alwaysinline {{
  %count = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp ne i32 %count, 0
  br i1 %any, label %wake, label %done
wake:
  call void @futex(ptr %pool, ptr %place, i64 129, i32 2147483647)
  br label %done
done:
  ret void
}}

; Take the next share of the work in hand; -1 if none is left.
define internal i64 @claimed(ptr %ticket, i64 %shares) alwaysinline {{
entry:
  %first = load atomic i64, ptr %ticket acquire, align 8
  br label %look
look:
  %seen = phi i64 [%first, %entry], [%newer, %ask]
  %share = and i64 %seen, 4294967295
  %over = icmp uge i64 %share, %shares
  br i1 %over, label %none, label %ask
ask:
  %next = add i64 %seen, 1
  %asked = cmpxchg ptr %ticket, i64 %seen, i64 %next acq_rel acquire
  %newer = extractvalue {{ i64, i1 }} %asked, 0
  %mine = extractvalue {{ i64, i1 }} %asked, 1
  br i1 %mine, label %found, label %look
found:
  ret i64 %share
none:
  ret i64 -1
}}

; What a worker does all its life.  A share it has taken is not over before it says so, and only
; then may the caller change the work: so the work is read after the share is taken.
define void @pool_work(ptr %pool) {{
entry:
  %ticket = call ptr @field(ptr %pool, i64 {TICKET})
  %epoch = call ptr @field(ptr %pool, i64 {EPOCH})
  %sleeping = call ptr @field(ptr %pool, i64 {SLEEPING})
  %pending = call ptr @field(ptr %pool, i64 {PENDING})
  %waiting = call ptr @field(ptr %pool, i64 {WAITING})
  %stop = call ptr @field(ptr %pool, i64 {STOP})
  %threads = call ptr @field(ptr %pool, i64 {THREADS})
  %function = call ptr @field(ptr %pool, i64 {FUNCTION})
  %row = call ptr @field(ptr %pool, i64 {ROW})
  %shares = load i64, ptr %threads
  br label %next
next:
  %last = phi i32 [0, %entry], [%number, %look]
  %number = call i32 @changed(ptr %pool, ptr %epoch, i32 %last, ptr %sleeping)
  %ends = load i64, ptr %stop
  %over = icmp ne i64 %ends, 0
  br i1 %over, label %done, label %look
look:
  %share = call i64 @claimed(ptr %ticket, i64 %shares)
  %none = icmp slt i64 %share, 0
  br i1 %none, label %next, label %work
work:
  %kernel = load ptr, ptr %function
  %cells = load ptr, ptr %row
  call void %kernel(ptr %cells, i64 %share, i64 %shares)
  %left = atomicrmw sub ptr %pending, i32 1 seq_cst
  %final = icmp eq i32 %left, 1
  br i1 %final, label %tell, label %look
tell:
  call void @tell(ptr %pool, ptr %pending, ptr %waiting)
  br label %look
done:
  ret void
}}

; Run a kernel on all threads; alone, if another caller has the pool just now.  The caller takes
; shares too, and those of workers that are not awake, so it waits for nobody who has not begun.
define void @pool_enter(ptr %pool, ptr %kernel, ptr %cells) {{
entry:
  %at = call ptr @field(ptr %pool, i64 {THREADS})
  %shares = load i64, ptr %at
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
  %opened = or i64 %high, 1
  store atomic i64 %opened, ptr %ticket seq_cst, align 8
  call void @tell(ptr %pool, ptr %epoch, ptr %sleeping)
  br label %work
work:
  %share = phi i64 [0, %open], [%other, %more]
  call void %kernel(ptr %cells, i64 %share, i64 %shares)
  %left = atomicrmw sub ptr %pending, i32 1 acq_rel
  %final = icmp eq i32 %left, 1
  br i1 %final, label %done, label %more
more:
  %other = call i64 @claimed(ptr %ticket, i64 %shares)
  %none = icmp slt i64 %other, 0
  br i1 %none, label %join, label %work
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
  call void @tell(ptr %pool, ptr %epoch, ptr %sleeping)
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
def _library() -> Library:
    declared, pause = PAUSE.get(platform.machine(), ("", ""))
    return compiled(
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
            SYSCALL=SYSCALL,
            NUMBER=NUMBER,
            STOP=STOP,
        )
    )


@final
class Pool:
    """Threads that run a kernel together; `state` is its memory, which compiled code knows.

    That memory is never freed: threads may outlive every Python object.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.started = False
        self.state = _zeroed(STATE_BYTES)
        self._workers: list[threading.Thread] = []
        self._set(ENTER, _library().address("pool_enter"))
        self._set(THREADS, 1)

    def start(self) -> None:
        """Make the workers; where they could not sleep, the caller works alone."""
        with _LOCK:
            if not self.started:
                self.started = True
                self._start()

    def _start(self) -> None:
        number = futex_number()
        if self.threads == 1 or number is None:
            return
        library = _library()
        self._set(SYSCALL, ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value or 0)
        self._set(NUMBER, number)
        self._set(SPINS, _spins(library) if self.threads <= processors() else 0)
        self._set(THREADS, self.threads)
        self._workers = _started(library.address("pool_work"), self.state, self.threads)

    def stop(self) -> None:
        """Let the workers return; from then on the caller works alone."""
        stop = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(_library().address("pool_stop"))
        deadline = time.monotonic() + JOIN_SECONDS
        while self._workers and not stop(self.state):
            if time.monotonic() > deadline:
                return
            time.sleep(1e-3)
        self._set(THREADS, 1)
        for worker in self._workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        self._workers = []

    def forget(self) -> None:
        """Begin anew, in a process that has the memory but not the workers."""
        for field in (TICKET, SLEEPING, PENDING, WAITING, BUSY, STOP):
            self._set(field, 0)
        self._set(THREADS, 1)
        self._workers = []
        self.started = False

    def _set(self, field: int, value: int) -> None:
        ctypes.c_int64.from_address(self.state + field).value = value


def _zeroed(size: int) -> int:
    """The address of zeroed memory, aligned to a cache line, that is never freed."""
    allocate = ctypes.pythonapi.PyMem_RawCalloc
    allocate.restype = ctypes.c_void_p
    allocate.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    start = allocate(1, size + LINE)
    if not start:
        raise MemoryError
    return -(-start // LINE) * LINE


def _started(work: int, state: int, threads: int) -> list[threading.Thread]:
    """Workers, as many as the system allows."""
    loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(work)
    workers: list[threading.Thread] = []
    for number in range(1, threads):
        worker = threading.Thread(
            target=loop, args=(state,), name=f"tawny-{number}", daemon=True
        )
        try:
            worker.start()
        except RuntimeError:
            break
        workers.append(worker)
    return workers


def _spins(library: Library) -> int:
    """How many turns of the spinning loop take `SPIN_SECONDS`."""
    turns = 300
    spin = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address("pool_spin"))
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        spin(turns)
        best = min(best, time.perf_counter() - start)
    return int(SPIN_SECONDS / best * turns)


def futex_number() -> int | None:
    """The number of the call by which threads sleep; None where this system has none."""
    return FUTEX.get(platform.machine()) if sys.platform == "linux" else None


# ------------------------------------------------------------- how many threads


def processors() -> int:
    """How many processors this process may use at once."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    return max(1, min(allowed, _quota()))


def _quota(limits: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The processors' time that a container's limit leaves, rounded up to whole processors."""
    try:
        quota, period = limits.read_text().split()
        return sys.maxsize if quota == "max" else math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return sys.maxsize


def default_threads() -> int:
    """`TAWNY_THREADS`, or as many as there are processors to use."""
    named = os.environ.get("TAWNY_THREADS", "")
    if not named:
        return processors()
    if not named.isdecimal() or int(named) < 1:
        raise value_error("TAWNY_THREADS", f"{named!r} is no number of threads: 1 or more")
    return int(named)


# ------------------------------------------------------------------- the pools

_POOLS: Final[dict[int, Pool]] = {}
_LOCK = threading.RLock()


def pool_of(threads: int) -> Pool:
    """The pool of so many threads; they are not started yet."""
    with _LOCK:
        if threads not in _POOLS:
            if not _POOLS:
                atexit.register(_stop)
            _POOLS[threads] = Pool(threads)
        return _POOLS[threads]


def _stop() -> None:
    """Before the process ends, while what the workers run is still there."""
    for pool in _POOLS.values():
        pool.stop()


def _forget() -> None:
    """A forked process has none of the threads, and nobody who holds the lock."""
    global _LOCK
    _LOCK = threading.RLock()
    for pool in _POOLS.values():
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
