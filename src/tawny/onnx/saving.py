"""`tw.onnx.save`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any, Final

from tawny.array import array_for
from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error
from tawny.files.atomic_write import write_atomically
from tawny.graph.graph import Graph
from tawny.node import Constant, Node, Part, Variable, toposort
from tawny.onnx.package import onnx_package
from tawny.onnx.spelling.control import spell_bodies
from tawny.onnx.spelling.elements import spell_elementwise
from tawny.onnx.spelling.ops import SPELLINGS
from tawny.onnx.writer import GraphWriter, UnspelledError, refuse
from tawny.op import Elementwise
from tawny.ops.differentiation import remove_markers
from tawny.ops.loops import BodyOp
from tawny.tree import leaf_paths

importlib.import_module("tawny.onnx.spelling.windows")

MOST_BYTES: Final = 2**31 - 1
"""Bytes of a file, which the format cannot say more of."""


@explain_bad_calls
def save(graph: Graph, path: str | os.PathLike[str], *, updates: bool = False) -> None:
    """Write a graph to an ONNX file, which other libraries run.

    - `graph`: whose inputs and outputs keep their names; outputs in a structure are called by their
      place in it, one alone `output`.
    - `path`: the file, which is replaced.
    - `updates`: whether what variables become after a run are outputs too, called `w.next` of a
      variable `w`; without it a graph that has updates is refused.

    Variables that are no inputs of the graph are inputs of the file.  Raises ValueError for what
    cannot be said in ONNX; it names the op and its line.

        x = tw.var("x", (3,), "float32")
        tw.onnx.save(tw.Graph([x], {"y": np.exp(x)}), "exp.onnx")
        list(tw.onnx.load("exp.onnx").outputs)        # -> ['y']
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise type_error("onnx.save", f"{type(graph).__name__} is no tw.Graph")
    if graph.update_nodes and not updates:
        names = ", ".join(graph.names[target] for target, _ in graph.update_nodes)
        raise value_error(
            "onnx.save",
            f"the graph updates {names}, which files do not; updates=True makes what they become "
            "outputs",
        )
    try:
        model = to_model(graph)
    except UnspelledError as error:
        raise value_error("onnx.save", str(error)) from None
    if model.ByteSize() > MOST_BYTES:
        raise value_error("onnx.save", f"the file would have more than {MOST_BYTES} bytes")
    onnx_package("onnx.save").checker.check_model(model, full_check=True)
    write_atomically(os.path.realpath(path), [model.SerializeToString()])


def to_model(graph: Graph) -> Any:
    """The graph as a ModelProto, with what variables become as outputs."""
    writer = GraphWriter()
    given = [*graph.output_nodes, *(source for _, source in graph.update_nodes)]
    results = remove_markers(given)
    names: dict[Node, str] = {}
    inputs: list[Any] = []
    for variable in graph.variables:
        names[variable] = writer.name(graph.names[variable])
        inputs.append(writer.value_info(names[variable], variable))
    wanted = [
        *_output_names(graph),
        *(f"{graph.names[target]}.next" for target, _ in graph.update_nodes),
    ]
    titles = [writer.name(title) for title in wanted]
    outputs: list[Any] = []
    for title, node, name in zip(
        titles, results, _spell_nodes(writer, results, names), strict=True
    ):
        writer.rename(title, name)
        outputs.append(writer.value_info(title, node))
    return writer.model(graph.name or "graph", inputs, outputs)


def _spell_nodes(writer: GraphWriter, results: Sequence[Node], names: dict[Node, str]) -> list[str]:
    """Add all nodes of some results, given names of what they begin with; the results' names."""
    parts: dict[Node, list[str]] = {}
    for node in toposort(results, lambda n: n.value is not None):
        if node in names:
            continue
        if isinstance(node.op, BodyOp):
            given = [names[i] for i in node.inputs]
            parts[node] = spell_bodies(writer, node, given, _spell_nodes)
        elif isinstance(node.op, Part) and node.inputs[0] in parts:
            names[node] = parts[node.inputs[0]][node.op.index]
        else:
            names[node] = _spell(writer, node, names)
    return [names[r] for r in results]


def _output_names(graph: Graph) -> list[str]:
    """The name of each output: its path in the structure of outputs."""
    paths = [
        path for path, _ in leaf_paths(graph.unflatten(map(array_for, graph.output_nodes)), "")
    ]
    return [path.strip(".[]") or "output" for path in paths]


def _spell(writer: GraphWriter, node: Node, names: dict[Node, str]) -> str:
    """The nodes of one node of the graph; the name of its value."""
    if node.value is not None:
        if node.dtype.kind == "c":
            refuse(node, f" of {node.dtype}")
        return writer.array(node.value)
    op = node.op
    given = [names[i] for i in node.inputs]
    if isinstance(op, Elementwise):
        return spell_elementwise(writer, node, given)
    if isinstance(op, (Variable, Constant, Part)):
        refuse(node)
    spelling = SPELLINGS.get(type(op))
    if spelling is None:
        refuse(node)
    return spelling(writer, node, op, given)
