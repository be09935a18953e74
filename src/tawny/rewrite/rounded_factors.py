"""The pass behind `precision="bfloat16"`: factors of float32 products are rounded to bfloat16.

Products of matrices, convolutions and their gradients, and einsums still add up in float32, and
everything else is computed as it was: a value between two products is bfloat16 in memory where
products alone read it.  Products that would not be faster are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tawny.dtype import FLOAT32, bfloat16
from tawny.node import Node, constant, make, source_scope
from tawny.op import Family
from tawny.ops.convolution import Convolution, ConvolutionInputGradient, ConvolutionKernelGradient
from tawny.ops.creation import Cast
from tawny.ops.einsum import Einsum
from tawny.ops.linalg import Matmul
from tawny.rewrite.flow import Context, Flow, Pass, sources_of, with_inputs
from tawny.rewrite.lifetimes import is_leaf

PRODUCTS: Final[frozenset[Family]] = frozenset(
    {Matmul, Convolution, ConvolutionInputGradient, ConvolutionKernelGradient, Einsum}
)
"""Ops whose operands are multiplied with each other and added up."""


def round_factors_pass(should_round: Callable[[Node], bool]) -> Pass:
    """The pass; `should_round` says of a product whether it is to be rounded."""

    def run(flow: Flow, context: Context) -> Flow:
        del context
        rounded: dict[Node, Node] = {}
        replacements: dict[Node, Node] = {}
        for node in flow.order():
            is_product = node.op.family in PRODUCTS and node.dtype == FLOAT32
            if not is_product or is_leaf(node) or not should_round(node):
                continue
            for factor in node.inputs:
                if factor not in rounded:
                    rounded[factor] = _round(factor)
            replacements[node] = with_inputs(node, tuple([rounded[i] for i in node.inputs]))
        return flow.replace_nodes(replacements)

    return Pass("round_factors", (), run, PRODUCTS)


def _round(node: Node) -> Node:
    """A factor with numbers of bfloat16, as float32."""
    if node.dtype != FLOAT32:
        return node
    with source_scope(sources_of((node,))):
        if node.value is not None:
            return make(Cast(FLOAT32), (constant(node.value.astype(bfloat16())),))
        return make(Cast(FLOAT32), (make(Cast(bfloat16()), (node,)),))
