"""Loops and branches: bodies computed node by node, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final
from weakref import WeakKeyDictionary

import numpy as np

from tawny.engine.reference.computing import compute
from tawny.engine.reference.kernel import Value, kernel
from tawny.node import Node
from tawny.ops.loops import ScanLoop, Switch, WhileLoop, draw_of_place
from tawny.ops.subgraph import Subgraph


@final
class BodyRun:
    """Computes a body from values of its arguments; what no step reads any more is let go."""

    def __init__(self, body: Subgraph) -> None:
        self._arguments = body.arguments
        self._results = body.results
        arguments = frozenset(body.arguments)
        leaves = [n for n in body.order if n not in arguments and n.value is not None]
        self._known: dict[Node, Any] = {n: n.value for n in leaves}
        self._steps = [n for n in body.order if n not in arguments and n not in self._known]
        last: dict[Node, Node] = {i: n for n in self._steps for i in n.inputs}
        kept = {*body.results, *leaves}
        self._dying: dict[Node, list[Node]] = {n: [] for n in self._steps}
        for node, reader in last.items():
            if node not in kept:
                self._dying[reader].append(node)

    def __call__(self, values: Sequence[Value], draw: int) -> list[Value]:
        """The values of the results."""
        known = self._known | dict(zip(self._arguments, values, strict=True))
        for node in self._steps:
            known[node] = compute(node, [known[i] for i in node.inputs], draw)
            for gone in self._dying[node]:
                del known[gone]
        return [known[r] for r in self._results]


_RUNS: Final[WeakKeyDictionary[Subgraph, BodyRun]] = WeakKeyDictionary()


def run_of(body: Subgraph) -> BodyRun:
    """What computes a body, remembered while the body is there."""
    known = _RUNS.get(body)
    if known is None:
        known = _RUNS[body] = BodyRun(body)
    return known


@kernel(ScanLoop, composed=True, widened=False)
def loop(op: ScanLoop, draw: int, *operands: Value) -> tuple[Value, ...]:
    """One step after the other."""
    run = run_of(op.body)
    carries: list[Value] = list(operands[: op.carries])
    rows, shared = operands[op.carries : op.first_shared], operands[op.first_shared :]
    stacked = [np.empty(shape, dtype) for shape, dtype in op.result_types()[op.carries :]]
    places, numbering = range(op.length), op.numbering
    for place in reversed(places) if op.reverse else places:
        given = [np.array(place), *carries, *[row[place] for row in rows], *shared]
        made = run(list(map(np.asarray, given)), numbering.number(draw, place))
        carries = made[: op.carries]
        for target, value in zip(stacked, made[op.carries :], strict=True):
            target[place] = value
    return (*carries, *stacked)


@kernel(WhileLoop, composed=True, widened=False)
def while_loop(op: WhileLoop, draw: int, *operands: Value) -> tuple[Value, ...]:
    """One step after the other, as long as the last one says so."""
    run = run_of(op.body)
    goes_on = bool(operands[0])
    carries: list[Value] = list(operands[1 : 1 + op.carries])
    shared, place = operands[1 + op.carries :], 0
    while goes_on:
        given = [np.array(place), *carries, *shared]
        flag, *carries = run(list(map(np.asarray, given)), draw_of_place(draw, place))
        goes_on, place = bool(flag), place + 1
    return tuple(carries)


@kernel(Switch, composed=True, widened=False)
def switch(op: Switch, draw: int, index: Value, *operands: Value) -> tuple[Value, ...]:
    """The branch with that number, or the nearest."""
    number = min(max(int(index), 0), len(op.branches) - 1)
    return tuple(run_of(op.branches[number])(operands, draw))
