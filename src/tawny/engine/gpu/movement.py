"""Movement and joining: each op is a list of blocks to copy."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.blocks import COPIED, copy_blocks
from tawny.engine.gpu.kernels.copies import copy_launches
from tawny.engine.gpu.launch import DeviceArray, GpuKernel
from tawny.engine.gpu.table import gpu_rule
from tawny.op import Op
from tawny.ops.movement import Roll


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
