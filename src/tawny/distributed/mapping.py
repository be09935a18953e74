"""Runs of one graph on the workers of a cluster: sweeps, ensembles, batches of inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, Final, NamedTuple, final, overload

import tawny
from tawny.distributed.clients import as_client, killed_workers, submit, workers_of
from tawny.distributed.dask import Client, Future, distributed, ending_tasks
from tawny.distributed.payloads import (
    MemoryRefusal,
    Reply,
    Request,
    common_values,
    send_program,
    send_values,
    stack,
    unstack,
)
from tawny.distributed.programs import run_rows
from tawny.errors import list_some, type_error, value_error, with_location
from tawny.graph.graph import Graph
from tawny.graph.options import CompileOptions
from tawny.graph.program import Program
from tawny.graph.values import ValueLists, as_rows, variable_value
from tawny.node import Value
from tawny.progress import LongWork, progress
from tawny.shape import size

TASK_SECONDS: Final = 0.15
"""How long a task is to take, by joining short runs: what Dask does for one takes about 1 ms."""

TASK_BYTES: Final = 2**26
"""Bytes of the values and outputs of several runs in one task, at most."""

WAITING: Final = 3
"""Tasks that a client has under way for each that the workers run at a time."""

ASKING_SECONDS: Final = 1.0
"""How often the client asks which workers there are."""

MOST_TRIES: Final = 3
"""How often a task is begun that the scheduler loses."""

_numbers: Final = count()
"""Numbers that tell the tasks of one call from those of another."""


class MappingJob(NamedTuple):
    """A graph, its runs, and the cluster that makes them."""

    client: Client
    graph: Graph
    options: CompileOptions
    common: Mapping[str, Value]
    """Values of the variables that all runs share."""
    lists: ValueLists
    draw: int
    """The number of the first run."""
    op: str

    @property
    def label(self) -> str:
        """What errors and the dashboard call it."""
        return f"{self.op} {self.graph.name}" if self.graph.name else self.op

    def check(self) -> None:
        """Refuse what cannot be run before anything is sent."""
        graph, lists = self.graph, self.lists
        if graph.update_nodes:
            name = graph.names[graph.update_nodes[0][0]]
            raise value_error(
                self.op,
                f"updates change {name!r}, so each run depends on the one before it; on a cluster "
                "runs are made apart: take state as an input and give it as an output",
            )
        nodes = {name: graph.variable(name, self.op) for name in lists.names}
        missing = [n for n in graph.names.values() if n not in nodes and n not in self.common]
        if missing:
            listed = list_some([repr(name) for name in missing])
            raise value_error(self.op, f"variables have no value yet: {listed}")
        for (name, node), column in zip(nodes.items(), lists.columns, strict=True):
            for value in column:
                variable_value(node, name, value)

    def request(self, first: int, stop: int) -> Request:
        """The runs from `first` on, up to `stop`."""
        columns: dict[str, Value] = {}
        for name, column in zip(self.lists.names, self.lists.columns, strict=True):
            node = self.graph.variable(name, self.op)
            columns[name] = stack([variable_value(node, name, x) for x in column[first:stop]])
        return Request(self.op, tawny.__version__, columns, stop - first, self.draw + first)

    def run_bytes(self) -> int:
        """Bytes that travel for a run."""
        swept = [self.graph.variable(name, self.op) for name in self.lists.names]
        moved = (*swept, *self.graph.output_nodes)
        return sum([size(node.shape) * int(node.dtype.itemsize) for node in moved])


class Chunk(NamedTuple):
    """Runs that one task makes."""

    first: int
    stop: int
    tries: int = 1

    def __str__(self) -> str:
        last = self.stop - 1
        return f"run {self.first}" if last == self.first else f"runs {self.first} to {last}"


@final
class Results(Sequence[Any]):
    """The outputs of many runs, in order; each can be had as soon as its task has ended.

    It is a sequence: asking for a result waits until that is there.  Only some tasks are under way
    at a time; more begin while somebody waits for results.
    """

    def __init__(self, job: MappingJob) -> None:
        job.check()
        self._job = job
        self._name = f"{job.label}-{next(_numbers)}-{id(self)}"
        self._common = common_values(job.common)
        self._found: list[Any] = [None] * job.lists.total
        self._is_there = bytearray(job.lists.total)
        self._ready: list[int] = []
        """Positions of what is there, in the order in which it came."""
        self._next = self._slots = 0
        self._asked = -math.inf
        self._run_seconds: float | None = None
        self._most = max(1, TASK_BYTES // max(1, job.run_bytes()))
        self._failure: Exception | None = None
        """Why no further results come."""
        self._under_way: dict[str, Chunk] = {}
        self._ending = ending_tasks()
        self._begin_tasks()

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        positions = range(len(self._found))[index]
        if isinstance(positions, range):
            return [self[k] for k in positions]
        self._wait(lambda: bool(self._is_there[positions]))
        return self._found[positions]

    def __iter__(self) -> Iterator[Any]:
        for position in range(len(self._found)):
            yield self[position]

    def as_ready(self) -> Iterator[tuple[int, Any]]:
        """Each position with its outputs, in the order in which they become ready."""
        for number in range(len(self._found)):
            self._wait(partial(self._has, number + 1))
            position = self._ready[number]
            yield position, self._found[position]

    def _has(self, count: int) -> bool:
        """Whether as many results are there."""
        return len(self._ready) >= count

    def __repr__(self) -> str:
        return f"<Results of {self._job.label}: {len(self._ready)} of {len(self._found)} runs>"

    # ------------------------------------------------------------------- waiting

    def _wait(self, is_there: Callable[[], bool]) -> None:
        if is_there():
            return
        if self._failure is not None:
            raise self._failure
        try:
            with progress(self._job.label) as work:
                while not is_there():
                    self._advance(work)
        except Exception as error:
            self._failure = error
            self._under_way.clear()
            self._ending.clear()
            raise

    def _advance(self, work: LongWork) -> None:
        """Wait until a task ends, take what it gives, and begin others."""
        work.now(f"{len(self._ready)} of {len(self._found)} on {self._slots} threads of workers")
        finished: list[tuple[Chunk, Future]] = []
        for future in self._ending.next_batch(block=True):
            chunk = self._under_way.pop(future.key)
            if future.status == "finished":
                finished.append((chunk, future))
            elif future.status == "error":
                self._fail(chunk, future)
            else:
                self._begin_again(chunk)
        replies = self._job.client.gather([future for _, future in finished])
        for (chunk, _), reply in zip(finished, replies, strict=True):
            self._take(chunk, reply)
        self._begin_tasks()

    def _take(self, chunk: Chunk, reply: Reply | MemoryRefusal) -> None:
        if isinstance(reply, MemoryRefusal):
            raise MemoryError(with_location(f"{self._job.op}: {reply.reason}"))
        count = chunk.stop - chunk.first
        columns = [unstack(output) for output in reply.outputs]
        for number in range(count):
            outputs = self._job.graph.unflatten([column[number] for column in columns])
            self._found[chunk.first + number] = outputs
            self._is_there[chunk.first + number] = True
            self._ready.append(chunk.first + number)
        seconds, known = reply.seconds / count, self._run_seconds
        self._run_seconds = seconds if known is None else (known + seconds) / 2

    def _fail(self, chunk: Chunk, future: Future) -> None:
        """Say why runs have no result."""
        op, error = self._job.op, future.exception()
        assert error is not None
        if isinstance(error, distributed.KilledWorker):
            raise RuntimeError(with_location(f"{op}: {chunk} ended {killed_workers(error)}"))
        error.add_note(with_location(f"{op}: in {chunk} of {len(self._found)}, on a worker"))
        raise error

    # --------------------------------------------------------------------- tasks

    def _begin_tasks(self) -> None:
        """Begin tasks, enough for all workers to find one while the client is slow."""
        if self._next < len(self._found) and monotonic() - self._asked > ASKING_SECONDS:
            self._slots = sum(workers_of(self._job.client, self._job.op).values())
            self._asked = monotonic()
        most = WAITING * max(1, self._slots)
        while self._next < len(self._found) and len(self._under_way) < most:
            stop = self._next + self._chunk_length()
            self._begin(Chunk(self._next, stop))
            self._next = stop

    def _chunk_length(self) -> int:
        """How many runs the next task makes: as many as take a while, but not all that are left."""
        left = len(self._found) - self._next
        if not self._run_seconds:
            return 1
        wanted = min(int(TASK_SECONDS / self._run_seconds), self._most)
        return max(1, min(wanted, -(-left // (2 * max(1, self._slots)))))

    def _begin(self, chunk: Chunk) -> None:
        job = self._job
        given = (
            send_program(job.client, job.graph, job.options, job.op),
            send_values(job.client, self._common),
            job.request(chunk.first, chunk.stop),
        )
        key = f"{self._name}-{chunk.first}-{chunk.tries}"
        self._under_way[key] = chunk
        self._ending.add(submit(job.client, key, run_rows, *given))

    def _begin_again(self, chunk: Chunk) -> None:
        """Begin a task that the scheduler knows no more, as when the cluster was restarted."""
        client, op = self._job.client, self._job.op
        if client.status != "running" or chunk.tries >= MOST_TRIES:
            there = f"{len(self._ready)} of {len(self._found)} runs are there"
            raise ConnectionError(with_location(f"{op}: the scheduler was lost; {there}"))
        self._begin(chunk._replace(tries=chunk.tries + 1))


def sweep(program: Program, client: object, lists: ValueLists) -> list[Any]:
    """The outputs of a program's runs, made by the workers of a client."""
    common = {n: value for n, value in program.state.items() if n not in lists.names}
    asked = as_client(client, "sweep")
    job = MappingJob(asked, program.graph, program.options, common, lists, program.draw, "sweep")
    with progress("sweep"):
        return list(Results(job))


