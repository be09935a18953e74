"""Depth-first search for a placement within a capacity, in the order of growing offsets.

The moves and what rules them out are those of the beam search; here the best-ranked move is
followed to the end, and each partial placement is looked at once.
"""

from __future__ import annotations

import numpy

from tawny.memory.beam import Beam, Ints, Sections, Tie, grow
from tawny.memory.effort import Effort


def search(
    problem: Sections, *, tie: Tie, capacity: int, nodes: int, effort: Effort
) -> Ints | None:
    """Offsets within `capacity`; None if there are none or `nodes` were not enough."""
    count, ranks = len(problem.sizes), problem.ranks[tie]
    names = numpy.random.default_rng(0).integers(1, 1 << 40, count)
    index = numpy.arange(count)
    nothing = numpy.zeros((count, 1), problem.sizes.dtype)
    start = Beam(nothing, problem.load[:, None], nothing, numpy.zeros(1, numpy.int64))
    stack: list[tuple[int, Beam]] = [(0, start)]
    seen: set[int] = set()
    for _ in range(nodes):
        if not stack or effort.is_over:
            return None
        placed, node = stack.pop()
        if placed == count:
            return node.offsets[:, 0]
        grown = grow(problem, node, count, ranks, names)
        effort.spend(grown.looks)
        fits = numpy.flatnonzero((grown.floor + grown.rest).max(axis=0) <= capacity)
        fits = fits[numpy.lexsort((-ranks[grown.buffer[fits]], -grown.offset[fits]))]
        keys = (grown.name[fits] + names @ grown.lowest[:, fits]).tolist()
        for column, key in zip(fits.tolist(), keys, strict=True):
            if key not in seen:
                seen.add(key)
                stack.append((placed + 1, grown.chosen(node, numpy.array([column]), index)))
    return None
