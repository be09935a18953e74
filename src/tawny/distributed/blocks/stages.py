"""A graph over blocks as stages: each computes some results block by block, in one program.

What is stored between stages is little: what is asked for, what is folded over blocks, and what is
computed whole.  Everything else is computed inside the programs of the blocks that need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, NamedTuple, final

from tawny.distributed.blocks.boxes import (
    Box,
    Chunks,
    is_cut,
    single,
    without_empty,
)
from tawny.distributed.blocks.cuts import Cut, pass_on
from tawny.distributed.blocks.folds import BlockFold, fold_of
from tawny.distributed.blocks.lanes import LANES
from tawny.distributed.blocks.products import label_chunks, labels_of
from tawny.distributed.blocks.regions import cut_node, is_inline
from tawny.distributed.blocks.rules import rule_of
from tawny.graph.graph import Graph
from tawny.node import Constant, Node, Variable
from tawny.ops.convolution import Convolution
from tawny.ops.reduction import ArgExtremum, Reduction
from tawny.source import describe

HEAVY: Final = (*LANES, Convolution)
"""Ops that are not computed again for each stage that reads them; products are none either."""


class Root(NamedTuple):
    """A result that is stored in blocks."""

    node: Node
    grid: Chunks
    """The blocks that are computed; of a fold those that are folded."""
    fold: BlockFold | None

    def cut(self, box: Box) -> Cut:
        """What is computed of a block."""
        if self.fold is not None:
            return self.fold.part(box)
        if is_inline(self.node):
            return pass_on((self.node, box))
        return cut_node(self.node, box)

    def on_grid(self, grid: Chunks) -> Root:
        """The result as it is computed in other blocks."""
        fold = None if self.fold is None else self.fold._replace(grid=grid)
        return Root(self.node, grid, fold)

    @property
    def may_be_cut(self) -> bool:
        """Whether it may be computed in smaller blocks."""
        return self.fold is not None or rule_of(self.node) is not None

    def result_chunks(self) -> Chunks:
        """The chunks of the result."""
        if self.fold is None:
            return self.grid
        pairs = zip(self.node.shape, self.fold.kept, strict=True)
        return tuple([(n,) if a is None else self.grid[a] for n, a in pairs])


class BlockStage(NamedTuple):
    """Results of the same blocks, which are computed together."""

    roots: tuple[Root, ...]

    @property
    def grid(self) -> Chunks:
        """The blocks."""
        return self.roots[0].grid

    @property
    def block_count(self) -> float:
        """How many blocks of the size of the largest there would be."""
        return prod([sum(sizes) / max(*sizes, 1) for sizes in self.grid])


def check_repeatable(graph: Graph, op: str) -> None:
    """Refuse a graph of which a part is something else each time it is computed."""
    for node in graph.order:
        facts = node.op.facts()
        if type(node.op) is Variable or not (facts.impure or facts.volatile):
            continue
        is_random = facts.chapter == "random"
        what = "draws random numbers" if is_random else "may give something else in each run"
        way_out = (
            "draw them with dask.array.random, and give them as an argument"
            if is_random
            else "say pure=True of a function whose value depends on its operands alone"
        )
        raise ValueError(
            f"{op}: {facts.name} {what}, and blocks are computed apart, some of them again; "
            f"{way_out}  [{describe(node.sources)}]"
        )


@final
class Staging:
    """The stages of a graph whose variables come in chunks."""

    def __init__(
        self,
        graph: Graph,
        given: Mapping[Node, Chunks],
        apart: frozenset[Node] = frozenset(),
    ) -> None:
        self.order = graph.order
        self._apart = apart
        """What is stored in any case, and folded where it can be, so that blocks are smaller."""
        self.position = {node: k for k, node in enumerate(self.order)}
        self.chunks: dict[Node, Chunks] = {}
        self.folds: dict[Node, BlockFold] = {}
        self._wanted = set(graph.output_nodes)
        for node in self.order:
            self._find_chunks(node, given)
        self.consumers: dict[Node, list[Node]] = {node: [] for node in self.order}
        for node in self.order:
            for x in dict.fromkeys(node.inputs):
                self.consumers[x].append(node)
        self.stored = {node for node in self.order if self._is_stored(node)}
        self.leaves = {node for node in self.order if is_given(node)}
        self._store_heavy()
        self.roots = {node: self._root(node) for node in self.order if node in self.stored}
        self._outer: dict[tuple[Node, ...], set[Node]] = {}
        self.stages = self._group()

    # -------------------------------------------------------------------- chunks

    def _find_chunks(self, node: Node, given: Mapping[Node, Chunks]) -> None:
        if node in given:
            self.chunks[node] = tuple(map(without_empty, given[node]))
            return
        operands = [self.chunks[x] for x in node.inputs]
        fold = None if node.parts else fold_of(node, operands, node in self._apart)
        if fold is not None:
            self.folds[node] = fold
            self.chunks[node] = Root(node, fold.grid, fold).result_chunks()
            return
        rule = rule_of(node)
        self.chunks[node] = single(node.shape) if rule is None else rule.chunks(node, operands)

    # -------------------------------------------------------------------- roots

    def _is_stored(self, node: Node) -> bool:
        """Whether blocks of a node are kept for others."""
        if is_given(node) or node.parts:
            return False
        if node in self._wanted or node in self.folds or node in self._apart:
            return True
        if rule_of(node) is None and not is_inline(node):
            return True
        return any(self._reads_often(reader, node) for reader in self.consumers[node])

    def _reads_often(self, reader: Node, node: Node) -> bool:
        """Whether a product reads each block of an operand for several blocks of its result."""
        labels = labels_of(reader)
        if labels is None or not _is_computed(node):
            return False
        chunks = label_chunks(reader, labels, [self.chunks[x] for x in reader.inputs])
        own = {k for t, x in zip(labels.terms, reader.inputs, strict=True) if x is node for k in t}
        return any(len(sizes) > 1 for name, sizes in chunks.items() if name not in own)

    def _store_heavy(self) -> None:
        """Store what is costly and read by several stages."""
        reached: dict[Node, set[object]] = {}
        levels = self._levels()
        for node in reversed(self.order):
            readers: set[object] = set()
            for reader in self.consumers[node]:
                if reader in self.stored:
                    fold = self.folds.get(reader)
                    grid = self.chunks[reader] if fold is None else fold.grid
                    readers.add((levels[reader], grid))
                else:
                    readers |= reached[reader]
            reached[node] = readers
            is_heavy = isinstance(node.op, HEAVY) or labels_of(node) is not None
            if is_heavy and len(readers) > 1 and node not in self.stored:
                self.stored.add(node)

    def _levels(self) -> dict[Node, int]:
        """How many stages lie before each node's, at least."""
        levels: dict[Node, int] = {}
        for node in self.order:
            before = [levels[x] + (x in self.stored) for x in node.inputs]
            levels[node] = max(before, default=0)
        return levels

    def _root(self, node: Node) -> Root:
        fold = self.folds.get(node)
        return Root(node, self.chunks[node] if fold is None else fold.grid, fold)

    # ------------------------------------------------------------------- stages

    def leaves_of(self, node: Node) -> set[Node]:
        """What a stored node reads of other stages and of what was given."""
        found: set[Node] = set()
        met: set[Node] = set()
        waiting = list(node.inputs)
        while waiting:
            x = waiting.pop()
            if x in met:
                continue
            met.add(x)
            if x in self.stored or x in self.leaves:
                found.add(x)
            else:
                waiting.extend(x.inputs)
        return found

    def _group(self) -> list[BlockStage]:
        """Results of one level, of the same blocks, that read something in common."""
        levels = self._levels()
        groups: list[tuple[tuple[int, Chunks], set[Node], list[Root]]] = []
        for node, root in self.roots.items():
            key, reads = (levels[node], root.grid), self.leaves_of(node)
            shared = {x for x in reads if is_cut(self.chunks[x])}
            for own, theirs, roots in groups:
                if own == key and shared & theirs and is_cut(root.grid):
                    theirs.update(shared)
                    roots.append(root)
                    break
            else:
                groups.append((key, shared, [root]))
        groups.sort(key=lambda group: group[0][0])  # what others read comes first
        return [BlockStage(tuple(roots)) for _, _, roots in groups]

    def inner_work(self, stage: BlockStage) -> set[Node]:
        """What a stage computes that could be a stage, or a fold, of its own."""
        inside: set[Node] = set()
        waiting = [root.node for root in stage.roots]
        outside = self.outer_values(stage)
        while waiting:
            node = waiting.pop()
            if node not in inside and node not in outside:
                inside.add(node)
                waiting.extend(node.inputs)
        roots = {root.node for root in stage.roots}
        return {
            node
            for node in inside - self._apart
            if (node in roots and node not in self.folds and _may_fold(node))
            or (node not in roots and (_may_fold(node) or isinstance(node.op, HEAVY)))
        }

    def outer_values(self, stage: BlockStage) -> set[Node]:
        """What a stage may read: all that others store, and what was given."""
        own = tuple([root.node for root in stage.roots])
        if own not in self._outer:
            self._outer[own] = (self.stored | self.leaves).difference(own)
        return self._outer[own]


def _may_fold(node: Node) -> bool:
    """Whether a node is a reduction or a product."""
    labels = labels_of(node)
    return (
        isinstance(node.op, (Reduction, ArgExtremum))
        if labels is None
        else bool(labels.summed_labels)
    )


def is_given(node: Node) -> bool:
    """Whether a node's value is there: a variable, or a constant with axes."""
    return type(node.op) is Variable or (type(node.op) is Constant and not is_inline(node))


def _is_computed(node: Node) -> bool:
    """Whether a node is more than a view of something given."""
    while node.op.facts().view and node.inputs:
        node = node.inputs[0]
    return not is_given(node) and not is_inline(node)
