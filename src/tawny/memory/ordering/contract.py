"""A smaller model for ordering: steps that need nothing are run right before their only reader.

A step that reads nothing in the arena frees nothing, so running it early never helps: it is
*merged* into the step that reads it.  What it makes is then part of what that step needs, and the
two are run as one.  So is a step that reads only what was merged into it, as long as running all
of it takes no more bytes than what it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tawny.memory.ordering.model import OrderingModel

SMALLEST_SHARE = 0.005
"""A model is left as it is where no larger share of its steps can be merged; chosen by hand:
a new model for fewer takes longer than it saves."""


@dataclass(frozen=True, slots=True)
class ContractedModel:
    """A model whose steps stand for one or more steps of another."""

    model: OrderingModel
    members: list[tuple[int, ...]]
    """For each step those it stands for, in the order they run."""

    def expand(self, order: Iterable[int]) -> list[int]:
        """The order of the original steps that an order of this model stands for."""
        return [s for step in order for s in self.members[step]]


def contract(model: OrderingModel, order: Iterable[int]) -> ContractedModel:
    """The model with every step merged that can be; `order` is any order of its steps."""
    made, in_place_pairs = model.bytes_written.copy(), model.in_place_pairs.copy()
    merged_into: list[list[int]] = [[] for _ in range(len(model))]
    is_merged, free = bytearray(len(model)), bytearray(len(model))
    for s in order:
        before = model.predecessors[s]
        inner = [p for p in before if free[p] and _is_mergeable(model, p, made[p])]
        if not inner:
            free[s] = not before
            continue
        instances = {c for p in inner for c in model.outputs[p]}
        overwritable = [pair for pair in in_place_pairs[s] if pair[0] in instances]
        if overwritable and len(model.outputs[s]) > 1:
            continue
        free[s] = len(inner) == len(before)
        for p in inner:
            is_merged[p] = True
        merged_into[s] = inner
        made[s] += sum([model.bytes_surviving[p] for p in inner])
        if overwritable:
            made[s] -= model.size[overwritable[0][0]]
            in_place_pairs[s] = ()
    left = [s for s in range(len(model)) if not is_merged[s]]
    if len(model) - len(left) <= len(model) * SMALLEST_SHARE:
        return ContractedModel(model, [(s,) for s in range(len(model))])
    return ContractedModel(
        _submodel(model, left, made, in_place_pairs), [_members(s, merged_into) for s in left]
    )


def _members(step: int, merged_into: list[list[int]]) -> tuple[int, ...]:
    """A step and all that was merged into it, in the order they run."""
    backwards: list[int] = []
    stack = [step]
    while stack:
        backwards.append(stack.pop())
        stack += merged_into[backwards[-1]]
    return tuple(reversed(backwards))


def _is_mergeable(model: OrderingModel, p: int, made: int) -> bool:
    """Whether only one step reads what `p` makes, and `p` needs no bytes beside that."""
    return (
        len(model.successors[p]) == 1
        and made == model.bytes_surviving[p]
        and all(model.readers[c] == 1 for c in model.outputs[p])
    )


def _submodel(
    model: OrderingModel,
    left: list[int],
    made: list[int],
    in_place_pairs: list[tuple[tuple[int, int], ...]],
) -> OrderingModel:
    """The model of the steps that are left."""
    index = {s: i for i, s in enumerate(left)}
    reads: list[tuple[int, ...]] = []
    sums = [0] * len(model.size)
    within = {c for s in left for c in model.outputs[s]}
    readers = [count if c in within else 0 for c, count in enumerate(model.readers)]
    for i, s in enumerate(left):
        instances = tuple([c for c in model.reads[s] if c in within])
        for c in instances:
            sums[c] += i
        reads.append(instances)
    return OrderingModel(
        [tuple([index[p] for p in model.predecessors[s] if p in index]) for s in left],
        [[index[t] for t in model.successors[s]] for s in left],
        reads,
        [made[s] for s in left],
        [model.bytes_surviving[s] for s in left],
        [in_place_pairs[s] for s in left],
        model.size,
        readers,
        sums,
        [model.outputs[s] for s in left],
        model.pinned_bytes,
    )
