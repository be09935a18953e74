"""What nodes cost: scalar operations and bytes moved, as the ledger counts them."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from tawny.node import Node
from tawny.op import Elementwise, Trait
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fused import Cost, FusedConvolution, FusedMatmul, Group, nbytes, primitives
from tawny.ops.linalg import Matmul
from tawny.ops.pooling import Pool
from tawny.ops.reduction import ArgExtremum, Reduction, Scan
from tawny.shape import size

NOTHING: Final = Cost(0, 0, 0)


def cost_of(node: Node) -> Cost:
    """Cost of computing one node; views, constants and variables cost nothing."""
    op = node.op
    if type(op) is Elementwise:
        return total((node,))
    if not node.inputs and node.value is not None:
        return NOTHING
    facts = op.facts()
    if Trait.VIEW in facts.traits or (facts.impure and not node.inputs):
        return NOTHING
    if isinstance(op, Group):
        return op.cost()
    types = [(i.shape, i.dtype) for i in node.inputs]
    if isinstance(op, (FusedMatmul, FusedConvolution)):
        return op.cost(*types)
    written = nbytes((node.shape, node.dtype))
    return Cost(_operations(node), sum(map(nbytes, types)), written)


def _operations(node: Node) -> int:
    op = node.op
    elements = size(node.shape)
    if isinstance(op, (Reduction, ArgExtremum, Scan)):
        return size(node.inputs[0].shape)
    if isinstance(op, Matmul):
        return 2 * node.inputs[0].shape[-1] * elements
    if isinstance(op, Convolution):
        return 2 * prod(node.inputs[1].shape[:-1]) * elements
    if isinstance(op, ConvolutionInputGradient):
        kernel, gradient = (i.shape for i in node.inputs)
        return 2 * prod(kernel[:-1]) * size(gradient)
    if isinstance(op, ConvolutionKernelGradient):
        return 2 * prod(node.shape[:-1]) * size(node.inputs[1].shape)
    if isinstance(op, Pool):
        return max(size(i.shape) for i in node.inputs)
    return elements


def total(nodes: Iterable[Node]) -> Cost:
    """Cost of several nodes together."""
    operations = read = written = 0
    for node in nodes:
        if type(node.op) is Elementwise:
            elements = prod(node.shape)
            operations += primitives(node.op) * elements
            written += elements * node.dtype.itemsize
            for source in node.inputs:
                read += prod(source.shape) * source.dtype.itemsize
        else:
            cost = cost_of(node)
            operations += cost.operations
            read += cost.bytes_read
            written += cost.bytes_written
    return Cost(operations, read, written)
