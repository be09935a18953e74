"""Loops and branches in ONNX: Scan, Loop and If, whose graphs read what is around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from tawny.dtype import INT64
from tawny.node import Node
from tawny.onnx.writer import GraphWriter
from tawny.ops.loops import BodyOp, ScanLoop, Switch, WhileLoop

SpellNodes = Callable[[GraphWriter, Sequence[Node], dict[Node, str]], list[str]]
"""Adds all nodes of some results, given names of what they begin with; the results' names."""


def spell_bodies(
    writer: GraphWriter, node: Node, names: Sequence[str], spell_nodes: SpellNodes
) -> list[str]:
    """The node of a loop or a branch, with its graphs; the names of its results."""
    op = node.op
    assert isinstance(op, BodyOp)
    if isinstance(op, ScanLoop):
        return _scan(writer, op, names, spell_nodes)
    if isinstance(op, WhileLoop):
        return _loop(writer, op, names, spell_nodes)
    assert isinstance(op, Switch)
    return _choices(writer, op, names, spell_nodes)


def _scan(w: GraphWriter, op: ScanLoop, names: Sequence[str], spell_nodes: SpellNodes) -> list[str]:
    body, first = op.body, 1 + op.first_shared
    place, *own = body.arguments[:first]
    inputs = [*own[: op.carries], place, *own[op.carries :]]
    shared = dict(zip(body.arguments[first:], names[op.first_shared :], strict=True))
    graph = _graph(w, inputs, body.results, shared, spell_nodes)
    rows, made = 1 + op.stacked, len(body.results) - op.carries
    places = w.array(np.arange(op.length, dtype=np.int64), "places")
    given = [*names[: op.carries], places, *names[op.carries : op.first_shared]]
    return w.add_parts(
        "Scan",
        *given,
        count=len(body.results),
        body=graph,
        num_scan_inputs=rows,
        scan_input_directions=[int(op.reverse)] * rows,
        scan_output_directions=[int(op.reverse)] * made if made else None,
    )


def _loop(
    w: GraphWriter, op: WhileLoop, names: Sequence[str], spell_nodes: SpellNodes
) -> list[str]:
    body, first = op.body, 1 + op.carries
    place, *own = body.arguments[:first]
    shared = dict(zip(body.arguments[first:], names[first:], strict=True))
    graph = _graph(w, [place, *own], body.results, shared, spell_nodes, condition=True)
    return w.add_parts("Loop", "", *names[:first], count=op.carries, body=graph)


def _choices(
    w: GraphWriter, op: Switch, names: Sequence[str], spell_nodes: SpellNodes
) -> list[str]:
    """The first branch, or else what is chosen from the others."""
    index, *given = names
    kinds = op.branches[0].results
    graphs = [
        _graph(w, (), body.results, dict(zip(body.arguments, given, strict=True)), spell_nodes)
        for body in op.branches
    ]

    def choose(number: int, others: object) -> list[str]:
        """A branch, or else what is chosen from others."""
        is_here = w.add("LessOrEqual", index, w.number(number, INT64))
        branches = {"then_branch": graphs[number], "else_branch": others}
        return w.add_parts("If", is_here, count=len(kinds), **branches)

    chosen = graphs[-1]
    for number in range(len(graphs) - 2, 0, -1):
        with w.nodes_aside() as nodes:
            made = choose(number, chosen)
        outputs = [w.value_info(name, kind) for name, kind in zip(made, kinds, strict=True)]
        chosen = w.graph("else", nodes, (), outputs)
    return choose(0, chosen)


def _graph(
    w: GraphWriter,
    inputs: Sequence[Node],
    results: Sequence[Node],
    shared: Mapping[Node, str],
    spell_nodes: SpellNodes,
    *,
    condition: bool = False,
) -> object:
    """A graph among the attributes of a node; `shared` is what it reads of those around it.

    With `condition` its second input says whether there is this step.
    """
    names = dict(shared) | {x: w.name("inner") for x in inputs}
    infos = [w.value_info(names[x], x) for x in inputs]
    if condition:
        infos.insert(1, w.value_info(w.name("going"), results[0]))
    outputs: list[object] = []
    with w.nodes_aside() as nodes:
        made = spell_nodes(w, results, names)
        for name, node in zip(made, results, strict=True):
            title = w.name("result")
            w.rename(title, name)
            outputs.append(w.value_info(title, node))
    return w.graph(_BODY, nodes, infos, outputs)


_BODY: Final = "body"
