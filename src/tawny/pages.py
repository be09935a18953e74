"""Memory of large arrays: pages of their own, and arrays that begin with a cache line.

NumPy asks the system for huge pages, which it looks for longer than they save where free memory is
in pieces: a copy of 100 MB took 0.2 s on pages of its own and up to 1.1 s on huge ones.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt

Value = npt.NDArray[Any]

LARGE: Final = 2**18
"""Bytes from which on a copy has pages of its own."""

LINE: Final = 64
"""Bytes of a cache line."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
    """A new array that begins with a cache line; if it is large, on pages of its own."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LARGE or not sys.platform.startswith("linux"):
        return empty_aligned(shape, dtype)
    own = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.ndarray(shape, dtype, own)


def empty_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
    """A new array that begins with a cache line; its pages come as they are touched."""
    nbytes = math.prod(shape) * dtype.itemsize
    room = _OwnBytes((nbytes + LINE,), np.uint8)
    return np.ndarray(shape, dtype, room, -room.ctypes.data % LINE)


def copy_aligned(array: Value) -> Value:
    """A copy that begins with a cache line, where vectors are read best."""
    copy = empty_aligned(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


class _OwnBytes(np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]):
    """Bytes that are one array's alone."""


def copy_array(array: Value) -> Value:
    """A copy, its last axis the closest in memory."""
    copy = empty(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


MOST_HELD: Final = 2**25
"""Bytes of earlier copies that are held for later ones, at most."""


class Copies:
    """Copies of arrays, large ones where earlier copies lay that nobody holds any more.

    Memory that is new comes from the system page by page, each filled with zeros, which takes
    longer than to copy.
    """

    def __init__(self) -> None:
        self._rooms: list[tuple[_OwnBytes, ReferenceType[_OwnBytes]]] = []
        """Memory, and what every copy that lies there holds."""

    def copy(self, array: Value) -> Value:
        """A copy, its last axis the closest in memory."""
        if not LARGE <= array.nbytes <= MOST_HELD:
            return array.copy()
        room = self._take(array.nbytes + LINE)
        holder = room.view()
        self._rooms.append((room, ref(holder)))
        copy: Value = np.ndarray(array.shape, array.dtype, holder, -room.ctypes.data % LINE)
        np.copyto(copy, array)
        return copy

    def _take(self, nbytes: int) -> _OwnBytes:
        """Memory where nothing lies, earlier one if there is any; the oldest is let go."""
        for number, (room, holder) in enumerate(self._rooms):
            if room.nbytes == nbytes and holder() is None:
                del self._rooms[number]
                return room
        while sum([room.nbytes for room, _ in self._rooms]) + nbytes > MOST_HELD + LINE:
            del self._rooms[0]
        return _OwnBytes((nbytes,), np.uint8)


def owns_memory(array: Value) -> bool:
    """Whether the memory of an array is its own, and nobody else's."""
    base: object = array.base
    return array.flags.owndata or isinstance(base, (mmap.mmap, _OwnBytes))


def release_pages(bytes_: Value) -> None:
    """Let the system have the whole pages of some bytes, whose values nobody needs any more."""
    if sys.platform.startswith("linux"):
        first = bytes_.ctypes.data
        start, stop = -(-first // mmap.PAGESIZE), (first + bytes_.nbytes) // mmap.PAGESIZE
        if start < stop:
            size = mmap.PAGESIZE
            _advise()(start * size, (stop - start) * size, mmap.MADV_DONTNEED)


@cache
def _advise() -> Callable[[int, int, int], int]:
    """The system's `madvise`."""
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
