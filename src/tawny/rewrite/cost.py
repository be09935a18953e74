"""What nodes cost: scalar operations and bytes moved, as the ledger counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from typing import Final

from tawny.node import Constant, Node
from tawny.op import Elementwise, Op, Type
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fused import Cost, FusedConvolution, FusedMatmul, Group, nbytes, primitives
from tawny.ops.linalg import Matmul
from tawny.ops.pooling import Pool
from tawny.ops.reduction import ArgExtremum, Reduction, Scan
from tawny.shape import Shape, size

NOTHING: Final = Cost(0, 0, 0)


def cost_of(node: Node) -> Cost:
    """Cost of computing one node; views, constants and variables cost nothing."""
    return cost(node.op, (node.shape, node.dtype), [(i.shape, i.dtype) for i in node.inputs])


def cost(op: Op, result: Type, operands: Sequence[Type]) -> Cost:
    """Cost of an op that makes a value of this type from operands of these types."""
    if _is_free(op, operands):
        return NOTHING
    if isinstance(op, Group):
        return op.cost()
    if isinstance(op, (FusedMatmul, FusedConvolution)):
        return op.cost(*operands)
    operations = counting(op.family)(op, result[0], [shape for shape, _ in operands])
    return Cost(operations, sum(map(nbytes, operands)), nbytes(result))


def _is_free(op: Op, operands: Sequence[object]) -> bool:
    facts = op.facts()
    return facts.view or (not operands and (facts.impure or type(op) is Constant))


Count = Callable[[Any, Shape, Sequence[Shape]], int]
"""Scalar operations of an op, given the shapes of its result and its operands."""


def _each_element(op: Op, shape: Shape, operands: Sequence[Shape]) -> int:
    del op, operands
    return prod(shape)


def _each_primitive(op: Elementwise, shape: Shape, operands: Sequence[Shape]) -> int:
    del operands
    return primitives(op) * prod(shape)


def _each_operand_element(op: Op, shape: Shape, operands: Sequence[Shape]) -> int:
    del op, shape
    return max(map(prod, operands[:1]))
def added(costs: Iterable[Cost]) -> Cost:
    """The sum of costs."""
    operations = read = written = 0
    for one in costs:
        operations += one.operations
        read += one.bytes_read
        written += one.bytes_written
    return Cost(operations, read, written)
