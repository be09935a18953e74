"""A plan run natively: one call of the interpreter for each stretch of steps without a callback."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import is_
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tawny.engine.cpu.interpreter import interpreter
from tawny.engine.cpu.pool import default_threads, pool_of
from tawny.engine.cpu.table import Cells, Table, address
from tawny.engine.reference.executable import POISON, Moment, ReferenceExecutable
from tawny.graph.engine import Task
from tawny.node import Node, Value

ALIGNMENT: Final = 64

STRETCH_SECONDS: Final = 5e-3
"""Steps are run together until so much time is estimated, so that Python can be interrupted."""

MOST_ROUTES: Final = 256
"""So many sets of positions are remembered."""


class Stretch(NamedTuple):
    """Entries of the table that one call of the interpreter runs, or a step that Python runs."""

    entries: Cells
    address: int
    length: int
    callback: Moment | None


class Route(NamedTuple):
    """How some positions are run."""

    positions: Sequence[int]
    stretches: tuple[Stretch, ...]
    calls_back: bool


class CpuExecutable:
    """Steps over an arena by compiled kernels; those that have none are computed by NumPy."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.arena = aligned(task.layout.arena)
        self._numpy = ReferenceExecutable(task, self.arena)
        self._table = Table(task, address(self.arena))
        self._pool = pool_of(task.threads or default_threads())
        self._interpret = interpreter()
        self._buffers: list[Value | None] = [None] * len(task.variables)
        self._routes: dict[int, Route] = {}

    def run(self, positions: Sequence[int], variables: Sequence[Value], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        if not all(map(is_, variables, self._buffers)):
            self._bind(variables)
        if self._table.parallel and not self._pool.started:
            self._pool.start()
        self._table.draw(draw)
        route = self._routes.get(id(positions))
        if route is None:
            route = self._routed(positions)
        if route.calls_back:
            with np.errstate(all="ignore"):
                self._follow(route, variables, draw)
        else:
            self._follow(route, variables, draw)

    def value(self, node: Node, variables: Sequence[Value]) -> Value:
        """The value of a kept node, as it lies in memory."""
        return self._numpy.value(node, variables)

    def _follow(self, route: Route, variables: Sequence[Value], draw: int) -> None:
        interpret, table, pool = self._interpret, self._table.address, self._pool.state
        for stretch in route.stretches:
            _, place, length, callback = stretch
            if callback is not None:
                callback(variables, draw)
            elif (done := interpret(table, place, length, pool)) != length:
                self._fail(int(stretch.entries[done]), variables, draw)

    def _fail(self, entry: int, variables: Sequence[Value], draw: int) -> None:
        """After a kernel failed: let NumPy compute that step, and say why it cannot."""
        position = self._table.failed(entry)
        self._numpy.run([position], variables, draw)
        raise RuntimeError(f"step {position} failed, though NumPy can compute it")

    def _bind(self, variables: Sequence[Value]) -> None:
        for index, (new, old) in enumerate(zip(variables, self._buffers, strict=True)):
            if new is not old:
                self._table.bind(index, new)
                self._buffers[index] = new

    # ------------------------------------------------------------------ routes

    def _routed(self, positions: Sequence[int]) -> Route:
        """A route, remembered by the identity of the sequence, which it therefore holds."""
        if len(self._routes) >= MOST_ROUTES:
            self._routes.clear()
        stretches = tuple(self._stretches(positions))
        calls_back = any(s.callback is not None for s in stretches)
        route = self._routes[id(positions)] = Route(positions, stretches, calls_back)
        return route

    def _stretches(self, positions: Sequence[int]) -> list[Stretch]:
        """Cut where Python runs a step, and after some time; but not once variables change."""
        steps, sequence = self._task.lowered.problem.steps, self._task.layout.sequence
        changing = self._table.first_change
        out: list[Stretch] = []
        run: list[int] = []
        seconds = 0.0
        for position in positions:
            entries = self._table.entries(position)
            if not entries:
                out.extend(_native(run))
                out.append(Stretch(_NOTHING, 0, 0, self._numpy.moment(position)))
                run, seconds = [], 0.0
                continue
            run.extend(entries)
            seconds += steps[sequence[position]].seconds
            if seconds > STRETCH_SECONDS and position < changing:
                out.extend(_native(run))
                run, seconds = [], 0.0
        out.extend(_native(run))
        return out


def _native(run: list[int]) -> list[Stretch]:
    if not run:
        return []
    cells = np.array(run, np.int64)
    return [Stretch(cells, address(cells), len(run), None)]


_NOTHING: Final = np.empty(0, np.int64)


def aligned(size: int) -> npt.NDArray[np.uint8]:
    """New bytes, the first at the start of a cache line; poisoned while debugging."""
    whole = np.empty(size + ALIGNMENT, np.uint8)
    if os.environ.get("TAWNY_DEBUG", "0") != "0":
        whole.fill(POISON)
    start = -address(whole) % ALIGNMENT
    return whole[start : start + size]
