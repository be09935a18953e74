"""One measurement in a process of its own: `tawny.bench.child NETWORK MODE SECONDS ENGINE`.

Prints what was measured as JSON.  Kernels are compiled, and weights drawn, before anything counts.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tawny.bench.workloads import WORKLOADS, PreparedWorkload
from tawny.engine.protocol import engine_named

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


MOST_EVALUATIONS: Final = 30
LEAST_EVALUATIONS: Final = 3


def main() -> int:
    """Measure, and print."""
    name, mode, seconds, engine = sys.argv[1:]
    warnings.filterwarnings("ignore", "compile: it took")  # the table says how long
    workload = WORKLOADS[name].prepare()
    if mode == "eager":
        figures = measure_eager(workload, float(seconds))
    else:
        figures = measure_graph(workload, float(seconds), engine)
    print(json.dumps(figures))
    return 0


def measure_eager(workload: PreparedWorkload, seconds: float) -> dict[str, Any]:
    """One operation at a time by the same kernels, each result in memory of its own."""
    workload.eager(None)
    before = reset_peak()
    times = time_calls(lambda: workload.eager(None), seconds)
    process = peak_bytes()
    freed = process - before
    before = reset_peak()
    workload.eager([])
    held = peak_bytes() - before
    return {
        "seconds": interquartile_mean(times),
        "bytes": freed,
        "held_bytes": held,
        "process_bytes": process,
    }


def measure_graph(workload: PreparedWorkload, seconds: float, engine: str) -> dict[str, Any]:
    """Build and compile twice, then evaluate; the first evaluation alone touches the arena.

    A device says itself how much of its memory is free, if it does; then what the program took
    of it counts, without what it keeps from run to run.
    """
    return_freed_memory()
    start = time.perf_counter()
    workload = workload.with_feasible_budget(engine)
    workload.compile(engine)
    first_build = time.perf_counter() - start
    reset_peak()
    gc.collect()
    free = _free_bytes(engine)
    start = time.perf_counter()
    program = workload.compile(engine)
    build = time.perf_counter() - start
    program.set(bind=engine in ON_HOST, **workload.feeds)
    before = reset_peak()
    program.run(views=True)
    taken = peak_bytes() - before
    if free is not None and (left := _free_bytes(engine)) is not None:
        taken = free - left - program.plan.resident_bytes
    times = time_calls(lambda: program.run(views=True), seconds)
    return {
        "build_s": build,
        "first_build_s": first_build,
        "seconds": interquartile_mean(times),
        "bytes": taken,
        "predicted_bytes": program.plan.peak_bytes,
        "process_bytes": peak_bytes(),
        "evaluations": len(times),
    }


ON_HOST: Final = ("cpu", "reference")
"""Engines whose variables may lie in NumPy's arrays."""


def _free_bytes(engine: str) -> int | None:
    """The free memory of an engine's device, where it has one that says so."""
    device = engine_named(engine).device()
    return None if device is None else device.free_bytes


def time_calls(call: Callable[[], Any], seconds: float) -> list[float]:
    """The seconds of each of at most `MOST_EVALUATIONS` calls, fewer where they take long."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < LEAST_EVALUATIONS or (
        len(times) < MOST_EVALUATIONS and time.perf_counter() < end
    ):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def interquartile_mean(times: list[float]) -> float:
    """The mean of the middle half, as the report's own protocol has it."""
    ordered = sorted(times)
    cut = len(ordered) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


if __name__ == "__main__":
    sys.exit(main())
