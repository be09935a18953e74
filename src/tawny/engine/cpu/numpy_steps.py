"""Steps that NumPy computes: the memory it takes beside the arena, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tawny.dtype import FLOAT32, FLOAT64, DType
from tawny.engine.cpu.kernel_table import NATIVE, kernel_alone
from tawny.engine.protocol import Task
from tawny.engine.reference import INTO
from tawny.engine.reference.executable import single_ufunc
from tawny.engine.reference.kernel import WORKSPACES
from tawny.engine.reference.workspace import bytes_of_results
from tawny.errors import PerformanceWarning, warn
from tawny.node import Node, make, variable
from tawny.source import Source

NOTICEABLE: Final = 1e-3
"""Estimated seconds from which a step is worth a warning."""

COMPILED: Final = frozenset({FLOAT32, FLOAT64})
"""Dtypes for which whatever can be compiled is."""


def numpy_workspace_bytes(node: Node) -> int:
    """Bytes that NumPy takes while it computes a node, as far as they are known.

    They are planned as scratch memory of the step.  NumPy makes a new array for each result, which
    is then copied to its place.
    """
    if single_ufunc(node) is not None:
        return 0
    results = 0 if type(node.op) in INTO else bytes_of_results(node)
    workspace = WORKSPACES.get(type(node.op))
    return results + (0 if workspace is None else workspace(node))


def warn_of_numpy(task: Task, by_numpy: Iterable[int]) -> None:
    """Say which steps NumPy computes for which there would be kernels, and what would help.

    What no change of operands brings to a kernel is meant to be NumPy's: factorisations of large
    matrices, functions of the user's.
    """
    steps, found = task.lowered.steps, dict[str, list[Node]]()
    for step in by_numpy:
        node = steps[step]
        if task.lowered.problem.steps[step].seconds >= NOTICEABLE:
            way_out = _way_out(node, task.threads)
            if way_out is not None:
                found.setdefault(_explain(node, way_out), []).append(node)
    for text, nodes in found.items():
        times = f" ({len(nodes)} steps)" if len(nodes) > 1 else ""
        warn(text + times, PerformanceWarning, about=_places(nodes))


def warn_of_engine(task: Task, reason: str) -> None:
    """Say that NumPy computes every step, if that can be noticed."""
    if sum(step.seconds for step in task.lowered.problem.steps) >= NOTICEABLE:
        warn(
            f"compile: NumPy computes every step, since compiled code cannot be run here "
            f"({reason}); `tawny doctor` says what is missing",
            PerformanceWarning,
        )


def _way_out(node: Node, threads: int) -> str | None:
    """What makes operands such that there is a kernel; None where nothing does."""
    if type(node.op) not in NATIVE:
        return None
    kinds = [source.dtype for source in node.inputs]
    odd = [kind for kind in kinds if kind not in COMPILED]
    ways = {
        "copy operands that are views first (np.copy(x))": kinds,
    }
    if odd:
        wide = [FLOAT64 if kind == odd[0] else kind for kind in kinds]
        ways[f"{odd[0]} is converted by x.astype('float64') where its values allow that"] = wide
    return next((text for text, new in ways.items() if _has_kernel(node, new, threads)), None)


def _has_kernel(node: Node, kinds: Sequence[DType], threads: int) -> bool:
    """Whether a kernel applies the op of a node to new arrays of these dtypes."""
    types = [(source.shape, kind) for source, kind in zip(node.inputs, kinds, strict=True)]
    if node.op.mistake(types) is not None:
        return False
    try:
        other = make(node.op, tuple([variable(None, *kind) for kind in types]))
    except (TypeError, ValueError):
        return False
    return kernel_alone(other, threads) is not None


def _explain(node: Node, way_out: str) -> str:
    kinds = ", ".join([str(source.dtype) for source in node.inputs])
    return (
        f"{node.name}: NumPy computes this step, since there is no compiled kernel for operands of "
        f"{kinds} that lie like these; {way_out}"
    )


def _places(nodes: Sequence[Node]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for node in nodes for source in node.sources))
