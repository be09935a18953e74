"""The largest problem that fits: sizes bisected over plans, nothing allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tawny.errors import type_error, value_error
from tawny.graph.graph import Graph
from tawny.memory.budget import MemoryBudgetError


def largest(
    make: Callable[[int], Graph], memory: str | int, *, limit: int = 2**40, **options: Any
) -> int:
    """The largest n for which `make(n)` can be planned within `memory`.

    `make` must need more memory for larger n.  `options` are those of `Graph.plan`.
    """
    fits = 0
    refused: MemoryBudgetError | None = None
    size = 1
    while size <= limit:
        refused = _refusal(make, size, memory, options)
        if refused is not None:
            break
        fits, size = size, size * 2
    if not fits and refused is not None:
        raise refused
    if refused is None:
        raise value_error(
            "largest", f"size {limit} still fits in {memory}; does the graph grow with n?"
        )
    low, high = fits, size
    while high - low > 1:
        middle = (low + high) // 2
        if _refusal(make, middle, memory, options) is None:
            low = middle
        else:
            high = middle
    return low


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
