"""From who has what to segments: stretches of a worker's nodes that nothing comes between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tawny.graph.partition.items import Items
from tawny.node import Node


class SegmentPlace(NamedTuple):
    """A segment: what a worker computes at a level."""

    worker: int
    level: int
    """How often values have changed workers before it, at most: no segment reads a later one."""


class Levels:
    """The place of every item.

    A node's level is that of what it reads, and one more where that comes from another worker.  So
    along any path levels never fall, and rise wherever it leaves a segment: segments are convex,
    and no two wait for each other.
    """

    def __init__(self, items: Items, assignment: Mapping[Node, int]) -> None:
        self._items = items
        self.places: Final[dict[Node, SegmentPlace]] = {}
        for variable in items.updates:
            self.places[variable] = SegmentPlace(assignment[variable], 0)
        for node in items.nodes:
            worker, level = assignment[node], 0
            for source in items.reads[node]:
                before = self.places.get(source)
                if before is not None:
                    level = max(level, before.level + (before.worker != worker))
            self.places[node] = SegmentPlace(worker, level)
        self._merge()

    def _merge(self) -> None:
        """Let whole segments be computed later, together with the next of their worker."""
        members: dict[SegmentPlace, list[Node]] = {}
        for node in self._items.nodes:
            members.setdefault(self.places[node], []).append(node)
        for place in sorted(members, key=lambda one: -one.level):
            later = [o for o in members if o.worker == place.worker and o.level > place.level]
            if later:
                target = min(later)
                if all(self._may_wait(node, place, target) for node in members[place]):
                    members[target] = [*members.pop(place), *members[target]]
                    for node in members[target]:
                        self.places[node] = target

    def _may_wait(self, node: Node, place: SegmentPlace, target: SegmentPlace) -> bool:
        """Whether everybody who reads a node does so after a later segment, or inside."""
        for reader in self._items.readers[node]:
            at = self.places[reader]
            inside = at == place or (at.worker == target.worker and at.level >= target.level)
            if not inside and at.level <= target.level:
                return False
        return True

    def last_reading(self, variable: Node) -> SegmentPlace | None:
        """The last segment that reads a variable on its own worker."""
        worker = self.places[variable].worker
        found = [self.places[reader] for reader in self._items.readers[variable]]
        return max([place for place in found if place.worker == worker], default=None)
