"""One measurement in a process of its own: `python -m tawny.bench.child NETWORK MODE SECONDS`.

Prints what was measured as JSON.  Kernels are compiled, and weights drawn, before anything counts.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

from tawny.bench.resident_memory import peak_bytes, reset_peak, return_freed_memory
from tawny.bench.workloads import WORKLOADS, PreparedWorkload

MOST_EVALUATIONS: Final = 30
LEAST_EVALUATIONS: Final = 3


def main() -> int:
    """Measure, and print."""
    name, mode, seconds = sys.argv[1:]
    warnings.filterwarnings("ignore", "compile: it took")  # the table says how long
    workload = WORKLOADS[name].prepare()
    measure = {"eager": measure_eager, "graph": measure_graph}[mode]
    print(json.dumps(measure(workload, float(seconds))))
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


def measure_graph(workload: PreparedWorkload, seconds: float) -> dict[str, Any]:
    """Build and compile twice, then evaluate; the first evaluation alone touches the arena."""
    return_freed_memory()
    start = time.perf_counter()
    workload = workload.with_feasible_budget()
    workload.compile()
    first_build = time.perf_counter() - start
    reset_peak()
    start = time.perf_counter()
    program = workload.compile()
    build = time.perf_counter() - start
    program.set(bind=True, **workload.feeds)
    before = reset_peak()
    program.run(views=True)
    taken = peak_bytes() - before
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
