"""Which nodes run together: units of an order, chosen so that the units form no cycle.

Nodes are placed one by one, readers first.  A node joins the units that read it, making one of
them, when it fits their loops (`group_loops`), the bounds below, and memory: running both as one
must not need more bytes, whatever the order of the rest (`group_memory`).  Otherwise it begins a
unit, which is offered to its readers again when it reads something else.

Two units become one only if every path from one to the other is direct: nobody else reads what the
first makes, or the second reads nothing else that is computed.  So there is never a cycle.

A value that is merely stretched to the space is computed outside: it would be computed again for
each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tawny.node import Node
from tawny.rewrite.group_loops import Fit, fit, share
from tawny.rewrite.group_memory import Memory
from tawny.rewrite.group_places import PLAIN, POINTWISE, REDUCTION, Places
from tawny.rewrite.group_unit import Unit, Units

MOST_STEPS: Final = 64
"""Ops in a group: long straight-line code compiles slowly, and gains nothing."""

MOST_INPUTS: Final = 16
"""Arrays of more than one element that a group reads."""

MOST_RESULTS: Final = 8
"""Arrays a group makes."""

MOST_REFUSED: Final = 4
"""Readers that a unit is offered to again."""

MOST_TOGETHER: Final = 6
"""Units that are united at once."""


class Choice:
    """The units of an order of nodes; `sequence` has units, and nodes that run alone, in order."""

    def __init__(
        self,
        order: Sequence[Node],
        outputs: Sequence[Node],
        moment: Callable[[Node], object] | None = None,
    ) -> None:
        self.places = places = Places(order, outputs, moment)
        self._units = Units(places)
        self._memory = Memory(self._units)
        begun: list[Unit] = []
        alone: list[int] = []
        for i in range(len(order) - 1, -1, -1):
            kind = places.kind[i]
            if kind >= POINTWISE:
                if not self._joined(i):
                    begun.append(self._placed(i))
            elif kind:
                for b in places.sources[i]:
                    self._units.alone[b] = True
                if kind == PLAIN:
                    alone.append(i)
        units = [u for u in begun if u.into is None]
        for unit in units[:]:
            if unit.folded is not None and len(unit.members) > 1:
                units += self._stretched(unit)
        found: list[tuple[float, Unit | int]] = [(u.at, u) for u in units]
        found += [(i, i) for i in alone]
        found.sort(key=lambda item: item[0])
        self.sequence = [item for _, item in found]

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
        owner, cost, inputs = places.owner, self._memory.cost, unit.inputs
        fresh = -1
        for b in places.sources[i]:
            o = owner[b]
            if cost[o] and o not in inputs and o != fresh:
                if fresh >= 0 or o != b or places.item[o] != places.item[i]:
                    return False
                if places.output[i] or not places.spans(o, unit.space):
                    return False
                fresh = o
        if len(unit.arrays) >= MOST_INPUTS and not self._reads_few(unit, i):
            return False
        if places.output[i]:
            if len(unit.results) >= MOST_RESULTS:
                return False
            unit.results.append(i)
            units.result[i] = True
        unit.members.append(i)
        inputs.pop(i, None)
        unit.arrays.discard(i)
        units.enter(i, unit)
        if unit.refused and (fresh < 0 or any(fresh in _now(u).inputs for u in unit.refused)):
            self._offered(unit)
        return True

    def _placed(self, i: int) -> Unit:
        """Begin a unit with a node, and unite it with those that read it where that is allowed."""
        units = self._units
        begun = unit = units.begin(i)
        for k in units.readers[i]:
            reader = units.of[k]
            assert reader is not None
            if reader is not unit and reader not in unit.refused:
                self._united(unit, reader)
                unit = _now(unit)
        if unit.refused:
            self._collapsed(unit)
        return begun

    def _offered(self, unit: Unit) -> None:
        """Try again to unite a unit with readers that were refused."""
        refused, unit.refused = unit.refused, []
        for reader in refused:
            now = _now(unit)
            if _now(reader) is not now:
                self._united(now, _now(reader))
        if _now(unit).refused:
            self._collapsed(_now(unit))

    def _united(self, maker: Unit, reader: Unit) -> None:
        """Unite two units if that is allowed."""
        units, places, memory = self._units, self.places, self._memory
        if len(maker.members) + len(reader.members) > MOST_STEPS:
            return
        moments = places.moments
        if moments is not None and moments[maker.members[0]] != moments[reader.members[0]]:
            return
        how = fit(units, maker, reader)
        if how is Fit.NONE or not self._are_bounded((maker,), reader):
            return
        if units.may_wait((maker,), reader) and memory.late((maker,), reader):
            at = reader.at
        elif memory.early(maker, reader):
            at = maker.at
        else:
            if len(maker.refused) < MOST_REFUSED:
                maker.refused.append(reader)
            return
        share(units, maker, reader, how)
        unit = units.unite(maker, reader, at)
        if unit.refused:
            self._offered(unit)

    def _collapsed(self, unit: Unit) -> None:
        """Unite a unit and all between it and a common reader, if that is allowed together."""
        units = self._units
        found = self._between(unit)
        if found is None:
            return
        *makers, reader = found
        if len({u.folded for u in found} - {None}) > 1 or not self._are_bounded(makers, reader):
            return
        for maker in makers:
            readers = {units.member(k) for r in maker.results for k in units.readers[r]}
            if any(u in found and fit(units, maker, u) is not Fit.SAME for u in readers - {maker}):
                return
        if units.may_wait(makers, reader) and self._memory.late(makers, reader):
            for maker in reversed(makers):
                share(units, maker, reader, Fit.SAME)
                reader = units.unite(maker, reader, reader.at)

    def _between(self, unit: Unit) -> list[Unit] | None:
        """A unit, those that read it and may be united with it, and so on, in order."""
        units, moments = self._units, self.places.moments
        found, last = {unit}, unit
        waiting = [unit]
        steps = len(unit.members)
        while waiting:
            for r in waiting.pop().results:
                if units.alone[r]:
                    return None
                for k in units.readers[r]:
                    reader = units.member(k)
                    if reader in found or reader.space != unit.space:
                        continue
                    if steps + len(reader.members) > MOST_STEPS:
                        continue
                    if moments is not None and moments[k] != moments[unit.members[0]]:
                        continue
                    if len(found) == MOST_TOGETHER:
                        return None
                    found.add(reader)
                    steps += len(reader.members)
                    if reader.at < last.at:
                        waiting.append(reader)
                        continue
                    if last is not unit:
                        waiting.append(last)
                    last = reader
        return sorted(found, key=lambda u: u.at) if len(found) > 2 else None

    def _are_bounded(self, makers: Sequence[Unit], reader: Unit) -> bool:
        """Whether units together read and make few enough arrays."""
        units = (*makers, reader)
        if sum([len(u.results) for u in units]) > MOST_RESULTS:
            made = [r for u in makers for r in u.results]
            kept = [r for r in made if self.places.output[r] or self._units.read_by_others(r, units)]
            if len(kept) + len(reader.results) > MOST_RESULTS:
                return False
        if sum([len(u.arrays) for u in units]) <= MOST_INPUTS:
            return True
        arrays = reader.arrays.union(*[u.arrays for u in makers])
        return len(arrays.difference(*[u.results for u in makers])) <= MOST_INPUTS

    def _reads_few(self, unit: Unit, i: int) -> bool:
        """Whether a unit that node `i` joins reads few enough arrays."""
        arrays = unit.arrays.union(filter(self.places.is_array, self.places.sources[i]))
        return len(arrays - {i}) <= MOST_INPUTS

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
        apart = Unit(out[0], places.space[out[0]])
        apart.members = out
        apart.at = unit.at - 0.5
        unit.members = [i for i in unit.members if i not in set(out)]
        for i in out:
            units.of[i] = apart
        for i in out:
            if units.read_by_others(i, (apart,)):
                units.result[i] = True
        return [apart]


def _now(unit: Unit) -> Unit:
    """The unit that a unit has become a part of."""
    while unit.into is not None:
        unit = unit.into
    return unit
