"""How much a step has to do, whatever runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from tawny.engine.lowering import cost, types
from tawny.node import Node
from tawny.op import Elementwise, Op, exponentials, primitives
from tawny.ops.bands import Bands
from tawny.ops.body import BodyStep
from tawny.ops.fused_products import FusedProduct
from tawny.ops.fusion import Group
from tawny.shape import Shape


class Work(NamedTuple):
    """The work of a step: operations, and bytes moved."""

    operations: int
    """Scalar operations as the op counts them; a multiply-add is two."""
    products: int
    """Operations that multiply and add in products."""
    functions: float
    """Elementwise operations, counted in exponentials."""
    bytes: int
    """Bytes read and written."""
    working_set: int
    """Bytes that are in use together."""
    itemsize: int
    """Bytes of a number."""


def work_of(node: Node) -> Work:
    """What a node has to do."""
    needed = cost(node)
    moved = needed.bytes_read + needed.bytes_written
    parts = len(node.op.bands) if isinstance(node.op, Bands) else 1
    itemsize = max([dtype.itemsize for _, dtype in types(node)], default=4)
    functions, simple = 0.0, 0
    for op, shape in _elementwise(node):
        elements = prod(shape)
        functions += exponentials(op) * elements
        simple += primitives(op) * elements
    products = max(0, needed.operations - simple)
    return Work(needed.operations, products, functions, moved, moved // parts, itemsize)


def _elementwise(node: Node) -> Iterator[tuple[Elementwise, Shape]]:
    """The elementwise operations inside a node, with the shapes of their results."""
    if isinstance(node.op, Elementwise):
        yield node.op, node.shape
        return
    waiting: list[Op] = [node.op]
    while waiting:
        for step in _steps(waiting.pop()):
            if isinstance(step.op, Elementwise):
                yield step.op, step.shape
            else:
                waiting.append(step.op)


def _steps(op: Op) -> Sequence[BodyStep]:
    if isinstance(op, (Group, FusedProduct)):
        return () if op.body is None else op.body.steps
    if isinstance(op, Bands):
        return [step for band in op.bands for step in band.body.steps]
    return ()
