"""Stacks of products: where each has its operands, and how they are cut into tasks for workers.

Tasks are cut so that no worker has much more to do than others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from typing import Final, NamedTuple

from tawny.engine.llvm.ir.builder import I64, Function, Value

READ: Final = 6
"""Reading new columns costs a worker as much as multiplying this many rows."""

PACK: Final = 12
"""Packing new columns costs it as much as multiplying this many rows, in addition."""

ROW: Final = 0.05
"""The time of reading a row, as a part of that of multiplying it with a block of columns."""

TASK: Final = 1
"""What beginning a task costs, in products of a row and a block of columns."""

FEW: Final = 8
"""The most chunks, and parts, of which every number is tried."""


def ceil_divide(number: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-number // divisor)


class Extents(NamedTuple):
    """The work to share out: a stack of products of some rows and some blocks of columns."""

    stack: int
    rows: int
    tiles: int
    """Rows are cut between tiles only."""
    blocks: int
    rest: float
    """How wide the last block is, which is narrower than others; 0 if there is none."""


class Tasks(NamedTuple):
    """Columns in chunks of some blocks, rows in some parts: a task is one part of one chunk."""

    chunk_blocks: int
    parts: int


def tasks_of(extents: Extents, workers: int, most_blocks: int, packed: bool) -> Tasks:
    """The tasks that take the least time; each worker takes some that follow each other."""
    if workers == 1 or not extents.stack:
        return Tasks(max(min(extents.blocks, most_blocks), 1), 1)
    return _best(extents, workers, min(most_blocks, max(extents.blocks, 1)), packed)


@lru_cache(4096)
def _best(extents: Extents, workers: int, most_blocks: int, packed: bool) -> Tasks:
    start = READ + PACK * packed

    def seconds(tasks: Tasks) -> tuple[float, int]:
        taken = _longest(extents, workers, tasks, start)
        return taken, ceil_divide(extents.blocks, tasks.chunk_blocks) * tasks.parts

    return min(_candidates(extents, workers, most_blocks), key=seconds)


def _candidates(extents: Extents, workers: int, most_blocks: int) -> Iterator[Tasks]:
    counts = [*range(1, FEW + 1), *[n * workers for n in (1, 2) if n * workers > FEW]]
    chunks = {min(max(ceil_divide(extents.blocks, n), 1), most_blocks) for n in counts}
    parts = [n for n in counts if n <= min(extents.tiles, 2 * workers)]
    for pair in product(sorted(chunks, reverse=True), parts):
        yield Tasks(*pair)


def _longest(extents: Extents, workers: int, tasks: Tasks, start: int) -> float:
    """How long the worker takes that has most to do, in products of a row and a block."""
    stack, rows, _, blocks, rest = extents
    chunk_blocks, parts = tasks
    chunks = max(ceil_divide(blocks, chunk_blocks), 1)
    widths = [float(chunk_blocks)] * chunks
    widths[-1] = blocks - (chunks - 1) * chunk_blocks + rest
    until = [0.0, *accumulate(widths)]
    each = rows / parts

    def before(chunk: int) -> float:
        """The width of all chunks before one."""
        number, place = divmod(chunk, chunks)
        return number * until[-1] + until[place]

    def done(task: int) -> float:
        """The time of all tasks before one."""
        chunk, part = divmod(task, parts)
        width = widths[chunk % chunks]
        return each * (parts * before(chunk) + part * width + ROW * task) + TASK * task

    total, longest = stack * chunks * parts, 0.0
    for worker in range(workers):
        first, last = (total * w // workers for w in (worker, worker + 1))
        if first < last:
            first_sums = before((last - 1) // parts + 1) - before(first // parts)
            longest = max(longest, done(last) - done(first) + start * first_sums)
    return longest


# --------------------------------------------------------------- in compiled code


class Axis(NamedTuple):
    """An axis of a stack: its size, and bytes from one product to the next in each array."""

    size: int
    a: int
    b: int
    c: int
    residual: int
    bias: int = 0


@dataclass(frozen=True, slots=True)
class Offsets:
    """Bytes to the operands of one product of a stack."""

    a: Value
    b: Value
    c: Value
    residual: Value
    bias: Value


def stack_size(f: Function, stack: Value, axes: Value) -> Value:
    """How many products a stack has; its axes are cells in memory."""
    with f.loop(0, axes, carried=[f.constant(I64, 1)]) as loop:
        axis = f.element(stack, loop.index * len(Axis._fields), I64)
        loop.carry(loop.carried[0] * f.cell(axis, 0))
    return loop.carried[0]


def offsets_of(f: Function, stack: Value, axes: Value, place: Value) -> Offsets:
    """Where the product with number `place` has its operands."""
    zeros = [f.constant(I64, 0)] * (len(Axis._fields) - 1)
    with f.loop(0, axes, carried=[place, *zeros]) as loop:
        rest, *offsets = loop.carried
        axis = f.element(stack, (axes - 1 - loop.index) * len(Axis._fields), I64)
        size = f.cell(axis, 0)
        index = rest % size
        moved = [o + index * f.cell(axis, i) for i, o in enumerate(offsets, 1)]
        loop.carry(rest // size, *moved)
    return Offsets(*loop.carried[1:])


def shares(f: Function, tasks: Value, worker: Value, workers: Value) -> tuple[Value, Value]:
    """A worker's tasks, from and to; none for a worker beyond the number of them."""
    first, last = (tasks * f.minimum(w, workers) // workers for w in (worker, worker + 1))
    return first, last
