"""One pass of a transform: butterflies along one factor of its length, many transforms at a time.

With s the product of the factors of the passes before and m that of those after, butterfly (p, q)
takes the rows q + s (p + k m) for its numbers k, and its results go to the rows q + s (r p + k),
all but the first times exp(-2 pi i p k / (r m)).  So passes one after the other put the transform
in its natural order (Stockham).  A row has many columns, each of another transform.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.transforms.butterflies import BUTTERFLIES, ComplexVector, multiply
from tawny.engine.cpu.transforms.lanes import (
    Lanes,
    first_lanes,
    load_block,
    load_numbers,
    load_vector,
    store_block,
    store_numbers,
    store_vector,
)
from tawny.engine.cpu.transforms.stage import COUNT, STAGE, SYMBOL, TILE, StageNumbers
from tawny.engine.llvm.ir.builder import Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import lazy_library


class ColumnForm(enum.Enum):
    """A form of the columns of a row in memory."""

    BLOCKS = 0
    NUMBERS = 1
    """Complex numbers as the program's memory has them."""
    REALS = 2
    """Real numbers: nothing is said of imaginary parts, which are zero when read."""
    HALVES = 3
    """Two rows of real numbers, the real and the imaginary parts."""


class Factors(enum.Enum):
    """By what results are multiplied."""

    NONE = 0
    ROWS = 1
    """All columns of a row by one factor; the first row of a butterfly by none."""
    BLOCKS = 2
    """Each column of each row by its own."""


class PassCode(NamedTuple):
    """The choices that the code of a pass depends on.

    Elements of a limited source or target are counted through all rows; those from a limit on are
    zero, or not written.
    """

    radix: int
    scalar: Type
    source: ColumnForm
    target: ColumnForm
    factors: Factors
    limited_source: bool = False
    limited_target: bool = False


PASS: Final = Names(
    (
        "source",
        "source_at",
        "source_row",
        "source_unit",
        "source_tile",
        "source_limit",
        "target",
        "target_at",
        "target_row",
        "target_unit",
        "target_tile",
        "target_limit",
        "p_count",
        "q_count",
        "columns",
        "between",
        "factors",
        "turn",
        "scale_re",
        "scale_im",
    )
)
"""Numbers of a pass: bytes of a row, its elements and those of a tile as limits count them;
`columns` is 0 where the frame says how many there are; `between` is how many bytes from real parts
to imaginary ones that are rows of their own.  What is read is conjugated where `turn` is -1; what
is written to the program's memory is scaled."""


@lazy_library
def pass_library(module: Module, code: PassCode) -> None:
    """The stage of a code."""
    with module.function(SYMBOL, STAGE) as f:
        _PassWriter(f, code).write()


class _ButterflyRows(NamedTuple):
    """The rows of a butterfly: the address of the first and their numbers."""

    first: Value
    step: Value
    row: Value
    row_step: Value
    """The number of the first row, and how many rows are between two of them."""


