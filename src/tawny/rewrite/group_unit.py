"""Units: the groups in the making, what they read and make, and how two become one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, final

from tawny.rewrite.group_places import Places
from tawny.shape import Shape

LONGEST_ROW: Final = 2**16
"""Elements of a row that is swept several times."""


@final
class Unit:
    """A group in the making: nodes by place, and the loops they run in."""

    __slots__ = (
        "arrays",
        "at",
        "folded",
        "inputs",
        "into",
        "members",
        "outer",
        "refused",
        "results",
        "space",
        "viewed",
    )

    def __init__(self, at: int, space: Shape) -> None:
        self.members = [at]
        self.at: float = at
        """The place in the order where it runs: behind all it reads, before all that read it."""
        self.space = space
        self.folded: tuple[int, ...] | None = None
        """Axes of the space that its reductions fold."""
        self.outer: Shape | None = None
        """The space without them, if they are the last ones: what row values span."""
        self.inputs: dict[int, int] = {}
        """Owners of computed memory that it reads, and how often."""
        self.viewed: set[int] = set()
        """Those that it reads through views."""
        self.arrays: set[int] = set()
        """Values of more than one element that it reads, leaves included."""
        self.results: list[int] = []
        """Members that are read outside or asked for."""
        self.refused: list[Unit] = []
        """Readers that it was not joined to for the sake of memory."""
        self.into: Unit | None = None
        """The unit it has become a part of."""

    def fold(self, axes: tuple[int, ...]) -> None:
        """Note which axes the reductions fold."""
        kept = len(self.space) - len(axes)
        self.folded = axes
        self.outer = self.space[:kept] if axes[0] == kept else None


def swept_again(space: Shape, folded: tuple[int, ...]) -> bool:
    """Whether rows of the folded axes, the last ones, are short enough to be swept again."""
    return prod(space[-len(folded) :]) <= LONGEST_ROW


class Units:
    """Which unit each place is in, and who reads it."""

    def __init__(self, places: Places) -> None:
        count = len(places.order)
        self.places: Final = places
        self.of: Final[list[Unit | None]] = [None] * count
        self.row: Final = [False] * count
        """Values that come after a reduction and span what it leaves."""
        self.readers: Final[list[list[int]]] = [[] for _ in range(count)]
        """The members of units that read a value."""
        self.alone: Final = [False] * count
        """Values that are read by what runs alone, or through a view that is no free one."""
        self.result: Final = [False] * count
        """Members of units that are results."""

    def member(self, place: int) -> Unit:
        """The unit of a place that has one."""
        unit = self.of[place]
        assert unit is not None
        return unit

    def read_by_others(self, value: int, units: Sequence[Unit]) -> bool:
        """Whether anything but some units reads a value."""
        if self.alone[value]:
            return True
        of = self.of
        for k in self.readers[value]:
            if of[k] not in units:
                return True
        return False

    def may_wait(self, makers: Sequence[Unit], reader: Unit) -> bool:
        """Whether who else reads what `makers` make reads what `reader` makes too."""
        after: set[Unit | None] = {*makers, reader}
        known = False
        for unit in makers:
            for r in unit.results:
                if self.alone[r]:
                    return False
                for k in self.readers[r]:
                    if self.of[k] in after:
                        continue
                    if known:
                        return False
                    known = True
                    after.update([self.of[k] for r in reader.results for k in self.readers[r]])
                    if self.of[k] not in after:
                        return False
        return True

    def read_inside(self, value: int, units: Sequence[Unit]) -> bool:
        """Whether one of some units reads a value."""
        of = self.of
        return any(of[k] in units for k in self.readers[value])

    def begin(self, i: int) -> Unit:
        """A unit of one node."""
        places = self.places
        unit = Unit(i, places.space[i])
        axes = places.folded[i]
        if axes is not None:
            self.row[i] = True
            unit.fold(axes)
        self.enter(i, unit)
        unit.results.append(i)
        self.result[i] = True
        return unit

    def enter(self, i: int, unit: Unit) -> None:
        """Note what node `i`, a member of the unit, reads."""
        places, readers, inputs = self.places, self.readers, unit.inputs
        self.of[i] = unit
        for b in places.sources[i]:
            o = places.owner[b]
            if places.kind[o]:
                inputs[o] = inputs.get(o, 0) + 1
                if o != b:
                    unit.viewed.add(o)
            if places.is_array(b):
                unit.arrays.add(b)
            readers[b].append(i)

    def unite(self, maker: Unit, reader: Unit, at: float) -> Unit:
        """One unit of two; its loops are those of the reader."""
        maker_results = maker.results
        large, small = reader, maker
        if len(maker.members) > len(reader.members):
            large, small = maker, reader
        large.space, large.folded, large.outer = reader.space, reader.folded, reader.outer
        for member in small.members:
            self.of[member] = large
        large.members += small.members
        for o, count in small.inputs.items():
            large.inputs[o] = large.inputs.get(o, 0) + count
        large.viewed |= small.viewed
        large.arrays |= small.arrays
        results = reader.results
        for r in maker_results:
            large.inputs.pop(r, None)
            large.arrays.discard(r)
            if self.places.output[r] or self.read_by_others(r, (large,)):
                results.append(r)
            else:
                self.result[r] = False
        large.results = results
        large.refused += small.refused
        large.at = at
        small.into = large
        return large
