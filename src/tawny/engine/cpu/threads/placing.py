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
from typing import Final, NamedTuple, final

from tawny.engine.cpu.threads.sleeping import address_of, allocate_zeros
from tawny.engine.llvm.ir.builder import I8, I32, I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library

MASK_BYTES: Final = 1024
"""A bit for each processor: more than any system has."""

STATE, MASK = 8, 64
RECORD_BYTES: Final = MASK + MASK_BYTES

FREE, MOVING, MOVED, SETTLING = range(4)
"""Nothing is forbidden; a waker is about to forbid, or has; the thread is about to allow again."""

CPU, ASK, FORBID, RECORDS, COUNT = range(5)
"""Cells that the functions are given: the system's functions that tell where a thread runs, where
it may, and change that; the address of the records, and how many there are."""


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


@lazy_library
def _library(module: Module) -> None:
    with module.function("part", {"means": PTR}) as f:
        means = f.arguments[0]
        here = f.call_address(f.cell(means, CPU, PTR), returns=I32)
        others = f.stack_buffer(MASK_BYTES)
        with f.when(here.unsigned_below(8 * MASK_BYTES)), f.loop(0, f.cell(means, COUNT)) as loop:
            _RecordWriter(f, loop.index).forbid(here, others)
    with module.function("settle", {"means": PTR, "number": I64}) as f:
        _RecordWriter(f, f.arguments[1]).allow()


class _RecordWriter:
    """Writes what is done to a thread's record; the function's first argument has the cells."""

    def __init__(self, f: Function, number: Value) -> None:
        self.f = f
        self.means = f.arguments[0]
        self.record = f.offset(f.cell(self.means, RECORDS, PTR), number * RECORD_BYTES)
        self.state, self.mask = f.offset(self.record, STATE), f.offset(self.record, MASK)

    def forbid(self, here: Value, others: Value) -> None:
        """Forbid the thread a processor; `others` is room for a mask."""
        f = self.f
        thread = f.convert("trunc", f.load(I64, self.record), I32)

        def ask() -> list[Value]:
            failed = self._call_system(ASK, thread, self.mask).differs(0)
            with f.when(failed):
                self._become(FREE)
            return [~failed]

        def look() -> list[Value]:
            return [self._change_state(MOVED, MOVING)]

        (moving,) = f.either(self._change_state(FREE, MOVING), ask, look)
        with f.when(moving):
            f.move(others, self.mask, f.constant(I64, MASK_BYTES))
            byte = f.offset(others, here.shifted_down(3))
            bit = f.constant(I8, 1) << f.convert("trunc", here & 7, I8)
            f.store(f.load(I8, byte) & ~bit, byte)
            self._call_system(FORBID, thread, others)
            self._become(MOVED)

    def allow(self) -> None:
        """Allow the thread, which calls this, what it was forbidden."""
        f = self.f
        with (
            f.when(f.load_atomic(I32, self.state, "monotonic").equals(MOVED)),
            f.when(self._change_state(MOVED, SETTLING)),
        ):
            self._call_system(FORBID, f.constant(I32, 0), self.mask)
            self._become(FREE)

    def _call_system(self, which: int, thread: Value, mask: Value) -> Value:
        """Ask or say which processors a thread may use; 0 where that worked."""
        size, function = self.f.constant(I64, MASK_BYTES), self.f.cell(self.means, which, PTR)
        return self.f.call_address(function, thread, size, mask, returns=I32)

    def _change_state(self, before: int, after: int) -> Value:
        """Change the state; whether it was as expected."""
        expected, value = (self.f.constant(I32, n) for n in (before, after))
        return self.f.replace_atomic(self.state, expected, value, "acq_rel", "acquire")[1]

    def _become(self, state: int) -> None:
        self.f.store_atomic(self.f.constant(I32, state), self.state, "release")


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
