"""Graphs whose pebbling is known: the report's two figures and the classical families."""

from __future__ import annotations

from itertools import pairwise

from tawny.errors import value_error
from tawny.pebble.game import Game, Vertex


def figure_2() -> Game:
    """The graph of the report's Figures 1 and 2: `sin((2 - x1) * x3)`."""
    return Game.from_edges([(0, 2), (1, 2), (2, 4), (3, 4), (4, 5)])


def figure_3() -> Game:
    """The graph of the report's Figure 3: least space and least time exclude each other."""
    return Game.from_edges([(0, 1), (1, 2), (2, 4), (3, 4), (4, 5), (1, 5)])


def chain(n: int) -> Game:
    """`n` vertices 0, 1, ... in a row."""
    _at_least("chain", "n", n, 1)
    return Game.of({v: [v - 1] if v else [] for v in range(n)})


def binary_tree(height: int) -> Game:
    """A complete binary tree; vertex (level, index), the root at level 0 is the output."""
    _at_least("binary_tree", "height", height, 0)
    return Game.of(
        {
            (level, i): [(level + 1, 2 * i), (level + 1, 2 * i + 1)] if level < height else []
            for level in range(height + 1)
            for i in range(2**level)
        }
    )


def pyramid(height: int) -> Game:
    """Rows of height + 1, ..., 2, 1 vertices, each on two neighbours; vertex (row, index)."""
    _at_least("pyramid", "height", height, 0)
    return Game.of(
        {
            (row, i): [(row - 1, i), (row - 1, i + 1)] if row else []
            for row in range(height + 1)
            for i in range(height + 1 - row)
        }
    )


def grid(k: int) -> Game:
    """A `k` by `k` grid; vertex (i, j) follows (i - 1, j) and (i, j - 1)."""
    _at_least("grid", "k", k, 1)
    return Game.of(
        {
            (i, j): [u for u in ((i - 1, j), (i, j - 1)) if min(u) >= 0]
            for i in range(k)
            for j in range(k)
        }
    )


def fft(k: int) -> Game:
    """The butterflies of an FFT of 2**k points; vertex (level, index), every result an output."""
    _at_least("fft", "k", k, 0)
    return Game.of(
        {
            (level, i): [(level - 1, i), (level - 1, i ^ 1 << level - 1)] if level else []
            for level in range(k + 1)
            for i in range(2**k)
        }
    )


def backprop_chain(n: int) -> Game:
    """A training step of `n` layers: f1 ... fn, loss, dloss, bn ... b1.

    Each backward vertex b_i reads the one before it and what its layer made, f_i.
    """
    _at_least("backprop_chain", "n", n, 1)
    forward: list[Vertex] = [f"f{i}" for i in range(1, n + 1)]
    backward: list[Vertex] = [f"b{i}" for i in range(n, 0, -1)]
    row: list[Vertex] = [*forward, "loss", "dloss", *backward]
    return Game.from_edges([*pairwise(row), *zip(reversed(forward), backward, strict=True)])


def _at_least(family: str, name: str, value: int, least: int) -> None:
    if value < least:
        raise value_error(f"pebble.{family}", f"{name} is {value}; it must be at least {least}")
