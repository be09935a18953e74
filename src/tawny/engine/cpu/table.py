"""From a task to the table that the interpreter walks."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Final, NamedTuple, get_args
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tawny.dtype import DType
from tawny.engine.blocks import whole_block
from tawny.engine.cpu.bands import strips_of
from tawny.engine.cpu.interpreter import ENTRY, sites
from tawny.engine.cpu.kernel_table import THREADED, Kernel, Preparation, kernel_for
from tawny.engine.cpu.kernels.control import loop_library, switch_library
from tawny.engine.cpu.kernels.copies import copy_kernel
from tawny.engine.cpu.kernels.kernel import NEVER
from tawny.engine.cpu.loop_rows import CellOf, Pauses, loop_cells, switch_cells
from tawny.engine.cpu.loops import ENDLESS, is_endless, loop_plan, steps_at_once
from tawny.engine.cpu.stopping import LONG_SECONDS, PRODUCT_FACTOR, pieces_library, pieces_of
from tawny.engine.cpu.threads.pool import pool_of
from tawny.engine.cpu.threads.shares import even_threads, useful_threads
from tawny.engine.layout import Memory, StridedView, Views, contiguous
from tawny.engine.lowering import PROCESSOR, is_leaf, result_of, types, writing_seconds
from tawny.engine.protocol import UPDATE, Task
from tawny.memory.schedule import RESIDENT
from tawny.node import Node, Value
from tawny.ops.bands import Bands
from tawny.ops.fused_products import FusedProduct, PlainProduct
from tawny.ops.loops import BodyOp, ScanLoop, WhileLoop
from tawny.shape import size
from tawny.unique import Unique

Cells = npt.NDArray[np.int64]

Prepared = tuple[StridedView, Preparation]
"""A constant, and what makes it ready for a kernel."""

_ARRANGED: Final = WeakValueDictionary[Prepared, Value]()
"""Constants made ready for kernels, as long as a table holds them."""


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's first element lies."""
    place: int = array.__array_interface__["data"][0]
    return place


_PRODUCTS: Final = (FusedProduct, *get_args(PlainProduct))


class Entry(NamedTuple):
    """One call of a kernel: its address, its row, and the cell where it says that it failed."""

    position: int
    kernel: int
    row: int
    threads: int
    """How many may take part; 0 for the caller alone."""
    status: int | None


class Where(NamedTuple):
    """An address or, in a variable, bytes from where that is bound."""

    variable: int | None
    place: int

    def at(self, shift: int) -> Where:
        """Some bytes on."""
        return Where(self.variable, self.place + shift)


