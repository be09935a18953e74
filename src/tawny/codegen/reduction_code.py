"""The code of reductions: rows, sweeps over their elements, and folds of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tawny.codegen.builder import I32, I64, PTR, Function, Module, Value
from tawny.codegen.folding import Apply, Fold, Item, lanes_of, spread
from tawny.codegen.library import Library, compiled
from tawny.codegen.numbers import (
    Number,
    Pair,
    constant,
    loaded,
    loaded_everywhere,
    parts,
    store,
    stored,
)
from tawny.codegen.scalar import select
from tawny.codegen.walking import digits, nest, share
from tawny.dtype import DType

SLOT: Final = 16
"""Bytes in which a partial result waits."""

BLOCK: Final = 1 << 12
"""Elements of a row whose lanes are added up before the next: errors grow with the number of blocks
and of elements for each lane, not with that of all elements."""


class Way(NamedTuple):
    """All that compiled code depends on, besides the items."""

    columns: bool
    """Whether lanes are rows of their own; otherwise a row is folded into lanes."""
    outer: int
    """Axes that are not folded, besides the one of the lanes."""
    inner: int
    """Axes that are folded, besides the one of the lanes."""
    steps: tuple[int | None, ...]
    """For each read and result the bytes from lane to lane; None where they are a parameter."""
    lanes: int
    unroll: int
    """Vectors that are walked at once."""
    parts: bool
    """Whether rows are cut."""


class Code(NamedTuple):
    """What is computed, whatever the shapes."""

    items: tuple[Item | None, ...]
    """None for a read."""
    dtypes: tuple[DType, ...]
    of_row: tuple[bool, ...]
    stages: tuple[int, ...]
    operands: tuple[int, ...]
    """For each read, the operand it is of."""
    results: tuple[tuple[int, bool], ...]
    """Items, and whether they belong to the row."""
    arity: int

    @property
    def reads(self) -> list[int]:
        """The items that are reads."""
        return [i for i, item in enumerate(self.items) if item is None]

    @property
    def folds(self) -> list[tuple[int, Fold]]:
        """The items that are folds."""
        return [(i, item) for i, item in enumerate(self.items) if isinstance(item, Fold)]

    @property
    def sweeps(self) -> int:
        """How often the elements are walked over."""
        last = [self.stages[i] for i, _ in self.folds]
        return 1 + max([*last, *[self.stages[i] for i, row in self.results if not row]])


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


Numbers = dict[int, Number]
"""Numbers of items."""


class _Row:
    """A row, or a vector of rows side by side: where its arrays begin, and what belongs to it."""

    def __init__(self, bases: Sequence[Value], counts: Sequence[Value | None]) -> None:
        self.bases = bases
        """For each read and result."""
        self.counts = counts
        """For each vector of rows how many of its lanes are rows; None where rows are scalars."""
        self.numbers: list[Numbers] = [{} for _ in counts]


class _Writing:
    """A function being written."""

    def __init__(self, f: Function, code: Code, way: Way) -> None:
        self.f, self.code, self.way = f, code, way
        row, self.worker, self.workers = f.arguments
        arity = code.arity
        operands = [f.cell(row, i, PTR) for i in code.operands]
        results = [f.cell(row, arity + i, PTR) for i in range(len(code.results))]
        self.arrays = [*operands, *results]
        self.dtypes = [code.dtypes[i] for i in [*code.reads, *[i for i, _ in code.results]]]
        place = arity + len(results)
        if way.parts:
            self.scratch = f.cell(row, place, PTR)
            place += 1

        def take(count: int) -> list[Value]:
            nonlocal place
            place += count
            return [f.cell(row, place - count + i) for i in range(count)]

        self.outer, self.inner = take(way.outer), take(way.inner)
        self.length, self.blocks, self.cut, self.pieces = take(4)
        moves = [(take(way.outer), take(way.inner), take(1)[0]) for _ in self.arrays]
        self.outer_steps = [m[0] for m in moves]
        self.inner_steps = [m[1] for m in moves]
        self.steps = [m[2] for m in moves]
        self.units = self.blocks
        for n in self.outer:
            self.units = self.units * n

    # --------------------------------------------------------------------- rows

    def reduce(self) -> None:
        """All rows of a worker, or all their parts."""
        f = self.f
        begin, end = share(self.units * self.pieces, self.worker, self.workers)
        with f.loop(begin, end) as loop:
            unit, piece = loop.index, f.constant(I64, 0)
            if self.way.parts:
                unit, piece = unit.unsigned_over(self.pieces), unit.unsigned_rest(self.pieces)
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
        with f.loop(0, self.units) as loop:
            row = self._row(loop.index)
            self._read_row(row)
            first = loop.index * self.pieces
            kept = self._kept(first)
            with f.loop(first + 1, first + self.pieces, carried=flat(kept)) as piece:
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

    def _row(self, unit: Value) -> _Row:
        """The row, or rows side by side, with a number."""
        f, number, first = self.f, unit, None
        counts: Sequence[Value | None] = [None]
        if self.way.columns:
            number = unit.unsigned_over(self.blocks)
            first = unit.unsigned_rest(self.blocks) * (self.way.lanes * self.way.unroll)
            counts = [self.count(self.length - first, k) for k in range(self.way.unroll)]
        places = digits(number, self.outer)
        bases = self.moved(self.arrays, places, self.outer_steps)
        if first is not None:
            bases = [f.advanced(b, first * s) for b, s in zip(bases, self.steps, strict=True)]
        return _Row(bases, counts)

    def count(self, left: Value, vector: int) -> Value:
        """How many lanes of a vector are used, if so many elements are left at the first."""
        rest = self.f.minimum(left - vector * self.way.lanes, self.way.lanes)
        return self.f.maximum(rest, 0)

    def moved(
        self, bases: Sequence[Value], places: Sequence[Value], steps: Sequence[Sequence[Value]]
    ) -> list[Value]:
        """Addresses so many places further along some axes."""
        out = list(bases)
        for number, along in enumerate(steps):
            for place, step in zip(places, along, strict=True):
                out[number] = self.f.advanced(out[number], place * step)
        return out

    def _read_row(self, row: _Row) -> None:
        """Load what belongs to the row."""
        for number, item in enumerate(self.code.reads):
            if self.code.of_row[item]:
                for k, count in enumerate(row.counts):
                    row.numbers[k][item] = self._load(number, row.bases[number], k, count)

    def _apply_row(self, row: _Row, stage: int) -> None:
        """Compute what belongs to the row and needs the folds before a stage."""
        for i, item in enumerate(self.code.items):
            if isinstance(item, Apply) and self.code.of_row[i] and self.code.stages[i] == stage:
                for numbers in row.numbers:
                    numbers[i] = item.emit(self.f, [numbers[n] for n in item.inputs])

    def _folded(self, row: _Row, totals: dict[int, list[Number]]) -> None:
        """Note the results of folds."""
        for i, parts_of in totals.items():
            fold = self.code.items[i]
            assert isinstance(fold, Fold)
            for numbers, total in zip(row.numbers, parts_of, strict=True):
                numbers[i] = fold.finished(self.f, total)

    def _store_row(self, row: _Row) -> None:
        """Write the results that belong to the row."""
        for number, (item, of_row) in enumerate(self.code.results, len(self.code.reads)):
            if of_row:
                for k, count in enumerate(row.counts):
                    self._write(number, row.numbers[k][item], row.bases[number], k, count)

    # ------------------------------------------------------------------- sweeps

    def _swept(self, row: _Row, sweep: int, piece: Value) -> dict[int, list[Number]]:
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
        sweeping = _Sweep(self, [f for _, f in folds], written, needed, around, row)
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

    # ------------------------------------------------------------------- memory

    def at(self, number: int, base: Value, index: Value | int) -> Value:
        """The address of an element along the lanes' axis of a read or result."""
        step = self.way.steps[number]
        if step == 0:
            return base
        place = index if isinstance(index, Value) else self.f.constant(I64, index)
        return self.f.advanced(base, place * (self.steps[number] if step is None else step))

    def _load(self, number: int, base: Value, k: int, count: Value | None) -> Number:
        """What belongs to a row: a scalar, or a vector of rows side by side."""
        if count is None:
            return load_scalar(self.f, self.dtypes[number], base)
        return self.load(number, self.at(number, base, k * self.way.lanes), count)

    def _write(self, number: int, value: Number, base: Value, k: int, count: Value | None) -> None:
        if count is None:
            store_scalar(self.f, self.dtypes[number], value, base)
        else:
            self.store(number, value, self.at(number, base, k * self.way.lanes), count)

    def load(self, number: int, address: Value, count: Value | None) -> Number:
        """A vector; lanes from `count` on hold anything."""
        f, dtype, lanes, step = self.f, self.dtypes[number], self.way.lanes, self.way.steps[number]
        if step == 0:
            return loaded_everywhere(f, dtype, address, lanes)
        if step is not None and count is None:
            return loaded(f, dtype, address, lanes)
        room = f.room(lanes * dtype.itemsize)
        if step is None:
            self._copy(
                dtype, address, self.steps[number], room, f.constant(I64, dtype.itemsize), count
            )
        else:
            assert count is not None
            type = stored(dtype).by(lanes * parts(dtype))
            mask = first_lanes(f, count * parts(dtype), type.lanes)
            f.store(f.masked_load(type, address, mask, f.constant(type, 0)), room)
        return loaded(f, dtype, room, lanes)

    def store(self, number: int, value: Number, address: Value, count: Value | None) -> None:
        """Write a vector, as far as `count` lanes."""
        f, dtype, lanes, step = self.f, self.dtypes[number], self.way.lanes, self.way.steps[number]
        if step is not None and count is None:
            store(f, dtype, value, address)
            return
        room = f.room(lanes * dtype.itemsize)
        store(f, dtype, value, room)
        if step is None:
            self._copy(
                dtype, room, f.constant(I64, dtype.itemsize), address, self.steps[number], count
            )
            return
        assert count is not None
        type = stored(dtype).by(lanes * parts(dtype))
        mask = first_lanes(f, count * parts(dtype), type.lanes)
        f.masked_store(f.load(type, room), address, mask)

    def _copy(
        self,
        dtype: DType,
        source: Value,
        stride: Value,
        target: Value,
        step: Value,
        count: Value | None,
    ) -> None:
        """Copy elements one by one."""
        f, kind = self.f, stored(dtype)
        with f.loop(0, self.way.lanes if count is None else count) as loop:
            here, there = loop.index * stride, loop.index * step
            for part in range(parts(dtype)):
                offset = part * kind.nbytes
                value = f.load(kind, f.advanced(source, here + offset))
                f.store(value, f.advanced(target, there + offset))

    # -------------------------------------------------------------------- parts

    def _slot(self, unit: Value, fold: int, k: int) -> Value:
        """Where the partial result of a fold waits."""
        width = self.way.unroll if self.way.columns else 1
        lanes = self.way.lanes if self.way.columns else 1
        index = unit * (len(self.code.folds) * width) + (fold * width + k)
        return self.f.advanced(self.scratch, index * (SLOT * lanes))

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


