"""How threads sleep until a word in memory changes, and wake each other.

Compiled code calls `sleep(means, place, value)`, which returns at once if the word at `place` is
not `value` and may return for no reason, and `wake(means, place, count)`.  What they need lies in
memory, `means`:

- Linux has a call for it, `futex`;
- Windows has functions for it, `WaitOnAddress` and `WakeByAddressAll`;
- elsewhere a mutex and a condition of the system's thread library serve.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from tawny.engine.llvm.runtime.library import MachineCode, compile_ir

FUTEX: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""Linux's number of the call by which threads sleep and wake each other."""

OPAQUE_BYTES: Final = 256
"""Room for a mutex, and for a condition: more than any system takes."""

IR: Final = """
define internal ptr @cell(ptr %means, i64 %number) alwaysinline {
  %place = getelementptr ptr, ptr %means, i64 %number
  %value = load ptr, ptr %place
  ret ptr %value
}

; futex: the system's way to call it by number, and the number.
define void @futex_sleep(ptr %means, ptr %place, i32 %value) {
  %call = call ptr @cell(ptr %means, i64 0)
  %at = getelementptr i64, ptr %means, i64 1
  %number = load i64, ptr %at
  %done = call i64 (i64, ...) %call(
      i64 %number, ptr %place, i64 128, i32 %value, ptr null, ptr null, i32 0)
  ret void
}
define void @futex_wake(ptr %means, ptr %place, i32 %count) {
  %call = call ptr @cell(ptr %means, i64 0)
  %at = getelementptr i64, ptr %means, i64 1
  %number = load i64, ptr %at
  %done = call i64 (i64, ...) %call(
      i64 %number, ptr %place, i64 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}

; Windows: the two functions.
define void @address_sleep(ptr %means, ptr %place, i32 %value) {
  %held = alloca i32
  store i32 %value, ptr %held
  %call = call ptr @cell(ptr %means, i64 0)
  %done = call i32 %call(ptr %place, ptr %held, i64 4, i32 -1)
  ret void
}
define void @address_wake(ptr %means, ptr %place, i32 %count) {
  %call = call ptr @cell(ptr %means, i64 1)
  call void %call(ptr %place)
  ret void
}

; A mutex and a condition: lock, unlock, wait, broadcast, and the two themselves.  Who sleeps looks
; at the word while nobody can wake, so no waking is missed; all are woken, and look again.
define void @condition_sleep(ptr %means, ptr %place, i32 %value) {
entry:
  %lock = call ptr @cell(ptr %means, i64 0)
  %unlock = call ptr @cell(ptr %means, i64 1)
  %wait = call ptr @cell(ptr %means, i64 2)
  %mutex = call ptr @cell(ptr %means, i64 4)
  %condition = call ptr @cell(ptr %means, i64 5)
  %locked = call i32 %lock(ptr %mutex)
  %now = load atomic i32, ptr %place seq_cst, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %rest, label %done
rest:
  %woken = call i32 %wait(ptr %condition, ptr %mutex)
  br label %done
done:
  %unlocked = call i32 %unlock(ptr %mutex)
  ret void
}
define void @condition_wake(ptr %means, ptr %place, i32 %count) {
  %lock = call ptr @cell(ptr %means, i64 0)
  %unlock = call ptr @cell(ptr %means, i64 1)
  %broadcast = call ptr @cell(ptr %means, i64 3)
  %mutex = call ptr @cell(ptr %means, i64 4)
  %condition = call ptr @cell(ptr %means, i64 5)
  %locked = call i32 %lock(ptr %mutex)
  %told = call i32 %broadcast(ptr %condition)
  %unlocked = call i32 %unlock(ptr %mutex)
  ret void
}
"""


class Sleeping(NamedTuple):
    """A way to sleep: its name, and the cells that its functions need, made anew for each pool."""

    name: str
    cells: Callable[[], Sequence[int]]

    @property
    def sleep(self) -> int:
        """The address of the function that sleeps."""
        return _library().address(f"{self.name}_sleep")

    @property
    def wake(self) -> int:
        """The address of the function that wakes."""
        return _library().address(f"{self.name}_wake")


@cache
def _library() -> MachineCode:
    return compile_ir(IR)


def way_to_sleep() -> Sleeping | None:
    """How threads sleep on this system; None where none of the ways is there."""
    for find in (futex, address, condition):
        found = find()
        if found is not None:
            return found
    return None


def futex() -> Sleeping | None:
    """Linux's call, where its number is known."""
    number = FUTEX.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return None
    return Sleeping("futex", lambda: (address_of(ctypes.CDLL(None).syscall), number))


def address() -> Sleeping | None:
    """The functions of Windows."""
    if sys.platform != "win32":
        return None
    try:
        library = ctypes.CDLL("api-ms-win-core-synch-l1-2-0.dll")
        return by_functions(library.WaitOnAddress, library.WakeByAddressAll)
    except (OSError, AttributeError):
        return None


def by_functions(wait: Any, wake: Any) -> Sleeping:
    """Functions that behave as those of Windows."""
    return Sleeping("address", lambda: (address_of(wait), address_of(wake)))


def condition() -> Sleeping | None:
    """A mutex and a condition, where the system's threads are those of POSIX."""
    if sys.platform == "win32":
        return None
    try:
        library = ctypes.CDLL(None)
        functions = [
            address_of(getattr(library, f"pthread_{name}"))
            for name in ("mutex_lock", "mutex_unlock", "cond_wait", "cond_broadcast")
        ]
        makers = library.pthread_mutex_init, library.pthread_cond_init
    except (OSError, AttributeError):
        return None

    def cells() -> Sequence[int]:
        opaque = [allocate_zeros(OPAQUE_BYTES) for _ in makers]
        for make, place in zip(makers, opaque, strict=True):
            make(ctypes.c_void_p(place), None)
        return (*functions, *opaque)

    return Sleeping("condition", cells)


def address_of(function: Any) -> int:
    """Where a function of a system's library lies."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def allocate_zeros(size: int) -> int:
    """The address of zeroed memory, aligned to a cache line, that is never freed."""
    line = 64
    allocate = ctypes.pythonapi.PyMem_RawCalloc
    allocate.restype = ctypes.c_void_p
    allocate.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    start: int | None = allocate(1, size + line)
    if start is None:
        raise MemoryError
    return -(-start // line) * line
