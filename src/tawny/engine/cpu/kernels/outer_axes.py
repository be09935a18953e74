"""Axes beside the one that a kernel works along: which rows there are, and where each of them lies.

A kernel that sorts or sums along an axis takes its rows one after another.  Of every other axis its
parameters say the size, and the bytes from one place to the next in the operand and in the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple, final

from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.llvm.ir.builder import Function, Value
from tawny.engine.llvm.ir.places import coordinates

CELLS: Final = 3
"""Parameters of an axis."""


class OuterAxes(NamedTuple):
    """The axes of rows, as they are when a kernel is chosen."""

    number: int
    rows: int
    parameters: tuple[int, ...]

    @staticmethod
    def of(given: ArrayLayout, result: ArrayLayout, axes: Iterable[int]) -> OuterAxes:
        """Some axes of an operand and a result that have the same sizes along them."""
        found = tuple(axes)
        cells = [(given.shape[a], given.strides[a], result.strides[a]) for a in found]
        rows = math.prod([size for size, _, _ in cells])
        return OuterAxes(len(found), rows, tuple([number for axis in cells for number in axis]))

    @staticmethod
    def all_but(given: ArrayLayout, result: ArrayLayout, axis: int) -> OuterAxes:
        """All axes but one, and but those of size 1."""
        shape = given.shape
        return OuterAxes.of(
            given, result, [a for a in range(len(shape)) if a != axis and shape[a] != 1]
        )


@final
class RowPlaces:
    """The places of rows, in the code of a kernel whose parameters begin with cell `first`."""

    def __init__(self, f: Function, row: Value, first: int, count: int) -> None:
        self._f = f
        self._axes = [
            [f.cell(row, first + CELLS * a + n) for n in range(CELLS)] for a in range(count)
        ]

    def times_rows(self, number: Value) -> Value:
        """A number times that of rows."""
        for size, _, _ in self._axes:
            number = number * size
        return number

    def find(self, number: Value, source: Value, result: Value) -> tuple[Value, Value]:
        """Where the row with a number begins in the operand and in the result."""
        f = self._f
        places = coordinates(number, [size for size, _, _ in self._axes])
        for place, (_, stride, step) in zip(places, self._axes, strict=True):
            source = f.offset(source, place * stride)
            result = f.offset(result, place * step)
        return source, result
