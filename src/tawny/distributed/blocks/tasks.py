"""What computes a block, on any thread of any process: a program over pieces of arrays."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, NamedTuple, final

import numpy as np

import tawny
from tawny.distributed.clients import check_version
from tawny.distributed.payloads import ProgramFile, as_aligned
from tawny.distributed.programs import WorkerFacts, compile_within, worker_facts
from tawny.dtype import DType
from tawny.engine.cpu.threads.pool import default_threads
from tawny.engine.reference.memory import HostMemory
from tawny.forking import fork_safe_lock
from tawny.graph.files import from_bytes
from tawny.graph.program import Program
from tawny.node import Value
from tawny.shape import Shape
from tawny.tree import items_of

MOST_PROGRAMS: Final = 64
"""Programs of blocks that a process keeps; what they compute in is allocated for each run."""

MOST_IDLE: Final = 2
"""Programs that keep what they compute in, for each thread that computes blocks."""

OWN_SHARE: Final = 0.5
"""The part of a program's memory from which on results are given with it, and not copied."""


class BlockOperand(NamedTuple):
    """An array that a program reads, of one block as it is, or put together of several."""

    shape: Shape
    dtype: DType
    pieces: tuple[tuple[slice, ...], ...] | None
    """Where each block lies in it; None if it is one block."""

    @property
    def block_count(self) -> int:
        """How many blocks it is made of."""
        return 1 if self.pieces is None else len(self.pieces)

    def assemble(self, blocks: Sequence[Any]) -> Value:
        """The array, as programs read it."""
        if self.pieces is None:
            return self._check_shape(blocks[0])
        made = np.empty(self.shape, self.dtype)
        for where, block in zip(self.pieces, blocks, strict=True):
            made[where] = block
        return made

    def _check_shape(self, block: Any) -> Value:
        value = np.asarray(block)
        if value.shape != self.shape:
            raise ValueError(
                f"a block has shape {value.shape}; its dask array says {self.shape}: "
                "x.compute_chunk_sizes() finds out what they are"
            )
        return as_aligned(value.astype(self.dtype, copy=False))


class BlockCall(NamedTuple):
    """The arguments of a program of a block, beside the blocks."""

    op: str
    version: str
    """The version of Tawny that wrote it."""
    operands: tuple[BlockOperand, ...]
    numbers: tuple[int, ...]
    several: bool
    """Whether the program has several results."""


def run_block(file: ProgramFile, call: BlockCall, *blocks: Any) -> Any:
    """The results of a block."""
    check_writer(call.op, call.version)
    given = list(blocks)
    arrays: list[Value] = []
    for operand in call.operands:
        arrays.append(operand.assemble(given[: operand.block_count]))
        del given[: operand.block_count]
    arrays += [np.array(n, np.int64) for n in call.numbers]
    results = RUNNERS.run(file, arrays)
    return tuple(results) if call.several else results[0]


def check_writer(op: str, version: str) -> None:
    """Refuse tasks that another version of Tawny wrote."""
    if version != tawny.__version__:
        facts = current_worker()
        name = "here" if facts is None else facts.name
        check_version(tawny.__version__, version, name, op)


def take_part(block: Any, where: tuple[slice, ...]) -> Any:
    """A part of a block, in memory of its own if the block is much larger."""
    part = block[where]
    return part.copy() if 2 * part.nbytes < block.nbytes else part


def pick(results: tuple[Any, ...], index: int) -> Any:
    """One of several results."""
    return results[index]


class MergeCall(NamedTuple):
    """The arguments of a task that merges parts, beside these."""

    op: str
    version: str
    which: range | None
    """Which of the results of a block they are; None if they are all of it."""
    several: bool


def merge_parts(file: ProgramFile, call: MergeCall, *members: Any) -> Any:
    """Parts of several blocks as one."""
    check_writer(call.op, call.version)
    arrays: list[Value] = []
    for member in members:
        if call.which is not None:
            arrays += [member[k] for k in call.which]
        else:
            arrays += items_of(member)
    results = RUNNERS.run(file, [as_aligned(a) for a in arrays])
    return tuple(results) if call.several else results[0]


# ----------------------------------------------------------------------- programs


