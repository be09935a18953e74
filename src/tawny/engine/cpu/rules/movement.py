"""Native kernels of the movement and joining chapters: each is a list of blocks to copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import numpy as np

from tawny.engine.cpu.kernel_table import Kernel, native
from tawny.engine.cpu.kernels.copies import CopyBlock, copy_kernel
from tawny.engine.cpu.kernels.elementwise import elementwise_kernel
from tawny.engine.layout import Memory, contiguous
from tawny.node import Node
from tawny.ops.body import Body, BodyStep
from tawny.ops.differentiation import Again
from tawny.ops.indexing import Pad
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.movement import Copy, Reshape, Roll
from tawny.shape import Shape

WIDEST_TURNED: Final = 4
"""Bytes of the largest elements that are turned in registers."""


def _copy_blocks(
    operands: Sequence[Memory], results: Sequence[Memory], blocks: Iterator[CopyBlock]
) -> Kernel | None:
    """The kernel that copies blocks; None where elements would have to be converted."""
    (result,) = results
    if any(m.dtype != result.dtype for m in operands):
        return None
    return Kernel(*copy_kernel(list(blocks), len(operands), result.dtype.itemsize))


def _whole(operand: int, given: Memory, place: int, steps: tuple[int, ...]) -> CopyBlock:
    return CopyBlock(operand, 0, given.shape, given.strides, place, steps)


@native(Copy)
@native(Reshape)
def copy(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """All elements, row by row; by tiles where rows lie crosswise."""
    del node
    (given,) = operands
    if _crosswise(given):
        return _transpose(given)
    steps = contiguous(given.shape, given.dtype).strides
    return _copy_blocks(operands, results, iter([_whole(0, given, 0, steps)]))


@native(Again)
def again(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """The first operand as it is."""
    del node
    given = operands[0]
    steps = contiguous(given.shape, given.dtype).strides
    return Kernel(*copy_kernel([_whole(0, given, 0, steps)], 2, results[0].dtype.itemsize))


def _crosswise(given: Memory) -> bool:
    """Whether small elements lie side by side along another axis than the last one."""
    item = given.dtype.itemsize
    walked = [s for n, s in zip(given.shape, given.strides, strict=True) if n != 1]
    return item <= WIDEST_TURNED and bool(walked) and walked[-1] != item and item in walked


def _transpose(given: Memory) -> Kernel | None:
    """The elementwise kernel that changes nothing; it takes elements as integers."""
    kind = np.dtype(f"uint{8 * given.dtype.itemsize}")
    body = Body.of(((given.shape, kind),), (BodyStep(Copy(), (0,), given.shape, kind),), (1,))
    source = Memory(given.shape, given.strides, kind)
    found = elementwise_kernel(body, [source], [contiguous(given.shape, kind)])
    return None if found is None else Kernel(*found)


@native(Concat)
def concat(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """A block for each operand."""
    assert isinstance(node.op, Concat)
    axis, steps = node.op.axis, results[0].strides

    def blocks() -> Iterator[CopyBlock]:
        before = 0
        for position, given in enumerate(operands):
            yield _whole(position, given, before * steps[axis], steps)
            before += given.shape[axis]

    return _copy_blocks(operands, results, blocks())


@native(Pad)
def pad(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """The operand, and blocks of the fill value before and after it along each axis."""
    assert isinstance(node.op, Pad)
    (given, _), (result,), widths = operands, results, node.op.widths
    if any(n < 0 for pair in widths for n in pair):
        return None

    def blocks() -> Iterator[CopyBlock]:
        steps = result.strides
        starts = [before for before, _ in widths]
        yield _whole(0, given, _place(starts, steps), steps)
        for axis, (before, after) in enumerate(widths):
            inner = list(zip(starts[:axis], given.shape[:axis], strict=True))
            outer = [(0, n) for n in result.shape[axis + 1 :]]
            for begin, count in ((0, before), (before + given.shape[axis], after)):
                ranges = [*inner, (begin, count), *outer]
                sizes = tuple([n for _, n in ranges])
                place = _place([b for b, _ in ranges], steps)
                yield CopyBlock(1, 0, sizes, (0,) * len(sizes), place, steps)

    return _copy_blocks(operands, results, blocks())


def _place(index: Sequence[int], strides: Sequence[int]) -> int:
    return sum([i * s for i, s in zip(index, strides, strict=True)])


@native(Roll)
def roll(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Along each moved axis, what stays in order before and after the seam."""
    assert isinstance(node.op, Roll)
    (given,), (result,) = operands, results
    parts = [
        [(0, n - shift, shift), (n - shift, shift, 0)] if shift else [(0, n, 0)]
        for n, shift in zip(given.shape, node.op.shifts, strict=True)
    ]

    def blocks() -> Iterator[CopyBlock]:
        for chosen in product(*parts):
            start = _place([begin for begin, _, _ in chosen], given.strides)
            place = _place([to for _, _, to in chosen], result.strides)
            sizes = tuple([n for _, n, _ in chosen])
            yield CopyBlock(0, start, sizes, given.strides, place, result.strides)

    return _copy_blocks(operands, results, blocks())


@native(Tile)
def tile(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Each axis twice: the repetitions, then the elements."""
    assert isinstance(node.op, Tile)
    pairs = list(zip(node.op.repetitions, operands[0].shape, strict=True))
    repeated = [((r, n), (0, s)) for (r, n), s in zip(pairs, operands[0].strides, strict=True)]
    return _copy_blocks(operands, results, iter([_spread(repeated, results[0])]))


@native(Repeat)
def repeat(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """Along the axis the elements, then the repetitions."""
    assert isinstance(node.op, Repeat)
    repeated = [
        ((n, node.op.repeats if axis == node.op.axis else 1), (s, 0))
        for axis, (n, s) in enumerate(zip(operands[0].shape, operands[0].strides, strict=True))
    ]
    return _copy_blocks(operands, results, iter([_spread(repeated, results[0])]))


def _spread(axes: Sequence[tuple[tuple[int, int], tuple[int, int]]], result: Memory) -> CopyBlock:
    """A block that fills a result whose axes were each split in two."""
    sizes: Shape = tuple([n for pair, _ in axes for n in pair])
    strides = tuple([s for _, pair in axes for s in pair])
    return CopyBlock(0, 0, sizes, strides, 0, contiguous(sizes, result.dtype).strides)
