"""Segments made runnable: a worker's programs over the same variables, and all of them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, final

import numpy as np

from tawny.engine.protocol import engine_named
from tawny.errors import list_some, type_error, value_error
from tawny.forking import fork_safe_lock
from tawny.graph.graph import Graph
from tawny.graph.options import CompileOptions
from tawny.graph.partition.segments import SegmentOutput
from tawny.graph.values import ValueLists, as_rows, variable_value
from tawny.node import Value
from tawny.shape import as_int
from tawny.tree import leaves
from tawny.unique import Unique

if TYPE_CHECKING:
    from tawny.graph.partition.partition import Partition


class SegmentSpec(NamedTuple):
    """A segment as far as a worker must know it."""

    number: int
    graph: Graph
    options: CompileOptions
    variables: tuple[str, ...]
    """The names of its variables that are the whole graph's."""


@final
class WorkerPrograms:
    """The programs of one worker's segments; they share the values of variables."""

    def __init__(self, specs: Sequence[SegmentSpec]) -> None:
        self._specs = {spec.number: spec for spec in specs}
        self._programs = {s.number: s.graph.compile(**s.options._asdict()) for s in specs}
        self._values: dict[str, Value] = {}
        """What variables lie in, where the engine computes in the host's memory."""
        self._updated = frozenset(
            [spec.graph.names[target] for spec in specs for target, _ in spec.graph.update_nodes]
        )
        self._outside = any(
            engine_named(spec.options.engine).device() is not None for spec in specs
        )

    @property
    def peak_bytes(self) -> int:
        """What all programs compute."""
        return sum([program.plan.peak_bytes for program in self._programs.values()])

    def set(self, values: Mapping[str, Value]) -> None:
        """Give variables values; they are copied if updates change them."""
        for name, value in values.items():
            own = name in self._updated and not self._outside
            kept = np.array(value, order="C") if own else np.require(value, requirements=("C", "A"))
            self._values[name] = kept
            for number, spec in self._specs.items():
                if name in spec.variables:
                    self._programs[number].set({name: kept}, bind=not self._outside)

    def run(self, number: int, received: Mapping[str, Value], draw: int) -> list[Value]:
        """The outputs of a segment for what it takes from others."""
        program, spec = self._programs[number], self._specs[number]
        aligned = {n: np.require(v, requirements=("C", "A")) for n, v in received.items()}
        program.set(aligned, bind=not self._outside)
        program.draw = draw
        outputs = leaves(program.run())
        if self._outside:
            for target, _ in spec.graph.update_nodes:
                self._spread(spec.graph.names[target], number)
        return outputs

    def _spread(self, name: str, number: int) -> None:
        """Tell other programs what one has made of a variable."""
        value = self._values[name] = self._programs[number].get(name)
        for other, spec in self._specs.items():
            if other != number and name in spec.variables:
                self._programs[other].set({name: value})

    def state(self) -> dict[str, Value]:
        """Copies of the variables that updates change."""
        return {name: self._values[name].copy() for name in sorted(self._updated)}


