"""Loops of a batch at once: one loop, of which each step computes the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawny.autodiff.batching import batch_where_needed
from tawny.loops.building import Inside, LoopStep, build_loop
from tawny.node import Node, toposort, variable
from tawny.op import BatchOperand
from tawny.ops.loops import ScanLoop
from tawny.ops.movement import batch_size, repeat_in_batch, transpose_node
from tawny.ops.subgraph import substitute


def batch_loop(op: ScanLoop, operands: Sequence[BatchOperand]) -> list[Node]:
    """The results of a loop for each of a batch, along axis 0."""
    body, size = op.body, batch_size(operands)
    own = body.arguments[1:]
    batched = {i for i, x in enumerate(operands) if x.batched}
    while True:
        holders = {own[i]: variable(None, (size, *own[i].shape), own[i].dtype) for i in batched}
        made = batch_where_needed(body.results, holders)
        more = {i for i in range(op.carries) if made[i].batched} - batched
        if not more:
            break
        batched |= more
    results = [x.node for x in made]
    for i in range(op.carries):
        if i in batched:
            results[i] = repeat_in_batch(made[i], size)
    given = [repeat_in_batch(x, size) if i in batched else x.node for i, x in enumerate(operands)]
    stacked = range(op.carries, op.first_shared)
    rows = [_rows_first(given[i]) if i in batched else given[i] for i in stacked]
    variables = [holders.get(x, x) for x in own]
    places: Mapping[Node, Node] = dict(
        zip(variables[op.first_shared :], given[op.first_shared :], strict=True)
    )
    written = substitute(toposort(results, places.__contains__), places)
    new = tuple([written[r] for r in results])
    step = LoopStep(
        body.arguments[0],
        tuple(variables[: op.carries]),
        tuple(variables[op.carries : op.first_shared]),
        new[: op.carries],
        new[op.carries :],
    )
    impure = [n for n in written if n.op.facts().impure and n.inputs]
    since = min([n.serial for n in body.arguments])
    loop = build_loop(
        step,
        given[: op.carries],
        rows,
        op.length,
        reverse=op.reverse,
        inside=Inside(since, [*impure, *body.impure]),
    )
    out = [repeat_in_batch(BatchOperand(x, i in batched), size) for i, x in enumerate(loop.carries)]
    for node, (_, is_batched) in zip(loop.rows, made[op.carries :], strict=True):
        whole = _rows_first(node) if is_batched else node
        out.append(repeat_in_batch(BatchOperand(whole, is_batched), size))
    return out


def _rows_first(node: Node) -> Node:
    """The first two axes exchanged: that of the batch and that of the rows."""
    return transpose_node(node, (1, 0, *range(2, len(node.shape))))
