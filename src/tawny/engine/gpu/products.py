"""Matrix products, convolutions and einsums as contractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from tawny import dtype as dt
from tawny.dtype import DType
from tawny.engine.gpu.kernels.contraction import (
    ColumnAxis,
    Contraction,
    DepthAxis,
    Ending,
    RowAxis,
    StackAxis,
    Window,
    contraction_launch,
)
from tawny.engine.gpu.kernels.tensor_product import tensor_launches
from tawny.engine.gpu.launch import DeviceArray, GpuKernel, Launch
from tawny.engine.gpu.table import gpu_rule
from tawny.engine.gpu.target import KernelTarget
from tawny.engine.llvm.scalar.expressions import is_supported
from tawny.op import ELEMENTWISE, Op
from tawny.ops.convolution import (
    Convolution,
    ConvolutionInputGradient,
    ConvolutionKernelGradient,
    ConvolutionOp,
)
from tawny.ops.einsum import Einsum
from tawny.ops.fused_products import (
    PLAIN,
    Epilogue,
    FusedProduct,
    TransposedMatmul,
    exchanged_axes,
    transposes,
)
from tawny.ops.linalg import Matmul
from tawny.shape import Shape, broadcast_strides


def _kernel(
    found: Contraction,
    operands: Sequence[DeviceArray],
    result: DeviceArray,
    target: KernelTarget,
) -> GpuKernel | None:
    """The kernel of a contraction of operands of the result's dtype."""
    return _kernels([found], operands, result, target)


def _kernels(
    contractions: Sequence[Contraction],
    operands: Sequence[DeviceArray],
    result: DeviceArray,
    target: KernelTarget,
    swapped: bool = False,
) -> GpuKernel | None:
    """The kernel of contractions that each compute a part of the result, one after the other.

    Where it is `swapped`, the second operand is the left one.
    """
    if any(m.dtype != result.dtype for m in operands):
        return None
    launches, scratch = list[Launch](), 0
    for found in contractions:
        made = _launches(found, operands[::-1] if swapped else operands, result.dtype, target)
        launches += made[0]
        scratch = max(scratch, made[1])
    if swapped:
        order = {0: 1, 1: 0}
        launches = [
            launch._replace(places=tuple([order.get(p, p) for p in launch.places]))
            for launch in launches
        ]
    return GpuKernel(tuple(launches), scratch)


def _launches(
    found: Contraction, operands: Sequence[DeviceArray], dtype: DType, target: KernelTarget
) -> tuple[tuple[Launch, ...], int]:
    """The launches of a contraction, and their bytes of scratch memory."""
    number, depth = len(operands), math.prod([axis.size for axis in found.depth])
    is_worth = depth >= LEAST_DEPTH or target.precision is not None
    if target.has_tensor_cores and dtype == dt.FLOAT32 and is_worth:
        aligned = [m.aligned for m in operands]
        made = tensor_launches(found, aligned, target.precision, number)
        if made is not None:
            return made
    launch = contraction_launch(found, dtype, number)
    return () if launch is None else (launch,), 0


LEAST_DEPTH: Final = 8
"""The depth from which tensor cores are used for float32: they add up as many products at once."""


def _with_epilogue(
    contraction: Callable[[DeviceArray], Contraction],
    epilogue: Epilogue,
    operands: Sequence[DeviceArray],
    result: DeviceArray,
    target: KernelTarget,
) -> GpuKernel | None:
    """The kernel of a contraction and its epilogue; `contraction` tells it by its result."""
    endings: list[Ending] = []

    def read(name: str, operand: int, shape: Shape, strides: Sequence[int], start: int = 0) -> None:
        wide = broadcast_strides(shape, strides, result.shape)
        seen = contraction(DeviceArray(result.shape, wide, result.dtype))
        steps = [axis.c for axes in (seen.stack, seen.rows, seen.columns) for axis in axes]
        endings.append(Ending(ELEMENTWISE[name], operand, start, tuple(steps)))

    if epilogue.bias:
        shape, strides = operands[2].shape, operands[2].strides
        if epilogue.scaled:
            read("multiply", 2, shape[1:], strides[1:], strides[0])
            shape, strides = shape[1:], strides[1:]
        read("add", 2, shape, strides)
    if epilogue.residual:
        read("add", len(operands) - 1, operands[-1].shape, operands[-1].strides)
    if (last := epilogue.activation.op) is not None:
        endings.append(Ending(last))
    dtype = result.dtype
    if not all(is_supported(e.op, (dtype,) * (1 + (e.operand is not None))) for e in endings):
        return None
    whole = contraction(result)._replace(endings=tuple(endings))
    return _kernel(whole, operands, result, target)


