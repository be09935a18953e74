"""How many multiply-adds a graph or a model takes, without running it.

As in published tables, a multiply and its add count as one, and products alone are counted: matrix
products, contractions, convolutions and their transposes.  What is done element by element
(activations, normalisation, pooling) is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from tawny.array import Array
from tawny.node import Node, toposort
from tawny.op import Op
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
)
from tawny.ops.linalg import Einsum, Matmul
from tawny.shape import size
from tawny.tree import leaves

Count = Callable[[Node], int]


def _matmul(node: Node) -> int:
    return size(node.shape) * node.inputs[0].shape[-1]


def _einsum(node: Node) -> int:
    """Every combination of indices once for each operand beyond the first."""
    op = cast("Einsum", node.op)
    sizes: dict[str, int] = {}
    terms = op.subscripts.partition("->")[0].split(",")
    for term, operand in zip(terms, node.inputs, strict=True):
        for letter, n in zip(term, operand.shape, strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    return size(tuple(sizes.values())) * (len(node.inputs) - 1)


def _convolution(node: Node) -> int:
    """Every output takes a window of each channel of its group."""
    return size(node.shape) * size(node.inputs[1].shape[:-1])


def _input_gradient(node: Node) -> int:
    kernel, gradient = node.inputs
    return size(gradient.shape) * size(kernel.shape[:-1])


def _kernel_gradient(node: Node) -> int:
    return size(node.inputs[1].shape) * size(node.shape[:-1])


PRODUCTS: Final[dict[type[Op], Count]] = {
    Matmul: _matmul,
    Einsum: _einsum,
    Convolution: _convolution,
    ConvolutionInputGradient: _input_gradient,
    ConvolutionKernelGradient: _kernel_gradient,
}
"""The ops that are counted, and how."""


def multiply_adds(nodes: Iterable[Node]) -> int:
    """The multiply-adds of some nodes."""
    return sum(PRODUCTS[type(n.op)](n) for n in nodes if type(n.op) in PRODUCTS)


def flops(outputs: Any) -> int:
    """The multiply-adds it takes to compute arrays, each shared product once.

    `outputs` is an array or a nested structure of arrays; of a model, what it gives:
    `nn.flops(model(x))`, or `model.summary(shape).flops`.
    """
    nodes = [x.node for x in leaves(outputs) if isinstance(x, Array)]
    return multiply_adds(toposort(nodes))
