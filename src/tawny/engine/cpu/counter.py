"""The processor's counter of time, which compiled code reads in a few nanoseconds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Final, NamedTuple

from tawny.engine.llvm.ir.builder import I64, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library

CALIBRATION_SECONDS: Final = 0.02
"""For how long the counter is compared with the system's clock: its rate is then right to a hundred
thousandth."""


def read_counter(f: Function) -> Value:
    """What the counter shows.

    Other processors than x86 keep their counter of cycles from programs and have one of time.
    """
    is_x86 = f.module.target.triple.startswith(("x86_64", "i686"))
    return f.intrinsic("readcyclecounter" if is_x86 else "readsteadycounter", I64, overload=())


@lazy_library
def _library(module: Module) -> None:
    with module.function("counter", {}, I64) as f:
        f.return_(read_counter(f))


class Counter(NamedTuple):
    """A counter of time."""

    read: Callable[[], int]
    period: float
    """Seconds between two counts."""


@cache
def processor_counter() -> Counter | None:
    """The counter of this processor, compared with the system's clock; None if it stands still."""
    library = _library()
    read = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("counter"))
    read.library = library  # type: ignore[attr-defined]
    first, start = _read_with_clock(read)
    while perf_counter() < start + CALIBRATION_SECONDS:
        pass
    last, stop = _read_with_clock(read)
    return Counter(read, (stop - start) / (last - first)) if last > first else None


def _read_with_clock(read: Callable[[], int]) -> tuple[int, float]:
    """What the counter and the system's clock show, read as close together as can be."""
    tries: list[tuple[float, int, float]] = []
    for _ in range(20):
        before = perf_counter()
        count = read()
        after = perf_counter()
        tries.append((after - before, count, (before + after) / 2))
    _, count, seconds = min(tries)
    return count, seconds
