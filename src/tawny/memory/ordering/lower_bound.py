"""A lower bound of the peak of every order, found by looking at a few steps.

While a step runs, whatever the order, all is there that steps before it leave to steps after it.
That is much where a graph is narrow: between the forward and the backward half of a training step
everything waits that the first leaves to the second.  No step needs more than in a given order, so
those are looked at that need most there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Final

from tawny.memory.ordering.model import KEPT, OrderingModel

STEPS_EXAMINED: Final = 4
"""The number of steps that are looked at: each costs a walk over the whole graph."""


def peak_lower_bound(
    model: OrderingModel, order: Sequence[int], needs: Sequence[int], least: int
) -> int:
    """Bytes that every order needs, as the fullest steps of one order show.

    `needs` are the bytes that are live while each step of that order runs; `least` is a lower
    bound that is known already.
    """
    for need, step in nlargest(STEPS_EXAMINED, zip(needs, order, strict=True)):
        if need <= least:
            break
        least = max(least, bytes_around(model, step))
    return least


def bytes_around(model: OrderingModel, step: int) -> int:
    """Bytes that are live while a step runs, whatever the order."""
    before, after = reachable(model.predecessors, step), reachable(model.successors, step)
    read = {c for s in after for c in model.reads[s]}.union(model.reads[step])
    made = [c for s in before for c in model.outputs[s]]
    held = sum([model.size[c] for c in made if c in read or model.readers[c] >= KEPT])
    return (
        model.pinned_bytes
        + held
        + model.bytes_written[step]
        - model.in_place_savings(step, model.reads[step])
    )


def reachable(following: Sequence[Iterable[int]], start: int) -> set[int]:
    """The steps that can be reached from a step, itself left out."""
    found, stack = set[int](), [start]
    while stack:
        for s in following[stack.pop()]:
            if s not in found:
                found.add(s)
                stack.append(s)
    return found
