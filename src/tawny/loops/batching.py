"""Loops of a batch at once: one loop, of which each step computes the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tawny.autodiff.batching import batch_where_needed
from tawny.loops.building import Inside, LoopStep, build_loop, build_while
from tawny.node import Node, Variable, make, make_parts, scalar, toposort, variable
from tawny.op import ELEMENTWISE, BatchOperand
from tawny.ops.loops import ScanLoop, Switch, WhileLoop
from tawny.ops.movement import align_batch, batch_size, repeat_in_batch, transpose_node
from tawny.ops.reduction import AnyTrue
from tawny.ops.subgraph import Subgraph, substitute


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
    loop = build_loop(
        step,
        given[: op.carries],
        rows,
        op.length,
        reverse=op.reverse,
        inside=_inside_of(body, written),
    )
    out = [repeat_in_batch(BatchOperand(x, i in batched), size) for i, x in enumerate(loop.carries)]
    for node, (_, is_batched) in zip(loop.rows, made[op.carries :], strict=True):
        whole = _rows_first(node) if is_batched else node
        out.append(repeat_in_batch(BatchOperand(whole, is_batched), size))
    return out


def _rows_first(node: Node) -> Node:
    """The first two axes exchanged: that of the batch and that of the rows."""
    return transpose_node(node, (1, 0, *range(2, len(node.shape))))


def batch_while(op: WhileLoop, operands: Sequence[BatchOperand]) -> list[Node]:
    """The results of a loop for each of a batch: those that have ended stay as they are."""
    body, size, count = op.body, batch_size(operands), op.carries
    own = body.arguments[1:]
    flag = repeat_in_batch(operands[0], size)
    kinds = [(x.shape, x.dtype) for x in own]
    whole = [repeat_in_batch(x, size) for x in operands[1 : 1 + count]]
    shared = operands[1 + count :]
    going, *carries = [variable(None, n.shape, n.dtype) for n in (flag, *whole)]
    holders = dict(zip(own, carries, strict=False))
    places: dict[Node, Node] = {}
    for x, given, (shape, dtype) in zip(own[count:], shared, kinds[count:], strict=True):
        if given.batched:
            holders[x] = variable(None, (size, *shape), dtype)
        places[holders.get(x, x)] = given.node
    again, *new = [repeat_in_batch(x, size) for x in batch_where_needed(body.results, holders)]
    chosen = [
        make(_WHERE, (align_batch(BatchOperand(going, True), len(x.shape) - 1), x, old))
        for x, old in zip(new, carries, strict=True)
    ]
    still = make(_BOTH, (going, again))
    any_left = make(AnyTrue((0,), False), (still,))
    made = substitute(toposort([still, *chosen, any_left], places.__contains__), places)
    step = LoopStep(
        body.arguments[0],
        (going, *carries),
        (),
        (made[still], *[made[x] for x in chosen]),
        (made[any_left],),
    )
    inside = _inside_of(body, made)
    first = make(AnyTrue((0,), False), (flag,))
    return build_while(step, first, [flag, *whole], inside=inside)[1:]


def batch_switch(op: Switch, operands: Sequence[BatchOperand]) -> list[Node]:
    """The results of branches for each of a batch.

    Where each has its own branch, all branches are computed, and their results chosen from.
    """
    index, *given = operands
    size = batch_size(operands)
    rows: list[list[Node]] = []
    sources = [x.node for x in given]
    own = [variable(None, x.node.shape, x.node.dtype) for x in given]
    for branch in op.branches:
        pairs = zip(branch.arguments, own, given, strict=True)
        holders = {x: holder for x, holder, one in pairs if one.batched}
        same = {x: own[i] for i, x in enumerate(branch.arguments) if x not in holders}
        results = list(branch.results)
        if holders:
            made = batch_where_needed(results, holders)
            results = [repeat_in_batch(x, size) for x in made]
        else:
            results = [repeat_in_batch(BatchOperand(x, False), size) for x in results]
        written = substitute(toposort(results, same.__contains__), same)
        rows.append([written[r] for r in results])
    bodies = tuple([Subgraph(tuple(own), tuple(row)) for row in rows])
    if not index.batched:
        return list(make_parts(Switch(bodies), (index.node, *sources)))
    applied = [body.apply(sources) for body in bodies]
    out = [applied[0][r] for r in bodies[0].results]
    for number in range(1, len(bodies)):
        is_past = make(_AT_LEAST, (index.node, scalar(number, index.node.dtype, "switch")))
        for i, r in enumerate(bodies[number].results):
            own_rank = len(r.shape) - 1
            condition = align_batch(BatchOperand(is_past, True), own_rank)
            out[i] = make(_WHERE, (condition, applied[number][r], out[i]))
    return out


def _inside_of(body: Subgraph, made: Mapping[Node, Node]) -> Inside:
    """The draws, and calls of functions with effects, of a body that was written anew."""
    impure = [n for n in made.values() if n.op.facts().impure and type(n.op) is not Variable]
    return Inside(min([n.serial for n in body.arguments]), impure)


_WHERE: Final = ELEMENTWISE["where"]
_BOTH: Final = ELEMENTWISE["logical_and"]
_AT_LEAST: Final = ELEMENTWISE["greater_equal"]
