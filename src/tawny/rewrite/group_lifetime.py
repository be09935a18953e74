"""How long values live in the order a flow is written, and what delaying a step would cost.

The planner chooses its own order later; this one says which values are far apart.  Running a step
later keeps what it reads alive longer, and what it makes is not there before.  That is allowed when
it keeps no more bytes than it saves, or else when the bytes kept longer would not raise the peak
of the flow as written: the most bytes alive at any step, each elementwise op done in place where
it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tawny.node import Constant, Node, Variable
from tawny.op import Elementwise, Trait
from tawny.shape import size

FARTHEST: Final = 512
"""Bytes are not kept longer for more than so many steps of the order."""


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
            if type(node.op) is not Elementwise and Trait.VIEW in node.op.facts().traits:
                owner[i] = owner[self.reads[i][0]]
            else:
                held[i] = bytes_of(node)
        for node in outputs:
            last[owner[index[node]]] = count
        self._alive = self._profile(order)
        self.peak = max(self._alive, default=0)

    def _profile(self, order: Sequence[Node]) -> list[int]:
        """The bytes alive while each step runs."""
        last, held, owner = self.last, self.bytes, self.owner
        dead = [False] * len(order)
        profile: list[int] = []
        alive = 0
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
            profile.append(alive - reused)
            alive -= freed
        return profile

    def ending(self, values: Iterable[int], until: int) -> int:
        """Bytes of memory that nothing reads after step `until`."""
        owners = {self.owner[v] for v in values}
        return sum(self.bytes[k] for k in owners if self.last[k] <= until)

    def delay(self, kept: int, saved: int, start: int, stop: int) -> bool:
        """Whether `kept` bytes may live from `start` to `stop` instead of `saved`; then they do."""
        extra = kept - saved
        if extra <= 0:
            return True
        span = slice(max(start, 0), stop + 1)
        if span.stop - span.start > FARTHEST or max(self._alive[span]) + extra > self.peak:
            return False
        self._alive[span] = [alive + extra for alive in self._alive[span]]
        return True


def bytes_of(node: Node) -> int:
    """Bytes of all results of a node."""
    if node.parts:
        return sum(size(s) * d.itemsize for s, d in node.parts)
    return size(node.shape) * node.dtype.itemsize
