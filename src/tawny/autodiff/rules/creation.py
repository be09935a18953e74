"""Arrays from numbers and other arrays: all of these ops are linear."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.fitting import converted, zero
from tawny.autodiff.rules.registry import forward, reverse
from tawny.node import make
from tawny.ops import elementwise as e
from tawny.ops.creation import BroadcastTo, Cast, Copy, Linspace
from tawny.ops.grids import linspace
from tawny.ops.reduction import sum

Tangents = tuple[Array | None, ...]


@reverse(BroadcastTo)
def _(op: BroadcastTo, slope: Array, y: Array, x: Array) -> Array:
    """What was repeated is summed when the slope is fitted to the operand."""
    return slope


@reverse(Cast)
def _(op: Cast, slope: Array, y: Array, x: Array) -> Array:
    """The slope is converted back when it is fitted to the operand."""
    return slope


@forward(Cast)
def _(op: Cast, tangents: Tangents, y: Array, x: Array) -> Array:
    """Of complex numbers that become real, the real part changes."""
    (tangent,) = tangents
    assert tangent is not None
    return wrap(converted(tangent.node, op.dtype))


@reverse(Copy)
def _(op: Copy, slope: Array, y: Array, x: Array) -> Array:
    return slope


@reverse(Linspace)
def _(op: Linspace, slope: Array, y: Array, start: Array, stop: Array) -> tuple[Array, Array]:
    """Each number is a mean of the ends, weighted by how near they are."""
    weights = linspace(0.0, 1.0, op.length, endpoint=op.endpoint, dtype=y.dtype)
    to_stop = e.multiply(slope, weights)
    return sum(e.subtract(slope, to_stop)), sum(to_stop)


@forward(Linspace)
def _(op: Linspace, tangents: Tangents, y: Array, start: Array, stop: Array) -> Array:
    """An end that is an integer stands still."""
    ends = tuple([zero((), y.dtype) if t is None else t.node for t in tangents])
    return wrap(make(op, ends))
