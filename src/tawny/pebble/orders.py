"""Pebbling each vertex once, in a given order: the report's way to a strategy of least time."""

from __future__ import annotations

from collections.abc import Iterable

from tawny.errors import value_error
from tawny.pebble.game import Game, Move, Place, Remove, Slide, Vertex


def postorder(game: Game) -> tuple[Vertex, ...]:
    """The report's order: depth first from the outputs, each vertex after its predecessors."""
    done: dict[Vertex, None] = {}
    for output in game.outputs:
        stack = [(output, iter(game.predecessors[output]))]
        while stack:
            v, rest = stack[-1]
            if v in done:
                stack.pop()
                continue
            u = next((u for u in rest if u not in done), None)
            if u is None:
                done[v] = None
                stack.pop()
            else:
                stack.append((u, iter(game.predecessors[u])))
    return tuple(done)


def in_order(
    game: Game, order: Iterable[Vertex] | None = None, *, slide: bool = True
) -> tuple[Move, ...]:
    """Pebble each vertex of `order` once, in place where possible, removing what is not read again.

    `order` is the report's, `postorder(game)`, unless given.
    """
    sequence = postorder(game) if order is None else tuple(order)
    last: dict[Vertex, Vertex] = {}
    for v in sequence:
        if v not in game.predecessors:
            raise value_error("pebble.in_order", f"{v!r} is no vertex of the graph")
        for u in game.predecessors[v]:
            if u not in last:
                raise value_error("pebble.in_order", f"{v!r} comes before its predecessor {u!r}")
            last[u] = v
        if v in last:
            raise value_error("pebble.in_order", f"{v!r} occurs twice; each vertex is pebbled once")
        last[v] = v
    moves: list[Move] = []
    for v in sequence:
        dying = [u for u in game.predecessors[v] if last[u] == v and u not in game.kept]
        slidable = [u for u in dying if slide and game.may_slide(u, v)]
        if slidable:
            source = max(slidable, key=game.weights.__getitem__)
            dying.remove(source)
            moves.append(Slide(source, v))
        else:
            moves.append(Place(v))
        if last[v] == v and v not in game.kept:
            dying.append(v)
        moves += map(Remove, dying)
    return tuple(moves)
