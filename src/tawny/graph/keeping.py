"""What is worth keeping from run to run, where not all of it fits: seconds saved for each byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tawny.graph.incremental import closed
from tawny.graph.lowering import result_of, seconds
from tawny.node import Node
from tawny.shape import size

MOST_WEIGHED: Final = 48
"""So few values are weighed anew whenever one of them is dropped; more are weighed once."""

MOST_ADDED: Final = 16
"""So often it is tried to keep one more value that fits by its bytes."""


def bytes_of(node: Node) -> int:
    """Bytes of a value."""
    return size(node.shape) * node.dtype.itemsize


def by_worth(
    values: Sequence[Node], always: Sequence[Node], views: Mapping[Node, Node]
) -> list[Node]:
    """Values that may be kept, those whose bytes save least first.

    What a value saves is the time of all that must run for it if it is not kept, while those after
    it and what is `always` kept are there.
    """
    kept = dict.fromkeys([*always, *values])

    def worth(node: Node) -> float:
        others = kept.keys() - {node}
        steps = closed([result_of(node)[0]], others, views)
        return sum(sorted(map(seconds, steps))) / max(1, bytes_of(node))

    if len(values) > MOST_WEIGHED:
        return sorted(values, key=worth)
    left, order = dict.fromkeys(values), list[Node]()
    while left:
        least = min(left, key=worth)
        order.append(least)
        del left[least], kept[least]
    return order


def most_kept(
    order: Sequence[Node], room: Callable[[Sequence[Node]], int | None]
) -> list[Node] | None:
    """Which values to keep of those that are ordered by worth; None if not even none of them fits.

    `room` gives the bytes that are left where some values are kept, None where they do not fit.  As
    many as fit of those that are worth most are kept; then what else fits, by its worth.
    """
    left = room(())
    if left is None:
        return None
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        found = room(order[middle:])
        if found is None:
            low = middle
        else:
            high, left = middle, found
    chosen, tries = list(order[high:]), MOST_ADDED
    for node in reversed(order[:high]):
        if bytes_of(node) <= left and tries:
            tries -= 1
            found = room([node, *chosen])
            if found is not None:
                chosen, left = [node, *chosen], found
    return chosen
