"""Which nodes run together: units of an order, chosen so that the units form no cycle.

Nodes are placed one by one, readers first.  A node joins the units that read it, making one of
them, when it fits their loops (`group_loops`), the bounds below, and memory: running both as one
must not need more bytes, whatever the order of the rest (`group_memory`).  Otherwise it begins a
unit, which is offered to its readers again when it reads something else.  At last what is left is
offered again in a good order of all units, as long as that stays good (`group_schedule`).  Where
the planner would still need more than for the nodes alone, units are taken apart (`group_relief`).

Two units become one only if every path from one to the other is direct: who else reads what the
first makes comes after the second, or the second reads nothing else that is computed.  So there is
never a cycle.

A value that is merely stretched to the space is computed outside: it would be computed again for
each row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from tawny.node import Node
from tawny.rewrite.group_loops import Fit, fit, share
from tawny.rewrite.group_memory import Memory
from tawny.rewrite.group_places import PLAIN, POINTWISE, REDUCTION, VIEW, Places
from tawny.rewrite.group_relief import relieved
from tawny.rewrite.group_schedule import LARGEST, SMALL, Planned, Schedule
from tawny.rewrite.group_unit import Unit, Units

MOST_STEPS: Final = 64
"""Ops in a group: long straight-line code compiles slowly, and gains nothing."""

MOST_INPUTS: Final = 16
"""Arrays of more than one element that a group reads."""

MOST_RESULTS: Final = 8
"""Arrays a group makes."""

MOST_REFUSED: Final = 4
"""Readers that a unit is offered to again."""


class Choice:
    """The units of an order of nodes; `sequence` has units, and nodes that run alone, in order."""

    def __init__(
        self,
        order: Sequence[Node],
        outputs: Sequence[Node],
        moment: Callable[[Node], object] | None = None,
        *,
        certain: bool = False,
    ) -> None:
        """With `certain`, only what certainly takes no more memory is united."""
        self.places = places = Places(order, outputs, moment)
        self._units = Units(places)
        self._memory = Memory(self._units)
        self._schedule: Schedule | None = None
        self._planned: Planned | None = None
        self.is_doubtful = False
        """Whether the planner may find no order as good as before what is uncertain was united."""
        self.least = 0
        """Bytes that the nodes alone need in a good order, at least; 0 if that is not known."""
        begun: list[Unit] = []
        alone: list[int] = []
        for i in range(len(order) - 1, -1, -1):
            kind = places.kind[i]
            if kind >= POINTWISE:
                if not self._joined(i):
                    begun.append(self._placed(i))
            elif kind == PLAIN:
                alone.append(i)
                for b in places.sources[i]:
                    self._units.alone[b] = True
            elif kind == VIEW:
                self._units.alone[places.base[places.reads[i][0]]] = True
        items: list[Unit | int] = [*[u for u in begun if u.into is None], *alone]
        items.sort(key=_place)
        if not certain and len(items) <= LARGEST and places.floor >= SMALL:
            items = self._scheduled(items)
        self.sequence: list[Unit | int] = []
        for item in items:
            if isinstance(item, Unit) and item.folded is not None and len(item.members) > 1:
                self.sequence += self._stretched(item)
            self.sequence.append(item)
        if not self.is_doubtful and len(items) <= LARGEST and places.floor >= SMALL:
            planned = self._planned if len(self.sequence) == len(items) else None
            self.sequence, self.least = relieved(self._units, self._memory, self.sequence, planned)

    def _scheduled(self, items: list[Unit | int]) -> list[Unit | int]:
        """Unite what else may be in a good order of the units; that order."""
        if not any(isinstance(item, Unit) and item.refused for item in items):
            return items
        self._schedule = schedule = Schedule(self._units, self._memory, items)
        for item in reversed(schedule.items):
            if isinstance(item, Unit) and item.into is None and item.refused:
                self._offered(item)
        left = [u for u in schedule.items if not isinstance(u, Unit) or u.into is None]
        left.sort(key=schedule.at.__getitem__)
        if len(left) < len(items):
            self._planned = Planned(self._units, self._memory, left)
            self.is_doubtful = not schedule.is_kept_by(self._planned)
        return left

    @property
    def result(self) -> list[bool]:
        """Whether a member of a unit is one of its results."""
        return self._units.result

    # ------------------------------------------------------------------- placing

    def _joined(self, i: int) -> bool:
        """Join a node to the one unit that reads it, if it plainly takes no more memory.

        It runs over the whole space and reads at most one thing more, which its own bytes make up
        for and which can be overwritten in its place.
        """
        units, places = self._units, self.places
        readers = units.readers[i]
        if not readers or units.alone[i] or places.kind[i] != POINTWISE:
            return False
        unit = units.of[readers[0]]
        assert unit is not None
        for k in readers:
            if units.of[k] is not unit:
                return False
        if places.space[i] != unit.space or len(unit.members) >= MOST_STEPS:
            return False
        if places.moments is not None and places.moments[i] != places.moments[readers[0]]:
            return False
        cost, free, inputs = self._memory.cost, self._memory.free, unit.inputs
        item = places.item[i]
        fresh = -1
        for b in places.sources[i]:
            if cost[b] and b not in inputs and b != fresh:
                if fresh >= 0 or free[b] != item or places.output[i]:
                    return False
                if places.extent[b] != unit.space:
                    return False
                fresh = b
        if len(inputs) >= MOST_INPUTS and not self._reads_few(unit, i):
            return False
        if places.output[i]:
            if len(unit.results) >= MOST_RESULTS:
                return False
            unit.results.append(i)
            unit.made += places.bytes[i]
            units.result[i] = True
        unit.members.append(i)
        inputs.pop(i, None)
        units.enter(i, unit)
        if unit.refused and (fresh < 0 or any(fresh in _now(u).inputs for u in unit.refused)):
            self._offered(unit)
        return True

    def _placed(self, i: int) -> Unit:
        """Begin a unit with a node, and unite it with those that read it where that is allowed."""
        units = self._units
        begun = unit = units.begin(i)
        for k in units.readers[i]:
            reader = units.member(k)
            if reader is not unit and reader not in unit.refused:
                self._united(unit, reader)
                unit = _now(unit)
        return begun

    def _offered(self, unit: Unit) -> None:
        """Try again to unite a unit with readers that were refused."""
        refused, unit.refused = unit.refused, ()
        for reader in dict.fromkeys(map(_now, refused)):
            unit = _now(unit)
            if _now(reader) is not unit:
                self._united(unit, _now(reader))

    def _united(self, maker: Unit, reader: Unit) -> None:
        """Unite two units if that is allowed."""
        if len(maker.members) + len(reader.members) > MOST_STEPS:
            return
        moments = self.places.moments
        if moments is not None and moments[maker.members[0]] != moments[reader.members[0]]:
            return
        schedule = self._schedule
        if schedule is None and self._memory.is_hopeless(maker, reader):
            self._refuse(maker, reader)
            return
        how = fit(self._units, maker, reader)
        if how is Fit.NONE or not self._are_bounded(maker, reader):
            return
        late, early = self._memory.late, self._memory.early
        if schedule is not None:
            late, early = schedule.may_wait, schedule.may_hurry
        if late(maker, reader):
            at = reader.at
        elif early(maker, reader):
            at = maker.at
        else:
            self._refuse(maker, reader)
            return
        share(self._units, maker, reader, how)
        unit = self._units.unite(maker, reader, at)
        if schedule is not None:
            schedule.moved(unit)
        if unit.refused:
            self._offered(unit)

    def _refuse(self, maker: Unit, reader: Unit) -> None:
        if len(maker.refused) < MOST_REFUSED:
            maker.refused = (*maker.refused, reader)

    def _are_bounded(self, maker: Unit, reader: Unit) -> bool:
        """Whether two units together read and make few enough arrays."""
        if len(maker.results) + len(reader.results) > MOST_RESULTS:
            units, output = self._units, self.places.output
            kept = [
                r for r in maker.results if output[r] or units.read_by_others(r, (maker, reader))
            ]
            if len(kept) + len(reader.results) > MOST_RESULTS:
                return False
        if len(maker.inputs) + len(reader.inputs) <= MOST_INPUTS:
            return True
        return self._are_few({*maker.inputs, *reader.inputs}.difference(maker.results))

    def _reads_few(self, unit: Unit, i: int) -> bool:
        """Whether a unit that node `i` joins reads few enough arrays."""
        return self._are_few({*unit.inputs, *self.places.sources[i]} - {i})

    def _are_few(self, values: Collection[int]) -> bool:
        """Whether few enough of these values have more than one element."""
        if len(values) <= MOST_INPUTS:
            return True
        return sum([bool(self.places.extent[b]) for b in values]) <= MOST_INPUTS

    # ----------------------------------------------------------------- stretching

    def _stretched(self, unit: Unit) -> list[Unit]:
        """Take out row values that come after no reduction of the unit; a unit of them."""
        units, places = self._units, self.places
        after = set[int]()
        out: list[int] = []
        for i in sorted(unit.members):
            if not units.row[i]:
                continue
            if places.kind[i] == REDUCTION or not after.isdisjoint(places.sources[i]):
                after.add(i)
            else:
                out.append(i)
        if not out:
            return []
        apart = Unit(out[0], places.extent[out[0]])
        apart.members = out
        unit.members = [i for i in unit.members if i not in set(out)]
        for i in out:
            units.of[i] = apart
        for i in out:
            if units.read_by_others(i, (apart,)):
                units.result[i] = True
        units.reconsider(apart)
        units.reconsider(unit)
        return [apart]


def chosen(
    order: Sequence[Node], outputs: Sequence[Node], moment: Callable[[Node], object] | None = None
) -> Choice:
    """The units of an order; the uncertain ones only if a good order of them is found again."""
    choice = Choice(order, outputs, moment)
    return Choice(order, outputs, moment, certain=True) if choice.is_doubtful else choice


def _place(item: Unit | int) -> int:
    """Where a unit or a node that runs alone stands in the order."""
    return item if isinstance(item, int) else item.at


def _now(unit: Unit) -> Unit:
    """The unit that a unit has become a part of."""
    while unit.into is not None:
        unit = unit.into
    return unit