class PartitionedProgram(Unique, AbstractContextManager["PartitionedProgram"]):
    """A graph in segments made runnable: set, called and run as a `tw.Program` is.

    Values set before stay set; updates are made after each run, all at once.  Results have the bits
    of one program where sums are added in the same order.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.graph = partition.graph
        self.draw = 0
        """The number of the next run; together with the seeds it decides the random numbers."""
        self._lock = fork_safe_lock()
        self._given: set[str] = set()
        """The names of variables that have a value."""

    # ------------------------------------------------------------------ values

    def set(self, values: Mapping[str, Any] | None = None, /, **by_name: Any) -> None:
        """Give variables new values for the next run; nothing is set unless all can be set.

        - `values`: a dict of values by name.
        - `by_name`: values by name.
        """
        for name in (values or {}).keys() & by_name.keys():
            raise type_error("set", f"variable {name!r} was given twice")
        found = self._values_of({**(values or {}), **by_name})
        with self._lock:
            self._assign(found)

    def _values_of(self, values: Mapping[str, Any]) -> dict[str, Value]:
        graph = self.graph
        return {
            name: variable_value(graph.variable(name, "set"), name, value)
            for name, value in values.items()
        }

    def _assign(self, values: Mapping[str, Value]) -> None:
        if values:
            self._write(values)
            self._given.update(values)

    @property
    def state(self) -> Mapping[str, Value]:
        """Copies of the values of the variables that updates change, by name."""
        with self._lock:
            self._check_given(self._state_names())
            return MappingProxyType(self._read())

    def _state_names(self) -> list[str]:
        return [self.graph.names[target] for target, _ in self.graph.update_nodes]

    def _check_given(self, names: Sequence[str]) -> None:
        missing = [repr(name) for name in names if name not in self._given]
        if missing:
            raise value_error("run", f"variables have no value yet: {list_some(missing)}")

    # -------------------------------------------------------------------- runs

    def __call__(self, /, *values: Any, **by_name: Any) -> Any:
        """Set inputs, run once, and give the outputs in the graph's structure.

        - `values`: of the inputs in the graph's order; fewer may be given.
        - `by_name`: values by name.
        """
        names = [self.graph.names[n] for n in self.graph.input_nodes]
        if len(values) > len(names):
            raise type_error(
                "Partition", f"{len(values)} values were given; there are {len(names)} inputs"
            )
        given = dict(zip(names, values, strict=False))
        for name in given.keys() & by_name.keys():
            raise type_error("Partition", f"input {name!r} was given twice")
        found = self._values_of({**given, **by_name})
        with self._lock:
            self._assign(found)
            return self._run(1)

    def run(self, steps: int = 1) -> Any:
        """Run `steps` times, with updates in between; gives the outputs of the last.

        - `steps`: how often, at least once.
        """
        if as_int(steps, "run", "steps") < 1:
            raise value_error("run", f"steps is {steps}; it must be at least 1")
        with self._lock:
            return self._run(steps)

    def _run(self, steps: int) -> Any:
        self._check_given([*self.graph.names.values()])
        outputs = self._advance(steps)
        self.draw += steps
        return self.graph.unflatten(outputs)

    def sweep(
        self, lists: Mapping[str, Sequence[Any]] | None = None, /, **by_name: Sequence[Any]
    ) -> list[Any]:
        """Outputs for each position of the lists; on a cluster runs overlap.

        - `lists`, `by_name`: lists of values by the names of their variables, all of one length.

        While a worker computes its segment of one run, the others compute theirs of the runs before
        and after.
        """
        rows = as_rows({**(lists or {}), **by_name}, "sweep")
        for number in range(rows.total):
            self._values_of(rows.row(number))
        with self._lock:
            self._check_given([n for n in self.graph.names.values() if n not in rows.names])
            found = self._sweep(rows)
            self.draw += rows.total
            return [self.graph.unflatten(outputs) for outputs in found]

    # ---------------------------------------------------------- where they run

    def _write(self, values: Mapping[str, Value]) -> None:
        """Let variables have these values."""
        raise NotImplementedError

    def _read(self) -> dict[str, Value]:
        """The values of the variables that updates change."""
        raise NotImplementedError

    def _advance(self, steps: int) -> list[Value]:
        """The outputs of the last of some runs."""
        raise NotImplementedError

    def _sweep(self, rows: ValueLists) -> list[list[Value]]:
        """The outputs of each run."""
        raise NotImplementedError

    def close(self) -> None:
        """Forget the programs; they cannot be run any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.graph!r}>"


def segment_specs(partition: Partition, worker: int) -> list[SegmentSpec]:
    """What a worker must know of its segments."""
    return [
        SegmentSpec(segment.number, segment.graph, segment.options, segment.variables)
        for segment in partition.segments
        if segment.worker == worker
    ]


@final
class LocalPartition(PartitionedProgram):
    """A graph in segments that run in this process, one after the other."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        count = partition.demand.workers
        self._workers: Final = [WorkerPrograms(segment_specs(partition, w)) for w in range(count)]

    def _write(self, values: Mapping[str, Value]) -> None:
        for worker, programs in enumerate(self._workers):
            own = names_of(self.partition, worker)
            programs.set({name: value for name, value in values.items() if name in own})

    def _read(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for programs in self._workers:
            found |= programs.state()
        return found

    def _advance(self, steps: int) -> list[Value]:
        values: dict[SegmentOutput, Value] = {}
        for step in range(steps):
            values = {}
            for segment in self.partition.segments:
                received = {name: values[given] for name, given in segment.reads.items()}
                programs = self._workers[segment.worker]
                outputs = programs.run(segment.number, received, self.draw + step)
                for number, value in enumerate(outputs):
                    values[SegmentOutput(segment.number, number)] = value
        return [values[given] for given in self.partition.outputs]

    def _sweep(self, rows: ValueLists) -> list[list[Value]]:
        first, found = self.draw, list[list[Value]]()
        for number in range(rows.total):
            self._assign(self._values_of(rows.row(number)))
            self.draw = first + number
            found.append(self._advance(1))
        self.draw = first
        return found


def names_of(partition: Partition, worker: int) -> frozenset[str]:
    """The names of the variables that a worker has."""
    own = [s.variables for s in partition.segments if s.worker == worker]
    return frozenset([name for names in own for name in names])
