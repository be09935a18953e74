"""The code of reductions: rows and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tawny.codegen.builder import I64, PTR, Function, Module, Value
from tawny.codegen.folding import Apply, Fold, spread
from tawny.codegen.lanes import flat, load_scalar, store_scalar, unflat
from tawny.codegen.library import Library, compiled
from tawny.codegen.numbers import Number, constant, loaded, store
from tawny.codegen.reduction_code import Arrays, Code, Row, Way
from tawny.codegen.reduction_sweep import Sweep
from tawny.codegen.walking import digits, share

SLOT: Final = 16
"""Bytes in which a partial result waits."""


@lru_cache(1024)
def reduction_library(code: Code, way: Way) -> Library:
    """The compiled functions `reduce` and, where rows are cut, `finish`."""
    module = Module()
    arguments = {"row": PTR, "worker": I64, "workers": I64}
    with module.function("reduce", arguments) as f:
        _Writing(f, code, way).reduce()
    if way.parts:
        with module.function("finish", arguments) as f:
            _Writing(f, code, way).finish()
    return compiled(module.text())


class _Writing:
    """A function being written."""

    def __init__(self, f: Function, code: Code, way: Way) -> None:
        self.f, self.code, self.way = f, code, way
        self.arrays = Arrays(f, code, way)

    # --------------------------------------------------------------------- rows

    def reduce(self) -> None:
        """All rows of a worker, or all their parts."""
        f = self.f
        begin, end = share(self.arrays.units * self.arrays.pieces, *f.arguments[1:])
        with f.loop(begin, end) as loop:
            unit, piece = loop.index, f.constant(I64, 0)
            if self.way.parts:
                unit, piece = (
                    unit.unsigned_over(self.arrays.pieces),
                    unit.unsigned_rest(self.arrays.pieces),
                )
            row = self._row(unit)
            self._read_row(row)
            for sweep in range(self.code.sweeps):
                self._apply_row(row, sweep)
                totals = self._swept(row, sweep, piece)
                if self.way.parts:
                    self._keep(totals, loop.index)
                else:
                    self._folded(row, totals)
            if not self.way.parts:
                self._apply_row(row, self.code.sweeps)
                self._store_row(row)

    def finish(self) -> None:
        """Combine the parts of each row."""
        f, folds = self.f, self.code.folds
        with f.loop(0, self.arrays.units) as loop:
            row = self._row(loop.index)
            self._read_row(row)
            first = loop.index * self.arrays.pieces
            kept = self._kept(first)
            with f.loop(first + 1, first + self.arrays.pieces, carried=flat(kept)) as piece:
                found = unflat(piece.carried, kept)
                more = self._kept(piece.index)
                fold_of = [fold for _, fold in folds for _ in range(len(row.counts))]
                both = zip(fold_of, found, more, strict=True)
                piece.carry(*flat([fold.combined(f, a, b) for fold, a, b in both]))
            totals = unflat(piece.carried, kept)
            width = len(row.counts)
            self._apply_row(row, 0)
            self._folded(
                row,
                {i: totals[n * width : (n + 1) * width] for n, (i, _) in enumerate(folds)},
            )
            self._apply_row(row, 1)
            self._store_row(row)

    def _row(self, unit: Value) -> Row:
        """The row, or rows side by side, with a number."""
        f, number, first = self.f, unit, None
        counts: Sequence[Value | None] = [None]
        if self.way.columns:
            number = unit.unsigned_over(self.arrays.blocks)
            first = unit.unsigned_rest(self.arrays.blocks) * (self.way.lanes * self.way.unroll)
            counts = [
                self.arrays.count(self.arrays.length - first, k) for k in range(self.way.unroll)
            ]
        places = digits(number, self.arrays.outer)
        bases = self.arrays.moved(self.arrays.bases, places, self.arrays.outer_steps)
        if first is not None:
            bases = [
                f.advanced(b, first * s) for b, s in zip(bases, self.arrays.steps, strict=True)
            ]
        return Row(bases, counts)

    def _read_row(self, row: Row) -> None:
        """Load what belongs to the row."""
        for number, item in enumerate(self.code.reads):
            if self.code.of_row[item]:
                for k, count in enumerate(row.counts):
                    row.numbers[k][item] = self._load(number, row.bases[number], k, count)

    def _apply_row(self, row: Row, stage: int) -> None:
        """Compute what belongs to the row and needs the folds before a stage."""
        for i, item in enumerate(self.code.items):
            if isinstance(item, Apply) and self.code.of_row[i] and self.code.stages[i] == stage:
                for numbers in row.numbers:
                    numbers[i] = item.emit(self.f, [numbers[n] for n in item.inputs])

    def _folded(self, row: Row, totals: dict[int, list[Number]]) -> None:
        """Note the results of folds."""
        for i, parts_of in totals.items():
            fold = self.code.items[i]
            assert isinstance(fold, Fold)
            for numbers, total in zip(row.numbers, parts_of, strict=True):
                numbers[i] = fold.finished(self.f, total)

    def _store_row(self, row: Row) -> None:
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
        return arrays.load(number, arrays.at(number, base, k * self.way.lanes), count)

    def _write(self, number: int, value: Number, base: Value, k: int, count: Value | None) -> None:
        arrays = self.arrays
        if count is None:
            store_scalar(self.f, arrays.dtypes[number], value, base)
        else:
            arrays.store(number, value, arrays.at(number, base, k * self.way.lanes), count)

    # ------------------------------------------------------------------- sweeps

    def _swept(self, row: Row, sweep: int, piece: Value) -> dict[int, list[Number]]:
        """Walk over the elements: fold what is folded now, and write results at last."""
        code = self.code
        folds = [(i, fold) for i, fold in code.folds if code.stages[i] == sweep]
        last = sweep == code.sweeps - 1
        written = [n for n, (_, of_row) in enumerate(code.results) if not of_row and last]
        if not folds and not written:
            return {}
        wanted = [fold.input for _, fold in folds] + [code.results[n][0] for n in written]
        needed = self._needed(wanted)
        lanes, width = self.way.lanes, len(row.counts)
        around = [
            {i: spread(self.f, n, lanes) for i, n in numbers.items() if i in needed}
            for numbers in row.numbers
        ]
        scalar = lanes if self.way.columns else 0
        starts = [constant(self.f, fold.dtype, fold.identity, scalar) for _, fold in folds]
        start = [s for s in starts for _ in range(width)]
        chosen = [fold for _, fold in folds]
        sweeping = Sweep(self.arrays, self.code, chosen, written, needed, around, row)
        totals = sweeping.run(start, piece)
        return {i: totals[n * width : (n + 1) * width] for n, (i, _) in enumerate(folds)}

    def _needed(self, wanted: Sequence[int]) -> list[int]:
        """Items that elements are made of, in order."""
        found, stack = set[int](), list(wanted)
        while stack:
            i = stack.pop()
            if i in found:
                continue
            found.add(i)
            item = self.code.items[i]
            if isinstance(item, Apply) and not self.code.of_row[i]:
                stack += item.inputs
        return sorted(found)

    # -------------------------------------------------------------------- parts

    def _slot(self, unit: Value, fold: int, k: int) -> Value:
        """Where the partial result of a fold waits."""
        width = self.way.unroll if self.way.columns else 1
        lanes = self.way.lanes if self.way.columns else 1
        index = unit * (len(self.code.folds) * width) + (fold * width + k)
        return self.f.advanced(self.arrays.scratch, index * (SLOT * lanes))

    def _keep(self, totals: dict[int, list[Number]], unit: Value) -> None:
        for fold, (i, item) in enumerate(self.code.folds):
            for k, total in enumerate(totals[i]):
                place = self._slot(unit, fold, k)
                if self.way.columns:
                    store(self.f, item.dtype, total, place)
                else:
                    store_scalar(self.f, item.dtype, total, place)

    def _kept(self, unit: Value) -> list[Number]:
        out: list[Number] = []
        for fold, (_, item) in enumerate(self.code.folds):
            for k in range(self.way.unroll if self.way.columns else 1):
                place = self._slot(unit, fold, k)
                if self.way.columns:
                    out.append(loaded(self.f, item.dtype, place, self.way.lanes))
                else:
                    out.append(load_scalar(self.f, item.dtype, place))
        return out
