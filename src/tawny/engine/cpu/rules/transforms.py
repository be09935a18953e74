"""Native kernels of Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tawny import dtype as dt
from tawny.engine.cpu.kernel_table import Kernel, native_on_threads
from tawny.engine.cpu.transforms.lines import TransformKind
from tawny.engine.cpu.transforms.transform import Transforms, transform_kernel
from tawny.engine.layout import Memory
from tawny.node import Node
from tawny.ops.fft import FFT, InverseRealFFT, RealFFT, Transform
from tawny.shape import size


@native_on_threads(FFT, RealFFT, InverseRealFFT)
def transform(
    node: Node, operands: Sequence[Memory], results: Sequence[Memory], threads: int
) -> Kernel | None:
    """Transforms of numbers of 32 or 64 bits, along any axes."""
    op, operand, result = node.op, operands[0], results[0]
    assert isinstance(op, Transform)
    if not op.axes or not size(operand.shape) or operand.dtype.char not in "fdFD":
        return None
    wide = dt.complex_dtype(operand.dtype)
    if result.dtype not in (wide, dt.real_dtype(wide)):
        return None
    real = operand.dtype.kind != "c"
    if isinstance(op, InverseRealFFT) and real:
        return None
    kind = TransformKind.WHOLE if real else TransformKind.COMPLEX
    inverse = op.inverse if isinstance(op, FFT) else isinstance(op, InverseRealFFT)
    if not isinstance(op, FFT):
        kind = TransformKind.HALF if isinstance(op, RealFFT) else TransformKind.REAL
    task = Transforms(kind, op.axes, op.sizes, inverse, _scale(op, inverse=inverse))
    made = transform_kernel(task, operand, result, threads)
    return None if made is None else Kernel(*made.kernel, after=made.after)


def _scale(op: Transform, *, inverse: bool) -> float:
    """What a transform without any scale is multiplied by."""
    points = math.prod(op.sizes)
    if op.norm == "ortho":
        return 1 / math.sqrt(points)
    return 1 / points if (op.norm == "backward") == inverse else 1.0
