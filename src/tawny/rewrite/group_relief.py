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
from tawny.rewrite.group_memory import Memory
from tawny.rewrite.group_places import ALIGNMENT, PLAIN, Places
from tawny.rewrite.group_schedule import Item, Planned, Work, found_fast
from tawny.rewrite.group_unit import Unit, Units

LARGEST: Final = 2000
"""More nodes are not put into an order: what is certain must do."""

SPARE: Final = 1 / 100
"""How much of the peak of the nodes alone may be added: a few small arrays."""

FULLEST: Final = 2
"""So many of the steps that run at the peak are asked what every order needs."""

MOST_ROUNDS: Final = 4
"""After so many rounds everything runs alone."""


def relieved(
    units: Units, memory: Memory, items: list[Item], planned: Planned | None = None
) -> tuple[list[Item], int]:
    """The items, with units taken apart until their peak is that of the nodes alone.

    Also what the nodes alone need in a good order, at least; 0 where that is not found out.
    `planned` are the items in a good order, where one is known.
    """
    alone: list[Item] = [i for i, kind in enumerate(units.places.kind) if kind >= PLAIN]
    if len(alone) == len(items) or len(alone) > LARGEST:
        return items, 0
    if planned is None:
        planned = Planned(units, memory, items)
    enough = int(planned.peak / (1 + SPARE)) + 1
    least = _held(units.places, memory, planned)
    if least >= enough:
        return items, least
    found = found_fast(Portfolio(Work(units, memory, alone).problem, ALIGNMENT, enough))
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
        planned = Planned(units, memory, items)
        if planned.peak <= most:
            return items, least
    return alone, least


def _held(places: Places, memory: Memory, planned: Planned) -> int:
    """Bytes that every order of the nodes needs, as far as those that run at the peak tell."""
    items = [planned.items[planned.order[at]] for at in planned.fullest()[-FULLEST:]]
    nodes = [item if isinstance(item, int) else max(item.members) for item in items]
    return max([held_around(places, memory, at) for at in nodes])


def held_around(places: Places, memory: Memory, at: int) -> int:
    """Bytes that are there while a node runs, whatever the order.

    That is what nodes before it leave to it and to nodes after it, and what it makes.
    """
    reads, owner, kind = places.reads, places.owner, places.kind
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
    held = [o for o in before if (o in read or places.kept[o]) and not places.order[o].parts]
    own = [places.sources[at][p] for p in places.overwritable(at)]
    if all(not memory.free[b] or owner[b] in later for b in own):
        held.append(at)
    return sum([places.bytes[o] for o in held])


def _parts(item: Item, apart: set[Unit]) -> Sequence[Item]:
    """The members of a unit that is taken apart, in order; else the item."""
    return sorted(item.members) if isinstance(item, Unit) and item in apart else (item,)


def _units_at_peak(planned: Planned) -> set[Unit]:
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
    return {u for u in units if isinstance(u, Unit) and len(u.members) > 1}
