"""Convolutions and their gradients by oneDNN, channels last."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from tawny.engine.cpu.kernel_table import Kernel
from tawny.engine.cpu.onednn.endings import bias_of, finish_product
from tawny.engine.cpu.onednn.library import UNIMPLEMENTED, RefusedError, longs
from tawny.engine.cpu.onednn.primitive import (
    BIAS,
    SOURCE,
    SOURCE_GRADIENT,
    TARGET,
    TARGET_GRADIENT,
    WEIGHTS,
    WEIGHTS_GRADIENT,
    Description,
    Descriptor,
    Handle,
    Primitive,
    attributes,
    free,
    library,
    reorder,
    with_strides,
)
from tawny.engine.cpu.onednn.recipe import Recipe, RowPlace
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.ops.fusion import PLAIN, FusedConvolution
from tawny.shape import Shape

DIRECT: Final = 1
INFERENCE, TRAINING = 96, 64


def image(memory: Memory) -> Descriptor:
    """Channels come second in the library's order of axes, wherever they lie."""
    return with_strides(_second(memory.shape), _second(memory.strides))


def _second(values: tuple[int, ...]) -> tuple[int, ...]:
    batch, *spatial, channels = values
    return batch, channels, *spatial


def weights_shape(op: ConvolutionOp, kernel: Shape) -> Shape:
    """Groups if there are several, outputs and channels of a group, the window."""
    *window, channels, outputs = kernel
    split = (op.groups, outputs // op.groups) if op.groups > 1 else (outputs,)
    return *split, channels, *window


def weights(op: ConvolutionOp, memory: Memory) -> Descriptor:
    """A kernel where it lies."""
    shape = weights_shape(op, memory.shape)
    *window, channels, outputs = memory.strides
    split = (shape[1] * outputs, outputs) if op.groups > 1 else (outputs,)
    return with_strides(shape, (*split, channels, *window))


def _geometry(op: ConvolutionOp) -> list[Any]:
    """Strides, holes between taps, padding before and after."""
    return [
        longs(op.strides),
        longs([d - 1 for d in op.dilation]),
        longs([before for before, _ in op.padding]),
        longs([after for _, after in op.padding]),
    ]


def forward(
    op: ConvolutionOp,
    x: Descriptor,
    kernel: Descriptor,
    bias: Descriptor | None,
    result: Descriptor,
    attr: Handle,
    kind: int = INFERENCE,
) -> Description:
    """A convolution between memory that lies so."""
    return Description(
        "convolution_forward",
        ctypes.c_void_p(library().engine),
        ctypes.c_int(kind),
        ctypes.c_int(DIRECT),
        x,
        kernel,
        bias,
        result,
        *_geometry(op),
        attr,
    )


def _check_padding(op: ConvolutionOp, description: Description) -> None:
    """Refuse code that multiplies padding: what meets it there may be NaN or infinite.

    The library passes over padding as we do, but for convolutions it makes matrices of.
    """
    if any(map(any, op.padding)) and "gemm" in description.implementation:
        raise RefusedError("padding that is multiplied", UNIMPLEMENTED)


def _backward(
    what: str, op: ConvolutionOp, memory: Sequence[Descriptor | None], hint: Description
) -> Primitive:
    """A gradient between memory that lies so, of a convolution that `hint` describes."""
    description = Description(
        f"convolution_backward_{what}",
        ctypes.c_void_p(library().engine),
        ctypes.c_int(DIRECT),
        *memory,
        *_geometry(op),
        hint,
        attributes(),
    )
    if what == "weights":
        _check_padding(op, description)
    return Primitive(description, {})


def convolution(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """A convolution, with an epilogue if it is fused."""
    op, (x, kernel, *extra), (result,) = node.op, operands, results
    assert isinstance(op, (Convolution, FusedConvolution))
    epilogue = op.epilogue if isinstance(op, FusedConvolution) else PLAIN
    if not x.contiguous:
        return None
    recipe = Recipe(len(operands), threads)
    bias = bias_of(extra[0], 1) if epilogue.bias else None
    description = forward(
        op,
        image(x),
        free(weights_shape(op, kernel.shape)),
        bias,
        image(result),
        attributes(adds=epilogue.residual),
    )
    _check_padding(op, description)
    primitive = Primitive(description, {} if bias is None else {BIAS: bias})
    arranged = recipe.arrange(
        1, weights(op, kernel), primitive.memory[WEIGHTS], constant=kernel.constant
    )
    return finish_product(recipe, primitive, arranged, epilogue, operands, result)


def input_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """The gradient of a convolution's input."""
    op, (kernel, gradient), (result,) = node.op, operands, results
    assert isinstance(op, ConvolutionInputGradient)
    if not gradient.contiguous:
        return None
    shape = free(weights_shape(op, kernel.shape))
    source, target = image(result), image(gradient)
    hint = forward(op, source, shape, None, target, attributes(), TRAINING)
    primitive = _backward("data", op, (source, shape, target), hint)
    recipe = Recipe(2, threads)
    lies, wanted = weights(op, kernel), primitive.memory[WEIGHTS]
    places = {
        TARGET_GRADIENT: RowPlace(1),
        WEIGHTS: recipe.arrange(0, lies, wanted, constant=kernel.constant),
        SOURCE_GRADIENT: recipe.result,
    }
    recipe.run(primitive, places)
    return recipe.kernel()


def kernel_gradient(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """The gradient of a convolution's kernel."""
    op, (x, gradient), (result,) = node.op, operands, results
    assert isinstance(op, ConvolutionKernelGradient)
    if not (x.contiguous and gradient.contiguous):
        return None
    shape = free(weights_shape(op, result.shape))
    source, target = image(x), image(gradient)
    hint = forward(op, source, shape, None, target, attributes(), TRAINING)
    primitive = _backward("weights", op, (source, shape, None, target), hint)
    recipe = Recipe(2, threads)
    made, wanted = primitive.memory[WEIGHTS_GRADIENT], weights(op, result)
    apart = not made.same(wanted)
    place = recipe.room(made.nbytes) if apart else recipe.result
    recipe.run(
        primitive, {SOURCE: RowPlace(0), TARGET_GRADIENT: RowPlace(1), WEIGHTS_GRADIENT: place}
    )
    if apart:
        recipe.run(reorder(made, wanted), {SOURCE: place, TARGET: recipe.result})
    return recipe.kernel()
