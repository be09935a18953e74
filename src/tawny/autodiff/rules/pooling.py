"""Pooling: an op and its gradient op are each other's transposes.

The greatest element of a window is taken for the only one: where several are equal, the first in
row-major order has the whole cotangent.
"""

from __future__ import annotations

from tawny.array import Array
from tawny.autodiff.rules.registry import forward, reverse
from tawny.operator import emit
from tawny.ops.pooling import (
    AvgPool,
    AvgPoolGradient,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Pooling,
    Upsampling,
    UpsamplingGradient,
)

Tangents = tuple[Array | None, ...]


def _gradient(op: Pooling) -> MaxPoolGradient:
    return MaxPoolGradient(op.window, op.strides, op.padding)


def _select(op: Pooling) -> MaxPoolSelect:
    return MaxPoolSelect(op.window, op.strides, op.padding)


@reverse(MaxPool)
def _(op: MaxPool, cotangent: Array, y: Array, x: Array) -> Array:
    return emit(_gradient(op), x, cotangent)


@forward(MaxPool)
def _(op: MaxPool, tangents: Tangents, y: Array, x: Array) -> Array:
    (tangent,) = tangents
    assert tangent is not None
    return emit(_select(op), x, tangent)


@reverse(MaxPoolGradient)
def _(
    op: MaxPoolGradient, cotangent: Array, y: Array, x: Array, gradient: Array
) -> tuple[None, Array]:
    """Where the maxima are does not change by a little change of `x`."""
    return None, emit(_select(op), x, cotangent)


@reverse(MaxPoolSelect)
def _(
    op: MaxPoolSelect, cotangent: Array, y: Array, x: Array, choices: Array
) -> tuple[None, Array]:
    """Where the maxima are does not change by a little change of `x`."""
    return None, emit(_gradient(op), x, cotangent)


@reverse(AvgPool)
def _(op: AvgPool, cotangent: Array, y: Array, x: Array) -> Array:
    return emit(AvgPoolGradient(op.window, op.strides, op.padding, x.shape[1:-1]), cotangent)


@reverse(AvgPoolGradient)
def _(op: AvgPoolGradient, cotangent: Array, y: Array, gradient: Array) -> Array:
    return emit(AvgPool(op.window, op.strides, op.padding), cotangent)


@reverse(Upsampling)
def _(op: Upsampling, cotangent: Array, y: Array, x: Array) -> Array:
    return emit(UpsamplingGradient(op.factors), cotangent)


@reverse(UpsamplingGradient)
def _(op: UpsamplingGradient, cotangent: Array, y: Array, x: Array) -> Array:
    return emit(Upsampling(op.factors), cotangent)
