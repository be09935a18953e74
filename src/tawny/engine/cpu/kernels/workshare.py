"""The work of a kernel that is shared by threads: a worker's part, and loops inside each other.

Threads share the work of a kernel from a size, its `SHARED_...`, that takes one thread some tens of
microseconds: to wake another takes about 10 (`benchmarks/cpu_small.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawny.engine.llvm.ir.builder import Function, Value

Body = Callable[[list[Value], list[Value]], Sequence[Value]]
"""Gives the values carried to the next round, from indices and the values carried to this one."""


def worker_share(count: Value, worker: Value, workers: Value) -> tuple[Value, Value]:
    """The part of `count` pieces of work that a worker does."""
    begin = (count * worker).unsigned_over(workers)
    end = (count * (worker + 1)).unsigned_over(workers)
    return begin, end


def grain_share(
    f: Function, total: Value, worker: Value, workers: Value, grain: int
) -> tuple[Value, Value]:
    """The elements of a worker, from the first up to and not including the second.

    They are multiples of `grain`, a power of two, but for the end.
    """

    def part() -> list[Value]:
        grains = (total + (grain - 1)).shifted_down(grain.bit_length() - 1)
        each = (grains + workers - 1).unsigned_over(workers) * grain
        low = f.minimum(worker * each, total)
        return [low, f.minimum(low + each, total)]

    low, high = f.either(workers.equals(1), lambda: [total.of(0), total], part)
    return low, high


class RowCells:
    """Reads a kernel's integer parameters one after the other, from a cell of its row on."""

    def __init__(self, f: Function, place: int) -> None:
        self._f, self.place = f, place

    def take(self, loops: int, length: int) -> list[list[Value]]:
        """The next integers, `length` for each of `loops` loops."""
        row, first = self._f.arguments[0], self.place
        self.place += loops * length
        return [
            [self._f.cell(row, first + r * length + c) for c in range(length)] for r in range(loops)
        ]


def nest(
    f: Function,
    ranges: Sequence[tuple[Value | int, Value]],
    carried: Sequence[Value],
    body: Body,
    indices: Sequence[Value] = (),
) -> list[Value]:
    """Loops inside each other; gives the carried values as the last round left them."""
    if not ranges:
        return list(body(list(indices), list(carried)))
    (begin, end), *inner = ranges
    with f.loop(begin, end, carried=carried) as loop:
        loop.carry(*nest(f, inner, loop.carried, body, [*indices, loop.index]))
    return loop.carried
