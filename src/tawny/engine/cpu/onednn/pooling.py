"""Pooling and its gradients by oneDNN, channels last."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.onednn.convolution import INFERENCE, TRAINING, image
from tawny.engine.cpu.onednn.library import longs
from tawny.engine.cpu.onednn.primitive import (
    SOURCE,
    SOURCE_GRADIENT,
    TARGET,
    TARGET_GRADIENT,
    WORKSPACE,
    Description,
    Primitive,
    attributes,
    library,
)
from tawny.engine.cpu.onednn.recipe import Recipe, RowPlace
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.ops.pooling import AvgPool, MaxPool, MaxPoolGradient, Pooling

MAX: Final = 0x1FF
MEAN: Final = 0x3FF
"""The mean without the padding."""


def _geometry(op: Pooling) -> list[Any]:
    """Strides, window, no holes in it, padding before and after."""
    return [
        longs(op.strides),
        longs(op.window),
        longs([0] * len(op.window)),
        longs([before for before, _ in op.padding]),
        longs([after for _, after in op.padding]),
    ]


def _forward(op: Pooling, which: int, whole: Memory, pooled: Memory, kind: int) -> Description:
    return Description(
        "pooling_forward",
        ctypes.c_void_p(library().engine),
        ctypes.c_int(kind),
        ctypes.c_int(which),
        image(whole),
        image(pooled),
        *_geometry(op),
        attributes(),
    )


def _backward(
    op: Pooling, which: int, whole: Memory, pooled: Memory, hint: Description
) -> Primitive:
    description = Description(
        "pooling_backward",
        ctypes.c_void_p(library().engine),
        ctypes.c_int(which),
        image(whole),
        image(pooled),
        *_geometry(op),
        hint,
        attributes(),
    )
    return Primitive(description, {})


def pooling(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """The greatest element, or the mean, of each window."""
    op, (x,), (result,) = node.op, operands, results
    assert isinstance(op, (MaxPool, AvgPool))
    if not x.contiguous:
        return None
    which = MAX if isinstance(op, MaxPool) else MEAN
    primitive = Primitive(_forward(op, which, x, result, INFERENCE), {})
    recipe = Recipe(1, threads)
    recipe.run(primitive, {SOURCE: RowPlace(0), TARGET: recipe.result})
    return recipe.kernel()


def mean_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """Each window's gradient spread evenly."""
    op, (gradient,), (result,) = node.op, operands, results
    assert isinstance(op, Pooling)
    if not gradient.contiguous:
        return None
    hint = _forward(op, MEAN, result, gradient, TRAINING)
    recipe = Recipe(1, threads)
    primitive = _backward(op, MEAN, result, gradient, hint)
    recipe.run(primitive, {TARGET_GRADIENT: RowPlace(0), SOURCE_GRADIENT: recipe.result})
    return recipe.kernel()


def max_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """Each window's gradient where its first maximum is, which is looked for again."""
    op, (x, gradient), (result,) = node.op, operands, results
    assert isinstance(op, MaxPoolGradient)
    if not (x.contiguous and gradient.contiguous):
        return None
    hint = _forward(op, MAX, x, gradient, TRAINING)
    forward, backward = Primitive(hint, {}), _backward(op, MAX, result, gradient, hint)
    recipe = Recipe(2, threads)
    greatest = recipe.room(forward.memory[TARGET].nbytes)
    found = recipe.room(forward.memory[WORKSPACE].nbytes)
    recipe.run(forward, {SOURCE: RowPlace(0), TARGET: greatest, WORKSPACE: found})
    recipe.run(
        backward, {TARGET_GRADIENT: RowPlace(1), SOURCE_GRADIENT: recipe.result, WORKSPACE: found}
    )
    return recipe.kernel()
