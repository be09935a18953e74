"""What a partition takes: its segments on their workers, one run after the other or overlapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

STREAMED: Final = 4
"""How often all runs that can be under way come and go, until each takes the same."""


class Link(NamedTuple):
    """The way between workers: how long it takes, and how much goes in a second."""

    latency: float
    """Seconds from the end of a segment to the start of the next, whatever goes between them."""
    bandwidth: float
    """Bytes a second."""


class PipelineStage(NamedTuple):
    """A segment as far as its time is concerned."""

    worker: int
    level: int
    seconds: float
    takes: Mapping[int, int]
    """The segments that it waits for, each with the bytes that travel from there."""


def makespan(stages: Sequence[PipelineStage], link: Link, runs: int, window: int) -> float:
    """Seconds until all runs are done, at most `window` of them under way at a time.

    A worker that is free takes what is ready; of several the segment nearest to the end.
    """
    pipeline = _Pipeline(stages, link)
    for run in range(min(runs, window)):
        pipeline.begin(run, 0.0)
    begun, last = min(runs, window), 0.0
    for _ in range(runs):
        last = pipeline.end_of_next_run()
        if begun < runs:
            pipeline.begin(begun, last)
            begun += 1
    return last


@final
class _Pipeline:
    """Runs that go through segments."""

    def __init__(self, stages: Sequence[PipelineStage], link: Link) -> None:
        self._stages, self._link = stages, link
        self._readers: list[list[int]] = [[] for _ in stages]
        for number, stage in enumerate(stages):
            for source in stage.takes:
                self._readers[source].append(number)
        self._free: dict[int, float] = {}
        """When each worker has nothing to do."""
        self._ends: dict[tuple[int, int], float] = {}
        self._ready: dict[tuple[int, int], float] = {}
        """By run and segment, from when on it can begin."""
        self._left: dict[int, int] = {}
        """How many segments of each run are to be done."""
        self._missing: dict[tuple[int, int], int] = {}
        self._begun: dict[int, float] = {}

    def begin(self, run: int, time: float) -> None:
        """Let a run start."""
        self._left[run], self._begun[run] = len(self._stages), time
        for number, stage in enumerate(self._stages):
            self._missing[run, number] = len(stage.takes)
            if not stage.takes:
                self._ready[run, number] = time

    def end_of_next_run(self) -> float:
        """When the next run ends."""
        while True:
            start, _, run, number = min([self._start(*task) for task in self._ready])
            del self._ready[run, number]
            stage = self._stages[number]
            end = self._ends[run, number] = self._free[stage.worker] = start + stage.seconds
            for reader in self._readers[number]:
                self._missing[run, reader] -= 1
                if not self._missing[run, reader]:
                    self._ready[run, reader] = self._arrival(run, reader)
            self._left[run] -= 1
            if not self._left[run]:
                return max(end, *[self._ends[run, n] for n in range(len(self._stages))])

    def _start(self, run: int, number: int) -> tuple[float, int, int, int]:
        """When a segment that is ready would begin; of two that could the smaller one does."""
        stage = self._stages[number]
        start = max(self._ready[run, number], self._free.get(stage.worker, 0.0))
        return start, -stage.level, run, number

    def _arrival(self, run: int, number: int) -> float:
        """When a segment has all that it waits for."""
        arrival, stage = self._begun[run], self._stages[number]
        for source, bytes in stage.takes.items():
            away = self._stages[source].worker != stage.worker
            travel = bytes / self._link.bandwidth if away else 0.0
            arrival = max(arrival, self._ends[run, source] + self._link.latency + travel)
        return arrival


def stream_seconds(stages: Sequence[PipelineStage], link: Link, window: int) -> float:
    """Seconds for each further run, when `window` of them are under way."""
    first = makespan(stages, link, STREAMED * window, window)
    more = makespan(stages, link, 2 * STREAMED * window, window)
    busy: dict[int, float] = {}
    for stage in stages:
        busy[stage.worker] = busy.get(stage.worker, 0.0) + stage.seconds
    return max((more - first) / (STREAMED * window), *busy.values(), 0.0)
