"""The pass that multiplies bfloat16 as bfloat16.

A product of float32 whose factors were widened from bfloat16, or are numbers that fit it, is a
product of those, two of the common axis at a time; a product whose result is bfloat16, too, is one
with float32 sums that are rounded.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tawny.dtype import FLOAT32, bfloat16, is_bfloat16
from tawny.node import Node, constant, make, source_scope
from tawny.op import ELEMENTWISE, Op
from tawny.ops.convolution import Convolution
from tawny.ops.creation import Cast
from tawny.ops.fused_products import (
    PLAIN,
    Epilogue,
    FusedProduct,
    TransposedMatmul,
    epilogue_of,
    plain_product,
    transposes,
    with_epilogue,
)
from tawny.ops.half_products import TOGETHER, ConvolutionHalves, MatmulHalves
from tawny.ops.linalg import Matmul
from tawny.ops.movement import Copy, transpose_node
from tawny.rewrite.byte_products import fill_up, side_by_side
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, sources_of
from tawny.rewrite.lifetimes import is_leaf
from tawny.shape import size

HALF_PRODUCT: Final = RuleInfo(
    "half_product",
    Kind.CONTRACTING,
    "float32(a) @ float32(b) = matmul_halves(a, b), for a and b of bfloat16",
)

LEAST_OPERATIONS: Final = 2**12
"""Products of fewer multiplications are over before anything else matters."""

LEAST_ROWS: Final = 16
"""Rows of the left matrix from which arranging a right one pays that may change in each run."""

_PRODUCTS: Final = frozenset({Matmul, TransposedMatmul, Convolution, FusedProduct})


def _run(flow: Flow, context: Context) -> Flow:
    if flow.families().isdisjoint(_PRODUCTS) or not context.recorder.allows(HALF_PRODUCT):
        return flow
    replacements: dict[Node, Node] = {}
    for node in flow.order():
        if epilogue_of(node.op) is not None and not is_leaf(node):
            made = _as_halves(node, context)
            if made is not None:
                context.recorder.record(HALF_PRODUCT, (node,), (made,))
                replacements[node] = made
    return flow.replace_nodes(replacements)


multiply_halves: Final = Pass("multiply_halves", (HALF_PRODUCT,), _run)


def _as_halves(node: Node, context: Context) -> Node | None:
    """A product as one of bfloat16; None where that is not possible, or no gain."""
    op, (a, b, *others) = node.op, node.inputs
    if node.dtype != FLOAT32 and not is_bfloat16(node.dtype):
        return None
    halves: dict[Node, Node] = {}
    for factor in sorted((a, b), key=_has_value):  # to look at all numbers of weights takes long
        half = _halves_of(factor, context)
        if half is None:
            return None
        halves[factor] = half
    left, right = halves[a], halves[b]
    if left.known and right.known:
        return None
    if not is_worth_an_op(node, right.value is not None):
        return None
    with source_scope(sources_of((node,))):
        return _product(node, op, left, right, others)


def _has_value(factor: Node) -> bool:
    return factor.value is not None


def is_worth_an_op(product: Node, known: bool) -> bool:
    """Whether a product is worth an op of its own, by its shapes and whether factor 1 is known."""
    op, (a, b) = plain_product(product.op), product.inputs[:2]
    if isinstance(op, Convolution) and op.groups != 1:
        return False
    if len(a.shape) < 2 or len(b.shape) < 2 or not size(product.shape):
        return False
    depth, rows = size(b.shape) // product.shape[-1], size(product.shape[:-1])
    if rows * size(b.shape) < LEAST_OPERATIONS or depth < TOGETHER:
        return False
    return known or rows >= LEAST_ROWS


def _halves_of(node: Node, context: Context) -> Node | None:
    """A factor as bfloat16, if its numbers fit that."""
    if isinstance(node.op, Cast) and not is_leaf(node) and is_bfloat16(node.inputs[0].dtype):
        (node,) = node.inputs
    if is_bfloat16(node.dtype):
        known = node.known and not node.volatile and node.value is None
        return constant(context.evaluate([node])[0]) if known else node
    if node.value is None or node.dtype != FLOAT32:
        return None
    narrow = node.value.astype(bfloat16())
    fits = np.array_equal(narrow.astype(FLOAT32), node.value, equal_nan=True)
    return constant(narrow) if fits else None


def _product(node: Node, op: Op, left: Node, right: Node, others: list[Node]) -> Node:
    """The product, rounded at each step of its epilogue if its result is bfloat16."""
    plain, epilogue = plain_product(op), epilogue_of(op) or PLAIN
    made: Op = MatmulHalves()
    if isinstance(plain, Convolution):
        made = ConvolutionHalves(plain.strides, plain.padding, plain.dilation, plain.groups)
    transpose_a, transpose_b = transposes(plain)
    left = _transpose(left) if transpose_a else left
    right = _transpose(right) if transpose_b else right
    factors = fill_up(left, -1, TOGETHER), side_by_side(right, TOGETHER)
    if node.dtype == FLOAT32:
        return make(with_epilogue(made, epilogue), (*factors, *others))
    product = make(Cast(node.dtype), (make(made, factors),))
    return _with_steps(product, epilogue, others)


def _transpose(node: Node) -> Node:
    """A matrix, or a stack of them, with rows and columns exchanged in memory."""
    rank = len(node.shape)
    if node.value is not None:
        moved: Any = np.ascontiguousarray(np.swapaxes(node.value, -1, -2))
        return constant(moved)
    return make(Copy(), (transpose_node(node, (*range(rank - 2), rank - 1, rank - 2)),))


def _with_steps(product: Node, epilogue: Epilogue, others: list[Node]) -> Node:
    """An epilogue as ops by themselves."""
    for other in others:
        product = make(ELEMENTWISE["add"], (product, other))
    last = epilogue.activation.op
    return product if last is None else make(last, (product,))
