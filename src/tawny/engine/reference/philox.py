"""Philox4x32-10: four random 32-bit words for each 128-bit counter under a 64-bit key.

The words of a random array's element are those of the counter (place, run), both 64 bits with the
low half first.  The key is words 0 and 1 of the counter (stream, tag) under the key (seed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tawny.dtype import DType
from tawny.engine.reference.kernel import Value

Words = npt.NDArray[np.uint64]
"""32-bit numbers in 64-bit elements, so that products of two are exact."""

_MULTIPLIERS: Final = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_TAG: Final = (0x7461776E, 0x00000079)
_AT_ONCE: Final = 1 << 14
"""Elements made at a time: their words stay in cache."""


def philox(
    counter: tuple[Words, Words, Words, Words], key: tuple[int, int]
) -> tuple[Words, Words, Words, Words]:
    """The words of each counter."""
    c0, c1, c2, c3 = counter
    for step in range(_ROUNDS):
        k0, k1 = ((k + step * w) & 0xFFFFFFFF for k, w in zip(key, _WEYL, strict=True))
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW
        c2, c3 = (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
    return c0, c1, c2, c3


def _halves(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF


def stream_key(seed: int, stream: int) -> tuple[int, int]:
    """The key of a stream."""
    low, high, tag, end = (np.array([n], np.uint64) for n in (*_halves(stream), *_TAG))
    k0, k1, _, _ = philox((low, high, tag, end), _halves(seed))
    return int(k0[0]), int(k1[0])


def fill(
    count: int,
    dtype: DType,
    seed: int,
    stream: int,
    draw: int,
    element: Callable[[Words, Words, Words, Words], Value],
) -> Value:
    """`element` of the words of each place, for `count` places."""
    out = np.empty(count, dtype)
    key, (run_low, run_high) = stream_key(seed, stream), _halves(draw)
    for start in range(0, count, _AT_ONCE):
        place = np.arange(start, min(start + _AT_ONCE, count), dtype=np.uint64)
        run = np.full_like(place, run_low), np.full_like(place, run_high)
        out[start : start + len(place)] = element(
            *philox((place & _LOW, place >> _HALF, *run), key)
        )
    return out
