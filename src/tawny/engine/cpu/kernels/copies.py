"""Copies: blocks of elements moved from operands to a result, each with strides of its own.

Joining, padding, rolling and repeating are lists of such blocks, and so is the copy of a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from tawny.engine.blocks import CopyBlock
from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel
from tawny.engine.cpu.kernels.workshare import worker_share
from tawny.engine.llvm.ir.builder import I8, I16, I32, I64, PTR, Function, Module, Type, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.shape import size

ELEMENTS: Final = {1: I8, 2: I16, 4: I32, 8: I64, 16: I64.by(2)}
"""Elements are moved as integers of their size; those of 16 bytes as pairs of them."""

RUN_BYTES: Final = 1 << 14
"""A longer run of bytes is cut, so that threads can share it."""

FEW_VECTORS: Final = 4
"""Runs of at most as many vectors are moved by them; runs of less than one element by element."""

TILE: Final = 16
"""Side of the tiles in which axes are exchanged: a row of a tile is about a cache line."""

SHARED_BYTES: Final = 1 << 18
"""Bytes of a result from which threads share the work; see `workshare`."""

LEAST_BYTES: Final = 4
"""Smaller elements take as long to move."""

TOGETHER: Final = 4
"""Single elements that are moved at a time."""

LEAST_RANK: Final = 2


def copy_kernel(blocks: Sequence[CopyBlock], operands: int, itemsize: int) -> CompiledKernel:
    """The kernel that copies blocks to one result."""
    total = sum(size(b.sizes) for b in blocks) * max(itemsize, LEAST_BYTES)
    cut = [piece for b in blocks if size(b.sizes) for piece in _cut(merge_axes(b), itemsize)]
    rank = max([LEAST_RANK, *[len(b.sizes) for b in cut]])
    parameters = [len(cut)]
    for block in cut:
        parameters += _record(block, rank)
    shared = total > SHARED_BYTES
    return CompiledKernel(_library(operands, itemsize, rank), "copy", tuple(parameters), shared, 0)


# ---------------------------------------------------------------------- blocks


def merge_axes(block: CopyBlock) -> CopyBlock:
    """Without axes of size 1, and with axes that follow each other as one."""
    axes: list[tuple[int, int, int]] = []
    for n, stride, step in zip(block.sizes, block.strides, block.steps, strict=True):
        if n == 1:
            continue
        if axes and axes[-1][1:] == (n * stride, n * step):
            axes[-1] = (axes[-1][0] * n, stride, step)
        else:
            axes.append((n, stride, step))
    return _with_axes(block, axes)


def _with_axes(block: CopyBlock, axes: Sequence[tuple[int, int, int]]) -> CopyBlock:
    return block._replace(
        sizes=tuple([n for n, _, _ in axes]),
        strides=tuple([s for _, s, _ in axes]),
        steps=tuple([s for _, _, s in axes]),
    )


def _cut(block: CopyBlock, itemsize: int) -> Iterator[CopyBlock]:
    """Pieces whose inner axes fit the cache: tiles where axes are exchanged, else short runs."""
    rank = len(block.sizes)
    if not rank:
        yield block
        return
    nearest = min(range(rank), key=lambda a: abs(block.strides[a]) or RUN_BYTES)
    last = rank - 1
    if nearest != last and abs(block.strides[last]) > itemsize:
        yield from _split(block, {nearest: TILE, last: TILE})
    else:
        yield from _split(block, {last: RUN_BYTES // itemsize})


def _split(block: CopyBlock, lengths: dict[int, int]) -> Iterator[CopyBlock]:
    """The block with some axes cut into lengths, and what is left over at their ends."""
    axes = list(zip(block.sizes, block.strides, block.steps, strict=True))
    parts: list[list[tuple[int, int]]] = []
    for axis, length in lengths.items():
        whole = axes[axis][0] // length * length
        rest = axes[axis][0] - whole
        parts.append([(b, e) for b, e in ((0, whole), (whole, rest)) if e])
    for chosen in product(*parts):
        outer, inner = list(axes), list[tuple[int, int, int]]()
        start, place = block.start, block.place
        for (axis, length), (begin, count) in zip(lengths.items(), chosen, strict=True):
            _, stride, step = axes[axis]
            start, place = start + begin * stride, place + begin * step
            short = min(count, length)
            outer[axis] = (count // short, stride * short, step * short)
            inner.append((short, stride, step))
        kept = [axis for axis in outer if axis[0] > 1]
        yield _with_axes(block._replace(start=start, place=place), [*kept, *inner])


def _record(block: CopyBlock, rank: int) -> Iterator[int]:
    """A block as parameters; axes of size 1 fill it up in front."""
    yield from (block.operand, block.start, block.place)
    for _ in range(rank - len(block.sizes)):
        yield from (1, 0, 0)
    for axis in zip(block.sizes, block.strides, block.steps, strict=True):
        yield from axis


# ------------------------------------------------------------------------ code


@lazy_library
def _library(module: Module, operands: int, itemsize: int, rank: int) -> None:
    """The kernel for a number of operands, the bytes of an element and a number of axes."""
    element = ELEMENTS[itemsize]
    with module.function("copy", KERNEL) as f:
        row, worker, workers = f.arguments
        first = operands + 2
        length = 3 + 3 * rank
        with f.loop(0, f.cell(row, operands + 1)) as block:
            record = f.element(row, block.index * length + first, I64)
            source = f.load(PTR, f.element(row, f.cell(record, 0), I64), 8)
            target = f.cell(row, operands, PTR)
            count = f.cell(record, 3)
            axes = [
                (f.cell(record, a), f.cell(record, a + 1), f.cell(record, a + 2))
                for a in range(6, length, 3)
            ]
            outer = (f.cell(record, 4), f.cell(record, 5))
            begin, end = worker_share(count, worker, workers)
            with f.loop(begin, end) as loop:
                walk(
                    f,
                    element,
                    f.offset(source, f.cell(record, 1) + loop.index * outer[0]),
                    f.offset(target, f.cell(record, 2) + loop.index * outer[1]),
                    axes,
                )


Axis = tuple[Value, Value, Value]
"""Size, stride of the source, stride of the target."""


def walk(f: Function, element: Type, source: Value, target: Value, axes: Sequence[Axis]) -> None:
    """Move what the axes span; the last is a run."""
    count, stride, step = axes[0]
    if len(axes) == 1:
        _run(f, element, source, target, axes[0])
        return
    with f.loop(0, count) as loop:
        walk(
            f,
            element,
            f.offset(source, loop.index * stride),
            f.offset(target, loop.index * step),
            axes[1:],
        )


def _run(f: Function, element: Type, source: Value, target: Value, axis: Axis) -> None:
    """Move one run: as bytes where both sides are dense, as vectors of one element, or singly."""
    count, stride, step = axis
    nbytes, align = element.nbytes * max(element.lanes, 1), element.nbytes
    dense, single, end = f.fresh("dense"), f.fresh("single"), f.fresh("end")
    filled, others, other = f.fresh("filled"), f.fresh("others"), f.fresh("other")
    together = step.equals(nbytes)
    long = count * nbytes >= host().vector_bytes
    f.jump_if(together & long, other, single)
    f.block(other)
    f.jump_if(stride.equals(nbytes), dense, others)
    f.block(dense)
    _move_dense(f, source, target, count * nbytes)
    f.jump(end)
    f.block(others)
    f.jump_if(stride.equals(0), filled, single)
    f.block(filled)
    lanes = host().vector_bytes // nbytes
    item = f.load(element, source)
    fill = f.shuffle(item, None, [0, 1] * lanes) if element.lanes else f.splat(item, lanes)
    with f.loop(0, count - (lanes - 1), lanes) as loop:
        f.store(fill, f.element(target, loop.index, element), align)
    f.store(fill, f.element(target, count - lanes, element), align)
    f.jump(end)
    f.block(single)
    whole = count & -TOGETHER
    with f.loop(0, whole, TOGETHER) as loop:
        here, there = (f.offset(p, loop.index * s) for p, s in ((source, stride), (target, step)))
        values = [f.load(element, f.offset(here, stride * n)) for n in range(TOGETHER)]
        for n, value in enumerate(values):
            f.store(value, f.offset(there, step * n))
    with f.loop(whole, count) as loop:
        value = f.load(element, f.offset(source, loop.index * stride))
        f.store(value, f.offset(target, loop.index * step))
    f.block(end)


def _move_dense(f: Function, source: Value, target: Value, nbytes: Value) -> None:
    """Move bytes, a vector of them at least, which may overlap with where they go."""
    width = host().vector_bytes
    kind = I8.by(width)

    def by_vectors(count: int) -> list[Value]:
        """The first and the last ones, which may overlap; all are read before one is written."""
        places = [i * width for i in range(count)]
        offsets: list[Value | int] = [*places, *[nbytes - (place + width) for place in places]]
        vectors = [f.load(kind, f.offset(source, offset), 1) for offset in offsets]
        for vector, offset in zip(vectors, offsets, strict=True):
            f.store(vector, f.offset(target, offset), 1)
        return []

    def whole() -> list[Value]:
        f.move(target, source, nbytes)
        return []

    def some() -> list[Value]:
        return f.either(
            nbytes <= 2 * width, lambda: by_vectors(1), lambda: by_vectors(FEW_VECTORS // 2)
        )

    f.either(nbytes <= FEW_VECTORS * width, some, whole)
