"""Native kernels of the movement and joining chapters: each is a list of blocks to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tawny.engine.blocks import COPIED, copy_blocks, whole_block
from tawny.engine.cpu.kernel_table import Kernel, native
from tawny.engine.cpu.kernels.copies import copy_kernel
from tawny.engine.cpu.kernels.elementwise import elementwise_kernel
from tawny.engine.cpu.kernels.weaving import weaving_kernel
from tawny.engine.layout import Memory, contiguous
from tawny.node import Node
from tawny.ops.body import Body, BodyStep
from tawny.ops.movement import Copy, Reshape
from tawny.shape import Shape

LARGEST_INTEGER: Final = 8
"""Bytes of the largest elements that elementwise kernels take as integers."""

WIDEST_TURNED: Final = 4
"""Bytes of the largest elements that are turned in registers."""


@native(*[op for op in COPIED if op is not Reshape])
def blocks(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """The kernel that copies blocks; None where elements would have to be converted."""
    (result,) = results
    found = copy_blocks(node.op, operands, result)
    if found is None:
        return None
    alone = len(found) == len(operands) == 1
    if alone and _repeats_elements(found[0].sizes, found[0].strides):
        spread = _copy_elements(Memory(found[0].sizes, found[0].strides, result.dtype))
        if spread is not None:
            return spread
    return Kernel(*copy_kernel(found, len(operands), result.dtype.itemsize))


@native(Copy, Reshape)
def copy(node: Node, operands: Sequence[Memory], results: Sequence[Memory]) -> Kernel | None:
    """All elements, row by row; by tiles where rows lie crosswise."""
    del node, results
    (given,) = operands
    woven = weaving_kernel(given)
    if woven is not None:
        return Kernel(*woven)
    if _is_crosswise(given) or _repeats_elements(given.shape, given.strides):
        copied = _copy_elements(given)
        if copied is not None:
            return copied
    return Kernel(*copy_kernel([whole_block(0, given)], 1, given.dtype.itemsize))


def _is_crosswise(given: Memory) -> bool:
    """Whether small elements lie side by side along another axis than the last one."""
    item = given.dtype.itemsize
    walked = [s for n, s in zip(given.shape, given.strides, strict=True) if n != 1]
    return item <= WIDEST_TURNED and bool(walked) and walked[-1] != item and item in walked


def _repeats_elements(sizes: Shape, strides: Sequence[int]) -> bool:
    """Whether neighbours are copies of one element, which vectors write together."""
    walked = [s for n, s in zip(sizes, strides, strict=True) if n != 1]
    return len(walked) > 1 and walked[-1] == 0


def _copy_elements(given: Memory) -> Kernel | None:
    """The elementwise kernel that changes nothing; it takes elements as integers."""
    if given.dtype.itemsize > LARGEST_INTEGER:
        return None
    kind = np.dtype(f"uint{8 * given.dtype.itemsize}")
    body = Body.of(((given.shape, kind),), (BodyStep(Copy(), (0,), given.shape, kind),), (1,))
    source = Memory(given.shape, given.strides, kind)
    found = elementwise_kernel(body, [source], [contiguous(given.shape, kind)])
    return None if found is None else Kernel(*found)
