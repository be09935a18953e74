"""How much a step has to do, whatever runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Final, NamedTuple

from tawny.engine.lowering import cost, types
from tawny.node import Node
from tawny.op import Elementwise, Op, primitives
from tawny.ops.bands import Bands
from tawny.ops.body import BodyStep
from tawny.ops.fusion import Group, ProductGroup
from tawny.scalar import Prim, PrimCall
from tawny.shape import Shape

FUNCTIONS: Final = {
    **dict.fromkeys((Prim.DIV, Prim.RECIPROCAL, Prim.SQRT), 0.3),
    **dict.fromkeys((Prim.EXP, Prim.EXP2), 1.0),
    **dict.fromkeys((Prim.EXPM1, Prim.LOG, Prim.LOG2, Prim.LOG10, Prim.CBRT), 1.5),
    **dict.fromkeys((Prim.LOG1P, Prim.SINH, Prim.COSH, Prim.TANH, Prim.ATAN), 2.0),
    **dict.fromkeys((Prim.SIN, Prim.COS, Prim.ERF, Prim.ASIN, Prim.ACOS), 2.0),
    **dict.fromkeys((Prim.TAN, Prim.ATAN2, Prim.ASINH, Prim.ACOSH, Prim.ATANH, Prim.ERFC), 3.0),
    **dict.fromkeys((Prim.POW, Prim.HYPOT, Prim.FMOD, Prim.MOD, Prim.FLOORDIV, Prim.DAWSN), 4.0),
}
"""What elementary functions take, counted in exponentials; other primitives are one operation."""

SIMPLE: Final = 1 / 20
"""What a primitive outside a product takes, counted in exponentials: sums of a loop that is not
bound by memory run at a fraction of the speed of products."""


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
        functions += _functions_of(op) * elements
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
    if isinstance(op, (Group, ProductGroup)):
        return op.body.steps
    if isinstance(op, Bands):
        return [step for band in op.bands for step in band.body.steps]
    return ()


@lru_cache(1024)
def _functions_of(op: Elementwise) -> float:
    """What an elementwise op takes for each element, counted in exponentials."""
    total, stack = 0.0, [op.scalar]
    while stack:
        expr = stack.pop()
        if isinstance(expr, PrimCall):
            total += FUNCTIONS.get(expr.prim, SIMPLE)
            stack.extend(expr.args)
    return total
