"""Convolutions and the gradients of their inputs as sweeps of windows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from tawny.engine.cpu.kernels.kernel import ArrayLayout
from tawny.engine.cpu.products.blocking import Extent
from tawny.engine.cpu.products.matrices import Matrices
from tawny.engine.cpu.products.sharing import Axis
from tawny.engine.cpu.products.windows import WindowAxis
from tawny.ops.convolution import ConvolutionOp


@dataclass(frozen=True, slots=True)
class Sweep:
    """Windows of `a` times a kernel `b`: a part of a result `c`.  Steps are in bytes."""

    batch: int
    axes: tuple[WindowAxis, ...]
    groups: int
    channels: int
    """Channels of a group."""
    outputs: int
    """Outputs of a group."""
    a_batch: int
    c_batch: int
    a_step: int
    """From one channel of the input to the next."""
    a_group: int
    b_group: int
    c_group: int
    b_row: int
    """From one channel of the kernel to the next."""
    b_column: int
    """From one output of the kernel to the next."""
    b_start: int = 0
    c_start: int = 0
    r_batch: int = 0
    """Of the residual, if there is one, whose channels are side by side as the result's are."""

    @property
    def taps(self) -> int:
        """How many taps a window has."""
        return math.prod([axis.taps for axis in self.axes])

    @property
    def extent(self) -> Extent:
        """How large the product is."""
        rows = self.batch * math.prod([axis.count for axis in self.axes])
        return Extent(rows, self.outputs, self.channels, self.taps, self.groups)

    def group(self, item: int) -> Axis:
        """The groups as the axis of a stack, for elements of `item` bytes."""
        steps = self.a_group, self.b_group, self.c_group, self.c_group
        return Axis(self.groups, *steps, self.outputs * item)

    def numbers(self, packed: bool) -> dict[str, int]:
        """Numbers that compiled code reads; taps are further apart unless the kernel is packed."""
        numbers = {
            "depth": self.channels,
            "taps": self.taps,
            "b_start": self.b_start,
            "c_start": self.c_start,
            "b_row": self.b_row,
            "b_column": self.b_column,
            "b_depth": self.b_row,
            "a_batch": self.a_batch,
            "c_batch": self.c_batch,
            "r_batch": self.r_batch,
        }
        inner = 1
        for number, axis in reversed(list(enumerate(self.axes))):
            numbers |= axis.numbers(number)
            numbers[f"tap_bytes{number}"] = 0 if packed else axis.b_bytes
            numbers[f"tap_rows{number}"] = inner if packed else 0
            inner *= axis.taps
        return numbers


def forward(
    op: ConvolutionOp,
    x: ArrayLayout,
    kernel: ArrayLayout,
    result: ArrayLayout,
    residual: ArrayLayout | None = None,
) -> Sweep:
    """A convolution, and what is added to it."""
    added = (0,) * len(result.shape) if residual is None else residual.strides
    axes = [
        WindowAxis(
            count=result.shape[i + 1],
            size=x.shape[i + 1],
            origin=-op.padding[i][0],
            stride=op.strides[i],
            taps=kernel.shape[i],
            dilation=op.dilation[i],
            a_bytes=x.strides[i + 1],
            b_bytes=kernel.strides[i],
            c_bytes=result.strides[i + 1],
            r_bytes=added[i + 1],
        )
        for i in range(len(op.strides))
    ]
    channels, outputs = kernel.shape[-2], kernel.shape[-1] // op.groups
    return Sweep(
        batch=x.shape[0],
        axes=tuple(axes),
        groups=op.groups,
        channels=channels,
        outputs=outputs,
        a_batch=x.strides[0],
        c_batch=result.strides[0],
        a_step=x.strides[-1],
        a_group=channels * x.strides[-1],
        b_group=outputs * kernel.strides[-1],
        c_group=outputs * result.strides[-1],
        b_row=kernel.strides[-2],
        b_column=kernel.strides[-1],
        r_batch=added[0],
    )


