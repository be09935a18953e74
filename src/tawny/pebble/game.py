"""The pebble game: a graph, moves, and the check of a strategy move by move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from tawny.errors import list_some, value_error

Vertex: TypeAlias = Hashable
Edge: TypeAlias = tuple[Vertex, Vertex]
Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True, repr=False)
class Place:
    """Put a fresh pebble on a vertex whose predecessors all hold one: compute it."""

    vertex: Vertex

    def __repr__(self) -> str:
        return f"Place({self.vertex!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Slide:
    """Move the pebble of a predecessor to the vertex: compute it in place."""

    source: Vertex
    vertex: Vertex

    def __repr__(self) -> str:
        return f"Slide({self.source!r}, {self.vertex!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Remove:
    """Take the pebble off a vertex: free its memory."""

    vertex: Vertex

    def __repr__(self) -> str:
        return f"Remove({self.vertex!r})"


Move: TypeAlias = Place | Slide | Remove


class IllegalMove(ValueError):  # noqa: N818 - named for what the player did
    """A move that the rules forbid; `number` counts moves from 1."""

    def __init__(self, number: int, move: Move, reason: str) -> None:
        super().__init__(f"move {number}, {move}: {reason}")
        self.number = number
        self.move = move
        self.reason = reason


class GoalNotReached(ValueError):  # noqa: N818 - named for what the player did
    """A strategy that never puts a pebble on some outputs, `missing`."""

    def __init__(self, missing: tuple[Vertex, ...]) -> None:
        super().__init__(
            f"the moves are legal, but never pebble the outputs {list_some([*map(repr, missing)])}"
        )
        self.missing = missing


@dataclass(frozen=True, eq=False)
class Game:
    """A directed acyclic graph to pebble; made by `Game.of` or `Game.from_edges`."""

    predecessors: Mapping[Vertex, tuple[Vertex, ...]]
    """Every vertex, each after its predecessors."""
    outputs: tuple[Vertex, ...]
    """Each must hold a pebble at least once."""
    weights: Mapping[Vertex, int]
    """What a pebble on the vertex weighs: 1, or its bytes."""
    forbidden: frozenset[Edge]
    """Pairs (predecessor, vertex) along which no pebble may slide."""
    kept: frozenset[Vertex]
    """Vertices whose pebble, once placed, stays to the end."""

    @classmethod
    def of(
        cls,
        predecessors: Mapping[Vertex, Iterable[Vertex]],
        outputs: Iterable[Vertex] | None = None,
        *,
        weights: Mapping[Vertex, int] | None = None,
        forbidden: Iterable[Edge] | Callable[[Vertex, Vertex], bool] = (),
        kept: Iterable[Vertex] = (),
    ) -> Game:
        """The game on a graph given as the predecessors of each vertex.

        A vertex that only occurs as a predecessor is an input.  `outputs` are the vertices that
        precede none, unless given; a vertex without a weight weighs 1; `forbidden` is a collection
        of edges or a predicate on (predecessor, vertex).
        """
        graph = _sort_topologically({v: tuple(dict.fromkeys(p)) for v, p in predecessors.items()})
        if outputs is None:
            inner = {u for p in graph.values() for u in p}
            outputs = [v for v in graph if v not in inner]
        edges = {(u, v) for v, p in graph.items() for u in p}
        if callable(forbidden):
            forbidden_edges = frozenset(edge for edge in edges if forbidden(*edge))
        else:
            forbidden_edges = frozenset(forbidden)
        return cls(
            MappingProxyType(graph),
            _check_members("outputs", outputs, graph),
            MappingProxyType(_vertex_weights(graph, weights or {})),
            frozenset(_check_members("forbidden", forbidden_edges, edges)),
            frozenset(_check_members("kept", kept, graph)),
        )

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Edge],
        outputs: Iterable[Vertex] | None = None,
        *,
        weights: Mapping[Vertex, int] | None = None,
        forbidden: Iterable[Edge] | Callable[[Vertex, Vertex], bool] = (),
        kept: Iterable[Vertex] = (),
    ) -> Game:
        """The game on a graph given as pairs (predecessor, vertex)."""
        graph: dict[Vertex, list[Vertex]] = {}
        for u, v in edges:
            graph.setdefault(u, [])
            graph.setdefault(v, []).append(u)
        return cls.of(graph, outputs, weights=weights, forbidden=forbidden, kept=kept)

    def may_slide(self, source: Vertex, vertex: Vertex) -> bool:
        """Whether the pebble of predecessor `source` may ever slide to `vertex`."""
        return source not in self.kept and (source, vertex) not in self.forbidden

    def __repr__(self) -> str:
        edges = sum(map(len, self.predecessors.values()))
        return f"<Game: {len(self.predecessors)} vertices, {edges} edges>"


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """The cost of a strategy."""

    space: int
    """The most weight on the graph at once; the most pebbles, where each weighs 1."""
    time: int
    """Pebbles placed or slid; removals do not count."""
    pebbles: int
    """The most pebbles on the graph at once."""
    repeated: int
    """How many of the placements were on a vertex pebbled before."""


def play(game: Game, moves: Iterable[Move]) -> StrategyCost:
    """Play the moves from an empty graph; raise `IllegalMove` or `GoalNotReached`."""
    pebbled: set[Vertex] = set()
    visited: set[Vertex] = set()
    weight = space = time = most = 0
    for number, move in enumerate(moves, 1):
        reason = refusal(game, pebbled, move)
        if reason is not None:
            raise IllegalMove(number, move, reason)
        match move:
            case Remove(v):
                pebbled.remove(v)
                weight -= game.weights[v]
                continue
            case Slide(u, v):
                pebbled.remove(u)
                weight -= game.weights[u]
            case Place(v):
                pass
        pebbled.add(v)
        visited.add(v)
        time += 1
        weight += game.weights[v]
        space = max(space, weight)
        most = max(most, len(pebbled))
    missing = tuple(v for v in game.outputs if v not in visited)
    if missing:
        raise GoalNotReached(missing)
    return StrategyCost(space, time, most, time - len(visited))


def refusal(game: Game, pebbled: Collection[Vertex], move: Move) -> str | None:
    """Why the rules forbid the move while `pebbled` hold the pebbles; None if it is legal."""
    v = move.vertex
    if v not in game.predecessors:
        return f"{v!r} is no vertex of the graph"
    if isinstance(move, Remove):
        if v not in pebbled:
            return f"{v!r} holds no pebble"
        return f"{v!r} is kept" if v in game.kept else None
    if v in pebbled:
        return f"{v!r} already holds a pebble"
    missing = tuple(u for u in game.predecessors[v] if u not in pebbled)
    if missing:
        return f"the predecessors {list_some([*map(repr, missing)])} of {v!r} hold no pebble"
    if isinstance(move, Place):
        return None
    u = move.source
    if u not in game.predecessors[v]:
        return f"{u!r} is no predecessor of {v!r}"
    if u in game.kept:
        return f"{u!r} is kept"
    if (u, v) in game.forbidden:
        return f"sliding from {u!r} to {v!r} is forbidden"
    return None


def _sort_topologically(
    predecessors: Mapping[Vertex, tuple[Vertex, ...]],
) -> dict[Vertex, tuple[Vertex, ...]]:
    """The graph with its inputs, each vertex after its predecessors."""
    graph = dict(predecessors)
    for before in predecessors.values():
        for u in before:
            graph.setdefault(u, ())
    successors: dict[Vertex, list[Vertex]] = {v: [] for v in graph}
    waiting = {v: len(before) for v, before in graph.items()}
    for v, before in graph.items():
        for u in before:
            successors[u].append(v)
    order = [v for v, n in waiting.items() if not n]
    for u in order:
        for v in successors[u]:
            waiting[v] -= 1
            if not waiting[v]:
                order.append(v)
    if len(order) < len(graph):
        stuck = tuple(v for v, n in waiting.items() if n)
        raise value_error(
            "pebble.Game",
            f"the graph must have no cycle; one passes through {list_some([*map(repr, stuck)])}",
        )
    return {v: graph[v] for v in order}


def _check_members(
    what: str, given: Iterable[Item], accepted: Collection[Item]
) -> tuple[Item, ...]:
    """`given` without repetitions; refuses what the graph does not have."""
    found = tuple(dict.fromkeys(given))
    for item in found:
        if item not in accepted:
            noun = "an edge" if what == "forbidden" else "a vertex"
            raise value_error("pebble.Game", f"{what}: {item!r} is not {noun} of the graph")
    return found


def _vertex_weights(graph: Collection[Vertex], weights: Mapping[Vertex, int]) -> dict[Vertex, int]:
    """The weight of every vertex, 1 where none is given."""
    for v in _check_members("weights", weights, graph):
        if weights[v] < 0:
            raise value_error(
                "pebble.Game", f"weights: {v!r} weighs {weights[v]}; a weight must be at least 0"
            )
    return {v: weights.get(v, 1) for v in graph}