class _Sweep:
    """One walk over the elements of a row."""

    def __init__(
        self,
        writing: _Writing,
        folds: Sequence[Fold],
        written: Sequence[int],
        needed: Sequence[int],
        around: Sequence[Numbers],
        row: _Row,
    ) -> None:
        self.w, self.f, self.way = writing, writing.f, writing.way
        self.folds, self.written, self.needed = folds, written, needed
        self.around, self.row = around, row

    def run(self, start: Sequence[Number], piece: Value) -> list[Number]:
        """Fold all elements; gives the totals, for each fold those of each vector of rows."""
        f, w = self.f, self.w
        ranges: list[tuple[Value | int, Value]] = [(0, n) for n in w.inner]
        lane: tuple[Value | int, Value] = (0, w.length)
        if self.way.parts:
            begin = piece * w.cut
            along = w.inner[0] if ranges else w.length
            cut = (begin, f.minimum(begin + w.cut, along))
            if ranges:
                ranges[0] = cut
            else:
                lane = cut

        def body(places: list[Value], carried: list[Value]) -> Sequence[Value]:
            bases = w.moved(self.row.bases, places, w.inner_steps)
            totals = unflat(carried, start)
            step = self._columns if self.way.columns else self._elements
            return flat(step(bases, totals, lane))

        return unflat(nest(f, ranges, flat(start), body), start)

    def _columns(
        self, bases: Sequence[Value], totals: list[Number], lane: tuple[Value | int, Value]
    ) -> list[Number]:
        """One element of each of the rows side by side."""
        del lane
        out = list(totals)
        width = len(self.row.counts)
        for k, count in enumerate(self.row.counts):
            numbers = self._made(bases, k * self.way.lanes, count, self.around[k])
            for n, fold in enumerate(self.folds):
                place = n * width + k
                out[place] = fold.combined(self.f, out[place], numbers[fold.input])
        return out

    def _elements(
        self, bases: Sequence[Value], totals: list[Number], lane: tuple[Value | int, Value]
    ) -> list[Number]:
        """A run of elements, block by block."""
        f, step = self.f, self.way.lanes * self.way.unroll
        begin, end = lane
        with f.loop(begin, end, BLOCK, carried=flat(totals)) as block:
            stop = f.minimum(block.index + BLOCK, end)
            vectors = block.index + ((stop - block.index) & -step)
            empty = [
                constant(f, fold.dtype, fold.identity, self.way.lanes)
                for fold in self.folds
                for _ in range(self.way.unroll)
            ]
            with f.loop(block.index, vectors, step, carried=flat(empty)) as main:
                sums = unflat(main.carried, empty)
                main.carry(*flat(self._step(bases, main.index, sums, None)))
            sums = unflat(main.carried, empty)
            left = stop - vectors
            sums = unflat(
                f.either(
                    left > 0,
                    lambda: flat(self._step(bases, vectors, sums, left)),
                    lambda: flat(sums),
                ),
                empty,
            )
            found = unflat(block.carried, totals)
            for n, fold in enumerate(self.folds):
                mine = sums[n * self.way.unroll : (n + 1) * self.way.unroll]
                found[n] = fold.combined(f, found[n], across(f, fold, mine))
            block.carry(*flat(found))
        return unflat(block.carried, totals)

    def _step(
        self, bases: Sequence[Value], index: Value, sums: list[Number], left: Value | None
    ) -> list[Number]:
        """Some vectors of elements; `left` says how many elements there are, if they are few."""
        f, out, unroll = self.f, list(sums), self.way.unroll
        for k in range(unroll):
            count = None if left is None else self.w.count(left, k)
            numbers = self._made(bases, index + k * self.way.lanes, count, self.around[0])
            for n, fold in enumerate(self.folds):
                value = numbers[fold.input]
                if count is not None:
                    empty = constant(f, fold.dtype, fold.identity, self.way.lanes)
                    value = select(f, first_lanes(f, count, self.way.lanes), value, empty)
                out[n * unroll + k] = fold.combined(f, out[n * unroll + k], value)
        return out

    def _made(
        self,
        bases: Sequence[Value],
        index: Value | int,
        count: Value | None,
        around: Numbers,
    ) -> Numbers:
        """The numbers of one vector of elements; results are written."""
        code, numbers = self.w.code, dict(around)
        reads = {item: number for number, item in enumerate(code.reads)}
        for i in self.needed:
            item = code.items[i]
            if i in numbers:
                continue
            if item is None:
                address = self.w.at(reads[i], bases[reads[i]], index)
                numbers[i] = self.w.load(reads[i], address, count)
            else:
                assert isinstance(item, Apply)
                numbers[i] = item.emit(self.f, [numbers[n] for n in item.inputs])
        for n in self.written:
            number = len(code.reads) + n
            address = self.w.at(number, bases[number], index)
            self.w.store(number, numbers[code.results[n][0]], address, count)
        return numbers


