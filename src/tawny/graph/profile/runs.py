"""Runs that are measured, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import numpy as np

from tawny.engine.protocol import UPDATE, Executable, Measurement, WorkSpan
from tawny.graph.profile.estimate import StepWork, predict, steps_of
from tawny.graph.profile.profile import Profile, StepProfile
from tawny.graph.profile.roof import Roof, roof_of
from tawny.progress import progress
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.graph.plan import Plan
    from tawny.graph.program import Program


class TimedRun(NamedTuple):
    """A run that was measured."""

    positions: Sequence[int]
    measurement: Measurement


MOST_RUNS: Final = 512
"""Runs whose times are kept: of more the slower half is dropped, again and again."""


@final
class RunTimes(Unique):
    """Collects what runs of one program took."""

    def __init__(self) -> None:
        self.plain: list[float] = []
        """What runs took that were not measured."""
        self._runs: list[TimedRun] = []
        self._count = 0
        self._fastest = float("inf")
        self._spans: list[WorkSpan] = []

    def __len__(self) -> int:
        return self._count

    def add(self, positions: Sequence[int], measurement: Measurement) -> None:
        """Add a run; who worked when is remembered of the fastest one that ran the most steps."""
        seconds = measurement.seconds
        most = max([len(run.positions) for run in self._runs], default=-1)
        if len(positions) > most or (len(positions) == most and seconds < self._fastest):
            self._fastest, self._spans = seconds, measurement.find_spans()
        self._runs.append(TimedRun(positions, without_spans(measurement)))
        self._count += 1
        if len(self._runs) > MOST_RUNS:
            self._runs.sort(key=lambda run: (-len(run.positions), run.measurement.seconds))
            del self._runs[MOST_RUNS // 2 :]

    def profile(self, program: Program, name: str) -> Profile:
        """What the runs tell of a program."""
        plan = program.plan
        roof = roof_of(plan.engine, plan.threads)
        most = max([len(run.positions) for run in self._runs], default=0)
        whole = [run for run in self._runs if len(run.positions) == most]
        half = sorted(whole, key=lambda run: run.measurement.seconds)[: (len(whole) + 1) // 2]
        seconds = dict.fromkeys((*half[0].positions, UPDATE), 0.0) if half else {}
        for run in half:
            took = run.measurement
            for position, one in zip(run.positions, took.step_seconds, strict=True):
                seconds[position] += one / len(half)
            seconds[UPDATE] += took.update_seconds / len(half)
        copied = len(program.graph.update_nodes) > len(plan.in_place_updates)
        rows = _rows(plan, seconds, roof, copied=copied)
        measured = float(np.mean([run.measurement.seconds for run in half])) if half else 0.0
        plain = faster_half(self.plain) if self.plain else measured
        fastest = min([run.measurement.seconds for run in half], default=0.0)
        overhead = fastest / min(self.plain) - 1 if self.plain else None
        times = plain, measured, self._count
        return Profile(name, rows, *times, roof, self._spans, overhead, program=program)


def without_spans(measurement: Measurement) -> Measurement:
    """A measurement that holds nothing but times."""
    return Measurement(
        measurement.step_seconds, measurement.update_seconds, measurement.seconds, list
    )


def faster_half(times: Sequence[float]) -> float:
    """The mean of the faster half: what else the machine does makes the others slow."""
    return float(np.mean(sorted(times)[: (len(times) + 1) // 2]))


def _rows(plan: Plan, seconds: dict[int, float], roof: Roof, *, copied: bool) -> list[StepProfile]:
    """A row for each step, and one for updates, where variables are copied to."""
    if not copied:
        seconds.pop(UPDATE, None)
    whole = sum(seconds.values()) or 1.0
    described = steps_of(plan)
    rows: list[StepProfile] = []
    for position, took in seconds.items():
        if position != UPDATE:
            rows.append(_row(described[position], took, whole, roof))
        else:
            rows.append(_update_row(took, whole))
    return rows


def _row(step: StepWork, seconds: float, whole: float, roof: Roof) -> StepProfile:
    work = step.work
    return StepProfile(
        *step[:-1],
        seconds,
        seconds / whole,
        work.operations,
        work.bytes,
        roof.bound(work),
        min(roof.seconds(work) / seconds, 99.0) if seconds else 0.0,
        predict(work, roof),
    )


def _update_row(seconds: float, whole: float) -> StepProfile:
    said = "updates", "update", "", "", ""
    return StepProfile(UPDATE, *said, seconds, seconds / whole, 0, 0, "memory", 0.0, seconds)


def profile_program(
    program: Program, executable: Executable, positions: Sequence[int], draw: int, runs: int
) -> Profile:
    """Run the steps of a program on an executable, measured and not, one after the other."""
    times = RunTimes()
    executable.advance(positions, draw, 1)
    executable.measure(positions, draw)
    with progress("profile") as work:
        for run in range(runs):
            work.now(f"run {run + 1} of {runs}")
            start = perf_counter()
            executable.advance(positions, draw, 1)
            times.plain.append(perf_counter() - start)
            times.add(positions, executable.measure(positions, draw))
    return times.profile(program, program.graph.name or "program")


@final
class MeasuringExecutable:
    """An executable all of whose runs are measured; it does everything else as the one inside."""

    def __init__(self, inner: Executable, times: RunTimes) -> None:
        self._inner, self._times = inner, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        """Run the positions and update once, and note what each step took."""
        del most
        self._times.add(positions, self._inner.measure(positions, draw))
        return 1

    def direct_run(self, *_: object) -> None:
        """None: steps of such runs could not be timed."""
