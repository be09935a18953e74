"""Real sequences of even length n = 2 h by complex transforms of half the length.

With z[j] = x[2j] + i x[2j+1] and Z its transform, E[k] = (Z[k] + conj Z[h-k]) / 2 is the transform
of the even elements and O[k] = (Z[k] - conj Z[h-k]) / 2i that of the odd ones: the transform of x
is X[k] = E[k] + w O[k] and X[h-k] = conj(E[k] - w O[k]), with w = exp(-2 pi i k / n).  The way back
is Z[k] = (X[k] + conj X[h-k]) / 2 + i conj(w) (X[k] - conj X[h-k]) / 2.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.transforms.butterflies import ComplexVector, multiply
from tawny.engine.cpu.transforms.lanes import (
    Lanes,
    alternate,
    load_block,
    load_vector,
    reverse,
    split,
    store_block,
    store_numbers,
    store_vector,
)
from tawny.engine.cpu.transforms.stage import COUNT, STAGE, SYMBOL, TILE, StageNumbers
from tawny.engine.llvm.ir.builder import I32, I64, Function, Module, Type, Value
from tawny.engine.llvm.runtime.library import lazy_library

HALF: Final = Names(
    (
        "source",
        "source_at",
        "target",
        "target_at",
        "length",
        "limit",
        "rows",
        "columns",
        "row_length",
        "target_row",
        "count",
        "per_tile",
        "chunk",
        "near",
        "far",
        "scale_re",
        "scale_im",
    )
)
"""Numbers of halves: the length h, or n where nothing is halved; how many numbers are given; rows
of the blocks that are made, their columns, and numbers from one row to the next; mirrored pairs,
and how many of them, or of columns, a tile has; how many neighbours share a factor from the table
`far`, that is multiplied by those of the table `near`.  Columns or pairs are 0 where the frame
counts them."""


def _count(given: StageNumbers, name: str) -> Value:
    """Columns or pairs of a tile."""
    number = given[name]
    return given.f.select(number.equals(0), given.cell(COUNT), number)


class _Mirror:
    """Numbers of the program's memory and those that mirror them."""

    def __init__(self, f: Function, lanes: Lanes, source: Value, length: Value) -> None:
        self.f, self.lanes, self.source, self.length = f, lanes, source, length

    def forward(self, first: Value, end: Value) -> ComplexVector:
        """The numbers from the first on; 0 from the end on."""
        f, lanes = self.f, self.lanes
        place = f.offset(self.source, first * lanes.number)
        vectors = [
            load_vector(
                f, lanes, f.offset(place, half * lanes.nbytes), self._mask_below(half, end - first)
            )
            for half in range(2)
        ]
        return split(f, *vectors)

    def backward(self, first: Value, low: Value, end: Value) -> ComplexVector:
        """For each number from the first on, the one that mirrors it; 0 outside `low` to `end`."""
        f, lanes = self.f, self.lanes
        begin = self.length - first - (lanes.count - 1)
        place = f.offset(self.source, begin * lanes.number)
        vectors: list[Value] = []
        for half in range(2):
            below, above = self._mask_below(half, end - begin), ~self._mask_below(half, low - begin)
            vectors.append(
                load_vector(f, lanes, f.offset(place, half * lanes.nbytes), below & above)
            )
        number = split(f, *vectors)
        return ComplexVector(reverse(f, number.re), reverse(f, number.im))

    def store_backward(
        self, target: Value, first: Value, count: Value, number: ComplexVector
    ) -> None:
        """Write the numbers that mirror the first ones from `first` on, as many as are counted."""
        f, lanes = self.f, self.lanes
        begin = self.length - first - (lanes.count - 1)
        place = f.offset(target, begin * lanes.number)
        turned = ComplexVector(reverse(f, number.re), reverse(f, number.im))
        for half, vector in enumerate(alternate(f, turned)):
            mask = ~self._mask_below(half, lanes.count - count)
            store_vector(f, vector, f.offset(place, half * lanes.nbytes), mask)

    def _mask_below(self, half: int, count: Value) -> Value:
        """Which elements of half of a block's numbers belong to the first `count` of all."""
        f, n = self.f, self.lanes.count
        some = f.convert("trunc", f.minimum(f.maximum(count, 0), n), I32)
        places = f.vector(I32, [(half * n + lane) // 2 for lane in range(n)])
        return f.compare("ult", places, f.splat(some, n))


@lazy_library
def untangle_library(module: Module, scalar: Type) -> None:
    """The transform of real numbers from that of half the length, perhaps in its place."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, HALF), Lanes.of(scalar)
        source, target = given.place("source"), given.place("target")
        half, count = given["length"], _count(given, "count")
        near, far, chunk = given.table("near"), given.table("far"), given["chunk"]
        scale = given.real("scale_re", scalar)
        re, im = (f.splat(given.real(f"scale_{p}", scalar), lanes.count) for p in ("re", "im"))
        mirror = _Mirror(f, lanes, source, half)
        done = given.cell(TILE) * given["per_tile"]
        with f.when(done.equals(0)):
            _write_ends(f, lanes, source, target, half, scale)
        with f.loop(done, done + count, chunk) as part:
            number = part.index.unsigned_over(chunk) * 2
            parts = [f.load(scalar, f.element(far, number + p, scalar)) for p in range(2)]
            turn = ComplexVector(*[f.splat(p, lanes.count) for p in parts])
            end = f.minimum(part.index + chunk, done + count)
            with f.loop(part.index, end, lanes.count) as block:
                first, left = block.index + 1, end - block.index
                some = f.minimum(left, lanes.count)
                a = mirror.forward(first, first + some)
                b = mirror.backward(first, half - first - (some - 1), half)
                own = (block.index - part.index).unsigned_over(lanes.count)
                w = multiply(f, load_block(f, lanes, f.offset(near, own * lanes.block)), turn)
                even = ComplexVector(a.re + b.re, a.im - b.im)
                odd = multiply(f, ComplexVector(a.im + b.im, b.re - a.re), w)
                low = ComplexVector((even.re + odd.re) * re, (even.im + odd.im) * im)
                high = ComplexVector((even.re - odd.re) * re, (odd.im - even.im) * im)
                place = f.offset(target, first * lanes.number)
                store_numbers(f, lanes, low, place, some * 2)
                mirror.store_backward(target, first, some, high)


def _write_ends(
    f: Function, lanes: Lanes, source: Value, target: Value, half: Value, scale: Value
) -> None:
    """The first number and the last one, which are real."""
    scalar = lanes.scalar
    re, im = (f.load(scalar, f.element(source, part, scalar)) for part in range(2))
    double = scale + scale
    zero = f.constant(scalar, 0)
    for number, value in ((f.constant(I64, 0), re + im), (half, re - im)):
        place = f.offset(target, number * lanes.number)
        f.store(value * double, place)
        f.store(zero, f.element(place, 1, scalar))


@lazy_library
def tangle_library(module: Module, scalar: Type) -> None:
    """From the transform of real numbers the conjugate of that of half the length, in blocks."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, HALF), Lanes.of(scalar)
        half, limit = given["length"], given["limit"]
        source, target = given.place("source"), given.place("target")
        near, far = given.table("near"), given.table("far")
        mirror = _Mirror(f, lanes, source, half)
        blocks = _TileNumbers(given)
        near = f.offset(near, blocks.shift * lanes.number)
        with f.loop(0, given["rows"]) as row:
            parts = [f.load(scalar, f.element(far, row.index * 2 + p, scalar)) for p in range(2)]
            turn = ComplexVector(*[f.splat(p, lanes.count) for p in parts])
            out = f.offset(target, row.index * given["target_row"])
            begin, last = blocks.row(row.index)
            with f.loop(0, blocks.columns, lanes.count) as block:
                first = begin + block.index
                a = mirror.forward(first, f.minimum(f.minimum(limit, half), last + 1))
                low = f.maximum(half - last, 1)
                b = mirror.backward(first, low, f.minimum(limit, half + 1))
                own = block.index.unsigned_over(lanes.count) * lanes.block
                w = multiply(f, load_block(f, lanes, f.offset(near, own)), turn)
                even = ComplexVector(a.re + b.re, a.im - b.im)
                odd = multiply(
                    f, ComplexVector(a.re - b.re, a.im + b.im), ComplexVector(w.re, -w.im)
                )
                number = ComplexVector(even.re - odd.im, -(even.im + odd.re))
                store_block(f, lanes, number, f.offset(out, own))
        with f.when(blocks.shift.equals(0)):
            _put_first(f, lanes, source, target, half, limit)


class _TileNumbers:
    """The numbers that a tile of blocks is made of."""

    def __init__(self, given: StageNumbers) -> None:
        self.columns = _count(given, "columns")
        self.shift = given.cell(TILE) * given["per_tile"]
        self._length = given["row_length"]

    def row(self, row: Value) -> tuple[Value, Value]:
        """The first number of a row and its last."""
        first = row * self._length + self.shift
        return first, first + self.columns - 1


def _put_first(
    f: Function, lanes: Lanes, source: Value, target: Value, half: Value, limit: Value
) -> None:
    """The number that the first and the last make, of which imaginary parts count nothing."""
    scalar = lanes.scalar
    first = f.load(scalar, source)
    (last,) = f.either(
        half < limit,
        lambda: [f.load(scalar, f.offset(source, half * lanes.number))],
        lambda: [f.constant(scalar, 0)],
    )
    f.store(first + last, target)
    f.store(last - first, f.offset(target, lanes.nbytes))


@lazy_library
def extend_library(module: Module, scalar: Type) -> None:
    """All of a transform of real numbers, conjugated, in blocks, from its first half."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, HALF), Lanes.of(scalar)
        n, blocks = given["length"], _TileNumbers(given)
        half = n.shifted_down(1) + 1
        limit = f.minimum(given["limit"], half)
        source, target = given.place("source"), given.place("target")
        mirror = _Mirror(f, lanes, source, n)
        with f.loop(0, given["rows"]) as row:
            out = f.offset(target, row.index * given["target_row"])
            begin, last = blocks.row(row.index)
            with f.loop(0, blocks.columns, lanes.count) as block:
                first = begin + block.index
                a = mirror.forward(first, f.minimum(limit, last + 1))
                # What comes after the middle: mirrored numbers are those before it.
                low = f.maximum(n - last, 1)
                b = mirror.backward(first, low, f.minimum(limit, n - half + 1))
                number = ComplexVector(a.re + b.re, b.im - a.im)
                own = block.index.unsigned_over(lanes.count) * lanes.block
                store_block(f, lanes, number, f.offset(out, own))
        f.store(f.constant(scalar, 0), f.offset(target, lanes.nbytes))


@lazy_library
def mirror_library(module: Module, scalar: Type) -> None:
    """The second half of a transform of real numbers behind its first."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, HALF), Lanes.of(scalar)
        source, target = given.place("source"), given.place("target")
        mirror = _Mirror(f, lanes, source, given["length"])
        begin = given.cell(TILE) * given["per_tile"]
        end = begin + _count(given, "count")
        with f.loop(begin, end, lanes.count) as block:
            first = block.index + 1
            some = f.minimum(end - block.index, lanes.count)
            number = mirror.forward(first, first + some)
            mirror.store_backward(target, first, some, ComplexVector(number.re, -number.im))
