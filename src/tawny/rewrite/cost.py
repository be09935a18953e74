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
    if type(op) is Elementwise:
        operations = primitives(op) * size(result[0])
        return Cost(operations, sum(map(nbytes, operands)), nbytes(result))
    facts = op.facts()
    if facts.view or (not operands and (facts.impure or type(op) is Constant)):
        return NOTHING
    if isinstance(op, Group):
        return op.cost()
    if isinstance(op, (FusedMatmul, FusedConvolution)):
        return op.cost(*operands)
    shapes = [shape for shape, _ in operands]
    return Cost(_operations(op, result[0], shapes), sum(map(nbytes, operands)), nbytes(result))


def _operations(op: Op, shape: Shape, operands: Sequence[Shape]) -> int:
    elements = size(shape)
    if isinstance(op, (Reduction, ArgExtremum, Scan)):
        return size(operands[0])
    if isinstance(op, Matmul):
        return 2 * operands[0][-1] * elements
    if isinstance(op, Convolution):
        return 2 * prod(operands[1][:-1]) * elements
    if isinstance(op, ConvolutionInputGradient):
        kernel, gradient = operands
        return 2 * prod(kernel[:-1]) * size(gradient)
    if isinstance(op, ConvolutionKernelGradient):
        return 2 * prod(shape[:-1]) * size(operands[1])
    if isinstance(op, Pool):
        return max(map(size, operands))
    return elements


def total(nodes: Iterable[Node]) -> Cost:
    """Cost of several nodes together."""
    operations = read = written = 0
    inputs: list[tuple[Node, ...]] = []
    for node in nodes:
        op = node.op
        if type(op) is Elementwise:
            elements = prod(node.shape)
            operations += primitives(op) * elements
            written += elements * node.dtype.itemsize
            inputs.append(node.inputs)
        elif type(op) is not Constant and not op.facts().view:
            one = cost_of(node)
            operations += one.operations
            read += one.bytes_read
            written += one.bytes_written
    for node, times in Counter(chain.from_iterable(inputs)).items():
        read += times * prod(node.shape) * node.dtype.itemsize
    return Cost(operations, read, written)


def added(costs: Iterable[Cost]) -> Cost:
    """The sum of costs."""
    operations = read = written = 0
    for one in costs:
        operations += one.operations
        read += one.bytes_read
        written += one.bytes_written
    return Cost(operations, read, written)
