"""How long values live in the order a flow is written, and what moving a step would cost.

The planner chooses its own order later; this one says which values are far apart.  Running a step
later keeps what it reads alive longer, and what it makes is not there before; running it earlier
does the opposite.  Where other steps run in between, this is allowed only when it keeps no more
bytes than it saves, so that no step sees more bytes alive than before.  A little more is allowed,
at any step no more than a small part of the peak: small arrays may be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tawny.node import Constant, Node, Part, Variable
from tawny.op import Elementwise
from tawny.shape import size

FARTHEST: Final = 512
"""Steps of the order, at most, that a small array is kept longer.  It bounds the time to build."""

SPARE: Final = 1 / 32
"""The part of the peak of the flow, in its given order, that may be added at any step.

Chosen by hand: it trades a few bytes for fewer steps.
"""


def is_leaf(node: Node) -> bool:
    """Whether the value is there before the run and takes no memory of the run."""
    return type(node.op) in _LEAVES or (node.value is not None and not node.volatile)


_LEAVES: Final = frozenset({Variable, Constant})


class Lifetimes:
    """For each node of an order, by its place: whose memory it is in, of how many bytes, how long.

    `owner[i]` is the node whose memory holds the value of node `i`: another one for views.
    `last[i]` is the last node that reads memory owned by `i`, past the end for outputs.
    `bytes[i]` is 0 for what takes no memory of the run: views, and leaves, which `leaf[i]` tells.
    """

    def __init__(self, order: Sequence[Node], outputs: Iterable[Node]) -> None:
        self.index = index = {node: i for i, node in enumerate(order)}
        self.leaf = [is_leaf(node) for node in order]
        self.reads: list[list[int]] = [
            [] if leaf else [index[source] for source in node.inputs]
            for node, leaf in zip(order, self.leaf, strict=True)
        ]
        """The places of what each node reads."""
        count = len(order)
        self.owner = owner = list(range(count))
        self.last = last = list(range(count))
        self.bytes = held = [0] * count
        for i, node in enumerate(order):
            if self.leaf[i]:
                continue
            for k in self.reads[i]:
                last[owner[k]] = i
            if type(node.op) is not Elementwise and node.op.facts().view:
                owner[i] = owner[self.reads[i][0]]
            else:
                held[i] = bytes_of(node)
        for node in outputs:
            last[owner[index[node]]] = count
        self._spare = int(SPARE * self._peak(order))
        self._added = [0] * count

    def _peak(self, order: Sequence[Node]) -> int:
        """The most bytes alive while a step runs, each elementwise op in place where it can."""
        last, held, owner = self.last, self.bytes, self.owner
        dead = [False] * len(order)
        alive = most = 0
        for i, node in enumerate(order):
            own = held[i]
            alive += own
            freed = reused = 0
            for read in self.reads[i]:
                k = owner[read]
                if last[k] == i and not dead[k]:
                    dead[k] = True
                    freed += held[k]
                    if held[k] == own and type(node.op) is Elementwise:
                        reused = own
            most = max(most, alive - reused)
            alive -= freed
        return most

    def bytes_kept_until(self, values: Iterable[int], until: int) -> int:
        """Bytes behind `values` that nothing else reads at step `until` or later."""
        owners = {self.owner[v] for v in values}
        return sum([self.bytes[k] for k in owners if self.last[k] < until])

    def reserve(self, extra: int, start: int, stop: int) -> bool:
        """Whether `extra` bytes more may be alive from `start` to `stop`; if so, they are noted."""
        if extra <= 0:
            return True
        if extra > self._spare or stop - start > FARTHEST:
            return False
        added = self._added[start:stop]
        if max(added, default=0) + extra > self._spare:
            return False
        self._added[start:stop] = [bytes + extra for bytes in added]
        return True


def bytes_of(node: Node) -> int:
    """Bytes of all results of a node."""
    if node.parts:
        return sum(size(s) * d.itemsize for s, d in node.parts)
    return size(node.shape) * node.dtype.itemsize


def owner(node: Node) -> Node:
    """The node whose memory holds the value of one that may be a view."""
    while not is_leaf(node) and node.op.facts().view and not isinstance(node.op, Part):
        node = node.inputs[0]
    return node
