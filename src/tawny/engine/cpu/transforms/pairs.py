"""Transforms of two real sequences at once, one as real and one as imaginary parts.

With Z the transform of x1 + i x2, that of x1 is X1[k] = (Z[k] + conj Z[n-k]) / 2, and that of x2
is X2[k] = (Z[k] - conj Z[n-k]) / 2i.  Columns of X2 come behind those of X1.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.transforms.butterflies import ComplexVector
from tawny.engine.cpu.transforms.lanes import (
    Lanes,
    first_lanes,
    load_block,
    load_numbers,
    store_block,
    store_numbers,
)
from tawny.engine.cpu.transforms.passes import ColumnForm
from tawny.engine.cpu.transforms.stage import COUNT, STAGE, SYMBOL, StageNumbers
from tawny.engine.llvm.ir.builder import Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import lazy_library

PAIR: Final = Names(
    (
        "source",
        "source_at",
        "source_row",
        "target",
        "target_at",
        "target_row",
        "length",
        "rows",
        "pair",
        "scale_re",
        "scale_im",
    )
)
"""Numbers of pairs: bytes of a row; the length of the transform; how many rows are given; columns
of the first of both; what results are multiplied by."""


@lazy_library
def unpair_library(module: Module, scalar: Type, target: ColumnForm, whole: bool) -> None:
    """Transforms of pairs, in blocks, as those of both: their first halves, or `whole`."""
    with module.function(SYMBOL, STAGE) as f:
        _UnpairWriter(f, scalar, target, whole=whole).write()


class _UnpairWriter:
    """Writes the stage that takes pairs apart."""

    def __init__(self, f: Function, scalar: Type, target: ColumnForm, *, whole: bool) -> None:
        self.f, self.form, self.whole = f, target, whole
        self.lanes = Lanes.of(scalar)
        given = StageNumbers(f, PAIR)
        self.source, self.target = given.place("source"), given.place("target")
        self.source_row, self.target_row = given["source_row"], given["target_row"]
        self.length, self.pair, self.count = given["length"], given["pair"], given.cell(COUNT)
        self.scale = [
            f.splat(given.real(f"scale_{part}", scalar), self.lanes.count) for part in ("re", "im")
        ]

    def write(self) -> None:
        """Row by row with the row that mirrors it."""
        f, lanes, n = self.f, self.lanes, self.length
        first = f.minimum(self.count, self.pair)
        with f.loop(0, n.shifted_down(1) + 1) as row:
            k = row.index
            mirror = f.select(k.equals(0), 0, n - k)
            with f.loop(0, (first + (lanes.count - 1)).unsigned_over(lanes.count)) as block:
                one, two = self._take_apart(k, mirror, block.index)
                self._leave(k, block.index, one, two)
                if self.whole:
                    with f.when(k.differs(mirror)):
                        self._leave(
                            mirror, block.index, *[ComplexVector(x.re, -x.im) for x in (one, two)]
                        )

    def _take_apart(
        self, k: Value, mirror: Value, block: Value
    ) -> tuple[ComplexVector, ComplexVector]:
        f, lanes = self.f, self.lanes
        re, im = self.scale
        a, b = (
            load_block(f, lanes, f.offset(self.source, row * self.source_row + block * lanes.block))
            for row in (k, mirror)
        )
        one = ComplexVector((a.re + b.re) * re, (a.im - b.im) * im)
        two = ComplexVector((a.im + b.im) * re, (b.re - a.re) * im)
        return one, two

    def _leave(self, row: Value, block: Value, one: ComplexVector, two: ComplexVector) -> None:
        f, lanes = self.f, self.lanes
        place = f.offset(self.target, row * self.target_row + block * lanes.block)
        other = f.offset(place, self.pair * lanes.number)
        if self.form is ColumnForm.BLOCKS:
            store_block(f, lanes, one, place)
            store_block(f, lanes, two, other)
            return
        first = block * lanes.count
        counts = f.minimum(self.count, self.pair) - first, self.count - self.pair - first

        def write(*, masked: bool) -> list[Value]:
            for number, where, count in zip((one, two), (place, other), counts, strict=True):
                store_numbers(f, lanes, number, where, count * 2 if masked else None)
            return []

        whole = ~(f.minimum(*counts) < lanes.count)
        f.either(whole, lambda: write(masked=False), lambda: write(masked=True))


@lazy_library
def pair_library(module: Module, scalar: Type, source: ColumnForm) -> None:
    """First halves of transforms of real numbers as conjugated transforms of pairs, in blocks.

    Rows that are not given are zero.
    """
    with module.function(SYMBOL, STAGE) as f:
        _PairWriter(f, scalar, source).write()


class _PairWriter:
    """Writes the stage that makes pairs."""

    def __init__(self, f: Function, scalar: Type, source: ColumnForm) -> None:
        self.f, self.form = f, source
        self.lanes = Lanes.of(scalar)
        given = StageNumbers(f, PAIR)
        self.source, self.target = given.place("source"), given.place("target")
        self.source_row, self.target_row = given["source_row"], given["target_row"]
        self.length, self.rows = given["length"], given["rows"]
        self.pair, self.count = given["pair"], given.cell(COUNT)

    def write(self) -> None:
        """Row by row with the row that mirrors it; where both are one, the number is real."""
        f, lanes, n = self.f, self.lanes, self.length
        first = f.minimum(self.count, self.pair)
        with f.loop(0, n.shifted_down(1) + 1) as row:
            k = row.index
            mirror = f.select(k.equals(0), 0, n - k)
            alone = k.equals(mirror)
            with f.loop(0, (first + (lanes.count - 1)).unsigned_over(lanes.count)) as block:
                one, two = (self._real_if(alone, x) for x in self._take(k, block.index))
                self._put(k, block.index, ComplexVector(one.re - two.im, -(one.im + two.re)))
                self._put(mirror, block.index, ComplexVector(one.re + two.im, one.im - two.re))

    def _real_if(self, condition: Value, x: ComplexVector) -> ComplexVector:
        """A number without its imaginary part, whatever that is, where a condition holds."""
        return ComplexVector(x.re, self.f.select(condition, 0.0, x.im))

    def _take(self, row: Value, block: Value) -> tuple[ComplexVector, ComplexVector]:
        f, lanes = self.f, self.lanes
        place = f.offset(self.source, row * self.source_row + block * lanes.block)
        other = f.offset(place, self.pair * lanes.number)
        first = block * lanes.count
        if self.form is ColumnForm.BLOCKS:
            # What belongs to no column of the second half was perhaps never written.
            there = first_lanes(f, lanes, self.count - self.pair - first)
            parts = [f.select(there, part, 0.0) for part in load_block(f, lanes, other)]
            return load_block(f, lanes, place), ComplexVector(*parts)
        there = row < self.rows
        counts = [
            f.select(there, (count - first) * 2, 0)
            for count in (f.minimum(self.count, self.pair), self.count - self.pair)
        ]
        one, two = (
            load_numbers(f, lanes, where, count)
            for where, count in zip((place, other), counts, strict=True)
        )
        return one, two

    def _put(self, row: Value, block: Value, number: ComplexVector) -> None:
        place = self.f.offset(self.target, row * self.target_row + block * self.lanes.block)
        store_block(self.f, self.lanes, number, place)
