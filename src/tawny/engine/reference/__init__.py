"""The reference engine: NumPy, one node at a time.  Every other engine is judged by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tawny.engine.reference import (
    boxes,
    creation,
    delay,
    elementwise,
    fft,
    fusion,
    linalg,
    movement,
    random,
    reduction,
    sorting,
    windows,
)
from tawny.engine.reference.kernel import INTO, KERNELS, Value, cast
from tawny.node import Constant, Node, toposort
from tawny.op import Elementwise
from tawny.ops.delay import Delay
from tawny.ops.pieces import GatherPieces
from tawny.ops.random import Draw
from tawny.source import describe

__all__ = ["INTO", "KERNELS", "compute", "compute_into", "run"]

CHAPTERS = (
    creation,
    elementwise,
    reduction,
    movement,
    windows,
    random,
    delay,
    linalg,
    fft,
    sorting,
    boxes,
    fusion,
)


def compute(node: Node, operands: Sequence[Value], draw: int) -> Any:
    """The value of one node, of the shape and dtype that were inferred for it."""
    op = node.op
    if type(op) is Constant and node.value is not None:  # another thread computed it meanwhile
        return node.value
    try:
        if isinstance(op, Elementwise):
            return cast(elementwise.compute(op, operands), node.dtype)
        if isinstance(op, Draw):
            return cast(KERNELS[type(op)](op, draw, *operands), node.dtype)
        result = KERNELS[type(op)](op, *operands)
    except Exception as error:
        _explain(node, error)
        raise
    if node.parts:
        return tuple(cast(v, dtype) for v, (_, dtype) in zip(result, node.parts, strict=True))
    return cast(result, node.dtype)


def compute_into(node: Node, operands: Sequence[Value], out: Value) -> None:
    """Write the value of a node whose op has a kernel for that."""
    try:
        INTO[type(node.op)](node.op, *operands, out)
    except Exception as error:
        _explain(node, error)
        raise


def _explain(node: Node, error: Exception) -> None:
    """Say of an error which node it is about; NumPy's own are said again."""
    if isinstance(node.op, Delay) or type(error) not in _REWORDED:
        error.add_note(f"in {node.name}, written at {_places(node)}")
    else:
        raise type(error)(f"{_name(node)}: {error}  [{_places(node)}]") from None


_REWORDED = (
    ValueError,
    IndexError,
    TypeError,
    ZeroDivisionError,
    OverflowError,
    np.linalg.LinAlgError,
)
"""Errors of NumPy's own whose message can be said again with the op and the user's line."""


def _name(node: Node) -> str:
    """The op as the user knows it."""
    return "gather" if isinstance(node.op, GatherPieces) else node.name


def _places(node: Node) -> str:
    return describe(node.sources) or "an unknown place"


Compute = Callable[[Node, Sequence[Value], int], Any]
"""The value of a node, given those of its inputs and the number of the run."""


def run(
    outputs: Sequence[Node],
    feeds: Mapping[Node, Value] | None = None,
    draw: int = 0,
    *,
    by: Compute = compute,
) -> list[Value]:
    """Fresh values of `outputs`, given those of the variables.

    `draw` numbers the run, for random ops: values kept from run 0 stand for that run alone.  A
    value is freed as soon as the last node that reads it is done.  `by` computes
    each node.
    """
    values: dict[int, Any] = {id(n): v for n, v in (feeds or {}).items()}
    given = {id(v) for v in values.values()}

    def is_there(node: Node) -> bool:
        return id(node) in values or (node.value is not None and not (draw and node.volatile))

    order = toposort(outputs, is_there)
    steps = [n for n in order if not is_there(n)]
    readers = Counter(id(i) for n in steps for i in n.inputs)
    readers.update(map(id, outputs))
    for node in order:
        if is_there(node):
            values.setdefault(id(node), node.value)
            given.add(id(values[id(node)]))
    with np.errstate(all="ignore"):
        for node in steps:
            values[id(node)] = by(node, [values[id(i)] for i in node.inputs], draw)
            for source in node.inputs:
                readers[id(source)] -= 1
                if not readers[id(source)]:
                    del values[id(source)]
    return _fresh([values[id(n)] for n in outputs], given)


def _fresh(values: list[Value], given: set[int]) -> list[Value]:
    """Arrays that own their memory, writable, no two the same and none of the user's."""
    taken = set(given)
    out: list[Value] = []
    for value in values:
        own = value.base is None and value.flags.writeable and id(value) not in taken
        taken.add(id(value))
        out.append(value if own else np.array(value, order="C"))
    return out