@gpu_rule(Matmul, TransposedMatmul, Convolution, FusedProduct, products=True)
def product(
    op: Op,
    operands: Sequence[DeviceArray],
    results: Sequence[DeviceArray],
    target: KernelTarget,
) -> GpuKernel | None:
    """A product of matrices, or a stack of them, or a convolution, with its tail."""
    epilogue = PLAIN
    if isinstance(op, FusedProduct):
        if op.body is not None:
            return None
        epilogue, op = op.epilogue, op.product
    a, b = operands[:2]
    if isinstance(op, Convolution):
        contraction = partial(windows_times_kernel, op, a, b)
    elif isinstance(op, (Matmul, TransposedMatmul)):
        transpose_a, transpose_b = transposes(op)
        left = _exchange_axes(a) if transpose_a else a
        right = _exchange_axes(b) if transpose_b else b
        contraction = partial(matrices, left, right)
    else:
        return None
    return _with_epilogue(contraction, epilogue, operands, results[0], target)


def _exchange_axes(matrix: DeviceArray) -> DeviceArray:
    """A matrix, or a stack of them, with its last two axes exchanged."""
    shape, strides = exchanged_axes(matrix.shape), exchanged_axes(matrix.strides)
    return DeviceArray(shape, strides, matrix.dtype)


def matrices(a: DeviceArray, b: DeviceArray, result: DeviceArray) -> Contraction:
    """A product as NumPy's `matmul` takes its operands."""
    left, right = len(a.shape) > 1, len(b.shape) > 1
    inner = left + right
    whole = result.shape[: len(result.shape) - inner]
    row = (
        RowAxis(a.shape[-2], a.strides[-2], result.strides[-1 - right])
        if left
        else RowAxis(1, 0, 0)
    )
    column = (
        ColumnAxis(b.shape[-1], b.strides[-1], result.strides[-1]) if right else ColumnAxis(1, 0, 0)
    )
    depth = DepthAxis(a.shape[-1], a.strides[-1], b.strides[-2] if right else b.strides[-1])
    stack = zip(
        whole,
        _stack_steps(a, 2 if left else 1, len(whole)),
        _stack_steps(b, 2 if right else 1, len(whole)),
        result.strides,
        strict=False,
    )
    return Contraction(tuple([StackAxis(*s) for s in stack]), (row,), (column,), (depth,))


def _stack_steps(operand: DeviceArray, inner: int, rank: int) -> list[int]:
    """The steps of an operand along the axes of a stack; 0 along those it is repeated on."""
    sizes, steps = operand.shape[:-inner], operand.strides[:-inner]
    own = [0 if n == 1 else s for n, s in zip(sizes, steps, strict=True)]
    return [0] * (rank - len(own)) + own


def windows_times_kernel(
    op: ConvolutionOp, x: DeviceArray, kernel: DeviceArray, result: DeviceArray
) -> Contraction:
    """A convolution: a product for each group."""
    spatial, channels = range(len(op.strides)), kernel.shape[-2]
    outputs = kernel.shape[-1] // op.groups
    group = StackAxis(
        op.groups,
        channels * x.strides[-1],
        outputs * kernel.strides[-1],
        outputs * result.strides[-1],
    )
    rows = [RowAxis(x.shape[0], x.strides[0], result.strides[0])]
    rows += [RowAxis(result.shape[i + 1], 0, result.strides[i + 1]) for i in spatial]
    depth = [DepthAxis(kernel.shape[i], 0, kernel.strides[i]) for i in spatial]
    depth.append(DepthAxis(channels, x.strides[-1], kernel.strides[-2]))
    windows = [
        Window(
            i + 1,
            i,
            -op.padding[i][0],
            op.strides[i],
            op.dilation[i],
            x.shape[i + 1],
            x.strides[i + 1],
        )
        for i in spatial
    ]
    column = ColumnAxis(outputs, kernel.strides[-1], result.strides[-1])
    return Contraction((group,), tuple(rows), (column,), tuple(depth), tuple(windows))


@gpu_rule(ConvolutionKernelGradient, products=True)
def kernel_gradient(
    op: ConvolutionKernelGradient,
    operands: Sequence[DeviceArray],
    results: Sequence[DeviceArray],
    target: KernelTarget,
) -> GpuKernel | None:
    """Windows of the input times the slopes, summed over all positions."""
    (x, slope), (result,) = operands, results
    spatial, channels = range(len(op.strides)), result.shape[-2]
    outputs = result.shape[-1] // op.groups
    group = StackAxis(
        op.groups,
        channels * x.strides[-1],
        outputs * slope.strides[-1],
        outputs * result.strides[-1],
    )
    rows = [RowAxis(result.shape[i], 0, result.strides[i]) for i in spatial]
    rows.append(RowAxis(channels, x.strides[-1], result.strides[-2]))
    depth = [DepthAxis(x.shape[0], x.strides[0], slope.strides[0])]
    depth += [DepthAxis(slope.shape[i + 1], 0, slope.strides[i + 1]) for i in spatial]
    windows = [
        Window(
            i,
            i + 1,
            -op.padding[i][0],
            op.dilation[i],
            op.strides[i],
            x.shape[i + 1],
            x.strides[i + 1],
        )
        for i in spatial
    ]
    column = ColumnAxis(outputs, slope.strides[-1], result.strides[-1])
    found = Contraction((group,), tuple(rows), (column,), tuple(depth), tuple(windows))
    return _kernel(found, operands, result, target)