@final
class Runner:
    """A program of blocks, compiled once; each run has memory of its own."""

    def __init__(self, file: ProgramFile, threads: int, facts: WorkerFacts | None) -> None:
        graph = from_bytes(file.data.tobytes(), file.label)
        if facts is None:
            options = file.options._replace(threads=threads)
            self._first = graph.compile(**options._asdict())
        else:
            room = None if facts.memory is None else facts.memory - facts.taken
            self._first = compile_within(graph, file, facts, room, threads)
        self._making = fork_safe_lock()

    def program(self, team: int) -> Program:
        """The program with memory that nobody else uses, run by a team of threads."""
        with self._making:
            return self._first._twin(team)  # pyright: ignore[reportPrivateUsage]


@final
class Runners:
    """The programs of blocks in this process, and what some of them compute in."""

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._preparing: dict[tuple[str, int], Lock] = {}
        self._runners: OrderedDict[tuple[str, int], Runner] = OrderedDict()
        self._idle: OrderedDict[int, tuple[tuple[str, int], int, Program]] = OrderedDict()
        self._teams: set[int] = set()

    def run(self, file: ProgramFile, arrays: Sequence[Value]) -> list[Value]:
        """The results of a program for these arrays."""
        facts = current_worker()
        threads = threads_here(facts)
        key = file.digest, threads
        with self._team() as team:
            program = self._take(key, team) or self._runner(key, file, facts).program(team)
            run_in(program, arrays)
            results, is_given = take_results(program)
            if not is_given:
                self._keep(key, team, program)
            return results

    @contextmanager
    def _team(self) -> Generator[int]:
        """The number of a team of threads that nobody else uses meanwhile."""
        with self._lock:
            team = next(k for k in range(len(self._teams) + 1) if k not in self._teams)
            self._teams.add(team)
        try:
            yield team
        finally:
            with self._lock:
                self._teams.discard(team)

    def _runner(self, key: tuple[str, int], file: ProgramFile, facts: WorkerFacts | None) -> Runner:
        """The program of a file; of several tasks that ask for it one compiles it, others wait."""
        with self._lock:
            known = self._runners.get(key)
            preparing = self._preparing.setdefault(key, fork_safe_lock())
        if known is not None:
            return known
        with preparing:
            with self._lock:
                known = self._runners.get(key)
            made = known or Runner(file, key[1], facts)
            with self._lock:
                self._runners[key] = made
                self._preparing.pop(key, None)
                while len(self._runners) > MOST_PROGRAMS:
                    self._runners.popitem(last=False)
            return made

    def _take(self, key: tuple[str, int], team: int) -> Program | None:
        """A program of this team that has memory already."""
        with self._lock:
            for number, (own, of, program) in reversed(self._idle.items()):
                if own == key and of == team:
                    del self._idle[number]
                    return program
            return None

    def _keep(self, key: tuple[str, int], team: int, program: Program) -> None:
        """Let a program keep its memory for the next block; the oldest others give up theirs."""
        with self._lock:
            self._idle[id(program)] = key, team, program
            most = MOST_IDLE * max(1, len(self._teams))
            while len(self._idle) > most:
                self._idle.popitem(last=False)


RUNNERS: Final = Runners()


def run_in(program: Program, arrays: Sequence[Value]) -> None:
    """Run a program over arrays where they lie."""
    program._run_in(list(enumerate(arrays)))  # pyright: ignore[reportPrivateUsage]


def take_results(program: Program) -> tuple[list[Value], bool]:
    """The results of the last run, and whether they are the program's memory, given away."""
    executable = program._compiled.executable  # pyright: ignore[reportPrivateUsage]
    nodes = program._results  # pyright: ignore[reportPrivateUsage]
    if isinstance(executable, HostMemory):
        values = [executable.value(node) for node in nodes]
        if sum([v.nbytes for v in values]) >= OWN_SHARE * executable.arena.nbytes:
            return values, True
        copies = [value.copy() for value in values]
        del values
        executable.forget_bound()
        return copies, False
    return list(executable.read(nodes)), False


# ------------------------------------------------------------------ where it runs


def current_worker() -> WorkerFacts | None:
    """The worker of Dask that runs this task; None if it is one of a scheduler in this process."""
    if "distributed" not in sys.modules:
        return None
    try:
        return worker_facts()
    except ValueError:  # Dask's own: there is no worker
        return None


def threads_here(facts: WorkerFacts | None) -> int:
    """How many threads a block may use: its share of the worker's, or of this process's.

    Dask's threads compute blocks side by side, so each has one; the main thread has all.
    """
    if facts is not None:
        return max(1, facts.threads // max(1, facts.tasks))
    return default_threads() if threading.current_thread() is threading.main_thread() else 1
