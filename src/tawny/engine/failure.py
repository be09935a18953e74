"""Which steps cannot fail once their shapes fit."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tawny.dtype import DType
from tawny.node import Node
from tawny.op import Elementwise, Op
from tawny.ops.bands import Bands
from tawny.ops.convolution import ConvolutionOp
from tawny.ops.creation import Arange, BroadcastTo, Cast, Copy, Eye, Linspace
from tawny.ops.fusion import FusedMatmul, Group, ProductGroup
from tawny.ops.indexing import Slice
from tawny.ops.joining import Concat, Pad, Repeat, Tile
from tawny.ops.linalg import Matmul
from tawny.ops.movement import Flip, Reshape, Roll, Transpose
from tawny.ops.pooling import Pooling, Upsampling
from tawny.ops.random import Draw
from tawny.ops.reduction import ArgExtremum, Cumulative, Reduction
from tawny.ops.scatter import Scatter

INFALLIBLE: Final = (
    Arange, ArgExtremum, BroadcastTo, Cast, Concat, Copy, Draw, Eye, Flip, FusedMatmul, Linspace,
    Matmul, Pad, Pooling, Reduction, Repeat, Reshape, Roll, Cumulative, Slice, Tile, Transpose,
    Upsampling, ConvolutionOp,
)  # fmt: skip
"""Ops that cannot fail once their shapes fit: no user's code, no singular matrix, no index."""


def is_infallible(node: Node) -> bool:
    """Whether computing a node cannot fail."""
    return cannot_fail(node.op, node.dtype)


def cannot_fail(op: Op, dtype: DType) -> bool:
    """Whether an op whose result has this dtype cannot fail."""
    if isinstance(op, (Bands, Group, ProductGroup)):
        return all(_cannot_fail(step.op, step.dtype.kind) for step in op.body.steps)
    return _cannot_fail(op, dtype.kind)


def fails_before_writing(node: Node) -> bool:
    """Whether a node that can fail does so before it writes anything over its first operand."""
    return isinstance(node.op, Scatter)


def failure_cause(node: Node) -> Hashable:
    """What decides whether a node fails: of two with the same answer the second cannot.

    A scatter fails where an index lies outside its axis.
    """
    op = node.op
    if not isinstance(op, Scatter):
        return node
    return (*node.inputs[2:], *[op.ranges[axis][1] for axis in op.axes])


def _cannot_fail(op: Op, kind: str) -> bool:
    """Whether an op whose result is of this kind of dtype cannot fail."""
    if isinstance(op, Scatter):
        return not op.axes
    if isinstance(op, Elementwise):
        return kind not in "iu" or op.info.name != "pow"
    if isinstance(op, Group):
        return all(_cannot_fail(step.op, step.dtype.kind) for step in op.body.steps)
    return isinstance(op, INFALLIBLE)
