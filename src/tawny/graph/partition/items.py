"""What a partition hands out: the nodes of a graph, with their variables, readers and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tawny.engine.lowering import PROCESSOR, is_leaf
from tawny.node import Node, Part, Variable, toposort
from tawny.op import nbytes
from tawny.shape import size


class Weight(NamedTuple):
    """The cost of an item to the worker that has it."""

    seconds: float
    """The time of an ordinary processor, which says what is more and what is less."""
    bytes: int


class Items:
    """The nodes to hand out: those that compute, and the variables that updates change.

    Inputs, constants and views of them are everywhere they are read.
    """

    def __init__(self, results: Sequence[Node], updates: Mapping[Node, Node]) -> None:
        self.updates: Final = updates
        """What each variable becomes."""
        order = toposort(results)
        self._free: dict[Node, Node] = {}
        """Leaves, and views of leaves, each with its leaf."""
        for node in order:
            root = node if is_leaf(node) else self._leaf_of_view(node)
            if root is not None:
                self._free[node] = root
        self.nodes: Final = [node for node in order if node not in self._free]
        """Nodes that compute, inputs first."""
        self.all: Final = [*updates, *self.nodes]
        self.reads: Final = {node: self._read_by(node) for node in self.nodes}
        """For each node the items, inputs and constants that it reads, each once."""
        self.readers: Final[dict[Node, list[Node]]] = {item: [] for item in self.all}
        for node, read in self.reads.items():
            for source in read:
                if source in self.readers:
                    self.readers[source].append(node)
        self.units: Final = self._find_units()

    def _leaf_of_view(self, node: Node) -> Node | None:
        is_view = node.op.facts().view and len(node.inputs) == 1
        return self._free.get(node.inputs[0]) if is_view else None

    def _read_by(self, node: Node) -> list[Node]:
        return [*dict.fromkeys([self.source(given) for given in node.inputs])]

    def source(self, node: Node) -> Node:
        """The item, input or constant that a node is, or is a view of."""
        return self._free.get(node, node)

    def is_free(self, node: Node) -> bool:
        """Whether the node is no item of its own, but made wherever it is read."""
        return node in self._free

    def _find_units(self) -> dict[Node, Node]:
        """For each item the first of those that must be together with it.

        An op with several results and its parts; a view and what it is of; a variable and what it
        becomes.
        """
        leader: dict[Node, Node] = {item: item for item in self.all}

        def find(item: Node) -> Node:
            while leader[item] is not item:
                leader[item] = leader[leader[item]]
                item = leader[item]
            return item

        position = {item: number for number, item in enumerate(self.all)}

        def join(one: Node, other: Node) -> None:
            first, second = sorted((find(one), find(other)), key=position.__getitem__)
            leader[second] = first

        for node in self.nodes:
            if node.op.facts().view or isinstance(node.op, Part):
                join(node, node.inputs[0])
        for variable, source in self.updates.items():
            found = self.source(source)
            if found in leader:
                join(variable, found)
        return {item: find(item) for item in self.all}

    def weight(self, item: Node) -> Weight:
        """What an item costs."""
        if isinstance(item.op, Variable):
            return Weight(0.0, value_bytes(item))
        cost = item.cost()
        moved = cost.bytes_written  # what is read lies in a cache, or is part of the same loop
        seconds = max(cost.operations / PROCESSOR.operations, moved / PROCESSOR.bandwidth)
        return Weight(seconds, 0 if item.op.facts().view else value_bytes(item))


def value_bytes(node: Node) -> int:
    """Bytes of all results of a node."""
    if node.parts:
        return sum([nbytes(kind) for kind in node.parts])
    return size(node.shape) * int(node.dtype.itemsize)
