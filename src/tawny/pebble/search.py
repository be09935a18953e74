"""The two exact searches: least time within a space, and least space pebbling each vertex once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from tawny.pebble.board import Board, bits
from tawny.pebble.game import Move, Remove


class Making(NamedTuple):
    """The placing of a pebble on a vertex: what is removed first, and whose pebble slides."""

    vertex: int
    source: int | None
    removed: int


def least_time(board: Board, space: int, most: int | None = None) -> tuple[Move, ...] | None:
    """A quickest strategy within `space`, of time at most `most`; None if there is none.

    Dijkstra over (pebbled set, outputs visited) with two savings that lose nothing.  Removals cost
    nothing and more pebbles never hurt, so a pebble is removed only to make room for a placement
    or when it has become useless.  States are taken in the order of time spent plus the number of
    vertices that must still be made, which one placement lowers by at most one (A*).
    """
    n = len(board.vertices)
    low = (1 << n) - 1
    useful: dict[int, int] = {}
    remaining = _remaining(board)
    spent = {0: 0}
    came: dict[int, tuple[int, Making]] = {}
    done: set[int] = set()
    first = remaining(0, 0)
    queue: list[list[int]] = [[] for _ in range(first + 1)]
    queue[first].append(0)
    estimate = first
    while estimate < len(queue) and (most is None or estimate <= most):
        if not queue[estimate]:
            estimate += 1
            continue
        state = queue[estimate].pop()
        if state in done:
            continue
        done.add(state)
        pebbled, visited = state & low, state >> n
        if visited == board.outputs:
            return _retrace(board, state, came)
        if visited not in useful:
            useful[visited] = board.useful_vertices(visited)
        time = spent[state] + 1
        for v in bits(useful[visited] & ~pebbled):
            seen = visited | (board.outputs & 1 << v)
            if seen not in useful:
                useful[seen] = board.useful_vertices(seen)
            for making in _makings(board, pebbled, v, space):
                held = (pebbled & ~making.removed | 1 << v) & useful[seen]
                if making.source is not None:
                    held &= ~(1 << making.source)
                target = held | seen << n
                if time < spent.get(target, time + 1):
                    spent[target] = time
                    came[target] = (state, making)
                    total = time + remaining(held, seen)
                    while len(queue) <= total:
                        queue.append([])
                    queue[total].append(target)
    return None


def _remaining(board: Board) -> Callable[[int, int], int]:
    """How many vertices must still be made, at least, from a state."""
    rows = [(1 << v, before) for v, before in reversed(list(enumerate(board.before)))]

    def remaining(pebbled: int, visited: int) -> int:
        needed = board.outputs & ~visited
        for one, before in rows:
            if needed & one and not pebbled & one:
                needed |= before
        return (needed & ~pebbled).bit_count()

    return remaining


def _makings(board: Board, pebbled: int, v: int, space: int) -> Iterator[Making]:
    """The ways to pebble `v` within `space`, removing no more than is necessary."""
    before = board.before[v]
    if before & ~pebbled:
        return
    excess = board.weight(pebbled) + board.weights[v] - space
    if excess <= 0:
        yield Making(v, None, 0)
        return
    idle = [u for u in bits(pebbled & ~before & ~board.kept) if board.weights[u]]
    idle.sort(key=board.weights.__getitem__, reverse=True)
    for removed in _covers(board, idle, excess):
        yield Making(v, None, removed)
    for u in bits(board.slides[v]):
        for removed in _covers(board, idle, excess - board.weights[u]):
            yield Making(v, u, removed)


def _covers(board: Board, idle: list[int], excess: int) -> Iterator[int]:
    """The sets of `idle` pebbles, heaviest first, that weigh at least `excess`, none to spare.

    Taken from the heaviest down, a set is complete as soon as it weighs enough: its last and
    lightest member was then needed, and so were the others.
    """
    stack = [(0, 0, excess)]
    while stack:
        chosen, start, missing = stack.pop()
        if missing <= 0:
            yield chosen
            continue
        stack += [
            (chosen | 1 << idle[k], k + 1, missing - board.weights[idle[k]])
            for k in range(start, len(idle))
        ]


def _retrace(board: Board, state: int, came: dict[int, tuple[int, Making]]) -> tuple[Move, ...]:
    """The moves that lead to `state`."""
    low = (1 << len(board.vertices)) - 1
    rounds: list[list[Move]] = []
    while state in came:
        origin, (v, source, removed) = came[state]
        held = origin & low & ~removed | 1 << v
        if source is not None:
            held &= ~(1 << source)
        useless = held & ~state
        moves = [*board.remove(removed), board.make(v, source), *board.remove(useless)]
        rounds.append(moves)
        state = origin
    return _without_final_removals([move for moves in reversed(rounds) for move in moves])


def _without_final_removals(moves: list[Move]) -> tuple[Move, ...]:
    """The moves up to the last placement: removals after it serve nothing."""
    while moves and isinstance(moves[-1], Remove):
        moves.pop()
    return tuple(moves)


class Turn(NamedTuple):
    """Pebbling one vertex when each is pebbled once and dead pebbles are removed."""

    vertex: int
    source: int | None
    dying: int
    """Pebbles that nothing needs afterwards, the slid one excepted."""
    highest: int
    """The weight while it is made."""
    weight: int
    """The weight after it is made."""


def least_space_once(board: Board) -> tuple[Move, ...]:
    """A strategy of least space among those that pebble each vertex once.

    The set of vertices that are made says which pebbles are still needed, so the search is over
    those sets, by the highest weight on the way.  A turn that ends no heavier than it began and
    goes no higher than what is already accepted is taken at once: nothing is lost by it.
    """
    every = (1 << len(board.vertices)) - 1
    came: dict[int, tuple[int, Turn]] = {}
    best = {0: board.floor}
    heap = [(board.floor, 0, 0, 0)]
    while heap:
        peak, _, made, weight = heappop(heap)
        if best[made] < peak:
            continue
        if made == every:
            break
        turns = [_turn(board, made, weight, v) for v in _ready_vertices(board, made)]
        safe = next((t for t in turns if t.highest <= peak and t.weight <= weight), None)
        for turn in turns if safe is None else (safe,):
            target, top = made | 1 << turn.vertex, max(peak, turn.highest)
            if top < best.get(target, top + 1):
                best[target] = top
                came[target] = (made, turn)
                heappush(heap, (top, -target.bit_count(), target, turn.weight))
    moves: list[list[Move]] = []
    made = every
    while made:
        made, (v, source, dying, _, _) = came[made]
        moves.append([board.make(v, source), *board.remove(dying)])
    return _without_final_removals([move for turn in reversed(moves) for move in turn])


def _ready_vertices(board: Board, made: int) -> list[int]:
    """Vertices not made whose predecessors are."""
    return [v for v, before in enumerate(board.before) if not before & ~made and not made >> v & 1]


def _turn(board: Board, made: int, weight: int, v: int) -> Turn:
    """What pebbling `v` does when `made` are made and `weight` is on the board."""
    weights, after, done = board.weights, board.successors, made | 1 << v
    dying = [u for u in bits(board.before[v] & ~board.kept) if not after[u] & ~done]
    slidable = [u for u in dying if board.slides[v] >> u & 1]
    source = max(slidable, key=weights.__getitem__, default=None)
    highest = weight + weights[v] - (0 if source is None else weights[source])
    gone = sum(1 << u for u in dying if u != source)
    if not after[v] and not board.kept >> v & 1:
        gone |= 1 << v
    return Turn(v, source, gone, highest, highest - board.weight(gone))
