"""Arrays from numbers and other arrays: all of these ops are linear."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.rules.registry import forward, reverse
from tawny.autodiff.unbroadcast import convert, zeros
from tawny.node import make
from tawny.numpy.grids import linspace
from tawny.ops import elementwise as e
from tawny.ops.creation import BroadcastTo, Cast, Copy, Linspace
from tawny.ops.reduction import sum

Tangents = tuple[Array | None, ...]


@reverse(BroadcastTo)
def _(op: BroadcastTo, cotangent: Array, y: Array, x: Array) -> Array:
    """What was repeated is summed by `unbroadcast`."""
    return cotangent


@reverse(Cast)
def _(op: Cast, cotangent: Array, y: Array, x: Array) -> Array:
    """The cotangent is converted back by `unbroadcast`."""
    return cotangent


@forward(Cast)
def _(op: Cast, tangents: Tangents, y: Array, x: Array) -> Array:
    """Of complex numbers that become real, the real part changes."""
    (tangent,) = tangents
    assert tangent is not None
    return wrap(convert(tangent.node, op.dtype))


@reverse(Copy)
def _(op: Copy, cotangent: Array, y: Array, x: Array) -> Array:
    return cotangent


@reverse(Linspace)
def _(op: Linspace, cotangent: Array, y: Array, start: Array, stop: Array) -> tuple[Array, Array]:
    """Each number is a mean of the ends, weighted by how near they are."""
    weights = linspace(0.0, 1.0, op.length, endpoint=op.endpoint, dtype=y.dtype)
    to_stop = e.multiply(cotangent, weights)
    return sum(e.subtract(cotangent, to_stop)), sum(to_stop)


@forward(Linspace)
def _(op: Linspace, tangents: Tangents, y: Array, start: Array, stop: Array) -> Array:
    """An end that is an integer stands still."""
    ends = tuple([zeros((), y.dtype) if t is None else t.node for t in tangents])
    return wrap(make(op, ends))
