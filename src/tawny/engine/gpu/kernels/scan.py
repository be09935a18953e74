"""Running sums and products along an axis: a thread for each row, as NumPy adds."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.gpu.kernels.copies import offset_of
from tawny.engine.gpu.launch import (
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I64, Module
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.expressions import emit_op, is_supported
from tawny.engine.llvm.scalar.numbers import (
    constant,
    flatten,
    load_scalar,
    store_scalar,
    unflatten,
)
from tawny.op import Elementwise

LONG: Final = 1 << 12
"""Elements of a row from which few rows are left to the host, which is faster than one thread."""

FEW: Final = 64
"""Rows that are few."""


class ScanStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    combine: Elementwise
    given: DType
    result: DType
    first: float | None
    """An element before all others, if the result has one."""
    rank: int
    """Axes that are not walked along."""


def scan_kernel(
    combine: Elementwise, axis: int, first: float | None, given: DeviceArray, result: DeviceArray
) -> GpuKernel | None:
    """The kernel; None where the host must combine, or is faster."""
    length = given.shape[axis]
    others = [a for a in range(len(given.shape)) if a != axis]
    sizes = [given.shape[a] for a in others]
    rows = math.prod(sizes)
    real = given.dtype.kind == "c" and result.dtype.kind != "c"
    if real or not is_supported(combine, (result.dtype, result.dtype)):
        return None
    if length > LONG and rows < FEW:
        return None
    structure = ScanStructure(combine, given.dtype, result.dtype, first, len(others))
    numbers = [rows, length, given.strides[axis], result.strides[axis], *sizes]
    numbers += [m.strides[a] for m in (given, result) for a in others]
    launch = Launch(KernelCode(write_scan, structure), (0, 1), tuple(numbers), blocks_for(rows))
    return GpuKernel((launch,) if math.prod(result.shape) else ())


def write_scan(module: Module, name: str, structure: ScanStructure) -> None:
    """Write the kernel of a running fold."""
    rank, dtype = structure.rank, structure.result
    with grid_kernel(module, name, 2, 4 + 3 * rank) as grid:
        f, (rows, length, stride, step, *left) = grid.f, grid.numbers
        sizes, strides, steps = (left[k * rank : (k + 1) * rank] for k in range(3))
        with f.when(grid.number < rows):
            at = coordinates(grid.number, sizes)
            zero = f.constant(I64, 0)
            source = f.offset(grid.places[0], offset_of(at, strides, zero))
            target = f.offset(grid.places[1], offset_of(at, steps, zero))
            start = length > 0
            if structure.first is not None:
                total = constant(f, dtype, structure.first, 0)
                store_scalar(f, dtype, total, target)
                target = f.offset(target, step)
                begin = zero
            else:
                found = f.either(
                    start,
                    lambda: flatten(
                        [cast(f, load_scalar(f, structure.given, source), structure.given, dtype)]
                    ),
                    lambda: flatten([constant(f, dtype, 0, 0)]),
                )
                (total,) = unflatten(found, [constant(f, dtype, 0, 0)])
                with f.when(start):
                    store_scalar(f, dtype, total, target)
                begin = f.constant(I64, 1)
            with f.loop(begin, length, carried=flatten([total])) as loop:
                (before,) = unflatten(loop.carried, [total])
                given = load_scalar(f, structure.given, f.offset(source, loop.index * stride))
                element = cast(f, given, structure.given, dtype)
                value = emit_op(f, structure.combine, (dtype, dtype), [before, element])
                store_scalar(f, dtype, value, f.offset(target, loop.index * step))
                loop.carry(*flatten([value]))
