"""Many requests at once: copies of a program that run side by side and share its weights."""

from __future__ import annotations

import queue
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, final

from tawny.engine.protocol import engine_named
from tawny.errors import type_error, value_error
from tawny.forking import fork_safe_lock
from tawny.graph.program import Program
from tawny.graph.values import as_rows
from tawny.node import Value
from tawny.progress import progress
from tawny.shape import as_int
from tawny.unique import Unique

MOST_COPIES: Final = 1024
"""More copies are refused: each has memory of its own."""


class ProgramCopy:
    """One of the programs; it forgets between requests what a request gave it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._common: Mapping[str, Value] = {}
        """The values of variables for requests that do not give them."""
        self._changed: set[str] = set()
        """Variables that have other values."""

    def adopt(self, common: Mapping[str, Value]) -> None:
        """Let variables lie in these arrays, unless requests give them values."""
        if common is not self._common:
            self._program.set(dict(common), bind=True)
            self._common, self._changed = common, set()

    def run(self, values: Mapping[str, Any], draw: int) -> Any:
        """The outputs for these values; `draw` decides the random numbers."""
        kept = {n: self._common[n] for n in self._changed - values.keys() if n in self._common}
        if kept:
            self._program.set(kept, bind=True)
        self._changed = set(values)
        self._program.draw = draw
        return self._program(**values)


@final
class Throughput(Unique):
    """Copies of a program that run side by side; `Program.throughput` makes them.

    It is called like the program, from any number of threads: a call takes a copy that is idle, or
    waits for one.  Inputs that a call does not give have the values they had in the program.

        x = tw.var("x", (3,))
        serving = tw.Graph([x], np.sum(x)).compile(threads=2).throughput()
        serving.copies, serving.threads               # -> (2, 1)
    """

    def __init__(self, programs: Sequence[Program], common: Mapping[str, Value], draw: int) -> None:
        self.graph = programs[0].graph
        self.copies = len(programs)
        """How many requests are computed at the same time."""
        self.threads = programs[0].plan.threads
        """The threads of each copy."""
        self.peak_bytes = sum([program.plan.peak_bytes for program in programs])
        """Bytes of what all copies compute; inputs and constants lie beside them."""
        self._draw, self._drawing = draw, fork_safe_lock()
        self._idle: queue.SimpleQueue[ProgramCopy] = queue.SimpleQueue()
        for copy in map(ProgramCopy, programs):
            copy.adopt(common)
            self._idle.put(copy)

    def __call__(self, /, *values: Any, **by_name: Any) -> Any:
        """The outputs for these inputs, as the program gives them.

        - `values`: of the inputs in the graph's order; fewer may be given.
        - `by_name`: values of inputs by name.

            x = tw.var("x", (3,))
            serving = tw.Graph([x], np.sum(x)).compile(threads=2).throughput()
            float(serving(numpy.ones(3)))                 # -> 3.0
        """
        names = [self.graph.names[n] for n in self.graph.input_nodes]
        if len(values) > len(names):
            raise type_error(
                "Throughput", f"{len(values)} values were given; there are {len(names)} inputs"
            )
        given = dict(zip(names, values, strict=False))
        for name in given.keys() & by_name.keys():
            raise type_error("Throughput", f"input {name!r} was given twice")
        given |= by_name
        with self._borrow() as copy:
            return copy.run(given, self._take_draws(1))

    def sweep(
        self, lists: Mapping[str, Sequence[Any]] | None = None, /, **by_name: Sequence[Any]
    ) -> list[Any]:
        """Outputs for each position of the lists, computed by all copies together.

        - `lists`, `by_name`: lists of values by the names of their variables, all of one length.

            x = tw.var("x", (3,))
            serving = tw.Graph([x], np.sum(x)).compile(threads=2).throughput()
            [float(y) for y in serving.sweep(x=numpy.eye(3))]   # -> [1.0, 1.0, 1.0]
        """
        rows = as_rows({**(lists or {}), **by_name}, "sweep")
        first = self._take_draws(rows.total)

        def run(number: int) -> Any:
            with self._borrow() as copy:
                return copy.run(rows.row(number), first + number)

        found: list[Any] = []
        with progress("sweep") as work, ThreadPoolExecutor(self.copies) as threads:
            try:
                for outputs in threads.map(run, range(rows.total)):
                    found.append(outputs)
                    work.now(f"{len(found)} of {rows.total}")
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return found

    @contextmanager
    def _borrow(self) -> Generator[ProgramCopy]:
        """A copy that nobody else has within the block."""
        copy = self._idle.get()
        try:
            yield copy
        finally:
            self._idle.put(copy)

    def _take_draws(self, count: int) -> int:
        """The number of the first of some runs, which nobody else draws numbers for."""
        with self._drawing:
            first = self._draw
            self._draw += count
            return first

    def __repr__(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"<Throughput of {self.graph!r}: {self.copies} copies of {threads} each>"


def make_throughput(program: Program, copies: int | None) -> Throughput:
    """Copies of a program, each with its share of the threads."""
    if program.graph.update_nodes:
        name = program.graph.names[program.graph.update_nodes[0][0]]
        raise value_error(
            "throughput",
            f"updates change {name!r}, so each run depends on the one before it; copies would "
            "part ways: take state as an input and give it as an output",
        )
    if engine_named(program.engine).device() is not None:
        raise value_error(
            "throughput", f"programs of engine {program.engine!r} run one after the other"
        )
    threads = program.plan.threads
    count = threads if copies is None else as_int(copies, "throughput", "copies")
    if not 1 <= count <= MOST_COPIES:
        raise value_error("throughput", f"copies is {count}; it must be from 1 to {MOST_COPIES}")
    own = max(1, threads // count)
    first = program
    if own != threads:
        first = program.graph.compile(**program.options._replace(threads=own)._asdict())
    programs = [first._twin(team) for team in range(count)]  # pyright: ignore[reportPrivateUsage]
    return Throughput(programs, program.state, program.draw)
