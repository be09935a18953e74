"""Rows of short elements woven into each other: the first of each row, then the second of each.

So factors of products of bytes come to have some rows of the common axis side by side.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.blocks import whole_block
from tawny.engine.cpu.kernels.copies import SHARED_BYTES, Axis, merge_axes
from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.layout import Memory
from tawny.engine.llvm.ir.builder import I8, I16, I32, I64, PTR, Function, Module, Type, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.shape import size

_ELEMENTS: Final = {1: I8, 2: I16}
_WOVEN: Final = {2: I16, 4: I32, 8: I64}
"""The integers that the elements of a place make, by their bytes."""

LEAST_RUN: Final = 16
"""Shorter rows are moved by others."""


def weaving_kernel(given: Memory) -> CompiledKernel | None:
    """The kernel of a copy whose last axis goes from row to row of memory; None for another one."""
    if len(given.shape) < 2:
        return None
    *_, count, rows = given.shape
    *_, step, apart = given.strides
    item = given.dtype.itemsize
    if item not in _ELEMENTS or rows * item not in _WOVEN or rows < 2:
        return None
    if step != item or apart == item or count < LEAST_RUN:
        return None
    whole = whole_block(0, given)
    outer = merge_axes(
        whole._replace(sizes=whole.sizes[:-2], strides=whole.strides[:-2], steps=whole.steps[:-2])
    )
    axes = list(zip(outer.sizes, outer.strides, outer.steps, strict=True)) or [(1, 0, 0)]
    parameters = [count, apart, *[n for axis in axes for n in axis]]
    shared = size(given.shape) * item > SHARED_BYTES
    library = _library(item, rows, len(axes))
    return CompiledKernel(library, "weave", tuple(parameters), shared, 0)


@lazy_library
def _library(module: Module, item: int, rows: int, rank: int) -> None:
    """The kernel for elements of some bytes, some rows of them, and a number of axes around."""
    with module.function("weave", KERNEL) as f:
        row, worker, workers = f.arguments
        source, target = f.cell(row, 0, PTR), f.cell(row, 1, PTR)
        count, apart = f.cell(row, 2), f.cell(row, 3)
        axes = [(f.cell(row, a), f.cell(row, a + 1), f.cell(row, a + 2))
                for a in range(4, 4 + 3 * rank, 3)]  # fmt: skip
        (whole, stride, step), *inner = axes
        begin, end = worker_share(whole, worker, workers)
        with f.loop(begin, end) as loop:
            places = f.offset(source, loop.index * stride), f.offset(target, loop.index * step)
            _walk(f, (_ELEMENTS[item], rows), places, (count, apart), inner)


def _walk(
    f: Function,
    kind: tuple[Type, int],
    places: tuple[Value, Value],
    run: tuple[Value, Value],
    axes: list[Axis],
) -> None:
    """Weave what the axes span: elements of a type, some rows of them."""
    source, target = places
    if axes:
        (count, stride, step), *inner = axes
        with f.loop(0, count) as loop:
            own = f.offset(source, loop.index * stride), f.offset(target, loop.index * step)
            _walk(f, kind, own, run, inner)
        return
    (element, rows), (count, apart) = kind, run
    made = _WOVEN[rows * element.nbytes]
    lanes = host().vector_bytes // made.nbytes
    whole = count - count.unsigned_rest(lanes)
    starts = [f.offset(source, apart * n) for n in range(rows)]
    for begin, end, width in ((0, whole, lanes), (whole, count, 1)):
        with f.loop(begin, end, width) as loop:
            offset = loop.index * element.nbytes
            kinds = (element.by(width), made.by(width)) if width > 1 else (element, made)
            total = f.constant(kinds[1], 0)
            for n, start in enumerate(starts):
                read = f.load(kinds[0], f.offset(start, offset), element.nbytes)
                total = total | f.convert("zext", read, made) << n * element.bits
            f.store(total, f.offset(target, offset * rows), element.nbytes)
