"""The native engine: compiled kernels over the plan's arena, one native call per run.

Where compiled code cannot be run, the reference kernels follow the same plan.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Final

from tawny.engine.cpu.bands import steps_of, strips_of
from tawny.engine.cpu.compilation import compile_kernels
from tawny.engine.cpu.executable import CpuExecutable
from tawny.engine.cpu.interpreter import interpreter
from tawny.engine.cpu.kernel_table import Kernel, choose, kernel_alone
from tawny.engine.cpu.loops import scratch_of
from tawny.engine.cpu.loops import steps_of as steps_of_loops
from tawny.engine.cpu.numpy_steps import warn_of_engine, warn_of_numpy
from tawny.engine.cpu.rates import measure_rates
from tawny.engine.cpu.rules import (
    bodies,
    factorisation,
    indexing,
    movement,
    products,
    random,
    transforms,
    windows,
)
from tawny.engine.cpu.rules.bodies import compilable, folds
from tawny.engine.cpu.threads.pool import NOMINAL_THREADS, default_threads
from tawny.engine.cpu.threads.pool_code import pool_library
from tawny.engine.layout import Views
from tawny.engine.llvm.runtime.compiler import LLVM_WORK
from tawny.engine.llvm.runtime.host import host
from tawny.engine.lowering import PROCESSOR
from tawny.engine.protocol import Executable, Rates, StalePlanError, Task
from tawny.engine.reference.executable import ReferenceExecutable
from tawny.forking import fork_safe_lock
from tawny.node import Node, Value, make
from tawny.ops.bands import Bands
from tawny.ops.body import Body
from tawny.ops.fused_products import FusedProduct
from tawny.shape import size

__all__ = ["CHAPTERS", "CpuEngine", "unavailable"]

CHAPTERS = (
    bodies,
    factorisation,
    indexing,
    movement,
    products,
    random,
    transforms,
    windows,
)
"""Where the native kernels are declared."""

TINY: Final = 256
"""Elementwise ops on fewer elements run one by one, by kernels that all of them share."""


@cache
def unavailable() -> str | None:
    """Why compiled code cannot be run here; None where it can."""
    try:
        with LLVM_WORK, _loading:
            interpreter()
    except (ImportError, OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


@cache
def _compiles() -> bool:
    """Whether there is a compiler.

    Whether its code can be run, `unavailable` finds out, in a thread beside the optimiser.
    """
    try:
        with LLVM_WORK, _asking:
            host()
    except (ImportError, OSError, RuntimeError):
        return False
    return True


_asking: Final = fork_safe_lock()
"""Held by the thread that loads the compiler."""
_loading: Final = fork_safe_lock()
"""Held by the thread that loads the interpreter."""


@cache
def _start_loading() -> None:
    """Load what every program needs beside the caller, where the system allows a thread."""
    with suppress(RuntimeError):
        threading.Thread(target=_load, name="tawny-loading").start()


def _load() -> None:
    if _compiles() and unavailable() is None:
        _ = pool_library().code


class CpuEngine:
    """Compiled kernels, and NumPy for nodes that have none."""

    machine = PROCESSOR
    precisions: Collection[str] = ("bfloat16",)

    @property
    def compiles_groups(self) -> bool:
        """Whether a fused group is compiled to one kernel."""
        return _compiles()

    @property
    def multiplies_bytes(self) -> bool:
        """Whether bytes are multiplied as such: yes, so that all processors have the same plans."""
        return _compiles()

    @property
    def multiplies_halves(self) -> bool:
        """Whether bfloat16 is multiplied as bfloat16: yes, for the same reason."""
        return _compiles()

    def should_round(self, product: Node) -> bool:
        """Whether to round the factors of a product: where that makes it faster."""
        return products.multiplies_halves_faster(product)

    def in_precision(self, precision: str) -> CpuEngine:
        """The engine itself: the graph says what is rounded."""
        del precision
        return self

    @property
    def shares_factors(self) -> bool:
        """Whether elimination is an op of its own: wherever its kernel is compiled."""
        return _compiles()

    @property
    def sorts_partly(self) -> bool:
        """Whether a partial sort is an op of its own: wherever its kernel is compiled."""
        return _compiles()

    @property
    def min_group_size(self) -> int:
        """The least elements of a group: kernels that all share compute fewer."""
        return TINY

    def can_fuse_product(self, op: FusedProduct, operands: Sequence[Node]) -> bool:
        """Whether a product and its body have a kernel."""
        return self._kernel(make(op, tuple(operands))) is not None

    def supports_bands(self, node: Node) -> bool:
        """Whether all steps of all bands have kernels that need nothing of Python."""
        views = Views()
        strips = strips_of(node, NOMINAL_THREADS)
        given = {operand for kind in strips.kinds for operand in kind.operands}
        kernels = map(self._kernel, steps_of(strips))
        return all(views(node.inputs[o]).memory.contiguous for o in given) and all(
            kernel is not None and not kernel.drawn for kernel in kernels
        )

    def should_group(self, body: Body) -> bool:
        """Whether a group can be compiled, and is so large that its kernel is worth it."""
        return compilable(body) and (folds(body) or size(body.space()) >= self.min_group_size)

    def warm_up(self) -> None:
        """Load the compiler and what runs kernels, beside the optimiser."""
        if default_threads() > 1:
            _start_loading()

    @property
    def nominal_threads(self) -> int:
        """The number of threads that plans are chosen for."""
        return NOMINAL_THREADS

    def threads(self, asked: int | None) -> int:
        """The number asked for, or that of the process."""
        return default_threads() if asked is None else asked

    def scratch(self, node: Node, threads: int) -> int:
        """The bytes of scratch memory of a node's kernel."""
        return scratch_of(node, threads) if _compiles() else 0

    def device(self) -> None:
        """None: programs run in the host's own memory."""

    def rates(self, threads: int) -> Rates | None:
        """The rates of multiply-adds in registers, and of copying large arrays, as measured now."""
        return None if unavailable() is not None else measure_rates(threads)

    def place(self, value: Value) -> Value:
        """The array itself."""
        return value

    def emit(self, task: Task) -> object:
        """Make the code of all kernels, several at a time."""
        if unavailable() is not None:
            return None
        nodes, views = self._one_by_one(task.lowered.steps, task.threads), Views()
        found = [choose(node, task.threads, views) for node in nodes]
        if not compile_kernels([choice for choice in found if choice is not None]):
            raise StalePlanError
        return found

    def prepare(self, task: Task) -> Executable:
        """Allocate the arena and lower the steps."""
        reason = unavailable()
        if reason is not None:
            warn_of_engine(task, reason)
            return ReferenceExecutable(task)
        executable = CpuExecutable(task)
        warn_of_numpy(task, executable.by_numpy)
        return executable

    def describe(self, steps: Sequence[Node], threads: int | None = None) -> str:
        """How the steps are run on a number of threads, in words."""
        reason = unavailable()
        if reason is not None:
            return f"cpu: by NumPy, since compiled code cannot be run here ({reason})"
        count = self.threads(threads)
        listed = list(self._one_by_one(steps, count))
        kernels = [(node, self._kernel(node, count)) for node in listed]
        left = Counter(node.name for node, kernel in kernels if kernel is None)
        native = f"cpu: {len(steps) - left.total()} of {len(steps)} steps compiled"
        prepared = {
            (node.inputs[number], made): made.nbytes
            for node, kernel in kernels
            if kernel is not None
            for number, made in kernel.prepared
        }
        copied = sum(prepared.values())
        native += f"; {copied:,} bytes of constants arranged before the run" if copied else ""
        words = ", ".join(f"{name} {count}" if count > 1 else name for name, count in left.items())
        return f"{native}; by NumPy: {words}" if left else native

    @staticmethod
    def _one_by_one(nodes: Sequence[Node], threads: int) -> Iterator[Node]:
        """The nodes, those of bands in place of bands."""
        for node in nodes:
            if isinstance(node.op, Bands):
                yield from steps_of(strips_of(node, threads))
            else:
                yield from steps_of_loops(node, threads)

    def _kernel(self, node: Node, threads: int = NOMINAL_THREADS) -> Kernel | None:
        if not _compiles():
            return None
        return kernel_alone(node, threads)


ENGINE: Final = CpuEngine()
