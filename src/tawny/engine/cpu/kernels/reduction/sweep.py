"""The code of reductions: one walk over the elements of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.reduction.code import Arrays, Numbers, RowValues
from tawny.engine.cpu.kernels.workshare import nest
from tawny.engine.llvm.ir.builder import I32, Value
from tawny.engine.llvm.scalar.expressions import select
from tawny.engine.llvm.scalar.folds import ReductionFold, combine_lanes
from tawny.engine.llvm.scalar.numbers import (
    Number,
    flatten,
    load_vector,
    store_vector,
    unflatten,
)
from tawny.engine.llvm.scalar.reduction_bodies import Computation, ReductionCode

BLOCK: Final = 1 << 12
"""Elements of a row whose lanes are added up before the next: errors grow with the number of blocks
and of elements for each lane, not with that of all elements."""


Range = tuple[Value | int, Value]
"""Places along an axis: the first, and the one behind the last."""


class SweepPlan(NamedTuple):
    """One of the walks over a row: which folds it makes, and what it writes."""

    folds: Sequence[ReductionFold]
    stored: Mapping[int, int]
    """For each result that is written the item that it then holds."""
    recalled: Mapping[int, int]
    """For each item that an earlier walk wrote the result that holds it."""
    kept: Mapping[int, Value]
    """For each item that is written down where."""
    known: Mapping[int, Value]
    """For each item that an earlier walk wrote down where."""
    needed: Sequence[int]
    """The items of elements, in order."""
    around: Sequence[Numbers]
    """What belongs to the row, for each vector of rows."""


class RowSweep:
    """One walk over the elements of a row."""

    def __init__(
        self, arrays: Arrays, code: ReductionCode, plan: SweepPlan, row: RowValues
    ) -> None:
        self.arrays, self.f, self.layout, self.code = arrays, arrays.f, arrays.layout, code
        self.plan, self.row = plan, row
        self.folds, self.around = plan.folds, plan.around

    def run(self, start: Sequence[Number], part: Range | None = None) -> list[Number]:
        """Fold elements; gives the totals, for each fold those of each vector of rows.

        All of them, or a part of the first folded axis.
        """
        f, arrays = self.f, self.arrays
        ranges: list[Range] = [(0, n) for n in arrays.inner]
        lane: Range = (0, arrays.length)
        if part is not None:
            if ranges:
                ranges[0] = part
            else:
                lane = part

        def body(places: list[Value], carried: list[Value]) -> Sequence[Value]:
            bases = arrays.offset_bases(self.row.bases, places, arrays.inner_steps)
            totals = unflatten(carried, start)
            step = self._columns if self.layout.columns else self._elements
            return flatten(step(bases, totals, lane))

        return unflatten(nest(f, ranges, flatten(start), body), start)

    def _columns(self, bases: Sequence[Value], totals: list[Number], lane: Range) -> list[Number]:
        """One element of each of the rows side by side."""
        del lane
        out = list(totals)
        width = len(self.row.counts)
        for k, count in enumerate(self.row.counts):
            numbers = self._element_numbers(bases, 0, k, count, self.around[k])
            for n, fold in enumerate(self.folds):
                place = n * width + k
                out[place] = self._absorb(fold, out[place], fold.element(numbers))
        return out

    def _elements(self, bases: Sequence[Value], totals: list[Number], lane: Range) -> list[Number]:
        """A run of elements, block by block."""
        f, step = self.f, self.layout.lanes * self.layout.unroll
        begin, end = lane
        with f.loop(begin, end, BLOCK, carried=flatten(totals)) as block:
            stop = f.minimum(block.index + BLOCK, end)
            vectors = block.index + ((stop - block.index) & -step)
            empty = [
                fold.start(f, self.layout.lanes)
                for fold in self.folds
                for _ in range(self.layout.unroll)
            ]
            with f.loop(block.index, vectors, step, carried=flatten(empty)) as main:
                sums = unflatten(main.carried, empty)
                main.carry(*flatten(self._step(bases, main.index, sums, None)))
            sums = unflatten(main.carried, empty)
            left = stop - vectors
            sums = unflatten(
                f.either(
                    left > 0,
                    lambda: flatten(self._step(bases, vectors, sums, left)),
                    lambda: flatten(sums),
                ),
                empty,
            )
            found = unflatten(block.carried, totals)
            for n, fold in enumerate(self.folds):
                mine = sums[n * self.layout.unroll : (n + 1) * self.layout.unroll]
                found[n] = fold.combine(f, found[n], combine_lanes(f, fold, mine))
            block.carry(*flatten(found))
        return unflatten(block.carried, totals)

    def _step(
        self, bases: Sequence[Value], index: Value, sums: list[Number], left: Value | None
    ) -> list[Number]:
        """Some vectors of elements; `left` says how many elements there are, if they are few."""
        f, out, unroll = self.f, list(sums), self.layout.unroll
        for k in range(unroll):
            count = None if left is None else self.arrays.count(left, k)
            numbers = self._element_numbers(bases, index, k, count, self.around[0])
            for n, fold in enumerate(self.folds):
                value = fold.element(numbers)
                if count is not None:
                    empty = fold.start(f, self.layout.lanes)
                    used = f.first_lanes(f.convert("trunc", count, I32), self.layout.lanes)
                    value = select(f, used, value, empty)
                out[n * unroll + k] = self._absorb(fold, out[n * unroll + k], value)
        return out

    def _absorb(self, fold: ReductionFold, total: Number, element: Number) -> Number:
        fold_in = fold.absorb if self.layout.ordered else fold.combine
        return fold_in(self.f, total, element)

    def _element_numbers(
        self,
        bases: Sequence[Value],
        first: Value | int,
        vector: int,
        count: Value | None,
        around: Numbers,
    ) -> Numbers:
        """The numbers of the vector of elements with a number; results are written."""
        code, numbers = self.code, dict(around)
        index = first + vector * self.layout.lanes
        reads = {item: number for number, item in enumerate(code.reads)}
        held = {item: len(code.reads) + n for item, n in self.plan.recalled.items()}
        for i in self.plan.needed:
            item = code.items[i]
            if i in numbers:
                continue
            if i in self.plan.known:
                numbers[i] = self._recall(i, index)
            elif item is None or i in held:
                number = reads[i] if item is None else held[i]
                if number in self.arrays.counters:
                    numbers[i] = self.arrays.coordinates(number, bases[number], first, vector)
                    continue
                address = self.arrays.at(number, bases[number], index)
                numbers[i] = self.arrays.load(number, address, count)
            else:
                assert isinstance(item, Computation)
                numbers[i] = item.emit(self.f, [numbers[n] for n in item.inputs])
        for i, place in self.plan.kept.items():
            store_vector(self.f, code.dtypes[i], numbers[i], self._place(i, place, index))
        for n, stored in self.plan.stored.items():
            number = len(code.reads) + n
            address = self.arrays.at(number, bases[number], index)
            self.arrays.store(number, numbers[stored], address, count)
        return numbers

    def _recall(self, item: int, index: Value | int) -> Number:
        """A vector of what an earlier walk wrote down."""
        place = self._place(item, self.plan.known[item], index)
        return load_vector(self.f, self.code.dtypes[item], place, self.layout.lanes)

    def _place(self, item: int, first: Value, index: Value | int) -> Value:
        """Where elements lie that are written down, from one with a number on."""
        item_bytes = self.code.dtypes[item].itemsize
        return self.f.offset(first, index * item_bytes)
