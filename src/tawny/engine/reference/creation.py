"""Kernels of the creation chapter."""

from __future__ import annotations

import numpy as np

from tawny.engine.reference.kernel import Value, kernel
from tawny.node import Constant, Part, Variable
from tawny.ops.creation import Arange, BroadcastTo, Cast, Copy, Eye, Linspace


@kernel(Constant)
@kernel(Variable)
def leaf(op: Constant | Variable) -> Value:
    """Leaves have values already; reaching this means one was not given."""
    raise ValueError(
        f"variable {op.name!r} has no value" if isinstance(op, Variable) else "no value"
    )


@kernel(Part)
def part(op: Part, results: tuple[Value, ...]) -> Value:
    """One of several results."""
    return results[op.index]


@kernel(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Value) -> Value:
    """A view with strides of 0."""
    return np.broadcast_to(x, op.shape)


@kernel(Cast)
def astype(op: Cast, x: Value) -> Value:
    """A conversion as NumPy makes it; the warning about imaginary parts came at build."""
    drops = x.dtype.kind == "c" and op.dtype.kind not in "cb"
    return (np.real(x) if drops else x).astype(op.dtype)


@kernel(Copy)
def copy(op: Copy, x: Value) -> Value:
    """Memory of its own."""
    del op
    return np.array(x)


@kernel(Arange)
def arange(op: Arange) -> Value:
    """NumPy's own; half a step less keeps rounding from adding an element."""
    if op.length == 1:  # the step may be infinite
        return np.array([op.start], op.dtype)
    whole = isinstance(op.start, int) and isinstance(op.step, int)
    stop = op.start + op.step * (op.length if whole else op.length - 0.5)
    return (
        np.arange(op.start, stop, op.step, dtype=op.dtype) if op.length else np.empty(0, op.dtype)
    )


@kernel(Linspace)
def linspace(op: Linspace, start: Value, stop: Value) -> Value:
    """NumPy's own."""
    return np.linspace(start, stop, op.length, endpoint=op.endpoint, dtype=op.dtype)


@kernel(Eye)
def eye(op: Eye) -> Value:
    """NumPy's own."""
    return np.eye(op.rows, op.columns, op.offset, dtype=op.dtype)
