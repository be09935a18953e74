"""Kernels of convolutions and of their gradients, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.cpu.kernels.element import Element, product_element
from tawny.engine.cpu.kernels.kernel import ArrayLayout, CompiledKernel
from tawny.engine.cpu.products.blocking import Panels, cut
from tawny.engine.cpu.products.correlation import Kind, Taps, correlation
from tawny.engine.cpu.products.epilogue import Ending, without_scale
from tawny.engine.cpu.products.geometry import Sweep, as_matrices, backward, forward
from tawny.engine.cpu.products.groups import group_product
from tawny.engine.cpu.products.lines import Lines, copied
from tawny.engine.cpu.products.matmul import product_kernel
from tawny.engine.cpu.products.packing import Order, order_of
from tawny.engine.cpu.products.preparation import Made, Preparation
from tawny.engine.cpu.products.product import Product, kernel_of
from tawny.engine.cpu.products.segments import segment_product
from tawny.engine.cpu.products.windows import Windows
from tawny.engine.cpu.products.winograd import suits, winograd_product
from tawny.engine.cpu.products.winograd_gradient import gradient_suits, winograd_gradient
from tawny.ops.convolution import ConvolutionOp
from tawny.ops.fusion import PLAIN, Epilogue

FEW_BYTES: Final = 8
"""Channels of at most so many bytes are copied line by line."""


def convolution_kernel(
    op: ConvolutionOp,
    x: ArrayLayout,
    kernel: ArrayLayout,
    result: ArrayLayout,
    extra: Sequence[ArrayLayout] = (),
    *,
    epilogue: Epilogue = PLAIN,
    workers: int = 1,
    known: bool = False,
    prepared: bool = False,
) -> Made | None:
    """The kernel of a convolution; None where it has none.

    `extra` are the epilogue's operands; `workers` is the most that are expected.  A convolution's
    kernel that is `known` before the run is transformed for it where that takes less memory, with
    `prepared` it is packed in any case.
    """
    element = _element((x, kernel), result)
    ending = Ending(epilogue, result.dtype)
    if element is None or not ending.possible:
        return None
    scale_at, extra = without_scale(extra, epilogue)
    if epilogue.residual and extra[-1].strides != result.strides:
        return None
    if epilogue.bias and extra[0].strides[-1] != element.nbytes and result.shape[-1] > 1:
        return None
    sweeps = [forward(op, x, kernel, result)]
    operands = ("a", "b", *["bias"] * epilogue.bias, *["residual"] * epilogue.residual, "c")
    return _swept(
        element,
        ending,
        sweeps,
        operands,
        workers,
        known=known,
        prepared=prepared,
        scale_at=scale_at,
    )


def input_gradient_kernel(
    op: ConvolutionOp,
    kernel: ArrayLayout,
    gradient: ArrayLayout,
    result: ArrayLayout,
    *,
    workers: int = 1,
) -> CompiledKernel | None:
    """The kernel of the gradient of a convolution's input; None where it has none."""
    element = _element((kernel, gradient), result)
    if element is None:
        return None
    sweeps = backward(op, kernel, gradient, result)
    return _swept(element, Ending(PLAIN, result.dtype), sweeps, ("b", "a", "c"), workers).code


def kernel_gradient_kernel(
    op: ConvolutionOp,
    x: ArrayLayout,
    gradient: ArrayLayout,
    result: ArrayLayout,
    *,
    workers: int = 1,
) -> CompiledKernel | None:
    """The kernel of the gradient of a convolution's kernel; None where it has none."""
    element = _element((x, gradient), result)
    if element is None or not _together(gradient):
        return None
    found = correlation(op, x, gradient, result)
    if gradient_suits(element, found):
        return winograd_gradient(element, found, workers)
    kind = Kind.CHANNELS
    for other, fewer in ((Kind.EACH, found.by_channel()), (Kind.LINES, found.along_lines())):
        if fewer is not None and _together(x):
            found, kind = fewer, other
    shared = workers > 1 and found.extent.shared
    blocking = cut(element, found.extent, workers if shared else 1)
    product = Product(
        element,
        Ending(PLAIN, result.dtype),
        blocking,
        Panels.DIRECT,
        Order.ROWS,
        found.stack,
        Taps(len(found.axes), kind),
        found.numbers(),
    )
    return kernel_of([product], ("a", "b", "c"), workers, shared=shared)


