"""Code in memory without LLVM: objects are laid out in pages that are written, then executed.

No page can be written and executed at the same time.  Objects share mappings, each in pages of its
own, which another takes when it is gone.  Only Linux on x86-64 is known here; elsewhere
`UnsupportedObjectError` says so, and LLVM's linker is asked.  Where the system allows no pages for
code, LLVM is not asked: it would end the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from tawny.engine.llvm.runtime.elf import ObjectFile, UnsupportedObjectError
from tawny.forking import fork_safe_lock
from tawny.unique import Unique

CHUNK: Final = 1 << 20
"""Bytes that are mapped at once; a larger object has a mapping of its own."""

_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 0x02, 0x20
_FAILED: Final = 2**64 - 1
"""What the system calls protections of pages, kinds of mappings, and no mapping at all."""


class NoPagesError(RuntimeError):
    """The system gives no pages for code: none can be run."""


class _PageRange(NamedTuple):
    """Some pages."""

    address: int
    nbytes: int


class LoadedCode(Unique):
    """Code that can be called; its pages are another's when this object is gone."""

    __slots__ = ("_pages", "_release", "addresses")

    def __init__(self, pages: _PageRange, addresses: Mapping[str, int]) -> None:
        self.addresses = addresses
        self._pages = pages
        self._release: Callable[[_PageRange], None] = _released.append

    def __del__(self) -> None:
        self._release(self._pages)


_lock: Final = fork_safe_lock()
"""Held where pages are given away and written."""
_released: Final[deque[_PageRange]] = deque()
"""Pages of objects that are gone, not yet sorted; appending needs no lock."""
_free: Final[defaultdict[int, list[_PageRange]]] = defaultdict(list)
"""Pages that can be taken, by their bytes; they may be executable still."""
_rests: Final[list[_PageRange]] = []
"""What is left of mappings, never written."""


def load(code: bytes, symbols: Iterable[str], given: Mapping[str, int]) -> LoadedCode:
    """Bring an object into memory, with the addresses of some of its symbols.

    What it uses of others is looked for among those given, then in the process.
    """
    check_supported()
    found = ObjectFile(code)
    offsets = found.exported_symbols()
    missing = [symbol for symbol in symbols if symbol not in offsets]
    if missing:
        raise UnsupportedObjectError(f"the object has no {missing[0]!r}")
    known = {name: given.get(name) or _of_process(name) for name in found.undefined_symbols()}
    pages = _fill_pages(found.size, lambda address: found.at(address, known))
    return LoadedCode(pages, {symbol: pages.address + offsets[symbol] for symbol in symbols})


def check_supported() -> None:
    """Refuse all systems but Linux on x86-64."""
    if (
        not sys.platform.startswith("linux")
        or os.uname().machine != "x86_64"
        or struct.calcsize("P") != struct.calcsize("Q")
    ):
        raise UnsupportedObjectError("objects are loaded on Linux on x86-64 alone")


def _of_process(name: str) -> int:
    """The address of a function that the process has."""
    try:
        function = _process()[name]
    except AttributeError as error:
        raise UnsupportedObjectError(f"nobody has {name!r}") from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _fill_pages(nbytes: int, content: Callable[[int], bytes]) -> _PageRange:
    """Pages with what belongs at their address, executable."""
    needed = max(-(-nbytes // mmap.PAGESIZE), 1) * mmap.PAGESIZE
    with _lock:
        pages = _take_pages(needed)
        try:
            data = content(pages.address)
            _process().memmove(ctypes.c_void_p(pages.address), data, ctypes.c_size_t(len(data)))
            _protect(pages, _READ | _EXECUTE)
        except BaseException:
            _free[pages.nbytes].append(pages)
            raise
    return pages


def _take_pages(nbytes: int) -> _PageRange:
    """Pages that can be written: those of an object of this size that is gone, or new ones."""
    while _released:
        pages = _released.popleft()
        _free[pages.nbytes].append(pages)
    if _free[nbytes]:
        pages = _free[nbytes].pop()
        _protect(pages, _READ | _WRITE)
        return pages
    large = [number for number, rest in enumerate(_rests) if rest.nbytes >= nbytes]
    rest = _rests.pop(large[0]) if large else _map_pages(max(nbytes, CHUNK))
    if rest.nbytes > nbytes:
        _rests.append(_PageRange(rest.address + nbytes, rest.nbytes - nbytes))
    return _PageRange(rest.address, nbytes)


def _map_pages(nbytes: int) -> _PageRange:
    """A new mapping, which stays as long as the process: threads of its own may run its code."""
    address = _process().mmap(
        None,
        ctypes.c_size_t(nbytes),
        ctypes.c_int(_READ | _WRITE),
        ctypes.c_int(_PRIVATE | _ANONYMOUS),
        ctypes.c_int(-1),
        ctypes.c_long(0),
    )
    if address is None or address == _FAILED:
        raise NoPagesError("the system has no memory for code")
    return _PageRange(address, nbytes)


def _protect(pages: _PageRange, how: int) -> None:
    if _process().mprotect(
        ctypes.c_void_p(pages.address), ctypes.c_size_t(pages.nbytes), ctypes.c_int(how)
    ):
        raise NoPagesError("the system does not allow what was written to be executed")


@cache
def _process() -> Any:
    """The functions of the process, called without leaving Python's lock: all of them are short."""
    functions = ctypes.PyDLL(None)
    functions.mmap.restype = ctypes.c_void_p
    functions.memmove.restype = ctypes.c_void_p
    return functions
