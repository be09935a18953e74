"""What an engine is to a graph: something that makes a plan runnable."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tawny.engine.lowering import LoweredGraph, MachineModel, result_of
from tawny.errors import value_error
from tawny.memory.plan import ArenaLayout
from tawny.node import Node, Value
from tawny.ops.body import Body
from tawny.ops.fused_products import FusedProduct


@dataclass(frozen=True)
class Task:
    """Everything an engine needs to run a graph: the steps, their order, every byte's place."""

    lowered: LoweredGraph
    layout: ArenaLayout
    variables: tuple[Node, ...]
    in_place_updates: Mapping[Node, Node]
    """Nodes that are computed in a variable's memory instead of the arena; where one is a part,
    that result alone of the node it is a part of."""
    updates: tuple[tuple[Node, Node], ...] = ()
    """Variables and the results that each takes after a run; those that are computed in their
    variable's memory are not among them, and none lies in a variable that another one changes."""
    threads: int = 1
    """The number of threads that may work at once; `layout` has scratch memory for them."""
    team: int = 0
    """Which threads these are: tasks of different teams run at the same time with all theirs."""

    @property
    def first_change(self) -> int:
        """The first position whose result is written to a variable; past the end, if none is.

        No later step fails.
        """
        steps, sequence = self.lowered.steps, self.layout.sequence
        changing = {result_of(node)[0] for node in self.in_place_updates}
        found = [p for p, s in enumerate(sequence) if steps[s] in changing] if changing else []
        return min(found, default=len(sequence))


class StalePlanError(Exception):
    """A kernel that a plan counts on cannot be made; another plan must be."""


class MemoryRange(NamedTuple):
    """Bytes of an engine's memory, by their addresses."""

    start: int
    stop: int
    writeable: bool

    def overlaps(self, other: MemoryRange) -> bool:
        """Whether a byte is in both."""
        return max(self.start, other.start) < min(self.stop, other.stop)


class WorkSpan(NamedTuple):
    """A stretch of a run in which a thread, or a queue of a device, worked on a step."""

    position: int
    """The place of the step in the schedule; `UPDATE` for the updates after all of them."""
    lane: int
    """Which thread or queue; 0 is the one that runs the program."""
    start: float
    """Seconds since the run began."""
    stop: float


UPDATE: Final = -1
"""Stands for what comes after all positions of the schedule: the updates."""


@dataclass(frozen=True)
class Measurement:
    """A run whose steps were timed one by one."""

    step_seconds: Sequence[float]
    """What each of the positions took that were run, in their order."""
    update_seconds: float
    """What letting the variables take their new values took."""
    seconds: float
    """From the beginning of the first step to the end of the updates."""
    find_spans: Callable[[], list[WorkSpan]]
    """Who worked when; asked for after the run, if at all."""


class Device(NamedTuple):
    """A device that programs run on, as it was when asked."""

    label: str
    """What `compile(engine=...)` takes."""
    name: str
    """What its maker calls it."""
    total_bytes: int
    free_bytes: int | None
    """None where the device does not say."""
    largest_bytes: int
    """The most that one allocation may have."""


class Rates(NamedTuple):
    """The rates of a machine at best, as code that does nothing else shows."""

    flops32: float
    """Operations a second of multiply-adds of float32 numbers in registers; each is two."""
    flops64: float
    """Operations a second of multiply-adds of float64 numbers."""
    copy: float
    """Bytes read and written a second where a large array is copied."""
    triad: float
    """Bytes moved a second where two large arrays are combined, `x + 3 * y`, to a third."""


class BindableArray(NamedTuple):
    """An array that a variable may lie in, as the engine takes it, and its bytes."""

    array: Any
    range: MemoryRange


DirectRun = Callable[[Sequence[Value], int], list[Value]]
"""Runs some steps for values of their variables' shapes and dtypes, and a number of the run; gives
copies of the results."""


