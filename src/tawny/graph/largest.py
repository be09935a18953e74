"""The largest problem that fits: sizes narrowed down by plans, nothing allocated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.memory.budget import MemoryBudgetError, parse_bytes

MAX_GUESSES: Final = 8
"""The most sizes that are tried since a straight line foretells them; then sizes are bisected."""


def largest(
    make: Callable[[int], Graph], memory: str | int, *, limit: int = 2**40, **options: Any
) -> int:
    """The largest n for which a graph can be planned within `memory`; nothing is allocated.

    - `make`: a function from n to a graph, which must need more memory for larger n.
    - `memory`: the budget, `"2GB"` or bytes.
    - `limit`: the largest n to try.
    - `options`: those of `Graph.plan`.

    Raises `tw.MemoryBudgetError` where n = 1 does not fit, ValueError where every n does.

        def sums(n):
            x = tw.var("x", (n,))
            return tw.Graph([x], np.cumsum(np.cumsum(x)))

        tw.largest(sums, "160kB", incremental=False)   # -> 10000
    """
    fits, size = 0, 1
    refused: list[tuple[int, int]] = []
    while not refused and size <= limit:
        error = _refusal(make, size, memory, options)
        if error is None:
            fits, size = size, size * 2
        elif not fits:
            raise error
        else:
            refused.append((size, error.least_bytes))
    if not refused:
        raise value_error(
            "largest", f"size {limit} still fits in {memory}; does the graph grow with n?"
        )
    budget, guesses = parse_bytes(memory), MAX_GUESSES
    while refused[-1][0] - fits > 1:
        size = _interpolate(fits, refused, budget) if guesses else (fits + refused[-1][0]) // 2
        guesses = max(0, guesses - 1)
        error = _refusal(make, size, memory, options)
        if error is None:
            if size == fits + 1:  # one above what was likely fits too: no straight line
                guesses = 0
            fits = size
        else:
            refused.append((size, error.least_bytes))
    return fits


def _interpolate(fits: int, refused: Sequence[tuple[int, int]], budget: int) -> int:
    """The size at which the bytes needed pass the budget if they grow in a straight line.

    The line goes through the two smallest sizes that were refused; with one only, through nothing.
    """
    high, need = refused[-1]
    other, more = refused[-2] if len(refused) > 1 else (0, 0)
    slope = (more - need) / (other - high) if more != need else 1.0
    guess = high - math.ceil((need - budget) / slope) if slope > 0 else fits
    return min(max(guess, fits + 1), high - 1)


def _refusal(
    make: Callable[[int], Graph], size: int, memory: str | int, options: Any
) -> MemoryBudgetError | None:
    graph = make(size)
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("largest", f"make({size}) gave {type(graph).__name__}, not a Graph")
    try:
        graph.plan(memory=memory, **options)
    except MemoryBudgetError as error:
        return error
    return None
