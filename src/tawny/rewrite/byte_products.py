"""The pass that multiplies bytes as bytes.

A product of 32-bit integers whose left factor was made from uint8, and whose right factor from
int8 or from numbers that fit it, is a product of the bytes themselves.  Bytes of the common axis
are taken four at a time: zeros fill it up.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, Final

import numpy as np

from tawny.dtype import INT8, INT32, UINT8, DType
from tawny.loops.building import build_loop, nodes_inside, written_out
from tawny.node import Node, Value, constant, make, part, scalar, source_scope
from tawny.op import Family, Op
from tawny.ops.byte_products import TOGETHER, ConvolutionBytes, MatmulBytes
from tawny.ops.convolution import Convolution
from tawny.ops.creation import Cast
from tawny.ops.indexing import Pad
from tawny.ops.linalg import Matmul
from tawny.ops.loops import ScanLoop
from tawny.ops.movement import Copy, Transpose, reshape_node, transpose_node
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, rebuild, sources_of

BYTE_PRODUCT: Final = RuleInfo(
    "byte_product",
    Kind.EXACT,
    "int32(a) @ int32(b) = matmul_bytes(a, b), for a of uint8 and b of int8",
)

PRODUCTS: Final[frozenset[Family]] = frozenset({Matmul, Convolution})

LEAST_OPERATIONS: Final = 2**10
"""Products of fewer multiplications are over before anything else matters."""


def _run(flow: Flow, context: Context) -> Flow:
    if flow.families().isdisjoint(PRODUCTS):
        return flow
    if not context.recorder.allows(BYTE_PRODUCT):
        return flow
    return flow.replace_nodes(_products(flow.order(), context))


multiply_bytes: Final = Pass("multiply_bytes", (BYTE_PRODUCT,), _run)


def _products(nodes: Iterable[Node], context: Context) -> dict[Node, Node]:
    """What stands for each product of bytes."""
    replacements: dict[Node, Node] = {}
    for node in nodes:
        made = _as_bytes(node)
        if made is not None:
            context.recorder.record(BYTE_PRODUCT, (node,), (made,))
            replacements[node] = made
    return replacements


def _run_in_loops(flow: Flow, context: Context) -> Flow:
    """Products in loops: their right factor may be an operand that is the same for all steps."""
    replacements: dict[Node, Node] = {}
    for node in flow.order() if context.recorder.allows(BYTE_PRODUCT) else ():
        op = node.op
        if not isinstance(op, ScanLoop) or op.body.impure:
            continue
        step, inside = written_out(op, node.inputs)
        results = (*step.new_carries, *step.new_rows)
        own = nodes_inside(results, (step.place, *step.carries, *step.rows), inside)
        products = [n for n in own if n.op.family in PRODUCTS]
        found = _products(sorted(products, key=lambda n: n.serial), context)
        if found:
            new, count = rebuild(results, found), op.carries
            step = step._replace(new_carries=new[:count], new_rows=new[count:])
            given = node.inputs[:count], node.inputs[count : op.first_shared]
            with source_scope(node.sources):
                made = build_loop(step, *given, op.length, reverse=op.reverse, inside=inside)
            parts = [*made.carries, *made.rows]
            replacements |= {part(node, i): result for i, result in enumerate(parts)}
    return flow.replace_nodes(replacements)


multiply_bytes_in_loops: Final = Pass(
    "multiply_bytes_in_loops", (BYTE_PRODUCT,), _run_in_loops, frozenset({ScanLoop})
)


def _as_bytes(node: Node) -> Node | None:
    """A product of 32-bit integers as one of bytes; None where that is not possible."""
    op = node.op
    if not isinstance(op, (Matmul, Convolution)) or node.dtype != INT32 or node.known:
        return None
    if isinstance(op, Convolution) and op.groups != 1:
        return None
    if any(len(n.shape) < 2 for n in node.inputs):
        return None
    if prod(node.inputs[0].shape[-2:]) * (node.inputs[1].shape[-1] or 1) < LEAST_OPERATIONS:
        return None
    left, right = _bytes_of(node.inputs[0], UINT8), _bytes_of(node.inputs[1], INT8)
    if left is None or right is None:
        return None
    made: Op = MatmulBytes()
    if isinstance(op, Convolution):
        made = ConvolutionBytes(op.strides, op.padding, op.dilation, op.groups)
    with source_scope(sources_of((node,))):
        return make(made, (_along_rows(fill_up(left, -1)), side_by_side(right)))


def _along_rows(node: Node) -> Node:
    """A left factor whose rows are not columns of something else."""
    op = node.op
    turned = isinstance(op, Transpose) and op.axes[-1] != len(op.axes) - 1
    return make(Copy(), (node,)) if turned and not node.known else node


def _bytes_of(node: Node, dtype: DType) -> Node | None:
    """What was widened to give a node, or a constant whose numbers fit."""
    if isinstance(node.op, Transpose) and node.value is None:
        found = _bytes_of(node.inputs[0], dtype)
        if found is None or found.value is None:
            return None if found is None else transpose_node(found, node.op.axes)
        return constant(np.ascontiguousarray(np.transpose(found.value, node.op.axes)))
    if isinstance(node.op, Cast) and node.inputs[0].dtype == dtype:
        return node.inputs[0]
    value: Value | None = node.value
    if value is None or dtype == UINT8:
        return None
    info = np.iinfo(dtype)
    if value.size and not info.min <= value.min() <= value.max() <= info.max:
        return None
    return constant(value.astype(dtype))


def fill_up(node: Node, axis: int, together: int = TOGETHER) -> Node:
    """A node with zeros behind an axis, whose size is a multiple of `together` then."""
    more = -node.shape[axis] % together
    if not more:
        return node
    widths = [(0, 0)] * len(node.shape)
    widths[axis] = (0, more)
    if node.value is not None:
        return constant(np.pad(node.value, widths))
    return make(Pad(tuple(widths)), (node, scalar(0, node.dtype, "pad")))


def side_by_side(node: Node, together: int = TOGETHER) -> Node:
    """A right factor whose rows stand side by side, `together` at a time."""
    whole = fill_up(node, -2, together)
    *stack, rows, columns = whole.shape
    shape = (*stack, rows // together, together, columns)
    if whole.value is not None:
        moved: Any = np.swapaxes(whole.value.reshape(shape), -1, -2)
        return constant(np.ascontiguousarray(moved))
    rank = len(shape)
    split = transpose_node(reshape_node(whole, shape), (*range(rank - 2), rank - 1, rank - 2))
    return make(Copy(), (split,))
