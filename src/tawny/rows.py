"""Rows: some of an array, one after the other, which lie together in memory.

The rows of an array lie along its first axis of more than one element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tawny.shape import Shape, replace_size

if TYPE_CHECKING:
    from tawny.op import Op

Rows = tuple[int, int]
"""The first of some rows, and the one after the last."""


def row_axis(shape: Shape) -> int:
    """The axis of the rows: the first of another size than 1, or the one past the last."""
    for axis, n in enumerate(shape):
        if n != 1:
            return axis
    return len(shape)


def row_count(shape: Shape) -> int:
    """How many rows there are."""
    axis = row_axis(shape)
    return shape[axis] if axis < len(shape) else 1


def shape_of_rows(shape: Shape, rows: Rows) -> Shape:
    """The shape of some of the rows."""
    return replace_size(shape, row_axis(shape), rows[1] - rows[0])


def broadcast_rows(given: Shape, shape: Shape, rows: Rows) -> Rows | None:
    """The rows of an operand that is spread to `shape`; None if it has no rows of its own."""
    axis = row_axis(shape) - (len(shape) - len(given))
    return rows if axis >= 0 and given[axis] == row_count(shape) else None


class RowSlice(NamedTuple):
    """A computation of some rows of a result: see `Op.slice_rows`."""

    op: Op
    reads: tuple[Rows | None, ...]
    """Of each operand, the rows that are read; None for all of it."""
    rows: Rows
    """The rows that are computed: those that were asked for, and maybe some around."""
