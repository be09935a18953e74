"""Programs on a GPU: what their steps launch, recorded, and what the host does in between.

What a run launches between two steps of the host is recorded when that run is first made, for each
set of changed inputs: then it is asked for at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple, final

import numpy as np

from tawny.engine.atomicity import run_to_end
from tawny.engine.gpu.driver import DeviceDriver, DeviceMarks
from tawny.engine.gpu.kernels.random import NEXT_RUN
from tawny.engine.gpu.launch import DRAW, STATUS
from tawny.engine.gpu.loops import copy_launches_of, launches_of, runs_on_device
from tawny.engine.gpu.memory import BufferPlace, Location
from tawny.engine.gpu.steps import CELL, Command, DeviceSteps
from tawny.engine.gpu.target import PLAIN, KernelTarget
from tawny.engine.protocol import Measurement, Task
from tawny.engine.stopwatch import measurement_of
from tawny.node import Node, Value

MOST_ROUTES: Final = 256
"""Sets of positions whose routes are remembered."""

TURNS: Final = 256
"""Runs that are asked for before the device is waited for, at most: so Control-C is heard soon."""

MOST_ASKED: Final = 1 << 16
"""Launches that are asked for before the device is waited for, but for those of one run."""


class DeviceRoute(NamedTuple):
    """The commands by which some positions of the schedule are run, and the updates after them."""

    positions: Sequence[int]
    before: tuple[Command, ...]
    """What comes before the first part that changes a variable, where one does."""
    parts: tuple[Command, ...]
    turns: int
    """How many runs are asked for before the device is waited for: 1 where the host takes part."""


class TimedRoute(NamedTuple):
    """The commands by which some positions are run and timed, and the updates after them."""

    positions: Sequence[int]
    parts: tuple[Command, ...]
    marks: DeviceMarks
    """When the run began, when each position was done, and when the updates were."""


@final
class RouteParts:
    """Commands in order: what asks the device alone is recorded, stretch by stretch."""

    def __init__(self, driver: DeviceDriver) -> None:
        self.parts: list[Command] = []
        self._driver = driver
        self._stretch: list[Command] = []

    def ask_device(self, *commands: Command) -> None:
        """Add commands that ask the device alone."""
        self._stretch += commands

    def ask_host(self, command: Command) -> None:
        """Add a command in which the host takes part."""
        self.end_stretch()
        self.parts.append(command)

    def end_stretch(self) -> None:
        """Make one command of those that ask the device alone, since the host last took part."""
        if not self._stretch:
            return
        commands, self._stretch = self._stretch, []

        def ask() -> None:
            for command in commands:
                command(0)

        recorded = self._driver.record(ask)
        self.parts.append(lambda _: recorded())


class GpuExecutable(DeviceSteps):
    """A task run on a device, in an arena of its own."""

    def __init__(self, task: Task, driver: DeviceDriver, target: KernelTarget = PLAIN) -> None:
        arena = BufferPlace(driver.allocate(max(task.layout.arena, 1)), 0)
        self._cells = driver.allocate(2 * CELL)
        driver.write(self._cells, 0, np.zeros(2 * CELL, np.uint8))
        places = {STATUS: 0, DRAW: CELL}
        own = {p: Location(None, self._cells, at) for p, at in places.items()}
        super().__init__(task, driver, arena, own, target)
        self.completed_runs = 0
        self._next_run: int | None = 0
        """The number of the run in the device's memory; None where it is not known."""
        self._updates = [self._copy(*pair) for pair in task.updates]
        self._first_change = task.first_change
        self._has_updates = bool(task.updates or task.in_place_updates)
        self._at_once = driver.keeps_records
        steps = task.lowered.steps
        launches = [one for n in steps for one in launches_of(n, self.views, target)]
        draws = any(DRAW in launch.places for launch in launches)
        if draws or (self._has_updates and self._at_once):
            self._updates.append(self.launch_all((NEXT_RUN,), ()))
        self._routes: dict[int, DeviceRoute] = {}
        self._timed: TimedRoute | None = None

    @property
    def by_host(self) -> list[Node]:
        """The steps that the host computes."""
        steps = self.task.lowered.steps
        return [n for n in steps if not runs_on_device(n, self.views, self.target)]

    def write(self, values: Sequence[tuple[int, Value]]) -> None:
        """Copy values into the buffers of variables; none takes its value unless all have one."""
        before = list(self.variables)
        super().write(values)
        if self.variables != before:
            self._forget_routes()

    def bind(self, arrays: Iterable[tuple[int, Any]]) -> None:
        """Let variables lie in these arrays: what was recorded finds them elsewhere."""
        self._forget_routes()
        super().bind(arrays)

    def _forget_routes(self) -> None:
        self._routes.clear()
        self._timed = None

    def run(self, positions: Sequence[int], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        self._set_draw(draw)
        for position in positions:
            self.commands[position].ask(draw)
        self.driver.finish()

    def update(self) -> None:
        """Complete a run: let the updated variables take their new values."""
        for command in self._updates:
            command(0)
        self.driver.finish()
        self.completed_runs += 1
        self._next_run = None

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        """Run and update; over and over, where the host has nothing to do in between.

        Control-C is heard where no variable has changed, or when all have.
        """
        route = self._routes.get(id(positions)) or self._route(positions)
        self._set_draw(draw)
        self._next_run = None
        turns, before = min(most, route.turns), self.completed_runs
        for part in route.before:
            part(draw)
        try:
            if not self._has_updates or (self._at_once and len(route.parts) == 1):
                self._complete(route.parts, draw, turns, lambda: False)
            else:
                run_to_end(lambda stop: self._complete(route.parts, draw, turns, stop))
        except BaseException:
            if self._has_updates and self._at_once:
                run_to_end(lambda _: self._count(before, draw))
            raise
        done = self.completed_runs - before
        self._next_run = draw + done
        return done

    def _complete(
        self, parts: Sequence[Command], draw: int, turns: int, stop: Callable[[], bool]
    ) -> None:
        """Ask for the parts that end a run, over and over, and wait for them."""
        done = 0
        try:
            while done < turns and not (done and stop()):
                for part in parts:
                    part(draw)
                done += 1
        finally:
            self.driver.finish()
            self.completed_runs += done

    def _count(self, before: int, draw: int) -> None:
        """Find how many runs were completed by a call that was interrupted, from the device."""
        self.driver.finish()
        (number,) = self.driver.read(self._cells, CELL, CELL).view(np.uint64)
        self.completed_runs = before + int(number) - draw

    def _set_draw(self, draw: int) -> None:
        """Let random draws depend on this number; it counts on by itself."""
        if draw != self._next_run:
            self._next_run = None
            self.driver.write(self._cells, CELL, np.array([draw], np.uint64).view(np.uint8))
            self._next_run = draw

    def _route(self, positions: Sequence[int]) -> DeviceRoute:
        """How positions are run: what the device is asked for at once, and what the host does."""
        route, launches = RouteParts(self.driver), len(self._updates)
        parts = route.parts
        first: int | None = None
        for position in positions:
            command = self.commands[position]
            if first is None and position >= self._first_change:
                first = len(parts)
            if command.launches is not None:
                route.ask_device(command.ask)
                launches += command.launches
            else:
                route.ask_host(command.ask)
        route.ask_device(*self._updates)
        turns = 1 if parts else max(1, min(TURNS, MOST_ASKED // max(launches, 1)))
        first = (len(parts) if first is None else first) if self._has_updates else 0
        route.end_stretch()
        if len(self._routes) >= MOST_ROUTES:
            self._routes.clear()
        before, after = tuple(parts[:first]), tuple(parts[first:])
        found = self._routes[id(positions)] = DeviceRoute(positions, before, after, turns)
        return found

    def measure(self, positions: Sequence[int], draw: int) -> Measurement:
        """Run once; the device notes when each step is done, and waits for none."""
        self._set_draw(draw)
        if self._timed is None or self._timed.positions is not positions:
            self._timed = self._timed_route(positions)
        route = self._timed
        self.driver.finish()
        start = perf_counter()
        for part in route.parts:
            part(draw)
        self.driver.finish()
        seconds = perf_counter() - start
        self.completed_runs += 1
        self._next_run = None
        return measurement_of(positions, route.marks.seconds(), seconds)

    def _timed_route(self, positions: Sequence[int]) -> TimedRoute:
        """How positions are run and timed: a mark before the first, and after each."""
        route, marks = RouteParts(self.driver), self.driver.marks(len(positions) + 2)

        def mark(place: int) -> None:
            route.ask_device(lambda _: marks.note(place))

        mark(0)
        for place, position in enumerate(positions, 1):
            command = self.commands[position]
            ask = route.ask_host if command.launches is None else route.ask_device
            ask(command.ask)
            mark(place)
        route.ask_device(*self._updates)
        mark(len(positions) + 1)
        route.end_stretch()
        return TimedRoute(positions, tuple(route.parts), marks)

    def _copy(self, target: Node, source: Node) -> Command:
        """A variable's new value, from where its source ends up."""
        seen, location = self._final(source)
        index = self.task.variables.index(target)
        return self.launch_all(copy_launches_of(seen), [location, Location(index, None, 0)])
