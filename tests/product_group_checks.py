"""Groups of a product and what uses it up, as tests make and compute them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tawny.node import Node, make, variable
from tawny.op import ELEMENTWISE
from tawny.ops.body import Body, BodyStep
from tawny.ops.fused_products import FusedProduct


def has_body(node: Node) -> bool:
    """Whether a node is a product that a body uses up."""
    return isinstance(node.op, FusedProduct) and node.op.body is not None


def node_of(op: FusedProduct, arrays: Sequence[np.ndarray]) -> Node:
    """The node of an op on variables like some arrays."""
    return make(op, tuple([variable(None, a.shape, a.dtype) for a in arrays]))


def several(found: Any) -> list[np.ndarray]:
    """All results of what may have one."""
    return list(found) if isinstance(found, tuple) else [found]


class BodyToBe:
    """A body in the making: pieces of a product, other operands, some stretched, and steps."""

    def __init__(
        self, rng: random.Random, shape: tuple[int, int], dtype: str, pieces: int = 1
    ) -> None:
        rows, columns = shape
        shapes = [shape, shape, (rows, 1), (1, columns), (columns,), (1,), (1, 1), ()]
        kind = np.dtype(dtype)
        others = [(s, kind) for s in rng.sample(shapes, rng.randint(1, 5))]
        self._rng, self._shape, self._steps = rng, shape, list[BodyStep]()
        self._operands = (*[(shape, kind)] * pieces, *others)
        self.count = len(self._operands)
        self.values = list(self._operands)

    def step(self, name: str, *inputs: int) -> None:
        """Add an op on values by number."""
        op = ELEMENTWISE[name]
        given = [self.values[i] for i in inputs]
        made = op.infer_shape(*[s for s, _ in given]), op.infer_dtype(*[d for _, d in given])
        self._steps.append(BodyStep(op, inputs, *made))
        self.values.append(made)

    def body(self) -> Body:
        """The body, with up to three results that are as large as the product."""
        made = enumerate(self.values)
        whole = [i for i, (s, _) in made if s == self._shape and i >= self.count]
        results = self._rng.sample(whole, min(len(whole), self._rng.randint(1, 3)))
        return Body.of(self._operands, tuple(self._steps), tuple(results))
