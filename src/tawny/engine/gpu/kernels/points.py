"""Points of Fourier transforms in memory: complex, real, or the half that says all."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tawny.dtype import DType, complex_dtype
from tawny.engine.gpu.launch import ThreadGrid
from tawny.engine.llvm.ir.builder import F32, F64, Value
from tawny.engine.llvm.scalar.numbers import Pair, load_scalar, real, storage_type, store_scalar


class Points(enum.Enum):
    """A kind of numbers that lie along the axis."""

    COMPLEX = "complex numbers"
    REAL = "real numbers"
    HALF = "the first half of complex numbers, whose others mirror them"


class PointPlaces:
    """The places where a kernel being written finds points, and puts what it makes of them.

    A point lies in a line and, where axes follow the transformed one, in a column of it.
    """

    def __init__(
        self,
        grid: ThreadGrid,
        dtype: DType,
        kinds: tuple[Points, Points],
        starts: Sequence[Value],
        numbers: Sequence[Value],
        scale: Value | None,
    ) -> None:
        self.grid, self.f, self.dtype = grid, grid.f, dtype
        f, self.kind = grid.f, storage_type(dtype)
        self.given, self.made = kinds
        self.source, self.target = (
            f.offset(base, start) for base, start in zip(grid.places, starts, strict=True)
        )
        self.points, self.given_inner, self.made_inner, self.given_length, self.made_length = (
            numbers
        )
        self.scale = None if scale is None else f.bitcast(scale, F64)
        if self.scale is not None and self.kind == F32:
            self.scale = f.convert("fptrunc", self.scale, F32)

    def read(self, index: Value, line: Value, column: Value) -> Pair:
        """A point by its number along the axis; zero past what is there."""
        f = self.f
        zero = f.constant(self.kind, 0.0)
        place, mirrored = index, None
        if self.given is Points.HALF:
            mirrored = (self.points - index) < index
            place = f.select(mirrored, self.points - index, index)
        inside = place < self.given_length
        found = f.either(
            inside, lambda: [*self.read_inside(place, line, column)], lambda: [zero] * 2
        )
        point = Pair(*found)
        if mirrored is None:
            return point
        alone = index.equals(0) | (index * 2).equals(self.points)
        imag = f.select(mirrored, -point.imag, point.imag)
        return Pair(point.real, f.select(alone, zero, imag))

    def read_inside(self, place: Value, line: Value, column: Value) -> Pair:
        """A point that is there."""
        f, is_real = self.f, self.given is Points.REAL
        dtype = self.dtype if is_real else complex_dtype(self.dtype)
        number = (line * self.given_length + place) * self.given_inner + column
        address = f.offset(self.source, self.grid.widen(number) * dtype.itemsize)
        found = load_scalar(f, dtype, address)
        return found if isinstance(found, Pair) else Pair(found, f.constant(self.kind, 0.0))

    def write(self, place: Value, point: Pair, line: Value, column: Value) -> None:
        """Write what was made, as far as it is wanted."""
        f, is_real = self.f, self.made is Points.REAL
        if self.scale is not None:
            point = Pair(point.real * self.scale, point.imag * self.scale)
        dtype = self.dtype if is_real else complex_dtype(self.dtype)
        number = (line * self.made_length + place) * self.made_inner + column
        address = f.offset(self.target, self.grid.widen(number) * dtype.itemsize)
        stored = real(point.real) if is_real else point
        if self.made is Points.HALF:
            with f.when(place < self.made_length):
                store_scalar(f, dtype, stored, address)
        else:
            store_scalar(f, dtype, stored, address)
