"""Stages that exchange rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.transforms.butterflies import ComplexVector, multiply
from tawny.engine.cpu.transforms.lanes import (
    Lanes,
    alternate,
    first_lanes,
    load_block,
    load_vector,
    split,
    store_block,
    store_vector,
    transpose,
)
from tawny.engine.cpu.transforms.passes import ColumnForm
from tawny.engine.cpu.transforms.stage import COUNT, STAGE, SYMBOL, TILE, StageNumbers
from tawny.engine.llvm.ir.builder import I64, Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import lazy_library

TURN: Final = Names(
    (
        "source",
        "source_at",
        "source_row",
        "target",
        "target_at",
        "target_row",
        "row_blocks",
        "blocks",
        "factors",
    )
)
"""Numbers of a turn: bytes of a row, rows in blocks as high as they are wide, blocks of a row."""


@lazy_library
def turn_library(module: Module, scalar: Type) -> None:
    """Blocks times factors, rows and columns exchanged; the factors lie as the source does."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, TURN), Lanes.of(scalar)
        source, target, table = given.place("source"), given.place("target"), given.table("factors")
        source_row, target_row = given["source_row"], given["target_row"]
        blocks, row_blocks, count = given["blocks"], given["row_blocks"], lanes.count
        with f.loop(0, blocks) as j, f.loop(0, row_blocks) as i:
            shift = i.index * source_row * count + j.index * lanes.block
            base, factors = f.offset(source, shift), f.offset(table, shift)
            out = f.offset(target, j.index * target_row * count + i.index * lanes.block)
            for part in range(2):
                square: list[Value] = []
                for row in range(count):
                    step = source_row * row
                    factor = load_block(f, lanes, f.offset(factors, step))
                    number = multiply(f, load_block(f, lanes, f.offset(base, step)), factor)
                    square.append(number[part])
                for row, vector in enumerate(transpose(f, square)):
                    f.store(vector, f.offset(out, target_row * row + part * lanes.nbytes))


ROWS: Final = Names(
    (
        "source",
        "source_at",
        "source_row",
        "target",
        "target_at",
        "target_row",
        "columns",
        "turn",
        "scale_re",
        "scale_im",
        "near",
        "low",
        "high",
        "low_bits",
        "length",
        "per_tile",
    )
)
"""Numbers of rows of the program's memory: bytes of a row there, and of blocks; its columns.  The
last are those of factors: see `_Rotation`."""


