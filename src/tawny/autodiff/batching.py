"""Graphs applied to a batch at once.

Nodes that depend on what is batched get one more axis, the first, along which the batch lies: see
`Op.batch`.  An op that cannot be written with one more axis is applied to each of the batch by
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from tawny.array import Array, array_for, wrap
from tawny.autodiff.unbroadcast import sum_to
from tawny.dtype import DType
from tawny.node import Node, Part, make, part, source_scope, toposort, variable
from tawny.op import BatchOperand, Elementwise
from tawny.ops.differentiation import Argument, Derivative, GivenRule
from tawny.ops.indexing import Slice
from tawny.ops.joining import Concat
from tawny.ops.movement import (
    align_batch,
    batch_size,
    repeat_in_batch,
    reshape_node,
    zeros_node,
)
from tawny.shape import Shape


def batch(results: Sequence[Node], batches: Mapping[Node, Node]) -> list[Node]:
    """The batch of each result, given the `batches` of one size that take the place of some nodes.

    A batch lies along axis 0; what is in no batch is the same for all, results too.
    """
    (size,) = {b.shape[0] for b in batches.values()}
    return [repeat_in_batch(x, size) for x in batch_where_needed(results, batches)]


def batch_where_needed(results: Sequence[Node], batches: Mapping[Node, Node]) -> list[BatchOperand]:
    """Each result as `batch` gives it, or as it is where it depends on nothing in a batch."""
    made = dict(batches)
    several: dict[Node, Sequence[Node]] = {}
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
    return [BatchOperand(made.get(r, r), r in made) for r in results]


def _apply(node: Node, operands: Sequence[BatchOperand]) -> Sequence[Node]:
    """The results of a node of other operands, some of them batched."""
    kinds = node.parts or ((node.shape, node.dtype),)
    if not batch_size(operands):
        return [zeros_node((0, *shape), dtype) for shape, dtype in kinds]
    if isinstance(node.op, Elementwise):
        rank = len(node.shape)
        return [make(node.op, tuple([align_batch(x, rank) for x in operands]))]
    found = node.op.batch(operands)
    if found is None:
        return _apply_to_each(node, operands)
    if not isinstance(found, Node):
        return found
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


def stand_in(name: str, shape: Shape, dtype: DType) -> Node:
    """What stands for one of a batch in a graph that is to be applied to all of it."""
    return make(Argument(), (variable(name, shape, dtype),))


@final
class BatchedRule(GivenRule):
    """A derivative given for one call, of a batch of calls."""

    def __init__(self, rule: GivenRule, batched: Sequence[bool]) -> None:
        self.rule = rule
        self.batched = tuple(batched)
        """Which operands are batched; results are all."""

    def batch(self, batched: Sequence[bool]) -> GivenRule:
        return BatchedRule(self, batched)

    def pullback(
        self, cotangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        """What is the same for all gets the sum of their cotangents."""
        call = _ExampleCall()
        given = [call.example(x, True) for x in cotangents]
        made = self.rule.pullback(
            given, call.examples(results), call.examples(operands, self.batched)
        )
        found = call.batch(made)
        return [
            None if c is None else c if batched else _sum_batch(c, x)
            for c, x, batched in zip(found, operands, self.batched, strict=True)
        ]

    def pushforward(
        self, tangents: Sequence[Derivative], results: Sequence[Array], operands: Sequence[Array]
    ) -> list[Derivative]:
        call = _ExampleCall()
        given = [call.example(t, b) for t, b in zip(tangents, self.batched, strict=True)]
        made = self.rule.pushforward(
            given, call.examples(results), call.examples(operands, self.batched)
        )
        return call.batch(made)


class _ExampleCall:
    """Arrays that stand for one of each of some batches."""

    def __init__(self) -> None:
        self.batches: dict[Node, Node] = {}

    def example(self, x: Derivative, batched: bool) -> Derivative:
        """What stands for one of a batch; an array that is the same for all as it is."""
        if x is None or not batched:
            return x
        one = stand_in("one of a batch", x.shape[1:], x.dtype)
        self.batches[one] = x.node
        return wrap(one)

    def examples(self, arrays: Sequence[Array], batched: Sequence[bool] = ()) -> list[Array]:
        """What stands for one of each of several arrays, all of them batched unless it is said."""
        flags = batched or [True] * len(arrays)
        found = [self.example(x, b) for x, b in zip(arrays, flags, strict=True)]
        return [x for x in found if x is not None]

    def batch(self, results: Sequence[Derivative]) -> list[Derivative]:
        """The batch of each result; None stays None."""
        made = iter(batch([x.node for x in results if x is not None], self.batches))
        return [None if x is None else array_for(next(made)) for x in results]


def _sum_batch(cotangent: Array, x: Array) -> Array:
    """The sum over a batch of cotangents of what is the same for all."""
    return wrap(sum_to(cotangent.node, x.shape))
