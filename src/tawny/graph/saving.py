"""Writing graphs to files; see `tawny.graph.files`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from tawny.array import array_for
from tawny.errors import type_error, value_error
from tawny.files.encoding import encode_dtype, encode_op, encode_shape, encode_type
from tawny.files.op_checks import MalformedError, check_op
from tawny.files.reading import Json
from tawny.files.safetensors import file_blocks, write
from tawny.graph.report.trace import listing, source_text
from tawny.node import Constant, Node, Value
from tawny.ops.differentiation import remove_markers
from tawny.source import Source

if TYPE_CHECKING:
    from tawny.graph.graph import Graph

Path = str | os.PathLike[str]

VERSION: Final = 1
MAX_NODES: Final = 1_000_000
MAX_NESTING: Final = 100
GRAPH: Final = "tawny.graph"
ARRAYS: Final = "tawny.arrays"


def save(graph: Graph, path: Path) -> None:
    """Write a graph to a file, for `load`.

    User functions are written as the names they were registered under; others are refused.  What
    `custom_vjp` and its kin say about derivatives is Python, and is left out.
    """
    write(path, *_contents(graph, "save"), "save")


def to_bytes(graph: Graph, op: str) -> bytes:
    """The bytes that `save` writes to a file."""
    return b"".join(file_blocks(*_contents(graph, op), op))


def _contents(graph: Graph, op: str) -> tuple[dict[str, Value], dict[str, str]]:
    """The arrays and the text of a graph's file."""
    graph = _without_rules(graph)
    nodes = listing(graph)
    if len(nodes) > MAX_NODES:
        raise value_error(op, f"the graph has {len(nodes)} nodes; at most {MAX_NODES} fit a file")
    number = {node: i for i, node in enumerate(nodes)}
    sources = _SourceTable()
    records: list[Json] = []
    for node, i in number.items():
        try:
            records.append(_record(node, number, sources))
        except MalformedError as error:
            raise value_error(
                op, f"node {i}, {node.name} ({source_text(node) or 'unknown place'}): {error}"
            ) from None
    structure = graph.unflatten([number[n] for n in graph.output_nodes])
    data: dict[str, Json] = {
        "name": graph.name,
        "sources": sources.encode(),
        "nodes": records,
        "inputs": [number[n] for n in graph.input_nodes],
        "outputs": _encode_structure(structure, 0, op),
        "updates": [[number[t], number[s]] for t, s in graph.update_nodes],
    }
    values = {array_name(number[n]): n.value for n in nodes if isinstance(n.op, Constant)}
    text = {
        "format": GRAPH,
        "version": str(VERSION),
        "graph": json.dumps(data, separators=(",", ":"), allow_nan=False),
    }
    return cast("dict[str, Value]", values), text


def _without_rules(graph: Graph) -> Graph:
    """The graph with the results of functions that have their own derivative as they are."""
    targets = [target for target, _ in graph.update_nodes]
    given = [*graph.output_nodes, *(source for _, source in graph.update_nodes)]
    made = remove_markers(given)
    if made == given:
        return graph
    count = len(graph.output_nodes)
    arrays = [array_for(n) for n in made]
    return type(graph)(
        [array_for(n) for n in graph.input_nodes],
        graph.unflatten(arrays[:count]),
        updates=dict(zip(map(array_for, targets), arrays[count:], strict=True)),
        name=graph.name,
        unused="ignore",
    )


def array_name(number: int) -> str:
    """What the array of constant `number` is called in a file."""
    return f"constant.{number}"


class _SourceTable:
    """The lines nodes were written at, each once with each of its scopes and names."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str, str], int] = {}
        self.known: dict[tuple[int, int, str, str], int] = {}

    def number(self, source: Source) -> int:
        """The number of a line; a code object's own hash would cost more than the text."""
        key = (id(source.code), *source[1:])
        if key not in self.known:
            text = (source.place, source.scope, source.name)
            self.known[key] = self.texts.setdefault(text, len(self.texts))
        return self.known[key]

    def encode(self) -> list[Json]:
        """Each line as data: its text, or a list of it, scope and name where it has one of them."""
        return [[*text] if any(text[1:]) else text[0] for text in self.texts]


def _record(node: Node, number: Mapping[Node, int], sources: _SourceTable) -> dict[str, Json]:
    check_op(node.op, [(i.shape, i.dtype) for i in node.inputs])
    record = encode_op(node.op)
    if node.inputs:
        record["inputs"] = [number[i] for i in node.inputs]
    if node.parts:
        record["parts"] = [encode_type(t) for t in node.parts]
    else:
        record["shape"], record["dtype"] = encode_shape(node.shape), encode_dtype(node.dtype)
    if node.sources:
        record["at"] = list(dict.fromkeys(map(sources.number, node.sources)))
    return record


def _encode_structure(item: Any, depth: int, op: str) -> Json:
    """Outputs as data: a number is a node, an object says which container it is.

    Named tuples are written as tuples and dataclasses as dicts: a file names no class.
    """
    if depth > MAX_NESTING:
        raise value_error(op, f"the outputs are nested more than {MAX_NESTING} deep")
    if isinstance(item, int):
        return item
    if isinstance(item, (tuple, list)):
        word = "tuple" if isinstance(item, tuple) else "list"
        items = cast("list[Any]", item)
        return {word: [_encode_structure(i, depth + 1, op) for i in items]}
    if dataclasses.is_dataclass(item):
        item = {f.name: getattr(item, f.name) for f in dataclasses.fields(item) if f.init}
    if not isinstance(item, dict):
        raise type_error(op, f"the outputs are in a {type(item).__name__}, which has no form")
    pairs: list[Json] = []
    for key, value in cast("dict[object, object]", item).items():
        if type(key) not in (str, int, bool):
            raise type_error(
                op, f"outputs have the key {key!r}; accepted: strings, integers, booleans"
            )
        pairs.append([cast("Json", key), _encode_structure(value, depth + 1, op)])
    return {"dict": pairs}
