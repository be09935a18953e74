"""Kernels of the Fourier transforms chapter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.ops.fft import FFT, InverseRealFFT, RealFFT


@kernel(FFT)
def fft(op: FFT, x: Value) -> Any:
    """NumPy's own."""
    transform: Any = np.fft.ifftn if op.inverse else np.fft.fftn
    return transform(x, op.sizes, op.axes, op.norm)


@kernel(RealFFT)
def rfft(op: RealFFT, x: Value) -> Any:
    """NumPy's own."""
    transform: Any = np.fft.rfftn
    return transform(x, op.sizes, op.axes, op.norm)


@kernel(InverseRealFFT)
def irfft(op: InverseRealFFT, x: Value) -> Any:
    """NumPy's own."""
    transform: Any = np.fft.irfftn
    return transform(x, op.sizes, op.axes, op.norm)
