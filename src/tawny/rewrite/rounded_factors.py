"""The pass behind `precision="bfloat16"`: factors of float32 products are rounded to bfloat16.

Products of matrices, convolutions and their gradients, and einsums still add up in float32, and
everything else is computed as it was: a value between two products is bfloat16 in memory where
products alone read it.
"""

from __future__ import annotations

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


def _run(flow: Flow, context: Context) -> Flow:
    del context
    rounded: dict[Node, Node] = {}
    replacements: dict[Node, Node] = {}
    for node in flow.order():
        if node.op.family not in PRODUCTS or node.dtype != FLOAT32 or is_leaf(node):
            continue
        for factor in node.inputs:
            if factor not in rounded:
                rounded[factor] = _round(factor)
        replacements[node] = with_inputs(node, tuple([rounded[i] for i in node.inputs]))
    return flow.replace_nodes(replacements)


round_factors: Final = Pass("round_factors", (), _run, PRODUCTS)


def _round(node: Node) -> Node:
    """A factor with numbers of bfloat16, as float32."""
    if node.dtype != FLOAT32:
        return node
    with source_scope(sources_of((node,))):
        if node.value is not None:
            return make(Cast(FLOAT32), (constant(node.value.astype(bfloat16())),))
        return make(Cast(FLOAT32), (make(Cast(bfloat16()), (node,)),))