@lazy_library
def rows_in_library(module: Module, scalar: Type, form: ColumnForm) -> None:
    """Rows of complex numbers, or of real ones, as columns of blocks."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, ROWS), Lanes.of(scalar)
        writer = _RowsIn(f, given, lanes, real=form is ColumnForm.REALS)
        count = given.cell(COUNT)
        with f.loop(0, count, lanes.count) as i:
            target = f.offset(writer.target, i.index.unsigned_over(lanes.count) * lanes.block)
            writer.write(i.index, count - 1, target)


class _RowsIn:
    """Writes what brings as many rows as there are lanes."""

    def __init__(self, f: Function, given: StageNumbers, lanes: Lanes, *, real: bool) -> None:
        self.f, self.lanes, self.real = f, lanes, real
        self.step = lanes.count if real else lanes.count // 2
        self.source, self.target = given.place("source"), given.place("target")
        self.row, self.block_row = given["source_row"], given["target_row"]
        self.columns = given["columns"]
        self.turn = f.splat(given.real("turn", lanes.scalar), lanes.count)

    def write(self, first: Value, last: Value, target: Value) -> None:
        """Rows from the first on; where there are none, the last is taken once more."""
        f, lanes, step = self.f, self.lanes, self.step
        places = self._places(first, last)
        bring = self._bring_reals if self.real else self._bring_numbers
        whole, rest = self.columns.unsigned_over(step), self.columns.unsigned_rest(step)
        with f.loop(0, whole) as j:
            here = [f.offset(place, j.index * lanes.nbytes) for place in places]
            bring(here, None, f.offset(target, j.index * self.block_row * step))
        with f.when(rest > 0):
            here = [f.offset(place, whole * lanes.nbytes) for place in places]
            mask = first_lanes(f, lanes, rest * (lanes.count // step))
            bring(here, mask, f.offset(target, whole * self.block_row * step))

    def _places(self, first: Value, last: Value) -> list[Value]:
        """Where some rows begin."""
        rows = [self.f.minimum(first + lane, last) for lane in range(self.lanes.count)]
        return [self.f.offset(self.source, row * self.row) for row in rows]

    def _bring_numbers(self, places: Sequence[Value], mask: Value | None, target: Value) -> None:
        """Complex numbers: a vector has half as many as there are lanes."""
        f, lanes, step = self.f, self.lanes, self.step
        vectors = [load_vector(f, lanes, place, mask) for place in places]
        halves = transpose(f, vectors[:step], 2), transpose(f, vectors[step:], 2)
        for column, (low, high) in enumerate(zip(*halves, strict=True)):
            number = split(f, low, high)
            turned = ComplexVector(number.re, number.im * self.turn)
            store_block(f, lanes, turned, f.offset(target, self.block_row * column))

    def _bring_reals(self, places: Sequence[Value], mask: Value | None, target: Value) -> None:
        """Real numbers, whose imaginary parts are zero."""
        f, lanes = self.f, self.lanes
        square = transpose(f, [load_vector(f, lanes, place, mask) for place in places])
        for column, vector in enumerate(square):
            number = ComplexVector(vector, f.constant(lanes.vector, 0))
            store_block(f, lanes, number, f.offset(target, self.block_row * column))


@lazy_library
def rows_out_library(module: Module, scalar: Type, form: ColumnForm, rotated: bool) -> None:
    """Columns of blocks as rows of complex numbers, or of their real parts.

    Numbers are scaled or, if `rotated`, multiplied by the roots of unity of row times column.
    """
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, ROWS), Lanes.of(scalar)
        writer = _RowsOut(f, given, lanes, real=form is ColumnForm.REALS, rotated=rotated)
        count = given.cell(COUNT)
        with f.loop(0, count, lanes.count) as i:
            writer.write(i.index, count)


class _Rotation:
    """The factors exp(-2 pi i k c / n) of a row k and of the columns c of its blocks.

    For the first column of a block the power k c, less whole turns, is looked up in two tables, of
    its lower bits and of the others; the third table has what is between that column and its
    neighbours in the block, for each row.
    """

    def __init__(self, f: Function, given: StageNumbers, lanes: Lanes) -> None:
        self.f, self.lanes = f, lanes
        self.low, self.high, self.near = (given.table(name) for name in ("low", "high", "near"))
        self.low_bits, self.length = given["low_bits"], given["length"]
        self.first = given.cell(TILE) * given["per_tile"]

    def step(self, column: Value) -> Value:
        """What the power grows by from row to row."""
        return self.first + column

    def factor(self, power: Value, row: Value) -> ComplexVector:
        """The factors of a block, given the power of its first column."""
        f, lanes = self.f, self.lanes
        mask = (power.of(1) << self.low_bits) - 1
        a = self._entry(self.high, power.shifted_down(self.low_bits))
        b = self._entry(self.low, power & mask)
        whole = multiply(f, a, b)
        wide = ComplexVector(f.splat(whole.re, lanes.count), f.splat(whole.im, lanes.count))
        near = load_block(f, lanes, f.offset(self.near, row * lanes.block))
        return multiply(f, near, wide)

    def next(self, power: Value, step: Value) -> Value:
        """The power of the next row, less whole turns."""
        more = power + step
        return self.f.select(more < self.length, more, more - self.length)

    def _entry(self, table: Value, number: Value) -> ComplexVector:
        f, scalar = self.f, self.lanes.scalar
        place = f.element(table, number * 2, scalar)
        return ComplexVector(f.load(scalar, place), f.load(scalar, f.element(place, 1, scalar)))


class _RowsOut:
    """Writes what leaves as many rows as there are lanes."""

    def __init__(
        self, f: Function, given: StageNumbers, lanes: Lanes, *, real: bool, rotated: bool
    ) -> None:
        self.f, self.lanes, self.real = f, lanes, real
        self.source, self.target = given.place("source"), given.place("target")
        self.block_row, self.row = given["source_row"], given["target_row"]
        self.columns = given["columns"]
        self.scale = ComplexVector(
            *[f.splat(given.real(f"scale_{p}", lanes.scalar), lanes.count) for p in ("re", "im")]
        )
        self.rotation = _Rotation(f, given, lanes) if rotated else None

    def write(self, first: Value, end: Value) -> None:
        """Rows from the first on, none from the end on."""
        f, lanes = self.f, self.lanes
        step = lanes.count if self.real else lanes.count // 2
        source = f.offset(self.source, first.unsigned_over(lanes.count) * lanes.block)
        target = f.offset(self.target, first * self.row)
        left = end - first
        whole = self.columns.unsigned_over(step)
        rest = self.columns.unsigned_rest(step)
        power = f.constant(I64, 0)
        turn = power if self.rotation is None else self.rotation.step(first)

        def squares(rows: Value | None) -> list[Value]:
            """All columns of all rows, or of those that there are."""
            with f.loop(0, whole, carried=[power]) as j:
                here = f.offset(source, j.index * self.block_row * step)
                vectors = self._square(here, j.index * step, step, j.carried[0], turn)
                self._leave(vectors, f.offset(target, j.index * lanes.nbytes), rows, None)
                j.carry(self._advance(j.carried[0], turn, step))
            with f.when(rest > 0):
                here = f.offset(source, whole * self.block_row * step)
                vectors = self._square(here, whole * step, step, j.carried[0], turn)
                mask = first_lanes(f, lanes, rest * (lanes.count // step))
                self._leave(vectors, f.offset(target, whole * lanes.nbytes), rows, mask)
            return []

        f.either(left < lanes.count, lambda: squares(left), lambda: squares(None))

    def _advance(self, power: Value, turn: Value, rows: int) -> Value:
        """The power some rows further on."""
        if self.rotation is not None:
            for _ in range(rows):
                power = self.rotation.next(power, turn)
        return power

    def _square(
        self,
        source: Value,
        first: Value,
        step: int,
        power: Value,
        turn: Value,
    ) -> list[Value]:
        """A vector for each row, made of as many columns of blocks as that holds."""
        f, lanes = self.f, self.lanes
        numbers: list[ComplexVector] = []
        for column in range(step):
            number = load_block(f, lanes, f.offset(source, self.block_row * column))
            if self.rotation is not None:
                number = multiply(f, number, self.rotation.factor(power, first + column))
                power = self.rotation.next(power, turn)
            else:
                number = ComplexVector(number.re * self.scale.re, number.im * self.scale.im)
            numbers.append(number)
        if self.real:
            return transpose(f, [number.re for number in numbers])
        both = [alternate(f, number) for number in numbers]
        return [
            *transpose(f, [low for low, _ in both], 2),
            *transpose(f, [high for _, high in both], 2),
        ]

    def _leave(
        self, vectors: Sequence[Value], target: Value, rows: Value | None, mask: Value | None
    ) -> None:
        f = self.f
        for number, vector in enumerate(vectors):
            place = f.offset(target, self.row * number)
            if rows is None:
                store_vector(f, vector, place, mask)
            else:
                with f.when(rows > number):
                    store_vector(f, vector, place, mask)
