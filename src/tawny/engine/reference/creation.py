"""Kernels of the creation and differentiation chapters."""

from __future__ import annotations

import numpy as np

from tawny.dtype import accumulation_dtype
from tawny.engine.reference.kernel import Value, cast, kernel
from tawny.node import Constant, Part, Variable
from tawny.ops.creation import Arange, Cast, Eye, Linspace
from tawny.ops.differentiation import (
    Again,
    Argument,
    Checkpoint,
    CustomForward,
    CustomReverse,
    DerivativeMarker,
    Implicit,
    StopGradient,
)
from tawny.ops.movement import BroadcastTo, Copy


@kernel(Constant, widened=False)
@kernel(Variable, widened=False)
def leaf(op: Constant | Variable) -> Value:
    """Leaves have values already; reaching this means one was not given."""
    raise ValueError(
        f"variable {op.name!r} has no value" if isinstance(op, Variable) else "no value"
    )


@kernel(Part, widened=False)
def part(op: Part, results: tuple[Value, ...]) -> Value:
    """One of several results."""
    return results[op.index]


@kernel(BroadcastTo, widened=False)
def broadcast_to(op: BroadcastTo, x: Value) -> Value:
    """A view with strides of 0."""
    return np.broadcast_to(x, op.shape)


@kernel(Cast, widened=False)
def astype(op: Cast, x: Value) -> Value:
    """A conversion as NumPy makes it; the warning about imaginary parts came at build."""
    drops = x.dtype.kind == "c" and op.dtype.kind not in "cb"
    return cast(np.real(x) if drops else x, op.dtype, copy=True)


@kernel(Copy, widened=False)
def copy(op: Copy, x: Value) -> Value:
    """Memory of its own."""
    del op
    return np.array(x)


@kernel(Arange, widened=False)
def arange(op: Arange) -> Value:
    """The first two, then the first plus multiples of their difference, as NumPy does.

    Its own function is given a last number, which cannot always tell how many there are: sums with
    a small step are rounded.
    """
    out = np.empty(op.length, op.dtype)
    out[:2] = leading = np.array(op.leading(), op.dtype)
    if op.length > 2:
        first, second = leading.astype(accumulation_dtype(op.dtype))
        out[2:] = first + np.arange(2, op.length).astype(first.dtype) * (second - first)
    return out


@kernel(Linspace)
def linspace(op: Linspace, start: Value, stop: Value) -> Value:
    """NumPy's own."""
    return np.linspace(start, stop, op.length, endpoint=op.endpoint, dtype=op.dtype)


@kernel(Eye)
def eye(op: Eye) -> Value:
    """NumPy's own."""
    return np.eye(op.rows, op.columns, op.offset, dtype=op.dtype)


@kernel(Argument, widened=False)
def _(op: Argument, x: Value) -> Value:
    del op
    return x


@kernel(StopGradient, widened=False)
def _(op: StopGradient, x: Value) -> Value:
    del op
    return x


@kernel(Again, widened=False)
def _(op: Again, x: Value, after: Value) -> Value:
    del op, after
    return x


@kernel(Checkpoint, widened=False)
@kernel(CustomForward, widened=False)
@kernel(CustomReverse, widened=False)
@kernel(Implicit, widened=False)
def _(op: DerivativeMarker, *operands: Value) -> tuple[Value, ...]:
    return operands[: op.results]
