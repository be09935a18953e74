"""Whether two units may run as one, whatever the order of the others: memory must not grow.

Let a unit P make what a unit C reads.  Take any order of all units, with its peak.  There are two
ways to run both as one, M, in that order, and each has a condition under which no step needs more
than before.  As every order stays as good, so does the best one.

*Late*: M runs where C did.  Nobody else may read what P makes.  Between the two places there is
what P reads instead of what it makes; where M runs, what it writes over an operand counts too.

*Early*: M runs where P did.  C may read nothing else that is computed after what P reads.  Between
the places there is what C makes instead of what of P's results it alone reads, and of operands
that both read.

A little more is allowed: in the middle a small part of the bytes that every order needs, for all
units together; at the place where one runs, for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tawny.rewrite.group_places import Places
from tawny.rewrite.group_unit import Unit

SPARE: Final = 1 / 64
"""How much of the bytes that every order needs may be added."""


class Memory:
    """Certificates over the units of an order."""

    def __init__(self, places: Places, unit: list[Unit | None]) -> None:
        self.places = places
        self.unit = unit
        """The unit of each place."""
        kind, kept = places.bytes, places.kept
        self.cost = [0 if k else b for b, k in zip(kind, kept, strict=True)]
        """Bytes that are free again once nobody reads them any more."""
        self._once = self._left = int(SPARE * places.floor)

    def late(self, maker: Unit, reader: Unit) -> bool:
        """Whether both may run where `reader` does."""
        places, cost = self.places, self.cost
        fresh = sum([cost[o] for o in maker.inputs if o not in reader.inputs])
        made = inside = 0
        for r in maker.results:
            if maker.outside(r, self.unit, reader):
                return False
            made += places.bytes[r]
            inside += 0 if places.output[r] else places.bytes[r]
        between = fresh - made
        if between > self._left:
            return False
        inputs = {*maker.inputs, *reader.inputs}.difference(maker.results)
        results = [*reader.results, *[r for r in maker.results if places.output[r]]]
        there = fresh - inside + self._reused(reader, reader.results, reader.inputs)
        if there - self._reused_by_both(maker, reader, results, inputs) > self._once:
            return False
        self._left -= max(between, 0)
        return True

    def early(self, maker: Unit, reader: Unit) -> bool:
        """Whether both may run where `maker` does."""
        places, unit, cost = self.places, self.unit, self.cost
        before = maker.inputs
        shared = 0
        for o, count in reader.inputs.items():
            if o in before:
                if before[o] + count == places.uses[o]:
                    shared += cost[o]
            elif unit[o] is not maker or o in reader.viewed:
                return False
        results = list(reader.results)
        gone = 0
        for r in maker.results:
            if places.output[r] or maker.outside(r, unit, reader):
                results.append(r)
            else:
                gone += places.bytes[r]
        made = sum([places.bytes[r] for r in reader.results])
        between = made - gone - shared
        if between > self._left:
            return False
        inputs = {*before, *reader.inputs}.difference(maker.results)
        dying = [o for o in before if o not in reader.inputs]
        there = made - gone + self._reused(maker, maker.results, dying)
        if there - self._reused_by_both(maker, reader, results, inputs) > self._once:
            return False
        self._left -= max(between, 0)
        return True

    def _reused(self, unit: Unit, results: Iterable[int], inputs: Iterable[int]) -> int:
        """Bytes of operands, at most, that a unit's results are written over."""
        return self._matched(unit, results, inputs, unit.viewed)

    def _reused_by_both(
        self, maker: Unit, reader: Unit, results: Iterable[int], inputs: Iterable[int]
    ) -> int:
        """Bytes of operands, at least, that results of two units run as one are written over."""
        wide = maker if len(maker.space) > len(reader.space) else reader
        ends = [r for r in results if not self._is_read_by(r, maker, reader)]
        if (maker.folded or reader.folded) and len(ends) > 1:
            ends = [r for r in ends if self.places.spans(r, wide.space)][:1]
        return self._matched(wide, ends, inputs, maker.viewed | reader.viewed)

    def _is_read_by(self, result: int, maker: Unit, reader: Unit) -> bool:
        unit = self.unit
        return any(unit[k] is maker or unit[k] is reader for k in maker.readers[result])

    def _matched(
        self, unit: Unit, results: Iterable[int], inputs: Iterable[int], viewed: Collection[int]
    ) -> int:
        places, space = self.places, unit.space
        have: dict[int, int] = {}
        for o in inputs:
            if self.cost[o] and places.spans(o, space) and o not in viewed:
                have[places.item[o]] = have.get(places.item[o], 0) + 1
        saved = 0
        for r in results:
            if have.get(places.item[r]) and places.spans(r, space):
                have[places.item[r]] -= 1
                saved += places.bytes[r]
        return saved
