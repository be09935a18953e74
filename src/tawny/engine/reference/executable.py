"""A plan run by NumPy: every value at its planned place in one arena."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np

from tawny.dtype import is_bfloat16
from tawny.engine.atomicity import run_to_end
from tawny.engine.lowering import PROCESSOR
from tawny.engine.protocol import Measurement, StepwiseEngine, Task
from tawny.engine.reference import INTO, compute, compute_into
from tawny.engine.reference.elementwise import SPELLING
from tawny.engine.reference.memory import POISON, HostMemory
from tawny.engine.stopwatch import Stopwatch
from tawny.node import Node, Value
from tawny.op import Elementwise
from tawny.ops.body import Body
from tawny.scalar import Arg, PrimCall

StepThunk = Callable[[int], None]
"""Runs one step, given the number of the run."""


class ReferenceExecutable(HostMemory):
    """A task run by NumPy, one step at a time."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, np.full(task.layout.arena, POISON, np.uint8))
        self._thunks: dict[int, StepThunk] = {}
        self._first_change = task.first_change
        self._has_updates = bool(task.updates or task.in_place_updates)
        self.completed_runs = 0

    def run(self, positions: Sequence[int], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        with np.errstate(all="ignore"):
            for position in positions:
                self.thunk(position)(draw)

    def thunk(self, position: int) -> StepThunk:
        """What runs at a position of the schedule."""
        known = self._thunks.get(position)
        if known is None:
            known = self._thunks[position] = step_thunk(self, position)
        return known

    def update(self) -> None:
        """Complete a run: let the updated variables take their new values."""
        for target, source in self.task.updates:
            np.copyto(self.value(target), self.value(source))
        self.completed_runs += 1

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        """Run the steps at these positions once; variables change all or not at all."""
        del most
        first = bisect_left(positions, self._first_change)
        self.run(positions[:first], draw)

        def change(is_interrupted: Callable[[], bool]) -> None:
            del is_interrupted
            self.run(positions[first:], draw)
            self.update()

        if self._has_updates:
            run_to_end(change)
        else:
            self.completed_runs += 1
        return 1

    def measure(self, positions: Sequence[int], draw: int) -> Measurement:
        """Run once, and time every step."""
        thunks = [self.thunk(position) for position in positions]
        watch = Stopwatch()
        with np.errstate(all="ignore"):
            for thunk in thunks:
                thunk(draw)
                watch.note()
        self.update()
        watch.note()
        return watch.measurement(positions)


def step_thunk(memory: HostMemory, position: int) -> StepThunk:
    """What runs at a position of the schedule; results are copied to their place from temporaries.

    Operands and results are found beforehand.  It does not hold the memory's owner.
    """
    schedule = memory.task.layout.schedule
    node = memory.task.lowered.steps[schedule.sequence[position]]
    reads, writes = schedule.reads[position], schedule.writes[position]
    operands = [memory.reader(*pair) for pair in zip(node.inputs, reads, strict=True)]
    targets = [memory.target((node, result), storage) for result, storage in enumerate(writes)]
    ufunc = single_ufunc(node)
    if ufunc is not None:
        (place,) = targets

        def direct(draw: int) -> None:
            del draw
            ufunc(*(read() for read in operands), out=place())

        return direct
    if type(node.op) in INTO:
        (target,) = targets

        def written(draw: int) -> None:
            del draw
            compute_into(node, [read() for read in operands], target())

        return written

    def general(draw: int) -> None:
        result = compute(node, [read() for read in operands], draw)
        values = result if node.parts else (result,)
        for target, value in zip(targets, values, strict=True):
            np.copyto(target(), value)

    return general


def single_ufunc(node: Node) -> np.ufunc | None:
    """The ufunc that computes the node by itself and can write to a given place."""
    op = node.op
    if not isinstance(op, Elementwise) or not isinstance(op.scalar, PrimCall):
        return None
    if any(is_bfloat16(x.dtype) for x in (node, *node.inputs)):
        return None
    if [a for a in op.scalar.args if not isinstance(a, Arg)]:
        return None
    positions = [a.position for a in op.scalar.args if isinstance(a, Arg)]
    function = SPELLING[op.scalar.prim]
    if positions != list(range(len(node.inputs))) or not isinstance(function, np.ufunc):
        return None
    return function


class ReferenceEngine(StepwiseEngine):
    """NumPy, one step at a time."""

    machine = PROCESSOR
    precisions: Collection[str] = ("bfloat16",)

    def should_round(self, product: Node) -> bool:
        """Whether to round the factors of a product: always, to show what rounding does."""
        del product
        return True

    def in_precision(self, precision: str) -> ReferenceEngine:
        """The engine itself: the graph says what is rounded."""
        del precision
        return self

    def should_group(self, body: Body) -> bool:
        """Whether a group is worth a kernel: always, since none is compiled."""
        del body
        return True

    def warm_up(self) -> None:
        """Load nothing: NumPy is there."""

    def scratch(self, node: Node, threads: int) -> int:
        """No bytes of the arena: NumPy allocates what it needs."""
        del node, threads
        return 0

    def device(self) -> None:
        """None: programs run in the host's own memory."""

    def place(self, value: Value) -> Value:
        """The array itself."""
        return value

    def describe(self, steps: Sequence[Node], threads: int | None = None) -> str:
        """How many steps there are, all run by NumPy."""
        del threads
        return f"reference: {len(steps)} steps by NumPy"

    def emit(self, task: Task) -> None:
        """Make no code: NumPy is there."""
        del task

    def prepare(self, task: Task) -> ReferenceExecutable:
        """Allocate the arena and find every operand's place."""
        return ReferenceExecutable(task)


ENGINE: Final = ReferenceEngine()
