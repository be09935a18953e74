"""Rows of the kernel of loops: where values lie, and which cells of the body's rows take that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tawny.engine.body_plan import carry_results
from tawny.engine.cpu.interpreter import interpreter_address
from tawny.engine.cpu.kernels.control import (
    AT,
    BRANCH_CELLS,
    CARRY_CELLS,
    CURRENT,
    GOES_ON,
    HEADER,
    MOST_AT_ONCE,
    NEXT,
    PAUSED,
    PLACE,
    ROW,
    STREAM_CELLS,
    SWITCH_HEADER,
)
from tawny.engine.cpu.loops import ENDLESS, FLAG_OFFSET, NativeLoop
from tawny.op import nbytes
from tawny.ops.loops import DrawNumbering, ScanLoop, WhileLoop
from tawny.unique import Unique

P = TypeVar("P")


class CellOf(NamedTuple):
    """A cell of a body's rows that holds a place in a variable."""

    address: int
    shift: int
    """Bytes from where the variable begins."""


class BodyTable(Protocol):
    """The table of a loop's body, as far as the loop asks it."""

    stop: int

    def make_call(self) -> int: ...
    @property
    def draw_cells(self) -> Sequence[int]: ...
    def cells_of(self, variable: int) -> Sequence[CellOf]: ...


LINK: Final = 3
"""Cells of a link."""

_TRUE: Final = np.ones(1, np.int8)


def loop_cells(
    op: ScanLoop | WhileLoop,
    plan: NativeLoop,
    body: BodyTable,
    operands: Sequence[P],
    results: Sequence[P],
    room: int,
    most_at_once: int,
) -> list[int | P]:
    """The cells of a loop's row but for the last two: the number of the run, whether it failed.

    `operands` and `results` are their places; `room` is the address of the scratch memory.  A call
    makes no more steps than `most_at_once`.
    """
    graph, own = op.bodies()[0], room + plan.offsets[0]
    true = address_of(_TRUE)
    length, reverse, begins, goes_on = ENDLESS, False, cast("int | P", true), true
    numbering = DrawNumbering()
    stacked: list[tuple[P, int, int]] = []
    first_home = len(graph.arguments)
    given = operands
    if isinstance(op, ScanLoop):
        length, reverse, numbering = op.length, op.reverse, op.numbering
        rows = range(op.carries, op.first_shared)
        made = range(op.carries, len(results))
        stacked = [(operands[i], 1 + i, nbytes(graph.types[1 + i])) for i in rows]
        stacked += [(results[i], first_home + i, nbytes(graph.result_types[i])) for i in made]
        shared = range(op.first_shared, len(operands))
    else:
        begins, given, goes_on = operands[0], operands[1:], own + FLAG_OFFSET
        shared = range(op.carries, len(given))
    links = _Links(body)
    second = dict(zip(plan.second, plan.offsets[1 + len(plan.copied) :], strict=True))
    records: list[int | P] = []
    for c, result in enumerate(carry_results(op)):
        cell = HEADER + c * CARRY_CELLS
        other: int | P = room + second[c] if c in second else results[c]
        records += [given[c], results[c], other, nbytes(graph.result_types[result]), 0, 0]
        links.add(1 + c, cell + CURRENT, moves=c in second)
        links.add(first_home + result, cell + NEXT, moves=c in second)
    first = HEADER + len(records)
    for number, (base, variable, stride) in enumerate(stacked):
        records += [base, stride, 0]
        links.add(variable, first + number * STREAM_CELLS + ROW, moves=True)
    first = HEADER + len(records)
    for number, i in enumerate(shared):
        records.append(given[i])
        links.add(1 + i, first + number)
    links.add(0, PLACE)
    if isinstance(op, WhileLoop):
        links.add(first_home, GOES_ON)
    fixed, moving, draws = links.fixed, links.moving, body.draw_cells
    counts = [op.carries, len(stacked), len(shared)]
    counts += [len(fixed) // LINK, len(moving) // LINK, len(draws)]
    whole = HEADER + len(records) + len(fixed) + len(moving) + len(draws)
    call = body.make_call()
    head = [interpreter_address(), call, body.stop, length, int(reverse), own, begins, goes_on]
    head += [most_at_once, 0, *counts, whole + 1, *numbering]
    return [*head, *records, *fixed, *moving, *draws]


def switch_cells(
    bodies: Sequence[BodyTable], operands: Sequence[P], results: Sequence[P]
) -> list[int | P]:
    """The cells of a switch's row but for the last two: the number of the run, whether it failed.

    `operands` and `results` are their places.
    """
    index, *given = operands
    first = SWITCH_HEADER + len(bodies) * BRANCH_CELLS
    place = first + len(given) + len(results)
    branches: list[int] = []
    rest: list[int] = []
    for body in bodies:
        links = _Links(body)
        for i in range(len(given) + len(results)):
            links.add(i, first + i)
        draws = list(body.draw_cells)
        own = place + len(rest)
        branches += [body.make_call(), own, len(links.fixed) // LINK, own + len(links.fixed)]
        branches.append(len(draws))
        rest += [*links.fixed, *draws]
    last = place + len(rest) + 1
    head: list[int | P] = [interpreter_address(), len(bodies), index, last]
    return [*head, *branches, *given, *results, *rest]


class Pause(NamedTuple):
    """A loop that pauses: its row, the cell where it says so, and after how many steps it does."""

    row: int
    status: int
    most: int


class Pauses(Unique):
    """The loops of a table that pause, so that Python can be interrupted, by their entries."""

    def __init__(self) -> None:
        self._found: dict[int, Pause] = {}
        self.cells = np.zeros(0, np.int64)
        """The cells of all rows."""

    def add(self, entry: int, row: int, status: int, most: int) -> None:
        """Note a loop."""
        self._found[entry] = Pause(row, status, most)

    def __bool__(self) -> bool:
        return bool(self._found)

    def has(self, entry: int) -> bool:
        """Whether a loop that was called is not over."""
        found = self._found.get(entry)
        return found is not None and bool(self.cells[found.status] == PAUSED)

    def go_on(self, entry: int) -> None:
        """Let the next call of a loop that is not over make all other steps."""
        found = self._found[entry]
        self.cells[found.status] = 0
        self.cells[found.row + MOST_AT_ONCE] = ENDLESS

    def begin_anew(self) -> None:
        """Let the next calls of all loops begin with the first step."""
        for row, status, most in self._found.values():
            self.cells[[row + AT, status]] = 0
            self.cells[row + MOST_AT_ONCE] = most


class _Links:
    """Links from cells of a row to those of a body's rows that hold places in its variables."""

    def __init__(self, body: BodyTable) -> None:
        self._body = body
        self.fixed: list[int] = []
        self.moving: list[int] = []

    def add(self, variable: int, cell: int, *, moves: bool = False) -> None:
        """Let a variable lie where a cell says, which `moves` from step to step."""
        links = self.moving if moves else self.fixed
        for target in self._body.cells_of(variable):
            links.extend([target.address, cell, target.shift])


def address_of(array: npt.NDArray[np.int8]) -> int:
    """Where an array's first element lies."""
    place: int = array.__array_interface__["data"][0]
    return place
