"""What running a node costs: a roofline over its operations and the bytes it moves."""

from __future__ import annotations

import math
from typing import Final

from tawny.node import Node
from tawny.op import Elementwise, Op
from tawny.ops.convolution import Convolution, ConvolutionInputGradient, ConvolutionKernelGradient
from tawny.ops.linalg import Einsum, Matmul
from tawny.scalar import Call, Expr, Prim
from tawny.shape import size

FLOPS: Final = 5e10
"""Floating-point operations a second of one ordinary core pair."""

BANDWIDTH: Final = 1e10
"""Bytes a second to and from memory."""

OVERHEAD: Final = 1e-6
"""Seconds of starting any step."""

_CHEAP: Final = frozenset({
    Prim.ADD, Prim.SUB, Prim.MUL, Prim.NEG, Prim.POS, Prim.ABS, Prim.MAX, Prim.MIN, Prim.FMAX,
    Prim.FMIN, Prim.EQ, Prim.NE, Prim.LT, Prim.LE, Prim.GT, Prim.GE, Prim.AND, Prim.OR, Prim.XOR,
    Prim.NOT, Prim.BIT_AND, Prim.BIT_OR, Prim.BIT_XOR, Prim.BIT_NOT, Prim.SELECT, Prim.SIGN,
    Prim.REAL, Prim.IMAG, Prim.CONJ, Prim.ISNAN, Prim.ISINF, Prim.ISFINITE, Prim.SIGNBIT,
})  # fmt: skip
"""Primitives of about one operation; the others count `_DEAR`."""

_DEAR: Final = 20


def seconds(node: Node) -> float:
    """An estimate of the time `node` takes, its inputs being there."""
    return OVERHEAD + max(operations(node) / FLOPS, moved(node) / BANDWIDTH)


def moved(node: Node) -> int:
    """Bytes read and written."""
    written = sum(size(s) * d.itemsize for s, d in node.parts or ((node.shape, node.dtype),))
    return written + sum(size(i.shape) * i.dtype.itemsize for i in node.inputs)


def operations(node: Node) -> float:
    """Scalar operations, counting a multiplication and an addition as two."""
    op = node.op
    if isinstance(op, Elementwise):
        return weight(op.scalar) * size(node.shape)
    if isinstance(op, Matmul):
        return 2.0 * size(node.shape) * node.inputs[0].shape[-1]
    if isinstance(op, (Convolution, ConvolutionInputGradient, ConvolutionKernelGradient)):
        return _convolution(node)
    if isinstance(op, Einsum):
        return 2.0 * math.prod(_extents(op, node))
    return float(sum(size(i.shape) for i in node.inputs) + size(node.shape))


def weight(expr: Expr) -> int:
    """Operations of a scalar expression on one element."""
    if not isinstance(expr, Call):
        return 0
    return (1 if expr.prim in _CHEAP else _DEAR) + sum(map(weight, expr.args))


def _convolution(node: Node) -> float:
    """Twice the products: every output element meets a window of one group's channels."""
    shapes = [node.shape, *(i.shape for i in node.inputs)]
    op = node.op
    if isinstance(op, Convolution):
        out, kernel = shapes[0], shapes[2]
    elif isinstance(op, ConvolutionInputGradient):
        kernel, out = shapes[1], shapes[2]
    else:
        kernel, out = shapes[0], shapes[2]
    return 2.0 * size(out) * size(kernel[:-1])


def _extents(op: Op, node: Node) -> list[int]:
    assert isinstance(op, Einsum)
    terms = op.subscripts.partition("->")[0].split(",")
    extents: dict[str, int] = {}
    for term, source in zip(terms, node.inputs, strict=True):
        extents.update(zip(term, source.shape, strict=True))
    return list(extents.values())
