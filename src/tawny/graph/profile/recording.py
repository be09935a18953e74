"""Programs whose own runs are measured, as those of a script or of a training."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, final

from tawny.engine.protocol import Executable
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.graph.compilation import Compilation
    from tawny.graph.profile.profile import Profile
    from tawny.graph.profile.runs import RunTimes
    from tawny.graph.program import Program


class RecordedProgram(NamedTuple):
    """A program, what measures it, and what ran it before."""

    program: Program
    times: RunTimes
    compiled: Compilation
    executable: Executable


@final
class ProfileRecording(Unique):
    """The programs that were compiled while it was on, whose runs are measured."""

    def __init__(self) -> None:
        self._programs: list[RecordedProgram] = []

    def add(self, program: Program, compiled: Compilation) -> None:
        """Measure all runs of a program from now on."""
        from tawny.graph.profile.runs import MeasuringExecutable, RunTimes  # noqa: PLC0415 (above)

        times, executable = RunTimes(), compiled.executable
        self._programs.append(RecordedProgram(program, times, compiled, executable))
        compiled.replace_executable(cast("Any", MeasuringExecutable(executable, times)))

    def end(self) -> None:
        """Let the programs run again as they did."""
        for recorded in self._programs:
            recorded.compiled.replace_executable(recorded.executable)

    def profile_of(self, program: Program) -> Profile | None:
        """What was measured of a program; None if it did not run."""
        for recorded in self._programs:
            if recorded.program is program and len(recorded.times):
                return recorded.times.profile(program, program.graph.name or "program")
        return None

    @property
    def profiles(self) -> list[Profile]:
        """What was measured, the program first that took the longest."""
        found = [self.profile_of(recorded.program) for recorded in self._programs]
        ran = [profile for profile in found if profile is not None]
        return sorted(ran, key=lambda p: -p.runs * p.measured_run_seconds)


_ON: Final[list[ProfileRecording]] = []
"""The recordings that are on, the newest last."""


def recording() -> ProfileRecording | None:
    """The newest recording that is on."""
    return _ON[-1] if _ON else None


@contextmanager
def record() -> Generator[ProfileRecording]:
    """Measure all runs of the programs that are compiled inside."""
    new = ProfileRecording()
    _ON.append(new)
    try:
        yield new
    finally:
        _ON.remove(new)
        new.end()


@contextmanager
def pause() -> Generator[None]:
    """Inside, programs are compiled that nobody measures."""
    before = _ON.copy()
    _ON.clear()
    try:
        yield
    finally:
        _ON[:] = before
