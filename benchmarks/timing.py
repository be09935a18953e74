"""Contenders timed side by side: interleaved rounds, the best and the median of each."""

from __future__ import annotations

import gc
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

PAUSE = 0.05
"""Seconds after which threads that wait for work have gone to sleep."""


@dataclass(frozen=True)
class Timed:
    """Seconds for one call."""

    best: float
    median: float


def interleaved(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int = 15, calls: int = 1
) -> dict[str, Timed]:
    """Each contender called `calls` times in turn, for `rounds` rounds.

    A pause and a call that is not timed open each turn: threads of the one before stop to spin, the
    contender's data comes back into the caches and its threads wake, so that nobody pays for who came
    before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in contenders.items():
                time.sleep(PAUSE)
                call()
                start = time.perf_counter()
                for _ in range(calls):
                    call()
                seconds[name].append((time.perf_counter() - start) / calls)
    finally:
        gc.enable()
    return {name: Timed(min(s), statistics.median(s)) for name, s in seconds.items()}


def table(title: str, timed: Mapping[str, Timed], ours: str = "tawny", unit: str = "ms") -> str:
    """Times, and how often ours each is: above 1, we are faster."""
    scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]
    base = timed[ours]
    lines = [f"{title} ({unit})", f"  {'':<16}{'best':>12}{'median':>12}{'best/ours':>12}"]
    for name, t in sorted(timed.items(), key=lambda entry: entry[1].best):
        ratio = t.best / base.best
        lines.append(f"  {name:<16}{t.best * scale:>12.3f}{t.median * scale:>12.3f}{ratio:>12.2f}")
    return "\n".join(lines)


def installed(names: Iterable[str]) -> list[str]:
    """Those of the libraries that can be imported; what follows a dot is a way to use one."""
    return [name for name in names if importlib.util.find_spec(name.partition(".")[0])]
