"""The reference engine: NumPy, one node at a time.  Every other engine is judged by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tawny.engine.reference import (
    boxes,
    byte_products,
    creation,
    delay,
    elementwise,
    factors,
    fft,
    fusion,
    half_products,
    linalg,
    loops,
    movement,
    random,
    reduction,
    sorting,
    windows,
)
from tawny.engine.reference.computing import compute, compute_into, explain_failure
from tawny.engine.reference.kernel import INTO, KERNELS, Value
from tawny.node import Node, toposort

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
    byte_products,
    factors,
    fusion,
    half_products,
    loops,
)


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
    return _fresh(values, outputs, given)


def _fresh(
    values: Mapping[int, Value], outputs: Sequence[Node], given: Collection[int]
) -> list[Value]:
    """Arrays that own their memory, writable, no two the same and none of the user's."""
    taken = set(given)
    out: list[Value] = []
    for node in outputs:
        value = values[id(node)]
        own = value.base is None and value.flags.writeable and id(value) not in taken
        taken.add(id(value))
        out.append(value if own else _copy(node, value))
    return out


def _copy(node: Node, value: Value) -> Value:
    try:
        return np.array(value, order="C")
    except MemoryError as error:
        explain_failure(node, error)
        raise
