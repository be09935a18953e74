"""How GPUs compute Fourier transforms: axis by axis, each in passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tawny import dtype as dt
from tawny.dtype import complex_dtype, real_dtype
from tawny.engine.blocks import CopyBlock
from tawny.engine.gpu.kernels.copies import copy_launch
from tawny.engine.gpu.kernels.fourier import (
    MOST_ELEMENTS,
    MOST_POINTS,
    RADIX,
    AxisTransform,
    PassPlace,
    pass_launches,
    radices,
)
from tawny.engine.gpu.kernels.fourier_lines import LineTransform, fits_block, line_launch
from tawny.engine.gpu.kernels.points import Points
from tawny.engine.gpu.launch import DeviceArray, GpuKernel, Launch
from tawny.engine.gpu.table import gpu_rule
from tawny.ops.fft import FFT, InverseRealFFT, RealFFT, Transform
from tawny.shape import contiguous_strides, replace_size, size

MOST_CUT: Final = 512
"""Points of the lines that a longer one is cut into: a block has several side by side."""

ALIGNMENT: Final = 64
"""Bytes at multiples of which parts of the scratch memory begin."""


@gpu_rule(FFT, RealFFT, InverseRealFFT)
def fourier(
    op: Transform, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The passes of all axes, one after the other."""
    (x,), (result,) = operands, results
    if not size(result.shape):
        return GpuKernel(())
    if real_dtype(x.dtype) != real_dtype(result.dtype) or dt.is_half(x.dtype):
        return None
    steps = _axis_transforms(op, x)
    if steps is None:
        return None
    return _kernel(steps, x, result)


def _axis_transforms(op: Transform, x: DeviceArray) -> list[AxisTransform] | None:
    """The transforms along each axis, in order; None where the host must transform."""
    shape, dtype, is_real = x.shape, real_dtype(x.dtype), x.dtype.kind != "c"
    pairs = list(zip(op.axes, op.sizes, strict=True))
    is_inverse = isinstance(op, InverseRealFFT) or (isinstance(op, FFT) and op.inverse)
    order = pairs if isinstance(op, InverseRealFFT) else pairs[::-1]
    found = list[AxisTransform]()
    for number, (axis, points) in enumerate(order):
        last = number == len(order) - 1
        given = Points.REAL if number == 0 and is_real else Points.COMPLEX
        made, length = Points.COMPLEX, points
        if isinstance(op, RealFFT) and number == 0:
            made, length = Points.HALF, points // 2 + 1
        if isinstance(op, InverseRealFFT) and last:
            if given is Points.REAL:
                return None
            given, made = Points.HALF, Points.REAL
        lines, inner = size(shape[:axis]), size(shape[axis + 1 :])
        if radices(points) is None or points >= MOST_POINTS:
            return None
        if lines * inner * max(points, shape[axis]) >= MOST_ELEMENTS:
            return None
        scale = _scale(op, is_inverse) if last else None
        sign = 1 if is_inverse else -1
        found.append(
            AxisTransform(
                dtype, points, sign, lines, inner, given, shape[axis], made, length, scale
            )
        )
        shape = replace_size(shape, axis, length)
    return found


def _scale(op: Transform, is_inverse: bool) -> float | None:
    """What the norm multiplies the result by."""
    points = math.prod(op.sizes)
    if op.norm == "ortho":
        return 1 / math.sqrt(points)
    return 1 / points if is_inverse == (op.norm == "backward") else None


def _kernel(steps: Sequence[AxisTransform], x: DeviceArray, result: DeviceArray) -> GpuKernel:
    """The launches, between places that alternate; the last of them writes the result."""
    item = complex_dtype(result.dtype).itemsize
    largest = max(one.lines * one.inner * max(one.points, one.made_length) for one in steps)
    half = -(-largest * item // ALIGNMENT) * ALIGNMENT
    halves = PassPlace(2, 0), PassPlace(2, half)
    launches, scratch = list[Launch](), 0
    at = PassPlace(0, 0)
    if not x.contiguous:
        at = PassPlace(2, 2 * half)
        strides = contiguous_strides(x.shape, x.dtype.itemsize)
        block = CopyBlock(0, 0, x.shape, x.strides, at.start, strides)
        copied = copy_launch(block, x.dtype.itemsize, at.number)
        launches += [copied] if copied is not None else []
        scratch = at.start + size(x.shape) * x.dtype.itemsize
    turn = 0
    for number, one in enumerate(steps):
        ways = _ways(one)
        places = [at]
        for k in range(len(ways)):
            if number == len(steps) - 1 and k == len(ways) - 1:
                places.append(PassPlace(1, 0))
                continue
            places.append(halves[turn])
            scratch = max(scratch, halves[turn].start + half)
            turn = 1 - turn
        for way, *ends in zip(ways, places, places[1:], strict=False):
            launches.append(way(*ends))
        at = places[-1]
    return GpuKernel(tuple(launches), scratch)


Way = Callable[[PassPlace, PassPlace], Launch]
"""Makes a launch, from where it reads to where it writes."""


def _ways(one: AxisTransform) -> list[Way]:
    """How a transform along an axis is computed: at once, in two steps, or pass after pass."""
    kinds, lengths = (one.given, one.made), (one.given_length, one.made_length)
    lines = one.lines * one.inner
    inner = one.inner, one.inner
    dtype, sign = one.dtype, one.sign
    whole = LineTransform(dtype, one.points, sign, kinds, lines, inner, lengths, one.scale)
    if fits_block(whole):
        return [partial(line_launch, whole)]
    cut = _cut(one)
    if cut is None:
        return pass_launches(one)
    first, second = cut
    inward, outward = (one.given, Points.COMPLEX), (Points.COMPLEX, one.made)
    inner, lengths = (second, second), (first, first)
    columns = LineTransform(
        dtype, first, sign, inward, lines * second, inner, lengths, None, one.points
    )
    inner, lengths = (1, first), (second, second)
    rows = LineTransform(dtype, second, sign, outward, lines * first, inner, lengths, one.scale)
    return [partial(line_launch, columns), partial(line_launch, rows)]


def _cut(one: AxisTransform) -> tuple[int, int] | None:
    """A length as the product of two, whose lines fit a block; None where it is not that easy."""
    is_whole = one.given is not Points.HALF and one.made is Points.COMPLEX
    if one.inner > 1 or not is_whole or one.given_length != one.points:
        return None
    lengths = range(math.isqrt(one.points), RADIX, -1)
    first = next((n for n in lengths if one.points % n == 0), 0)
    return (first, one.points // first) if first and one.points // first <= MOST_CUT else None
