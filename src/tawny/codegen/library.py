"""Compiled libraries: IR text in, addresses of functions out.

A library is found by what it was made from: the text, LLVM's version and the machine.  It is looked
for in memory, then on disk as object code, and compiled only then.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from weakref import WeakValueDictionary

from tawny.codegen import store
from tawny.codegen.machine import host, llvm

PIPELINE: Final = "2"
"""Names the passes below; code that other passes made is not taken from the disk."""

_HELD: Final = 1024
"""So many libraries stay in memory though nobody uses them."""

_EXPORTED: Final = re.compile(
    r"^define (?!.*\b(?:internal|private)\b)[^@\n]*@([A-Za-z_.$][\w.$]*)\(", re.MULTILINE
)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Library:
    """Code in memory; it stays there as long as this object."""

    addresses: Mapping[str, int]
    tracker: Any
    uses: tuple[Library, ...]
    """The shared libraries it is linked with."""
    size: int
    """Bytes of object code."""

    def address(self, symbol: str) -> int:
        """Where a function begins."""
        return self.addresses[symbol]


_SHARED: Final[dict[str, Callable[[], str]]] = {}
"""Libraries that others are linked with: the IR of each, made when it is first needed."""

_REQUIRED: Final = re.compile(r"^; requires (\w+)$", re.MULTILINE)


def provide(name: str, text: Callable[[], str]) -> None:
    """Make a shared library known: a text with a line `; requires name` is linked with it."""
    _SHARED[name] = text


_lock: Final = threading.RLock()
_numbers: Final = itertools.count()
_living: Final[WeakValueDictionary[str, Library]] = WeakValueDictionary()
_recent: Final[OrderedDict[str, Library]] = OrderedDict()


def compiled(ir: str) -> Library:
    """The library that a text of IR describes.

    The text needs no triple or layout.  Functions that are not `internal` can be found in it.
    """
    library = _recent.get(ir)
    if library is not None:
        return library
    with _lock:
        library = _living.get(ir)
        if library is None:
            library = _living[ir] = _loaded(ir)
        _recent[ir] = library
        while len(_recent) > _HELD:
            _recent.popitem(last=False)
    return library


def _loaded(ir: str) -> Library:
    """From the disk or, where it has none, compiled."""
    symbols = _EXPORTED.findall(ir)
    uses = tuple([_shared(name) for name in _REQUIRED.findall(ir)])
    key = hashlib.sha256(f"{PIPELINE} {host().identity}\n{ir}".encode()).hexdigest()
    code = store.load(key)
    if code is not None:
        try:
            return _linked(code, symbols, uses)
        except RuntimeError:
            store.discard(key)
    code = object_code(ir)
    store.save(key, code)
    return _linked(code, symbols, uses)


@cache
def _shared(name: str) -> Library:
    """A shared library, which stays."""
    return compiled(_SHARED[name]())


def object_code(ir: str) -> bytes:
    """The text as an object file for this machine."""
    binding, target = llvm(), _target()
    module = binding.parse_assembly(_header() + ir, binding.create_context())
    module.verify()
    builder = binding.create_pass_builder(target, binding.create_pipeline_tuning_options(1))
    _passes().run(module, builder)
    result: bytes = target.emit_object(module)
    return result


def assembly(ir: str) -> str:
    """The text as this machine's assembly, for reading."""
    binding, target = llvm(), _target()
    module = binding.parse_assembly(_header() + ir, binding.create_context())
    builder = binding.create_pass_builder(target, binding.create_pipeline_tuning_options(1))
    _passes().run(module, builder)
    return str(target.emit_assembly(module))


@cache
def _passes() -> Any:
    """Few passes, since generators write loops as they should run."""
    passes = llvm().create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    return passes


def _linked(code: bytes, symbols: list[str], uses: tuple[Library, ...]) -> Library:
    """Object code brought into memory; raises RuntimeError where LLVM refuses it."""
    builder = llvm().JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for shared in uses:
        builder.add_jit_library(shared.tracker.name)
    tracker = builder.link(_linker(), f"library{next(_numbers)}")
    return Library({s: tracker[s] for s in symbols}, tracker, uses, len(code))


@cache
def _target() -> Any:
    return host().target()


@cache
def _header() -> str:
    return f'target triple = "{host().triple}"\ntarget datalayout = "{_target().target_data}"\n'


@cache
def _linker() -> Any:
    """LLVM's linker of code in memory; it lives as long as the process."""
    return llvm().create_lljit_compiler(host().target(), use_jit_link=True)
