"""Whether two units may run as one, whatever the order of the others: memory must not grow.

Let a unit P make what a unit C reads.  Take any order of all units, with its peak.  There are two
ways to run both as one, M, in that order, and each has a condition under which no step needs more
than before.  As every order stays as good, so does the best one.

*Late*: M runs where C did.  Who else reads what P makes must read what C makes too, and so comes
after it.  Between the two places there is what P reads instead of what it makes.

*Early*: M runs where P did.  C may read nothing else that is computed but what P reads.  Between
the two places there is what C makes, instead of those results of P that it alone reads, and of
operands that nobody else reads.

Where M runs, all it reads and makes is there at once, less what it writes over an operand.

A little more is allowed: at the place where a unit runs, a small part of the bytes that every order
needs; between the places that part for all units together, and an eighth of it for one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from tawny.rewrite.groups.units import GroupUnit, UnitTable
from tawny.shape import Shape

SPARE: Final = 1 / 32
"""The part of the bytes that every order needs that may be added.

Chosen by hand: it trades a few bytes for fewer kernels.
"""

MOST_READERS: Final = 64
"""Readers of a value that are looked at, at most: a value of more is hardly dead after one."""


class MemoryCheck:
    """Whether units may be united; what is granted is taken from the spare bytes."""

    def __init__(self, units: UnitTable) -> None:
        self._units: Final = units
        self._tables: Final = units.tables
        bytes, kept = units.tables.bytes, units.tables.kept
        self.cost: Final = [0 if kept[o] else bytes[o] for o in units.tables.owner]
        """Bytes behind each value that are free again once nobody reads them any more."""
        self.free: Final = [
            item if cost else 0 for item, cost in zip(units.tables.item, self.cost, strict=True)
        ]
        """The bytes of an element of what may be written over, once nobody reads it any more."""
        self._once: Final = int(SPARE * units.tables.floor)
        self._each: Final = self._once // 8
        self._left = self._once

    def is_hopeless(self, maker: GroupUnit, reader: GroupUnit) -> bool:
        """Whether two units plainly may not run as one; found out fast."""
        cost, owner, reads = self.cost, self._tables.owner, reader.inputs
        more = -maker.result_bytes - self._each
        for b in maker.inputs:
            if b not in reads and owner[b] == b:
                more += cost[b]
        if more <= 0:
            return False
        of, kind = self._units.of, self._tables.kind
        for b in reads:  # noqa: SIM110  (faster than a generator)
            if b not in maker.inputs and of[b] is not maker and kind[b]:
                return True
        return False

    def may_run_late(self, maker: GroupUnit, reader: GroupUnit) -> bool:
        """Whether both may run where `reader` does."""
        units, tables, cost, reads = self._units, self._tables, self.cost, reader.inputs
        fresh = [b for b in maker.inputs if cost[b] and b not in reads]
        more = sum([cost[b] for b in fresh])
        if more > maker.result_bytes:
            owners = {tables.owner[b] for b in fresh}.difference([tables.owner[b] for b in reads])
            more = sum([cost[o] for o in owners])
        between = more - maker.result_bytes
        if between > min(self._left, self._each) or not units.is_read_only_after(maker, reader):
            return False
        results = reader.results
        for r in maker.results:
            if tables.output[r] or units.is_read_by_others(r, (maker, reader)):
                results = [*results, r]
            else:
                more -= tables.bytes[r]
        more += self.matched_bytes(reader.space, reader.results, reads)
        if more > self._once:
            inputs = {*reads, *fresh}.difference(maker.results)
            if more - self.reused_bytes((maker, reader), results, inputs) > self._once:
                return False
        self._left -= max(between, 0)
        return True

    def may_run_early(self, maker: GroupUnit, reader: GroupUnit) -> bool:
        """Whether both may run where `maker` does."""
        units, tables, cost, reads = self._units, self._tables, self.cost, maker.inputs
        shared = 0
        for b, count in reader.inputs.items():
            if b in reads:
                if reads[b] + count == tables.uses[b]:
                    shared += cost[b]
            elif units.of[b] is not maker and tables.kind[b]:
                return False
        results, more = list(reader.results), reader.result_bytes
        for r in maker.results:
            if tables.output[r] or units.is_read_by_others(r, (maker, reader)):
                results.append(r)
            else:
                more -= tables.bytes[r]
        between = more - shared
        if between > min(self._left, self._each):
            return False
        dying = [b for b in reads if b not in reader.inputs]
        more += self.matched_bytes(maker.space, maker.results, dying)
        if more > self._once:
            inputs = {*reads, *reader.inputs}.difference(maker.results)
            if more - self.reused_bytes((maker, reader), results, inputs) > self._once:
                return False
        self._left -= max(between, 0)
        return True

    def reused_bytes(
        self, together: Sequence[GroupUnit], results: Collection[int], inputs: Iterable[int]
    ) -> int:
        """Bytes of operands, at least, that the results of units in one are written over."""
        if len(results) == 1:
            return self.matched_bytes(max([u.space for u in together], key=len), results, inputs)
        saved, taken = 0, set[int]()
        for b, r in self.overwrites(together, results, inputs):
            if b not in taken and r not in taken:
                taken |= {b, r}
                saved += self._tables.bytes[r]
        return saved

    def overwrites(
        self, together: Sequence[GroupUnit], results: Collection[int], inputs: Iterable[int]
    ) -> list[tuple[int, int]]:
        """Which results of units in one may be written over which operands, if these die there.

        A result is written over an operand that no later member reads; those that nothing inside
        reads are written last.  Where rows are swept again, only one of these is.
        """
        tables, units, free = self._tables, self._units, self.free
        of, extent, item = units.of, tables.extent, tables.item
        space = max([u.space for u in together], key=len)
        if len(together) == len(together[0].members) == 1:
            return [
                (b, r)
                for r in results
                if extent[r] == space
                for b in sorted(inputs)
                if free[b] == item[r] and extent[b] == space
            ]
        reads: list[tuple[int, int]] = []
        for b in inputs:
            if free[b] and extent[b] == space:
                for k in units.readers[b][:MOST_READERS]:  # the last ones first
                    if of[k] in together:
                        reads.append((k, b))
                        break
        if not reads:
            return []
        reads.sort()
        whole = [r for r in results if extent[r] == space]
        last = [r for r in whole if not units.is_read_inside(r, together)]
        if self._sweep_again(together):
            return [(b, r) for r in last[:1] for _, b in reads if free[b] == item[r]]
        inner = sorted([r for r in whole if r not in last])
        pairs = [(b, r) for r in inner for k, b in reads if k <= r and free[b] == item[r]]
        return [*pairs, *[(b, r) for r in last for _, b in reads if free[b] == item[r]]]

    def _sweep_again(self, together: Sequence[GroupUnit]) -> bool:
        """Whether units in one may need another sweep after a reduction."""
        if all(u.folded is None for u in together):
            return False
        if any(u.space != together[0].space for u in together):
            return True
        row, sources = self._units.row, self._tables.sources
        for unit in together:
            for i in unit.members:
                if not row[i] and any(row[b] for b in sources[i]):
                    return True
        return False

    def matched_bytes(self, space: Shape, results: Iterable[int], inputs: Iterable[int]) -> int:
        """Bytes of operands that results of the same size can be written over."""
        extent, free = self._tables.extent, self.free
        have = [free[b] for b in inputs if free[b] and extent[b] == space]
        saved = 0
        for r in results if have else ():
            item = self._tables.item[r]
            if item in have and extent[r] == space:
                have.remove(item)
                saved += self._tables.bytes[r]
        return saved
