"""Random draws: a thread for each number, the same as on every other engine."""

from __future__ import annotations

from typing import NamedTuple

from tawny.dtype import DType
from tawny.engine.gpu.launch import (
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import F16, F32, F64, Module, Value
from tawny.engine.llvm.scalar.philox import draw_words, normal, uniform
from tawny.shape import size


class DrawStructure(NamedTuple):
    """What the code depends on."""

    dtype: DType
    is_normal: bool


def draw_kernel(result: DeviceArray, key: tuple[int, int], *, is_normal: bool) -> GpuKernel:
    """The kernel of uniform or normal numbers; its last number is that of the run."""
    total = size(result.shape)
    code = KernelCode(write_draw, DrawStructure(result.dtype, is_normal))
    launch = Launch(code, (0,), (total, *key), blocks_for(total))
    return GpuKernel((launch,) if total else (), drawn=True)


def write_draw(module: Module, name: str, structure: DrawStructure) -> None:
    """Write the kernel of draws."""
    with grid_kernel(module, name, 1, 4) as grid:
        number = grid.number
        with grid.f.when(number < grid.numbers[0]):
            _draw(grid, structure, number)


def _draw(grid: ThreadGrid, structure: DrawStructure, number: Value) -> None:
    f, (_, low, high, run) = grid.f, grid.numbers
    stored = {2: F16, 4: F32, 8: F64}[structure.dtype.itemsize]
    words = draw_words(f, number, run, (low, high), 0)
    if structure.is_normal:
        drawn = normal(f, words, F64 if stored == F64 else F32)
    else:
        drawn = uniform(f, words, stored)
    if stored == F16:
        drawn = f.convert("fptrunc", drawn, F16)
    f.store(drawn, f.element(grid.places[0], number, stored))
