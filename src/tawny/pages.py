"""Memory of large arrays: pages of their own, made by the system many at a time.

Touching new memory for the first time takes longer than filling it, page by page: it is asked for
at once, by several threads.  Huge pages, which NumPy asks for, are not: where free memory is in
pieces the system looks for them longer than they save.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tawny.settings import read_setting

Value = npt.NDArray[Any]

LARGE: Final = 2**18
"""Bytes from which on an array has pages of its own."""

SHARED: Final = 2**20
"""Bytes from which on several threads fill an array."""

MOST_THREADS: Final = 4
"""Threads that fill an array, at most: few are enough."""

LINE: Final = 64
"""Bytes of a cache line."""

_POPULATE_WRITE: Final = 23
"""What Linux' `madvise` is told to make pages at once; older systems do not know it."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
    """A new array; if it is large, its pages are there."""
    array, _ = _new_pages(shape, dtype, _populate)
    return array


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
    if not array.flags.c_contiguous:
        copy = empty(array.shape, array.dtype)
        np.copyto(copy, array)
        return copy
    source = array.reshape(-1).view(np.uint8)

    def filled(bytes_: Value, start: int, stop: int) -> None:
        _populate(bytes_, start, stop)
        np.copyto(bytes_[start:stop], source[start:stop])

    copy, own = _new_pages(array.shape, array.dtype, filled)
    if not own:
        np.copyto(copy, array)
    return copy


def run_parallel(tasks: Sequence[Callable[[], object]], threads: int) -> None:
    """Do tasks that leave the interpreter's lock for most of their time, on `threads` threads.

    On fewer where the system does not allow more.
    """
    left, errors = iter(tasks), list[BaseException]()

    def work() -> None:
        try:
            for task in left:
                task()
        except BaseException as error:  # raised below, where somebody waits for it
            errors.append(error)

    others = [threading.Thread(target=work) for _ in range(min(threads, len(tasks)) - 1)]
    started = list[threading.Thread]()
    with suppress(RuntimeError):
        for thread in others:
            thread.start()
            started.append(thread)
    work()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


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


def _new_pages(
    shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[Value, int, int], None]
) -> tuple[Value, bool]:
    """An array, and whether it has pages of its own, which were filled."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LARGE or not sys.platform.startswith("linux"):
        return np.empty(shape, dtype), False
    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    bytes_ = np.frombuffer(pages, np.uint8)
    count = _threads() if nbytes >= SHARED else 1
    parts = nbytes // mmap.PAGESIZE // count * mmap.PAGESIZE
    bounds = [*range(0, parts * count, parts), nbytes]
    run_parallel([partial(fill, bytes_, *share) for share in pairwise(bounds)], count)
    return np.ndarray(shape, dtype, pages), True


def _populate(bytes_: Value, start: int, stop: int) -> None:
    """Ask for the pages of some bytes; where that is not possible they come as they are touched."""
    _advise()(bytes_.ctypes.data + start, stop - start, _POPULATE_WRITE)


@cache
def _advise() -> Callable[[int, int, int], int]:
    """The system's `madvise`."""
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _threads() -> int:
    """Threads that fill an array: as many as may be used, but few are enough."""
    if read_setting("TAWNY_THREADS") == "1":
        return 1
    return min(len(os.sched_getaffinity(0)), MOST_THREADS)
