"""Kernels of the Fourier transforms chapter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel, kernel_into
from tawny.engine.reference.workspace import transform_bytes
from tawny.ops.fft import FFT, InverseRealFFT, RealFFT, Transform


@kernel(FFT, workspace=transform_bytes)
def fft(op: FFT, x: Value, out: Value | None = None) -> Any:
    """NumPy's own."""
    transform: Any = np.fft.ifftn if op.inverse else np.fft.fftn
    return transform(x, op.sizes, op.axes, op.norm, out=out)


@kernel(RealFFT, workspace=transform_bytes)
def rfft(op: RealFFT, x: Value, out: Value | None = None) -> Any:
    """NumPy's own."""
    transform: Any = np.fft.rfftn
    return transform(x, op.sizes, op.axes, op.norm, out=out)


@kernel(InverseRealFFT, workspace=transform_bytes)
def irfft(op: InverseRealFFT, x: Value, out: Value | None = None) -> Any:
    """NumPy's own, which leaves memory as it was where an axis has nothing to be transformed."""
    if any(x.shape[axis] == 0 for axis in op.axes):
        result = np.empty(op.infer_shape(x.shape), op.infer_dtype(x.dtype)) if out is None else out
        result.fill(0)
        return result
    transform: Any = np.fft.irfftn
    return transform(x, op.sizes, op.axes, op.norm, out=out)


@kernel_into(FFT)
def fft_into(op: FFT, x: Value, out: Value) -> None:
    """All transforms of axes that keep their sizes are written to the same place."""
    _transform_into(fft, op, x, out, _keeps_sizes(op, x))


@kernel_into(RealFFT)
def rfft_into(op: RealFFT, x: Value, out: Value) -> None:
    """Written to the place where all axes keep their sizes."""
    _transform_into(rfft, op, x, out, _keeps_sizes(op, x))


@kernel_into(InverseRealFFT)
def irfft_into(op: InverseRealFFT, x: Value, out: Value) -> None:
    """The last transform is written to the place."""
    _transform_into(irfft, op, x, out, True)


def _keeps_sizes(op: Transform, x: Value) -> bool:
    """Whether there is one axis, or all have the sizes they are transformed with."""
    return len(op.axes) == 1 or all(
        x.shape[axis] == n for axis, n in zip(op.axes, op.sizes, strict=True)
    )


def _transform_into(transform: Any, op: Transform, x: Value, out: Value, fits: bool) -> None:
    """Write a transform to a place, which NumPy can do for numbers of 32 and 64 bits."""
    if fits and out.dtype.char in "fdFD" and x.dtype.char in "fdFD":
        transform(op, x, out)
    else:
        np.copyto(out, transform(op, x))
