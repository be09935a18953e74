"""Compiled libraries: IR text in, addresses of functions out.

A library costs nothing until an address in it is asked for; then its code is made.  Code is found
by what it was made from: the text, LLVM's version and the machine.  It is looked for in memory,
then on disk as object code, and compiled only then.  Threads compile different texts at the same
time.  Where a text is made from a structure, it need not be written for finding the code:
`lazy_library`.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, ParamSpec, cast
from weakref import WeakValueDictionary

from tawny.engine.llvm.runtime import cache as disk
from tawny.engine.llvm.runtime.cache import IndexEntry, find_entry, note_entry, stable_key
from tawny.engine.llvm.runtime.elf import UnsupportedObjectError
from tawny.engine.llvm.runtime.elf_loader import NoPagesError, load
from tawny.engine.llvm.runtime.host import LLVM_WORK, host, llvm
from tawny.forking import Lock, fork_safe_lock
from tawny.lazy import cached_property
from tawny.unique import Unique

P = ParamSpec("P")

PIPELINE: Final = "3"
"""Names the passes below; code that other passes made is not taken from the disk."""

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


_SHARED: Final[dict[str, Callable[[], str]]] = {}
"""Libraries that others are linked with: the IR of each, made when it is first needed."""

_REQUIRED: Final = re.compile(r"^; requires (\w+)$", re.MULTILINE)
_FINISHED: Final = re.compile(r"^; finished$", re.MULTILINE)


def provide(name: str, text: Callable[[], str]) -> None:
    """Make a shared library known: a text with a line `; requires name` is linked with it."""
    _SHARED[name] = text


_lock: Final = fork_safe_lock()
"""Held where the tables below are changed."""
_making: Final[dict[str, Lock]] = {}
"""Held by the thread that makes the library of a text."""
_linking: Final = fork_safe_lock()
_numbers: Final = itertools.count()
_living: Final[WeakValueDictionary[str, MachineCode]] = WeakValueDictionary()
_recent: Final[OrderedDict[str, MachineCode]] = OrderedDict()
_libraries: Final[WeakValueDictionary[Hashable, Library]] = WeakValueDictionary()
"""Libraries by what they are made from."""


def compile_ir(ir: str) -> MachineCode:
    """The code that a text of IR describes.

    The text needs no triple or layout.  Functions that are not `internal` can be found in it.
    """
    return _find_or_make(ir, lambda: _load_or_compile(ir))


def lazy_library(text: Callable[P, str]) -> Callable[P, Library]:
    """The library of the text that a function writes, which depends on its arguments alone.

    The text is written only where nobody has asked for the same before, on this machine and by the
    same generators: the code is found by the arguments, spelled out.
    """

    def library(*arguments: P.args, **named: P.kwargs) -> Library:
        given = text.__module__, text.__qualname__, arguments, *named.items()
        new = Library(lambda: text(*arguments, **named), lambda: stable_key(given))
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
        code = object_code(ir)
        disk.save(entry.key, code)
        library = _link(code, entry)
    return library


@cache
def _shared_code(name: str) -> MachineCode:
    """The code of a shared library, which stays."""
    return _find_or_make(f"shared {name}", lambda: _load_or_write(f"shared {name}", _SHARED[name]))


def object_code(ir: str) -> bytes:
    """The text as an object file for this machine."""
    return _emit_object(_optimise(ir), _target(ir))


def assembly(ir: str) -> str:
    """The text as this machine's assembly, for reading."""
    return str(_target(ir).emit_assembly(_optimise(ir)))


def _target(ir: str) -> Any:
    """What a text is compiled by."""
    return _thread.quick_target if _FINISHED.search(ir) else _thread.target


def _optimise(ir: str) -> Any:
    """The text as a module, improved by few passes: generators write loops as they should run.

    Of code that is finished only calls and memory on the stack are resolved.
    """
    binding = llvm()
    module = binding.parse_assembly(_header() + ir, binding.create_context())
    module.verify()
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    if not _FINISHED.search(ir):
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
    tuning = binding.create_pipeline_tuning_options(1)
    builder = binding.create_pass_builder(_target(ir), tuning)
    try:
        _unlocked_function("LLVMPY_RunNewModulePassManager")(passes, module, builder)
    finally:
        # The binding's own class never frees it.  A builder, of which the binding leaves 1.5 kB
        # behind, cannot be used twice: it calls back into what a run had on its stack.
        binding.ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
        passes.detach()
    return module


def _emit_object(module: Any, target: Any) -> bytes:
    """A module as an object file."""
    ffi = llvm().ffi
    with ffi.OutputString() as error:
        emit = _unlocked_function("LLVMPY_TargetMachineEmitToMemory")
        buffer = emit(target, module, _OBJECT, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


_OBJECT: Final = 1
"""Asks for an object file, not for assembly."""


def _unlocked_function(name: str) -> Any:
    """A function of LLVM's binding without the lock that all calls share.

    Modules of different contexts can be compiled at the same time, each by a target of its own.
    """
    function = getattr(llvm().ffi.lib, name)
    return getattr(function, "_cfn", function)


def _link(code: bytes, entry: IndexEntry) -> MachineCode:
    """Object code brought into memory; raises RuntimeError where LLVM, asked last, refuses it.

    Raises NoPagesError where no code can be run.
    """
    uses = tuple([_shared_code(name) for name in entry.requires])
    given = {symbol: place for shared in uses for symbol, place in shared.addresses.items()}
    try:
        held: Any = load(code, entry.symbols, given)
        found = held.addresses
    except UnsupportedObjectError:
        held = _link_by_llvm(code, entry.symbols, given)
        found = {symbol: held[symbol] for symbol in entry.symbols}
    return MachineCode(found, held, uses, len(code))


def _link_by_llvm(code: bytes, symbols: tuple[str, ...], given: Mapping[str, int]) -> Any:
    builder = llvm().JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for symbol, place in given.items():
        builder.import_symbol(symbol, place)
    with _linking:
        return builder.link(_linker(), f"library{next(_numbers)}")


class _ThreadTargets(threading.local):
    """What each thread has for itself."""

    @cached_property
    def target(self) -> Any:
        """LLVM's target machine."""
        return host().target()

    @cached_property
    def quick_target(self) -> Any:
        """One of less effort: a tenth of the time, and code that is as fast if finished."""
        return host().target(effort=1)


_thread: Final = _ThreadTargets()


@cache
def _header() -> str:
    return (
        f'target triple = "{host().triple}"\ntarget datalayout = "{_thread.target.target_data}"\n'
    )


@cache
def _linker() -> Any:
    """LLVM's linker, for code that cannot be loaded without; it lives as long as the process."""
    return llvm().create_lljit_compiler(host().target(), use_jit_link=True)
