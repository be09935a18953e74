"""From a task to the table that the interpreter walks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tawny.engine.cpu.interpreter import ENTRY
from tawny.engine.cpu.kernels import Kernel, contiguous, kernel_for
from tawny.engine.cpu.pool_code import MOST_THREADS
from tawny.engine.cpu.views import Seen, Views
from tawny.errors import value_error
from tawny.graph.engine import Task
from tawny.graph.lowering import is_leaf, result_of, types
from tawny.memory.schedule import RESIDENT
from tawny.node import Node, Value

Cells = npt.NDArray[np.int64]

SHARE_SECONDS: Final = 10e-6
"""A thread is woken for no less than this, as far as is estimated."""


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's first element lies."""
    place: int = array.__array_interface__["data"][0]
    return place


class Entry(NamedTuple):
    """One call of a kernel: its address, its row, and the cell where it says that it failed."""

    position: int
    kernel: int
    row: int
    threads: int
    """How many may take part; 0 for the caller alone."""
    status: int | None


class Table:
    """Entries for each position of the schedule that has a kernel, and their rows of cells.

    Cells that hold places in variables are filled when those are bound.
    """

    def __init__(self, task: Task, arena: int) -> None:
        self._task = task
        self._arena = arena
        self._views = Views()
        self._constants: dict[Node, Value] = {}
        self._variable = {(node, 0): i for i, node in enumerate(task.variables)}
        self._variable |= {
            result_of(node): self._variable[home, 0] for node, home in task.homes.items()
        }
        self._changed = frozenset(self._variable[home, 0] for home in task.homes.values())
        self.first_change = self._first_change()
        self._row: list[int] = []
        self._patches: list[list[tuple[int, int]]] = [[] for _ in task.variables]
        self._draws: list[int] = []
        self._kernels: dict[int, Kernel | None] = {}
        self._prepared: dict[int, dict[int, Value]] = {}
        self._entries: list[Entry] = []
        self._of_position = [self._entered(p) for p in range(len(task.layout.sequence))]
        self.parallel = any(entry.threads for entry in self._entries)
        self._cells = np.array(self._row, np.int64)
        self._table = self._placed()
        self.address = address(self._table)
        self._places = [_columns(pairs) for pairs in self._patches]
        self._drawn = np.array(self._draws, np.int64) if self._draws else None

    def _first_change(self) -> int:
        """The first position whose result is written to a variable; past the end, if none is."""
        steps, sequence = self._task.lowered.steps, self._task.layout.sequence
        changing = {result_of(node)[0] for node in self._task.homes}
        found = [p for p, s in enumerate(sequence) if steps[s] in changing] if changing else []
        return min(found, default=len(sequence))

    def entries(self, position: int) -> range:
        """The entries that run a position; none where Python does."""
        return self._of_position[position]

    def failed(self, entry: int) -> int:
        """The position whose kernel failed; it is ready to be called again."""
        position, _, _, _, status = self._entries[entry]
        assert status is not None
        self._cells[status] = 0
        return position

    def draw(self, number: int) -> None:
        """Tell those kernels that draw random numbers the number of the run."""
        if self._drawn is not None:
            self._cells[self._drawn] = number

    def bind(self, variable: int, value: Value) -> None:
        """Let a variable be the memory of `value`."""
        if variable in self._changed and not value.flags.writeable:
            name = self._task.variables[variable].name
            raise value_error(
                "run", f"variable {name!r} is updated, but bound to a read-only array"
            )
        where, shifts = self._places[variable]
        if len(where):
            self._cells[where] = shifts + address(value)

    # -------------------------------------------------------------------- rows

    def _entered(self, position: int) -> range:
        """Add the row and the entries of a position; none where it has no kernel."""
        first = len(self._entries)
        layout, lowered = self._task.layout, self._task.lowered
        step = layout.sequence[position]
        node = lowered.steps[step]
        seen = [self._views(source) for source in node.inputs]
        if step not in self._kernels:
            results = tuple([contiguous(*kind) for kind in types(node)])
            self._kernels[step] = kernel_for(node, tuple([s.memory for s in seen]), results)
        kernel = self._kernels[step]
        if kernel is None:
            return range(0)
        start = len(self._row)
        schedule, offsets = layout.schedule, layout.placement.offsets
        prepared = self._prepared_for(step, seen)
        for number, (source, storage) in enumerate(
            zip(seen, schedule.reads[position], strict=True)
        ):
            if number in prepared:
                self._row.append(address(prepared[number]))
            else:
                self._operand(source, 0 if storage == RESIDENT else offsets[storage])
        for result, storage in enumerate(schedule.writes[position]):
            self._in(self._variable.get((node, result)), self._arena + offsets[storage], 0)
        if kernel.scratch:
            self._row.append(self._arena + layout.scratch[position])
        self._row.extend(kernel.parameters)
        last = len(self._row) - 1
        if kernel.drawn:
            self._draws.append(last)
        find, status = kernel.library.address, last if kernel.fallible else None
        threads = self._threads(step) if kernel.parallel else 0
        self._entries.append(Entry(position, find(kernel.symbol), start, threads, status))
        if kernel.finish:
            self._entries.append(Entry(position, find(kernel.finish), start, 0, None))
        return range(first, len(self._entries))

    def _threads(self, step: int) -> int:
        """How many threads have enough to do."""
        seconds = self._task.lowered.problem.steps[step].seconds
        return max(2, min(math.ceil(seconds / SHARE_SECONDS), MOST_THREADS))

    def _prepared_for(self, step: int, seen: Sequence[Seen]) -> dict[int, Value]:
        """The operands of a step that were made ready for its kernel, by their numbers."""
        kernel = self._kernels[step]
        assert kernel is not None
        if kernel.prepared and step not in self._prepared:
            self._prepared[step] = {
                number: np.require(make(self._seen_constant(seen[number])), requirements=("C", "A"))
                for number, make in kernel.prepared
            }
        return self._prepared.get(step, {})

    def _seen_constant(self, seen: Seen) -> Value:
        """A constant through its view."""
        whole, memory = self._constant(seen.root), seen.memory
        start = whole.reshape(-1).view(np.uint8)[seen.offset :].view(memory.dtype)
        return np.lib.stride_tricks.as_strided(start, memory.shape, memory.strides, writeable=False)

    @property
    def prepared_bytes(self) -> int:
        """Bytes of operands that were made ready, beside the constants themselves."""
        return sum(value.nbytes for made in self._prepared.values() for value in made.values())

    def _operand(self, seen: Seen, offset: int) -> None:
        root = seen.root
        variable = self._variable.get((root, seen.part))
        if variable is None and is_leaf(root):
            self._row.append(address(self._constant(root)) + seen.offset)
        else:
            self._in(variable, self._arena + offset + seen.offset, seen.offset)

    def _in(self, variable: int | None, place: int, shift: int) -> None:
        """A cell: a place in the arena or, once it is bound, in a variable."""
        if variable is not None:
            self._patches[variable].append((len(self._row), shift))
        self._row.append(place)

    def _constant(self, node: Node) -> Value:
        value = self._constants.get(node)
        if value is None:
            assert node.value is not None
            value = self._constants[node] = np.require(node.value, requirements=("C", "A"))
        return value

    def _placed(self) -> Cells:
        """The entries, cells by their addresses."""
        cells = address(self._cells)

        def cell(number: int | None) -> int:
            return 0 if number is None else cells + number * _CELL

        rows = [(e.kernel, cell(e.row), e.threads, cell(e.status)) for e in self._entries]
        return np.array(rows, np.int64).reshape(-1, ENTRY)


_CELL: Final = 8


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[Cells, Cells]:
    """First and second items."""
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])
