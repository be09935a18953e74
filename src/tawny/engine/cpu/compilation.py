"""Kernels are chosen first; when a plan is settled, the code of all of them is made here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tawny.engine.cpu.kernel_table import Choice, Kernel, refuse, warn_of_failure
from tawny.engine.cpu.products.preparation import CompiledPreparation
from tawny.engine.cpu.threads.pool import default_threads
from tawny.engine.cpu.threads.pool_code import pool_library
from tawny.engine.llvm.runtime.elf_loader import NoPagesError
from tawny.engine.llvm.runtime.library import Address, Library
from tawny.lazy import LazyModule

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = LazyModule("concurrent.futures")

MOST_COMPILING: Final = 8
"""Threads that compile at the same time; one more writes what is compiled next."""


def compile_kernels(chosen: Sequence[Choice]) -> bool:
    """Make the code of kernels that have none yet; False where some of it cannot be made.

    Nodes whose kernels cannot be made have none from then on, which a warning says.  What is on the
    disk is loaded one after the other, since that is Python's work, in which threads would only
    wait for each other; from the first on that is not, several are made at a time.
    """
    kernels = {id(choice.kernel): choice.kernel for choice in chosen}.values()
    wanted = dict.fromkeys(library for kernel in kernels for library in libraries_of(kernel))
    missing = [library for library in wanted if not library.load()]
    if not missing:
        return True
    failed = _compile(missing)
    for choice in chosen:
        errors = [failed[one] for one in libraries_of(choice.kernel) if one in failed]
        if errors:
            refuse(choice)
            if not isinstance(errors[0], NoPagesError):  # `tawny doctor` tells of that
                warn_of_failure(choice.node, errors[0])
    return not failed


def libraries_of(kernel: Kernel) -> list[Library]:
    """The libraries whose code a kernel needs."""
    found = [kernel.library, *[p.library for p in kernel.parameters if isinstance(p, Address)]]
    for _, prepare in kernel.prepared:
        if isinstance(prepare, CompiledPreparation):
            found += [panel.pack.library for panel in prepare.panels]
    return [one for one in found if isinstance(one, Library)]


def _compile(missing: Sequence[Library]) -> dict[Library, Exception]:
    """Make code; the errors of libraries whose code cannot be made."""
    failed: dict[Library, Exception] = {}

    def make(library: Library) -> None:
        try:
            _ = library.code
        except Exception as error:  # a program must run wherever the reference engine runs it
            failed[library] = error

    threads = min(default_threads(), MOST_COMPILING)
    if threads > 1:
        with (
            suppress(RuntimeError),  # no more threads: the rest is made below
            futures.ThreadPoolExecutor(threads + 1) as pool,
        ):
            pool.submit(lambda: pool_library().code)
            for _ in pool.map(make, missing):
                pass
    for library in missing:
        if library not in failed:
            make(library)
    return failed