class Executable(Protocol):
    """A task made runnable: it holds all memory, that of the variables too.

    Variables are called by their numbers in the task.  Before the first run each was written or
    bound.
    """

    def write(self, values: Sequence[tuple[int, Value]]) -> None:
        """Copy values into variables of their shapes and dtypes; none is changed unless all can be.

        What was bound to them is left as it is.
        """
        ...

    def locate(self, index: int, array: object) -> BindableArray | None:
        """An array that a variable may be bound to, and its bytes; None for any other object."""
        ...

    def bind(self, arrays: Sequence[tuple[int, Any]]) -> None:
        """Let variables lie in these arrays, which `locate` gave, from now on."""
        ...

    def variable_range(self, index: int) -> MemoryRange:
        """The bytes of a variable that has a value."""
        ...

    @property
    def arena_range(self) -> MemoryRange:
        """The bytes of what a run computes."""
        ...

    def read(self, nodes: Sequence[Node]) -> list[Value]:
        """Copies of the values of variables and kept nodes."""
        ...

    def view(self, node: Node) -> Any:
        """The value of a variable or a kept node where it lies, to be read; valid until a run."""
        ...

    def run(self, positions: Sequence[int], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        ...

    def update(self) -> None:
        """Complete a run: let the updated variables take their new values."""
        ...

    def advance(self, positions: Sequence[int], draw: int, most: int) -> int:
        """Run the positions and update, over and over; how often: once at least, `most` at most.

        The numbers of the runs count on from `draw`.
        """
        ...

    def direct_run(
        self, variables: Sequence[int], positions: Sequence[int], nodes: Sequence[Node]
    ) -> DirectRun | None:
        """A function that does what `write`, `advance` once and `read` do, if there is one.

        It is right until one of the variables moves.
        """
        ...

    def measure(self, positions: Sequence[int], draw: int) -> Measurement:
        """Run the positions and update once, as `advance` does, and time every step."""
        ...

    @property
    def completed_runs(self) -> int:
        """The number of runs that were completed, with their updates."""
        ...


class Engine(Protocol):
    """Makes tasks runnable."""

    @property
    def compiles_groups(self) -> bool:
        """Whether a fused group is compiled to one kernel; otherwise graphs run without groups."""
        ...

    @property
    def multiplies_bytes(self) -> bool:
        """Whether products of bytes are worth ops of their own; else they are of wider integers."""
        ...

    @property
    def multiplies_halves(self) -> bool:
        """Whether products of bfloat16 are worth ops of their own."""
        ...

    @property
    def precisions(self) -> Collection[str]:
        """Of `PRECISIONS`, what it can compute products of float32 in."""
        ...

    def should_round(self, product: Node) -> bool:
        """Whether the graph is to round the factors of a product that may be one of bfloat16.

        It is where that is faster, unless the engine rounds them itself.
        """
        ...

    def in_precision(self, precision: str) -> Engine:
        """The engine that computes products of float32 in one of its `precisions`."""
        ...

    @property
    def shares_factors(self) -> bool:
        """Whether elimination is an op of its own, whose factors solutions and inverses share."""
        ...

    @property
    def sorts_partly(self) -> bool:
        """Whether the first elements of a sort are worth an op of their own."""
        ...

    @property
    def min_group_size(self) -> int:
        """The fewest elements for which a group without a reduction is worth a kernel."""
        ...

    @property
    def machine(self) -> MachineModel:
        """What planning assumes of the machine: alignment of places, times of steps."""
        ...

    def can_fuse_product(self, op: FusedProduct, operands: Sequence[Node]) -> bool:
        """Whether one kernel computes a product and the group that reads it."""
        ...

    def supports_bands(self, node: Node) -> bool:
        """Whether a step that computes a body in bands of rows can be run."""
        ...

    def should_group(self, body: Body) -> bool:
        """Whether a group of this body is worth a kernel of its own."""
        ...

    def warm_up(self) -> None:
        """Start to load what every program needs; called when a graph is about to be compiled."""
        ...

    @property
    def nominal_threads(self) -> int:
        """For how many threads plans are chosen: the same number everywhere."""
        ...

    def threads(self, asked: int | None) -> int:
        """The number of threads that run a program; None asks for the engine's own choice."""
        ...

    def scratch(self, node: Node, threads: int) -> int:
        """Bytes that a step needs while it runs: `task.layout.scratch[position]` says where.

        Kernels are chosen for that; no code is made.
        """
        ...

    def describe(self, steps: Sequence[Node], threads: int | None = None) -> str:
        """How the steps are run on a number of threads, in words."""
        ...

    def device(self) -> Device | None:
        """The device, where programs do not run in the host's own memory."""
        ...

    def rates(self, threads: int) -> Rates | None:
        """What the machine does at best on a number of threads; None where that is not known."""
        ...

    def place(self, value: Value) -> Any:
        """An array of the host in this engine's memory, where variables may be bound to it.

        Where that is the host's own memory, the array itself.
        """
        ...

    def emit(self, task: Task) -> object:
        """Make the code of the kernels that were chosen; what is given holds it until `prepare`.

        Raises StalePlanError where code cannot be made: the next plan chooses without it.
        """
        ...

    def prepare(self, task: Task) -> Executable:
        """Allocate the memory and lower the steps; makes code that `emit` has not made."""
        ...


class StepwiseEngine:
    """The answers of an engine that runs whole steps one after another, on one thread of the host.

    Such an engine inherits them, and says itself what it does otherwise: `Engine` lists all.
    """

    compiles_groups: bool = False
    multiplies_bytes: bool = False
    multiplies_halves: bool = False
    shares_factors: bool = False
    sorts_partly: bool = False
    min_group_size: int = 0
    nominal_threads: int = 1

    def can_fuse_product(self, op: FusedProduct, operands: Sequence[Node]) -> bool:
        """No product: each is stored whole."""
        del op, operands
        return False

    def supports_bands(self, node: Node) -> bool:
        """No bands: each step computes all rows."""
        del node
        return False

    def threads(self, asked: int | None) -> int:
        """One, whatever is asked for."""
        del asked
        return self.nominal_threads

    def rates(self, threads: int) -> Rates | None:
        """None: what the machine does at best is not measured."""
        del threads
        return None


ENGINES: Final[dict[str, Engine]] = {}
"""Engines by name, those that were asked for."""

HOMES: Final = {
    "cpu": "tawny.engine.cpu",
    "cuda": "tawny.engine.cuda",
    "opencl": "tawny.engine.opencl",
    "reference": "tawny.engine.reference.executable",
}
"""The module of each engine, which is loaded when a program first asks for it and has `ENGINE`."""


PRECISIONS: Final = ("tf32", "bfloat16")
"""What products of float32 may be computed in: their operands are rounded, sums are float32."""

NUMBERED: Final = ("cuda", "opencl")
"""Engines that may have several devices."""


def engine_named(name: str) -> Engine:
    """The engine called `name`; a number after a colon says which of several devices it is on."""
    if name not in ENGINES:
        kind, colon, number = str(name).partition(":")
        if kind not in HOMES or (colon and not (kind in NUMBERED and number.isdecimal())):
            known = ", ".join(dict.fromkeys([*HOMES, *ENGINES]))
            raise value_error("compile", f"engine {name!r} is not known; accepted: {known}")
        home = importlib.import_module(HOMES[kind])
        ENGINES[name] = home.engine_on(int(number)) if colon else home.ENGINE
    return ENGINES[name]


def engine_in(name: str, precision: str | None) -> Engine:
    """The engine called `name`, with products of float32 in `precision`; None rounds nothing."""
    engine = engine_named(name)
    if precision is None:
        return engine
    if precision not in PRECISIONS:
        accepted = ", ".join(map(repr, (None, *PRECISIONS)))
        raise value_error("compile", f"precision is {precision!r}; accepted: {accepted}")
    if precision not in engine.precisions:
        own = ", ".join(map(repr, (None, *engine.precisions)))
        raise value_error(
            "compile", f"engine {name!r} does not know precision={precision!r}; accepted: {own}"
        )
    return engine.in_precision(precision)
