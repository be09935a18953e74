"""A game as bit masks, for the exact solver: bit i stands for the i-th vertex that is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawny.lazy import cached_property
from tawny.pebble.game import Game, Move, Place, Remove, Slide, Vertex


@dataclass(frozen=True)
class Board:
    """The part of a game that its outputs need; everything is indexed by vertex, in order."""

    vertices: tuple[Vertex, ...]
    before: tuple[int, ...]
    """Predecessors of each vertex."""
    slides: tuple[int, ...]
    """Predecessors whose pebble may slide to the vertex."""
    weights: tuple[int, ...]
    outputs: int
    kept: int

    @classmethod
    def of(cls, game: Game, *, slide: bool) -> Board:
        """The board of a game; with no slide allowed unless `slide`."""
        needed = set(game.outputs)
        for v in reversed(list(game.predecessors)):
            if v in needed:
                needed.update(game.predecessors[v])
        vertices = tuple(v for v in game.predecessors if v in needed)
        bit = {v: 1 << i for i, v in enumerate(vertices)}
        return cls(
            vertices,
            tuple(sum(bit[u] for u in game.predecessors[v]) for v in vertices),
            tuple(
                sum(bit[u] for u in game.predecessors[v] if slide and game.may_slide(u, v))
                for v in vertices
            ),
            tuple(game.weights[v] for v in vertices),
            sum(bit[v] for v in game.outputs),
            sum(bit[v] for v in game.kept if v in needed),
        )

    @cached_property
    def successors(self) -> tuple[int, ...]:
        """Successors of each vertex."""
        after = [0] * len(self.vertices)
        for v, before in enumerate(self.before):
            for u in bits(before):
                after[u] |= 1 << v
        return tuple(after)

    @cached_property
    def closures(self) -> tuple[int, ...]:
        """Each vertex with all that lead to it."""
        closures: list[int] = []
        for v, before in enumerate(self.before):
            mask = 1 << v
            for u in bits(before):
                mask |= closures[u]
            closures.append(mask)
        return tuple(closures)

    @cached_property
    def floor(self) -> int:
        """A space that no strategy goes below: every vertex must once be made."""
        floor = 0
        for v, before in enumerate(self.before):
            held = self.weight(before)
            saved = max((self.weights[u] for u in bits(self.slides[v])), default=0)
            floor = max(floor, held, held + self.weights[v] - saved)
        return floor

    def weight(self, mask: int) -> int:
        """The weight of a set of pebbles."""
        return sum(self.weights[v] for v in bits(mask))

    def useful_vertices(self, visited: int) -> int:
        """What may still help to reach the outputs that are not `visited`, and what is kept."""
        mask = self.kept
        for v in bits(self.outputs & ~visited):
            mask |= self.closures[v]
        return mask

    def make(self, v: int, source: int | None) -> Move:
        """The move that pebbles `v`, from `source` if that is given."""
        if source is None:
            return Place(self.vertices[v])
        return Slide(self.vertices[source], self.vertices[v])

    def remove(self, mask: int) -> Iterator[Move]:
        """The moves that take the pebbles of `mask` away."""
        return (Remove(self.vertices[v]) for v in bits(mask))


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones, from the lowest."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
