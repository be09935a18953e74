"""A smaller model for ordering: steps that need nothing are run right before their only reader.

A step that reads nothing in the arena frees nothing, so running it early never helps: it is
*folded* into the step that reads it.  What it makes is then part of what that step needs, and the
two are run as one.  The same holds for a step that reads only what was folded into it, as long as
running all of it takes no more room than what it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tawny.memory.ordering.model import Model

WORTHWHILE = 0.005
"""A model is left as it is where no larger share of its steps can be folded."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A model whose steps stand for one or more steps of another."""

    model: Model
    members: list[tuple[int, ...]]
    """For each step those it stands for, in the order they run."""

    def unfolded(self, order: Iterable[int]) -> list[int]:
        """The order of the steps that an order stands for."""
        return [s for step in order for s in self.members[step]]


def fold(model: Model, order: Iterable[int]) -> Folded:
    """The model with all folded that can be; `order` is any order of its steps."""
    made, slides = model.made.copy(), model.slides.copy()
    inside: list[list[int]] = [[] for _ in range(len(model))]
    gone, free = bytearray(len(model)), bytearray(len(model))
    for s in order:
        before = model.predecessors[s]
        inner = [p for p in before if free[p] and _is_idle(model, p, made[p])]
        if not inner:
            free[s] = not before
            continue
        cells = {c for p in inner for c in model.outputs[p]}
        taken = [pair for pair in slides[s] if pair[0] in cells]
        if taken and len(model.outputs[s]) > 1:
            continue
        free[s] = len(inner) == len(before)
        for p in inner:
            gone[p] = True
        inside[s] = inner
        made[s] += sum([model.stays[p] for p in inner])
        if taken:
            made[s] -= model.size[taken[0][0]]
            slides[s] = ()
    left = [s for s in range(len(model)) if not gone[s]]
    if len(model) - len(left) <= len(model) * WORTHWHILE:
        return Folded(model, [(s,) for s in range(len(model))])
    return Folded(_only(model, left, made, slides), [_members(s, inside) for s in left])


def _members(step: int, inside: list[list[int]]) -> tuple[int, ...]:
    """A step and all that was folded into it, in the order they run."""
    backwards: list[int] = []
    stack = [step]
    while stack:
        backwards.append(stack.pop())
        stack += inside[backwards[-1]]
    return tuple(reversed(backwards))


def _is_idle(model: Model, p: int, made: int) -> bool:
    """Whether only one step reads what `p` makes, and nothing else needs room while it runs."""
    return (
        len(model.successors[p]) == 1
        and made == model.stays[p]
        and all(model.readers[c] == 1 for c in model.outputs[p])
    )


def _only(
    model: Model, left: list[int], made: list[int], slides: list[tuple[tuple[int, int], ...]]
) -> Model:
    """The model of some of its steps."""
    index = {s: i for i, s in enumerate(left)}
    reads: list[tuple[int, ...]] = []
    sums = [0] * len(model.size)
    within = {c for s in left for c in model.outputs[s]}
    readers = [count if c in within else 0 for c, count in enumerate(model.readers)]
    for i, s in enumerate(left):
        cells = tuple([c for c in model.reads[s] if c in within])
        for c in cells:
            sums[c] += i
        reads.append(cells)
    return Model(
        [tuple([index[p] for p in model.predecessors[s] if p in index]) for s in left],
        [[index[t] for t in model.successors[s]] for s in left],
        reads,
        [made[s] for s in left],
        [model.stays[s] for s in left],
        [slides[s] for s in left],
        model.size,
        readers,
        sums,
        [model.outputs[s] for s in left],
        model.base,
    )
