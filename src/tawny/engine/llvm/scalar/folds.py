"""Folds: what many elements of a row become one number by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tawny import dtype as dt
from tawny.dtype import DType, kind_of
from tawny.engine.llvm.ir.builder import F64, Function, Value
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.expressions import primitive
from tawny.engine.llvm.scalar.numbers import (
    Number,
    Pair,
    constant,
    load_scalar,
    load_vector,
    real,
    store_scalar,
    store_vector,
)
from tawny.scalar import Prim


@dataclass(frozen=True, slots=True)
class ReductionFold:
    """A value folded over all elements of a row with a primitive, then divided."""

    prim: Prim
    input: int
    dtype: DType
    """The dtype of partial results."""
    divisor: float | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        """The items it folds."""
        return (self.input,)

    @property
    def exact(self) -> bool:
        """Whether nothing is rounded, in whatever order elements are folded."""
        return kind_of(self.dtype) not in "fc" or self.prim not in {Prim.ADD, Prim.MUL}

    @property
    def identity(self) -> float:
        """What folding begins with."""
        match self.prim:
            case Prim.ADD:
                return -0.0 if kind_of(self.dtype) == "f" else 0
            case Prim.MUL | Prim.AND:
                return 1
            case Prim.MAX | Prim.GT:
                return _least_value(self.dtype)
            case Prim.MIN | Prim.LT:
                return _greatest_value(self.dtype)
            case _:
                return 0

    def start(self, f: Function, lanes: int) -> Number:
        """What folding begins with, in every lane."""
        return constant(f, self.dtype, self.identity, lanes)

    def element(self, numbers: Mapping[int, Number]) -> Number:
        """An element as it is folded, given the numbers of items."""
        return numbers[self.input]

    def absorb(self, f: Function, total: Number, element: Number) -> Number:
        """A partial result and an element that comes after all that were folded into it."""
        return self.combine(f, total, element)

    def combine(self, f: Function, one: Number, other: Number) -> Number:
        """Two partial results as one."""
        prim = {Prim.AND: Prim.BIT_AND, Prim.OR: Prim.BIT_OR}.get(self.prim, self.prim)
        return primitive(f, prim, self.dtype, [one, other])[0]

    def finish(self, f: Function, total: Number) -> Number:
        """The value, once everything is folded."""
        if self.divisor is None:
            return total
        divisor = cast(f, f.constant(F64, self.divisor), dt.FLOAT64, self.dtype)
        return primitive(f, Prim.DIV, self.dtype, [total, spread(f, divisor, lanes_of(total))])[0]

    def store_partial(self, f: Function, number: Number, place: Value) -> None:
        """Write a partial result, of one row or of a vector of them."""
        store_slot(f, self.dtype, number, place)

    def load_partial(self, f: Function, place: Value, lanes: int) -> Number:
        """A partial result that was written."""
        return load_slot(f, self.dtype, place, lanes)


@dataclass(frozen=True, slots=True)
class ArgExtremumFold(ReductionFold):
    """The place of the element that exceeds all others, the first if there are several.

    NaN exceeds every number.  Partial results are pairs of an element and its place, which is
    behind all others as long as no element was found that exceeds the least one.
    """

    place: int = 0
    """The item that counts the elements."""
    counted: DType = dt.INT64

    @property
    def inputs(self) -> tuple[int, ...]:
        """The values and their places."""
        return (self.input, self.place)

    def start(self, f: Function, lanes: int) -> Number:
        """The least element, behind all places."""
        least = constant(f, self.dtype, self.identity, lanes)
        return Pair(
            real(least), real(constant(f, self.counted, _greatest_value(self.counted), lanes))
        )

    def element(self, numbers: Mapping[int, Number]) -> Number:
        """An element with its place."""
        return Pair(real(numbers[self.input]), real(numbers[self.place]))

    def absorb(self, f: Function, total: Number, element: Number) -> Number:
        """The element only if it exceeds: what is equal came before."""
        assert isinstance(total, Pair)
        assert isinstance(element, Pair)
        if kind_of(self.dtype) == "f":
            name = "ugt" if self.prim is Prim.GT else "ult"
            known = f.compare("ord", total.real, total.real)
            exceeds = f.compare(name, element.real, total.real) & known
        else:
            pair = [element.real, total.real]
            exceeds = real(primitive(f, self.prim, self.dtype, pair)[0])
        return Pair(
            f.select(exceeds, element.real, total.real), f.select(exceeds, element.imag, total.imag)
        )

    def combine(self, f: Function, one: Number, other: Number) -> Number:
        """The one that exceeds the other or, if they are equal, comes before it."""
        assert isinstance(one, Pair)
        assert isinstance(other, Pair)
        pair = [other.real, one.real]
        exceeds, equals = (real(primitive(f, p, self.dtype, pair)[0]) for p in (self.prim, Prim.EQ))
        if kind_of(self.dtype) == "f":
            known, unknown = (f.compare("uno", n, n) for n in (one.real, other.real))
            exceeds, equals = exceeds | (unknown & ~known), equals | (unknown & known)
        better = exceeds | (equals & (other.imag < one.imag))
        return Pair(f.select(better, *pair), f.select(better, other.imag, one.imag))

    def finish(self, f: Function, total: Number) -> Number:
        """The place: the first, if all elements are the least one."""
        assert isinstance(total, Pair)
        return f.select(total.imag.equals(_greatest_value(self.counted)), 0, total.imag)

    def store_partial(self, f: Function, number: Number, place: Value) -> None:
        """Elements of a partial result in memory, and behind them their places."""
        assert isinstance(number, Pair)
        store_slot(f, self.dtype, number.real, place)
        store_slot(f, self.counted, number.imag, self._places(f, place, lanes_of(number)))

    def load_partial(self, f: Function, place: Value, lanes: int) -> Number:
        """Elements of a partial result in memory, and behind them their places."""
        found = load_slot(f, self.dtype, place, lanes)
        return Pair(
            real(found), real(load_slot(f, self.counted, self._places(f, place, lanes), lanes))
        )

    def _places(self, f: Function, place: Value, lanes: int) -> Value:
        return f.offset(place, SLOT // 2 * max(lanes, 1))


SLOT = 16
"""Bytes in which a partial result waits, for each lane."""


def store_slot(f: Function, dtype: DType, number: Number, place: Value) -> None:
    """Write a number or a vector of them."""
    write = store_vector if lanes_of(number) else store_scalar
    write(f, dtype, number, place)


def load_slot(f: Function, dtype: DType, place: Value, lanes: int) -> Number:
    """The number, or the vector of `lanes` numbers, that `store_slot` wrote."""
    return load_vector(f, dtype, place, lanes) if lanes else load_scalar(f, dtype, place)


def _least_value(dtype: DType) -> float:
    if kind_of(dtype) == "f":
        return -math.inf
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else 0


def _greatest_value(dtype: DType) -> float:
    if kind_of(dtype) == "f":
        return math.inf
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else 1


def combine_lanes(f: Function, fold: ReductionFold, vectors: Sequence[Number]) -> Number:
    """Vectors folded into one number: one with another, then half with half."""
    found = list(vectors)
    while len(found) > 1:
        found = [fold.combine(f, a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
    (vector,) = found
    lanes = lanes_of(vector)
    while lanes > 1:
        lanes //= 2
        low, high = (_half(f, vector, range(b, b + lanes)) for b in (0, lanes))
        vector = fold.combine(f, low, high)
    if isinstance(vector, Pair):
        return Pair(f.lane(vector.real, 0), f.lane(vector.imag, 0))
    return f.lane(vector, 0)


def _half(f: Function, number: Number, lanes: Sequence[int]) -> Number:
    if isinstance(number, Pair):
        return Pair(f.shuffle(number.real, None, lanes), f.shuffle(number.imag, None, lanes))
    return f.shuffle(number, None, lanes)


def lanes_of(number: Number) -> int:
    """Lanes of a number; 0 for a scalar."""
    part = number.real if isinstance(number, Pair) else number
    return part.type.lanes


def spread(f: Function, number: Number, lanes: int) -> Number:
    """A scalar in every lane; a vector as it is."""
    if lanes_of(number) == lanes:
        return number
    if isinstance(number, Pair):
        return Pair(f.splat(number.real, lanes), f.splat(number.imag, lanes))
    return f.splat(number, lanes)
