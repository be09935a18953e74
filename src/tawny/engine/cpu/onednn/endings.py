"""Epilogues: bias and residual by oneDNN, activations by our own code.

oneDNN's activations are others: its relu makes 0 of NaN, its softplus is less exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.kernels.elementwise import elementwise_kernel
from tawny.engine.cpu.onednn.library import UNIMPLEMENTED, RefusedError
from tawny.engine.cpu.onednn.primitive import (
    BIAS,
    SOURCE,
    TARGET,
    WEIGHTS,
    Descriptor,
    Primitive,
    reorder,
    with_strides,
)
from tawny.engine.cpu.onednn.recipe import Recipe, RowPlace
from tawny.engine.layout import Memory, contiguous
from tawny.ops.body import Body, BodyStep
from tawny.ops.fusion import Activation, Epilogue


def bias_of(memory: Memory, axes: int) -> Descriptor:
    """A bias along the last of `axes` axes."""
    count, item = memory.shape[-1], memory.dtype.itemsize
    if memory.strides[-1] != item and count > 1:
        raise RefusedError("a bias whose numbers are not side by side", UNIMPLEMENTED)
    return with_strides((*(1,) * (axes - 1), count), (*(item * count,) * (axes - 1), item))


def finish_product(
    recipe: Recipe,
    primitive: Primitive,
    weights: RowPlace,
    epilogue: Epilogue,
    operands: Sequence[Memory],
    result: Memory,
) -> Kernel:
    """The kernel of a product of operands 0 and 1, the second arranged as `weights`, to its end."""
    places = {SOURCE: RowPlace(0), WEIGHTS: weights, TARGET: recipe.result}
    if epilogue.bias:
        places[BIAS] = RowPlace(2)
    if epilogue.residual:
        add_residual(recipe, operands[-1], result)
    recipe.run(primitive, places)
    activate(recipe, epilogue.activation, result)
    return recipe.kernel()


def add_residual(recipe: Recipe, residual: Memory, result: Memory) -> None:
    """Copy the residual, the last operand, to the result, unless it lies there.

    A primitive adds its product to what is in its result's place.
    """
    if not residual.contiguous:
        raise RefusedError("a residual that lies otherwise than the result", UNIMPLEMENTED)
    flat = with_strides((prod(result.shape),), (result.dtype.itemsize,))
    places = {SOURCE: RowPlace(recipe.operands - 1), TARGET: recipe.result}
    recipe.run(reorder(flat, flat), places, copies=True)


def activate(recipe: Recipe, activation: Activation, result: Memory) -> None:
    """Apply an activation to the result where it lies."""
    op = activation.op
    if op is None:
        return
    flat = contiguous((prod(result.shape),), result.dtype)
    step = BodyStep(op, (0,), flat.shape, flat.dtype)
    code = elementwise_kernel(Body.of(((flat.shape, flat.dtype),), (step,), (1,)), [flat], [flat])
    if code is None:
        raise RefusedError(f"{activation.value} by a kernel of ours", UNIMPLEMENTED)
    recipe.finish(code)
