"""Whether two units may run as one, whatever the order of the others: memory must not grow.

Let a unit P make what a unit C reads.  Take any order of all units, with its peak.  There are two
ways to run both as one, M, in that order, and each has a condition under which no step needs more
than before.  As every order stays as good, so does the best one.

*Late*: M runs where C did.  Who else reads what P makes must read what C makes too.  Between the two places there is
what P reads instead of what it makes; where M runs, what it writes over an operand counts too.
Several units P may be late together, where each alone may not: those of a recurrence, which read
what others of them make.  Then every operand that would be dead is paid for by values that are
alive until C runs, or until another of them takes over.

*Early*: M runs where P did.  C may read nothing else that is computed after what P reads.  Between
the places there is what C makes instead of what of P's results it alone reads, and of operands
that both read.

A little more is allowed: in the middle a small part of the bytes that every order needs, for all
units together; at the place where one runs, for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tawny.rewrite.group_unit import Unit, Units

SPARE: Final = 1 / 64
"""How much of the bytes that every order needs may be added."""


class Memory:
    """Whether units may be united; what is granted is taken from the spare bytes."""

    def __init__(self, units: Units) -> None:
        self._units: Final = units
        self._places: Final = units.places
        pairs = zip(units.places.bytes, units.places.kept, strict=True)
        self.cost: Final = [0 if kept else bytes for bytes, kept in pairs]
        """Bytes that are free again once nobody reads them any more."""
        self._once: Final = int(SPARE * units.places.floor)
        self._left = self._once

    def late(self, makers: Sequence[Unit], reader: Unit) -> bool:
        """Whether all may run where `reader` does; `makers` are in the order they run."""
        places, cost = self._places, self.cost
        made = {r for unit in makers for r in unit.results}
        fresh: dict[int, Unit] = {}
        for unit in makers:
            for o in unit.inputs:
                if cost[o] and o not in reader.inputs and o not in made:
                    fresh[o] = unit
        together = (*makers, reader)
        inside = 0
        results = list(reader.results)
        for r in made:
            if places.output[r] or self._units.read_by_others(r, together):
                results.append(r)
            elif r in reader.inputs:
                inside += places.bytes[r]
        bytes = sum([cost[o] for o in fresh])
        if bytes - inside > self._left + self._once and len(results) == len(reader.results):
            return False
        between = self._unpaid(fresh, makers, {*results, *reader.inputs})
        if between > self._left:
            return False
        inputs = set(reader.inputs).union(fresh).difference(made)
        before = self._matched(reader, reader.results, reader.inputs, reader.viewed)
        if bytes - inside + before - self._reused(together, results, inputs) > self._once:
            return False
        self._left -= between
        return True

    def _unpaid(
        self, fresh: Mapping[int, Unit], makers: Sequence[Unit], lasting: Collection[int]
    ) -> int:
        """Bytes of operands that no value which is alive until the reader runs pays for.

        The last unit to read an operand pays for it with its results, as far as they go; when the
        last one to read such a result has run, that one pays.
        """
        places, units = self._places, self._units
        owed = dict.fromkeys(makers, 0)
        for o, unit in fresh.items():
            owed[unit] += self.cost[o]
        unpaid = 0
        for unit in makers:
            left = owed[unit]
            for r in unit.results if left else ():
                paid = min(left, places.bytes[r])
                left -= paid
                if r not in lasting:
                    last = max([units.member(k) for k in units.readers[r]], key=lambda u: u.at)
                    owed[last] += paid
            unpaid += left
        return unpaid

    def early(self, maker: Unit, reader: Unit) -> bool:
        """Whether both may run where `maker` does."""
        places, cost = self._places, self.cost
        shared = 0
        for o, count in reader.inputs.items():
            if o in maker.inputs:
                if maker.inputs[o] + count == places.uses[o]:
                    shared += cost[o]
            elif self._units.of[o] is not maker or o in reader.viewed:
                return False
        results = list(reader.results)
        gone = 0
        for r in maker.results:
            if places.output[r] or self._units.read_by_others(r, (maker, reader)):
                results.append(r)
            else:
                gone += places.bytes[r]
        made = sum([places.bytes[r] for r in reader.results])
        between = made - gone - shared
        if between > self._left:
            return False
        inputs = {*maker.inputs, *reader.inputs}.difference(maker.results)
        dying = [o for o in maker.inputs if o not in reader.inputs]
        before = self._matched(maker, maker.results, dying, maker.viewed)
        if made - gone + before - self._reused((maker, reader), results, inputs) > self._once:
            return False
        self._left -= max(between, 0)
        return True

    def _reused(
        self, together: Sequence[Unit], results: Collection[int], inputs: Iterable[int]
    ) -> int:
        """Bytes of operands, at least, that the results of units in one are written over.

        A result is written over an operand that no later member reads; those that nothing inside
        reads are written last.  Where rows are swept again, no more than one is counted.
        """
        places, units = self._places, self._units
        wide = max(together, key=lambda unit: len(unit.space))
        viewed = set[int]().union(*[unit.viewed for unit in together])
        last = {r for r in results if not units.read_inside(r, together)}
        if any(unit.folded is not None for unit in together):
            ends = [r for r in last if places.spans(r, wide.space)]
            return self._matched(wide, ends[:1], inputs, viewed)
        if len(last) == len(results):
            return self._matched(wide, results, inputs, viewed)
        saved = 0
        free: dict[int, list[int]] = {}
        for o in inputs:
            if self.cost[o] and places.spans(o, wide.space) and o not in viewed:
                read = max([k for k in units.readers[o] if units.of[k] in together])
                free.setdefault(places.item[o], []).append(read)
        for r in sorted(results, key=lambda r: (r in last, r)):
            reads = free.get(places.item[r], ()) if places.spans(r, wide.space) else ()
            fitting = [k for k in reads if k <= r or r in last]
            if fitting:
                free[places.item[r]].remove(min(fitting))
                saved += places.bytes[r]
        return saved

    def _matched(
        self, unit: Unit, results: Iterable[int], inputs: Iterable[int], viewed: Collection[int]
    ) -> int:
        """Bytes of operands that results of the same size can be written over."""
        places, space = self._places, unit.space
        have: dict[int, int] = {}
        for o in inputs:
            if self.cost[o] and places.spans(o, space) and o not in viewed:
                have[places.item[o]] = have.get(places.item[o], 0) + 1
        saved = 0
        for r in results if have else ():
            item = places.item[r]
            if have.get(item) and places.spans(r, space):
                have[item] -= 1
                saved += places.bytes[r]
        return saved
