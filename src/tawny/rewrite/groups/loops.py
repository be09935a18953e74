"""Whether the loops of one unit can run what another makes for it.

A unit runs over one *space*: the sizes other than 1 of its largest array.  A value of it spans the
whole space, or it comes after a reduction and spans what that leaves (a *row* value).  All
reductions of a unit fold the same axes.  Values after a reduction need these to be the last axes,
so that rows are whole one after another; whole-space values after a reduction (softmax, layer
norm) also need them to be short, so that a row stays in the cache while it is swept again.
"""

from __future__ import annotations

import enum

from tawny.node import Node
from tawny.ops.movement import BroadcastTo
from tawny.rewrite.groups.tables import REDUCTION
from tawny.rewrite.groups.units import GroupUnit, UnitTable, can_sweep_again
from tawny.shape import Shape


class LoopFit(enum.Enum):
    """The way in which two units share loops."""

    NONE = "they do not"
    SAME = "both over the same space"
    WIDER = "the reader's values are rows of the maker's space"
    ROWS = "the maker's values are rows of the reader's space, after a reduction still to come"


def loop_fit(units: UnitTable, maker: GroupUnit, reader: GroupUnit) -> LoopFit:
    """How the loops of `reader` can run what `maker` makes for it."""
    if _rolls_and_folds(units, maker, reader):
        return LoopFit.NONE
    if maker.space == reader.space:
        folded = maker.folded if reader.folded is None else reader.folded
        if maker.folded is None:
            return LoopFit.SAME
        if maker.folded == folded and _rows_meet(units, maker, reader, maker.space, maker.folded):
            return LoopFit.SAME
        return LoopFit.NONE
    if maker.folded is not None:
        wider = reader.folded is None and maker.outer == reader.space
        return LoopFit.WIDER if wider else LoopFit.NONE
    fold = units.tables.row_of[maker.members[0]]
    if fold is None or fold[0] != reader.space or reader.folded not in (None, fold[1]):
        return LoopFit.NONE
    if any(units.tables.row_of[m] != fold for m in maker.members):
        return LoopFit.NONE
    return LoopFit.ROWS if _rows_meet(units, maker, reader, *fold) else LoopFit.NONE


def _rolls_and_folds(units: UnitTable, maker: GroupUnit, reader: GroupUnit) -> bool:
    """Whether a reduction would be in one group with what reads rolled arrays."""
    rolled = units.tables.rolled
    if not rolled or (maker.folded is None and reader.folded is None):
        return False
    return not (rolled.isdisjoint(maker.inputs) and rolled.isdisjoint(reader.inputs))


def _rows_meet(
    units: UnitTable, maker: GroupUnit, reader: GroupUnit, space: Shape, folded: tuple[int, ...]
) -> bool:
    """Whether row values that `maker` makes are read where the loops of `reader` have them.

    They meet row values, or are stretched along their own axes of the space.
    """
    tables = units.tables
    outer = len(space) - len(folded)
    for r in maker.results:
        if maker.folded is not None and not units.row[r]:
            continue
        for k in units.readers[r]:
            if units.of[k] is not reader:
                continue
            if folded[0] != outer or tables.kind[k] == REDUCTION:
                return False
            if units.row[k]:
                continue
            if not can_sweep_again(space, folded):
                return False
            node = tables.order[k]
            for source in node.inputs:
                if tables.base[tables.index[source]] == r and not _is_aligned(
                    tables.order[r], source, node.shape, outer
                ):
                    return False
    return True


def _is_aligned(row: Node, source: Node, shape: Shape, outer: int) -> bool:
    """Whether the axes of `row`, read as `source`, meet the first `outer` loops of `shape`."""
    path: list[Node] = []
    while source is not row:
        path.append(source)
        source = source.inputs[0]
    given = row.shape
    axes = [a for a, n in enumerate(given) if n != 1]
    for view in reversed(path):
        if type(view.op) is BroadcastTo:
            axes = [a + len(view.shape) - len(given) for a in axes]
        else:
            before = [a for a, n in enumerate(given) if n != 1]
            after = [a for a, n in enumerate(view.shape) if n != 1]
            axes = [after[before.index(a)] for a in axes]
        given = view.shape
    axes = [a + len(shape) - len(given) for a in axes]
    return axes == [a for a, n in enumerate(shape) if n != 1][:outer]


def share_loops(units: UnitTable, maker: GroupUnit, reader: GroupUnit, fit: LoopFit) -> None:
    """Give `reader` the loops that both will run in."""
    row = units.row
    if fit is LoopFit.WIDER:
        for member in reader.members:
            row[member] = True
        reader.space = maker.space
    if fit is LoopFit.ROWS:
        for member in maker.members:
            row[member] = True
        if reader.folded is None:
            fold = units.tables.row_of[maker.members[0]]
            assert fold is not None
            reader.fold(fold[1])
    elif reader.folded is None and maker.folded is not None:
        reader.fold(maker.folded)
