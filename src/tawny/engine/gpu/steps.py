"""What the steps of a task do on a GPU: launches, loops over bodies, and what the host computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tawny.engine.body_plan import carry_results
from tawny.engine.gpu.array import as_bytes
from tawny.engine.gpu.driver import DeviceDriver
from tawny.engine.gpu.kernels.random import NUMBER_STEP
from tawny.engine.gpu.launch import DRAW, STATUS, Launch
from tawny.engine.gpu.loops import (
    DRAW_OFFSET,
    FLAG_OFFSET,
    DeviceLoop,
    copy_launches_of,
    device_loop,
    draw_launch,
    draws,
    numbering_of,
    reads_place,
)
from tawny.engine.gpu.memory import BufferPlace, DeviceMemory, Location, fetch
from tawny.engine.gpu.table import kernel_of
from tawny.engine.gpu.target import KernelTarget
from tawny.engine.layout import StridedView
from tawny.engine.lowering import types
from tawny.engine.protocol import Task
from tawny.engine.reference import compute
from tawny.node import Node
from tawny.op import Op, nbytes
from tawny.ops.loops import BodyOp, ScanLoop, Switch, WhileLoop

Command = Callable[[int], None]
"""Does what a step needs, given the number of the run."""

CELL: Final = 8
"""Bytes in which checks note that something is wrong; as many hold the number of the run."""

MOST_RECORDED: Final = 1 << 16
"""Launches of a loop that are recorded; one of more is asked for launch by launch."""


class StepCommand(NamedTuple):
    """The command of a position of the schedule."""

    ask: Command
    launches: int | None
    """How many launches it asks for, the same in every run; None where the host takes part."""


class DeviceSteps(DeviceMemory):
    """A task on a device: its memory, and what each position of its schedule does there."""

    def __init__(
        self,
        task: Task,
        driver: DeviceDriver,
        arena: BufferPlace,
        own: Mapping[int, Location],
        target: KernelTarget,
    ) -> None:
        super().__init__(task, driver, arena)
        self.target = target
        self._own = own
        """Where the status of checks and the number that draws are made by lie."""
        self.commands = [self._command(p) for p in range(len(task.layout.sequence))]

    def _command(self, position: int) -> StepCommand:
        """The command of a position of the schedule."""
        layout = self.task.layout
        node = self.task.lowered.steps[layout.sequence[position]]
        seen = [self.views(source) for source in node.inputs]
        reads = [
            self.operand(view, storage)
            for view, storage in zip(seen, layout.schedule.reads[position], strict=True)
        ]
        writes = [
            self.result(node, part, storage)
            for part, storage in enumerate(layout.schedule.writes[position])
        ]
        loop = device_loop(node, self.target) if isinstance(node.op, BodyOp) else None
        target = self.target
        if loop is not None:
            return self._body_command(node, loop, seen, reads, writes, layout.scratch[position])
        kernel = None if isinstance(node.op, BodyOp) else kernel_of(node, self.views, target)
        on_host = self._host_command(node, seen, reads, writes)
        if kernel is None:
            return StepCommand(on_host, None)
        places = [*reads, *writes]
        if kernel.scratch:
            places.append(self.within_arena(layout.scratch[position]))
        command = self.launch_all(kernel.launches, places)
        if kernel.verified:
            return StepCommand(self._with_checks(command, on_host, lambda _: None), None)
        if not kernel.checks:
            return StepCommand(command, len(kernel.launches))
        check = self.launch_all(kernel.checks, places)
        return StepCommand(self._with_checks(check, on_host, command), None)

    def _with_checks(self, check: Command, on_host: Command, command: Command) -> Command:
        """Launch checks first; where they find something wrong, the host says what."""
        driver, status = self.driver, self._own[STATUS]

        def run_checked(draw: int) -> None:
            check(draw)
            cell = status.place(self.variables)
            if driver.read(*cell, CELL).any():
                driver.write(*cell, np.zeros(CELL, np.uint8))
                on_host(draw)
            else:
                command(draw)

        return run_checked

    def launch_all(self, launches: Sequence[Launch], places: Sequence[Location]) -> Command:
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
            with np.errstate(all="ignore"):
                found = compute(node, operands, draw)
            values = found if node.parts else (found,)
            for (shape, dtype), value, location in zip(types(node), values, writes, strict=True):
                whole = np.ascontiguousarray(np.broadcast_to(value, shape), dtype)
                if whole.size:
                    driver.write(*location.place(variables), as_bytes(whole))

        return command

    def _body_command(
        self,
        node: Node,
        loop: DeviceLoop,
        seen: Sequence[StridedView],
        reads: Sequence[Location],
        writes: Sequence[Location],
        scratch: int,
    ) -> StepCommand:
        """A loop or a branch."""
        copies = list[Command]()
        given = list(reads)
        for operand, offset in loop.copied.items():
            given[operand] = self.within_arena(scratch + offset)
            places = [reads[operand], given[operand]]
            copies.append(self.launch_all(copy_launches_of(seen[operand]), places))
        run = _RUNS[type(node.op)](node.op, loop, self, scratch, self._own)

        def command(draw: int) -> None:
            for copy in copies:
                copy(draw)
            at = [[one.place(self.variables) for one in places] for places in (given, writes)]
            run.run(*at, draw)

        launches = run.launches
        return StepCommand(command, None if launches is None else len(copies) + launches)


class _DeviceBody:
    """Bodies of a loop or a branch, in the scratch memory of its step."""

    def __init__(
        self,
        op: Any,
        loop: DeviceLoop,
        outer: DeviceSteps,
        scratch: int,
        own: Mapping[int, Location],
    ) -> None:
        self.driver, self.op, self.loop = outer.driver, op, loop
        self._room = outer.within_arena(scratch)
        place = BufferPlace(self._room.buffer, self._room.offset)
        bodies = [(body.task, self.driver, place, own, outer.target) for body in loop.bodies]
        self.bodies = [DeviceSteps(*given) for given in bodies]

    @property
    def launches(self) -> int | None:
        """How many launches a run asks for; None where the host takes part."""
        return None

    def in_scratch(self, offset: int) -> BufferPlace:
        """A place in the scratch memory."""
        return BufferPlace(self._room.buffer, self._room.offset + offset)

    def copy(self, source: BufferPlace, target: BufferPlace, count: int) -> None:
        """Copy bytes, unless they are there."""
        if source != target and count:
            self.driver.copy(*source, *target, count)


class _DeviceSwitch(_DeviceBody):
    """One of several bodies, by its number, which the host reads."""

    def run(
        self, operands: Sequence[BufferPlace], results: Sequence[BufferPlace], draw: int
    ) -> None:
        """Run the body of the nearest number there is."""
        index, *given = operands
        (wanted,) = self.driver.read(*index, CELL).view(np.int64)
        body = self.bodies[min(max(int(wanted), 0), len(self.bodies) - 1)]
        body.variables[:] = [*given, *results]
        _ask(body.commands, draw)


class _StepByStep(_DeviceBody):
    """A body, step by step: its carries alternate between two places, or are written over."""

    def __init__(
        self,
        op: ScanLoop | WhileLoop,
        loop: DeviceLoop,
        outer: DeviceSteps,
        scratch: int,
        own: Mapping[int, Location],
    ) -> None:
        room = outer.within_arena(scratch + loop.own)
        cells = {p: room._replace(offset=room.offset + n) for p, n in _OWN_OFFSETS.items()}
        super().__init__(op, loop, outer, scratch, {**own, DRAW: cells[DRAW]})
        (plan,) = loop.bodies
        self.first_home = len(op.body.arguments)
        self.carries = list(enumerate(carry_results(op)))
        self.sizes = [nbytes(op.body.result_types[result]) for _, result in self.carries]
        outer_draw, self.numbering = own[DRAW], numbering_of(op)
        self._numbered = [
            (launch, places)
            for launch, places, wanted in (
                (NUMBER_STEP, [cells[_STEP]], reads_place(plan)),
                (draw_launch(op), [outer_draw, cells[DRAW]], draws(plan)),
            )
            if wanted
        ]
        self._functions = self.driver.load([launch.code for launch, _ in self._numbered])
        self._outer = outer

    def number_step(self, place: int) -> None:
        """Let the body know the place of the next step, as far as it wants to."""
        for function, (launch, places) in zip(self._functions, self._numbered, strict=True):
            at = [one.place(self._outer.variables) for one in places]
            number = place if launch is NUMBER_STEP else self.numbering.offset(place)
            self.driver.launch(function, launch.blocks, launch.block, at, (number,))

    @property
    def steps(self) -> DeviceSteps:
        """The body."""
        return self.bodies[0]

    def set_variables(self, places: Iterable[tuple[int, BufferPlace]]) -> None:
        """Let variables of the body lie elsewhere."""
        for variable, place in places:
            self.steps.variables[variable] = place

    def set_carries(self, now: Sequence[BufferPlace], then: Sequence[BufferPlace]) -> None:
        """Let carries lie at some places before a step, and at some after it."""
        for c, result in self.carries:
            self.steps.variables[1 + c] = now[c]
            self.steps.variables[self.first_home + result] = then[c]


class _DeviceScan(_StepByStep):
    """As many steps as are known before."""

    @property
    def launches(self) -> int | None:
        """The launches of all steps, copies of rows among them."""
        counts = [command.launches for command in self.steps.commands]
        known = [n for n in counts if n is not None]
        if len(known) < len(counts):
            return None
        each = sum(known) + len(self._numbered) + len(self.loop.rows)
        whole = len(self.carries) + self.op.length * each
        return whole if whole <= MOST_RECORDED else None

    def run(
        self, operands: Sequence[BufferPlace], results: Sequence[BufferPlace], draw: int
    ) -> None:
        """Run all steps."""
        op, commands = self.op, self.steps.commands
        now, then = self._first_places(operands, results)
        shared = range(op.first_shared, len(operands))
        self.set_variables([(0, self.in_scratch(self.loop.own))])
        self.set_variables([(1 + i, operands[i]) for i in shared])
        types, made = op.body.types, op.body.result_types
        rows = range(op.carries, op.first_shared)
        taken = [(1 + i, operands[i], nbytes(types[1 + i])) for i in rows]
        rows = range(op.carries, len(results))
        given = [(self.first_home + i, results[i], nbytes(made[i])) for i in rows]
        for step in range(op.length):
            place = op.length - 1 - step if op.reverse else step
            self.set_carries(now, then)
            self.number_step(place)
            for variable, base, count in taken:
                self.copy(_row(base, place, count), self._lies(variable, base, place, count), count)
            for variable, base, count in (*taken, *given):
                self.steps.variables[variable] = self._lies(variable, base, place, count)
            _ask(commands, self.numbering.number(draw, place))
            for variable, base, count in given:
                self.copy(self._lies(variable, base, place, count), _row(base, place, count), count)
            now, then = then, [self._other(c, p, results[c]) for c, p in enumerate(then)]

    def _lies(self, variable: int, base: BufferPlace, place: int, count: int) -> BufferPlace:
        """Where a row lies in a step."""
        own = self.loop.rows.get(variable)
        return _row(base, place, count) if own is None else self.in_scratch(own)

    def _first_places(
        self, operands: Sequence[BufferPlace], results: Sequence[BufferPlace]
    ) -> tuple[list[BufferPlace], list[BufferPlace]]:
        """Where carries lie before and after the first step; the last one writes the results."""
        now, then = list[BufferPlace](), list[BufferPlace]()
        for c, _ in self.carries:
            first, last = operands[c], results[c]
            if self._is_in_place(c) or not self.op.length:
                self.copy(first, last, self.sizes[c])
                now.append(last)
                then.append(last)
                continue
            other = self.in_scratch(self.loop.second[c])
            target = last if self.op.length % 2 else other
            if first == target:
                self.copy(first, other, self.sizes[c])
                first = other
            now.append(first)
            then.append(target)
        return now, then

    def _is_in_place(self, c: int) -> bool:
        return c not in self.loop.second

    def _other(self, c: int, place: BufferPlace, result: BufferPlace) -> BufferPlace:
        """The place of a carry that is not this one."""
        if self._is_in_place(c):
            return result
        second = self.in_scratch(self.loop.second[c])
        return second if place == result else result


class _DeviceWhile(_StepByStep):
    """Steps until the body says that there is no other: the host reads it after each."""

    def run(
        self, operands: Sequence[BufferPlace], results: Sequence[BufferPlace], draw: int
    ) -> None:
        """Run steps."""
        begins, *given = operands
        own, second = self.loop.own, self.loop.second
        flag = self.in_scratch(own + FLAG_OFFSET)
        shared = range(self.op.carries, len(given))
        self.set_variables([(0, self.in_scratch(own)), (self.first_home, flag)])
        self.set_variables([(1 + i, given[i]) for i in shared])
        for c, _ in self.carries:
            self.copy(given[c], results[c], self.sizes[c])
        now = list(results)
        then = [self.in_scratch(second[c]) if c in second else now[c] for c, _ in self.carries]
        place, goes_on = 0, self.driver.read(*begins, 1).any()
        while goes_on:
            self.set_carries(now, then)
            self.number_step(place)
            _ask(self.steps.commands, self.numbering.number(draw, place))
            now, then, place = then, now, place + 1
            goes_on = self.driver.read(*flag, 1).any()
        for c, _ in self.carries:
            self.copy(now[c], results[c], self.sizes[c])


_RUNS: Final[Mapping[type[Op], Any]] = {
    ScanLoop: _DeviceScan,
    WhileLoop: _DeviceWhile,
    Switch: _DeviceSwitch,
}

_STEP: Final = 0
_OWN_OFFSETS: Final = {_STEP: 0, DRAW: DRAW_OFFSET}
"""Where in a loop's own memory the place of its step and the number of its draws lie."""


def _ask(commands: Sequence[StepCommand], draw: int) -> None:
    for command in commands:
        command.ask(draw)


def _row(base: BufferPlace, place: int, count: int) -> BufferPlace:
    return BufferPlace(base.buffer, base.offset + place * count)
