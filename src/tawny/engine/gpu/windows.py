"""Pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.gpu.kernels.pooling import PoolingMode, pooling_kernel
from tawny.engine.gpu.kernels.reduction import reduction_kernel
from tawny.engine.gpu.launch import DeviceArray, GpuKernel
from tawny.engine.gpu.table import gpu_rule
from tawny.ops.body import Body, BodyStep
from tawny.ops.pooling import (
    AvgPool,
    AvgPoolGradient,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Pooling,
    UpsamplingGradient,
)
from tawny.ops.reduction import Sum

_FORWARD: Final[dict[type[Pooling], PoolingMode]] = {
    MaxPool: PoolingMode.MAX,
    AvgPool: PoolingMode.MEAN,
    MaxPoolSelect: PoolingMode.SELECT,
}
_BACKWARD: Final[dict[type[Pooling], PoolingMode]] = {
    MaxPoolGradient: PoolingMode.MAX_GRADIENT,
    AvgPoolGradient: PoolingMode.MEAN_GRADIENT,
}


@gpu_rule(*_FORWARD)
def pool(
    op: Pooling, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """What each window gives."""
    (result,) = results
    kind = _FORWARD[type(op)]
    return pooling_kernel(kind, op, operands[0].shape, result.shape, operands, result)


@gpu_rule(*_BACKWARD)
def pool_gradient(
    op: Pooling, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """What each element of the input gets back from the windows that see it."""
    (result,) = results
    if result.dtype.itemsize < 4:
        return None
    kind = _BACKWARD[type(op)]
    return pooling_kernel(kind, op, result.shape, operands[-1].shape, operands, result)


@gpu_rule(UpsamplingGradient)
def upsampling_gradient(
    op: UpsamplingGradient, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """Each spatial axis twice, and the sum over every second one."""
    (given,), (result,) = operands, results
    axes = list(zip(given.shape, given.strides, (1, *op.factors, 1), strict=True))
    shape = tuple([n for size, _, factor in axes for n in (size // factor, factor)])
    strides = tuple([s for _, stride, factor in axes for s in (stride * factor, stride)])
    blocks = DeviceArray(shape, strides, given.dtype)
    total = Sum(tuple(range(1, len(shape), 2)), keepdims=False, dtype=given.dtype)
    step = BodyStep(total, (0,), result.shape, result.dtype)
    return reduction_kernel(Body.of(((shape, given.dtype),), (step,), (1,)), [blocks], results)
