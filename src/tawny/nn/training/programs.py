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

from tawny.forking import lock
from tawny.gc_paused import gc_paused
from tawny.graph.graph import Graph
from tawny.graph.program import Program
from tawny.nn.module import Module
from tawny.nn.target_checks import Demand, demands_collected
from tawny.nn.training.data import Batch, batch_variables, signature, values_of
from tawny.node import Value
from tawny.tree import leaves, outline


class Ready(NamedTuple):
    """A compiled program and what it takes."""

    program: Program
    variables: Batch
    demands: list[tuple[int, Demand]]
    """What the arrays of the target, by number, must be."""


class Programs:
    """One program for each size of batch, all over the same memory."""

    def __init__(
        self,
        build: Callable[[Batch], Graph],
        memory_of: Mapping[str, Value],
        engine: str,
        memory: str | int | None,
    ) -> None:
        self._build = build
        self._memory_of = memory_of
        self.options = engine, memory
        self._made: dict[Hashable, Ready] = {}
        self._checked: dict[tuple[int, Demand], Value] = {}

    def ready(self, batch: Batch) -> Ready:
        """The program for batches of this size; refuses targets it has no meaning for."""
        key = signature(batch)
        if key not in self._made:
            with gc_paused():
                self._made[key] = self._compiled(batch)
        made = self._made[key]
        self._check(made, batch)
        return made

    def _check(self, made: Ready, batch: Batch) -> None:
        """Whether targets are as demanded; arrays that many batches share are checked once."""
        own, targets = batch.targets is batch.target, leaves(batch.targets)
        for asked in made.demands:
            number, wanted = asked
            if own or self._checked.get(asked) is not targets[number]:
                wanted.check(targets[number])
                self._checked[asked] = targets[number]

    def run(self, batch: Batch, draw: int) -> Any:
        """The outputs for a batch; `draw` decides the random numbers."""
        program, variables, _ = self.ready(batch)
        program.draw = draw
        program.set(bind=False, **values_of(batch, variables))
        return program.run()

    def variables_for(self, batch: Batch) -> Batch:
        """Variables for batches of this size."""
        return batch_variables(batch)

    def compiled(self, graph: Graph, batch: Batch, variables: Batch) -> Program:
        """The program of a graph that was built over these variables."""
        engine, memory = self.options
        return graph.compile(engine, memory=memory, incremental=False)

    def _compiled(self, batch: Batch) -> Ready:
        variables = self.variables_for(batch)
        with demands_collected() as collected:
            graph = self._build(variables)
        program = self.compiled(graph, batch, variables)
        known = {v.node.name for v in graph.inputs} | {v.node.name for v in graph.updates}
        bound = {name: a for name, a in self._memory_of.items() if name in known}
        if bound:
            program.set(bind=True, **bound)
        numbers = {v.node: number for number, v in enumerate(leaves(variables.target))}
        demands = [(numbers[node], wanted) for node, wanted in collected if node in numbers]
        return Ready(program, variables, demands)

    @property
    def first(self) -> Program | None:
        """The program made first."""
        return next((made.program for made in self._made.values()), None)


MOST_PROGRAMS: Final = 4
"""So many programs are kept with a model: two sizes of batch, for predictions and for losses."""

MOST_BYTES: Final = 1 << 28
"""The planned memory of all programs kept with a model together."""


class Kept(NamedTuple):
    """A program, and what it was made from."""

    program: Program
    variables: Batch
    graph: Graph

    @property
    def nbytes(self) -> int:
        """Bytes that its program holds."""
        return self.program.plan.peak_bytes


_KEPT: Final[WeakKeyDictionary[Module, OrderedDict[Hashable, Kept]]] = WeakKeyDictionary()
_lock = lock()


def _recalled(model: Module, key: Hashable) -> Kept | None:
    with _lock:
        kept = _KEPT.get(model)
        if kept is None or key not in kept:
            return None
        kept.move_to_end(key)
        return kept[key]


def _remember(model: Module, key: Hashable, made: Kept) -> None:
    with _lock:
        kept = _KEPT.setdefault(model, OrderedDict())
        kept[key] = made
        kept.move_to_end(key)
        while len(kept) > MOST_PROGRAMS or sum(k.nbytes for k in kept.values()) > MOST_BYTES:
            kept.popitem(last=False)


def _is_same(one: Graph, other: Graph) -> bool:
    """Whether two graphs compute the same nodes, in the same structure."""
    ours, theirs = list[Any](), list[Any]()
    same = outline(one.outputs, ours) == outline(other.outputs, theirs)
    return same and [a.node for a in ours] == [a.node for a in theirs]


class Remembered(Programs):
    """Programs of a model with its current values, one for each size of batch.

    `purpose` tells those apart that one model has for several uses.
    """

    def __init__(
        self,
        model: Module,
        purpose: Hashable,
        build: Callable[[Batch], Graph],
        engine: str,
        memory: str | int | None,
    ) -> None:
        super().__init__(build, {}, engine, memory)
        self._model, self._purpose = model, purpose

    def variables_for(self, batch: Batch) -> Batch:
        kept = _recalled(self._model, self._key(batch))
        return batch_variables(batch) if kept is None else kept.variables

    def compiled(self, graph: Graph, batch: Batch, variables: Batch) -> Program:
        key = self._key(batch)
        kept = _recalled(self._model, key)
        if kept is None or kept.variables is not variables or not _is_same(kept.graph, graph):
            engine, memory = self.options
            kept = Kept(graph.compile(engine, memory=memory), variables, graph)
            _remember(self._model, key, kept)
        return kept.program

    def run(self, batch: Batch, draw: int = 0) -> Any:
        """The outputs for a batch, in one call: other threads may use the same program."""
        program, variables, _ = self.ready(batch)
        return program(**values_of(batch, variables))

    def _key(self, batch: Batch) -> Hashable:
        return self._purpose, signature(batch), self.options


def kept_programs(model: Module) -> list[Program]:
    """The programs kept with a model, the one used last at the end."""
    with _lock:
        kept = _KEPT.get(model)
        return [] if kept is None else [one.program for one in kept.values()]
