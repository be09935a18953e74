"""Fourier transforms along an axis, in passes of a few points each.

The passes are Stockham's: each thread takes some points that lie far apart, turns them by roots of
one, transforms them among themselves, and puts them where the next pass finds them in order.  The
roots are computed where they are needed, from a fraction of a turn that is exact.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType, complex_dtype
from tawny.engine.gpu.launch import KernelCode, Launch, ThreadGrid, blocks_for, grid_kernel
from tawny.engine.llvm.ir.builder import F32, F64, I32, Function, Module, Type, Value
from tawny.engine.llvm.scalar.numbers import Pair, load_scalar, real, storage_type, store_scalar

MOST_POINTS: Final = 1 << 28
"""Points along an axis from which roots have no exact fraction in 32 bits."""

MOST_ELEMENTS: Final = 1 << 31
"""Elements from which their numbers have no 32 bits."""

RADIX: Final = 16
"""Points of a pass, where no prime factor is greater."""

MOST_RADIX: Final = 31
"""The greatest prime factor of a length that a thread transforms."""


class Points(enum.Enum):
    """A kind of numbers that lie along the axis."""

    COMPLEX = "complex numbers"
    REAL = "real numbers"
    HALF = "the first half of complex numbers, whose others mirror them"


class PassStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    """The dtype of real parts."""
    radix: int
    sign: int
    """Of the angle of the roots: -1 forward, 1 backward."""
    given: Points
    made: Points
    first: bool
    """Whether it is the first pass along the axis: nothing is turned."""
    last: bool
    """Whether it is the last of all: what is stored is scaled."""


class AxisTransform(NamedTuple):
    """A transform along an axis of arrays whose elements lie side by side."""

    dtype: DType
    points: int
    sign: int
    lines: int
    """Elements of the axes before."""
    inner: int
    """Elements of the axes after."""
    given: Points
    given_length: int
    made: Points
    made_length: int
    scale: float | None
    """What the result is multiplied by; None for 1."""


def radices(points: int) -> list[int] | None:
    """The points of each pass; None where a prime factor is too great."""
    primes, left, prime = list[int](), points, 2
    while left > 1:
        while left % prime:
            prime += 1
            if prime > MOST_RADIX:
                return None
        primes.append(prime)
        left //= prime
    found = [p for p in primes if p * 2 > RADIX]
    small = [p for p in reversed(primes) if p * 2 <= RADIX]
    passes = max(1, math.ceil(math.log(math.prod(small)) / math.log(RADIX) - 1e-9))
    while True:
        bins = [1] * passes
        for prime in small:
            place = min(range(passes), key=bins.__getitem__)
            bins[place] *= prime
        if max(bins) <= RADIX:
            return [*found, *[b for b in bins if b > 1]] or [1]
        passes += 1


class PassPlace(NamedTuple):
    """A place of a launch, and the byte of it that data begins at."""

    number: int
    start: int


def axis_launches(one: AxisTransform, places: Sequence[PassPlace]) -> list[Launch]:
    """The launches of a transform, from each place to the next: there is one for each pass."""
    own = radices(one.points)
    assert own is not None
    assert len(places) == len(own) + 1
    launches, done = list[Launch](), 1
    for number, radix in enumerate(own):
        first, last = number == 0, number == len(own) - 1
        structure = PassStructure(
            one.dtype,
            radix,
            one.sign,
            one.given if first else Points.COMPLEX,
            one.made if last else Points.COMPLEX,
            first,
            last and one.scale is not None,
        )
        total = one.lines * one.inner * (one.points // radix)
        source, target = places[number : number + 2]
        numbers = (
            total,
            source.start,
            target.start,
            one.points // radix,
            done,
            one.inner,
            one.given_length if first else one.points,
            one.made_length if last else one.points,
            _bits(one.scale or 1.0),
        )
        code = KernelCode(write_pass, structure, long=True)
        given = source.number, target.number
        launches.append(Launch(code, given, numbers, blocks_for(total)))
        done *= radix
    return launches


def _bits(number: float) -> int:
    """The bits of a float64 number."""
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits)


# ------------------------------------------------------------------------ writing

NUMBERS: Final = 9


def write_pass(module: Module, name: str, structure: PassStructure) -> None:
    """Write the kernel of one pass."""
    with grid_kernel(module, name, 2, NUMBERS) as grid, grid.f.when(grid.number < grid.numbers[0]):
        _FourierWriter(grid, structure).write()


class _FourierWriter:
    """Writes a kernel that transforms a few points for each thread."""

    def __init__(self, grid: ThreadGrid, structure: PassStructure) -> None:
        self.grid, self.f, self.structure = grid, grid.f, structure
        f, (_, source, target, *numbers, scale) = grid.f, grid.numbers
        self.kind = storage_type(structure.dtype)
        self.source, self.target = (
            f.offset(base, start) for base, start in zip(grid.places, (source, target), strict=True)
        )
        short = [f.convert("trunc", n, I32) for n in numbers]
        self.groups, self.done, self.inner, self.given_length, self.made_length = short
        self.scale = f.bitcast(scale, F64)
        if self.kind == F32:
            self.scale = f.convert("fptrunc", self.scale, F32)
        number = f.convert("trunc", grid.number, I32)
        self.column = number.unsigned_rest(self.inner)
        number = number.unsigned_over(self.inner)
        self.group = number.unsigned_rest(self.groups)
        self.line = number.unsigned_over(self.groups)

    def write(self) -> None:
        """Read, turn, transform and write the points."""
        f, (_, radix, sign, *_) = self.f, self.structure
        points = [self._read(self.group + self.groups * t) for t in range(radix)]
        within = self.group.unsigned_rest(self.done)
        if not self.structure.first:
            turn = self.done * radix
            points = [
                product(point, root(f, self.kind, within * t, turn, sign)) if t else point
                for t, point in enumerate(points)
            ]
        first = (self.group - within) * radix + within
        for t, point in enumerate(transform(f, points, sign)):
            self._write(first + self.done * t, point)

    # ----------------------------------------------------------------------- points

    def _read(self, index: Value) -> Pair:
        """A point by its number along the axis; zero past what is there."""
        f, given = self.f, self.structure.given
        if not self.structure.first:
            return self._load(index)
        zero = f.constant(self.kind, 0.0)
        place, mirrored = index, None
        if given is Points.HALF:
            whole = self.groups * self.structure.radix
            mirrored = (whole - index) < index
            place = f.select(mirrored, whole - index, index)
        found = f.either(
            place < self.given_length, lambda: [*self._load(place)], lambda: [zero] * 2
        )
        point = Pair(*found)
        if mirrored is None:
            return point
        alone = index.equals(0) | (index * 2).equals(self.groups * self.structure.radix)
        imag = f.select(mirrored, -point.imag, point.imag)
        return Pair(point.real, f.select(alone, zero, imag))

    def _load(self, place: Value) -> Pair:
        f, is_real = self.f, self.structure.given is Points.REAL
        dtype = self.structure.dtype if is_real else complex_dtype(self.structure.dtype)
        address = self._address(self.source, self.given_length, place, dtype)
        found = load_scalar(f, dtype, address)
        return found if isinstance(found, Pair) else Pair(found, f.constant(self.kind, 0.0))

    def _write(self, place: Value, point: Pair) -> None:
        f, made = self.f, self.structure.made
        if self.structure.last:
            point = Pair(point.real * self.scale, point.imag * self.scale)
        dtype = self.structure.dtype if made is Points.REAL else complex_dtype(self.structure.dtype)
        stored = real(point.real) if made is Points.REAL else point
        address = self._address(self.target, self.made_length, place, dtype)
        if made is Points.HALF:
            with f.when(place < self.made_length):
                store_scalar(f, dtype, stored, address)
        else:
            store_scalar(f, dtype, stored, address)

    def _address(self, base: Value, length: Value, place: Value, dtype: DType) -> Value:
        """Where a point of this thread's line lies."""
        number = (self.line * length + place) * self.inner + self.column
        return self.f.offset(base, self.grid.widen(number) * dtype.itemsize)