def backward(
    op: ConvolutionOp,
    kernel: ArrayLayout,
    gradient: ArrayLayout,
    result: ArrayLayout,
    *,
    lines: bool = False,
) -> list[Sweep]:
    """The gradient of a convolution's input: a sweep for each residue of places by the strides.

    With `lines` all residues along the last axis are one sweep.
    """
    channels, outputs = kernel.shape[-2], kernel.shape[-1] // op.groups
    sweeps: list[Sweep] = []
    parts = [*op.strides[:-1], 1 if lines else op.strides[-1]]
    for residues in product(*map(range, parts)):
        found = [_residue(op, i, r, kernel, gradient, result) for i, r in enumerate(residues)]
        if lines:
            found[-1] = _spread(op, kernel, gradient, result), 0
        axes = tuple([axis for axis, _ in found])
        if any(axis.count <= 0 for axis in axes):
            continue
        sweeps.append(
            Sweep(
                batch=gradient.shape[0],
                axes=axes,
                groups=op.groups,
                channels=outputs,
                outputs=channels,
                a_batch=gradient.strides[0],
                c_batch=result.strides[0],
                a_step=gradient.strides[-1],
                a_group=outputs * gradient.strides[-1],
                b_group=outputs * kernel.strides[-1],
                c_group=channels * result.strides[-1],
                b_row=kernel.strides[-1],
                b_column=kernel.strides[-2],
                b_start=sum(
                    first * s for (_, first), s in zip(found, kernel.strides, strict=False)
                ),
                c_start=sum(r * s for r, s in zip(residues, result.strides[1:], strict=False)),
            )
        )
    return sweeps


def _residue(
    op: ConvolutionOp,
    i: int,
    residue: int,
    kernel: ArrayLayout,
    gradient: ArrayLayout,
    result: ArrayLayout,
) -> tuple[WindowAxis, int]:
    """Places `residue`, `residue + stride` ... of an axis, and the first tap that they see.

    Place q saw tap t of window p where q + padding = p * stride + t * dilation.
    """
    stride, dilation, before = op.strides[i], op.dilation[i], op.padding[i][0]
    common = math.gcd(stride, dilation)
    period = stride // common
    taps = [t for t in range(kernel.shape[i]) if (residue + before - t * dilation) % stride == 0]
    first = taps[0] if taps else 0
    axis = WindowAxis(
        count=-(-(result.shape[i + 1] - residue) // stride),
        size=gradient.shape[i + 1],
        origin=(residue + before - first * dilation) // stride,
        stride=1,
        taps=len(taps),
        dilation=-(dilation // common),
        a_bytes=gradient.strides[i + 1],
        b_bytes=period * kernel.strides[i],
        c_bytes=stride * result.strides[i + 1],
    )
    return axis, first


def _spread(
    op: ConvolutionOp, kernel: ArrayLayout, gradient: ArrayLayout, result: ArrayLayout
) -> WindowAxis:
    """All places of the last axis, as they see a gradient that is spread out by the stride."""
    return WindowAxis(
        count=result.shape[-2],
        size=gradient.shape[-2],
        origin=op.padding[-1][0],
        stride=1,
        taps=kernel.shape[-3],
        dilation=-op.dilation[-1],
        a_bytes=gradient.strides[-2],
        b_bytes=kernel.strides[-3],
        c_bytes=result.strides[-2],
        spread=op.strides[-1],
    )


def as_matrices(sweep: Sweep, item: int) -> Matrices | None:
    """A sweep of windows with one tap, whose positions lie evenly in memory, as matrices."""
    axes = sweep.axes
    moved = any(a.origin or a.stride != 1 or a.count != a.size for a in axes)
    if sweep.taps != 1 or moved or sweep.b_start or sweep.c_start:
        return None
    batch = sweep.batch, (sweep.a_batch, sweep.c_batch, sweep.r_batch)
    (rows, own), *outer = [(a.count, (a.a_bytes, a.c_bytes, a.r_bytes)) for a in reversed(axes)]
    for count, steps in [*outer, batch]:
        if count != 1 and steps != tuple([rows * step for step in own]):
            return None
        rows *= count
    a_row, c_row, residual_row = own
    return Matrices(
        rows=rows,
        columns=sweep.outputs,
        depth=sweep.channels,
        a_row=a_row,
        a_step=sweep.a_step,
        b_row=sweep.b_row,
        b_column=sweep.b_column,
        c_row=c_row,
        residual_row=residual_row,
        residual_column=item,
        bias_row=0,
        bias_column=item,
        stack=(sweep.group(item),) if sweep.groups > 1 else (),
    )
