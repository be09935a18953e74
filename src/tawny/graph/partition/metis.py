"""METIS: a graph cut into parts of equal weight with little between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final

from tawny.graph.partition.items import Items, Weight, value_bytes
from tawny.lazy import LazyModule
from tawny.node import Node

pymetis: Final[Any] = LazyModule("pymetis")

SEED: Final = 1
"""What METIS draws its random numbers from: the same graph is cut alike everywhere."""

WHOLE: Final = 10**8
"""What the weights of all vertices, and of all edges, add up to: METIS counts in 32 bits."""


def require_metis(op: str) -> None:
    """Say what to install where METIS is missing."""
    if find_spec("pymetis") is None:
        raise ImportError(f"{op} needs METIS: pip install 'tawny[dask]'")


class CutGraph:
    """The undirected graph that METIS cuts: units of items, weighted by time and bytes.

    Edges weigh the bytes that travel if they are cut.  Inputs and constants are vertices too, so
    that what reads the same large ones stays together.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        vertices: dict[Node, int] = {}
        for item in items.all:
            vertices.setdefault(items.units[item], len(vertices))
        for read in items.reads.values():
            for source in read:
                if source not in items.units:
                    vertices.setdefault(source, len(vertices))
        self._vertices = vertices
        self._edges: list[dict[int, int]] = [{} for _ in vertices]
        for reader, read in items.reads.items():
            for source in read:
                self._connect(self._vertex(source), self._vertex(reader), value_bytes(source))
        self._weights = [Weight(0.0, 0)] * len(vertices)
        for item in (*items.all, *[v for v in vertices if v not in items.units]):
            own = Weight(0.0, value_bytes(item)) if item not in items.units else items.weight(item)
            at = self._vertex(item)
            known = self._weights[at]
            self._weights[at] = Weight(known.seconds + own.seconds, known.bytes + own.bytes)

    def _vertex(self, item: Node) -> int:
        return self._vertices[self._items.units.get(item, item)]

    def _connect(self, one: int, other: int, bytes: int) -> None:
        if one != other:
            for a, b in ((one, other), (other, one)):
                self._edges[a][b] = self._edges[a].get(b, 0) + bytes

    def cut(self, workers: int, time_share: float, slack: int) -> dict[Node, int]:
        """The worker of each item.

        `time_share` is how much of the weight is time, the rest being bytes; `slack` says by how
        many thousandths of their mean weights may differ.
        """
        seconds = sum([w.seconds for w in self._weights]) or 1.0
        bytes = sum([w.bytes for w in self._weights]) or 1
        weights = [
            1 + int(WHOLE * (time_share * w.seconds / seconds + (1 - time_share) * w.bytes / bytes))
            for w in self._weights
        ]
        parts = _call_metis(workers, self._edges, weights, slack)
        return {item: parts[self._vertex(item)] for item in self._items.all}


def _call_metis(
    workers: int, edges: Sequence[dict[int, int]], weights: Sequence[int], slack: int
) -> list[int]:
    whole = sum([sum(near.values()) for near in edges]) or 1
    starts, ends, costs = [0], list[int](), list[int]()
    for near in edges:
        for other in sorted(near):
            ends.append(other)
            costs.append(1 + near[other] * WHOLE // whole)
        starts.append(len(ends))
    if workers == 1 or not ends:
        return [vertex * workers // max(1, len(weights)) for vertex in range(len(weights))]
    options = pymetis.Options(seed=SEED, ufactor=slack)
    found = pymetis.part_graph(
        workers,
        pymetis.CSRAdjacency(starts, ends),
        vweights=list(weights),
        eweights=costs,
        options=options,
    )
    return [int(part) for part in found.vertex_part]


# ---------------------------------------------------------------- other candidates


def monotone(items: Items, assignment: dict[Node, int]) -> dict[Node, int]:
    """An assignment in which nothing goes back: workers in the order in which they are reached.

    What a worker reads comes from workers before it, so each has one segment.
    """
    found, count = dict(assignment), dict[Node, int]()
    for node in items.nodes:
        unit = items.units[node]
        before = [found[source] for source in items.reads[node] if source in found]
        count[unit] = max(found[node], count.get(unit, 0), *before, 0)
        found[node] = count[unit]
    return {item: count.get(items.units[item], found[item]) for item in items.all}


def numbered_by_place(items: Items, assignment: dict[Node, int]) -> dict[Node, int]:
    """Workers numbered by the mean place of their nodes in the order."""
    places: dict[int, list[int]] = {}
    for place, node in enumerate(items.nodes):
        places.setdefault(assignment[node], []).append(place)
    means = sorted(places, key=lambda part: (sum(places[part]) / len(places[part]), part))
    rest = sorted({*assignment.values()}.difference(means))
    number = {part: index for index, part in enumerate((*means, *rest))}
    return {item: number[part] for item, part in assignment.items()}


def in_order(items: Items, workers: int, share: Callable[[Weight], float]) -> dict[Node, int]:
    """Stretches of the order that weigh the same; units go where their first node is."""
    whole = sum([share(items.weight(node)) for node in items.nodes]) or 1.0
    found: dict[Node, int] = {}
    units: dict[Node, int] = {}
    done = 0.0
    for node in items.nodes:
        own = share(items.weight(node))
        part = min(workers - 1, int(workers * (done + own / 2) / whole))
        found[node] = units.setdefault(items.units[node], part)
        done += own
    return {item: units.get(items.units[item], 0) for item in items.all}
