"""Programs of models, one for each size of batch; those of inference are cached with the model.

A call in inference traces the model anew, which finds the very nodes of the call before as long as
values, layers and settings are as they were: nodes are interned.  Then the program of that call
serves again; anything else compiles another.  So nothing stale is ever run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from tawny.forking import fork_safe_lock
from tawny.gc_pause import pause_gc
from tawny.graph.graph import Graph
from tawny.graph.program import Program
from tawny.nn.checks import TargetCheck, collect_target_checks
from tawny.nn.module import Module
from tawny.nn.training.data import Batch, batch_variables, signature, values_of
from tawny.node import Value
from tawny.tree import leaves, structure_key


class BatchProgram(NamedTuple):
    """A compiled program for batches of one size, its variables, and what its targets must be."""

    program: Program
    variables: Batch
    target_checks: list[tuple[int, TargetCheck]]
    """What the arrays of the target, by number, must be."""


class ProgramOptions(NamedTuple):
    """The options of `Graph.compile` that programs over batches are made with."""

    engine: str = "cpu"
    memory: str | int | None = None
    precision: str | None = None


class TargetChecks:
    """Checks of targets that losses ask for; arrays that many batches share are checked once."""

    def __init__(self) -> None:
        self._checked: dict[tuple[int, TargetCheck], Value] = {}

    def check(self, wanted: list[tuple[int, TargetCheck]], batch: Batch) -> None:
        """Refuse targets without a meaning."""
        own, targets = batch.targets is batch.target, leaves(batch.targets)
        for numbered in wanted:
            number, check = numbered
            if own or self._checked.get(numbered) is not targets[number]:
                check.check(targets[number])
                self._checked[numbered] = targets[number]


def trace_graph(
    build: Callable[[Batch], Graph], variables: Batch
) -> tuple[Graph, list[tuple[int, TargetCheck]]]:
    """The graph for batches of one size, with what the arrays of the target, by number, must be."""
    with collect_target_checks() as collected:
        graph = build(variables)
    numbers = {v.node: number for number, v in enumerate(leaves(variables.target))}
    return graph, [(numbers[node], check) for node, check in collected if node in numbers]


class Programs:
    """One program for each size of batch, all over the same memory."""

    def __init__(
        self,
        build: Callable[[Batch], Graph],
        memory_of: Mapping[str, Value],
        options: ProgramOptions,
    ) -> None:
        self._build = build
        self._memory_of = memory_of
        self.options = options
        self._programs: dict[Hashable, BatchProgram] = {}
        self._checks = TargetChecks()

    def program_for(self, batch: Batch) -> BatchProgram:
        """The program for batches of this size; refuses targets it has no meaning for."""
        key = signature(batch)
        if key not in self._programs:
            with pause_gc():
                self._programs[key] = self._build_program(batch)
        program = self._programs[key]
        self._checks.check(program.target_checks, batch)
        return program

    def run(self, batch: Batch, draw: int) -> Any:
        """The outputs for a batch; `draw` decides the random numbers."""
        program, variables, _ = self.program_for(batch)
        program.draw = draw
        program.set(bind=False, **values_of(batch, variables))
        return program.run()

    def variables_for(self, batch: Batch) -> Batch:
        """Variables for batches of this size."""
        return batch_variables(batch)

    def compile_graph(self, graph: Graph, batch: Batch, variables: Batch) -> Program:
        """The program of a graph that was built over these variables."""
        return graph.compile(**self.options._asdict(), incremental=False)

    def _build_program(self, batch: Batch) -> BatchProgram:
        variables = self.variables_for(batch)
        graph, checks = trace_graph(self._build, variables)
        program = self.compile_graph(graph, batch, variables)
        known = {v.node.name for v in graph.inputs} | {v.node.name for v in graph.updates}
        bound = {name: a for name, a in self._memory_of.items() if name in known}
        if bound:
            program.set(bind=True, **bound)
        return BatchProgram(program, variables, checks)

    @property
    def first(self) -> Program | None:
        """The program that was compiled first."""
        return next((entry.program for entry in self._programs.values()), None)


MAX_PROGRAMS: Final = 4
"""The number of programs that are cached with a model, at most.

Enough for two sizes of batch (full ones and the last), for predictions and for losses.
"""

MAX_BYTES: Final = 1 << 28
"""The planned bytes of all programs cached with a model, at most; chosen by hand.

It trades memory that stays taken between calls for compiling again.
"""


class CachedProgram(NamedTuple):
    """A program, and the variables and graph it was compiled from."""

    program: Program
    variables: Batch
    graph: Graph

    @property
    def nbytes(self) -> int:
        """Bytes that the program holds."""
        return self.program.plan.peak_bytes


_CACHE: Final[WeakKeyDictionary[Module, OrderedDict[Hashable, CachedProgram]]] = WeakKeyDictionary()
_lock = fork_safe_lock()


def _look_up(model: Module, key: Hashable) -> CachedProgram | None:
    with _lock:
        cached = _CACHE.get(model)
        if cached is None or key not in cached:
            return None
        cached.move_to_end(key)
        return cached[key]


def _store(model: Module, key: Hashable, entry: CachedProgram) -> None:
    with _lock:
        cached = _CACHE.setdefault(model, OrderedDict())
        cached[key] = entry
        cached.move_to_end(key)
        while len(cached) > MAX_PROGRAMS or sum(k.nbytes for k in cached.values()) > MAX_BYTES:
            cached.popitem(last=False)


def _is_same(one: Graph, other: Graph) -> bool:
    """Whether two graphs compute the same nodes, in the same structure."""
    ours, theirs = list[Any](), list[Any]()
    same = structure_key(one.outputs, ours) == structure_key(other.outputs, theirs)
    return same and [a.node for a in ours] == [a.node for a in theirs]


class CachedPrograms(Programs):
    """Programs of a model with its current values, one for each size of batch.

    `purpose` tells those apart that one model has for several uses.
    """

    def __init__(
        self,
        model: Module,
        purpose: Hashable,
        build: Callable[[Batch], Graph],
        options: ProgramOptions,
    ) -> None:
        super().__init__(build, {}, options)
        self._model, self._purpose = model, purpose

    def variables_for(self, batch: Batch) -> Batch:
        cached = _look_up(self._model, self._key(batch))
        return batch_variables(batch) if cached is None else cached.variables

    def compile_graph(self, graph: Graph, batch: Batch, variables: Batch) -> Program:
        key = self._key(batch)
        cached = _look_up(self._model, key)
        if cached is None or cached.variables is not variables or not _is_same(cached.graph, graph):
            program = graph.compile(**self.options._asdict())
            cached = CachedProgram(program, variables, graph)
            _store(self._model, key, cached)
        return cached.program

    def run(self, batch: Batch, draw: int = 0) -> Any:
        """The outputs for a batch, in one call: other threads may use the same program."""
        program, variables, _ = self.program_for(batch)
        return program(**values_of(batch, variables))

    def _key(self, batch: Batch) -> Hashable:
        return self._purpose, signature(batch), self.options


def cached_programs(model: Module) -> list[Program]:
    """The programs cached with a model, the one used last at the end."""
    with _lock:
        cached = _CACHE.get(model)
        return [] if cached is None else [one.program for one in cached.values()]
