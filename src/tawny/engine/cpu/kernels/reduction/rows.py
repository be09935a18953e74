"""The code of reductions: rows and their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.kernel import KERNEL
from tawny.engine.cpu.kernels.reduction.code import (
    Arrays,
    ReductionLayout,
    RowValues,
)
from tawny.engine.cpu.kernels.reduction.recall import items_for, wanted_in, written_down
from tawny.engine.cpu.kernels.reduction.sweep import Range, RowSweep, SweepPlan
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import PTR, Function, Module, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.folds import SLOT, ReductionFold, load_slot, spread, store_slot
from tawny.engine.llvm.scalar.numbers import Number, flatten, load_scalar, store_scalar, unflatten
from tawny.engine.llvm.scalar.reduction_bodies import Computation, ReductionCode

CHUNK: Final = 16
"""Elements of a row that are folded before those of the next row of a tile.

Each may be on a page of its own: with 64 the pages of a sum of 3,000 by 1,000 float64 outnumbered
what a processor remembers, and it took three times as long."""


class TileSlots(NamedTuple):
    """Slots of the rows of a tile, by the numbers of units: results wait there."""

    partial: Callable[[Value], Value]
    """The slot of a row that is under way."""
    whole: Callable[[Value], Value]
    """The slot of what earlier sweeps over a row gave."""


def stages(code: ReductionCode, layout: ReductionLayout) -> list[tuple[str, bool]]:
    """The functions of a reduction in the order they are called, and whether threads share each.

    Where rows are cut, a sweep over all parts is followed by one that combines them.
    """
    if not layout.parts:
        return [("reduce", True)]
    last = code.sweeps - 1
    out: list[tuple[str, bool]] = []
    for sweep in range(code.sweeps):
        out.append((f"reduce{sweep}", True))
        if code.folds_in(sweep) or (sweep == last and any(of_row for _, of_row in code.results)):
            out.append((f"finish{sweep}", False))
    return out


@lazy_library
def reduction_library(module: Module, code: ReductionCode, layout: ReductionLayout) -> None:
    """The compiled functions that `stages` names."""
    arguments = KERNEL
    for name, shared in stages(code, layout):
        with module.function(name, arguments) as f:
            writing = _ReductionWriter(f, code, layout)
            if not layout.parts:
                writing.tiles() if layout.tile else writing.rows()
            elif shared:
                writing.parts(int(name.removeprefix("reduce")))
            else:
                writing.finish(int(name.removeprefix("finish")))


class _ReductionWriter:
    """A function being written."""

    def __init__(self, f: Function, code: ReductionCode, layout: ReductionLayout) -> None:
        self.f, self.code, self.layout = f, code, layout
        self.arrays = Arrays(f, code, layout)
        self.order = {i: n for n, (i, _) in enumerate(code.folds)}
        """Numbers of the folds among all of them."""
        self.spill = None if layout.parts or layout.recalls else self._find_spill()
        self.written = written_down(code) if layout.recalls else ((),) * code.sweeps
        self.slots = self.arrays.scratch if layout.parts else f.constant(PTR, 0)
        """Where partial results wait."""
        self.places: dict[int, Value] = {}
        """Where the elements of a row lie that are written down."""

    # --------------------------------------------------------------------- rows

    def rows(self) -> None:
        """All rows of a worker, each sweep by sweep."""
        f = self.f
        begin, end = worker_share(self.arrays.units, *f.arguments[1:])
        self._reserve()
        with f.loop(begin, end) as loop:
            row = self._row(loop.index)
            self._read_row(row)
            for sweep in range(self.code.sweeps):
                self._apply_row(row, sweep)
                self._finish_folds(row, self._sweep_row(row, sweep))
            self._apply_row(row, self.code.sweeps)
            self._store_row(row)

    def _reserve(self) -> None:
        """Room for what is written down: as many elements as a row has, and what vectors add."""
        f, vectors = self.f, self.layout.lanes * self.layout.unroll
        for item in [i for items in self.written for i in items]:
            size = (self.arrays.length + vectors) * self.code.dtypes[item].itemsize
            self.places[item] = f.stack_array(size)

    def parts(self, sweep: int) -> None:
        """One sweep over all parts of a worker."""
        f, arrays = self.f, self.arrays
        begin, end = worker_share(arrays.units * arrays.pieces, *f.arguments[1:])
        if not self.layout.tile:
            with f.loop(begin, end) as loop:
                unit = loop.index.unsigned_over(arrays.pieces)
                row = self._restore_row(unit, sweep, self._whole(unit))
                part = self._part(loop.index.unsigned_rest(arrays.pieces))
                self._store_partials(sweep, self._sweep_row(row, sweep, part), loop.index)
            return
        with f.when(begin < end), f.repeat(begin) as tiles:  # parts of neighbours are neighbours
            (number,) = tiles.carried
            piece, unit = number.unsigned_over(arrays.units), number.unsigned_rest(arrays.units)
            count = f.minimum(f.minimum(arrays.units - unit, end - number), self.layout.tile)
            slots = self._part_slots(piece)
            self._sweep_tile((unit, unit + count), sweep, self._part(piece), slots)
            tiles.again(number + count < end, number + count)

    def _part(self, piece: Value) -> Range:
        """What a part has of the first folded axis."""
        arrays, first = self.arrays, piece * self.arrays.cut
        axis = arrays.inner[0] if arrays.inner else arrays.length
        return first, self.f.minimum(first + arrays.cut, axis)

    def finish(self, sweep: int) -> None:
        """Combine the parts of each row after a sweep."""
        f, folds = self.f, self.code.folds_in(sweep)
        with f.loop(0, self.arrays.units) as loop:
            row = self._restore_row(loop.index, sweep, self._whole(loop.index))
            width, first = len(row.counts), loop.index * self.arrays.pieces
            found = self._load_partials(folds, first)
            with f.loop(first + 1, first + self.arrays.pieces, carried=flatten(found)) as piece:
                both = zip(
                    [fold for _, fold in folds for _ in range(width)],
                    unflatten(piece.carried, found),
                    self._load_partials(folds, piece.index),
                    strict=True,
                )
                piece.carry(*flatten([fold.combine(f, a, b) for fold, a, b in both]))
            totals = unflatten(piece.carried, found)
            self._finish_folds(row, self._by_fold(folds, totals))
            if sweep == self.code.sweeps - 1:
                self._apply_row(row, self.code.sweeps)
                self._store_row(row)
            else:
                self._store_totals(row, folds, self._whole(loop.index))

    def tiles(self) -> None:
        """All rows of a worker, tile by tile, and of each tile some elements of all its rows.

        Each row's elements are folded in the order they have when rows are walked one by one.
        """
        f, tile = self.f, self.layout.tile
        begin, end = worker_share(self.arrays.units, *f.arguments[1:])
        bytes_each = len(self.order) * self._width * SLOT * max(self._lanes, 1)
        self.slots = f.stack_buffer(2 * tile * bytes_each)
        with f.loop(begin, end, tile) as tiles:
            first = tiles.index
            units = first, f.minimum(first + tile, end)
            slots = self._tile_slots(first)
            for sweep in range(self.code.sweeps):
                self._sweep_tile(units, sweep, (0, self.arrays.inner[0]), slots)
                self._finish_tile(units, sweep, slots)
            with f.loop(*units) as loop:
                row = self._restore_row(loop.index, self.code.sweeps, slots.whole(loop.index))
                self._store_row(row)

    def _tile_slots(self, first: Value) -> TileSlots:
        """Slots of a tile alone, which begins with a unit: behind the partial results the whole."""

        def partial(unit: Value) -> Value:
            return unit - first

        def whole(unit: Value) -> Value:
            return unit - first + self.layout.tile

        return TileSlots(partial, whole)

    def _part_slots(self, piece: Value) -> TileSlots:
        """Slots of a part of rows, which wait for the other parts."""

        def partial(unit: Value) -> Value:
            return unit * self.arrays.pieces + piece

        return TileSlots(partial, self._whole)

    def _sweep_tile(
        self, units: tuple[Value, Value], sweep: int, part: Range, slots: TileSlots
    ) -> None:
        """One sweep over a part of some rows, a few elements of each at a time."""
        f, folds = self.f, self.code.folds_in(sweep)
        with f.loop(*units) as loop:
            empty = {i: [fold.start(f, self._lanes)] * self._width for i, fold in folds}
            self._store_partials(sweep, empty, slots.partial(loop.index))
        with f.loop(*part, CHUNK) as chunk, f.loop(*units) as loop:
            few, slot = (
                (chunk.index, f.minimum(chunk.index + CHUNK, part[1])),
                slots.partial(loop.index),
            )
            row = self._restore_row(loop.index, sweep, slots.whole(loop.index))
            start = self._load_partials(folds, slot)
            self._store_partials(sweep, self._sweep_row(row, sweep, few, start), slot)

    def _finish_tile(self, units: tuple[Value, Value], sweep: int, slots: TileSlots) -> None:
        """Finish the folds of some rows after a sweep."""
        folds = self.code.folds_in(sweep)
        with self.f.loop(*units) as loop:
            row = self._restore_row(loop.index, sweep, slots.whole(loop.index))
            found = self._load_partials(folds, slots.partial(loop.index))
            self._finish_folds(row, self._by_fold(folds, found))
            self._store_totals(row, folds, slots.whole(loop.index))

    def _row(self, unit: Value) -> RowValues:
        """The row, or rows side by side, with a number."""
        f, number, first = self.f, unit, None
        counts: Sequence[Value | None] = [None]
        if self.layout.columns:
            number = unit.unsigned_over(self.arrays.blocks)
            first = unit.unsigned_rest(self.arrays.blocks) * (
                self.layout.lanes * self.layout.unroll
            )
            counts = [
                self.arrays.count(self.arrays.length - first, k) for k in range(self.layout.unroll)
            ]
        places = coordinates(number, self.arrays.outer)
        bases = self.arrays.offset_bases(self.arrays.bases, places, self.arrays.outer_steps)
        if first is not None:
            bases = [f.offset(b, first * s) for b, s in zip(bases, self.arrays.steps, strict=True)]
        return RowValues(bases, counts)

    def _read_row(self, row: RowValues) -> None:
        """Load what belongs to the row."""
        for number, item in enumerate(self.code.reads):
            if self.code.of_row[item]:
                for k, count in enumerate(row.counts):
                    row.numbers[k][item] = self._load(number, row.bases[number], k, count)

    def _apply_row(self, row: RowValues, stage: int) -> None:
        """Compute what belongs to the row and needs the folds before a stage."""
        for i, item in enumerate(self.code.items):
            if (
                isinstance(item, Computation)
                and self.code.of_row[i]
                and self.code.stages[i] == stage
            ):
                for numbers in row.numbers:
                    numbers[i] = item.emit(self.f, [numbers[n] for n in item.inputs])

    def _finish_folds(self, row: RowValues, totals: dict[int, list[Number]]) -> None:
        """Note the results of folds."""
        for i, parts_of in totals.items():
            fold = self.code.items[i]
            assert isinstance(fold, ReductionFold)
            for numbers, total in zip(row.numbers, parts_of, strict=True):
                numbers[i] = fold.finish(self.f, total)

    def _store_row(self, row: RowValues) -> None:
        """Write the results that belong to the row."""
        for number, (item, of_row) in enumerate(self.code.results, len(self.code.reads)):
            if of_row:
                for k, count in enumerate(row.counts):
                    self._write(number, row.numbers[k][item], row.bases[number], k, count)

    def _load(self, number: int, base: Value, k: int, count: Value | None) -> Number:
        """What belongs to a row: a scalar, or a vector of rows side by side."""
        arrays = self.arrays
        if count is None:
            return load_scalar(self.f, arrays.dtypes[number], base)
        return arrays.load(number, arrays.at(number, base, k * self.layout.lanes), count)

    def _write(self, number: int, value: Number, base: Value, k: int, count: Value | None) -> None:
        arrays = self.arrays
        if count is None:
            store_scalar(self.f, arrays.dtypes[number], value, base)
        else:
            arrays.store(number, value, arrays.at(number, base, k * self.layout.lanes), count)

    # ------------------------------------------------------------------- sweeps

    def _sweep_row(
        self,
        row: RowValues,
        sweep: int,
        part: Range | None = None,
        start: Sequence[Number] | None = None,
    ) -> dict[int, list[Number]]:
        """Walk over the elements: fold what is folded now, and write results at last.

        All of them, or a part of the first folded axis; `start` is what came before.
        """
        code = self.code
        folds = code.folds_in(sweep)
        last = sweep == code.sweeps - 1
        written = [n for n, (_, of_row) in enumerate(code.results) if not of_row and last]
        if not folds and not written:
            return {}
        stored = {n: code.results[n][0] for n in written}
        wanted = wanted_in(code, sweep)
        recalled: dict[int, int] = {}
        kept = {i: self.places[i] for i in self.written[sweep]}
        known = {i: self.places[i] for items in self.written[:sweep] for i in items}
        if self.spill is not None and last:
            recalled = dict([self.spill])
        elif self.spill is not None and sweep == code.sweeps - 2:
            stored = {self.spill[1]: self.spill[0]}
        needed = items_for(code, wanted, {*recalled, *known})
        lanes, width = self.layout.lanes, len(row.counts)
        around = [
            {i: spread(self.f, n, lanes) for i, n in numbers.items() if i in needed}
            for numbers in row.numbers
        ]
        if start is None:
            start = [fold.start(self.f, self._lanes) for _, fold in folds for _ in range(width)]
        chosen = [fold for _, fold in folds]
        plan = SweepPlan(chosen, stored, recalled, kept, known, needed, around)
        sweeping = RowSweep(self.arrays, self.code, plan, row)
        return self._by_fold(folds, sweeping.run(start, part))

    def _by_fold(
        self, folds: Sequence[tuple[int, ReductionFold]], totals: Sequence[Number]
    ) -> dict[int, list[Number]]:
        """For each fold the totals of all vectors of rows."""
        width = self._width
        return {i: [*totals[n * width : (n + 1) * width]] for n, (i, _) in enumerate(folds)}

    def _find_spill(self) -> tuple[int, int] | None:
        """What the last sweep need not compute again, and the result that holds it until then.

        All that the only result over all elements is made from in the last sweep, rows apart, is
        one costly item of its dtype, which the sweep before it computes as well.
        """
        code = self.code
        whole = [(n, item) for n, (item, of_row) in enumerate(code.results) if not of_row]
        last = code.sweeps - 1
        if len(whole) != 1 or last == 0:
            return None
        ((number, result),) = whole
        before = [i for _, fold in code.folds_in(last - 1) for i in fold.inputs]
        for item in reversed(items_for(code, before)):
            made = code.items[item]
            if (
                item == result
                or not isinstance(made, Computation)
                or not made.costly
                or code.of_row[item]
            ):
                continue
            rest = [
                i for i in items_for(code, [result], [item]) if not code.of_row[i] and i != item
            ]
            alone = all(isinstance(code.items[i], Computation) for i in rest)
            if made.dtype == code.dtypes[result] and alone and not code.folds_in(last):
                return item, number
        return None

    # -------------------------------------------------------------------- parts

    @property
    def _lanes(self) -> int:
        """Lanes of a row's numbers."""
        return self.layout.lanes if self.layout.columns else 0

    @property
    def _width(self) -> int:
        """Vectors of rows side by side."""
        return self.layout.unroll if self.layout.columns else 1

    def _slot(self, unit: Value, fold: int, k: int) -> Value:
        """Where a result of a fold waits; behind all parts those of whole rows."""
        index = unit * (len(self.order) * self._width) + (self.order[fold] * self._width + k)
        return self.f.offset(self.slots, index * (SLOT * max(self._lanes, 1)))

    def _whole(self, unit: Value) -> Value:
        """The number among all parts under which the results of a whole row lie."""
        return self.arrays.units * self.arrays.pieces + unit

    def _store_partials(
        self, sweep: int, totals: Mapping[int, Sequence[Number]], unit: Value
    ) -> None:
        """Write partial results of a part, or of a row that is under way."""
        for i, fold in self.code.folds_in(sweep):
            for k, total in enumerate(totals[i]):
                fold.store_partial(self.f, total, self._slot(unit, i, k))

    def _load_partials(
        self, folds: Sequence[tuple[int, ReductionFold]], unit: Value
    ) -> list[Number]:
        """Partial results of a part."""
        return [
            fold.load_partial(self.f, self._slot(unit, i, k), self._lanes)
            for i, fold in folds
            for k in range(self._width)
        ]

    def _store_totals(
        self, row: RowValues, folds: Sequence[tuple[int, ReductionFold]], whole: Value
    ) -> None:
        """Write the results of folds of a whole row, for the sweeps to come."""
        for i, _ in folds:
            for k, numbers in enumerate(row.numbers):
                store_slot(self.f, self.code.dtypes[i], numbers[i], self._slot(whole, i, k))

    def _restore_row(self, unit: Value, sweep: int, whole: Value) -> RowValues:
        """A row as the sweeps before left it; their results lie under the number `whole`."""
        row = self._row(unit)
        self._read_row(row)
        for earlier in range(sweep):
            self._apply_row(row, earlier)
            for i, _ in self.code.folds_in(earlier):
                for k, numbers in enumerate(row.numbers):
                    place = self._slot(whole, i, k)
                    numbers[i] = load_slot(self.f, self.code.dtypes[i], place, self._lanes)
        self._apply_row(row, sweep)
        return row
