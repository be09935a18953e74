"""Diagonals: the slope of the elements beside them is zero."""

from __future__ import annotations

from tawny.array import Array, wrap
from tawny.autodiff.rules.indexing import added_at
from tawny.autodiff.rules.registry import reverse
from tawny.ops.diagonal import Diagonal
from tawny.ops.indexing import positions


@reverse(Diagonal)
def _(op: Diagonal, slope: Array, y: Array, x: Array) -> Array:
    rows = positions(y.shape[-1], max(-op.offset, 0))
    columns = positions(y.shape[-1], max(op.offset, 0))
    plane = (x.ndim - 2, x.ndim - 1)
    return wrap(added_at(slope.node, x.shape, plane, plane[0], (rows, columns)))
