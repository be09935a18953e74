"""Ops whose value is their operand: cotangents and tangents pass through unchanged."""

from __future__ import annotations

from tawny.array import Array
from tawny.autodiff.rules.registry import forward, reverse
from tawny.ops.delay import LazyPrint
from tawny.ops.differentiation import Again, Argument


@reverse(Argument)
def _(op: Argument, cotangent: Array, y: Array, x: Array) -> Array:
    return cotangent


@reverse(Again)
def _(op: Again, cotangent: Array, y: Array, x: Array, after: Array) -> tuple[Array, None]:
    return cotangent, None


@reverse(LazyPrint)
def _(op: LazyPrint, cotangent: Array, y: Array, x: Array) -> Array:
    return cotangent


@forward(LazyPrint)
def _(op: LazyPrint, tangents: tuple[Array | None, ...], y: Array, x: Array) -> Array | None:
    """Derivatives are not printed."""
    (tangent,) = tangents
    return tangent
