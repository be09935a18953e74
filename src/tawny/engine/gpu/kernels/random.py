"""Random draws: a thread for each number, the same as on every other engine."""

from __future__ import annotations

from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.gpu.launch import (
    DRAW,
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import F32, F64, I64, Module, Value
from tawny.engine.llvm.scalar.numbers import storage_type
from tawny.engine.llvm.scalar.philox import draw_words, normal, scramble, uniform, unscramble
from tawny.shape import size


class DrawStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    is_normal: bool


def draw_kernel(result: DeviceArray, key: tuple[int, int], *, is_normal: bool) -> GpuKernel:
    """The kernel of uniform or normal numbers."""
    total = size(result.shape)
    code = KernelCode(write_draw, DrawStructure(result.dtype, is_normal))
    launch = Launch(code, (0, DRAW), (total, *key), blocks_for(total))
    return GpuKernel((launch,) if total else ())


def write_draw(module: Module, name: str, structure: DrawStructure) -> None:
    """Write the kernel of draws."""
    with grid_kernel(module, name, 2, 3) as grid:
        number = grid.number
        with grid.f.when(number < grid.numbers[0]):
            _draw(grid, structure, number)


def _draw(grid: ThreadGrid, structure: DrawStructure, number: Value) -> None:
    f, (_, low, high) = grid.f, grid.numbers
    run = f.load(I64, grid.places[1])
    stored = storage_type(structure.dtype)
    words = draw_words(f, number, run, (low, high), 0)
    if structure.is_normal:
        drawn = normal(f, words, F64 if stored == F64 else F32)
    else:
        drawn = uniform(f, words, stored)
    if stored.nbytes == 2:
        drawn = f.convert("fptrunc", drawn, stored)
    f.store(drawn, f.element(grid.places[0], number, stored))


def _write_next_run(module: Module, name: str, structure: object) -> None:
    """Write the kernel that counts the runs."""
    del structure
    with grid_kernel(module, name, 1, 0) as grid:
        f, (place,) = grid.f, grid.places
        with f.when(grid.number.equals(0)):
            f.store(f.load(I64, place) + 1, place)


def _write_number_step(module: Module, name: str, structure: object) -> None:
    """Write the kernel that says which step of a loop is next."""
    del structure
    with grid_kernel(module, name, 1, 1) as grid:
        f, (place,) = grid.f, grid.places
        with f.when(grid.number.equals(0)):
            f.store(grid.numbers[0], place)


def _write_number_draws(module: Module, name: str, structure: object) -> None:
    """Write the kernel that says by which number a step of a loop draws."""
    del structure
    with grid_kernel(module, name, 2, 1) as grid:
        f, (run, own) = grid.f, grid.places
        with f.when(grid.number.equals(0)):
            f.store(scramble(scramble(f.load(I64, run)) + grid.numbers[0]), own)


def _write_number_segments(module: Module, name: str, structure: object) -> None:
    """Write the kernel that says by which number a loop over some steps draws."""
    del structure
    with grid_kernel(module, name, 2, 1) as grid:
        f, (run, own) = grid.f, grid.places
        with f.when(grid.number.equals(0)):
            f.store(unscramble(scramble(f.load(I64, run)) + grid.numbers[0]), own)


NUMBER_STEP: Final = Launch(KernelCode(_write_number_step, None), (0,), (0,), 1, 1)
"""The launch before a step of a loop: its place is written; the number is the place."""

NUMBER_DRAWS: Final = Launch(KernelCode(_write_number_draws, None), (DRAW, 0), (0,), 1, 1)
"""The launch before a step of a loop with random draws, given what is added to the number of the
run, as `tawny.ops.loops.DrawNumbering` says."""

NUMBER_SEGMENTS: Final = Launch(KernelCode(_write_number_segments, None), (DRAW, 0), (0,), 1, 1)
"""The launch before a step that is a loop over some of the steps of a longer one, which draw."""

NEXT_RUN: Final = Launch(KernelCode(_write_next_run, None), (DRAW,), (), 1, 1)
"""The launch that ends a run with random draws: the next one has the next number."""
