"""Kernels of convolutions and of their gradients, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.cpu.kernels.element import Element, product_element
from tawny.engine.cpu.kernels.kernel import ArrayLayout, CompiledKernel
from tawny.engine.cpu.products.blocking import Panels, cut
from tawny.engine.cpu.products.choice import (
    ConvolutionAlgorithm,
    ConvolutionCase,
    GradientAlgorithm,
    GradientCase,
    choose_convolution,
    choose_kernel_gradient,
)
from tawny.engine.cpu.products.correlation import RowKind, Taps, correlation
from tawny.engine.cpu.products.epilogue import TileEpilogue, without_scale
from tawny.engine.cpu.products.geometry import Sweep, as_matrices, backward, forward
from tawny.engine.cpu.products.group_gradient import group_gradient
from tawny.engine.cpu.products.group_windows import group_product
from tawny.engine.cpu.products.line_copies import PixelOrder, woven_channels
from tawny.engine.cpu.products.line_dots import dot_product
from tawny.engine.cpu.products.lines import CopiedLines, Lines, copied_lines
from tawny.engine.cpu.products.matmul import product_kernel
from tawny.engine.cpu.products.packing import Order, order_of
from tawny.engine.cpu.products.preparation import KernelWithPacking, PanelPreparation
from tawny.engine.cpu.products.product import Product, kernel_of
from tawny.engine.cpu.products.windows import Windows
from tawny.engine.cpu.products.winograd import winograd_product
from tawny.engine.cpu.products.winograd_gradient import winograd_gradient
from tawny.ops.convolution import ConvolutionOp
from tawny.ops.fused_products import PLAIN, Epilogue


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
    element: Element | None = None,
) -> KernelWithPacking | None:
    """The kernel of a convolution; None where it has none.

    `extra` are the epilogue's operands; `workers` is the most that are expected.  A convolution's
    kernel that is `known` before the run is transformed for it where that takes less memory, with
    `prepared` it is packed in any case.  Elements are computed with as their dtype says, unless an
    `element` is given.
    """
    element = element or _element((x, kernel), result)
    own = TileEpilogue(epilogue, result.dtype)
    if element is None or not own.is_supported:
        return None
    scale_at, extra = without_scale(extra, epilogue)
    residual = extra[-1] if epilogue.residual else None
    if residual is not None and residual.strides[-1] != element.nbytes and result.shape[-1] > 1:
        return None
    if epilogue.bias and extra[0].strides[-1] != element.nbytes and result.shape[-1] > 1:
        return None
    sweeps = [forward(op, x, kernel, result, residual)]
    operands = ("a", "b", *["bias"] * epilogue.bias, *["residual"] * epilogue.residual, "c")
    return _sweeps_kernel(
        element,
        own,
        sweeps,
        operands,
        workers,
        known=known,
        prepared=prepared,
        scale_at=scale_at,
    )


def is_winograd(
    op: ConvolutionOp, x: ArrayLayout, kernel: ArrayLayout, result: ArrayLayout, *, known: bool
) -> bool:
    """Whether a convolution is computed by fewer multiplications than it has."""
    element = _element((x, kernel), result)
    if element is None:
        return False
    case = ConvolutionCase(element, forward(op, x, kernel, result), prepared=known)
    return choose_convolution(case) is ConvolutionAlgorithm.WINOGRAD


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
    sweeps = backward(op, kernel, gradient, result, lines=True)
    cases = [ConvolutionCase(element, sweep, len(sweeps) == 1) for sweep in sweeps]
    if not all(choose_convolution(case) is ConvolutionAlgorithm.GROUPS for case in cases):
        sweeps = backward(op, kernel, gradient, result)
    return _sweeps_kernel(
        element, TileEpilogue(PLAIN, result.dtype), sweeps, ("b", "a", "c"), workers
    ).code


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
    if element is None or not _are_channels_adjacent(gradient):
        return None
    found = correlation(op, x, gradient, result)
    algorithm = choose_kernel_gradient(GradientCase(element, found, _are_channels_adjacent(x)))
    if algorithm is GradientAlgorithm.WINOGRAD:
        return winograd_gradient(element, found, workers)
    operands = ("a", "b", "c")
    if algorithm is GradientAlgorithm.GROUPS:
        shared = workers > 1 and found.extent.is_shared
        product = group_gradient(
            element, TileEpilogue(PLAIN, result.dtype), found, workers if shared else 1
        )
        return kernel_of([product], operands, workers, shared=shared)
    if algorithm is GradientAlgorithm.LINES:
        found = found.along_lines()
    order = PixelOrder.TOGETHER if found.line is None else found.line.order
    shared = workers > 1 and found.extent.is_shared
    blocking = cut(element, found.extent, workers if shared else 1)
    product = Product(
        element,
        TileEpilogue(PLAIN, result.dtype),
        blocking,
        Panels.DIRECT,
        Order.ROWS,
        found.stack,
        Taps(len(found.axes), _KINDS[algorithm], order),
        found.numbers(),
    )
    return kernel_of([product], ("a", "b", "c"), workers, shared=shared)


_KINDS: Final = {
    GradientAlgorithm.LINES: RowKind.LINES,
    GradientAlgorithm.TAPS: RowKind.CHANNELS,
}


def _element(operands: Sequence[ArrayLayout], result: ArrayLayout) -> Element | None:
    """How elements are computed with; None where dtypes differ, or there is no way."""
    same = all(operand.dtype == result.dtype for operand in operands)
    return product_element(result.dtype) if same else None


def _are_channels_adjacent(layout: ArrayLayout) -> bool:
    """Whether channels are side by side."""
    steps = layout.strides[-1] == layout.dtype.itemsize
    return steps or layout.shape[-1] <= 1 or 0 in layout.shape


def _sweeps_kernel(
    element: Element,
    epilogue: TileEpilogue,
    sweeps: Sequence[Sweep],
    operands: tuple[str, ...],
    workers: int,
    *,
    known: bool = False,
    prepared: bool = False,
    scale_at: int = 0,
) -> KernelWithPacking:
    """The kernel of sweeps that make different parts of the result."""
    alone = len(sweeps) == 1
    choices = [
        choose_convolution(ConvolutionCase(element, sweep, alone, prepared, known))
        for sweep in sweeps
    ]
    if choices == [ConvolutionAlgorithm.MATRICES]:
        flat = as_matrices(sweeps[0], element.nbytes)
        assert flat is not None, "it was chosen for that"
        return product_kernel(
            element, epilogue, flat, operands, workers, prepared=prepared, scale_at=scale_at
        )
    shared = workers > 1 and any(s.extent.is_shared for s in sweeps)
    slots = workers if shared else 1
    products = [
        _product(choice, element, epilogue, sweep, slots, known=known, prepared=prepared)
        for choice, sweep in zip(choices, sweeps, strict=True)
    ]
    code = kernel_of(products, operands, workers, shared=shared, scale_at=scale_at)
    return KernelWithPacking(code, products[0].preparation if products else None)


def _product(
    algorithm: ConvolutionAlgorithm,
    element: Element,
    epilogue: TileEpilogue,
    sweep: Sweep,
    workers: int,
    *,
    known: bool,
    prepared: bool,
) -> Product:
    """A sweep as a product."""
    given = element, epilogue, sweep, workers
    seen: Sweep | CopiedLines = sweep
    source: Windows | Lines = Windows(len(sweep.axes))
    match algorithm:
        case ConvolutionAlgorithm.WINOGRAD:
            return winograd_product(*given, known=known, prepared=prepared)
        case ConvolutionAlgorithm.GROUPS:
            return group_product(*given, prepared=known or prepared)
        case ConvolutionAlgorithm.DOTS:
            return dot_product(*given)
        case ConvolutionAlgorithm.LINES:
            seen = copied_lines(sweep, element.nbytes, prepared=prepared)
            order = seen.line.order
            woven = woven_channels(element, order, sweep.channels)
            source = Lines(len(sweep.axes), order, woven)
        case ConvolutionAlgorithm.WINDOWS | ConvolutionAlgorithm.MATRICES:
            pass
    return _windows_product(element, epilogue, seen, source, workers, prepared=prepared)


def _windows_product(
    element: Element,
    epilogue: TileEpilogue,
    seen: Sweep | CopiedLines,
    source: Windows | Lines,
    workers: int,
    *,
    prepared: bool,
) -> Product:
    """Windows over the input, or over copies of its lines, as a product.

    The kernel is read where it lies if its outputs are side by side.
    """
    sweep = seen.sweep if isinstance(seen, CopiedLines) else seen
    order = order_of(element, sweep.b_row, sweep.b_column)
    panels = Panels.DIRECT if order is Order.ROWS else Panels.PACKED
    panels = Panels.PREPARED if prepared else panels
    blocking = cut(element, sweep.extent, workers, panels=panels, order=order)
    if isinstance(seen, CopiedLines):
        blocking = seen.in_chunks(blocking)
    group, preparation = sweep.group(element.nbytes), None
    if prepared:
        shape = sweep.taps, sweep.channels, sweep.groups, sweep.outputs
        preparation = PanelPreparation(element, blocking, *shape)
        group = group._replace(b=preparation.group_bytes)
    return Product(
        element,
        epilogue,
        blocking,
        panels,
        order,
        (group,),
        source,
        seen.numbers(panels is not Panels.DIRECT),
        rows_bytes=seen.room(blocking) if isinstance(seen, CopiedLines) else 0,
        preparation=preparation,
    )
