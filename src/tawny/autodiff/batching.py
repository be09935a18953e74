"""Graphs applied to a batch at once.

Nodes that depend on what is batched get one more axis, the first, along which the batch lies: see
`Op.batch`.  An op that cannot be written with one more axis is applied to each of the batch by
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawny.node import Node, Part, make, part, source_scope, toposort
from tawny.op import BatchOperand, Elementwise
from tawny.ops.indexing import Slice
from tawny.ops.joining import Concat
from tawny.ops.movement import align_batch, batch_size, broadcast_node, reshape_node


def batch(results: Sequence[Node], batches: Mapping[Node, Node]) -> list[Node]:
    """The batch of each result, given the `batches` of one size that take the place of some nodes.

    A batch lies along axis 0; what is in no batch is the same for all, results too.
    """
    made = dict(batches)
    several: dict[Node, Sequence[Node]] = {}
    (size,) = {b.shape[0] for b in batches.values()}
    for node in toposort(results, batches.__contains__):
        if node in made or not any(x in made or x in several for x in node.inputs):
            continue
        with source_scope(node.sources):
            if isinstance(node.op, Part):
                made[node] = several[node.inputs[0]][node.op.index]
                continue
            values = _apply(node, [BatchOperand(made.get(x, x), x in made) for x in node.inputs])
            if node.parts:
                several[node] = values
            else:
                (made[node],) = values
    return [made[r] if r in made else broadcast_node(r, (size, *r.shape)) for r in results]


def _apply(node: Node, operands: Sequence[BatchOperand]) -> Sequence[Node]:
    """The results of a node of other operands, some of them batched."""
    if isinstance(node.op, Elementwise):
        rank = len(node.shape)
        return [make(node.op, tuple([align_batch(x, rank) for x in operands]))]
    found = node.op.batch(operands)
    if found is None:
        return _apply_to_each(node, operands)
    return [part(found, i) for i in range(len(found.parts))] if node.parts else [found]


def _apply_to_each(node: Node, operands: Sequence[BatchOperand]) -> list[Node]:
    """The op applied to each of the batch; each of its results stacked."""
    kinds = node.parts or ((node.shape, node.dtype),)
    rows: list[list[Node]] = [[] for _ in kinds]
    for i in range(batch_size(operands)):
        one = make(node.op, tuple([_row(x, i) if batched else x for x, batched in operands]))
        for index, row in enumerate(rows):
            value = part(one, index) if node.parts else one
            row.append(reshape_node(value, (1, *value.shape)))
    return [make(Concat(0), tuple(row)) for row in rows]


def _row(x: Node, i: int) -> Node:
    ranges = ((i, 1, 1), *((0, n, 1) for n in x.shape[1:]))
    return reshape_node(make(Slice(ranges), (x,)), x.shape[1:])
