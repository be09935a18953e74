"""Runs whose steps are timed by the processor's counter, and who worked on them when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from tawny.engine.cpu.counter import Counter, processor_counter
from tawny.engine.cpu.interpreter import interpreter
from tawny.engine.cpu.segments import NativeSegment, Route
from tawny.engine.cpu.stopping import InterruptibleRun
from tawny.engine.cpu.table import Cells, Table, address
from tawny.engine.cpu.threads.pool import Pool
from tawny.engine.cpu.timed_table import STACK, START, STOP, TimedTable
from tawny.engine.protocol import UPDATE, Measurement, WorkSpan
from tawny.unique import Unique

Resume = Callable[[NativeSegment, int, int], int]
"""Lets NumPy compute the step of an entry whose kernel failed; gives the entry to go on with."""

NEAR: Final = 2**18
"""Bytes within which the stack of one thread stays while it runs kernels."""


class Stretch(NamedTuple):
    """A step that was run, or a part of it, by what the counter showed."""

    position: int
    start: int
    stop: int
    entry: int
    """The entry of the table; -1 where Python ran the step."""


@dataclass(frozen=True)
class RunNotes:
    """The notes taken during a run."""

    stretches: Sequence[Stretch]
    notes: npt.NDArray[np.int64]
    """A copy of the table's."""
    first_note: npt.NDArray[np.int64]
    origin: int
    """What the counter showed when the run began."""
    period: float

    def spans(self) -> list[WorkSpan]:
        """Who worked when: the shares of steps that several threads have, and whole others."""
        return list(self._spans())

    def _spans(self) -> Iterator[WorkSpan]:
        workers: list[int] = []
        for position, start, stop, entry in self.stretches:
            shares = self._shares(entry)
            if not len(shares):
                yield self._span(position, 0, start, stop)
                continue
            own = int(shares[0, STACK])
            for share in shares:
                stack = int(share[STACK])
                lane = 0 if abs(stack - own) < NEAR else _lane(stack, workers)
                yield self._span(position, lane, int(share[START]), int(share[STOP]))

    def _shares(self, entry: int) -> npt.NDArray[np.int64]:
        """The notes on an entry; none where there is no entry."""
        if entry < 0:
            return self.notes[:0]
        first, end = self.first_note[entry : entry + 2].tolist()
        found = self.notes[first:end]
        ran: npt.NDArray[np.int64] = found[found[:, STOP] != 0]
        return ran

    def _span(self, position: int, lane: int, start: int, stop: int) -> WorkSpan:
        return WorkSpan(
            position,
            lane,
            (start - self.origin) * self.period,
            (stop - self.origin) * self.period,
        )


def _lane(stack: int, workers: list[int]) -> int:
    """Which of the workers has its stack there; it is added, if none has."""
    for lane, known in enumerate(workers, 1):
        if abs(stack - known) < NEAR:
            return lane
    workers.append(stack)
    return len(workers)


class EntryRun(NamedTuple):
    """Entries that one call ran, and where the interpreter wrote when each ended."""

    entries: Cells
    first_mark: int


@final
class Meter(Unique):
    """Runs the entries of a table and times them."""

    def __init__(self, table: Table, pool: Pool) -> None:
        self._table, self._pool = table, pool
        self._timed = TimedTable(table, pool.threads)
        counter = processor_counter()
        self._marks_hold = counter is not None
        """Whether what the interpreter writes down is of use."""
        self._counter = Counter(perf_counter_ns, 1e-9) if counter is None else counter
        self._interpret = interpreter(timed=True)
        self._listen = InterruptibleRun(self._interpret, table.stop)
        self._runs: list[EntryRun] = []
        self._others: list[Stretch] = []
        """What Python ran."""
        self._first_mark = 0

    def measure(
        self, route: Route, updating: NativeSegment, resume: Resume, draw: int
    ) -> Measurement:
        """Run a route and the updates once."""
        self._timed.begin()
        self._runs, self._others, self._first_mark = [], [], 0
        read = self._counter.read
        by_python = iter([p for p in route.positions if not self._table.entries(p)])
        origin = read()
        for segment in route.segments:
            if segment.callback is not None:
                start = read()
                segment.callback(draw)
                self._others.append(Stretch(next(by_python), start, read(), -1))
            else:
                self._run(segment, 0, resume, draw)
        self._run(updating, 1, resume, draw)
        return self._measurement(route.positions, origin, read())

    def _measurement(self, positions: Sequence[int], origin: int, end: int) -> Measurement:
        stretches = [*self._stretches(), *self._others]
        counts = dict.fromkeys((*positions, UPDATE), 0)
        for position, start, stop, _ in stretches:
            counts[position] += stop - start
        period, timed = self._counter.period, self._timed
        notes = RunNotes(stretches, timed.notes.copy(), timed.first_note, origin, period)
        took = [counts[position] * period for position in positions]
        whole = (end - origin) * period
        return Measurement(took, counts[UPDATE] * period, whole, notes.spans)

    def _stretches(self) -> Iterator[Stretch]:
        """What compiled code ran."""
        for entries, first in self._runs:
            marks = self._timed.marks[first : first + len(entries) + 1].tolist()
            for entry, start, stop in zip(entries.tolist(), marks, marks[1:], strict=False):
                yield Stretch(self._table.position_of(entry), start, stop, entry)

    def _run(self, segment: NativeSegment, turns: int, resume: Resume, draw: int) -> None:
        """Run the entries of a segment; where a kernel fails, NumPy computes its step."""
        first = 0
        while True:
            first += self._run_entries(segment.entries[first:], turns, long=segment.long)
            if first == segment.length:
                return
            start, failed = self._counter.read(), int(segment.entries[first])
            first = resume(segment, first, draw)
            position = self._table.position_of(failed)
            self._others.append(Stretch(position, start, self._counter.read(), -1))

    def _run_entries(self, entries: Cells, turns: int, *, long: bool) -> int:
        """Run entries by one call; how many ran before one failed."""
        timed, first = self._timed, self._first_mark
        marks = timed.marks[first:]
        places = self._pool.state, self._table.turns_address, turns, address(marks)
        call = np.array([timed.address, address(entries), len(entries), *places], np.int64)
        run = self._listen if long else self._interpret
        start = self._counter.read()
        ran = run(address(call))
        if not self._marks_hold:
            marks[: ran + 1] = np.linspace(start, self._counter.read(), ran + 1)
        self._runs.append(EntryRun(entries[:ran], first))
        self._first_mark += ran + 1
        return ran
