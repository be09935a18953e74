"""Matrix products by oneDNN."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from itertools import pairwise

from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.onednn.endings import bias_of, finish_product
from tawny.engine.cpu.onednn.primitive import (
    BIAS,
    ITEM,
    WEIGHTS,
    Description,
    Primitive,
    attributes,
    free,
    library,
    with_strides,
)
from tawny.engine.cpu.onednn.recipe import Recipe
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.ops.fusion import PLAIN, FusedMatmul
from tawny.shape import Shape

Steps = tuple[Shape, tuple[int, ...]]
"""A shape, and the bytes from one element to the next along each axis."""


def matmul(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A product of matrices, with an epilogue if it is fused."""
    (a, b, *extra), (result,) = operands, results
    epilogue, exchanged = PLAIN, (False, False)
    if isinstance(node.op, FusedMatmul):
        epilogue = node.op.epilogue
        exchanged = node.op.transpose_a, node.op.transpose_b
    if min(len(a.shape), len(b.shape)) < 2:
        return None
    left, right = (_matrices(m, e) for m, e in zip((a, b), exchanged, strict=True))
    if not (_dense(left) and _dense(right)):
        return None
    rank = len(result.shape)
    target = result.shape, result.strides
    rows = _one_matrix(left, target) if len(b.shape) == 2 else None
    if rows is not None:
        left, target = rows
        rank = 2
    left, right = _pad_axes(left, rank), _pad_axes(right, rank)
    bias = bias_of(extra[0], rank) if epilogue.bias else None
    recipe = Recipe(len(operands), threads)
    wanted = free(right[0]) if b.constant else with_strides(*right)
    description = Description(
        "matmul",
        ctypes.c_void_p(library().engine),
        with_strides(*left),
        wanted,
        bias,
        with_strides(*target),
        attributes(adds=epilogue.residual),
    )
    primitive = Primitive(description, {} if bias is None else {BIAS: bias})
    arranged = recipe.arrange(
        1, with_strides(*right), primitive.memory[WEIGHTS], constant=b.constant
    )
    return finish_product(recipe, primitive, arranged, epilogue, operands, result)


def _matrices(memory: Memory, exchanged: bool) -> Steps:
    """An operand as it is multiplied."""
    shape, strides = memory.shape, memory.strides
    if not exchanged:
        return shape, strides
    return (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2])


def _dense(matrices: Steps) -> bool:
    """Whether no two elements share memory, and one axis of the matrices is without gaps."""
    shape, strides = matrices
    if any(s <= 0 for n, s in zip(shape, strides, strict=True) if n > 1):
        return False
    close = [s == ITEM or n == 1 for n, s in zip(shape[-2:], strides[-2:], strict=True)]
    if not any(close):
        return False
    axes = sorted((s, n) for n, s in zip(shape, strides, strict=True) if n > 1)
    return all(outer[0] >= inner[0] * inner[1] for inner, outer in pairwise(axes))


def _one_matrix(left: Steps, target: Steps) -> tuple[Steps, Steps] | None:
    """A stack of left matrices as one with the rows of all, if rows are evenly spaced."""
    shape, strides = left
    rows, step = 1, strides[-2]
    for n, s in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if n > 1 and rows > 1 and s != rows * step:
            return None
        step = s if rows == 1 else step
        rows *= n
    count = math.prod(target[0][:-1])
    item = target[1][-1]
    columns = target[0][-1]
    return (
        ((rows, shape[-1]), (step, strides[-1])),
        ((count, columns), (columns * item, item)),
    )


def _pad_axes(matrices: Steps, rank: int) -> Steps:
    """With axes of size 1 in front, up to `rank` axes in all.

    Steps along axes of size 1 lead past all elements, unless matrices have no axis without gaps.
    """
    shape, given = matrices
    new = rank - len(shape)
    pairs = list(zip(shape, given, strict=True))
    far = max([ITEM, *[n * s for n, s in pairs if n > 1]])
    strides = [s if n > 1 else far for n, s in pairs]
    if ITEM not in strides[-2:]:
        strides[-1 if shape[-1] == 1 else -2] = ITEM
    return (*(1,) * new, *shape), (*(far,) * new, *strides)
