"""The roof of a machine: what it does at best, measured once in a process for each engine."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import exp, log
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tawny import numpy as tnp
from tawny.dtype import FLOAT32, FLOAT64, DType
from tawny.engine.protocol import engine_named
from tawny.graph.graph import Graph
from tawny.graph.profile.recording import pause
from tawny.graph.profile.work import Work
from tawny.ops.creation import var
from tawny.progress import progress

if TYPE_CHECKING:
    from tawny.graph.program import Program

PRODUCT: Final = 512
"""Rows and columns of the matrices whose product says how many operations a second there are."""

WORKING_SETS: Final = (2**17, 2**21, 2**26)
"""Bytes that are moved to see how fast: in a core's cache, in the shared one, and in neither."""

FUNCTIONS: Final = 2**15
"""Elements of which exponentials are taken."""

CHAIN: Final = 32
"""Steps of almost no work, which say what starting one costs."""

MEASURE_SECONDS: Final = 0.06
"""What each measurement takes."""

LEAST_PIECES: Final = 8
"""How often something is timed at least."""

MORE_SECONDS: Final = 0.2
"""What that may take beyond."""

PIECE_SECONDS: Final = 1e-3
"""What is timed at once: short enough to fall between what else a busy machine does."""


class Bandwidth(NamedTuple):
    """The bytes a second that move within a working set."""

    nbytes: int
    per_second: float


@dataclass(frozen=True)
class Roof:
    """The roof of a machine: what it does at best, by an engine on a number of threads."""

    engine: str
    threads: int
    flops32: float
    """Operations a second on float32 numbers: multiply-adds, or a product where those cannot be
    measured alone."""
    flops64: float
    """Operations a second on float64 numbers."""
    functions32: float
    """Exponentials a second of float32 numbers."""
    functions64: float
    """Exponentials a second of float64 numbers."""
    bandwidths: tuple[Bandwidth, ...]
    """Bytes read and written a second, by the size of the working set."""
    step_seconds: float
    """What a step takes that has next to nothing to do."""

    def flops(self, itemsize: int) -> float:
        """Operations a second on numbers of some bytes."""
        return self.flops64 if itemsize >= FLOAT64.itemsize else self.flops32

    def functions(self, itemsize: int) -> float:
        """Exponentials a second of numbers of some bytes."""
        return self.functions64 if itemsize >= FLOAT64.itemsize else self.functions32

    def bandwidth(self, nbytes: int) -> float:
        """Bytes a second that move in a working set: between two that were measured, in between."""
        low = self.bandwidths[0]
        if nbytes <= low.nbytes:
            return low.per_second
        for high in self.bandwidths[1:]:
            if nbytes <= high.nbytes:
                part = log(nbytes / low.nbytes) / log(high.nbytes / low.nbytes)
                return exp((1 - part) * log(low.per_second) + part * log(high.per_second))
            low = high
        return low.per_second

    def compute_seconds(self, work: Work) -> float:
        """The least time in which this work can be computed."""
        size = work.itemsize
        return work.products / self.flops(size) + work.functions / self.functions(size)

    def memory_seconds(self, work: Work) -> float:
        """The least time in which the bytes can be moved."""
        return work.bytes / self.bandwidth(work.working_set)

    def seconds(self, work: Work) -> float:
        """The least time that some work can take."""
        return max(self.compute_seconds(work), self.memory_seconds(work))

    def bound(self, work: Work) -> str:
        """What holds some work back: `compute`, `memory`, or `start` where there is hardly any."""
        if self.seconds(work) < self.step_seconds:
            return "start"
        return "compute" if self.compute_seconds(work) > self.memory_seconds(work) else "memory"

    def __str__(self) -> str:
        moved = ", ".join(
            f"{b.per_second / 1e9:.3g} GB/s in {b.nbytes / 2**20:.3g} MiB" for b in self.bandwidths
        )
        return (
            f"roof of {self.engine} on {self.threads} thread{'s' * (self.threads > 1)}: "
            f"{self.flops32 / 1e9:.3g} GFLOP/s float32, {self.flops64 / 1e9:.3g} float64; {moved}"
        )


_KNOWN: Final[dict[tuple[str, int], Roof]] = {}


def roof_of(engine: str, threads: int) -> Roof:
    """The roof of an engine on a number of threads, measured when it is first asked for."""
    key = engine, threads
    if key not in _KNOWN:
        with warnings.catch_warnings(), pause(), progress("measuring the machine"):
            warnings.simplefilter("ignore")
            _KNOWN[key] = _measure(engine, threads)
    return _KNOWN[key]


def _measure(engine: str, threads: int) -> Roof:
    def flops(dtype: DType) -> float:
        return 2 * PRODUCT**3 / _time(_product(dtype, engine, threads))

    def functions(dtype: DType) -> float:
        return FUNCTIONS / _time(_exponentials(dtype, engine, threads))

    rates = engine_named(engine).rates(threads)
    moved = tuple(
        Bandwidth(size, 2 * size / _time(_addition(size, engine, threads))) for size in WORKING_SETS
    )
    return Roof(
        engine,
        threads,
        flops(FLOAT32) if rates is None else rates.flops32,
        flops(FLOAT64) if rates is None else rates.flops64,
        functions(FLOAT32),
        functions(FLOAT64),
        moved,
        _time(_chain(engine, threads)) / CHAIN,
    )


def _product(dtype: DType, engine: str, threads: int) -> Program:
    x, y = var("x", (PRODUCT, PRODUCT), dtype), var("y", (PRODUCT, PRODUCT), dtype)
    program = Graph([x, y], x @ y).compile(engine=engine, threads=threads, incremental=False)
    program.set(x=np.ones(x.shape, dtype), y=np.ones(y.shape, dtype))
    return program


def _exponentials(dtype: DType, engine: str, threads: int) -> Program:
    x = var("x", (FUNCTIONS,), dtype)
    program = Graph([], updates={x: tnp.exp(-x)}).compile(engine=engine, threads=threads)
    program.set(x=np.ones(x.shape, dtype))
    return program


def _addition(size: int, engine: str, threads: int) -> Program:
    """Reads a working set and writes it."""
    x = var("x", (size // FLOAT32.itemsize,), FLOAT32)
    program = Graph([], updates={x: x + 1}).compile(engine=engine, threads=threads)
    program.set(x=np.zeros(x.shape, x.dtype))
    return program


def _chain(engine: str, threads: int) -> Program:
    x = var("x", (2, 4), FLOAT32)
    y = x
    for step in range(CHAIN):
        y = tnp.cumulative_sum(y, axis=step % 2)
    program = Graph([], updates={x: y}).compile(engine=engine, threads=threads)
    program.set(x=np.zeros(x.shape, x.dtype))
    return program


def _time(program: Program) -> float:
    """The time of one run: the least of a few measurements."""
    program.run(views=True)
    start = perf_counter()
    program.run(views=True)
    once = max(perf_counter() - start, 1e-7)
    many = max(1, int(PIECE_SECONDS / once))
    pieces, end = [once], start + MEASURE_SECONDS
    while (now := perf_counter()) < end or (
        len(pieces) < LEAST_PIECES and now < end + MORE_SECONDS
    ):
        start = perf_counter()
        program.run(many, views=True)
        pieces.append((perf_counter() - start) / many)
    return min(pieces)
