"""The exact solver for small graphs: least time, least space, and all trade-offs between them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from tawny.errors import value_error
from tawny.pebble.board import Board
from tawny.pebble.game import Game, Move, play
from tawny.pebble.search import least_space_once, least_time

LIMIT = 16
"""The most vertices the solver takes unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """Moves that reach the goal, with what they cost."""

    space: int
    time: int
    moves: tuple[Move, ...]

    def __repr__(self) -> str:
        return f"<Strategy: space {self.space}, time {self.time}>"


def solve(
    game: Game,
    space: int | None = None,
    *,
    one_shot: bool = False,
    slide: bool = True,
    limit: int = LIMIT,
) -> Strategy:
    """A strategy of least time within `space`; within the least space possible, if None.

    With `one_shot` no vertex is pebbled twice; without `slide` nothing is computed in place.
    Exponential: a graph whose outputs need more than `limit` vertices is refused.
    """
    board = _board(game, slide, limit)
    once = _strategy(game, least_space_once(board))
    if one_shot or once.space <= board.floor:
        return _check_space(once, space)
    if space is None:
        return _smallest(game, board, once)
    if once.space <= space:
        return once
    moves = least_time(board, space)
    if moves is None:
        return _check_space(_smallest(game, board, once), space)
    return _strategy(game, moves)


def least_space(
    game: Game, *, one_shot: bool = False, slide: bool = True, limit: int = LIMIT
) -> int:
    """The least space with which the outputs can be pebbled, whatever time it takes."""
    return solve(game, one_shot=one_shot, slide=slide, limit=limit).space


def frontier(game: Game, *, slide: bool = True, limit: int = LIMIT) -> tuple[Strategy, ...]:
    """Every trade-off: strategies by growing space, each with the least time that space allows.

    The last pebbles each vertex once, and no space makes it quicker.
    """
    board = _board(game, slide, limit)
    points = [_strategy(game, least_space_once(board))]
    spaces = _spaces(board, points[0].space)
    while spaces:
        moves = least_time(board, spaces[-1])
        if moves is None:
            break
        quickest = _strategy(game, moves)
        points.append(_smallest(game, board, quickest, quickest.time))
        spaces = spaces[: bisect_left(spaces, points[-1].space)]
    return tuple(reversed(points))


def _smallest(game: Game, board: Board, best: Strategy, most: int | None = None) -> Strategy:
    """A quickest strategy in the least space that allows a time of `most`, as `best` does."""
    start, spaces = 0, _spaces(board, best.space)
    while start < len(spaces):
        middle = (start + len(spaces)) // 2
        moves = least_time(board, spaces[middle], most)
        if moves is None:
            start = middle + 1
        else:
            best = _strategy(game, moves)
            spaces = spaces[: bisect_left(spaces, best.space)]
    return best


def _spaces(board: Board, under: int) -> list[int]:
    """What pebbles can weigh together, from the floor up to less than `under`."""
    sums = {0}
    for weight in board.weights:
        sums |= {total + weight for total in sums if total + weight < under}
    return sorted(total for total in sums if board.floor <= total < under)


def _board(game: Game, slide: bool, limit: int) -> Board:
    """The board of a game small enough to be solved."""
    board = Board.of(game, slide=slide)
    if len(board.vertices) > limit:
        raise value_error(
            "pebble.solve",
            f"the outputs need {len(board.vertices)} vertices and the limit is {limit}; the time "
            f"doubles with each vertex: pass limit={len(board.vertices)} to try it all the same",
        )
    return board


def _strategy(game: Game, moves: tuple[Move, ...]) -> Strategy:
    """The strategy with the costs that playing it shows."""
    result = play(game, moves)
    return Strategy(result.space, result.time, moves)


def _check_space(best: Strategy, space: int | None) -> Strategy:
    """`best`, if `space` is none or enough."""
    if space is not None and best.space > space:
        raise value_error(
            "pebble.solve", f"space {space} is not enough; the least possible is {best.space}"
        )
    return best