@gpu_rule(ConvolutionInputGradient, products=True)
def input_gradient(
    op: ConvolutionInputGradient,
    operands: Sequence[DeviceArray],
    results: Sequence[DeviceArray],
    target: KernelTarget,
) -> GpuKernel | None:
    """Windows of the slopes times the kernel turned around: one product for each residue."""
    (kernel, slope), (result,) = operands, results
    return _kernels(residues(op, kernel, slope, result), operands, result, target, swapped=True)


def residues(
    op: ConvolutionInputGradient, kernel: DeviceArray, slope: DeviceArray, result: DeviceArray
) -> list[Contraction]:
    """The gradient of a convolution's input, for each residue of places by the strides."""
    channels, outputs = kernel.shape[-2], kernel.shape[-1] // op.groups
    group = StackAxis(
        op.groups,
        outputs * slope.strides[-1],
        outputs * kernel.strides[-1],
        channels * result.strides[-1],
    )
    column = ColumnAxis(channels, kernel.strides[-2], result.strides[-1])
    found: list[Contraction] = []
    spatial = range(len(op.strides))
    for residue in itertools.product(*[range(stride) for stride in op.strides]):
        seen = [
            _Residue.of(op, i, r, kernel.shape[i], result.shape[i + 1])
            for i, r in zip(spatial, residue, strict=True)
        ]
        rows = [RowAxis(slope.shape[0], slope.strides[0], result.strides[0])]
        rows += [RowAxis(seen[i].places, 0, op.strides[i] * result.strides[i + 1]) for i in spatial]
        depth = [DepthAxis(seen[i].taps, 0, seen[i].period * kernel.strides[i]) for i in spatial]
        depth.append(DepthAxis(outputs, slope.strides[-1], kernel.strides[-1]))
        windows = [
            Window(
                i + 1, i, seen[i].origin, 1, seen[i].step, slope.shape[i + 1], slope.strides[i + 1]
            )
            for i in spatial
        ]
        b_start = sum(seen[i].first * kernel.strides[i] for i in spatial)
        c_start = sum(residue[i] * result.strides[i + 1] for i in spatial)
        found.append(
            Contraction(
                (group,), tuple(rows), (column,), tuple(depth), tuple(windows), b_start, c_start
            )
        )
    return found


class _Residue(NamedTuple):
    """Places `residue`, `residue + stride` ... of an axis, and the taps and positions they see.

    Place q saw tap t of window p where q + padding = p * stride + t * dilation.
    """

    places: int
    taps: int
    first: int
    """The first tap they see; every `period`th after it is seen too."""
    period: int
    origin: int
    """The position that the first place sees by the first tap, and how far the next tap's is."""
    step: int

    @staticmethod
    def of(op: ConvolutionInputGradient, i: int, residue: int, taps: int, places: int) -> _Residue:
        stride, dilation, before = op.strides[i], op.dilation[i], op.padding[i][0]
        common = math.gcd(stride, dilation)
        seen = [t for t in range(taps) if (residue + before - t * dilation) % stride == 0]
        first = seen[0] if seen else 0
        return _Residue(
            max(-(-(places - residue) // stride), 0),
            len(seen),
            first,
            stride // common,
            (residue + before - first * dilation) // stride,
            -(dilation // common),
        )


@gpu_rule(Einsum, products=True)
def einsum(
    op: Einsum,
    operands: Sequence[DeviceArray],
    results: Sequence[DeviceArray],
    target: KernelTarget,
) -> GpuKernel | None:
    """A contraction of two operands, whose axes of size 1 stretch."""
    (result,) = results
    if len(operands) != 2:
        return None
    terms, _, out = op.subscripts.partition("->")
    letters = terms.split(",")
    if any(len(set(term)) != len(term) for term in (*letters, out)):
        return None
    sizes: dict[str, int] = {}
    for term, m in zip(letters, operands, strict=True):
        sizes |= {x: n for x, n in zip(term, m.shape, strict=True) if n != 1 or x not in sizes}
    a, b, c = (
        {x: s if n == sizes.get(x) else 0 for x, n, s in zip(term, m.shape, m.strides, strict=True)}
        for term, m in zip((*letters, out), (*operands, result), strict=True)
    )
    if any(letter not in sizes for letter in out) or set(a) ^ set(b) > set(out):
        return None
    if any(letter not in b and letter not in c for letter in a) or any(
        letter not in a and letter not in c for letter in b
    ):
        return None
    stack = [StackAxis(sizes[x], a[x], b[x], c[x]) for x in out if x in a and x in b]
    rows = [RowAxis(sizes[x], a[x], c[x]) for x in out if x not in b]
    columns = [ColumnAxis(sizes[x], b[x], c[x]) for x in out if x not in a]
    depth = [DepthAxis(sizes[x], a[x], b[x]) for x in letters[0] if x in b and x not in c]
    found = Contraction(
        tuple(stack),
        tuple(rows) or (RowAxis(1, 0, 0),),
        tuple(columns) or (ColumnAxis(1, 0, 0),),
        tuple(depth) or (DepthAxis(1, 0, 0),),
    )
    return _kernel(found, operands, result, target)
