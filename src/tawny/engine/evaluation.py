"""Values computed on the spot, node by node, for eager functions and arrays asked for a value."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import numpy as np

from tawny.array import EAGER_COMPUTE, Array, check_untraced, has_value, set_evaluator
from tawny.engine import reference
from tawny.engine.cpu import single, unavailable
from tawny.engine.lowering import is_leaf, seconds
from tawny.engine.reference.kernel import COMPOSED
from tawny.errors import needs_values, type_error
from tawny.node import Node, Value, toposort, variables

WORTH_SECONDS: Final = 2e-4
"""An op that NumPy has no function for is compiled if it is estimated to take longer."""


def run(
    outputs: Sequence[Node], feeds: Mapping[Node, Value] | None = None, draw: int = 0
) -> list[Value]:
    """Fresh values of `outputs`: by NumPy, and by compiled kernels where it has nothing."""
    return reference.run(outputs, feeds, draw, by=_compute)


@contextmanager
def at_once() -> Generator[None]:
    """Inside, arrays that depend on no variable are computed as they are made, one by one.

    Compiled kernels compute what they can; no graph is optimised, no memory planned.  For looking
    into a function while it runs, and for measuring what the graph is worth.
    """
    token = EAGER_COMPUTE.set(_value)
    try:
        yield
    finally:
        EAGER_COMPUTE.reset(token)


def _value(node: Node) -> Value:
    """The value of a node, which may share memory with those of others."""
    values: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for needed in toposort([node], has_value):
            values[needed] = needed.value
            if needed.value is None:
                values[needed] = compute(needed, [values[i] for i in needed.inputs], 0)
    return cast("Value", values[node])


def _compute(node: Node, operands: Sequence[Value], draw: int) -> Any:
    if type(node.op) in COMPOSED and seconds(node) > WORTH_SECONDS:
        return compute(node, operands, draw)
    return reference.compute(node, operands, draw)


def compute(node: Node, operands: Sequence[Value], draw: int) -> Any:
    """The value of one node, by its compiled kernel where it has one."""
    native = unavailable() is None and not is_leaf(node)
    value = single.compute(node, operands, draw) if native else None
    return reference.compute(node, operands, draw) if value is None else value


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


set_evaluator(run)
