"""Random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.gpu.kernels.random import draw_kernel
from tawny.engine.gpu.launch import DeviceArray, GpuKernel
from tawny.engine.gpu.table import gpu_rule
from tawny.engine.reference.random import stream_key
from tawny.ops.random import Draw, Normal, Uniform


@gpu_rule(Uniform, Normal)
def draw(op: Draw, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]) -> GpuKernel:
    """Numbers that depend on the seed, the run and their places alone."""
    assert not operands
    key = stream_key(op.seed, op.stream)
    return draw_kernel(results[0], key, is_normal=isinstance(op, Normal))
