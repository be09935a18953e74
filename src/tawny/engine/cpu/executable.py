"""A plan run natively: one call of the interpreter for each segment of steps without a callback."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import numpy as np
import numpy.typing as npt

from tawny.engine.atomicity import run_to_end
from tawny.engine.cpu.interpreter import TURNS, Run, interpreter
from tawny.engine.cpu.meter import Meter
from tawny.engine.cpu.segments import NativeSegment, Route, callback_segment
from tawny.engine.cpu.stopping import InterruptibleRun
from tawny.engine.cpu.table import Cells, Table, address
from tawny.engine.cpu.threads.pool import pool_of
from tawny.engine.protocol import DirectRun, Measurement, Task
from tawny.engine.reference.executable import StepThunk, step_thunk
from tawny.engine.reference.memory import POISON, HostMemory
from tawny.node import Node, Value
from tawny.pages import LARGE, LINE, release_pages
from tawny.settings import is_debugging

SEGMENT_SECONDS: Final = 5e-3
"""Estimated seconds after which a call of the interpreter ends, so that Python hears of signals."""

GIVEN_BACK: Final = 2**22
"""Bytes of scratch memory from which its pages are given back while NumPy uses its own."""

MOST_ROUTES: Final = 256
"""Sets of positions whose routes are remembered."""


class CpuExecutable(HostMemory):
    """Steps over an arena by compiled kernels; those that have none are computed by NumPy."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, aligned_bytes(task.layout.arena))
        self._table = Table(task, address(self.arena))
        self._turns, self._parallel = self._table.turns, self._table.parallel
        self._may_pause = bool(self._table.pauses)
        """Whether there are loops that pause."""
        self._pool = pool_of(task.threads, task.team)
        self._interpret = interpreter()
        self._listen: Run = InterruptibleRun(self._interpret, self._table.stop)
        self._routes: dict[int, Route] = {}
        self._updating = self._segment(self._table.updates)
        self._meter: Meter | None = None
        """What measures runs, once somebody asked for it."""
        self._turn_seconds = 0.0
        """What a turn of the last call that completed runs took."""

    @property
    def by_numpy(self) -> list[int]:
        """The steps that have no kernel, by their numbers."""
        return self._table.by_numpy

    @property
    def completed_runs(self) -> int:
        """How many runs were completed, with their updates."""
        return self._turns[0]

    def run(self, positions: Sequence[int], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        route = self._make_ready(positions)
        self._table.draw(draw)
        with _silence_numpy(route):
            self._follow(route.segments, draw)

    def update(self) -> None:
        """Complete a run: let the updated variables take their new values."""
        self._make_ready(())
        self._complete(self._updating, 1)

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        """Run the positions and update, over and over; how often: once at least, `most` at most.

        All in one call where Python has nothing to do in between, but so that it is interrupted
        soon enough.
        """
        route = self._routes.get(id(positions))
        is_waiting = self._parallel and not self._pool.started
        if route is None or is_waiting or self._may_pause:
            route = self._make_ready(positions)
        self._turns[1] = draw
        if route.before:
            self._table.draw(draw)
            first = route.first_change
            with _silence_numpy(route):
                self._follow(route.before[:first], draw)
            if first < len(route.before):
                run_to_end(lambda _: self._change(route, draw))
            else:
                self._complete(route.ending, 1)
            return 1
        if most == 1:
            ending = route.ending
            ending.call[TURNS] = 1
            ran = self._interpret(ending.address)
            if ran != ending.length:
                self._resume(ending, 1, ran)
            return 1
        known = self._turn_seconds or self._estimate_seconds(positions)
        turns = max(1, min(most, int(SEGMENT_SECONDS / known)))
        start = time.perf_counter()
        self._complete(route.ending, turns)
        self._turn_seconds = (time.perf_counter() - start) / turns
        return turns

    def direct_run(
        self, variables: Sequence[int], positions: Sequence[int], nodes: Sequence[Node]
    ) -> DirectRun | None:
        """A function that writes, runs and reads, where Python has nothing to do in between."""
        route = self._make_ready(positions)
        if self._may_pause or route.before:
            return None
        homes = [self.variables[i] for i in variables]
        results = [self.value(node) for node in nodes]
        places, only = range(len(homes)), results[0] if len(results) == 1 else None
        ending, turns, interpret, pool = route.ending, self._turns, self._interpret, self._pool
        cells, call, length = ending.call, ending.address, ending.length
        copy = self.copies.copy if any(v.nbytes >= LARGE for v in results) else None

        def run(values: Sequence[Value], draw: int) -> list[Value]:
            for i in places:  # to zip two short lists takes as long as a small kernel
                homes[i][...] = values[i]
            if self._parallel and not pool.started:
                pool.start()
            turns[1] = draw
            cells[TURNS] = 1
            ran = interpret(call)
            if ran != length:
                self._resume(ending, 1, ran)
            if copy is not None:
                return [copy(value) for value in results]
            return [value.copy() for value in results] if only is None else [only.copy()]

        return run

    def _change(self, route: Route, draw: int) -> None:
        """Complete a run of which Python does a part where variables change already."""
        with _silence_numpy(route):
            self._follow(route.before[route.first_change :], draw)
        self._complete(route.ending, 1)

    def measure(self, positions: Sequence[int], draw: int) -> Measurement:
        """Run the positions and update once, and time every step."""
        route = self._make_ready(positions)
        if self._meter is None:
            self._meter = Meter(self._table, self._pool)
        self._table.draw(draw)
        with _silence_numpy(route):
            return self._meter.measure(route, self._updating, self._after_failure, draw)

    def _estimate_seconds(self, positions: Sequence[int]) -> float:
        steps, sequence = self.task.lowered.problem.steps, self.task.layout.sequence
        return sum([steps[sequence[p]].seconds for p in positions]) or SEGMENT_SECONDS

    def _make_ready(self, positions: Sequence[int]) -> Route:
        """All that must be there before the positions are run, and how they are."""
        if self._may_pause:  # an earlier run may have been interrupted there
            self._table.pauses.begin_anew()
        if self._parallel and not self._pool.started:
            self._pool.start()
        return self._routes.get(id(positions)) or self._route(positions)

    def _follow(self, segments: Sequence[NativeSegment], draw: int) -> None:
        for segment in segments:
            if segment.callback is not None:
                segment.callback(draw)
                continue
            ran = self._interpret_from(segment, 0, 0)
            while ran != segment.length:
                ran = self._after_failure(segment, ran, draw)
                ran += self._interpret_from(segment, ran, 0)

    def _complete(self, segment: NativeSegment, turns: int) -> None:
        """Run the segment that ends a run, `turns` times."""
        segment.call[TURNS] = turns
        ran = self._interpret(segment.address)
        if ran != segment.length * turns:
            self._resume(segment, turns, ran)

    def _resume(self, segment: NativeSegment, turns: int, ran: int) -> None:
        """Complete `turns` runs of a segment after `ran` of its entries ran and the next failed."""
        length = segment.length
        while ran != length * turns:
            turns -= ran // length
            ran = self._after_failure(segment, ran % length, self._table.turns[1])
            while (on := self._interpret_from(segment, ran, 1)) != length - ran:
                ran = self._after_failure(segment, ran + on, self._table.turns[1])
            turns -= 1
            ran = self._interpret_from(segment, 0, turns) if turns else 0

    def _interpret_from(self, segment: NativeSegment, first: int, turns: int) -> int:
        """Run the entries of a stretch from the first on; how many ran before one failed."""
        if first:
            segment = self._segment(segment.entries[first:])
        segment.call[TURNS] = turns
        run = self._listen if segment.long else self._interpret
        return run(segment.address)

    def _after_failure(self, segment: NativeSegment, ran: int, draw: int) -> int:
        """Let NumPy compute a step whose kernel failed, or say why it cannot; where to go on."""
        entry = int(segment.entries[ran])
        if self._table.pauses.has(entry) and self._go_on(entry):
            return ran + 1
        position = self._table.clear_failure(entry)
        with np.errstate(all="ignore"):
            step_thunk(self, position)(draw)
        return ran + self._table.entries(position).stop - entry

    def _go_on(self, entry: int) -> bool:
        """Whether a loop that takes long came to its end; meanwhile Python can be interrupted."""
        self._table.pauses.go_on(entry)
        segment = self._segment([entry])
        segment.call[TURNS] = 0
        try:
            return self._listen(segment.address) == segment.length
        finally:
            self._table.pauses.begin_anew()

    def _move(self, index: int, array: Value) -> None:
        super()._move(index, array)
        self._table.bind(index, array)

    # ------------------------------------------------------------------ routes

    def _route(self, positions: Sequence[int]) -> Route:
        """A route, remembered by the identity of the sequence, which it therefore holds."""
        if len(self._routes) >= MOST_ROUTES:
            self._routes.clear()
        segments, first = self._segments(positions)
        calls_back = any(s.callback is not None for s in segments)
        before, ending = segments, self._updating
        if segments and segments[-1].callback is None and not segments[-1].long:
            *head, last = segments
            before, ending = tuple(head), self._segment([*last.entries, *self._table.updates])
        route = Route(positions, segments, calls_back, before, min(first, len(before)), ending)
        self._routes[id(positions)] = route
        return route

    def _segments(self, positions: Sequence[int]) -> tuple[tuple[NativeSegment, ...], int]:
        """Cut where Python runs a step, and after some time; but not once variables change.

        Until then a step that takes long can be stopped.  Gives the number of the first, too, that
        may change one.
        """
        steps, sequence = self.task.lowered.problem.steps, self.task.layout.sequence
        changing = self._table.first_change
        out: list[NativeSegment] = []
        run: list[int] = []
        seconds = 0.0
        first: int | None = None
        for position in positions:
            if first is None and position >= changing:
                first = len(out)
            entries = self._table.entries(position)
            if not entries:
                out.extend(self._native(run))
                out.append(callback_segment(self._thunk(position)))
                run, seconds = [], 0.0
                continue
            run.extend(entries)
            seconds += steps[sequence[position]].seconds
            long = self._table.is_long(position)
            if (long or seconds > SEGMENT_SECONDS) and position < changing:
                out.append(self._segment(run, long=long))
                run, seconds = [], 0.0
        out.extend(self._native(run))
        return tuple(out), len(out) if first is None else first

    def _thunk(self, position: int) -> StepThunk:
        """A step that NumPy computes; it takes memory of its own for what was planned as scratch.

        So that both are not in memory, the pages of that are given back before.
        """
        thunk, layout = step_thunk(self, position), self.task.layout
        nbytes = self.task.lowered.problem.steps[layout.sequence[position]].scratch
        if nbytes < GIVEN_BACK:
            return thunk
        first = layout.scratch[position]
        room = self.arena[first : first + nbytes]

        def release_then_run(draw: int) -> None:
            release_pages(room)
            thunk(draw)

        return release_then_run

    def _native(self, run: list[int]) -> list[NativeSegment]:
        return [self._segment(run)] if run else []

    def _segment(self, run: Sequence[int] | Cells, *, long: bool = False) -> NativeSegment:
        """A segment that runs these entries by one call."""
        table, cells = self._table, np.array(run, np.int64)
        where = address(cells), len(cells), self._pool.state, table.turns_address
        call = np.array([table.address, *where, 1], np.int64)
        return NativeSegment(cells, len(cells), call.data, address(call), None, long)


def _silence_numpy(route: Route) -> AbstractContextManager[object]:
    """NumPy says nothing of overflows in what it computes."""
    return np.errstate(all="ignore") if route.calls_back else _NO_CHANGE


_NO_CHANGE: Final = nullcontext()


def aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """New bytes, the first at the start of a cache line; poisoned while debugging."""
    whole = np.empty(size + LINE, np.uint8)
    if is_debugging():
        whole.fill(POISON)
    start = -address(whole) % LINE
    return whole[start : start + size]
