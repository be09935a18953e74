"""The native engine: compiled kernels over the plan's arena, one native call per run.

Where compiled code cannot be run, the reference kernels follow the same plan.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

from tawny.engine.cpu import (
    bodies,
    indexing,
    movement,
    panels,
    pooling,
    products,
    providers,
    random,
    scanning,
    searching,
)
from tawny.engine.cpu.bodies import compilable, folds
from tawny.engine.cpu.executable import CpuExecutable
from tawny.engine.cpu.interpreter import interpreter
from tawny.engine.cpu.kernels import NATIVE, SCRATCHLESS, Kernel, contiguous
from tawny.engine.cpu.pool import default_threads
from tawny.engine.cpu.pool_code import pool_library
from tawny.engine.cpu.views import Views
from tawny.engine.reference.executable import ReferenceExecutable
from tawny.graph.engine import Executable, Task
from tawny.graph.lowering import is_leaf, types
from tawny.node import Node, make
from tawny.ops.fused import Body, ProductGroup
from tawny.shape import size

__all__ = ["CHAPTERS", "CpuEngine", "unavailable"]

CHAPTERS = (bodies, indexing, movement, panels, pooling, products, random, scanning, searching)
"""Where the native kernels are declared."""

TINY: Final = 256
"""Elementwise ops on fewer elements run one by one, by kernels that all of them share."""

MOST_COMPILING: Final = 8
"""Threads that compile at the same time."""


@cache
def unavailable() -> str | None:
    """Why compiled code cannot be run here; None where it can."""
    try:
        with _loading:
            interpreter()
    except (ImportError, OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


_loading: Final = threading.Lock()
"""Held by the thread that loads what every program needs."""


@cache
def _begun() -> threading.Thread:
    """The thread that loads what every program needs."""
    thread = threading.Thread(target=_load, name="tawny-loading")
    thread.start()
    return thread


def _load() -> None:
    if unavailable() is None:
        pool_library()


class CpuEngine:
    """Compiled kernels, and NumPy for nodes that have none."""

    @property
    def groups(self) -> bool:
        """Whether a fused group is compiled to one kernel."""
        return unavailable() is None

    @property
    def least(self) -> int:
        """Elements of what is not tiny."""
        return TINY

    def joins(self, op: ProductGroup, operands: Sequence[Node]) -> bool:
        """Where there is a kernel, unless products are to be oneDNN's."""
        if providers.provider() is providers.Provider.ONEDNN:
            return False
        return self._kernel(make(op, tuple(operands))) is not None

    def worth(self, body: Body) -> bool:
        """If it can be compiled, and arrays are not tiny, where a kernel would cost too much."""
        return compilable(body) and (folds(body) or size(body.space()) >= self.least)

    def begin(self) -> None:
        """Load the compiler and what runs kernels, beside the optimiser."""
        if default_threads() > 1:
            _begun()

    def foresee(self, nodes: Sequence[Node]) -> None:
        """Compile kernels, several at a time."""
        if unavailable() is not None:
            return
        kinds: dict[object, Node] = {}
        for node in nodes:
            if type(node.op) in NATIVE and not is_leaf(node):
                shapes = [(source.shape, type(source.op)) for source in node.inputs]
                kinds.setdefault((node.op, tuple(shapes)), node)
        if len(kinds) > 1 and default_threads() > 1:
            with ThreadPoolExecutor(min(default_threads(), len(kinds), MOST_COMPILING)) as pool:
                pool.submit(pool_library)
                for _ in pool.map(self._kernel, kinds.values()):
                    pass

    def scratch(self, node: Node, threads: int | None = None) -> int:
        """What the node's kernel asks for."""
        if type(node.op) in SCRATCHLESS and type(node.op) not in providers.OFFERS:
            return 0
        kernel = self._kernel(node, threads)
        return 0 if kernel is None else kernel.scratch

    def prepare(self, task: Task) -> Executable:
        """Allocate the arena and lower the steps."""
        return CpuExecutable(task) if unavailable() is None else ReferenceExecutable(task)

    def account(self, steps: Sequence[Node]) -> str:
        """How the steps are run, in words."""
        reason = unavailable()
        if reason is not None:
            return f"cpu: by NumPy, since compiled code cannot be run here ({reason})"
        kernels = [(node, self._kernel(node)) for node in steps]
        left = Counter(node.name for node, kernel in kernels if kernel is None)
        native = f"cpu: {len(steps) - left.total()} of {len(steps)} steps compiled"
        native += providers.account(kernels)
        copied = sum(made.nbytes for _, k in kernels if k is not None for _, made in k.prepared)
        native += f"; {copied:,} bytes of constants arranged before the run" if copied else ""
        listed = ", ".join(f"{name} {count}" if count > 1 else name for name, count in left.items())
        return f"{native}; by NumPy: {listed}" if left else native

    def _kernel(self, node: Node, threads: int | None = None) -> Kernel | None:
        if unavailable() is not None:
            return None
        views = Views()
        operands = tuple([views(source).memory for source in node.inputs])
        results = tuple([contiguous(*kind) for kind in types(node)])
        return providers.kernel_of(node, operands, results, threads)
