"""Units: the groups in the making, what they read and make, and how two become one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, final

from tawny.rewrite.groups.tables import NodeTables
from tawny.shape import Shape

LONGEST_ROW: Final = 2**16
"""Elements of a row that is swept several times."""


@final
class GroupUnit:
    """A group in the making: nodes by place, and the loops they run in."""

    __slots__ = (
        "folded",
        "inputs",
        "members",
        "merged_into",
        "outer",
        "position",
        "refused_readers",
        "result_bytes",
        "results",
        "space",
    )

    def __init__(self, at: int, space: Shape) -> None:
        self.members = [at]
        self.position = at
        """The place in the order where it runs: behind all it reads, before all that read it."""
        self.space = space
        self.folded: tuple[int, ...] | None = None
        """Axes of the space that its reductions fold."""
        self.outer: Shape | None = None
        """The space without them, if they are the last ones: what row values span."""
        self.inputs: dict[int, int] = {}
        """The values it reads, and how often."""
        self.results: list[int] = []
        """Members that are read outside or asked for."""
        self.result_bytes = 0
        """Bytes of the results."""
        self.refused_readers: tuple[GroupUnit, ...] = ()
        """Readers that it was not united with for the sake of memory."""
        self.merged_into: GroupUnit | None = None
        """The unit it has become a part of."""

    def fold(self, axes: tuple[int, ...]) -> None:
        """Note which axes the reductions fold."""
        kept = len(self.space) - len(axes)
        self.folded = axes
        self.outer = self.space[:kept] if axes[0] == kept else None


def can_sweep_again(space: Shape, folded: tuple[int, ...]) -> bool:
    """Whether rows of the folded axes, the last ones, are short enough to be swept again."""
    return prod(space[-len(folded) :]) <= LONGEST_ROW


class UnitTable:
    """The unit of each place, and its readers."""

    def __init__(self, tables: NodeTables) -> None:
        count = len(tables.order)
        self.tables: Final = tables
        self.of: Final[list[GroupUnit | None]] = [None] * count
        self.row: Final = [False] * count
        """Values that come after a reduction and span what it leaves."""
        self.readers: Final[list[list[int]]] = [[] for _ in range(count)]
        """The members of units that read a value."""
        self.alone: Final = [False] * count
        """Values that are read by what runs alone, or through a view that is no free one."""
        self.result: Final = [False] * count
        """Members of units that are results."""

    def member(self, place: int) -> GroupUnit:
        """The unit of a place that has one."""
        unit = self.of[place]
        assert unit is not None
        return unit

    def is_read_by_others(self, value: int, units: Sequence[GroupUnit]) -> bool:
        """Whether anything but some units reads a value."""
        if self.alone[value]:
            return True
        of = self.of
        for k in self.readers[value]:  # noqa: SIM110  (faster than a generator)
            if of[k] not in units:
                return True
        return False

    def is_read_inside(self, value: int, units: Sequence[GroupUnit]) -> bool:
        """Whether one of some units reads a value."""
        of = self.of
        for k in self.readers[value]:  # noqa: SIM110
            if of[k] in units:
                return True
        return False

    def is_read_only_after(self, maker: GroupUnit, reader: GroupUnit) -> bool:
        """Whether all other readers of what `maker` makes read what `reader` makes too."""
        of, readers = self.of, self.readers
        after: set[GroupUnit | None] | None = None
        for r in maker.results:
            if self.alone[r]:
                return False
            for k in readers[r]:
                other = of[k]
                if other is reader or other is maker:
                    continue
                if after is None:
                    after = {of[k] for made in reader.results for k in readers[made]}
                if other not in after:
                    return False
        return True

    def begin(self, i: int) -> GroupUnit:
        """A unit of one node."""
        tables = self.tables
        unit = GroupUnit(i, tables.space[i])
        axes = tables.folded[i]
        if axes is not None:
            self.row[i] = True
            unit.fold(axes)
        self.enter(i, unit)
        unit.results.append(i)
        unit.result_bytes = tables.bytes[i]
        self.result[i] = True
        return unit

    def enter(self, i: int, unit: GroupUnit) -> None:
        """Note what node `i`, a member of the unit, reads."""
        readers, inputs = self.readers, unit.inputs
        self.of[i] = unit
        for b in self.tables.sources[i]:
            inputs[b] = inputs.get(b, 0) + 1
            readers[b].append(i)

    def reconsider(self, unit: GroupUnit) -> None:
        """Note anew what a unit reads and makes, once it has other members."""
        tables = self.tables
        unit.results = [i for i in unit.members if self.result[i]]
        unit.result_bytes = sum([tables.bytes[r] for r in unit.results])
        unit.inputs = {}
        for i in unit.members:
            for b in tables.sources[i]:
                if self.of[b] is not unit:
                    unit.inputs[b] = unit.inputs.get(b, 0) + 1

    def unite(self, maker: GroupUnit, reader: GroupUnit, at: int) -> GroupUnit:
        """One unit of two; its loops are those of the reader."""
        large, small = reader, maker
        if len(maker.members) > len(reader.members):
            large, small = maker, reader
        large.space, large.folded, large.outer = reader.space, reader.folded, reader.outer
        for member in small.members:
            self.of[member] = large
        large.members += small.members
        inputs = large.inputs
        for b, count in small.inputs.items():
            inputs[b] = inputs.get(b, 0) + count
        results, made, bytes = reader.results, reader.result_bytes, self.tables.bytes
        for r in maker.results:
            inputs.pop(r, None)
            if self.tables.output[r] or self.is_read_by_others(r, (large,)):
                results.append(r)
                made += bytes[r]
            else:
                self.result[r] = False
        large.results, large.result_bytes = results, made
        if small.refused_readers:
            large.refused_readers = (*large.refused_readers, *small.refused_readers)
        large.position = at
        small.merged_into = large
        return large
