"""Indexing, and running sums and products."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.gpu.kernels.indexing import gather_kernel, scatter_kernel
from tawny.engine.gpu.kernels.scan import scan_kernel
from tawny.engine.gpu.launch import DeviceArray, GpuKernel
from tawny.engine.gpu.table import gpu_rule
from tawny.op import ELEMENTWISE
from tawny.ops.cumulative import Cumulative, CumulativeProd, CumulativeSum
from tawny.ops.indexing import COMBINE, Gather, Scatter, gather_shape
from tawny.shape import broadcast_strides


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
