"""What blocks of results need, followed back through the graph, and the graph of such a block.

Followed back from a block, every node is computed on the boxes that are asked of it.  Blocks whose
boxes lie alike have the same graph, which is then made once: where they begin comes as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from tawny import dtype as dt
from tawny.array import wrap
from tawny.distributed.blocks.boxes import Box, box_shape, covers, merge, relative
from tawny.distributed.blocks.cuts import Cut, Read, whole_cut
from tawny.distributed.blocks.rules import rule_of
from tawny.graph.graph import Graph
from tawny.node import Constant, Node, make, part, source_scope, variable
from tawny.ops.indexing import Slice


class BlockRecipe(NamedTuple):
    """The computation of a block: what is read, in order, and what is made of it."""

    key: Hashable
    """Equal for blocks that have the same graph."""
    reads: tuple[Read, ...]
    """What is read of other stages and of what was given."""
    numbers: tuple[int, ...]
    boxes: Mapping[Node, list[Box]]
    """What is read or computed of each node, readers first."""
    make_graph: Callable[[str], Graph]
    """The graph, by its name: of what is read, and the numbers."""


Instance = tuple[Node, Box]


def is_inline(node: Node) -> bool:
    """Whether a node is a number that is part of the program."""
    return type(node.op) is Constant and not node.shape


def cut_node(node: Node, box: Box) -> Cut:
    """The cut of a node, by its rule or whole."""
    source = node.inputs[0] if node.inputs else None
    if source is not None and source.parts:  # one of several results
        of = whole_cut(source)
        index: int = getattr(node.op, "index", 0)

        def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
            return (part(of.build(nodes)[0], index),)

        return of._replace(key=(node.op, of.key), build=build)
    rule = rule_of(node)
    return whole_cut(node) if rule is None else rule.cut(node, box)


def plan_block(
    outputs: Sequence[Cut], leaves: set[Node], position: Mapping[Node, int]
) -> BlockRecipe:
    """Follow outputs back to `leaves`; `position` is the order of the graph's nodes."""
    demands: dict[Node, list[Box]] = {}
    waiting: list[tuple[int, Node]] = []

    def ask(reads: Sequence[Read]) -> None:
        for node, box in reads:
            if node not in demands:
                demands[node] = []
                heappush(waiting, (-position[node], node))
            demands[node].append(box)

    for cut in outputs:
        ask(cut.reads)
    boxes: dict[Node, list[Box]] = {}
    cuts: dict[Instance, Cut | None] = {}
    while waiting:
        _, node = heappop(waiting)
        boxes[node] = merge(demands[node])
        for box in boxes[node]:
            known = is_inline(node) or node in leaves
            made = cuts[node, box] = None if known else cut_node(node, box)
            if made is not None:
                ask(made.reads)
    return _summarise(outputs, boxes, cuts, position)


def _summarise(
    outputs: Sequence[Cut],
    boxes: Mapping[Node, list[Box]],
    cuts: Mapping[Instance, Cut | None],
    position: Mapping[Node, int],
) -> BlockRecipe:
    def place(read: Read) -> tuple[int, int, Box]:
        node, box = read
        known = boxes[node]
        number = 0 if len(known) == 1 else _covering(known, box)
        return position[node], number, relative(box, known[number])

    key: list[Hashable] = []
    reads: list[Read] = []
    numbers: list[int] = []
    for (node, box), cut in cuts.items():
        if cut is None:
            key.append((position[node], box_shape(box)))
            if not is_inline(node):
                reads.append((node, box))
            continue
        numbers += cut.numbers
        key.append((position[node], box_shape(box), cut.key, tuple(map(place, cut.reads))))
    for cut in outputs:
        numbers += cut.numbers
        key.append((cut.key, tuple(map(place, cut.reads))))

    def make_graph(name: str) -> Graph:
        return _build(name, outputs, boxes, cuts, reads)

    return BlockRecipe(tuple(key), tuple(reads), tuple(numbers), boxes, make_graph)


def _covering(known: Sequence[Box], box: Box) -> int:
    """The number of the first box around another."""
    return next(k for k, own in enumerate(known) if covers(own, box))


def _build(
    name: str,
    outputs: Sequence[Cut],
    boxes: Mapping[Node, list[Box]],
    cuts: Mapping[Instance, Cut | None],
    reads: Sequence[Read],
) -> Graph:
    """The graph of a block: its inputs are what is read, then the numbers, in order."""
    built: dict[Instance, Node] = {}
    inputs: list[Node] = []
    for number, (node, box) in enumerate(reads):
        with source_scope(node.sources):
            inputs.append(variable(f"x{number}", box_shape(box), node.dtype))
        built[node, box] = inputs[-1]
    order = [*[(at, cut) for at, cut in cuts.items() if cut is not None]]
    integers: dict[int, list[Node]] = {}
    for cut in (*[cut for _, cut in order], *outputs):
        own = [variable(f"n{len(inputs) + k}", (), dt.INT64) for k in range(len(cut.numbers))]
        integers[id(cut)] = own
        inputs += own

    def fetch(read: Read) -> Node:
        node, box = read
        if is_inline(node):
            return node
        whole = boxes[node][_covering(boxes[node], box)]
        if whole == box:
            return built[node, box]
        ranges = tuple([(a, b - a, 1) for a, b in relative(box, whole)])
        return make(Slice(ranges), (built[node, whole],))

    for (node, box), cut in reversed(order):
        with source_scope(node.sources):
            operands = [fetch(read) for read in cut.reads]
            (built[node, box],) = cut.build([*operands, *integers[id(cut)]])
    results: list[Node] = []
    for cut in outputs:
        results += cut.build([*[fetch(read) for read in cut.reads], *integers[id(cut)]])
    return Graph([wrap(x) for x in inputs], list(map(wrap, results)), name=name, unused="ignore")
