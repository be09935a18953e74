"""What no order of the steps can do without, found by looking at few of them.

While a step runs, whatever the order, all is there that steps before it leave to steps after it.
That is much where a graph is narrow: between the forward and the backward half of a training step
everything waits that the first leaves to the second.  No step needs more than in a given order, so
those are looked at that need most there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Final

from tawny.memory.ordering.model import KEPT, Model

ASKED: Final = 4
"""So many steps are looked at."""


def least_peak(model: Model, order: Sequence[int], needs: Sequence[int], least: int) -> int:
    """Bytes that every order needs, as far as the fullest steps of one of them tell.

    `needs` are the bytes that are there while each step of it runs; `least` is what every order is
    known to need.
    """
    for need, step in nlargest(ASKED, zip(needs, order, strict=True)):
        if need <= least:
            break
        least = max(least, around(model, step))
    return least


def around(model: Model, step: int) -> int:
    """Bytes that are there while a step runs, whatever the order."""
    before, after = reached(model.predecessors, step), reached(model.successors, step)
    read = {c for s in after for c in model.reads[s]}.union(model.reads[step])
    made = [c for s in before for c in model.outputs[s]]
    held = sum([model.size[c] for c in made if c in read or model.readers[c] >= KEPT])
    return model.base + held + model.made[step] - model.saved(step, model.reads[step])


def reached(following: Sequence[Iterable[int]], start: int) -> set[int]:
    """All that follows a step, directly or not."""
    found, stack = set[int](), [start]
    while stack:
        for s in following[stack.pop()]:
            if s not in found:
                found.add(s)
                stack.append(s)
    return found
