"""Compiled libraries: IR text in, addresses of functions out.

A library costs nothing until an address in it is asked for; then its code is made.  Code is found
by what it was made from: the text, LLVM's version and the machine.  It is looked for in memory,
then on disk as object code, and compiled only then.  Threads compile different texts at the same
time.  Where a text is made from a structure, it need not be written for finding the code:
`lazy_library`.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Concatenate, Final, ParamSpec, cast
from weakref import WeakValueDictionary

from tawny.engine.llvm.ir.builder import Module
from tawny.engine.llvm.runtime import cache as disk
from tawny.engine.llvm.runtime.cache import IndexEntry, find_entry, note_entry, stable_key
from tawny.engine.llvm.runtime.compiler import LLVM_WORK, PIPELINE, link_by_llvm, object_code
from tawny.engine.llvm.runtime.elf import UnsupportedObjectError
from tawny.engine.llvm.runtime.elf_loader import NoPagesError, load
from tawny.engine.llvm.runtime.host import host
from tawny.forking import Lock, fork_safe_lock
from tawny.unique import Unique

P = ParamSpec("P")

_KEPT_LIBRARIES: Final = 512
"""Libraries that stay in memory though nobody uses them, with about 10 kB each."""

_KEPT_CALLS: Final = 256
"""Arguments of each function that writes texts that are remembered with their libraries."""

_EXPORTED: Final = re.compile(
    r"^define (?!.*\b(?:internal|private)\b)[^@\n]*@([A-Za-z_.$][\w.$]*)\(", re.MULTILINE
)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class MachineCode(Unique):
    """Code in memory; it stays there as long as this object."""

    addresses: Mapping[str, int]
    tracker: Any
    uses: tuple[MachineCode, ...]
    """The shared code it is linked with."""
    size: int
    """Bytes of object code."""

    def address(self, symbol: str) -> int:
        """Where a function begins."""
        return self.addresses[symbol]


class Library(Unique):
    """Functions whose code is made when it is first asked for, and kept as long as this object."""

    __slots__ = ("__weakref__", "_code", "_made_from", "_text")

    def __init__(self, text: Callable[[], str], made_from: Callable[[], str]) -> None:
        """`text` writes its IR; `made_from` spells out all that the text depends on.

        `made_from` raises TypeError where that cannot be spelled; then the text is written first.
        """
        self._text = text
        self._made_from = made_from
        self._code: MachineCode | None = None

    @property
    def code(self) -> MachineCode:
        """The code, which is made now if it was not before."""
        if self._code is None:
            self._code = self._find_code(self._text)
        return self._code

    def load(self) -> bool:
        """Whether the code is in memory now: it is taken from the disk, but not made."""
        with suppress(_MissingError):
            if self._code is None:
                self._code = self._find_code(_raise_missing)
        return self._code is not None

    def address(self, symbol: str) -> int:
        """Where a function begins."""
        return self.code.address(symbol)

    def ir(self) -> str:
        """The text that the code is made from, for readers."""
        return self._text()

    def _find_code(self, text: Callable[[], str]) -> MachineCode:
        try:
            made_from = self._made_from()
        except TypeError:
            return compile_ir(text())
        return _find_or_make(made_from, lambda: _load_or_write(made_from, text))


class _MissingError(Exception):
    """Code is neither in memory nor on the disk."""


def _raise_missing() -> str:
    raise _MissingError


@dataclass(frozen=True, slots=True)
class Address:
    """A function as a parameter of a kernel: a number once its library's code is asked for."""

    library: Library | MachineCode
    symbol: str

    def __index__(self) -> int:
        return self.library.address(self.symbol)


_SHARED: Final[dict[str, Callable[[], Library]]] = {}
"""Libraries that others are linked with."""

_REQUIRED: Final = re.compile(r"^; requires (\w+)$", re.MULTILINE)


def provide(name: str, write: Callable[[Module], None]) -> None:
    """Make a shared library known: a text with a line `; requires name` is linked with it."""
    _SHARED[name] = lazy_library(write)


def _text(write: Callable[Concatenate[Module, P], None], *given: P.args, **named: P.kwargs) -> str:
    """The IR for this machine of the functions that are written into a module."""
    module = Module(host())
    write(module, *given, **named)
    return module.text()


