"""Tensors made of nothing, and what is known of a tensor's shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.pytorch.table import Call, cast, lowers, refuse

Sizes = Sequence[int]


def _full(value: Any, sizes: Sizes, call: Call) -> Array:
    return np.broadcast_to(cast(value, call.dtype), tuple(sizes))


@lowers("full")
def fill(call: Call, sizes: Sizes, value: Any, **options: Any) -> Array:
    """A number everywhere."""
    return _full(value, sizes, call)


@lowers("full_like")
def fill_like(call: Call, x: Array, value: Any, **options: Any) -> Array:
    """A number in the shape of a tensor."""
    return _full(value, x.shape, call)


@lowers("new_full")
def fill_new(call: Call, x: Array, sizes: Sizes, value: Any, **options: Any) -> Array:
    """A number everywhere, in the dtype of a tensor."""
    return _full(value, sizes, call)


@lowers("fill.Scalar", "fill.Tensor")
def fill_over(call: Call, x: Array, value: Any) -> Array:
    """A number in place of every element."""
    return _full(value, x.shape, call)


@lowers("scalar_tensor")
def number(call: Call, value: Any, **options: Any) -> Array:
    """A tensor of one number."""
    return cast(value, call.dtype)


@lowers("zeros", "empty.memory_format", "empty_strided", "empty_permuted")
def zeros(call: Call, sizes: Sizes, *strides: Any, **options: Any) -> Array:
    """Zeros; also where PyTorch leaves the elements open."""
    return _full(0, sizes, call)


@lowers("zeros_like", "empty_like")
def zeros_like(call: Call, x: Array, **options: Any) -> Array:
    """Zeros in the shape of a tensor."""
    return _full(0, x.shape, call)


@lowers("new_zeros", "new_empty", "new_empty_strided")
def zeros_new(call: Call, x: Array, sizes: Sizes, *strides: Any, **options: Any) -> Array:
    """Zeros in the dtype of a tensor."""
    return _full(0, sizes, call)


@lowers("ones")
def ones(call: Call, sizes: Sizes, **options: Any) -> Array:
    """Ones."""
    return _full(1, sizes, call)


@lowers("ones_like")
def ones_like(call: Call, x: Array, **options: Any) -> Array:
    """Ones in the shape of a tensor."""
    return _full(1, x.shape, call)


@lowers("new_ones")
def ones_new(call: Call, x: Array, sizes: Sizes, **options: Any) -> Array:
    """Ones in the dtype of a tensor."""
    return _full(1, sizes, call)


@lowers("arange", "arange.start", "arange.start_step")
def count(call: Call, *limits: Any, **options: Any) -> Array:
    """Numbers a step apart."""
    start, end, step = (0, *limits, 1)[:3] if len(limits) == 1 else (*limits, 1)[:3]
    refuse(any(isinstance(x, Array) for x in limits), "a length that depends on data")
    length = max(math.ceil((end - start) / step), 0)
    if call.dtype.kind in "iu":
        return np.asarray(int(start) + numpy.arange(length) * int(step), call.dtype)
    steps = numpy.arange(length, dtype=numpy.float64)
    return np.asarray((start + steps * step).astype(call.dtype))


@lowers("prims.iota")
def count_from(call: Call, length: int, *, start: int, step: int, **options: Any) -> Array:
    """Integers a step apart."""
    return np.asarray(start + numpy.arange(length) * step, call.dtype)


@lowers("eye", "eye.m")
def identity(call: Call, rows: int, columns: int | None = None, **options: Any) -> Array:
    """Ones on the diagonal, zeros elsewhere."""
    return np.eye(rows, columns, dtype=call.dtype)
