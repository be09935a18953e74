"""Rows of the kernel of loops: where values lie, and which cells of the body's rows take that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from tawny.engine.cpu.interpreter import interpreter_address
from tawny.engine.cpu.kernels.control import (
    CARRY_CELLS,
    CURRENT,
    HEADER,
    NEXT,
    PLACE,
    ROW,
    STREAM_CELLS,
)
from tawny.engine.cpu.loops import NativeLoop
from tawny.op import nbytes
from tawny.ops.loops import ScanLoop

P = TypeVar("P")


class CellOf(NamedTuple):
    """A cell of a body's rows that holds a place in a variable."""

    address: int
    shift: int
    """Bytes from where the variable begins."""


class BodyTable(Protocol):
    """What a loop asks of the table of its body."""

    stop: int

    def make_call(self) -> int: ...
    @property
    def draw_cells(self) -> Sequence[int]: ...
    def cells_of(self, variable: int) -> Sequence[CellOf]: ...


def loop_cells(
    op: ScanLoop,
    plan: NativeLoop,
    body: BodyTable,
    operands: Sequence[P],
    results: Sequence[P],
    room: int,
) -> list[int | P]:
    """The cells of a loop's row but for the last two: the number of the run, whether it failed.

    `operands` and `results` are their places; `room` is the address of the scratch memory.
    """
    streams = [*range(op.carries, op.first_shared)]
    made = range(op.carries, len(results))
    types, result_types = op.operand_types(), op.body.result_types
    count = len(op.body.arguments)
    second = dict(zip(plan.second, plan.offsets[1 + len(plan.copied) :], strict=True))
    records: list[int | P] = []
    fixed: list[int] = []
    moving: list[int] = []

    def link(to: list[int], variable: int, cell: int) -> None:
        for target in body.cells_of(variable):
            to.extend([target.address, cell, target.shift])

    for c in range(op.carries):
        cell = HEADER + c * CARRY_CELLS
        other: int | P = room + second[c] if c in second else results[c]
        records += [operands[c], results[c], other, nbytes(types[c]), 0, 0]
        links = moving if c in second else fixed
        link(links, 1 + c, cell + CURRENT)
        link(links, count + c, cell + NEXT)
    first = HEADER + op.carries * CARRY_CELLS
    stacked = [(operands[i], 1 + i, nbytes(op.body.types[1 + i])) for i in streams]
    stacked += [(results[i], count + i, nbytes(result_types[i])) for i in made]
    for number, (base, variable, stride) in enumerate(stacked):
        records += [base, stride, 0]
        link(moving, variable, first + number * STREAM_CELLS + ROW)
    first += len(stacked) * STREAM_CELLS
    shared = range(op.first_shared, len(operands))
    for number, i in enumerate(shared):
        records.append(operands[i])
        link(fixed, 1 + i, first + number)
    place = room + plan.offsets[0]
    link(fixed, 0, PLACE)
    draws = body.draw_cells
    counts = [op.carries, len(stacked), len(shared), len(fixed) // 3, len(moving) // 3, len(draws)]
    whole = HEADER + len(records) + len(fixed) + len(moving) + len(draws)
    head = [
        interpreter_address(),
        body.make_call(),
        body.stop,
        op.length,
        int(op.reverse),
        place,
        *counts,
    ]
    return [*head, whole + 1, *records, *fixed, *moving, *draws]
