"""Steps timed by Python's clock, for engines that run them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import final

from tawny.engine.protocol import UPDATE, Measurement, WorkSpan


@final
class Stopwatch:
    """Notes when each step of a run ends; the next one begins there."""

    def __init__(self) -> None:
        self._ends = [perf_counter()]

    def note(self) -> None:
        """A step is over."""
        self._ends.append(perf_counter())

    def measurement(self, positions: Sequence[int]) -> Measurement:
        """What was timed: these positions, then the updates."""
        first, *ends = self._ends
        starts = self._ends[:-1]
        took = [stop - start for start, stop in zip(starts, ends, strict=True)]

        def find_spans() -> list[WorkSpan]:
            return [
                WorkSpan(position, 0, start - first, stop - first)
                for position, start, stop in zip((*positions, UPDATE), starts, ends, strict=True)
            ]

        return Measurement(took[:-1], took[-1], ends[-1] - first, find_spans)
