"""Fourier transforms: the matrix of one is symmetric, so a cotangent takes the same transform.

Real values, and the half that their transform is given by, are transformed back into each other;
but an element of that half that stands for its mirror image too counts twice.
"""

from __future__ import annotations

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import reverse
from tawny.node import Node, constant, make, scalar
from tawny.operator import emit
from tawny.ops import elementwise as e
from tawny.ops.fft import FFT, SWAPPED, InverseRealFFT, RealFFT, Transform
from tawny.ops.indexing import Slice
from tawny.ops.joining import Pad
from tawny.shape import Shape


@reverse(FFT)
def _(op: FFT, cotangent: Array, y: Array, x: Array) -> Array:
    return _resize(emit(op, cotangent), x.shape)


@reverse(RealFFT)
def _(op: RealFFT, cotangent: Array, y: Array, x: Array) -> Array:
    """The inverse adds the mirror images, so the elements that have one go in by half."""
    halved = e.multiply(e.conj(cotangent), _weights(op, cotangent, 0.5))
    return _resize(emit(InverseRealFFT(op.sizes, op.axes, SWAPPED[op.norm]), halved), x.shape)


@reverse(InverseRealFFT)
def _(op: InverseRealFFT, cotangent: Array, y: Array, x: Array) -> Array:
    half = e.conj(emit(RealFFT(op.sizes, op.axes, SWAPPED[op.norm]), cotangent))
    return _resize(e.multiply(half, _weights(op, half, 2.0)), x.shape)


def _weights(op: Transform, half: Array, mirrored: float) -> Array:
    """`mirrored` where an element of `half` has a mirror image; 1 at the ends that have none."""
    n, axis = op.sizes[-1], op.axes[-1]
    values = np.full(n // 2 + 1, mirrored, dt.real_dtype(half.dtype))
    values[0] = 1
    if n % 2 == 0:
        values[-1] = 1
    return wrap(constant(values.reshape(-1, *(1,) * (half.ndim - 1 - axis))))


def _resize(x: Array, shape: Shape) -> Array:
    """`x` cut or padded with zeros to `shape`: the transpose of doing the opposite."""
    node: Node = x.node
    kept = tuple(map(min, node.shape, shape))
    if kept != node.shape:
        node = make(Slice(tuple((0, n, 1) for n in kept)), (node,))
    if kept != shape:
        widths = tuple((0, n - k) for n, k in zip(shape, kept, strict=True))
        node = make(Pad(widths), (node, scalar(0, node.dtype, "fft")))
    return wrap(node)
