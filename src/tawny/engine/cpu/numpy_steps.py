"""Steps that NumPy computes: the memory it takes beside the arena, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tawny.engine.cpu.kernel_table import NATIVE
from tawny.engine.protocol import Task
from tawny.engine.reference import INTO
from tawny.engine.reference.executable import single_ufunc
from tawny.engine.reference.kernel import WORKSPACES
from tawny.engine.reference.workspace import bytes_of_results
from tawny.errors import PerformanceWarning, warn
from tawny.node import Node
from tawny.source import Source

NOTICEABLE: Final = 1e-3
"""Estimated seconds from which a step is worth a warning."""

COMPILED: Final = frozenset({"float32", "float64"})
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
    """Say which steps NumPy computes, of those for which there are kernels, and what would help.

    Ops that have no kernel at all are meant to be NumPy's: factorisations, transforms, functions of
    the user's.
    """
    steps, found = task.lowered.steps, dict[str, list[Node]]()
    for step in by_numpy:
        node = steps[step]
        if type(node.op) in NATIVE and task.lowered.problem.steps[step].seconds >= NOTICEABLE:
            found.setdefault(_explain(node), []).append(node)
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


def _explain(node: Node) -> str:
    kinds = [str(source.dtype) for source in node.inputs]
    odd = [kind for kind in kinds if kind not in COMPILED]
    if len(set(kinds)) > 1:
        way_out = "convert them to one dtype first (x.astype(dtype))"
    elif odd:
        way_out = f"{odd[0]} is converted by x.astype('float64') where its values allow that"
    else:
        way_out = "copy operands that are views first (np.copy(x))"
    return (
        f"{node.name}: NumPy computes this step, since there is no compiled kernel for operands of "
        f"{', '.join(kinds)} that lie like these; {way_out}"
    )


def _places(nodes: Sequence[Node]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for node in nodes for source in node.sources))