def map(  # the counterpart of Python's own
    graph: Graph,
    client: Client,
    common: Mapping[str, Any] | None = None,
    /,
    **lists: Sequence[Any],
) -> Results:
    """The outputs of a graph for each position of the lists, computed on a cluster.

    - `graph`: a graph without updates.
    - `client`: a `distributed.Client`, as `tw.cluster().get_client()` gives.
    - `common`: a dict of values, by name, that all runs share; what depends on them alone is
      computed once by each worker.
    - `lists`: lists of values by the name of their variable, all of one length.

    Gives `Results`, a sequence in the order of the lists: each result can be had as soon as it is
    there, and `as_ready()` gives them as they come.  The graph travels once, as a file; each worker
    compiles it once.  Raises RuntimeError for workers with another version of Tawny, MemoryError
    where the plan does not fit into a worker.

        def main():
            x, rate = tw.var("x", (3,)), tw.var("rate")
            graph = tw.Graph([x, rate], np.sum(np.exp(x)) * rate)
            with tw.cluster(2) as cluster, cluster.get_client() as client:
                for y in tw.map(graph, client, {"x": numpy.zeros(3)}, rate=[1.0, 2.0]):
                    print(float(y))                       # 3.0, then 6.0

        # if __name__ == "__main__": main()
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(graph).__name__
        way_out = "; a program has sweep(..., client=client)" * isinstance(graph, Program)
        raise type_error("map", f"graph is {kind}; accepted: a tw.Graph{way_out}")
    rows = as_rows(lists, "map")
    values = {
        name: variable_value(graph.variable(name, "map"), name, value)
        for name, value in (common or {}).items()
    }
    for name in values.keys() & lists.keys():
        raise type_error("map", f"variable {name!r} was given twice")
    asked = as_client(client, "map")
    return Results(MappingJob(asked, graph, CompileOptions(), values, rows, 0, "map"))
