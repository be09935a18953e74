"""Steps that run one by one, and what each took."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import final

from tawny.engine.protocol import UPDATE, Measurement, WorkSpan


@final
class Stopwatch:
    """Notes by Python's clock when each step of a run ends; the next one begins there."""

    def __init__(self) -> None:
        self._ends = [perf_counter()]

    def note(self) -> None:
        """A step is over."""
        self._ends.append(perf_counter())

    def measurement(self, positions: Sequence[int]) -> Measurement:
        """What was timed: these positions, then the updates."""
        return measurement_of(positions, self._ends, self._ends[-1] - self._ends[0])


def measurement_of(positions: Sequence[int], ends: Sequence[float], seconds: float) -> Measurement:
    """A run that took `seconds`: when it began, when each position ended, and then the updates."""
    first, starts = ends[0], ends[:-1]
    took = [stop - start for start, stop in zip(starts, ends[1:], strict=True)]

    def find_spans() -> list[WorkSpan]:
        return [
            WorkSpan(position, 0, start - first, stop - first)
            for position, start, stop in zip((*positions, UPDATE), starts, ends[1:], strict=True)
        ]

    return Measurement(took[:-1], took[-1], seconds, find_spans)
