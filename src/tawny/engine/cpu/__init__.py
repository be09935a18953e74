"""The native engine: compiled kernels over the plan's arena, one native call per run.

Where compiled code cannot be run, the reference kernels follow the same plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from tawny.engine.cpu import bodies, indexing, movement, pooling, products, random
from tawny.engine.cpu.bodies import compilable, folds
from tawny.engine.cpu.executable import CpuExecutable
from tawny.engine.cpu.interpreter import interpreter
from tawny.engine.cpu.kernels import SCRATCHLESS, Kernel, contiguous, kernel_for
from tawny.engine.cpu.views import Views
from tawny.engine.reference.executable import ReferenceExecutable
from tawny.graph.engine import Executable, Task
from tawny.graph.lowering import types
from tawny.node import Node
from tawny.ops.fused import Body
from tawny.shape import size

__all__ = ["CHAPTERS", "CpuEngine", "unavailable"]

CHAPTERS = (bodies, indexing, movement, pooling, products, random)
"""Where the native kernels are declared."""

TINY: Final = 256
"""Elementwise ops on fewer elements run one by one, by kernels that all of them share."""


@cache
def unavailable() -> str | None:
    """Why compiled code cannot be run here; None where it can."""
    try:
        interpreter()
    except (ImportError, OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


class CpuEngine:
    """Compiled kernels, and NumPy for nodes that have none."""

    @property
    def groups(self) -> bool:
        """Whether a fused group is compiled to one kernel."""
        return unavailable() is None

    def worth(self, body: Body) -> bool:
        """If it can be compiled, and arrays are not tiny, where a kernel would cost too much."""
        return compilable(body) and (folds(body) or size(body.space()) >= TINY)

    def scratch(self, node: Node) -> int:
        """What the node's kernel asks for."""
        if type(node.op) in SCRATCHLESS:
            return 0
        kernel = self._kernel(node)
        return 0 if kernel is None else kernel.scratch

    def prepare(self, task: Task) -> Executable:
        """Allocate the arena and lower the steps."""
        return CpuExecutable(task) if unavailable() is None else ReferenceExecutable(task)

    def account(self, steps: Sequence[Node]) -> str:
        """How the steps are run, in words."""
        reason = unavailable()
        if reason is not None:
            return f"cpu: by NumPy, since compiled code cannot be run here ({reason})"
        left = Counter(node.name for node in steps if self._kernel(node) is None)
        native = f"cpu: {len(steps) - left.total()} of {len(steps)} steps compiled"
        listed = ", ".join(f"{name} {count}" if count > 1 else name for name, count in left.items())
        return f"{native}; by NumPy: {listed}" if left else native

    def _kernel(self, node: Node) -> Kernel | None:
        if unavailable() is not None:
            return None
        views = Views()
        operands = tuple([views(source).memory for source in node.inputs])
        results = tuple([contiguous(*kind) for kind in types(node)])
        return kernel_for(node, operands, results)
