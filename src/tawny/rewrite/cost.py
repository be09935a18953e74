"""What nodes cost: scalar operations and bytes moved, as the ledger counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import prod
from typing import Final

from tawny.node import Constant, Node
from tawny.op import Elementwise, Op, Type
from tawny.ops.bands import Bands
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.fusion import (
    Cost,
    FusedConvolution,
    FusedMatmul,
    Group,
    ProductGroup,
    nbytes,
    primitives,
)
from tawny.ops.linalg import Matmul
from tawny.ops.pooling import Pooling
from tawny.ops.reduction import ArgExtremum, Cumulative, Reduction
from tawny.shape import Shape

NOTHING: Final = Cost(0, 0, 0)


def cost_of(node: Node) -> Cost:
    """Cost of computing one node; views, constants and variables cost nothing."""
    return cost(node.op, (node.shape, node.dtype), [(i.shape, i.dtype) for i in node.inputs])


def cost(op: Op, result: Type, operands: Sequence[Type]) -> Cost:
    """Cost of an op that makes a value of this type from operands of these types."""
    if type(op) is Elementwise:
        operations = primitives(op) * prod(result[0])
    elif _is_free(op, operands):
        return NOTHING
    elif isinstance(op, Group):
        return op.cost()
    elif isinstance(op, (FusedMatmul, FusedConvolution, ProductGroup)):
        return op.cost(*operands)
    elif isinstance(op, Bands):
        return _bands_cost(op)
    else:
        operations = _count_of(type(op))(result[0], [shape for shape, _ in operands])
    return Cost(operations, sum(map(nbytes, operands)), nbytes(result))


def graph_cost(order: Iterable[Node]) -> Cost:
    """Cost of a graph: of all nodes, each after its inputs."""
    operations = read = written = 0
    inputs: list[tuple[Node, ...]] = []
    held: dict[Node, int] = {}
    groups: dict[Op, Cost] = {}
    for node in order:
        op, sources, elements = node.op, node.inputs, prod(node.shape)
        held[node] = bytes = elements * node.dtype.itemsize
        if type(op) is Elementwise:
            operations += primitives(op) * elements
            written += bytes
            inputs.append(sources)
        elif type(op) in _COST_THEMSELVES:
            one = groups.get(op)
            if one is None:
                one = cost_of(node)
                if type(op) is Group:
                    groups[op] = one
            operations += one.operations
            read += one.bytes_read
            written += one.bytes_written
        elif not _is_free(op, sources):
            operations += _count_of(type(op))(node.shape, [i.shape for i in sources])
            written += bytes
            inputs.append(sources)
    read += sum(map(held.__getitem__, chain.from_iterable(inputs)))
    return Cost(operations, read, written)


_COST_THEMSELVES: Final = frozenset({Bands, Group, FusedMatmul, FusedConvolution, ProductGroup})


def _bands_cost(op: Bands) -> Cost:
    """That of all steps of all bands: rows around a band are computed for each."""
    return sum_costs(
        cost(step.op, (step.shape, step.dtype), [band.body.type_of(i) for i in step.inputs])
        for band in op.bands
        for step in band.body.steps
    )


def _is_free(op: Op, operands: Sequence[object]) -> bool:
    facts = op.facts()
    return facts.view or (not operands and (facts.impure or type(op) is Constant))


# ------------------------------------------------------------------ operations

Count = Callable[[Shape, Sequence[Shape]], int]
"""Scalar operations of an op, given the shapes of its result and its operands."""

_COUNTS: Final[tuple[tuple[tuple[type[Op], ...], Count], ...]] = (
    ((Reduction, ArgExtremum, Cumulative), lambda _, operands: prod(operands[0])),
    ((Matmul,), lambda shape, operands: 2 * operands[0][-1] * prod(shape)),
    ((Convolution,), lambda shape, operands: 2 * prod(operands[1][:-1]) * prod(shape)),
    (
        (ConvolutionInputGradient,),
        lambda _, operands: 2 * prod(operands[0][:-1]) * prod(operands[1]),
    ),
    (
        (ConvolutionKernelGradient,),
        lambda shape, operands: 2 * prod(shape[:-1]) * prod(operands[1]),
    ),
    ((Pooling,), lambda _, operands: max(map(prod, operands))),
)


_COUNT_OF: Final[dict[type[Op], Count]] = {}
"""The answers of `_count_of`."""


def _count_of(kind: type[Op]) -> Count:
    """How to count the operations of a class of ops: one an element, where nothing else is said."""
    found = _COUNT_OF.get(kind)
    if found is None:
        counts = [count for classes, count in _COUNTS if issubclass(kind, classes)]
        found = _COUNT_OF[kind] = counts[0] if counts else lambda shape, _: prod(shape)
    return found


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """The sum of costs."""
    operations = read = written = 0
    for one in costs:
        operations += one.operations
        read += one.bytes_read
        written += one.bytes_written
    return Cost(operations, read, written)
