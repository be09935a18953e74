"""Reductions, and groups of elementwise steps around them.

Some threads of a block have a row: the elements that are folded into one number.  Each of them
folds some in order, then they fold what they have, half with half, in memory that they share.  What
is computed from a fold begins another sweep over the row.  Rows of few elements have a thread each.
A few long rows that are swept once are cut into parts, whose partial results a second launch folds.
Where rows lie beside each other in memory, and not their elements, neighbouring threads have
neighbouring rows.  The order of folding depends on sizes alone, so that the same inputs give the
same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.engine.gpu.launch import (
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    ThreadGrid,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I1, I32, I64, Module, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.scalar.bodies import Read, over_space
from tawny.engine.llvm.scalar.coordinates import COUNTER
from tawny.engine.llvm.scalar.folds import SLOT, ReductionFold
from tawny.engine.llvm.scalar.numbers import (
    Number,
    compute_type,
    flatten,
    load_scalar,
    store_scalar,
    unflatten,
)
from tawny.engine.llvm.scalar.reduction_bodies import (
    Computation,
    ReductionCode,
    StagedBody,
    stage_body,
)
from tawny.ops.body import Body
from tawny.shape import Shape, collapse_axes

SHORT_ROW: Final = 32
"""Elements of a row up to which one thread folds it; a warp has as many threads."""

EACH: Final = 8
"""Elements that a thread folds at least before another one shares the row."""

FEW_BLOCKS: Final = 2048
"""Blocks up to which long rows are cut into parts: a GPU has about a hundred multiprocessors."""

LEAST_PART: Final = 16
"""Elements of a part that a thread folds, at least."""

BESIDE: Final = 8
"""Threads of a row where neighbours have neighbouring rows: a warp has 32 of those."""

BLOCK: Final = 256
"""Threads of a block."""

MOST_NUMBERS: Final = 200
"""Numbers and places that a kernel is given, at most."""


class ReductionStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    code: ReductionCode
    outer: int
    """Axes that are not folded."""
    inner: int
    """Axes that are folded."""
    threads: int
    """Threads that have a row: a power of two."""
    are_beside: bool = False
    """Whether neighbouring threads have neighbouring rows."""
    part: str = ""
    """Of rows that are cut: `first` folds parts, `last` what they gave."""


def reduction_kernel(
    body: Body, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The kernel of a body with reductions; None where it has none."""
    found = stage_body(body)
    if found is None:
        return None
    code = found.code(len(operands))
    if any(len(found.folded) != 1 and i == COUNTER for i in code.operands):
        return None
    moves = _moves(found, operands, results)
    outer, inner = (
        [a for a in range(len(found.space)) if (a in found.folded) is inside]
        for inside in (False, True)
    )
    (rows, row_moves), (folds, fold_moves) = (
        _collapse(axes, found.space, moves) for axes in (outer, inner)
    )
    count, length = math.prod(rows), math.prod(folds)
    numbers = [
        *rows,
        *folds,
        *[n for a, b in zip(row_moves, fold_moves, strict=True) for n in (*a, *b)],
    ]
    places = [i for i in code.operands if i != COUNTER]
    places += range(len(operands), len(operands) + len(results))
    if 2 * (len(places) + 1) + len(numbers) + 4 > MOST_NUMBERS:
        return None
    last = len(operands) + len(results)
    reads = len(code.operands)
    beside = _are_beside(row_moves[:reads], fold_moves[:reads], rows[-1])
    threads = _threads_of_row(length, beside)
    plain = ReductionStructure(code, len(rows), len(folds), threads, beside and threads > 1)

    def launch(structure: ReductionStructure, blocks: int, *sizes: int) -> Launch:
        own = (*places, last) if structure.part else tuple(places)
        return Launch(
            KernelCode(write_reduction, structure), own, (*sizes, *numbers), blocks, BLOCK
        )

    blocks = -(-count * threads // BLOCK)
    parts = min(FEW_BLOCKS // blocks, length // (threads * LEAST_PART))
    if parts > 1 and code.sweeps == 1 and code.folds:
        part = -(-length // parts)
        parts = -(-length // part)
        own = _threads_of_row(parts, False)
        folded = plain._replace(part="last", threads=own, are_beside=False)
        first = launch(plain._replace(part="first"), blocks * parts, count, length, parts, part)
        second = launch(folded, -(-count * own // BLOCK), count, length, parts, part)
        return GpuKernel((first, second), count * parts * len(code.folds) * SLOT)
    return GpuKernel((launch(plain, blocks, count, length, 1, length),))


def _threads_of_row(length: int, beside: bool) -> int:
    """How many threads have a row of a length."""
    if length <= SHORT_ROW:
        return 1
    if beside:
        return BESIDE
    threads = 32
    while threads < BLOCK and threads * EACH < length:
        threads *= 2
    return threads


def _are_beside(
    row_moves: Sequence[Sequence[int]], fold_moves: Sequence[Sequence[int]], last: int
) -> bool:
    """Whether the elements of rows that are read lie nearer to each other than those of one row."""
    nearer = [
        (abs(row[-1]), abs(fold[-1]))
        for row, fold in zip(row_moves, fold_moves, strict=True)
        if row[-1] or fold[-1]
    ]
    return last >= BESIDE and sum([0 < a < b for a, b in nearer]) * 2 > len(nearer)


def _moves(
    found: StagedBody, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> list[tuple[int, ...]]:
    """The strides of all reads, then of all results, along the axes of the space."""
    rank = len(found.space)
    reads = [r for r in found.items if isinstance(r, Read)]
    written = zip(found.results, results, strict=True)
    return [
        *[over_space(r.view, _strides(r, operands), rank) for r in reads],
        *[over_space(view, m.strides, rank) for (_, view), m in written],
    ]


def _strides(read: Read, operands: Sequence[DeviceArray]) -> Sequence[int]:
    """The strides of a read along the axes of its view; those of a counter number the elements."""
    return (1,) if read.operand == COUNTER else operands[read.operand].strides


def _collapse(
    axes: Sequence[int], space: Shape, moves: Sequence[tuple[int, ...]]
) -> tuple[Shape, list[tuple[int, ...]]]:
    """Some axes of the space, neighbours made one where every array allows."""
    return collapse_axes(
        tuple([space[a] for a in axes]), [tuple([m[a] for a in axes]) for m in moves]
    )


# ------------------------------------------------------------------------ writing


def write_reduction(module: Module, name: str, structure: ReductionStructure) -> None:
    """Write one kernel of a reduction."""
    code = structure.code
    arrays = len(code.operands) + len(code.results)
    places = arrays - code.operands.count(COUNTER) + bool(structure.part)
    axes = structure.outer + structure.inner
    with grid_kernel(module, name, places, 4 + axes * (1 + arrays)) as grid:
        writer = _RowWriter(grid, structure)
        if structure.threads == 1 and not structure.part:
            with grid.f.when(grid.number < writer.count):
                writer.write(grid.number)
        elif structure.part == "first":
            writer.fold_part()
        elif structure.part == "last":
            writer.fold_partials()
        else:
            writer.write(writer.own_row(grid.block))


class _RowWriter:
    """Writes a kernel that has a row for each thread or block."""

    def __init__(self, grid: ThreadGrid, structure: ReductionStructure) -> None:
        self.grid, self.f, self.structure, self.code = grid, grid.f, structure, structure.code
        left = iter(grid.numbers)
        self.count, self.length, self.parts, self.part = (next(left) for _ in range(4))
        self.rows = [next(left) for _ in range(structure.outer)]
        self.folds = [next(left) for _ in range(structure.inner)]
        arrays = len(self.code.operands) + len(self.code.results)
        self.row_moves, self.fold_moves = list[list[Value]](), list[list[Value]]()
        for _ in range(arrays):
            self.row_moves.append([next(left) for _ in range(structure.outer)])
            self.fold_moves.append([next(left) for _ in range(structure.inner)])
        bases = iter(grid.places)
        zero = self.f.constant(I64, 0)
        self.bases = [zero if i == COUNTER else next(bases) for i in self.code.operands]
        self.bases += [next(bases) for _ in self.code.results]
        self.alone = structure.threads == 1
        self.threads, self.together = structure.threads, BLOCK // structure.threads
        across = self.together if structure.are_beside else self.threads
        slow, fast = grid.thread.unsigned_over(across), grid.thread.unsigned_rest(across)
        self.local, self.place = (fast, slow) if structure.are_beside else (slow, fast)
        """Which of the block's rows the thread has, and which of the row's threads it is."""
        self.is_there = self.f.constant(I1, 1)
        """Whether there is such a row: a thread without one does what the last row's do, and
        stores nothing."""
        self.numbers: dict[int, Number] = {}
        """What is known of the row, by its items."""

    # --------------------------------------------------------------------- rows

    def own_row(self, block: Value) -> Value:
        """The row of this thread in a block's rows, or the last one."""
        row = block * self.together + self.local
        self.is_there = row < self.count
        return self.f.minimum(row, self.count - 1)

    def write(self, row: Value) -> None:
        """Compute a row, sweep by sweep."""
        self._enter_row(row)
        zero = self.f.constant(I64, 0)
        for sweep in range(self.code.sweeps):
            self._apply_row(sweep)
            folds = self.code.folds_in(sweep)
            last = sweep == self.code.sweeps - 1
            if folds or last:
                totals = self._sweep(sweep, zero, self.length, last)
                self._finish(folds, totals)
        self._apply_row(self.code.sweeps)
        self._store_row()

    def fold_part(self) -> None:
        """Fold a part of a row; what it gives waits in scratch memory."""
        f, block = self.f, self.grid.block
        row, part = self.own_row(block.unsigned_over(self.parts)), block.unsigned_rest(self.parts)
        self._enter_row(row)
        self._apply_row(0)
        begin = part * self.part
        totals = self._sweep(0, begin, f.minimum(begin + self.part, self.length), False)
        found = [self._share(fold, n) for (_, fold), n in zip(self.code.folds, totals, strict=True)]
        with f.when(self.place.equals(0) & self.is_there):
            for n, ((_, fold), total) in enumerate(zip(self.code.folds, found, strict=True)):
                fold.store_partial(f, total, self._slot(row * self.parts + part, n))

    def fold_partials(self) -> None:
        """Fold what the parts of a row gave, and finish the row."""
        f, row = self.f, self.own_row(self.grid.block)
        self._enter_row(row)
        self._apply_row(0)
        starts = [fold.start(f, 0) for _, fold in self.code.folds]
        with f.loop(self.place, self.parts, self.threads, carried=flatten(starts)) as loop:
            place = row * self.parts + loop.index
            carried = unflatten(loop.carried, starts)
            both = [
                fold.combine(f, total, fold.load_partial(f, self._slot(place, n), 0))
                for n, ((_, fold), total) in enumerate(zip(self.code.folds, carried, strict=True))
            ]
            loop.carry(*flatten(both))
        self._finish(self.code.folds, unflatten(loop.carried, starts))
        self._apply_row(1)
        self._store_row()

    def _slot(self, place: Value, fold: int) -> Value:
        """Where a partial result waits."""
        number = place * len(self.code.folds) + fold
        return self.f.offset(self.grid.places[-1], number * SLOT)

    def _enter_row(self, row: Value) -> None:
        """Find where the row's elements begin, and read what belongs to it."""
        f = self.f
        at = coordinates(row, self.rows)
        self.bases = [
            self._offset_base(number, base, at, self.row_moves[number])
            for number, base in enumerate(self.bases)
        ]
        for number, item in enumerate(self.code.reads):
            if self.code.of_row[item]:
                self.numbers[item] = load_scalar(f, self.code.dtypes[item], self.bases[number])

    def _offset_base(
        self, number: int, base: Value, at: Sequence[Value], moves: Sequence[Value]
    ) -> Value:
        """An address, or the number of a place, moved on along some axes."""
        counts = number < len(self.code.operands) and self.code.operands[number] == COUNTER
        for place, step in zip(at, moves, strict=True):
            base = base + place * step if counts else self.f.offset(base, place * step)
        return base

    def _apply_row(self, stage: int) -> None:
        """Compute what belongs to the row and follows from the folds before a sweep."""
        for i, item in enumerate(self.code.items):
            if (
                isinstance(item, Computation)
                and self.code.of_row[i]
                and self.code.stages[i] <= stage
            ):
                self._compute(i, item, self.numbers)

    def _compute(self, i: int, item: Computation, numbers: dict[int, Number]) -> None:
        if i not in numbers:
            numbers[i] = item.emit(self.f, [numbers[n] for n in item.inputs])

    def _store_row(self) -> None:
        """Write the results that belong to the row, by one of its threads."""
        wanted = [(n, i) for n, (i, of_row) in enumerate(self.code.results) if of_row]

        def store() -> None:
            for n, i in wanted:
                place = self.bases[len(self.code.operands) + n]
                store_scalar(self.f, self.code.dtypes[i], self.numbers[i], place)

        if wanted:
            with self.f.when(self.place.equals(0) & self.is_there):
                store()

    # ----------------------------------------------------------------- elements

    def _sweep(self, sweep: int, begin: Value, end: Value, last: bool) -> list[Number]:
        """Walk over the elements; gives what this thread folded."""
        f, folds = self.f, self.code.folds_in(sweep)
        stored = [(n, i) for n, (i, of_row) in enumerate(self.code.results) if last and not of_row]
        if not folds and not stored:
            return []
        needed = self._items_for(
            [i for _, fold in folds for i in fold.inputs] + [i for _, i in stored]
        )
        starts = [fold.start(f, 0) for _, fold in folds]
        with f.loop(begin + self.place, end, self.threads, carried=flatten(starts)) as loop:
            at = coordinates(loop.index, self.folds)
            numbers = dict(self.numbers)
            for i in needed:
                item = self.code.items[i]
                if item is None:
                    numbers[i] = self._read(i, at)
                elif isinstance(item, Computation):
                    self._compute(i, item, numbers)
            carried = unflatten(loop.carried, starts)
            loop.carry(
                *flatten(
                    [
                        fold.absorb(f, total, fold.element(numbers))
                        for (_, fold), total in zip(folds, carried, strict=True)
                    ]
                )
            )
            if stored:
                with f.when(self.is_there):
                    self._store_elements(stored, at, numbers)
        return unflatten(loop.carried, starts)

    def _store_elements(
        self, stored: Sequence[tuple[int, int]], at: Sequence[Value], numbers: dict[int, Number]
    ) -> None:
        """Write results that belong to an element."""
        for n, i in stored:
            number = len(self.code.operands) + n
            place = self._offset_base(number, self.bases[number], at, self.fold_moves[number])
            store_scalar(self.f, self.code.dtypes[i], numbers[i], place)

    def _items_for(self, wanted: Sequence[int]) -> list[int]:
        """The items of elements that are needed for others, in order."""
        found, stack = set[int](), list(wanted)
        while stack:
            i = stack.pop()
            if i in found or i in self.numbers:
                continue
            found.add(i)
            item = self.code.items[i]
            if isinstance(item, (Computation, ReductionFold)):
                stack += item.inputs
        return sorted(found)

    def _read(self, item: int, at: Sequence[Value]) -> Number:
        number = self.code.reads.index(item)
        place = self._offset_base(number, self.bases[number], at, self.fold_moves[number])
        dtype = self.code.dtypes[item]
        if self.code.operands[number] == COUNTER:
            kind = compute_type(dtype)
            return self.f.convert("trunc", place, kind) if kind == I32 else place
        return load_scalar(self.f, dtype, place)

    def _finish(self, folds: Sequence[tuple[int, ReductionFold]], totals: Sequence[Number]) -> None:
        """Fold what the threads of the row have; every one of them gets the value."""
        for (i, fold), total in zip(folds, totals, strict=True):
            whole = total if self.alone else self._share(fold, total)
            self.numbers[i] = fold.finish(self.f, whole)

    def _share(self, fold: ReductionFold, total: Number) -> Number:
        """Fold what the threads of a row have, half with half."""
        f, place = self.f, self.place
        shared = f.module.shared_array("partials", BLOCK * SLOT)
        base = f.shared_address(shared)

        def slot(number: Value) -> Value:
            return f.offset(base, (number * self.together + self.local) * SLOT)

        fold.store_partial(f, total, slot(place))
        self.grid.barrier()
        half = self.threads // 2
        while half:
            with f.when(place < half):
                pair = [fold.load_partial(f, slot(n), 0) for n in (place, place + half)]
                fold.store_partial(f, fold.combine(f, *pair), slot(place))
            self.grid.barrier()
            half //= 2
        whole = fold.load_partial(f, slot(f.constant(I64, 0)), 0)
        self.grid.barrier()
        return whole
