"""Fourier transforms along an axis, in passes of a few points each: one launch for each pass.

The passes are Stockham's: each thread takes some points that lie far apart, turns them by roots of
one, transforms them among themselves, and puts them where the next pass finds them in order.  The
roots are computed where they are needed, from a fraction of a turn that is exact.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.gpu.kernels.butterflies import transform, turn_points
from tawny.engine.gpu.kernels.points import PointPlaces, Points
from tawny.engine.gpu.launch import KernelCode, Launch, blocks_for, grid_kernel
from tawny.engine.llvm.ir.builder import I32, Module

MOST_POINTS: Final = 1 << 28
"""Points along an axis from which roots have no exact fraction in 32 bits."""

MOST_ELEMENTS: Final = 1 << 31
"""Elements from which their numbers have no 32 bits."""

RADIX: Final = 16
"""Points of a pass, where no prime factor is greater."""

MOST_RADIX: Final = 31
"""The greatest prime factor of a length that a thread transforms."""


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


def pass_launches(one: AxisTransform) -> list[Callable[[PassPlace, PassPlace], Launch]]:
    """What makes the launch of each pass, given where it reads and writes."""
    own = radices(one.points)
    assert own is not None
    found, done = list[Callable[[PassPlace, PassPlace], Launch]](), 1
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
        given, made = (
            one.given_length if first else one.points,
            one.made_length if last else one.points,
        )
        lengths = one.points // radix, done, one.inner, given, made
        found.append(partial(_pass_launch, one, structure, lengths))
        done *= radix
    return found


def _pass_launch(
    one: AxisTransform,
    structure: PassStructure,
    lengths: Sequence[int],
    source: PassPlace,
    target: PassPlace,
) -> Launch:
    """The launch of one pass."""
    total = one.lines * one.inner * (one.points // structure.radix)
    numbers = total, source.start, target.start, *lengths, float_bits(one.scale or 1.0)
    code = KernelCode(write_pass, structure, long=True)
    return Launch(code, (source.number, target.number), numbers, blocks_for(total))


def float_bits(number: float) -> int:
    """The bits of a float64 number."""
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits)


# ------------------------------------------------------------------------ writing

NUMBERS: Final = 9


def write_pass(module: Module, name: str, structure: PassStructure) -> None:
    """Write the kernel of one pass: a few points for each thread."""
    _, radix, sign, given, made, is_first, is_scaled = structure
    with grid_kernel(module, name, 2, NUMBERS) as grid, grid.f.when(grid.number < grid.numbers[0]):
        f, (_, source, target, *numbers, scale) = grid.f, grid.numbers
        groups, done, inner, *lengths = (f.convert("trunc", n, I32) for n in numbers)
        places = PointPlaces(
            grid,
            structure.dtype,
            (given, made),
            (source, target),
            (groups * radix, inner, inner, *lengths),
            scale if is_scaled else None,
        )
        number = f.convert("trunc", grid.number, I32)
        column, number = number.unsigned_rest(inner), number.unsigned_over(inner)
        group, line = number.unsigned_rest(groups), number.unsigned_over(groups)
        read = places.read if is_first else places.read_inside
        points = [read(group + groups * t, line, column) for t in range(radix)]
        within = group.unsigned_rest(done)
        if not is_first:
            points = turn_points(f, points, within, done * radix, sign)
        first = (group - within) * radix + within
        for t, point in enumerate(transform(f, points, sign)):
            places.write(first + done * t, point, line, column)
