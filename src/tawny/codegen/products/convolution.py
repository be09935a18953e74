"""Convolutions and their transposes in the input, of any geometry, channels last.

A convolution is a product of what its windows see with the kernel.  So is the gradient of its
input: the positions of each residue modulo the strides see the taps of one residue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from tawny.codegen.element import Element, element_of
from tawny.codegen.kernel import Compiled, Layout
from tawny.codegen.products.blocking import Extent, cut
from tawny.codegen.products.epilogue import Ending
from tawny.codegen.products.form import Depth, Form, Panels
from tawny.codegen.products.loops import UNLIMITED, kernel_of
from tawny.codegen.products.packing import Order, order_of
from tawny.codegen.products.windows import WindowAxis, Windows
from tawny.ops.convolution import Windowed
from tawny.ops.fused import PLAIN, Epilogue


@dataclass(frozen=True, slots=True)
class Sweep:
    """A product of what windows see with a kernel."""

    batch: int
    axes: tuple[WindowAxis, ...]
    groups: int
    channels: int
    """Of a group."""
    outputs: int
    """Of a group."""
    a_batch: int
    c_batch: int
    a_group: int
    b_group: int
    c_group: int
    b_row: int
    """Bytes from one channel of the kernel to the next."""
    b_column: int
    """Bytes from one output of the kernel to the next."""

    @property
    def taps(self) -> int:
        """How many taps a window has."""
        return math.prod([axis.taps for axis in self.axes])

    @property
    def extent(self) -> Extent:
        """How large the product is."""
        rows = self.batch * math.prod([axis.count for axis in self.axes])
        return Extent(rows, self.outputs, self.channels, self.taps, self.groups)


def convolution_kernel(
    op: Windowed,
    x: Layout,
    kernel: Layout,
    result: Layout,
    extra: Sequence[Layout] = (),
    *,
    epilogue: Epilogue = PLAIN,
    workers: int = 1,
) -> Compiled | None:
    """The kernel of a convolution; None where it has none."""
    element = element_of(result.dtype)
    if element is None or any(m.dtype != result.dtype for m in (x, kernel)):
        return None
    ending = Ending(epilogue, result.dtype)
    if not ending.possible:
        return None
    item = element.nbytes
    channels, outputs = kernel.shape[-2], kernel.shape[-1] // op.groups
    axes = [
        WindowAxis(
            count=result.shape[i],
            size=x.shape[i],
            origin=-op.padding[i - 1][0],
            stride=op.strides[i - 1],
            taps=kernel.shape[i - 1],
            dilation=op.dilation[i - 1],
            a_bytes=x.strides[i],
            b_bytes=kernel.strides[i - 1],
            c_bytes=result.strides[i],
        )
        for i in range(1, len(x.shape) - 1)
    ]
    sweep = Sweep(
        batch=x.shape[0],
        axes=tuple(axes),
        groups=op.groups,
        channels=channels,
        outputs=outputs,
        a_batch=x.strides[0],
        c_batch=result.strides[0],
        a_group=channels * item,
        b_group=outputs * kernel.strides[-1],
        c_group=outputs * item,
        b_row=kernel.strides[-2],
        b_column=kernel.strides[-1],
    )
    operands = ("a", "b", *["bias"] * epilogue.bias, *["residual"] * epilogue.residual, "c")
    return swept(element, ending, [sweep], operands, workers)


def swept(
    element: Element,
    ending: Ending,
    sweeps: Sequence[Sweep],
    operands: tuple[str, ...],
    workers: int,
) -> Compiled:
    """The kernel of some sweeps, which make different parts of the result."""
    shared = workers > 1 and any(s.extent.shared for s in sweeps)
    products = [_numbered(element, ending, s, workers if shared else 1) for s in sweeps]
    slot = max(numbers["slot_bytes"] for _, numbers in products)
    for _, numbers in products:
        numbers["slot_bytes"] = slot
    return kernel_of(products, operands, shared, slot * (workers if shared else 1))


def _numbered(
    element: Element, ending: Ending, sweep: Sweep, workers: int
) -> tuple[Form, dict[str, int]]:
    """One sweep as a product."""
    extent = sweep.extent
    order = order_of(element, sweep.b_row, sweep.b_column)
    panels = Panels.DIRECT if order is Order.ROWS else Panels.PACKED
    blocking = cut(element, extent, workers, packed=panels is Panels.PACKED)
    form = Form(
        element,
        ending,
        blocking.full.shapes if blocking.blocks else (),
        () if blocking.tail is None else blocking.tail.shapes,
        panels,
        order,
        1,
        Depth.WHOLE if blocking.depth_blocks == 1 else Depth.BLOCKED,
        Windows(len(sweep.axes)),
    )
    packed = 0
    if panels is Panels.PACKED:
        packed = blocking.packed_bytes(element, sweep.channels * sweep.taps)
    slot = packed + blocking.sum_bytes(element)
    numbers = {
        "depth": sweep.channels,
        "taps": sweep.taps,
        "b_row": sweep.b_row,
        "b_column": sweep.b_column,
        **blocking.numbers,
        "slots": workers if slot else UNLIMITED,
        "slot_bytes": slot,
        "sums_at": packed,
        "rows_at": 0,
        "stack0": sweep.groups,
        "a_stack0": sweep.a_group,
        "b_stack0": sweep.b_group,
        "c_stack0": sweep.c_group,
        "residual_stack0": sweep.c_group,
        "bias_stack0": sweep.outputs * element.nbytes,
        "a_batch": sweep.a_batch,
        "c_batch": sweep.c_batch,
    }
    for number, axis in enumerate(sweep.axes):
        numbers |= axis.numbers(number)
    if not extent.rows or not extent.columns or not extent.stack:
        numbers["chunks"] = 0
    return form, numbers
