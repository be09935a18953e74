"""Kernels of the reductions chapter."""

from __future__ import annotations

import math

import numpy as np

from tawny import dtype as dt
from tawny.engine.reference.kernel import Value, cast, kernel
from tawny.ops.cumulative import CumulativeProd, CumulativeSum
from tawny.ops.reduction import (
    AllTrue,
    AnyTrue,
    ArgMax,
    ArgMin,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    Var,
)


@kernel(Sum)
def sum_(op: Sum, x: Value) -> Value:
    """NumPy's pairwise sum."""
    return np.asarray(
        np.sum(x, axis=op.axes, dtype=dt.accumulation_dtype(op.dtype), keepdims=op.keepdims)
    )


@kernel(Prod)
def prod(op: Prod, x: Value) -> Value:
    """NumPy's own."""
    return np.asarray(
        np.prod(x, axis=op.axes, dtype=dt.accumulation_dtype(op.dtype), keepdims=op.keepdims)
    )


@kernel(Mean)
def mean(op: Mean, x: Value) -> Value:
    """The sum over the count."""
    total = np.sum(x, axis=op.axes, dtype=dt.accumulation_dtype(op.dtype), keepdims=op.keepdims)
    return np.asarray(np.divide(total, math.prod(x.shape[a] for a in op.axes)))


@kernel(Var)
def var(op: Var, x: Value) -> Value:
    """Two passes: the mean, then the squared distances from it."""
    count = math.prod(x.shape[a] for a in op.axes)
    wide = cast(x, dt.accumulation_dtype(op.dtype))
    away = wide - np.divide(np.sum(wide, axis=op.axes, keepdims=True), count)
    squares = (
        np.square(away.real) + np.square(away.imag) if away.dtype.kind == "c" else np.square(away)
    )
    total = np.sum(squares, axis=op.axes, keepdims=op.keepdims)
    return np.asarray(np.divide(total, max(count - op.correction, 0.0)))


@kernel(Max)
def max_(op: Max, x: Value) -> Value:
    """NumPy's own."""
    return np.asarray(np.max(x, axis=op.axes, keepdims=op.keepdims))


@kernel(Min)
def min_(op: Min, x: Value) -> Value:
    """NumPy's own."""
    return np.asarray(np.min(x, axis=op.axes, keepdims=op.keepdims))


@kernel(AllTrue)
def all_(op: AllTrue, x: Value) -> Value:
    """NumPy's own."""
    return np.asarray(np.all(x, axis=op.axes, keepdims=op.keepdims))


@kernel(AnyTrue)
def any_(op: AnyTrue, x: Value) -> Value:
    """NumPy's own."""
    return np.asarray(np.any(x, axis=op.axes, keepdims=op.keepdims))


@kernel(LogSumExp)
def logsumexp(op: LogSumExp, x: Value) -> Value:
    """Shifted by the greatest element, unless that is infinite."""
    x = cast(x, dt.accumulation_dtype(op.dtype))
    top = np.max(x, axis=op.axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    total = np.sum(np.exp(x - shift), axis=op.axes, keepdims=True)
    found = np.asarray(np.log(total) + shift).reshape(op.infer_shape(x.shape))
    return found.astype(op.dtype, copy=False)


@kernel(ArgMax)
def argmax(op: ArgMax, x: Value) -> Value:
    """NumPy's own."""
    return np.asarray(np.argmax(x, axis=op.axis, keepdims=op.keepdims))


@kernel(ArgMin)
def argmin(op: ArgMin, x: Value) -> Value:
    """NumPy's own."""
    return np.asarray(np.argmin(x, axis=op.axis, keepdims=op.keepdims))


@kernel(CumulativeSum, widened=False)
def cumulative_sum(op: CumulativeSum, x: Value) -> Value:
    """NumPy's own."""
    return np.cumulative_sum(x, axis=op.axis, dtype=op.dtype, include_initial=op.include_initial)


@kernel(CumulativeProd, widened=False)
def cumulative_prod(op: CumulativeProd, x: Value) -> Value:
    """NumPy's own."""
    return np.cumulative_prod(x, axis=op.axis, dtype=op.dtype, include_initial=op.include_initial)
