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

from tawny.bench.resident_memory import give_back_at_once, most, settle
from tawny.bench.workloads import WORKLOADS, Made

MOST_EVALUATIONS: Final = 30
LEAST_EVALUATIONS: Final = 3


def main() -> int:
    """Measure, and print."""
    name, mode, seconds = sys.argv[1:]
    warnings.filterwarnings("ignore", "compile: it took")  # the table says how long
    made = WORKLOADS[name].make()
    measure = {"eager": eager, "graph": graph}[mode]
    print(json.dumps(measure(made, float(seconds))))
    return 0


def eager(made: Made, seconds: float) -> dict[str, Any]:
    """One operation at a time by the same kernels, each result in memory of its own."""
    made.eager(None)
    before = settle()
    times = timed(lambda: made.eager(None), seconds)
    process = most()
    freed = process - before
    before = settle()
    made.eager([])
    held = most() - before
    return {
        "seconds": middle(times),
        "bytes": freed,
        "held_bytes": held,
        "process_bytes": process,
    }


def graph(made: Made, seconds: float) -> dict[str, Any]:
    """Build and compile twice, then evaluate; the first evaluation alone touches the arena."""
    give_back_at_once()
    start = time.perf_counter()
    made = made.met()
    made.compiled()
    first_build = time.perf_counter() - start
    settle()
    start = time.perf_counter()
    program = made.compiled()
    build = time.perf_counter() - start
    program.set(bind=True, **made.feeds)
    before = settle()
    program.run(views=True)
    taken = most() - before
    times = timed(lambda: program.run(views=True), seconds)
    return {
        "build_s": build,
        "first_build_s": first_build,
        "seconds": middle(times),
        "bytes": taken,
        "predicted_bytes": program.plan.peak_bytes,
        "process_bytes": most(),
        "evaluations": len(times),
    }


def timed(call: Callable[[], Any], seconds: float) -> list[float]:
    """The times of up to 30 calls, fewer where they take long."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < LEAST_EVALUATIONS or (
        len(times) < MOST_EVALUATIONS and time.perf_counter() < end
    ):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def middle(times: list[float]) -> float:
    """The mean of the middle half, as the report's own protocol has it."""
    ordered = sorted(times)
    cut = len(ordered) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


if __name__ == "__main__":
    sys.exit(main())
