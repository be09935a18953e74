"""Transforms of real numbers, many at once: a lane has nothing to do with its neighbours.

Of even length n = 2 h they are complex transforms of half the length, as `halves` says: row j of
those has the elements 2 j as real and 2 j + 1 as imaginary parts.  Of odd length they are complex
transforms of which a half says all.  Two sequences are not transformed as one complex one: what
rounds in the larger one, its infinities and its NaN would be seen in the other.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.transforms.butterflies import ComplexVector, multiply
from tawny.engine.cpu.transforms.lanes import (
    Lanes,
    load_block,
    load_numbers,
    store_block,
    store_numbers,
)
from tawny.engine.cpu.transforms.passes import ColumnForm
from tawny.engine.cpu.transforms.stage import COUNT, STAGE, SYMBOL, StageNumbers
from tawny.engine.llvm.ir.builder import Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import lazy_library

SPECTRUM: Final = Names(
    (
        "source",
        "source_at",
        "source_row",
        "target",
        "target_at",
        "target_row",
        "length",
        "rows",
        "factors",
        "scale_re",
        "scale_im",
    )
)
"""Numbers of a spectrum: bytes of a row; the length of the real transform; how many rows are given;
the powers of its root; what results are multiplied by."""


@lazy_library
def untangle_rows_library(module: Module, scalar: Type, target: ColumnForm, whole: bool) -> None:
    """Transforms of real numbers from complex ones of half the length: first halves, or `whole`."""
    with module.function(SYMBOL, STAGE) as f:
        _SpectrumWriter(f, scalar, target).untangle(whole=whole)


@lazy_library
def tangle_rows_library(module: Module, scalar: Type, source: ColumnForm) -> None:
    """From first halves of transforms the conjugates of complex ones of half the length."""
    with module.function(SYMBOL, STAGE) as f:
        _SpectrumWriter(f, scalar, source).tangle()


@lazy_library
def extend_rows_library(module: Module, scalar: Type, source: ColumnForm) -> None:
    """All of transforms of odd length, conjugated, from their first halves."""
    with module.function(SYMBOL, STAGE) as f:
        _SpectrumWriter(f, scalar, source).extend()


class _SpectrumWriter:
    """Writes stages that go through spectra row by row, each with the row that mirrors it.

    A number that mirrors itself is real: nothing is taken of its imaginary part.
    """

    def __init__(self, f: Function, scalar: Type, form: ColumnForm) -> None:
        self.f, self.form = f, form
        self.lanes = Lanes.of(scalar)
        given = StageNumbers(f, SPECTRUM)
        self.source, self.target = given.place("source"), given.place("target")
        self.source_row, self.target_row = given["source_row"], given["target_row"]
        self.length, self.rows, self.count = given["length"], given["rows"], given.cell(COUNT)
        self.half = self.length.shifted_down(1)
        self.factors = given.table("factors")
        self.scale = [
            f.splat(given.real(f"scale_{part}", scalar), self.lanes.count) for part in ("re", "im")
        ]
        self.blocks = (self.count + (self.lanes.count - 1)).unsigned_over(self.lanes.count)

    def untangle(self, *, whole: bool) -> None:
        """X[k] = E + w O and X[h-k] = conj(E - w O), where `halves` says what these are."""
        f, h, n = self.f, self.half, self.length
        re, im = self.scale
        with f.loop(0, h.shifted_down(1) + 1) as row:
            k, is_first = row.index, row.index.equals(0)
            w = self._factor(k)
            mirror = f.select(is_first, 0, h - k)
            with f.loop(0, self.blocks) as block:
                a, b = (self._load_block(number, block.index) for number in (k, mirror))
                even = ComplexVector(a.re + b.re, a.im - b.im)
                odd = ComplexVector(a.im + b.im, b.re - a.re)
                odd = multiply(f, self._real_if(is_first, odd), w)
                low, high = (
                    self._real_if(is_first, number)
                    for number in (
                        ComplexVector((even.re + odd.re) * re, (even.im + odd.im) * im),
                        ComplexVector((even.re - odd.re) * re, (odd.im - even.im) * im),
                    )
                )
                self._leave(k, block.index, low)
                self._leave(h - k, block.index, high)
                if whole:
                    with f.when(~is_first):
                        self._leave(n - k, block.index, ComplexVector(low.re, -low.im))
                        self._leave(h + k, block.index, ComplexVector(high.re, -high.im))

    def tangle(self) -> None:
        """Z[k] = X[k] + conj X[h-k] + i conj(w) (X[k] - conj X[h-k]), twice as large as it was."""
        f, h = self.f, self.half
        with f.loop(0, h.shifted_down(1) + 1) as row:
            k, is_first = row.index, row.index.equals(0)
            w = self._factor(k)
            with f.loop(0, self.blocks) as block:
                a, b = (
                    self._real_if(is_first, self._take(number, block.index))
                    for number in (k, h - k)
                )
                even = ComplexVector(a.re + b.re, a.im - b.im)
                odd = ComplexVector(a.re - b.re, a.im + b.im)
                odd = multiply(f, odd, ComplexVector(w.re, -w.im))
                odd = self._real_if(is_first, odd)
                low = ComplexVector(even.re - odd.im, -(even.im + odd.re))
                self._put(k, block.index, low)
                with f.when(~is_first):
                    high = ComplexVector(even.re + odd.im, even.im - odd.re)
                    self._put(h - k, block.index, high)

    def extend(self) -> None:
        """Each number, conjugated, and as it is where it is mirrored."""
        f = self.f
        with f.loop(0, self.half + 1) as row:
            k, is_first = row.index, row.index.equals(0)
            with f.loop(0, self.blocks) as block:
                number = self._real_if(is_first, self._take(k, block.index))
                self._put(k, block.index, ComplexVector(number.re, -number.im))
                with f.when(~is_first):
                    self._put(self.length - k, block.index, number)

    def _factor(self, power: Value) -> ComplexVector:
        f, scalar = self.f, self.lanes.scalar
        place = f.element(self.factors, power * 2, scalar)
        parts = [f.load(scalar, f.element(place, part, scalar)) for part in range(2)]
        return ComplexVector(*[f.splat(part, self.lanes.count) for part in parts])

    def _real_if(self, condition: Value, x: ComplexVector) -> ComplexVector:
        """A number without its imaginary part, whatever that is, where a condition holds."""
        return ComplexVector(x.re, self.f.select(condition, 0.0, x.im))

    def _load_block(self, row: Value, block: Value) -> ComplexVector:
        place = self.f.offset(self.source, row * self.source_row + block * self.lanes.block)
        return load_block(self.f, self.lanes, place)

    def _take(self, row: Value, block: Value) -> ComplexVector:
        """Numbers of a row of the operand; zeros where it is not given."""
        if self.form is ColumnForm.BLOCKS:
            return self._load_block(row, block)
        f, lanes = self.f, self.lanes
        place = f.offset(self.source, row * self.source_row + block * lanes.block)
        reals = (self.count - block * lanes.count) * 2
        return load_numbers(f, lanes, place, f.select(row < self.rows, reals, 0))

    def _put(self, row: Value, block: Value, number: ComplexVector) -> None:
        place = self.f.offset(self.target, row * self.target_row + block * self.lanes.block)
        store_block(self.f, self.lanes, number, place)

    def _leave(self, row: Value, block: Value, number: ComplexVector) -> None:
        """Numbers of a row of the result."""
        if self.form is ColumnForm.BLOCKS:
            self._put(row, block, number)
            return
        f, lanes = self.f, self.lanes
        place = f.offset(self.target, row * self.target_row + block * lanes.block)
        left = self.count - block * lanes.count

        def write(reals: Value | None) -> list[Value]:
            store_numbers(f, lanes, number, place, reals)
            return []

        f.either(left < lanes.count, lambda: write(left * 2), lambda: write(None))
