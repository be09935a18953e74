"""Kernels of products of bytes."""

from __future__ import annotations

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.engine.reference.windows import convolution
from tawny.ops.byte_products import ConvolutionBytes, MatmulBytes
from tawny.ops.convolution import Convolution


def _unpack(b: Value) -> Value:
    """A right factor with the rows that stand side by side one below the other, as int32."""
    *stack, rows, columns, together = b.shape
    moved = np.swapaxes(b, -1, -2).reshape(*stack, rows * together, columns)
    return moved.astype(np.int32)


@kernel(MatmulBytes)
def matmul_bytes(_: MatmulBytes, a: Value, b: Value) -> Value:
    """NumPy's product of wider integers."""
    made: Value = np.matmul(a.astype(np.int32), _unpack(b))
    return made


@kernel(ConvolutionBytes, composed=True)
def convolution_bytes(op: ConvolutionBytes, x: Value, weights: Value) -> Value:
    """The convolution of wider integers."""
    plain = Convolution(op.strides, op.padding, op.dilation, op.groups)
    return convolution(plain, x.astype(np.int32), _unpack(weights))
