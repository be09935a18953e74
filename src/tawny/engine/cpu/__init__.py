"""The native engine: compiled kernels over the plan's arena, one native call per run.

Where compiled code cannot be run, the reference kernels follow the same plan.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import dropwhile
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from tawny.codegen.library import NotAtHandError, at_hand
from tawny.codegen.machine import LLVM_WORK, host
from tawny.engine.cpu import (
    bodies,
    boxes,
    factorisation,
    indexing,
    movement,
    panels,
    pooling,
    products,
    providers,
    random,
    scanning,
    searching,
    series,
)
from tawny.engine.cpu.bands import scratch_of, steps_of, strips_of
from tawny.engine.cpu.bodies import compilable, folds
from tawny.engine.cpu.executable import CpuExecutable
from tawny.engine.cpu.interpreter import interpreter
from tawny.engine.cpu.kernels import NATIVE, Kernel
from tawny.engine.cpu.pool import NOMINAL_THREADS, default_threads
from tawny.engine.cpu.pool_code import pool_library
from tawny.engine.cpu.telling import warn_of_engine, warn_of_numpy
from tawny.engine.cpu.views import Views
from tawny.engine.reference.executable import ReferenceExecutable
from tawny.forking import lock
from tawny.graph.engine import Executable, Task
from tawny.graph.lowering import is_leaf
from tawny.later import Later
from tawny.node import Node, make
from tawny.op import Op
from tawny.ops.bands import Bands
from tawny.ops.fused import Body, ProductGroup
from tawny.shape import size

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = Later("concurrent.futures")

__all__ = ["CHAPTERS", "CpuEngine", "unavailable"]

CHAPTERS = (
    bodies,
    boxes,
    factorisation,
    indexing,
    movement,
    panels,
    pooling,
    products,
    random,
    scanning,
    searching,
    series,
)
"""Where the native kernels are declared."""

TINY: Final = 256
"""Elementwise ops on fewer elements run one by one, by kernels that all of them share."""

MOST_COMPILING: Final = 8
"""Threads that compile at the same time; one more writes what is compiled next."""


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
    """Whether there is a compiler; that its code can be run is found out beside the optimiser."""
    try:
        with LLVM_WORK, _asking:
            host()
    except (ImportError, OSError, RuntimeError):
        return False
    return True


_asking: Final = lock()
"""Held by the thread that loads the compiler, ..."""
_loading: Final = lock()
"""... and by the one that loads what every program needs."""


@cache
def _begun() -> None:
    """Load what every program needs beside the caller, where the system allows a thread."""
    with suppress(RuntimeError):
        threading.Thread(target=_load, name="tawny-loading").start()


def _load() -> None:
    if _compiles() and unavailable() is None:
        pool_library()


def _in_turn(nodes: Iterable[Node]) -> list[Node]:
    """The first node of each kind of op, the second of each, and so on.

    Kernels of one kind share code: most of the work is done when all have had their first turn.
    """
    turns, met = list[tuple[int, Node]](), Counter[type[Op]]()
    for node in nodes:
        turns.append((met[type(node.op)], node))
        met[type(node.op)] += 1
    return [node for _, node in sorted(turns, key=itemgetter(0))]


class CpuEngine:
    """Compiled kernels, and NumPy for nodes that have none."""

    @property
    def groups(self) -> bool:
        """Whether a fused group is compiled to one kernel."""
        return _compiles()

    @property
    def least(self) -> int:
        """Elements of what is not tiny."""
        return TINY

    def joins(self, op: ProductGroup, operands: Sequence[Node]) -> bool:
        """Where there is a kernel, unless products are to be oneDNN's."""
        if providers.provider() is providers.Provider.ONEDNN:
            return False
        return self._kernel(make(op, tuple(operands))) is not None

    def in_bands(self, node: Node) -> bool:
        """Where all steps of all bands have kernels that need nothing of Python."""
        if unavailable() is not None:
            return False
        views = Views()
        strips = strips_of(node, NOMINAL_THREADS)
        given = {operand for kind in strips.kinds for operand in kind.operands}
        kernels = map(self._kernel, steps_of(strips))
        return all(views(node.inputs[o]).memory.contiguous for o in given) and all(
            kernel is not None and not kernel.drawn for kernel in kernels
        )

    def worth(self, body: Body) -> bool:
        """If it can be compiled, and arrays are not tiny, where a kernel would cost too much."""
        return compilable(body) and (folds(body) or size(body.space()) >= self.least)

    def begin(self) -> None:
        """Load the compiler and what runs kernels, beside the optimiser."""
        if default_threads() > 1:
            _begun()

    def foresee(self, nodes: Sequence[Node]) -> None:
        """Find kernels and, from the first that is not at hand on, make them several at a time.

        Finding them is Python's work, in which threads would only wait for each other.
        """
        if not _compiles() or default_threads() == 1:
            return
        kinds: dict[object, Node] = {}
        for node in self._one_by_one(nodes):
            if type(node.op) in NATIVE and not is_leaf(node):
                shapes = [(source.shape, type(source.op)) for source in node.inputs]
                kinds.setdefault((node.op, tuple(shapes)), node)
        missing = _in_turn(dropwhile(self._is_at_hand, kinds.values()))
        if missing:
            with (
                suppress(RuntimeError),  # no more threads: each is made where it is needed
                futures.ThreadPoolExecutor(min(default_threads(), MOST_COMPILING) + 1) as pool,
            ):
                pool.submit(pool_library)
                for _ in pool.map(self._kernel, missing):
                    pass

    def _is_at_hand(self, node: Node) -> bool:
        """Whether a node's kernel, if it has one, need not be made."""
        try:
            with at_hand():
                self._kernel(node)
        except NotAtHandError:
            return False
        return True

    @property
    def nominal_threads(self) -> int:
        """What plans are chosen for."""
        return NOMINAL_THREADS

    def threads(self, asked: int | None) -> int:
        """So many, or those of the process."""
        return default_threads() if asked is None else asked

    def scratch(self, node: Node, threads: int) -> int:
        """What the node's kernel asks for."""
        return scratch_of(node, threads) if unavailable() is None else 0

    def prepare(self, task: Task) -> Executable:
        """Allocate the arena and lower the steps."""
        reason = unavailable()
        if reason is not None:
            warn_of_engine(task, reason)
            return ReferenceExecutable(task)
        executable = CpuExecutable(task)
        warn_of_numpy(task, executable.by_numpy)
        return executable

    def account(self, steps: Sequence[Node], threads: int | None = None) -> str:
        """How the steps are run on so many threads, in words."""
        reason = unavailable()
        if reason is not None:
            return f"cpu: by NumPy, since compiled code cannot be run here ({reason})"
        listed = list(self._one_by_one(steps))
        count = self.threads(threads)
        kernels = [(node, self._kernel(node, count)) for node in listed]
        left = Counter(node.name for node, kernel in kernels if kernel is None)
        native = f"cpu: {len(steps) - left.total()} of {len(steps)} steps compiled"
        native += providers.account(kernels)
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
    def _one_by_one(nodes: Sequence[Node]) -> Iterator[Node]:
        """The nodes, those of bands in place of bands."""
        for node in nodes:
            if isinstance(node.op, Bands):
                yield from steps_of(strips_of(node, NOMINAL_THREADS))
            else:
                yield node

    def _kernel(self, node: Node, threads: int = NOMINAL_THREADS) -> Kernel | None:
        if not _compiles():
            return None
        return providers.kernel_alone(node, threads)
