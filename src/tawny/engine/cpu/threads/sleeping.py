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
from typing import Any, Final, NamedTuple

from tawny.engine.llvm.ir.builder import I32, I64, PTR, Function, Module
from tawny.engine.llvm.runtime.library import lazy_library

FUTEX: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""Linux's number of the call by which threads sleep and wake each other."""

OPAQUE_BYTES: Final = 256
"""Room for a mutex, and for a condition: more than any system takes."""


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


def _call_futex(f: Function, action: int) -> None:
    """Linux's call by its number, which cell 1 has; cell 0 has the function that makes calls."""
    means, place, number = f.arguments
    null = f.constant(PTR, 0)
    rest = f.constant(I64, action), number, null, null, f.constant(I32, 0)
    f.call_address(f.cell(means, 0, PTR), f.cell(means, 1), place, *rest, returns=I64, fixed=1)


def _sleep_by_address(f: Function) -> None:
    """Windows' function in cell 0, which is told where the value lies that the word may have."""
    means, place, value = f.arguments
    held = f.stack_buffer(4)
    f.store(value, held)
    rest = f.constant(I64, 4), f.constant(I32, -1)
    f.call_address(f.cell(means, 0, PTR), place, held, *rest, returns=I32)


def _wake_by_address(f: Function) -> None:
    """Windows' function in cell 1."""
    means, place, _ = f.arguments
    f.call_address(f.cell(means, 1, PTR), place)


LOCK, UNLOCK, WAIT, BROADCAST, MUTEX, CONDITION = range(6)
"""Cells of a mutex and a condition: their functions, and the two themselves."""


def _sleep_by_condition(f: Function) -> None:
    """Look at the word while nobody can wake, so that no waking is missed."""
    means, place, value = f.arguments
    mutex, condition = f.cell(means, MUTEX, PTR), f.cell(means, CONDITION, PTR)
    f.call_address(f.cell(means, LOCK, PTR), mutex, returns=I32)
    with f.when(f.load_atomic(I32, place, "seq_cst").equals(value)):
        f.call_address(f.cell(means, WAIT, PTR), condition, mutex, returns=I32)
    f.call_address(f.cell(means, UNLOCK, PTR), mutex, returns=I32)


def _wake_by_condition(f: Function) -> None:
    """Wake all: they look again."""
    means = f.arguments[0]
    mutex, condition = f.cell(means, MUTEX, PTR), f.cell(means, CONDITION, PTR)
    for number, given in ((LOCK, mutex), (BROADCAST, condition), (UNLOCK, mutex)):
        f.call_address(f.cell(means, number, PTR), given, returns=I32)


_FUNCTIONS: Final[dict[str, Callable[[Function], None]]] = {
    "futex_sleep": lambda f: _call_futex(f, 128),
    "futex_wake": lambda f: _call_futex(f, 129),
    "address_sleep": _sleep_by_address,
    "address_wake": _wake_by_address,
    "condition_sleep": _sleep_by_condition,
    "condition_wake": _wake_by_condition,
}


@lazy_library
def _library(module: Module) -> None:
    for name, write in _FUNCTIONS.items():
        with module.function(name, {"means": PTR, "place": PTR, "number": I32}) as f:
            write(f)


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