_lock: Final = fork_safe_lock()
"""Held where the tables below are changed."""
_making: Final[dict[str, Lock]] = {}
"""Held by the thread that makes the library of a text."""
_living: Final[WeakValueDictionary[str, MachineCode]] = WeakValueDictionary()
_recent: Final[OrderedDict[str, MachineCode]] = OrderedDict()
_libraries: Final[WeakValueDictionary[Hashable, Library]] = WeakValueDictionary()
"""Libraries by what they are made from."""


def compile_ir(ir: str) -> MachineCode:
    """The code of a text of IR; functions that are not `internal` can be found in it."""
    return _find_or_make(ir, lambda: _load_or_compile(ir))


def lazy_library(write: Callable[Concatenate[Module, P], None]) -> Callable[P, Library]:
    """The library of what a function writes into a module, which depends on its arguments alone.

    It is written only where nobody has asked for the same before, on this machine and by the same
    generators: the code is found by the arguments, spelled out.
    """

    def library(*arguments: P.args, **named: P.kwargs) -> Library:
        given = write.__module__, write.__qualname__, arguments, *named.items()
        new = Library(lambda: _text(write, *arguments, **named), lambda: stable_key(given))
        return _libraries.setdefault(given, new)

    remembered: Callable[P, Library] = cast("Any", lru_cache(_KEPT_CALLS)(library))
    return remembered


def _find_or_make(name: str, make: Callable[[], MachineCode]) -> MachineCode:
    """The code of this name, made if there is none in memory.

    Names are long; it is found by their checksum.
    """
    name = hashlib.sha256(name.encode()).hexdigest()
    library = _recent.get(name)
    if library is not None:
        with suppress(KeyError):  # another thread let it go meanwhile
            _recent.move_to_end(name)
        return library
    with _lock:
        library = _living.get(name)
        making = _making.setdefault(name, fork_safe_lock()) if library is None else None
    if making is not None:
        library = _make_once(name, making, make)
    assert library is not None
    with _lock:
        _recent[name] = library
        while len(_recent) > _KEPT_LIBRARIES:
            _recent.popitem(last=False)
    return library


def _make_once(name: str, making: threading.Lock, make: Callable[[], MachineCode]) -> MachineCode:
    """New code, unless another thread made it while this one waited."""
    with LLVM_WORK, making:
        library = _living.get(name)
        if library is None:
            try:
                library = _living[name] = make()
            finally:
                _making.pop(name, None)
    return library


def _key(text: str) -> str:
    """What code made from a text here is found by."""
    return hashlib.sha256(f"{PIPELINE} {host().identity}\n{text}".encode()).hexdigest()


def _load_or_write(made_from: str, text: Callable[[], str]) -> MachineCode:
    """From the disk, if it is known there what was made from the same; else from the text."""
    structure = _key(made_from)
    entry = find_entry(structure)
    if entry is not None:
        library = _load_stored(entry)
        if library is not None:
            return library
    ir = text()
    note_entry(structure, _entry(ir))
    return compile_ir(ir)


def _entry(ir: str) -> IndexEntry:
    """What is to be known of a text for finding its code and using it."""
    return IndexEntry(_key(ir), tuple(_EXPORTED.findall(ir)), tuple(_REQUIRED.findall(ir)))


def _load_stored(entry: IndexEntry) -> MachineCode | None:
    """Code that is on disk."""
    code = disk.load(entry.key)
    if code is None:
        return None
    try:
        return _link(code, entry)
    except NoPagesError:
        raise
    except RuntimeError:
        disk.discard(entry.key)
        return None


def _load_or_compile(ir: str) -> MachineCode:
    """From the disk or, where it has none, compiled."""
    entry = _entry(ir)
    library = _load_stored(entry)
    if library is None:
        code = object_code(ir, host())
        disk.save(entry.key, code)
        library = _link(code, entry)
    return library


def _link(code: bytes, entry: IndexEntry) -> MachineCode:
    """Object code brought into memory; raises RuntimeError where LLVM, asked last, refuses it.

    Raises NoPagesError where no code can be run.
    """
    uses = tuple([_SHARED[name]().code for name in entry.requires])
    given = {symbol: place for shared in uses for symbol, place in shared.addresses.items()}
    try:
        held: Any = load(code, entry.symbols, given)
        found = held.addresses
    except UnsupportedObjectError:
        held = link_by_llvm(code, entry.symbols, given, host())
        found = {symbol: held[symbol] for symbol in entry.symbols}
    return MachineCode(found, held, uses, len(code))
