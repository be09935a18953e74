"""Elementwise ops, reductions and fused groups."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.gpu.kernels.elementwise import elementwise_kernel
from tawny.engine.gpu.kernels.reduction import reduction_kernel
from tawny.engine.gpu.launch import DeviceArray, GpuKernel
from tawny.engine.gpu.table import gpu_rule, new_array
from tawny.op import Elementwise, Op
from tawny.ops.body import FOLDS, Body, BodyStep
from tawny.ops.creation import Arange, Cast, Eye, Linspace
from tawny.ops.fusion import Group
from tawny.ops.movement import BroadcastTo, Copy, Roll
from tawny.ops.reduction import (
    AllTrue,
    AnyTrue,
    ArgMax,
    ArgMin,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    Var,
)


def supports_body(body: Body) -> bool:
    """Whether one kernel computes a body on new arrays."""
    operands = [new_array(*kind) for kind in body.operands]
    results = [new_array(*body.type_of(r)) for r in body.results]
    return body_kernel(body, operands, results) is not None


def body_kernel(
    body: Body, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The kernel of a body of elementwise steps and reductions."""
    folds = any(isinstance(step.op, FOLDS) for step in body.steps)
    return (reduction_kernel if folds else elementwise_kernel)(body, operands, results)


@gpu_rule(
    Elementwise, Cast, Arange, Linspace, Eye, Copy, Roll, BroadcastTo,
    Sum, Prod, Mean, Var, Max, Min, AllTrue, AnyTrue, LogSumExp, ArgMax, ArgMin,
)  # fmt: skip
def single(
    op: Op, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """An op alone, as a body of one step."""
    given = tuple([(m.shape, m.dtype) for m in operands])
    (result,) = results
    step = BodyStep(op, tuple(range(len(given))), result.shape, result.dtype)
    return body_kernel(Body.of(given, (step,), (len(given),)), operands, results)


@gpu_rule(Group)
def group(
    op: Group, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """What a fused group computes."""
    return body_kernel(op.body, operands, results)


def copy_kernel(given: DeviceArray, result: DeviceArray) -> GpuKernel:
    """The kernel that copies an array."""
    found = single(Copy(), (given,), (result,))
    assert found is not None
    return found
