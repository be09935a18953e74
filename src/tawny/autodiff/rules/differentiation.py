"""Ops about derivatives."""

from __future__ import annotations

from tawny.array import Array
from tawny.autodiff.rules.registry import reverse
from tawny.ops.differentiation import Again, Argument


@reverse(Argument)
def _(op: Argument, slope: Array, y: Array, x: Array) -> Array:
    return slope


@reverse(Again)
def _(op: Again, slope: Array, y: Array, x: Array, after: Array) -> tuple[Array, None]:
    return slope, None