# --------------------------------------------------------------------- numbers


def flat(numbers: Sequence[Number]) -> list[Value]:
    """Numbers as values, complex ones as two."""
    return [v for n in numbers for v in (n if isinstance(n, Pair) else (n,))]


def unflat(values: Sequence[Value], like: Sequence[Number]) -> list[Number]:
    """Values as numbers of the same kinds as others."""
    found = iter(values)
    return [Pair(next(found), next(found)) if isinstance(n, Pair) else next(found) for n in like]


def across(f: Function, fold: Fold, vectors: Sequence[Number]) -> Number:
    """Vectors folded into one number: one with another, then half with half."""
    found = list(vectors)
    while len(found) > 1:
        found = [fold.combined(f, a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
    (vector,) = found
    lanes = lanes_of(vector)
    while lanes > 1:
        lanes //= 2
        low, high = (_half(f, vector, range(b, b + lanes)) for b in (0, lanes))
        vector = fold.combined(f, low, high)
    if isinstance(vector, Pair):
        return Pair(f.lane(vector.real, 0), f.lane(vector.imag, 0))
    return f.lane(vector, 0)


def _half(f: Function, number: Number, lanes: Sequence[int]) -> Number:
    if isinstance(number, Pair):
        return Pair(f.shuffle(number.real, None, lanes), f.shuffle(number.imag, None, lanes))
    return f.shuffle(number, None, lanes)


def first_lanes(f: Function, count: Value, lanes: int) -> Value:
    """A mask of the first `count` lanes, of at most as many as there are."""
    return f.first_lanes(f.convert("trunc", count, I32), lanes)


def load_scalar(f: Function, dtype: DType, address: Value) -> Number:
    """One number in memory."""
    if dtype.kind != "c":
        return loaded(f, dtype, address, 0)
    kind = stored(dtype)
    return Pair(f.load(kind, address), f.load(kind, f.element(address, 1, kind)))


def store_scalar(f: Function, dtype: DType, number: Number, address: Value) -> None:
    """Write one number."""
    if isinstance(number, Pair):
        f.store(number.real, address)
        f.store(number.imag, f.element(address, 1, stored(dtype)))
    else:
        store(f, dtype, number, address)
