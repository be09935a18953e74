"""Programs on a GPU: kernels launched one after the other, and steps that the host computes.

What a run launches between two steps of the host is recorded when that run is first made, for each
set of changed inputs: then it is asked for at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tawny.engine.gpu.array import as_bytes
from tawny.engine.gpu.driver import DeviceDriver
from tawny.engine.gpu.kernels.random import NEXT_RUN
from tawny.engine.gpu.launch import DRAW, STATUS, Launch
from tawny.engine.gpu.memory import DeviceMemory, Location, fetch
from tawny.engine.gpu.rules import copy_kernel
from tawny.engine.gpu.table import array_of, kernel_of, new_array
from tawny.engine.layout import StridedView
from tawny.engine.lowering import types
from tawny.engine.protocol import Measurement, Task
from tawny.engine.reference import compute
from tawny.engine.stopwatch import Stopwatch
from tawny.node import Node, Value

Command = Callable[[int], None]
"""Does what a step needs, given the number of the run."""

CELL: Final = 8
"""Bytes in which checks note that something is wrong; as many hold the number of the run."""

MOST_ROUTES: Final = 256
"""Sets of positions whose routes are remembered."""

TURNS: Final = 256
"""Runs that are asked for before the device is waited for, at most: so Control-C is heard soon."""


class StepCommand(NamedTuple):
    """The command of a position of the schedule."""

    ask: Command
    on_device: bool
    """Whether it asks the device alone, and for the same in every run."""


class DeviceRoute(NamedTuple):
    """The commands by which some positions of the schedule are run, and the updates after them."""

    positions: Sequence[int]
    parts: tuple[Command, ...]
    on_device: bool
    """Whether there is one part, with nothing for the host to do."""


class GpuExecutable(DeviceMemory):
    """A task run on a device."""

    def __init__(self, task: Task, driver: DeviceDriver) -> None:
        super().__init__(task, driver)
        self.completed_runs = 0
        self._cells = driver.allocate(2 * CELL)
        driver.write(self._cells, 0, np.zeros(2 * CELL, np.uint8))
        places = {STATUS: 0, DRAW: CELL}
        self._own = {p: Location(None, self._cells, at) for p, at in places.items()}
        self._next_run: int | None = 0
        """The number of the run in the device's memory; None where it is not known."""
        steps, sequence = task.lowered.steps, task.layout.sequence
        self._kernels = {step: kernel_of(steps[step], self.views) for step in set(sequence)}
        self._commands = [self._command(position) for position in range(len(sequence))]
        self._updates = [self._copy(*pair) for pair in task.updates]
        kernels = [kernel for kernel in self._kernels.values() if kernel]
        if any(DRAW in launch.places for kernel in kernels for launch in kernel.launches):
            self._updates.append(self._launches((NEXT_RUN,), ()))
        self._routes: dict[int, DeviceRoute] = {}

    @property
    def by_host(self) -> list[int]:
        """The steps that the host computes, by their numbers."""
        return [step for step, kernel in self._kernels.items() if kernel is None]

    def write(self, values: Sequence[tuple[int, Value]]) -> None:
        """Copy values into the buffers of variables; none takes its value unless all have one."""
        before = list(self.variables)
        super().write(values)
        if self.variables != before:
            self._routes.clear()

    def bind(self, arrays: Iterable[tuple[int, Any]]) -> None:
        """Let variables lie in these arrays: what was recorded finds them elsewhere."""
        self._routes.clear()
        super().bind(arrays)

    def run(self, positions: Sequence[int], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        self._set_draw(draw)
        with np.errstate(all="ignore"):
            for position in positions:
                self._commands[position].ask(draw)
        self.driver.finish()

    def update(self) -> None:
        """Complete a run: let the updated variables take their new values."""
        for command in self._updates:
            command(0)
        self.driver.finish()
        self.completed_runs += 1
        self._next_run = None

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        """Run and update; over and over, where the host has nothing to do in between."""
        route = self._routes.get(id(positions)) or self._route(positions)
        self._set_draw(draw)
        self._next_run = None
        turns, done = min(most, TURNS) if route.on_device else 1, 0
        try:
            with np.errstate(all="ignore"):
                while done < turns:
                    for part in route.parts:
                        part(draw)
                    done += 1
        finally:
            self.driver.finish()
            self.completed_runs += done
        self._next_run = draw + done
        return done

    def _set_draw(self, draw: int) -> None:
        """Let random draws depend on this number; it counts on by itself."""
        if draw != self._next_run:
            self.driver.write(self._cells, CELL, np.array([draw], np.uint64).view(np.uint8))
            self._next_run = draw

    def _route(self, positions: Sequence[int]) -> DeviceRoute:
        """How positions are run: what the device is asked for at once, and what the host does."""
        parts, stretch = list[Command](), list[Command]()

        def end_stretch() -> None:
            if stretch:
                parts.append(self._record(list(stretch)))
                stretch.clear()

        for command in [self._commands[position] for position in positions]:
            if command.on_device:
                stretch.append(command.ask)
            else:
                end_stretch()
                parts.append(command.ask)
        stretch += self._updates
        has_host = bool(parts)
        end_stretch()
        if len(self._routes) >= MOST_ROUTES:
            self._routes.clear()
        found = self._routes[id(positions)] = DeviceRoute(positions, tuple(parts), not has_host)
        return found

    def _record(self, commands: Sequence[Command]) -> Command:
        """One command for several that ask the device alone."""

        def ask() -> None:
            for command in commands:
                command(0)

        recorded = self.driver.record(ask)
        return lambda _: recorded()

    def measure(self, positions: Sequence[int], draw: int) -> Measurement:
        """Run once, and time every step; the device is waited for after each."""
        self._set_draw(draw)
        self.driver.finish()
        watch = Stopwatch()
        with np.errstate(all="ignore"):
            for position in positions:
                self._commands[position].ask(draw)
                self.driver.finish()
                watch.note()
        self.update()
        watch.note()
        return watch.measurement(positions)

    # ----------------------------------------------------------------- commands

    def _command(self, position: int) -> StepCommand:
        """What a position of the schedule does."""
        layout = self.task.layout
        step = layout.sequence[position]
        node, kernel = self.task.lowered.steps[step], self._kernels[step]
        seen = [self.views(source) for source in node.inputs]
        reads = [
            self.operand(view, storage)
            for view, storage in zip(seen, layout.schedule.reads[position], strict=True)
        ]
        writes = [
            self.result(node, part, storage)
            for part, storage in enumerate(layout.schedule.writes[position])
        ]
        on_host = self._host_command(node, seen, reads, writes)
        if kernel is None:
            return StepCommand(on_host, False)
        places = [*reads, *writes]
        if kernel.scratch:
            places.append(Location(None, self.arena, layout.scratch[position]))
        command = self._launches(kernel.launches, places)
        if not kernel.checks:
            return StepCommand(command, True)
        check = self._launches(kernel.checks, places)
        return StepCommand(self._with_checks(check, on_host, command), False)

    def _with_checks(self, check: Command, on_host: Command, command: Command) -> Command:
        """Launch checks first; where they find something wrong, the host says what."""
        driver, cells = self.driver, self._cells

        def run_checked(draw: int) -> None:
            check(draw)
            if driver.read(cells, 0, CELL).any():
                driver.write(cells, 0, np.zeros(CELL, np.uint8))
                on_host(draw)
            else:
                command(draw)

        return run_checked

    def _launches(self, launches: Sequence[Launch], places: Sequence[Location]) -> Command:
        """Launch kernels one after the other."""
        driver, variables = self.driver, self.variables
        functions = driver.load([launch.code for launch in launches])
        made: list[tuple[Any, int, int, list[Location], tuple[int, ...]]] = [
            (
                function,
                launch.blocks,
                launch.block,
                [self._own[p] if p < 0 else places[p] for p in launch.places],
                launch.numbers,
            )
            for function, launch in zip(functions, launches, strict=True)
        ]

        def command(draw: int) -> None:
            del draw
            for function, blocks, block, locations, numbers in made:
                at = [one.place(variables) for one in locations]
                driver.launch(function, blocks, block, at, numbers)

        return command

    def _host_command(
        self,
        node: Node,
        seen: Sequence[StridedView],
        reads: Sequence[Location],
        writes: Sequence[Location],
    ) -> Command:
        """A step that the host computes from copies of what is on the device."""
        driver, variables = self.driver, self.variables

        def command(draw: int) -> None:
            operands = [
                fetch(driver, variables, v.memory, at) for v, at in zip(seen, reads, strict=True)
            ]
            found = compute(node, operands, draw)
            values = found if node.parts else (found,)
            for (shape, dtype), value, location in zip(types(node), values, writes, strict=True):
                whole = np.ascontiguousarray(np.broadcast_to(value, shape), dtype)
                if whole.size:
                    driver.write(*location.place(variables), as_bytes(whole))

        return command

    def _copy(self, target: Node, source: Node) -> Command:
        """A variable's new value, from where its source ends up."""
        seen, location = self._final(source)
        index = self.task.variables.index(target)
        kernel = copy_kernel(array_of(seen), new_array(target.shape, target.dtype))
        return self._launches(kernel.launches, [location, Location(index, None, 0)])
