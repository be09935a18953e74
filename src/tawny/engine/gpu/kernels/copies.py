"""Blocks of elements copied from where they lie to where they belong, a thread for each element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.engine.blocks import CopyBlock
from tawny.engine.gpu.launch import (
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I8, I16, I32, I64, Module, Type, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.shape import collapse_axes

ELEMENTS: Final[dict[int, tuple[Type, int]]] = {
    1: (I8, 1),
    2: (I16, 1),
    4: (I32, 1),
    8: (I64, 1),
    16: (I64, 2),
}
"""For each item size the integer that elements are moved as, and how many of them."""


class CopyStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    itemsize: int
    rank: int


def copy_launch(block: CopyBlock, itemsize: int, result: int) -> Launch | None:
    """The launch that copies a block to a place of the launch; None for one without elements."""
    total = math.prod(block.sizes)
    if not total:
        return None
    kept = [a for a, n in enumerate(block.sizes) if n != 1]
    sizes, (strides, steps) = collapse_axes(
        tuple([block.sizes[a] for a in kept]),
        [tuple([s[a] for a in kept]) for s in (block.strides, block.steps)],
    )
    code = KernelCode(write_copy, CopyStructure(itemsize, len(sizes)))
    numbers = total, block.start, block.place, *sizes, *strides, *steps
    return Launch(code, (block.operand, result), numbers, blocks_for(total))


def copy_launches(blocks: Sequence[CopyBlock], itemsize: int, result: int) -> tuple[Launch, ...]:
    """The launches that copy blocks."""
    made = [copy_launch(block, itemsize, result) for block in blocks]
    return tuple([launch for launch in made if launch is not None])


def write_copy(module: Module, name: str, structure: CopyStructure) -> None:
    """Write the kernel that copies a block."""
    rank = structure.rank
    with grid_kernel(module, name, 2, 3 + 3 * rank) as grid:
        f, number, numbers = grid.f, grid.number, grid.numbers
        with f.when(number < numbers[0]):
            sizes, strides, steps = (numbers[3 + rank * k : 3 + rank * (k + 1)] for k in range(3))
            at = coordinates(number, sizes)
            source = f.offset(grid.places[0], offset_of(at, strides, numbers[1]))
            target = f.offset(grid.places[1], offset_of(at, steps, numbers[2]))
            move(grid, structure.itemsize, source, target)


def offset_of(places: Sequence[Value], steps: Sequence[Value], start: Value) -> Value:
    """How many bytes places along some axes are from a start."""
    for place, step in zip(places, steps, strict=True):
        start = start + place * step
    return start


def move(grid: ThreadGrid, itemsize: int, source: Value, target: Value) -> None:
    """Copy one element."""
    kind, count = ELEMENTS[itemsize]
    for i in range(count):
        value = grid.f.load(kind, grid.f.element(source, i, kind))
        grid.f.store(value, grid.f.element(target, i, kind))