def _element(operands: Sequence[ArrayLayout], result: ArrayLayout) -> Element | None:
    """How elements are computed with; None where dtypes differ, or there is no way."""
    same = all(operand.dtype == result.dtype for operand in operands)
    return product_element(result.dtype) if same else None


def _together(layout: ArrayLayout) -> bool:
    """Whether channels are side by side."""
    steps = layout.strides[-1] == layout.dtype.itemsize
    return steps or layout.shape[-1] <= 1 or 0 in layout.shape


def _swept(
    element: Element,
    ending: Ending,
    sweeps: Sequence[Sweep],
    operands: tuple[str, ...],
    workers: int,
    *,
    known: bool = False,
    prepared: bool = False,
    scale_at: int = 0,
) -> Made:
    """The kernel of some sweeps, which make different parts of the result."""
    if len(sweeps) == 1:
        flat = as_matrices(sweeps[0], element.nbytes)
        if flat is not None:
            return product_kernel(
                element, ending, flat, operands, workers, prepared=prepared, scale_at=scale_at
            )
    shared = workers > 1 and any(s.extent.shared for s in sweeps)
    slots = workers if shared else 1
    if len(sweeps) == 1 and suits(element, sweeps[0], prepared=prepared):
        squares = winograd_product(
            element, ending, sweeps[0], slots, known=known, prepared=prepared
        )
        code = kernel_of([squares], operands, workers, shared=shared, scale_at=scale_at)
        return Made(code, squares.preparation)
    products = [_product(element, ending, s, slots, known=known, prepared=prepared) for s in sweeps]
    preparations = [product.preparation for product in products]
    return Made(
        kernel_of(products, operands, workers, shared=shared, scale_at=scale_at),
        preparations[0] if preparations else None,
    )


def _product(
    element: Element, ending: Ending, sweep: Sweep, workers: int, *, known: bool, prepared: bool
) -> Product:
    """A sweep as a product; the kernel is read where it lies if its outputs are side by side."""
    groups = segment_product(element, ending, sweep, workers, prepared=known or prepared)
    groups = groups or group_product(element, ending, sweep, workers, prepared=prepared)
    if groups is not None:
        return groups
    item = element.nbytes
    apart = sweep.by_channel(item)
    lines = copied(sweep, item) if apart is None and _copies(sweep, item) else None
    if lines is not None:
        sweep = lines.sweep
    elif apart is not None:
        sweep = apart
    order = order_of(element, sweep.b_row, sweep.b_column)
    panels = Panels.DIRECT if order is Order.ROWS else Panels.PACKED
    panels = Panels.PREPARED if prepared and apart is None else panels
    blocking = cut(element, sweep.extent, workers, panels=panels, order=order)
    group, preparation = sweep.group(item), None
    if panels is Panels.PREPARED:
        shape = sweep.taps, sweep.channels, sweep.groups, sweep.outputs
        preparation = Preparation(element, blocking, *shape)
        group = group._replace(b=preparation.group_bytes)
    packed, rank = panels is not Panels.DIRECT, len(sweep.axes)
    return Product(
        element,
        ending,
        blocking,
        panels,
        order,
        (group,),
        Windows(rank, each=apart is not None) if lines is None else Lines(rank),
        sweep.numbers(packed) if lines is None else lines.numbers(packed),
        rows_bytes=0 if lines is None else lines.room(blocking),
        preparation=preparation,
    )


def _copies(sweep: Sweep, item: int) -> bool:
    """Whether lines of the input are copied: channels are few, or not side by side."""
    if sweep.extent.empty:
        return False
    few = sweep.channels * item <= FEW_BYTES and sweep.axes[-1].taps > 1
    return few or (sweep.channels > 1 and sweep.a_step != item)
