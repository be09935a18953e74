"""Gathering and scattering at places that index arrays name.

A launch of its own looks at all indices first, so that one outside its axis stops the run before
anything is written.  Values for one place are taken in the order of the index arrays by one thread,
so that the same inputs give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.blocks import CopyBlock
from tawny.engine.gpu.kernels.copies import ELEMENTS, copy_launches, move, offset_of
from tawny.engine.gpu.launch import (
    STATUS,
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I1, I64, Module, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.scalar.expressions import emit_op, is_supported
from tawny.engine.llvm.scalar.numbers import load_scalar, store_scalar
from tawny.op import Elementwise
from tawny.shape import Shape, broadcast, broadcast_strides

SERIAL: Final = 1 << 14
"""Values that one thread takes one after the other, at most: the host takes more of them faster."""


class Indices(NamedTuple):
    """Index arrays, and the axes they pick along: how many places those have, and their steps."""

    kinds: tuple[DType, ...]
    shape: Shape
    strides: tuple[tuple[int, ...], ...]
    """For each array."""
    limits: tuple[int, ...]
    steps: tuple[int, ...]

    @staticmethod
    def of(
        op: str, given: Sequence[DeviceArray], limits: Sequence[int], steps: Sequence[int]
    ) -> Indices:
        """Index arrays broadcast to one shape."""
        shape = broadcast(op, [m.shape for m in given]) if given else ()
        strides = tuple([broadcast_strides(m.shape, m.strides, shape) for m in given])
        return Indices(tuple([m.dtype for m in given]), shape, strides, tuple(limits), tuple(steps))

    @property
    def numbers(self) -> list[int]:
        """The numbers of kernels that read them."""
        return [*self.shape, *self.limits, *self.steps, *[n for s in self.strides for n in s]]

    @property
    def structure(self) -> tuple[tuple[DType, ...], int]:
        """What code that reads them depends on."""
        return self.kinds, len(self.shape)


class _IndexReader:
    """Index arrays in a kernel being written."""

    def __init__(
        self,
        grid: ThreadGrid,
        kinds: tuple[DType, ...],
        numbers: list[Value],
        rank: int,
        first: int,
    ) -> None:
        self.grid, self.f, self.kinds = grid, grid.f, kinds
        self.bases = grid.places[first : first + len(kinds)]
        count = len(kinds)
        self.shape = numbers[:rank]
        self.limits = numbers[rank : rank + count]
        self.steps = numbers[rank + count : rank + 2 * count]
        left = numbers[rank + 2 * count :]
        self.strides = [left[i * rank : (i + 1) * rank] for i in range(count)]

    def read(self, at: Sequence[Value]) -> tuple[Value, Value]:
        """How far the indices at a place lead, and whether all are inside their axes."""
        f = self.f
        inside, offset = f.constant(I1, 1), f.constant(I64, 0)
        for base, kind, strides, limit, step in zip(
            self.bases, self.kinds, self.strides, self.limits, self.steps, strict=True
        ):
            place = f.offset(base, offset_of(at, strides, f.constant(I64, 0)))
            index = f.load(ELEMENTS[kind.itemsize][0], place)
            if index.type != I64:
                index = f.convert("sext" if kind.kind == "i" else "zext", index, I64)
            wrapped = f.select(index < 0, index + limit, index) if kind.kind == "i" else index
            inside = inside & wrapped.unsigned_below(limit)
            offset = offset + wrapped * step
        return offset, inside


def index_numbers(rank: int, count: int) -> int:
    """How many numbers describe index arrays."""
    return rank + 2 * count + rank * count


# ------------------------------------------------------------------------- checking


def check_launch(indices: Indices, first: int) -> Launch:
    """The launch that notes an index outside its axis; index arrays are operands from `first`."""
    total = math.prod(indices.shape)
    places = (*range(first, first + len(indices.kinds)), STATUS)
    code = KernelCode(write_check, indices.structure)
    return Launch(code, places, (total, *indices.numbers), blocks_for(total))


def write_check(module: Module, name: str, structure: tuple[tuple[DType, ...], int]) -> None:
    """Write the kernel that looks at indices."""
    kinds, rank = structure
    with grid_kernel(module, name, len(kinds) + 1, 1 + index_numbers(rank, len(kinds))) as grid:
        f, (total, *numbers) = grid.f, grid.numbers
        reader = _IndexReader(grid, kinds, numbers, rank, 0)
        with f.when(grid.number < total):
            _, inside = reader.read(coordinates(grid.number, reader.shape))
            with f.when(~inside):
                f.store(f.constant(I64, 1), grid.places[-1])


# ------------------------------------------------------------------------ gathering


class GatherStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    itemsize: int
    kinds: tuple[DType, ...]
    place: int
    """Axes before those of the index arrays."""
    rank: int
    """Axes of the index arrays."""
    after: int


def gather_kernel(
    source: DeviceArray,
    given: Sequence[DeviceArray],
    axes: tuple[int, ...],
    place: int,
    result: DeviceArray,
) -> GpuKernel:
    """The kernel that takes elements of operand 0 at places that the other operands give."""
    limits, steps = [source.shape[a] for a in axes], [source.strides[a] for a in axes]
    indices = Indices.of("gather", given, limits, steps)
    left = [source.strides[a] for a in range(len(source.shape)) if a not in axes]
    rank = len(indices.shape)
    structure = GatherStructure(
        result.dtype.itemsize, indices.kinds, place, rank, len(left) - place
    )
    total = math.prod(result.shape)
    numbers = [total, *result.shape, *left, *indices.numbers]
    launch = Launch(
        KernelCode(write_gather, structure),
        (0, *range(1, 1 + len(given)), 1 + len(given)),
        tuple(numbers),
        blocks_for(total),
    )
    checks = (check_launch(indices, 1),) if math.prod(indices.shape) else ()
    return GpuKernel((launch,) if total else (), checks=checks)


def write_gather(module: Module, name: str, structure: GatherStructure) -> None:
    """Write the kernel of a gather: a thread for each element of the result."""
    itemsize, kinds, place, rank, after = structure
    count = 1 + (place + rank + after) + place + after + index_numbers(rank, len(kinds))
    with grid_kernel(module, name, len(kinds) + 2, count) as grid:
        f, (total, *numbers) = grid.f, grid.numbers
        whole = place + rank + after
        shape, left, rest = (
            numbers[:whole],
            numbers[whole : whole + place + after],
            numbers[whole + place + after :],
        )
        reader = _IndexReader(grid, kinds, rest, rank, 1)
        with f.when(grid.number < total):
            at = coordinates(grid.number, shape)
            offset, _ = reader.read(at[place : place + rank])
            offset = offset_of([*at[:place], *at[place + rank :]], left, offset)
            target = f.offset(grid.places[-1], grid.number * itemsize)
            move(grid, itemsize, f.offset(grid.places[0], offset), target)


# ----------------------------------------------------------------------- scattering


class ScatterStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    combine: Elementwise | None
    kinds: tuple[DType, ...]
    rank: int
    others: int
    """Axes of the part that are not indexed."""


def scatter_kernel(
    source: DeviceArray,
    value: DeviceArray,
    given: Sequence[DeviceArray],
    ranges: Sequence[tuple[int, int, int]],
    axes: tuple[int, ...],
    place: int,
    combine: Elementwise | None,
    result: DeviceArray,
) -> GpuKernel | None:
    """The kernel that puts operand 1 into a part of operand 0; None where the host is faster.

    `value` is broadcast to the shape of the part.
    """
    dtype = result.dtype
    if combine is not None and not is_supported(combine, (dtype, dtype)):
        return None
    steps = [step * stride for (_, _, step), stride in zip(ranges, result.strides, strict=True)]
    first = sum([start * s for (start, _, _), s in zip(ranges, result.strides, strict=True)])
    indices = Indices.of("scatter", given, [ranges[a][1] for a in axes], [steps[a] for a in axes])
    left, rank = [a for a in range(len(ranges)) if a not in axes], len(indices.shape)
    serial = math.prod(indices.shape)
    if serial > SERIAL:
        return None
    sizes, moves = [ranges[a][1] for a in left], [steps[a] for a in left]
    own = [*value.strides[:place], *value.strides[place + rank :]]
    middle = list(value.strides[place : place + rank])
    count, result_at = len(given), 2 + len(given)
    structure = ScatterStructure(dtype, combine, indices.kinds, rank, len(left))
    total = math.prod(sizes)
    put = Launch(
        KernelCode(write_scatter, structure),
        (*range(1, 2 + count), result_at),
        (total, serial, first, *sizes, *moves, *own, *middle, *indices.numbers),
        blocks_for(total),
    )
    whole = CopyBlock(0, 0, source.shape, source.strides, 0, result.strides)
    copies = copy_launches([whole], dtype.itemsize, result_at)
    checks = (check_launch(indices, 2),) if axes and serial else ()
    return GpuKernel((*copies, *([put] if total and serial else [])), checks=checks)


def write_scatter(module: Module, name: str, structure: ScatterStructure) -> None:
    """Write the kernel that puts values: a thread for each element that indices do not pick."""
    dtype, combine, kinds, rank, others = structure
    numbers = 3 + 3 * others + rank + index_numbers(rank, len(kinds))
    with grid_kernel(module, name, len(kinds) + 2, numbers) as grid:
        f, (total, serial, first, *left) = grid.f, grid.numbers
        sizes, moves, own = (left[k * others : (k + 1) * others] for k in range(3))
        middle, rest = left[3 * others : 3 * others + rank], left[3 * others + rank :]
        reader = _IndexReader(grid, kinds, rest, rank, 1)
        with f.when(grid.number < total):
            at = coordinates(grid.number, sizes)
            target = f.offset(grid.places[-1], offset_of(at, moves, first))
            value = f.offset(grid.places[0], offset_of(at, own, f.constant(I64, 0)))
            with f.loop(0, serial) as loop:
                picked = coordinates(loop.index, reader.shape)
                offset, _ = reader.read(picked)
                new = f.offset(value, offset_of(picked, middle, f.constant(I64, 0)))
                place = f.offset(target, offset)
                if combine is None:
                    move(grid, dtype.itemsize, new, place)
                else:
                    pair = load_scalar(f, dtype, place), load_scalar(f, dtype, new)
                    store_scalar(f, dtype, emit_op(f, combine, (dtype, dtype), pair), place)
