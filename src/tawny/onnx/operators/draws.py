"""Operators that draw random numbers, anew in each run; not those of any other library."""

from __future__ import annotations

import tawny.numpy as np
from tawny import random
from tawny.array import Array
from tawny.dtype import FLOAT32, FLOAT64, DType
from tawny.onnx.call import NodeCall
from tawny.onnx.operators.movement import dtype_of
from tawny.onnx.table import operator


def _shape(call: NodeCall) -> tuple[int, ...]:
    if call.node.op.endswith("Like"):
        return call.array(0).shape
    return call.ints("shape")


def _dtype(call: NodeCall) -> DType:
    if call.has("dtype"):
        found: DType = dtype_of(call, "dtype")
        return found
    return call.array(0).dtype if call.node.op.endswith("Like") else FLOAT32


def _draw_dtype(dtype: DType) -> DType:
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


@operator("RandomUniform", "RandomUniformLike")
def uniform(call: NodeCall) -> Array:
    """Numbers between two others."""
    low, high, dtype = call.number("low", 0.0), call.number("high", 1.0), _dtype(call)
    draw = random.uniform(shape=_shape(call), dtype=_draw_dtype(dtype))
    return (low + (high - low) * draw).astype(dtype)


@operator("RandomNormal", "RandomNormalLike")
def normal(call: NodeCall) -> Array:
    """Normal numbers."""
    mean, scale, dtype = call.number("mean", 0.0), call.number("scale", 1.0), _dtype(call)
    draw = random.normal(shape=_shape(call), dtype=_draw_dtype(dtype))
    return (mean + scale * draw).astype(dtype)


@operator("Bernoulli")
def bernoulli(call: NodeCall) -> Array:
    """One with a probability, else zero."""
    x = call.array(0)
    dtype = dtype_of(call, "dtype") if call.has("dtype") else x.dtype
    return np.less(random.uniform(shape=x.shape, dtype=_draw_dtype(x.dtype)), x).astype(dtype)


@operator("Multinomial")
def multinomial(call: NodeCall) -> Array:
    """Places drawn with the logarithms of their probabilities given."""
    x, count = call.array(0), call.integer("sample_size", 1)
    if x.ndim != 2 or count < 1:
        call.fail(f"operand 0 has shape {x.shape}, sample_size is {count}")
    draw = random.gumbel(shape=(x.shape[0], count, x.shape[1]))
    found = np.argmax(np.expand_dims(x, 1) + draw, axis=-1)
    return found.astype(dtype_of(call, "dtype", 6))