class Table(Unique):
    """Entries for each position of the schedule that has a kernel, and their rows of cells.

    Cells that hold places in variables are filled when those are bound.
    """

    def __init__(self, task: Task, arena: int, beside: Table | None = None) -> None:
        """`beside` is the table that this one's rows go to: what is known is there only once."""
        self._task = task
        self._arena = arena
        self._views = Views()
        self._constants: dict[Node, Value] = {} if beside is None else beside._constants
        self._variable = {(node, 0): i for i, node in enumerate(task.variables)}
        self._variable |= {
            result_of(node): self._variable[home, 0] for node, home in task.in_place_updates.items()
        }
        self.first_change = task.first_change
        self._row: list[int] = []
        self._patches: list[list[tuple[int, int]]] = [[] for _ in task.variables]
        self._draws: list[int] = []
        self._kernels: dict[int, Kernel | None] = {}
        self._taken: list[Table] = []
        """Tables whose entries are among these: they own what is called."""
        self._copying: list[object] = []
        """Code that copies, which is called too."""
        self._is_inner = beside is not None
        self.pauses = Pauses()
        self._told: Cells = np.zeros(1, np.int64) if beside is None else beside._told
        self.stop = address(self._told)
        """Where steps that take long are told to stop."""
        self._inner: list[tuple[int, int]] = []
        """Cells that hold where a row begins, and the number of its first cell."""
        self._prepared: dict[Prepared, Value] = {} if beside is None else beside._prepared
        self._entries: list[Entry] = []
        self._of_position = [self._add_position(p) for p in range(len(task.layout.sequence))]
        self.updates = self._add_updates(task.updates)
        """The entries that let variables take the values of update edges."""
        self.parallel = any(entry.threads for entry in self._entries)
        self.parallel |= any(table.parallel for table in self._taken)
        self._cells = np.array(self._row, np.int64)
        self.pauses.cells = self._cells
        for cell, row in self._inner:
            self._cells[cell] = address(self._cells) + row * _CELL
        self._table = self._entry_cells()
        self.address = address(self._table)
        self._places = [_columns(pairs) for pairs in self._patches]
        self._drawn = address(self._cells) + _CELL * np.array(self._draws, np.int64)
        counts = np.array([0, 0, len(self._drawn), address(self._drawn)], np.int64)
        self.turns_address = address(counts)
        self.turns = counts.data
        """What the interpreter counts: turns completed, and the number of the run drawn for."""

    def entries(self, position: int) -> range:
        """The entries that run a position; none where Python does."""
        return self._of_position[position]

    @property
    def entry_cells(self) -> Cells:
        """The cells of all entries, a row for each."""
        return self._table

    def position_of(self, entry: int) -> int:
        """The position that an entry belongs to; `UPDATE` for what comes after all of them."""
        return self._entries[entry].position

    def clear_failure(self, entry: int) -> int:
        """The position whose kernel failed; it is ready to be called again."""
        position, _, _, _, status = self._entries[entry]
        assert status is not None
        self._cells[status] = 0
        return position

    def draw(self, number: int) -> None:
        """Tell those kernels that draw random numbers the number of the run."""
        self.turns[1] = number
        if self._draws:
            self._cells[self._draws] = number

    def bind(self, variable: int, value: Value) -> None:
        """Let a variable be the memory of `value`."""
        where, shifts = self._places[variable]
        if len(where):
            self._cells[where] = shifts + address(value)

    # -------------------------------------------------------------------- rows

    def is_long(self, position: int) -> bool:
        """Whether the step at a position is long enough to be made stoppable."""
        step = self._task.layout.sequence[position]
        lowered = self._task.lowered
        node = lowered.steps[step]
        if is_endless(node):
            return self._most_at_once(node) == ENDLESS
        limit = LONG_SECONDS * (PRODUCT_FACTOR if isinstance(node.op, _PRODUCTS) else 1)
        return lowered.problem.steps[step].seconds > limit

    def _most_at_once(self, node: Node) -> int:
        """How many steps a loop may make until Python can be interrupted; ENDLESS for all.

        Only a loop that is a step of a program can be gone on with.
        """
        return ENDLESS if self._is_inner else steps_at_once(node)

    def _add_position(self, position: int) -> range:
        """Add the rows and the entries of a position; none where it has no kernel."""
        first = len(self._entries)
        self._enter(position)
        entries = range(first, len(self._entries))
        if entries and self.is_long(position):
            self._cut(entries, position)
        return entries

    def _cut(self, entries: range, position: int) -> None:
        """Let what takes long be computed piece by piece, so that it can be stopped.

        Every thread has a piece, at least, of what threads share.
        """
        step = self._task.layout.sequence[position]
        seconds = self._task.lowered.problem.steps[step].seconds / len(entries)
        for number in entries:
            entry, start = self._entries[number], len(self._row)
            pieces = max(pieces_of(seconds), self._task.threads) if entry.threads else 1
            self._inner.append((start + 1, entry.row))
            self._row.extend([entry.kernel, 0, pieces, self.stop])
            kernel = pieces_library().address("pieces")
            self._entries[number] = entry._replace(kernel=kernel, row=start)

    def _enter(self, position: int) -> None:
        layout, lowered = self._task.layout, self._task.lowered
        step = layout.sequence[position]
        node = lowered.steps[step]
        seen = [self._views(source) for source in node.inputs]
        if isinstance(node.op, Bands):
            self._in_bands(position, node, seen)
            return
        if isinstance(node.op, BodyOp):
            self._loop(position, node, seen)
            return
        if step not in self._kernels:
            results = tuple([contiguous(*kind) for kind in types(node)])
            operands = tuple([s.memory for s in seen])
            self._kernels[step] = kernel_for(node, operands, results, self._task.threads)
        kernel = self._kernels[step]
        if kernel is None:
            return
        if kernel.scratch > lowered.problem.steps[step].scratch:
            raise RuntimeError(
                f"{node!r} was planned for another kernel: the environment has changed since"
            )
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
            self._add_place(self._result(node, result, offsets[storage]))
        if kernel.scratch:
            self._row.append(self._arena + layout.scratch[position])
        stop = self.stop if self.is_long(position) else NEVER
        self._row.extend([index(stop if n is NEVER else n) for n in kernel.parameters])
        last = len(self._row) - 1
        if kernel.drawn:
            self._draws.append(last - kernel.fallible)
        find, status = kernel.library.address, last if kernel.fallible else None
        threads = self._threads(step) if kernel.parallel else 0
        self._entries.append(Entry(position, find(kernel.symbol), start, threads, status))
        for symbol, shared in kernel.after:
            wanted = self._threads(step) if shared and kernel.parallel else 0
            self._entries.append(Entry(position, find(symbol), start, wanted, status))

    # ------------------------------------------------------------------- bands

    def _in_bands(self, position: int, node: Node, seen: Sequence[StridedView]) -> None:
        """Add the rows and the entries of all bands of a step, one after the other.

        A result that is written over an operand is written when the next band has been computed;
        until then it is kept aside.
        """
        layout, lowered, op = self._task.layout, self._task.lowered, node.op
        assert isinstance(op, Bands)
        strips = strips_of(node, self._task.threads)
        if strips.scratch > lowered.problem.steps[layout.sequence[position]].scratch:
            raise RuntimeError(
                f"{node!r} was planned for other kernels: the environment has changed since"
            )
        room = self._arena + layout.scratch[position] if strips.scratch else 0
        schedule, offsets = layout.schedule, layout.placement.offsets
        given = [
            self._where(source, 0 if storage == RESIDENT else offsets[storage])
            for source, storage in zip(seen, schedule.reads[position], strict=True)
        ]
        made = [
            self._result(node, result, offsets[storage])
            for result, storage in enumerate(schedule.writes[position])
        ]
        lags = op.lagging if strips.aside and made[op.lagging] in given else None
        asides = [room + strips.arena + number * strips.aside for number in range(2)]
        tables = {id(k): Table(k.task, room, self) for k in strips.kinds}
        self._taken.extend(tables.values())
        dtype = types(node)[op.lagging][1]
        late: list[tuple[int, Where, int, DType]] = []
        for number, strip in enumerate(strips.strips):
            places = [
                given[operand].at(first)
                for operand, first in zip(strip.kind.operands, strip.operands, strict=True)
            ]
            places += [whole.at(first) for whole, first in zip(made, strip.results, strict=True)]
            if lags is not None:
                target = len(strip.operands) + lags
                aside, count = asides[number % 2], strip.lagging // dtype.itemsize
                late.append((aside, places[target], count, dtype))
                places[target] = Where(None, aside)
            self._take(tables[id(strip.kind)], places, position)
            if len(late) > 1:
                self._add_move(position, *late.pop(0))
        for one in late:
            self._add_move(position, *one)

    def _take(self, table: Table, places: Sequence[Where], position: int) -> None:
        """Add all rows and entries of another table, whose variables are to lie at `places`."""
        start = len(self._row)
        self._row.extend(table._row)
        self._inner += [(start + cell, start + row) for cell, row in table._inner]
        for where, cells in zip(places, table._patches, strict=True):
            for cell, shift in cells:
                self._row[start + cell] = where.place + shift
                if where.variable is not None:
                    self._patches[where.variable].append((start + cell, where.place + shift))
        for entry in table._entries:
            status = None if entry.status is None else start + entry.status
            self._entries.append(
                entry._replace(position=position, row=start + entry.row, status=status)
            )

    def _add_move(
        self, position: int, source: int, target: Where, count: int, dtype: DType
    ) -> None:
        """Add the entry that copies elements to where they belong."""
        start = len(self._row)
        self._row.append(source)
        self._add_place(target)
        self._add_copy(start, contiguous((count,), dtype), position)

    # ------------------------------------------------------------------- loops

    def _loop(self, position: int, node: Node, seen: Sequence[StridedView]) -> None:
        """Add the entry of a loop or a switch, after copies of operands that are views."""
        layout, plan = self._task.layout, loop_plan(node, self._task.threads)
        if plan is None:
            self._kernels[layout.sequence[position]] = None
            return
        room = self._arena + layout.scratch[position]
        schedule, offsets = layout.schedule, layout.placement.offsets
        given = [
            self._where(source, 0 if storage == RESIDENT else offsets[storage])
            for source, storage in zip(seen, schedule.reads[position], strict=True)
        ]
        made = [
            self._result(node, result, offsets[storage])
            for result, storage in enumerate(schedule.writes[position])
        ]
        places = [Where(None, room + offset) for offset in plan.offsets[1:]]
        moves = [*zip(plan.copied, places, strict=False)]
        moves += [(number, made[result]) for number, result in plan.settled]
        for number, place in moves:
            start = len(self._row)
            self._add_place(given[number])
            self._add_place(place)
            given[number] = place
            self._add_copy(start, seen[number].memory, position)
        bodies = [Table(body.task, room, self) for body in plan.bodies]
        self._taken.extend(bodies)
        start, op = len(self._row), node.op
        if isinstance(op, (ScanLoop, WhileLoop)):
            kernel = loop_library().address("loop")
            most = self._most_at_once(node)
            cells = loop_cells(op, plan, bodies[0], given, made, room, most)
            if most != ENDLESS:
                self.pauses.add(len(self._entries), start, start + len(cells) + 1, most)
        else:
            kernel = switch_library().address("switch")
            cells = switch_cells(bodies, given, made)
        for cell in cells:
            if isinstance(cell, Where):
                self._add_place(cell)
            else:
                self._row.append(cell)
        self._draws.append(len(self._row))
        self._row.extend([0, 0])
        status = len(self._row) - 1
        self._entries.append(Entry(position, kernel, start, 0, status))

    def cells_of(self, variable: int) -> list[CellOf]:
        """The cells that hold places in a variable."""
        where, shifts = self._places[variable]
        first = address(self._cells)
        pairs = zip(where.tolist(), shifts.tolist(), strict=True)
        return [CellOf(first + cell * _CELL, shift) for cell, shift in pairs]

    @property
    def draw_cells(self) -> list[int]:
        """The addresses of the cells that hold the number of the run."""
        return [int(place) for place in self._drawn]

    def make_call(self) -> int:
        """The address of a call that runs all entries once."""
        self._order = np.arange(len(self._entries))
        pool = pool_of(self._task.threads, self._task.team)
        where = address(self._order), len(self._order), pool.state
        self._call = np.array([self.address, *where, self.turns_address, 0], np.int64)
        return address(self._call)

    # ----------------------------------------------------------------- updates

    def _add_updates(self, updates: Sequence[tuple[Node, Node]]) -> range:
        """Add copies of sources to the variables they update: none reads what another writes."""
        first = len(self._entries)
        for target, source in updates:
            start, seen = len(self._row), self._views(source)
            self._operand(seen, self._kept_at(source))
            self._add_place(Where(self._variable[target, 0], 0))
            self._add_copy(start, seen.memory)
        return range(first, len(self._entries))

    def _kept_at(self, node: Node) -> int:
        """Where in the arena the value of a result begins when a run ends."""
        layout = self._task.layout
        storage = layout.schedule.final_storages[self._task.lowered.values[node, 0]]
        return 0 if storage == RESIDENT else layout.placement.offsets[storage]

    def _add_copy(self, start: int, memory: Memory, position: int = UPDATE) -> None:
        """Add the entry that copies an array; its row begins with the two addresses."""
        code = copy_kernel([whole_block(0, memory)], 1, memory.dtype.itemsize)
        self._row.extend(map(index, code.parameters))
        nbytes = size(memory.shape) * memory.dtype.itemsize
        threads = useful_threads(2 * nbytes / PROCESSOR.bandwidth) if code.parallel else 0
        kernel = code.library.address(code.symbol)
        self._copying.append(code.library)
        self._entries.append(Entry(position, kernel, start, threads, None))

    def _threads(self, step: int) -> int:
        """How many threads may take part in a step."""
        lowered = self._task.lowered
        node = lowered.steps[step]
        useful = useful_threads(max(lowered.problem.steps[step].seconds, writing_seconds(node)))
        is_cut = type(node.op) in THREADED
        return even_threads(useful, self._task.threads) if is_cut else useful

    def _prepared_for(self, step: int, seen: Sequence[StridedView]) -> dict[int, Value]:
        """The operands of a step that were made ready for its kernel, by their numbers."""
        kernel = self._kernels[step]
        assert kernel is not None
        return {number: self._prepare(seen[number], make) for number, make in kernel.prepared}

    def _prepare(self, seen: StridedView, make: Preparation) -> Value:
        """A constant as a kernel reads it; all programs share what one of them made."""
        key = seen, make
        value = self._prepared.get(key)
        if value is None:
            value = _ARRANGED.get(key)
            if value is None:
                made = np.require(make(self._seen_constant(seen)), requirements=("C", "A"))
                value = _ARRANGED[key] = made
            self._prepared[key] = value
        return value

    def _seen_constant(self, seen: StridedView) -> Value:
        """A constant through its view."""
        whole, memory = self._constant(seen.root), seen.memory
        start = whole.reshape(-1).view(np.uint8)[seen.offset :].view(memory.dtype)
        return np.lib.stride_tricks.as_strided(start, memory.shape, memory.strides, writeable=False)

    @property
    def by_numpy(self) -> list[int]:
        """The steps that have no kernel, by their numbers."""
        return [step for step, kernel in self._kernels.items() if kernel is None]

    @property
    def prepared_bytes(self) -> int:
        """Bytes of operands that were made ready, beside the constants themselves."""
        return sum(value.nbytes for value in self._prepared.values())

    def _operand(self, seen: StridedView, offset: int) -> None:
        self._add_place(self._where(seen, offset))

    def _where(self, seen: StridedView, offset: int) -> Where:
        """Where a value begins, which lies in a variable, is known, or is in the arena."""
        root = seen.root
        variable = self._variable.get((root, seen.part))
        if variable is not None:
            return Where(variable, seen.offset)
        if is_leaf(root):
            return Where(None, address(self._constant(root)) + seen.offset)
        return Where(None, self._arena + offset + seen.offset)

    def _result(self, node: Node, result: int, offset: int) -> Where:
        """Where a result begins: in a variable, if it has its home there, or in the arena."""
        variable = self._variable.get((node, result))
        return Where(variable, self._arena + offset if variable is None else 0)

    def _add_place(self, where: Where) -> None:
        """A cell: an address or, once it is bound, a place in a variable."""
        if where.variable is not None:
            self._patches[where.variable].append((len(self._row), where.place))
        self._row.append(where.place)

    def _constant(self, node: Node) -> Value:
        value = self._constants.get(node)
        if value is None:
            assert node.value is not None
            value = self._constants[node] = np.require(node.value, requirements=("C", "A"))
        return value

    def _entry_cells(self) -> Cells:
        """The entries, cells by their addresses."""
        cells = address(self._cells)

        def cell(number: int | None) -> int:
            return 0 if number is None else cells + number * _CELL

        plain = [e.kernel for e in self._entries if not e.threads and e.status is None]
        site = sites(plain)
        rows = [
            (
                e.kernel,
                cell(e.row),
                e.threads,
                cell(e.status),
                0 if e.threads or e.status is not None else site.get(e.kernel, 0),
            )
            for e in self._entries
        ]
        return np.array(rows, np.int64).reshape(-1, ENTRY)


_CELL: Final = 8


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[Cells, Cells]:
    """First and second items."""
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])