class _PassWriter:
    """Writes a pass."""

    def __init__(self, f: Function, code: PassCode) -> None:
        self.f, self.code = f, code
        given = self.given = StageNumbers(f, PASS)
        self.lanes = Lanes.of(code.scalar)
        self.source, self.target = given.place("source"), given.place("target")
        self.rows = {name: given[f"{name}_row"] for name in ("source", "target")}
        tile = given.cell(TILE)
        self.limits = {
            name: (
                given[f"{name}_unit"],
                given[f"{name}_limit"] - tile * given[f"{name}_tile"],
            )
            for name in ("source", "target")
        }
        columns = given["columns"]
        self.columns = f.select(columns.equals(0), given.cell(COUNT), columns)
        self.p_count, self.q_count = given["p_count"], given["q_count"]
        self.between = given["between"]
        self.factors = given.table("factors")
        self.turn, re, im = (
            f.splat(given.real(name, code.scalar), self.lanes.count)
            for name in ("turn", "scale_re", "scale_im")
        )
        self.scale = ComplexVector(re, im)

    def write(self) -> None:
        """Loops over butterflies."""
        f, code, q_count = self.f, self.code, self.q_count
        with f.loop(0, self.p_count) as p:
            factors = self._load_row_factors(p.index)
            with f.loop(0, q_count) as q:
                row = q.index + q_count * p.index
                source = self._access("source", self.source, row, q_count * self.p_count)
                row = q.index + q_count * p.index * code.radix
                target = self._access("target", self.target, row, q_count)
                self._write_columns(source, target, factors)

    def _access(self, name: str, base: Value, row: Value, step: Value) -> _ButterflyRows:
        nbytes = self.rows[name]
        return _ButterflyRows(self.f.offset(base, row * nbytes), step * nbytes, row, step)

    def _write_columns(
        self,
        source: _ButterflyRows,
        target: _ButterflyRows,
        factors: list[ComplexVector],
    ) -> None:
        """A loop over the blocks of a row: without masks where all columns are there."""
        f, code, lanes, columns = self.f, self.code, self.lanes, self.columns

        def all_of(count: Value, *, masked: bool) -> list[Value]:
            with f.loop(0, count) as block:
                self._write_butterfly(source, target, factors, block.index, masked=masked)
            return []

        blocks = (columns + (lanes.count - 1)).unsigned_over(lanes.count)
        forms = {code.source, code.target}
        if code.limited_source or code.limited_target:
            all_of(blocks, masked=True)
        elif forms == {ColumnForm.BLOCKS}:
            all_of(blocks, masked=False)
        else:
            whole = columns.unsigned_over(lanes.count)
            all_of(whole, masked=False)
            with f.when(whole < blocks):
                self._write_butterfly(source, target, factors, whole, masked=True)

    def _load_row_factors(self, p: Value) -> list[ComplexVector]:
        """The factors of results; those of rows are the same for all columns."""
        code, f = self.code, self.f
        if code.factors is not Factors.ROWS:
            return []
        count = max(code.radix - 1, 1)
        base = f.element(self.factors, p * (2 * count), code.scalar)
        found = [f.load(code.scalar, f.element(base, i, code.scalar)) for i in range(2 * count)]
        wide = [f.splat(number, self.lanes.count) for number in found]
        return [ComplexVector(*wide[i : i + 2]) for i in range(0, 2 * count, 2)]

    def _write_butterfly(
        self,
        source: _ButterflyRows,
        target: _ButterflyRows,
        factors: list[ComplexVector],
        block: Value,
        *,
        masked: bool,
    ) -> None:
        code, f = self.code, self.f
        x = [self._load(source, k, block, masked=masked) for k in range(code.radix)]
        y = BUTTERFLIES[code.radix](f, x)
        if code.factors is Factors.BLOCKS:
            y = [
                multiply(f, number, self._load_block_factor(target, k, block))
                for k, number in enumerate(y)
            ]
        else:
            first = len(y) - len(factors)
            y[first:] = [multiply(f, v, w) for v, w in zip(y[first:], factors, strict=True)]
        for k, number in enumerate(y):
            self._store(target, k, block, number, masked=masked)

    def _load_block_factor(self, target: _ButterflyRows, k: int, block: Value) -> ComplexVector:
        """The factors of a block lie as the result's blocks do, from row 0 on."""
        width = (self.columns + (self.lanes.count - 1)).unsigned_over(self.lanes.count)
        number = (target.row + target.row_step * k) * width + block
        place = self.f.offset(self.factors, number * self.lanes.block)
        return load_block(self.f, self.lanes, place)

    def _load(self, source: _ButterflyRows, k: int, block: Value, *, masked: bool) -> ComplexVector:
        code, f, lanes = self.code, self.f, self.lanes
        place = f.offset(source.first, source.step * k)
        first = block * lanes.count
        limit = self._count_left("source", source, k, first) if code.limited_source else None
        match code.source:
            case ColumnForm.BLOCKS:
                number = load_block(f, lanes, f.offset(place, block * lanes.block))
                if code.radix > 1:
                    return number
            case ColumnForm.NUMBERS:
                reals = self._count(first * 2, self.columns * 2, limit) if masked else None
                number = load_numbers(f, lanes, f.offset(place, block * lanes.block), reals)
            case ColumnForm.REALS:
                count = self._count(first, self.columns, limit) if masked else None
                mask = None if count is None else first_lanes(f, lanes, count)
                re = load_vector(f, lanes, f.offset(place, block * lanes.nbytes), mask)
                return ComplexVector(re, f.constant(lanes.vector, 0))
            case ColumnForm.HALVES:
                masks = self._half_masks("source", first, limit) if masked else (None, None)
                here = f.offset(place, block * lanes.nbytes)
                places = here, f.offset(here, self.between)
                return ComplexVector(
                    *[
                        load_vector(f, lanes, there, mask)
                        for there, mask in zip(places, masks, strict=True)
                    ]
                )
        return ComplexVector(number.re, number.im * self.turn)

    def _store(
        self, target: _ButterflyRows, k: int, block: Value, number: ComplexVector, *, masked: bool
    ) -> None:
        code, f, lanes = self.code, self.f, self.lanes
        place = f.offset(target.first, target.step * k)
        first = block * lanes.count
        limit = self._count_left("target", target, k, first) if code.limited_target else None
        if code.target is ColumnForm.BLOCKS:
            store_block(f, lanes, number, f.offset(place, block * lanes.block))
            return
        number = ComplexVector(number.re * self.scale.re, number.im * self.scale.im)
        match code.target:
            case ColumnForm.NUMBERS:
                reals = self._count(first * 2, self.columns * 2, limit) if masked else None
                store_numbers(f, lanes, number, f.offset(place, block * lanes.block), reals)
            case ColumnForm.REALS:
                count = self._count(first, self.columns, limit) if masked else None
                mask = None if count is None else first_lanes(f, lanes, count)
                store_vector(f, number.re, f.offset(place, block * lanes.nbytes), mask)
            case ColumnForm.HALVES:
                masks = self._half_masks("target", first, limit) if masked else (None, None)
                here = f.offset(place, block * lanes.nbytes)
                places = here, f.offset(here, self.between)
                for part, there, mask in zip(number, places, masks, strict=True):
                    store_vector(f, part, there, mask)

    def _count_left(self, name: str, access: _ButterflyRows, k: int, first: Value) -> Value:
        """How many elements are left, from a block's first on, up to the limit."""
        unit, limit = self.limits[name]
        taken = first * 2 if self._form(name) is ColumnForm.NUMBERS else first
        return limit - (access.row + access.row_step * k) * unit - taken

    def _form(self, name: str) -> ColumnForm:
        return self.code.source if name == "source" else self.code.target

    def _count(self, first: Value, columns: Value, limit: Value | None) -> Value:
        count = columns - first
        return count if limit is None else self.f.minimum(count, limit)

    def _half_masks(self, name: str, first: Value, limit: Value | None) -> tuple[Value, Value]:
        """Masks of a block of two rows, which a limit counts as one."""
        unit, _ = self.limits[name]
        limits = limit, None if limit is None else limit - unit.shifted_down(1)
        low, high = (
            first_lanes(self.f, self.lanes, self._count(first, self.columns, some))
            for some in limits
        )
        return low, high
