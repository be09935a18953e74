"""Groups taken apart where the planner would need more memory with them than without.

That two units may run as one is decided pair by pair, for any order or for a good one.  An order as
good as that of the nodes alone may still not be found once they are units.  So both are put into
order as the planner does.  Where the units need more, those that are there at the peak are taken
apart: those that run then, and those that make or read what is alive then.  This is repeated, and
in the end everything runs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.memory.ordering.portfolio import Portfolio
from tawny.rewrite.groups.memory import MemoryCheck
from tawny.rewrite.groups.schedule import Item, PlannedUnits, UnitProblem, quick_orders
from tawny.rewrite.groups.tables import PLAIN, NodeTables
from tawny.rewrite.groups.units import GroupUnit, UnitTable

LARGEST: Final = 2000
"""Nodes of a flow, at most, that is put into an order.  It bounds the time to build."""

SPARE: Final = 1 / 100
"""The part of the peak of the nodes alone that may be added: a few small arrays."""

FULLEST: Final = 2
"""Steps at the peak that are examined for a lower bound on every order: each takes a walk."""

MOST_ROUNDS: Final = 4
"""Rounds of taking units apart, at most; then every node runs alone."""


def relieve(
    units: UnitTable, memory: MemoryCheck, items: list[Item], planned: PlannedUnits | None = None
) -> tuple[list[Item], int]:
    """The items, with units taken apart until their peak is that of the nodes alone.

    Also what the nodes alone need in a good order, at least; 0 where that is not found out.
    `planned` are the items in a good order, where one is known.
    """
    alone: list[Item] = [i for i, kind in enumerate(units.tables.kind) if kind >= PLAIN]
    if len(alone) == len(items) or len(alone) > LARGEST:
        return items, 0
    if planned is None:
        planned = PlannedUnits(units, memory, items)
    enough = int(planned.peak / (1 + SPARE)) + 1
    least = _least_bytes(units.tables, memory, planned)
    if least >= enough:
        return items, least
    found = quick_orders(Portfolio(UnitProblem(units, memory, alone).problem, enough))
    if not found:
        return items, enough + 1
    least = found[0].peak
    most = int(least * (1 + SPARE))
    if planned.fits(most):
        return items, least
    for _ in range(MOST_ROUNDS):
        apart = _units_at_peak(planned)
        if not apart:
            break
        items = [part for item in items for part in _parts(item, apart)]
        planned = PlannedUnits(units, memory, items)
        if planned.peak <= most:
            return items, least
    return alone, least


def _least_bytes(tables: NodeTables, memory: MemoryCheck, planned: PlannedUnits) -> int:
    """Bytes that every order of the nodes needs, as far as those that run at the peak tell."""
    items = [planned.items[planned.order[at]] for at in planned.fullest()[-FULLEST:]]
    nodes = [item if isinstance(item, int) else max(item.members) for item in items]
    return max([bytes_held_around(tables, memory, at) for at in nodes])


def bytes_held_around(tables: NodeTables, memory: MemoryCheck, at: int) -> int:
    """Bytes that are there while a node runs, whatever the order.

    That is what nodes before it leave to it and to nodes after it, and what it makes.
    """
    reads, owner, kind = tables.reads, tables.owner, tables.kind
    before, stack = set[int](), [at]
    while stack:
        fresh = [k for k in reads[stack.pop()] if k not in before]
        before.update(fresh)
        stack += fresh
    after, later = {at}, set[int]()
    for i in range(at + 1, len(reads)):
        if not after.isdisjoint(reads[i]):
            after.add(i)
            if kind[i] >= PLAIN:
                later.update([owner[k] for k in reads[i]])
    read = later.union([owner[k] for k in reads[at]])
    held = [o for o in before if (o in read or tables.kept[o]) and not tables.order[o].parts]
    own = [tables.sources[at][p] for p in tables.overwritable(at)]
    if all(not memory.free[b] or owner[b] in later for b in own):
        held.append(at)
    return sum([tables.bytes[o] for o in held])


def _parts(item: Item, apart: set[GroupUnit]) -> Sequence[Item]:
    """The members of a unit that is taken apart, in order; else the item."""
    return sorted(item.members) if isinstance(item, GroupUnit) and item in apart else (item,)


def _units_at_peak(planned: PlannedUnits) -> set[GroupUnit]:
    """The units of several nodes that run at the peak, or make or read what is alive then."""
    graph, order, at = planned.model, planned.order, planned.fullest()[0]
    made = {c for step in order[: at + 1] for c in graph.outputs[step]}
    read = {c for step in order[at:] for c in graph.reads[step]}
    alive = {c for c in made & read if graph.size[c] > SPARE * planned.peak}
    found = {order[at]}
    for step in range(len(graph)):
        if not alive.isdisjoint((*graph.reads[step], *graph.outputs[step])):
            found.add(step)
    units = [planned.items[step] for step in found]
    return {u for u in units if isinstance(u, GroupUnit) and len(u.members) > 1}
