"""Engines: what runs a graph.  `cpu` is the default, `reference` judges all others."""

from __future__ import annotations

from typing import Any

from tawny.array import Array, check_untraced, set_evaluator
from tawny.engine.cpu import CpuEngine
from tawny.engine.evaluation import run
from tawny.engine.reference.executable import ReferenceEngine
from tawny.errors import needs_values, type_error
from tawny.graph.engine import ENGINES
from tawny.node import variables

__all__ = ["evaluate"]

set_evaluator(run)
ENGINES["reference"] = ReferenceEngine()
ENGINES["cpu"] = CpuEngine()


def evaluate(*arrays: Array) -> Any:
    """Values of arrays that depend on no variable, computed together in one run.

    - `arrays`: arrays of `tawny.numpy`; what they have in common is computed once.

    One array gives one NumPy array, several give a tuple; they are new and may be changed.
    Raises TypeError where a value depends on a variable: compile a graph instead.

        x = np.asarray([1.0, 2.0])
        total, mean = tw.evaluate(np.sum(x), np.mean(x))
        float(total), float(mean)                     # -> (3.0, 1.5)
    """
    for position, array in enumerate(arrays):
        if not isinstance(array, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error(
                "evaluate",
                f"operand {position} is {type(array).__name__}; accepted: arrays of tawny.numpy",
            )
    unknown = [a.node for a in arrays if not a.node.known]
    if unknown:
        raise needs_values("evaluate", variables(unknown), "give values by compiling a tw.Graph")
    nodes = [a.node for a in arrays]
    check_untraced(nodes, "evaluate")
    values = run(nodes)
    return values[0] if len(values) == 1 else tuple(values)
