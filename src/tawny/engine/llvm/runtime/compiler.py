"""LLVM itself: IR text into object code or assembly of a target, and its linker.

A text needs no triple or layout: the target has them.  Targets are compiled for at the same time by
several threads, each with target machines of its own.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import re
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from tawny.engine.llvm.targets import Target
from tawny.forking import ForkBarrier, fork_safe_lock

LLVM_WORK: Final = ForkBarrier()
"""Held around LLVM's work: it has locks of its own, which a forked process would find held."""

PIPELINE: Final = "3"
"""Names the passes below; code that other passes made is not taken from the disk."""

_FINISHED: Final = re.compile(r"^; finished$", re.MULTILINE)


@cache
def llvm() -> Any:
    """LLVM's binding, imported when the first kernel is compiled."""
    binding = importlib.import_module("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    guard = getattr(binding.ffi.lib, "_lock", None)
    if guard is not None:  # the binding's own lock, which it holds too while objects are freed
        LLVM_WORK.guard(guard)
    return binding


def object_code(ir: str, target: Target) -> bytes:
    """The text as an object file."""
    return _emit(_optimise(ir, target), _machine(ir, target), _OBJECT)


def assembly(ir: str, target: Target) -> str:
    """The text as assembly: for reading, or where the target's code is text."""
    return _emit(_optimise(ir, target), _machine(ir, target), _ASSEMBLY).decode()


def _machine(ir: str, target: Target) -> Any:
    """What a text is compiled by."""
    return _thread.machine(target, quick=_FINISHED.search(ir) is not None)


class _ThreadMachines(threading.local):
    """LLVM's target machines, which each thread has for itself."""

    def __init__(self) -> None:
        self._made: dict[tuple[Target, bool], Any] = {}

    def machine(self, target: Target, *, quick: bool) -> Any:
        """The machine of a target; a quick one takes a tenth of the time for finished code."""
        if (target, quick) not in self._made:
            self._made[target, quick] = _target_machine(target, effort=1 if quick else 2)
        return self._made[target, quick]


_thread: Final = _ThreadMachines()


def _target_machine(target: Target, effort: int = 2) -> Any:
    """LLVM's target machine; what it tries for better code, from 0 to 3."""
    return _known_target(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=effort,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


def _known_target(triple: str) -> Any:
    """LLVM's target of a triple; those that are not the host's are made known when first asked."""
    binding = llvm()
    with _naming:
        try:
            return binding.Target.from_triple(triple)
        except RuntimeError:
            binding.initialize_all_targets()
            binding.initialize_all_asmprinters()
            return binding.Target.from_triple(triple)


_naming: Final = fork_safe_lock()


def _optimise(ir: str, target: Target) -> Any:
    """The text as a module, improved by few passes: generators write loops as they should run.

    Of code that is finished only calls and memory on the stack are resolved.
    """
    binding, machine = llvm(), _machine(ir, target)
    head = f'target triple = "{target.triple}"\ntarget datalayout = "{machine.target_data}"\n'
    module = binding.parse_assembly(head + ir, binding.create_context())
    module.verify()
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    if not _FINISHED.search(ir):
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
    tuning = binding.create_pipeline_tuning_options(1)
    builder = binding.create_pass_builder(machine, tuning)
    try:
        _unlocked_function("LLVMPY_RunNewModulePassManager")(passes, module, builder)
    finally:
        # The binding's own class never frees it.  A builder, of which the binding leaves 1.5 kB
        # behind, cannot be used twice: it calls back into what a run had on its stack.
        binding.ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
        passes.detach()
    return module


def _emit(module: Any, machine: Any, kind: int) -> bytes:
    """A module as an object file or as assembly."""
    ffi = llvm().ffi
    with ffi.OutputString() as error:
        emit = _unlocked_function("LLVMPY_TargetMachineEmitToMemory")
        buffer = emit(machine, module, kind, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


_ASSEMBLY: Final = 0
_OBJECT: Final = 1
"""What LLVM is asked to emit."""


def _unlocked_function(name: str) -> Any:
    """A function of LLVM's binding without the lock that all calls share.

    Modules of different contexts can be compiled at the same time, each by a machine of its own.
    """
    function = getattr(llvm().ffi.lib, name)
    return getattr(function, "_cfn", function)


# --------------------------------------------------------------------- linking

_linking: Final = fork_safe_lock()
_numbers: Final = itertools.count()


def link_by_llvm(
    code: bytes, symbols: Iterable[str], given: Mapping[str, int], target: Target
) -> Any:
    """Object code in memory, by LLVM's linker: addresses by symbols, as long as it is held."""
    builder = llvm().JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for symbol, place in given.items():
        builder.import_symbol(symbol, place)
    with _linking:
        return builder.link(_linker(target), f"library{next(_numbers)}")


@cache
def _linker(target: Target) -> Any:
    """LLVM's linker, for code that cannot be loaded without; it lives as long as the process."""
    return llvm().create_lljit_compiler(_target_machine(target), use_jit_link=True)
