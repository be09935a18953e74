"""Kernels of products of bfloat16, which they are given as float32."""

from __future__ import annotations

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.engine.reference.windows import convolution
from tawny.ops.half_products import ConvolutionHalves, MatmulHalves


def _unpack(b: Value) -> Value:
    """A right factor with the rows that stand side by side one below the other."""
    *stack, rows, columns, together = b.shape
    return np.swapaxes(b, -1, -2).reshape(*stack, rows * together, columns)


@kernel(MatmulHalves)
def matmul_halves(_: MatmulHalves, a: Value, b: Value) -> Value:
    """NumPy's product."""
    return np.asarray(np.matmul(a, _unpack(b)))


@kernel(ConvolutionHalves, composed=True)
def convolution_halves(op: ConvolutionHalves, x: Value, weights: Value) -> Value:
    """The convolution."""
    return convolution(op.convolution(), x, _unpack(weights))