# ----------------------------------------------------------------------- arithmetic


def product(x: Pair, by: Pair) -> Pair:
    """A product of complex numbers."""
    f = x.real.code
    return Pair(
        f.fma(x.real, by.real, -(x.imag * by.imag)), f.fma(x.real, by.imag, x.imag * by.real)
    )


def root(f: Function, kind: Type, part: Value, whole: Value, sign: int) -> Pair:
    """The root of one at `part` of `whole` turns, which are below 2**28.

    An eighth of a turn is the most whose sine and cosine are computed; the rest is exact.
    """
    eighths = part * 8
    quarter = f.constant(I32, 0)
    for odd in (1, 3, 5, 7):
        above = (whole * odd).unsigned_below(eighths)
        quarter = quarter + f.convert("zext", above, I32)
    rest = part * 4 - quarter * whole
    angle = f.convert("sitofp", rest, kind) / f.convert("sitofp", whole, kind) * (math.pi / 2)
    sine, cosine = _small_angle(f, angle)
    sideways = (quarter & 1).differs(0)
    sine, cosine = f.select(sideways, cosine, sine), f.select(sideways, sine, cosine)
    cosine = f.select(((quarter + 1) & 2).differs(0), -cosine, cosine)
    downwards = (quarter & 2).differs(0)
    sine = f.select(downwards, *((-sine, sine) if sign > 0 else (sine, -sine)))
    return Pair(cosine, sine)


