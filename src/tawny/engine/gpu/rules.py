"""How GPUs compute ops: a chapter each but for products, which are in `products.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny import dtype as dt
from tawny.engine.blocks import COPIED, block_sums, copy_blocks
from tawny.engine.gpu.kernels.copies import copy_launches
from tawny.engine.gpu.kernels.elementwise import elementwise_kernel
from tawny.engine.gpu.kernels.indexing import Indices, check_launch, gather_kernel, scatter_kernel
from tawny.engine.gpu.kernels.pooling import PoolingMode, pooling_kernel
from tawny.engine.gpu.kernels.random import draw_kernel
from tawny.engine.gpu.kernels.reduction import reduction_kernel
from tawny.engine.gpu.kernels.scan import scan_kernel
from tawny.engine.gpu.kernels.sorting import search_kernel, sort_kernel
from tawny.engine.gpu.launch import DeviceArray, GpuKernel
from tawny.engine.gpu.table import gpu_rule, new_array
from tawny.engine.reference.random import stream_key
from tawny.op import ELEMENTWISE, Elementwise, Op
from tawny.ops.body import FOLDS, Body, BodyStep
from tawny.ops.bounds import CheckedIndices
from tawny.ops.creation import Arange, Cast, Eye, Linspace
from tawny.ops.cumulative import Cumulative, CumulativeProd, CumulativeSum
from tawny.ops.fusion import Group
from tawny.ops.indexing import COMBINE, ArgSort, Gather, Scatter, gather_shape
from tawny.ops.movement import BroadcastTo, Copy, Roll
from tawny.ops.pooling import (
    AvgPool,
    AvgPoolGradient,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Pooling,
    UpsamplingGradient,
)
from tawny.ops.random import Draw, Normal, Uniform
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
from tawny.ops.sorting import SearchSorted, Sort
from tawny.shape import broadcast_strides, size

# -------------------------------------------------- elementwise ops, reductions and groups


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
    (result,) = results
    if not size(result.shape):
        return GpuKernel(())
    if isinstance(op, (ArgMax, ArgMin)) and op.axis is None:
        operands = [flat for m in operands if (flat := _flat(m)) is not None]
        op = type(op)(0, keepdims=False)
        if not operands:
            return None
    given = tuple([(m.shape, m.dtype) for m in operands])
    step = BodyStep(op, tuple(range(len(given))), result.shape, result.dtype)
    return body_kernel(Body.of(given, (step,), (len(given),)), operands, results)


def _flat(array: DeviceArray) -> DeviceArray | None:
    """An array as one row; None where its elements are not side by side."""
    if not array.contiguous:
        return None
    return DeviceArray((size(array.shape),), (int(array.dtype.itemsize),), array.dtype)


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


# -------------------------------------------------------------------- movement and joining


@gpu_rule(*[op for op in COPIED if op is not Roll])
def copy(
    op: Op, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """A launch for each block."""
    (result,) = results
    blocks = copy_blocks(op, operands, result)
    if blocks is None:
        return None
    return GpuKernel(copy_launches(blocks, result.dtype.itemsize, len(operands)))


# ----------------------------------------------------- indexing, running sums and products


@gpu_rule(Gather)
def gather(
    op: Gather, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """Elements at the places the index arrays name."""
    source, *given = operands
    return gather_kernel(source, given, op.axes, op.place, results[0]) if given else None


@gpu_rule(Scatter)
def scatter(
    op: Scatter, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """A copy, and elements put into the places the index arrays name."""
    source, value, *given = operands
    lengths = tuple([length for _, length, _ in op.ranges])
    part = gather_shape("scatter", lengths, op.axes, op.place, [m.shape for m in given])
    wide = DeviceArray(part, broadcast_strides(value.shape, value.strides, part), value.dtype)
    combine = None if op.mode == "set" else COMBINE[op.mode]
    return scatter_kernel(source, wide, given, op.ranges, op.axes, op.place, combine, results[0])


@gpu_rule(CumulativeSum, CumulativeProd)
def cumulative(
    op: Cumulative, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """Each element combined with what comes before it."""
    adds = isinstance(op, CumulativeSum)
    combine = ELEMENTWISE["add" if adds else "multiply"]
    first = (0.0 if adds else 1.0) if op.include_initial else None
    return scan_kernel(combine, op.axis, first, operands[0], results[0])


# --------------------------------------------------------------------------------- pooling


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
    (given,) = operands
    blocks, body = block_sums(op, given)
    array = DeviceArray(blocks.shape, blocks.strides, blocks.dtype)
    return reduction_kernel(body, [array], results)


# -------------------------------------------------------------------------- random numbers


@gpu_rule(Uniform, Normal)
def draw(op: Draw, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> GpuKernel:
    """Numbers that depend on the seed, the run and their places alone."""
    assert not operands
    key = stream_key(op.seed, op.stream)
    return draw_kernel(results[0], key, is_normal=isinstance(op, Normal))


# ------------------------------------------------------------------------- sorting


@gpu_rule(Sort, ArgSort)
def sort(
    op: Sort | ArgSort, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """Elements in order, or where they were."""
    (x,), (result,), places = operands, results, isinstance(op, ArgSort)
    return sort_kernel(x, op.axis, result, places=places, descending=op.descending)


@gpu_rule(SearchSorted)
def search(
    op: SearchSorted, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """Where elements belong in a sorted row."""
    x, wanted = operands
    return search_kernel(x, wanted, results[0], right=op.right)


@gpu_rule(CheckedIndices)
def checked_indices(
    op: CheckedIndices, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """A copy, once all are known to lie within."""
    (x,), (result,) = operands, results
    copied = single(Copy(), operands, results)
    if copied is None or x.dtype != result.dtype:
        return None
    unsigned = DeviceArray(x.shape, x.strides, UNSIGNED[x.dtype.itemsize])
    indices = Indices.of("places", [unsigned], [op.count], [0])
    return copied._replace(checks=(check_launch(indices, 0),) if size(x.shape) else ())


UNSIGNED: Final = {d.itemsize: d for d in (dt.UINT8, dt.UINT16, dt.UINT32, dt.UINT64)}
"""The unsigned dtype of each item size: read so, a negative index is too great for any axis."""
