"""How many multiply-adds a graph or a model takes, without running it.

As in published tables, a multiply and its add count as one, and products alone are counted: matrix
products, contractions, correlations, convolutions and their transposes.  What is done element by
element (activations, normalisation, pooling) is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tawny.array import Array
from tawny.node import Node, toposort
from tawny.tree import leaves


def multiply_adds(nodes: Iterable[Node]) -> int:
    """The multiply-adds of some nodes."""
    return sum(n.op.multiply_adds(n.shape, [i.shape for i in n.inputs]) for n in nodes)


def flops(outputs: Any) -> int:
    """The multiply-adds it takes to compute arrays, each shared product once.

    `outputs` is an array or a nested structure of arrays; of a model, what it gives:
    `nn.flops(model(x))`, or `model.summary(shape).flops`.
    """
    nodes = [x.node for x in leaves(outputs) if isinstance(x, Array)]
    return multiply_adds(toposort(nodes))