TERMS: Final = {"float": 5, "double": 9}
"""Terms of the series of sine and cosine up to an eighth of a turn."""


def _small_angle(f: Function, angle: Value) -> tuple[Value, Value]:
    """Sine and cosine by their series."""
    square, count = angle * angle, TERMS[angle.type.element]
    found = list[Value]()
    for first in (1, 0):
        total = f.constant(angle.type, 0.0)
        for term in reversed(range(1, count + 1)):
            factor = (-1) ** term / math.factorial(2 * term + first)
            total = f.fma(total, square, total.of(factor)) if term < count else total.of(factor)
        found.append(total * square)
    return f.fma(found[0], angle, angle), found[1] + 1.0


def transform(f: Function, points: Sequence[Pair], sign: int) -> list[Pair]:
    """The transform of a few points."""
    count = len(points)
    prime = next((p for p in range(2, count + 1) if count % p == 0), 1)
    if count == prime:
        return _prime_transform(f, points, sign) if count > 1 else list(points)
    parts = [transform(f, points[i::prime], sign) for i in range(prime)]
    rows = count // prime
    found = list(points)
    for k in range(rows):
        turns = [_turn_by(f, parts[i][k], i * k, count, sign) for i in range(prime)]
        for i, one in enumerate(_prime_transform(f, turns, sign)):
            found[k + rows * i] = one
    return found


def _turn_by(f: Function, x: Pair, part: int, whole: int, sign: int) -> Pair:
    """A number times the root of one at `part` of `whole` turns."""
    match 4 * part % (4 * whole) / whole:
        case 0.0:
            return x
        case 1.0:
            return Pair(-x.imag, x.real) if sign > 0 else Pair(x.imag, -x.real)
        case 2.0:
            return Pair(-x.real, -x.imag)
        case 3.0:
            return Pair(x.imag, -x.real) if sign > 0 else Pair(-x.imag, x.real)
        case _:
            angle = 2 * math.pi * part / whole
            kind = x.real.type
            return product(
                x, Pair(f.constant(kind, math.cos(angle)), f.constant(kind, sign * math.sin(angle)))
            )


def _prime_transform(f: Function, points: Sequence[Pair], sign: int) -> list[Pair]:
    """The transform of a prime number of points: of their sums and differences in pairs."""
    first, count = points[0], len(points)
    if count == 2:
        second = points[1]
        return [_plus(first, second), _minus(first, second)]
    pairs = [(points[t], points[count - t]) for t in range(1, count // 2 + 1)]
    sums = [_plus(*pair) for pair in pairs]
    differences = [_minus(*pair) for pair in pairs]
    total = first
    for one in sums:
        total = _plus(total, one)
    found = [total] * count
    for k in range(1, count // 2 + 1):
        even, odd = first, None
        for t, (one, other) in enumerate(zip(sums, differences, strict=True), start=1):
            angle = 2 * math.pi * (k * t % count) / count
            even = _add_scaled(f, even, one, math.cos(angle))
            odd = _add_scaled(f, odd, other, sign * math.sin(angle))
        assert odd is not None
        turned_odd = Pair(-odd.imag, odd.real)
        found[k], found[count - k] = _plus(even, turned_odd), _minus(even, turned_odd)
    return found


def _plus(x: Pair, y: Pair) -> Pair:
    return Pair(x.real + y.real, x.imag + y.imag)


def _minus(x: Pair, y: Pair) -> Pair:
    return Pair(x.real - y.real, x.imag - y.imag)


def _add_scaled(f: Function, total: Pair | None, x: Pair, factor: float) -> Pair:
    """A number plus another one times a constant."""
    if total is None:
        return Pair(x.real * factor, x.imag * factor)
    return Pair(f.fma(x.real, factor, total.real), f.fma(x.imag, factor, total.imag))
