"""Programs on a GPU: kernels launched one after the other, and steps that the host computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tawny.engine.gpu.array import as_bytes
from tawny.engine.gpu.driver import DeviceDriver
from tawny.engine.gpu.launch import STATUS, Launch
from tawny.engine.gpu.memory import DeviceMemory, Location, fetch
from tawny.engine.gpu.rules import copy_kernel
from tawny.engine.gpu.table import array_of, kernel_of, new_array
from tawny.engine.layout import StridedView
from tawny.engine.lowering import types
from tawny.engine.protocol import Measurement, Task
from tawny.engine.reference import compute
from tawny.engine.stopwatch import Stopwatch
from tawny.node import Node

Command = Callable[[int], None]
"""Does what a step needs, given the number of the run."""

STATUS_BYTES: Final = 8
"""Bytes in which checks note that something is wrong."""


class GpuExecutable(DeviceMemory):
    """A task run on a device."""

    def __init__(self, task: Task, driver: DeviceDriver) -> None:
        super().__init__(task, driver)
        self.completed_runs = 0
        self._status = driver.allocate(STATUS_BYTES)
        driver.write(self._status, 0, np.zeros(STATUS_BYTES, np.uint8))
        steps, sequence = task.lowered.steps, task.layout.sequence
        self._kernels = {step: kernel_of(steps[step], self.views) for step in set(sequence)}
        self._commands = [self._command(position) for position in range(len(sequence))]
        self._updates = [self._copy(*pair) for pair in task.updates]

    @property
    def by_host(self) -> list[int]:
        """The steps that the host computes, by their numbers."""
        return [step for step, kernel in self._kernels.items() if kernel is None]

    def run(self, positions: Sequence[int], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        with np.errstate(all="ignore"):
            for position in positions:
                self._commands[position](draw)
        self.driver.finish()

    def update(self) -> None:
        """Complete a run: let the updated variables take their new values."""
        for command in self._updates:
            command(0)
        self.driver.finish()
        self.completed_runs += 1

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        """Run once."""
        del most
        self.run(positions, draw)
        self.update()
        return 1

    def measure(self, positions: Sequence[int], draw: int) -> Measurement:
        """Run once, and time every step; the device is waited for after each."""
        self.driver.finish()
        watch = Stopwatch()
        with np.errstate(all="ignore"):
            for position in positions:
                self._commands[position](draw)
                self.driver.finish()
                watch.note()
        self.update()
        watch.note()
        return watch.measurement(positions)

    # ----------------------------------------------------------------- commands

    def _command(self, position: int) -> Command:
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
            return on_host
        places = [*reads, *writes]
        if kernel.scratch:
            places.append(Location(None, self.arena, layout.scratch[position]))
        command = self._launches(kernel.launches, places, drawn=kernel.drawn)
        if not kernel.checks:
            return command
        return self._with_checks(self._launches(kernel.checks, places), on_host, command)

    def _with_checks(self, check: Command, on_host: Command, command: Command) -> Command:
        """Launch checks first; where they find something wrong, the host says what."""
        driver, status = self.driver, self._status

        def run_checked(draw: int) -> None:
            check(draw)
            if driver.read(status, 0, STATUS_BYTES).any():
                driver.write(status, 0, np.zeros(STATUS_BYTES, np.uint8))
                on_host(draw)
            else:
                command(draw)

        return run_checked

    def _launches(
        self, launches: Sequence[Launch], places: Sequence[Location], *, drawn: bool = False
    ) -> Command:
        """Launch kernels one after the other; the last number of those that draw is the run's."""
        driver, variables = self.driver, self.variables
        functions = driver.load([launch.code for launch in launches])
        status = Location(None, self._status, 0)
        made: list[tuple[Any, int, int, list[Location], tuple[int, ...]]] = [
            (
                function,
                launch.blocks,
                launch.block,
                [status if p == STATUS else places[p] for p in launch.places],
                launch.numbers,
            )
            for function, launch in zip(functions, launches, strict=True)
        ]

        def command(draw: int) -> None:
            own = (draw,) if drawn else ()
            for function, blocks, block, locations, numbers in made:
                at = [one.place(variables) for one in locations]
                driver.launch(function, blocks, block, at, (*numbers, *own))

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
