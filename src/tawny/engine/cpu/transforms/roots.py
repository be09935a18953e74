"""Tables of roots of unity and what is made of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tawny.engine.cpu.transforms.lanes import Lanes
from tawny.engine.cpu.transforms.stage import ConstantTable

Complex = npt.NDArray[np.complexfloating[Any, Any]]

PI: Final = 4 * np.arctan(np.longdouble(1))

Long = npt.NDArray[np.longdouble]

TABLES: Final = 64
"""Tables that are remembered: those that were asked for last."""


def roots(n: int, powers: npt.NDArray[np.int64]) -> Complex:
    """`exp(-2 pi i power / n)`, from angles of an eighth of a turn at most."""
    eighth, rest = np.divmod(8 * (powers % n), n)
    odd = eighth % 2 == 1
    angle: Long = PI * np.where(odd, n - rest, rest) / (4 * n)
    a: Long = np.cos(angle)
    b: Long = np.sin(angle)
    swapped = (eighth % 4 == 1) | (eighth % 4 == 2)
    cos, sin = np.where(swapped, b, a), np.where(swapped, a, b)
    found = np.empty(angle.shape, np.clongdouble)
    found.real = np.where((eighth > 1) & (eighth < 6), -cos, cos)
    found.imag = np.where(eighth > 3, sin, -sin)
    return found


def number_table(numbers: Complex, lanes: Lanes) -> ConstantTable:
    """Complex numbers one after the other."""
    return ConstantTable(np.stack([numbers.real, numbers.imag], -1).astype(_dtype(lanes)))


def block_table(numbers: Complex, lanes: Lanes, rows: int = 0) -> ConstantTable:
    """The numbers of rows in blocks, with zeros up to a number of rows."""
    height, width = numbers.shape
    table = np.zeros((max(rows, height), lanes.blocks(width), 2, lanes.count), _dtype(lanes))
    wide = np.zeros((height, lanes.pad(width)), numbers.dtype)
    wide[:, :width] = numbers
    parts = wide.reshape(height, -1, lanes.count)
    table[:height, :, 0], table[:height, :, 1] = parts.real, parts.imag
    return ConstantTable(table)


def _dtype(lanes: Lanes) -> npt.DTypeLike:
    return np.float32 if lanes.scalar.nbytes == 4 else np.float64


@lru_cache(TABLES)
def pass_factors(radix: int, after: int, lanes: Lanes) -> ConstantTable:
    """The factors of a pass after which transforms of `after` points are left."""
    powers = np.arange(after)[:, None] * np.arange(1, radix)
    return number_table(roots(radix * after, powers), lanes)


@lru_cache(TABLES)
def turn_factors(rows: int, columns: int, lanes: Lanes) -> ConstantTable:
    """The factors between the transforms of the columns and those of the rows, in blocks."""
    powers = np.arange(rows)[:, None] * np.arange(columns)
    return block_table(roots(rows * columns, powers), lanes, lanes.pad(rows))


@lru_cache(TABLES)
def neighbour_factors(n: int, count: int, lanes: Lanes) -> ConstantTable:
    """The first powers of the root, in blocks."""
    return block_table(roots(n, np.arange(count)[None]), lanes)


@lru_cache(TABLES)
def spaced_factors(n: int, count: int, step: int, first: int, lanes: Lanes) -> ConstantTable:
    """Powers of the root that are `step` apart, each once."""
    return number_table(roots(n, first + step * np.arange(count)), lanes)


@lru_cache(TABLES)
def lane_factors(n: int, rows: int, lanes: Lanes) -> ConstantTable:
    """For each row a block of what its factors grow by from column to column."""
    powers = np.arange(lanes.pad(rows))[:, None] * np.arange(lanes.count)
    return block_table(roots(n, powers), lanes)


def chirp(n: int) -> Complex:
    """`exp(-pi i j j / n)`."""
    j = np.arange(n, dtype=np.int64)
    return roots(2 * n, j * j % (2 * n))


@lru_cache(TABLES)
def filter_of(n: int, length: int) -> Complex:
    """The conjugated transform of the chirp that a transform of `n` points is convolved with."""
    conjugate = np.conj(chirp(n)).astype(np.complex128)
    wrapped = np.zeros(length, np.complex128)
    wrapped[:n] = conjugate
    wrapped[length - n + 1 :] = conjugate[:0:-1]
    found: Complex = np.conj(np.fft.fft(wrapped))
    return found
