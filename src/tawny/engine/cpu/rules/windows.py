"""Native kernels of pooling, resampling and correlation."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.dtype import BOOL, UINT8, kind_of
from tawny.engine.blocks import block_sums
from tawny.engine.cpu.kernel_table import Kernel, native
from tawny.engine.cpu.kernels.correlate import correlate_kernel
from tawny.engine.cpu.kernels.element import element_of
from tawny.engine.cpu.kernels.pooling import PoolingGeometry, PoolingKind, pooling_kernel
from tawny.engine.cpu.kernels.reduction.plan import reduction_kernel
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.ops.pooling import (
    AvgPool,
    AvgPoolGradient,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Pooling,
    UpsamplingGradient,
)
from tawny.ops.series import Correlate
from tawny.shape import Shape


def _pooling(
    kind: PoolingKind,
    node: Node,
    whole: Shape,
    pooled: Shape,
    operands: Sequence[Memory],
    results: Sequence[Memory],
) -> Kernel | None:
    """The kernel of a pooling between arrays of these shapes; None for dtypes it does not know."""
    assert isinstance(node.op, Pooling)
    dtype = results[0].dtype
    element = element_of(UINT8 if dtype == BOOL else dtype)
    if element is None or any(m.dtype != dtype for m in operands):
        return None
    if kind_of(dtype) != "f" and kind is not PoolingKind.MAX:
        return None
    if element.stored != element.computed and kind not in {
        PoolingKind.MAX,
        PoolingKind.MAX_SELECT,
        PoolingKind.MEAN,
    }:
        return None
    geometry = PoolingGeometry(
        whole[0],
        whole[-1],
        whole[1:-1],
        pooled[1:-1],
        node.op.window,
        node.op.strides,
        tuple([before for before, _ in node.op.padding]),
    )
    found = pooling_kernel(kind, geometry, element, operands)
    return None if found is None else Kernel(*found)


@native(MaxPool)
def max_pool(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """The greatest element of each window."""
    return _pooling(PoolingKind.MAX, node, operands[0].shape, results[0].shape, operands, results)


@native(AvgPool)
def avg_pool(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """The mean of each window."""
    return _pooling(PoolingKind.MEAN, node, operands[0].shape, results[0].shape, operands, results)


@native(MaxPoolSelect)
def max_pool_select(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Elements of operand 1 where each window of operand 0 has its first maximum."""
    return _pooling(
        PoolingKind.MAX_SELECT, node, operands[0].shape, results[0].shape, operands, results
    )


@native(MaxPoolGradient)
def max_pool_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Each window's gradient where its first maximum is."""
    shapes = operands[0].shape, operands[1].shape
    return _pooling(PoolingKind.MAX_GRADIENT, node, *shapes, operands, results)


@native(AvgPoolGradient)
def avg_pool_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Each window's gradient spread evenly."""
    shapes = results[0].shape, operands[0].shape
    return _pooling(PoolingKind.MEAN_GRADIENT, node, *shapes, operands, results)


@native(UpsamplingGradient)
def upsampling_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory]
) -> Kernel | None:
    """Each spatial axis twice, and the sum over every second one."""
    assert isinstance(node.op, UpsamplingGradient)
    (given,) = operands
    blocks, body = block_sums(node.op, given)
    folded = reduction_kernel(body, [blocks], results)
    return None if folded is None else Kernel(*folded.kernel, after=folded.after)


@native(Correlate)
def correlate(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel:
    """Sums of products at every shift that the mode asks for."""
    assert isinstance(node.op, Correlate)
    long, other = operands
    first, _ = node.op.left_out(*long.shape, *other.shape)
    found = correlate_kernel(long, other, first, results[0].shape[0])
    return Kernel(*found.kernel, after=found.after)
