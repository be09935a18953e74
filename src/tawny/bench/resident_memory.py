"""Bytes of this process that are in memory: now, and at most since a moment."""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import sys
from pathlib import Path
from typing import Any, Final

_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")


def peak_bytes() -> int:
    """The most since the process began, or since `reset_peak` where the system can forget."""
    found = _read("VmHWM")
    return _peak_of_process() if found is None else found


def return_freed_memory() -> None:
    """Let arrays that are freed from here on go back to the system, and not be used again.

    What is in memory is then what is in use.
    """
    if (change := _glibc_function("mallopt")) is not None:
        change(_MMAP_THRESHOLD, 1 << 16)


def reset_peak() -> int:
    """Give free memory back, forget the highest mark, and say how much is in memory now."""
    gc.collect()
    if (trim := _glibc_function("malloc_trim")) is not None:
        trim(0)
    if _RESET.exists():
        _RESET.write_text("5")
    found = _read("VmRSS")
    return _peak_of_process() if found is None else found


_MMAP_THRESHOLD: Final = -3
"""What glibc calls the size from which arrays have memory of their own."""


def _glibc_function(name: str) -> Any:
    """A function of the C library, where it is glibc; else None."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(ctypes.util.find_library("c")), name, None)


def _read(field: str) -> int | None:
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None


def _peak_of_process() -> int:
    if sys.platform == "win32":
        return 0  # what is not measured is not claimed
    import resource  # noqa: PLC0415 (not on every system)

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
