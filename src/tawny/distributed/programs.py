"""Programs of a worker: each compiled once in a process, with a copy for each task it runs."""

from __future__ import annotations

import gc
import queue
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, NamedTuple, final

import tawny
from tawny.distributed.clients import check_version
from tawny.distributed.dask import distributed
from tawny.distributed.payloads import (
    CommonValues,
    MemoryRefusal,
    ProgramFile,
    Reply,
    Request,
    as_aligned,
    stack,
)
from tawny.engine.protocol import engine_named
from tawny.forking import fork_safe_lock
from tawny.graph.files import from_bytes
from tawny.graph.graph import Graph
from tawny.graph.memory_limits import MemoryLimit, memory_limit
from tawny.graph.program import Program
from tawny.graph.throughput import ProgramCopy
from tawny.node import Value
from tawny.settings import read_setting
from tawny.shape import size
from tawny.tree import leaves

MOST_PROGRAMS: Final = 8
"""Programs that a worker keeps."""

PROGRAM_SHARE: Final = 0.25
"""The part of a worker's memory that programs may take which are kept for further use."""


class WorkerFacts(NamedTuple):
    """The process that runs a task."""

    name: str
    """What errors call it."""
    tasks: int
    """How many tasks it runs at the same time."""
    threads: int
    """How many threads these have together."""
    memory: int | None
    """Bytes from which on it is given no further task; None without a limit."""
    taken: int
    """Bytes that it takes now."""


def worker_facts() -> WorkerFacts:
    """What is known of the worker that runs this task."""
    worker = distributed.get_worker()
    manager, tasks = worker.memory_manager, worker.state.nthreads
    named = read_setting("TAWNY_THREADS")
    limit = manager.memory_limit
    pause = manager.memory_pause_fraction
    return WorkerFacts(
        f"{worker.name} at {worker.address}",
        tasks,
        int(named) if named.isdecimal() and int(named) else tasks,
        int(limit * (pause or 1.0)) if limit else None,
        worker.monitor.get_process_memory(),
    )


@final
class WorkerProgram:
    """A program with its copies; they are made as they are needed, as many as memory allows."""

    def __init__(self) -> None:
        self.preparing = fork_safe_lock()
        self._idle: queue.SimpleQueue[ProgramCopy] = queue.SimpleQueue()
        self._first: Program | None = None
        self._made = self._most = 0
        self._copy_bytes = 0
        self._common: tuple[str, dict[str, Value]] = "", {}
        """The values that runs shared last, where programs can read them, and their digest."""

    @property
    def is_ready(self) -> bool:
        """Whether it is compiled."""
        return self._first is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the copies that were made."""
        return self._made * self._copy_bytes

    def prepare(self, file: ProgramFile, facts: WorkerFacts) -> None:
        """Compile the graph, for as many copies as there are tasks if memory allows that."""
        graph = from_bytes(file.data.tobytes(), file.label)
        room = None if facts.memory is None else facts.memory - facts.taken
        copies = min(facts.tasks, facts.threads)
        if engine_named(file.options.engine).device() is not None:
            copies = 1
        while True:
            program = compile_within(graph, file, facts, room, facts.threads // copies)
            self._copy_bytes = program.plan.peak_bytes + _variable_bytes(graph)
            fitting = copies if room is None else max(1, room // max(1, self._copy_bytes))
            if fitting >= copies:
                break
            copies = fitting
        self._first, self._made, self._most = program, 1, copies
        self._idle.put(ProgramCopy(program))

    def shared_values(self, common: CommonValues) -> dict[str, Value]:
        """The values where programs can read them: what a worker receives may lie at any byte."""
        with self.preparing:
            digest, values = self._common
            if digest != common.digest:
                values = {name: as_aligned(value) for name, value in common.values.items()}
                self._common = common.digest, values
            return values

    @contextmanager
    def borrow(self) -> Generator[ProgramCopy]:
        """A copy that nobody else has within the block; a new one if all are in use."""
        copy = self._take()
        try:
            yield copy
        finally:
            self._idle.put(copy)

    def _take(self) -> ProgramCopy:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            with self.preparing:
                if self._made < self._most:
                    assert self._first is not None
                    twin = self._first._twin(self._made)  # pyright: ignore[reportPrivateUsage]
                    self._made += 1
                    return ProgramCopy(twin)
        return self._idle.get()


def compile_within(
    graph: Graph, file: ProgramFile, facts: WorkerFacts, room: int | None, threads: int
) -> Program:
    """The program of a file's graph, which takes no more than `room` bytes of a worker."""
    limit = (
        None if room is None else MemoryLimit(room - _variable_bytes(graph), f"worker {facts.name}")
    )
    with memory_limit(limit):
        return graph.compile(**file.options._replace(threads=max(1, threads))._asdict())


def _variable_bytes(graph: Graph) -> int:
    return sum([size(v.shape) * int(v.dtype.itemsize) for v in graph.variables])


@final
class ProgramCache:
    """The programs of this process by their digests, the one used last at the end."""

    def __init__(self) -> None:
        self._programs: OrderedDict[str, WorkerProgram] = OrderedDict()
        self._lock = fork_safe_lock()

    def program_for(self, file: ProgramFile, facts: WorkerFacts) -> WorkerProgram:
        """The program of a file; of several tasks that ask for it one compiles it, others wait."""
        with self._lock:
            program = self._programs.setdefault(file.digest, WorkerProgram())
            self._programs.move_to_end(file.digest)
        with program.preparing:
            if not program.is_ready:
                self._prepare(program, file, facts)
        return program

    def _prepare(self, program: WorkerProgram, file: ProgramFile, facts: WorkerFacts) -> None:
        """Compile a program, in the memory of others where it needs that."""
        self._trim(facts)
        try:
            try:
                program.prepare(file, facts)
            except MemoryError:
                if not self._drop_others(file.digest):
                    raise
                program.prepare(file, worker_facts())
        except BaseException:
            with self._lock:
                self._programs.pop(file.digest, None)
            raise

    def _trim(self, facts: WorkerFacts) -> None:
        """Forget programs, those used last at the end, until the others are within bounds."""
        most = None if facts.memory is None else PROGRAM_SHARE * facts.memory
        with self._lock:
            kept = self._programs
            while len(kept) > 1 and (
                len(kept) > MOST_PROGRAMS
                or (most is not None and sum([p.nbytes for p in kept.values()]) > most)
            ):
                kept.popitem(last=False)

    def _drop_others(self, digest: str) -> bool:
        """Forget all programs but one; whether there were any."""
        with self._lock:
            others = [key for key in self._programs if key != digest]
            for key in others:
                del self._programs[key]
        gc.collect()
        return bool(others)


PROGRAMS: Final = ProgramCache()


# --------------------------------------------------------------------------- tasks


def run_rows(file: ProgramFile, common: CommonValues, request: Request) -> Reply | MemoryRefusal:
    """Make some runs of a program, one after the other."""
    facts = worker_facts()
    check_version(tawny.__version__, request.version, facts.name, request.op)
    try:
        program = PROGRAMS.program_for(file, facts)
    except MemoryError as error:
        return MemoryRefusal(str(error))
    start = perf_counter()
    shared = program.shared_values(common)
    found: list[list[Value]] = []
    with program.borrow() as copy:
        copy.adopt(shared)
        for number in range(request.runs):
            values = {name: column[number, ...] for name, column in request.columns.items()}
            found.append(leaves(copy.run(values, request.draw + number)))
    seconds = perf_counter() - start
    return Reply([stack(list(column)) for column in zip(*found, strict=True)], seconds)
