"""What a group can read for itself: rolled arrays, and arrays that follow from places.

Which of them will be foreseen here, before groups are chosen, so that they count as no arrays of
their own; `group_reads` makes them steps of groups once these are there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tawny.node import Node
from tawny.op import Elementwise, Op
from tawny.ops.creation import Arange, BroadcastTo, Cast, Eye, Linspace
from tawny.ops.fusion import FOLDS, nonunit
from tawny.ops.indexing import Slice
from tawny.ops.movement import Reshape, Roll
from tawny.rewrite.group_lifetime import bytes_of, is_leaf, owner
from tawny.shape import Shape, size

SOURCES: Final[frozenset[type[Op]]] = frozenset({Arange, Linspace, Eye})
"""Ops whose elements follow from their places."""

OWN: Final[frozenset[type[Op]]] = SOURCES | {Roll}

LONG_ROW: Final = 64
"""Rows of rolled arrays are so long at least: shorter ones are copied faster than they are read."""

_SIDE_BY_SIDE: Final = (BroadcastTo, Reshape, Slice)


def foreseen(order: Sequence[Node], outputs: Collection[Node]) -> frozenset[Node]:
    """The nodes of an order that all their readers are likely to read for themselves."""
    found = [n for n in order if type(n.op) in OWN and n not in outputs and not is_leaf(n)]
    if not found:
        return frozenset()
    left = set(found)
    for node in order:
        if not left.isdisjoint(node.inputs):
            left.difference_update([n for n in node.inputs if n in left and not _suits(node, n)])
    return frozenset(left)


def _suits(reader: Node, source: Node) -> bool:
    """Whether a node that was not grouped yet may read what follows from places or is rolled."""
    op = reader.op
    folds = isinstance(op, FOLDS)
    if is_leaf(reader) or not (folds or isinstance(op, (Elementwise, Cast))):
        return False
    space = nonunit(reader.inputs[0].shape if folds else reader.shape)
    if type(source.op) is not Roll:
        return all(map(is_leaf, source.inputs)) and nonunit(source.shape) == space
    return not folds and can_roll(source, space, reader.inputs)


def can_roll(roll: Node, space: Shape, inputs: Sequence[Node]) -> bool:
    """Whether loops over a space may read what is rolled where it lies.

    Its memory is no larger than that of the roll, rows are long, and nothing lies crosswise.
    """
    op, whole = roll.op, owner(roll.inputs[0])
    assert isinstance(op, Roll)
    if not is_leaf(whole) and bytes_of(whole) > bytes_of(roll):
        return False
    if not all(_lies_side_by_side(n) for n in (*inputs, roll.inputs[0])):
        return False
    if space[-1:] >= (LONG_ROW,):
        return True
    last = max([axis for axis, shift in enumerate(op.shifts) if shift], default=0)
    alike = all(nonunit(n.shape) in ((), space) for n in inputs)
    return alike and size(roll.shape[last:]) >= LONG_ROW


def _lies_side_by_side(node: Node) -> bool:
    """Whether neighbours along the last axis are neighbours in memory, or one element."""
    whole = owner(node)
    while node is not whole:
        if not isinstance(node.op, _SIDE_BY_SIDE):
            return False
        (node,) = node.inputs
    return True
