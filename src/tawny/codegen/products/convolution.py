"""Kernels of convolutions and of their gradients, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tawny.codegen.element import Element, element_of
from tawny.codegen.kernel import Compiled, Layout
from tawny.codegen.products.blocking import Room, cut
from tawny.codegen.products.correlation import Taps, correlation
from tawny.codegen.products.epilogue import Ending
from tawny.codegen.products.form import Form, Panels
from tawny.codegen.products.geometry import Sweep, as_matrices, backward, forward
from tawny.codegen.products.loops import kernel_of
from tawny.codegen.products.matmul import product_kernel
from tawny.codegen.products.packing import Order, order_of
from tawny.codegen.products.preparation import Preparation, Product
from tawny.codegen.products.windows import Windows
from tawny.ops.convolution import Windowed
from tawny.ops.fused import PLAIN, Epilogue


def convolution_kernel(
    op: Windowed,
    x: Layout,
    kernel: Layout,
    result: Layout,
    extra: Sequence[Layout] = (),
    *,
    epilogue: Epilogue = PLAIN,
    workers: int = 1,
    prepared: bool = False,
) -> Product | None:
    """The kernel of a convolution; None where it has none.

    `extra` are the epilogue's operands; `workers` is the most that are expected.  With `prepared`
    the convolution's kernel is known before the run and may be packed for it.
    """
    element = _element((x, kernel), x, result)
    ending = Ending(epilogue, result.dtype)
    if element is None or not ending.possible:
        return None
    if epilogue.residual and extra[-1].strides != result.strides:
        return None
    if epilogue.bias and extra[0].strides[-1] != element.nbytes and result.shape[-1] > 1:
        return None
    sweeps = [forward(op, x, kernel, result)]
    operands = ("a", "b", *["bias"] * epilogue.bias, *["residual"] * epilogue.residual, "c")
    return _swept(element, ending, sweeps, operands, workers, prepared=prepared)


def input_gradient_kernel(
    op: Windowed, kernel: Layout, gradient: Layout, result: Layout, *, workers: int = 1
) -> Compiled | None:
    """The kernel of the gradient of a convolution's input; None where it has none."""
    element = _element((kernel, gradient), gradient, result)
    if element is None:
        return None
    sweeps = backward(op, kernel, gradient, result)
    return _swept(element, Ending(PLAIN, result.dtype), sweeps, ("b", "a", "c"), workers).code


def kernel_gradient_kernel(
    op: Windowed, x: Layout, gradient: Layout, result: Layout, *, workers: int = 1
) -> Compiled | None:
    """The kernel of the gradient of a convolution's kernel; None where it has none."""
    element = _element((x, gradient), x, result)
    if element is None or _element((gradient,), gradient, result) is None:
        return None
    found = correlation(op, x, gradient, result)
    shared = workers > 1 and found.extent.shared
    slots = workers if shared else 1
    blocking = cut(element, found.extent, slots)
    ending, rank = Ending(PLAIN, result.dtype), len(found.axes)
    form = Form.of(element, ending, blocking, Panels.DIRECT, Order.ROWS, rank + 1, Taps(rank))
    room = Room(sums=blocking.sum_bytes(element))
    numbers = {**found.numbers(), **blocking.numbers, **room.numbers(slots)}
    return kernel_of([(form, numbers)], ("a", "b", "c"), shared, room.slot * slots)


def _element(operands: Sequence[Layout], left: Layout, result: Layout) -> Element | None:
    """How elements are computed with; None where operands differ, or channels are not together."""
    element = element_of(result.dtype)
    if element is None or any(m.dtype != result.dtype for m in operands):
        return None
    together = left.strides[-1] == element.nbytes or left.shape[-1] <= 1
    return element if together else None


def _swept(
    element: Element,
    ending: Ending,
    sweeps: Sequence[Sweep],
    operands: tuple[str, ...],
    workers: int,
    *,
    prepared: bool = False,
) -> Product:
    """The kernel of some sweeps, which make different parts of the result."""
    if len(sweeps) == 1:
        flat = as_matrices(sweeps[0], element.nbytes)
        if flat is not None:
            return product_kernel(element, ending, flat, operands, workers, prepared=prepared)
    shared = workers > 1 and any(s.extent.shared for s in sweeps)
    slots = workers if shared else 1
    products = [_Swept.of(element, ending, s, slots, prepared) for s in sweeps]
    slot = max([p.room.slot for p in products], default=0)
    told = [(p.form, {**p.numbers, **p.room.numbers(slots, slot)}) for p in products]
    code = kernel_of(told, operands, shared, slot * slots)
    return Product(code, products[0].preparation if prepared else None)


class _Swept(NamedTuple):
    """A sweep as a product."""

    form: Form
    numbers: dict[str, int]
    room: Room
    preparation: Preparation

    @staticmethod
    def of(element: Element, ending: Ending, sweep: Sweep, workers: int, prepared: bool) -> _Swept:
        """The kernel is read where it lies if its outputs are side by side."""
        order = order_of(element, sweep.b_row, sweep.b_column)
        panels = Panels.DIRECT if order is Order.ROWS else Panels.PACKED
        panels = Panels.PREPARED if prepared else panels
        blocking = cut(element, sweep.extent, workers, packed=panels is Panels.PACKED)
        form = Form.of(element, ending, blocking, panels, order, 1, Windows(len(sweep.axes)))
        length = sweep.channels * sweep.taps if panels is Panels.PACKED else 0
        room = Room(blocking.packed_bytes(element, length), blocking.sum_bytes(element))
        shape = sweep.taps, sweep.channels, sweep.groups, sweep.outputs
        preparation = Preparation(element, blocking, *shape)
        numbers = {**sweep.numbers(element.nbytes), **blocking.numbers}
        if prepared:
            numbers["b_stack0"] = preparation.group_bytes
        return _Swept(form, numbers, room, preparation)
