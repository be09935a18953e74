"""Movement, joining and repeating as blocks of elements that are copied, or added up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from tawny.engine.layout import Memory, contiguous
from tawny.op import Op
from tawny.ops.body import Body, BodyStep
from tawny.ops.differentiation import Again
from tawny.ops.indexing import Pad
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.movement import Reshape, Roll
from tawny.ops.pooling import Upsampling, UpsamplingGradient
from tawny.ops.reduction import Sum
from tawny.shape import Shape

COPIED: Final = (Again, Concat, Pad, Repeat, Reshape, Roll, Tile, Upsampling)
"""Ops that are copies of blocks.  Of an `Again` operand 0 alone is copied."""


class CopyBlock(NamedTuple):
    """Elements of an operand and where they go; strides and places are in bytes."""

    operand: int
    start: int
    """Where the first element lies in the operand."""
    sizes: Shape
    strides: tuple[int, ...]
    place: int
    """Where it goes in the result."""
    steps: tuple[int, ...]
    """Strides of the result."""


def copy_blocks(op: Op, operands: Sequence[Memory], result: Memory) -> list[CopyBlock] | None:
    """The blocks of an op; None where elements would have to be converted, or left out."""
    given = operands[:1] if isinstance(op, Again) else operands
    if any(m.dtype != result.dtype for m in given):
        return None
    match op:  # pyright: ignore[reportMatchNotExhaustive]
        case Concat():
            return list(_concatenate(op, given, result))
        case Pad():
            if any(n < 0 for pair in op.widths for n in pair):
                return None
            return list(_pad(op, given[0], result))
        case Roll():
            return list(_roll(op, given[0], result))
        case Tile():
            axes = zip(op.repetitions, given[0].shape, given[0].strides, strict=True)
            return [_spread([((r, n), (0, s)) for r, n, s in axes], result)]
        case Repeat():
            sizes = enumerate(zip(given[0].shape, given[0].strides, strict=True))
            counts = {op.axis: op.repeats}
            return [_spread([((n, counts.get(a, 1)), (s, 0)) for a, (n, s) in sizes], result)]
        case Upsampling():
            axes = zip(given[0].shape, given[0].strides, (1, *op.factors, 1), strict=True)
            return [_spread([((n, factor), (s, 0)) for n, s, factor in axes], result)]
        case Again() | Reshape():
            return [whole_block(0, given[0])]
    raise TypeError(f"{op} is not one of the ops that copy blocks")


def whole_block(
    operand: int, given: Memory, place: int = 0, steps: tuple[int, ...] = ()
) -> CopyBlock:
    """All of an operand, to where a result of some strides begins, or as a new array."""
    own = steps or contiguous(given.shape, given.dtype).strides
    return CopyBlock(operand, 0, given.shape, given.strides, place, own)


def _concatenate(op: Concat, operands: Sequence[Memory], result: Memory) -> Iterator[CopyBlock]:
    """A block for each operand."""
    before, steps = 0, result.strides
    for position, given in enumerate(operands):
        yield whole_block(position, given, before * steps[op.axis], steps)
        before += given.shape[op.axis]


def _pad(op: Pad, given: Memory, result: Memory) -> Iterator[CopyBlock]:
    """The operand, and blocks of the fill value before and after it along each axis."""
    steps = result.strides
    starts = [before for before, _ in op.widths]
    yield whole_block(0, given, _place(starts, steps), steps)
    for axis, (before, after) in enumerate(op.widths):
        inner = list(zip(starts[:axis], given.shape[:axis], strict=True))
        outer = [(0, n) for n in result.shape[axis + 1 :]]
        for begin, count in ((0, before), (before + given.shape[axis], after)):
            ranges = [*inner, (begin, count), *outer]
            sizes = tuple([n for _, n in ranges])
            place = _place([b for b, _ in ranges], steps)
            yield CopyBlock(1, 0, sizes, (0,) * len(sizes), place, steps)


def _roll(op: Roll, given: Memory, result: Memory) -> Iterator[CopyBlock]:
    """Along each moved axis, what stays in order before and after the seam."""
    parts = [
        [(0, n - shift, shift), (n - shift, shift, 0)] if shift else [(0, n, 0)]
        for n, shift in zip(given.shape, op.shifts, strict=True)
    ]
    for chosen in product(*parts):
        start = _place([begin for begin, _, _ in chosen], given.strides)
        place = _place([to for _, _, to in chosen], result.strides)
        sizes = tuple([n for _, n, _ in chosen])
        yield CopyBlock(0, start, sizes, given.strides, place, result.strides)


def _place(index: Sequence[int], strides: Sequence[int]) -> int:
    return sum([i * s for i, s in zip(index, strides, strict=True)])


def _spread(axes: Sequence[tuple[tuple[int, int], tuple[int, int]]], result: Memory) -> CopyBlock:
    """A block that fills a result whose axes were each split in two."""
    sizes: Shape = tuple([n for pair, _ in axes for n in pair])
    strides = tuple([s for _, pair in axes for s in pair])
    return CopyBlock(0, 0, sizes, strides, 0, contiguous(sizes, result.dtype).strides)


def block_sums(op: UpsamplingGradient, given: Memory) -> tuple[Memory, Body]:
    """Operand 0 with each axis as two, the blocks and inside a block, and the body that adds."""
    axes = list(zip(given.shape, given.strides, (1, *op.factors, 1), strict=True))
    sizes = tuple([n for size, _, factor in axes for n in (size // factor, factor)])
    strides = tuple([s for _, step, factor in axes for s in (step * factor, step)])
    total = Sum(tuple(range(1, len(sizes), 2)), keepdims=False, dtype=given.dtype)
    step = BodyStep(total, (0,), sizes[::2], given.dtype)
    body = Body.of(((sizes, given.dtype),), (step,), (1,))
    return Memory(sizes, strides, given.dtype), body
