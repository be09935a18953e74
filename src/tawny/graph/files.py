"""Graphs and arrays in files: plain data, checked when read, never code.

A graph is one safetensors file.  Its constants are the arrays; its structure is JSON text beside
them: each node's op, attributes, inputs (numbers of earlier nodes), shape and dtype.  Reading it
makes every node anew, which infers shapes and dtypes again, and holds them against those written.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, Final

import numpy.typing as npt

import tawny.numpy  # noqa: F401  # pyright: ignore[reportUnusedImport]  (declares every op)
from tawny.array import Array, array_for, as_value
from tawny.errors import type_error
from tawny.files.encoding import (
    decode_dtype,
    decode_index,
    decode_indices,
    decode_op,
    decode_shape,
    decode_type,
)
from tawny.files.op_checks import MalformedError, check_op
from tawny.files.places import read_source
from tawny.files.reading import GraphFileError, Json, excerpt, parse_json
from tawny.files.safetensors import Contents, read, read_from, write
from tawny.graph.graph import Graph
from tawny.graph.report.trace import type_text
from tawny.graph.saving import (
    ARRAYS,
    GRAPH,
    MAX_NESTING,
    MAX_NODES,
    VERSION,
    Path,
    array_name,
    save,
)
from tawny.node import Constant, Node, Part, Value, Variable, constant, make, part, source_scope
from tawny.progress import progress
from tawny.source import Source

__all__ = ["GraphFileError", "load", "load_arrays", "save", "save_arrays"]

# ------------------------------------------------------------------------ load


def load(path: Path) -> Graph:
    """The graph that `Graph.save` wrote.

    - `path`: the file.  Nothing in it is run: functions in `tw.delay` are found by the names
      given to `tw.register_function` in this process.

    Gives a `Graph`.  Raises `tw.GraphFileError` for a file that is damaged or no graph.

        x = tw.var("x", (3,))
        tw.Graph([x], np.sum(x)).save("sum.tawny")
        tw.load("sum.tawny")   # -> <Graph: inputs x; 1 outputs; 0 updates; 2 nodes>
    """
    with progress(f"loading {os.path.basename(path)}"):
        return _Loader(os.fspath(path), read(path)).graph()


def from_bytes(data: bytes, name: str = "a pickled graph") -> Graph:
    """The graph that `to_bytes` wrote; errors call the bytes `name`."""
    return _Loader(name, read_from(io.BytesIO(data), len(data), name)).graph()


class _Loader:
    """A pass over a file: checks each record, then makes its node."""

    def __init__(self, name: str, contents: Contents) -> None:
        self.path = name
        self.values = contents.arrays
        text = contents.text
        if text.get("format") != GRAPH:
            raise self.fail("format", f"{excerpt(text.get('format'))}; expected {GRAPH!r}")
        if text.get("version") != str(VERSION):
            raise self.fail(
                "version", f"{excerpt(text.get('version'))}; this library reads version {VERSION}"
            )
        if text.keys() != {"format", "version", "graph"}:
            raise self.fail("metadata", "expected format, version and graph")
        self.data = self.members(
            parse_json(text["graph"], "graph", self.fail),
            "graph",
            {"name": (str, type(None)), "sources": (list,), "nodes": (list,), "inputs": (list,),
             "outputs": (int, dict), "updates": (list,)},
        )  # fmt: skip
        self.nodes: list[Node] = []
        self.names: set[str] = set()

    def fail(self, place: str, detail: str) -> GraphFileError:
        return GraphFileError(self.path, place, detail)

    def members(
        self, data: Json, place: str, kinds: Mapping[str, tuple[type, ...]]
    ) -> dict[str, Any]:
        """An object with exactly these members, each of one of its types."""
        if not isinstance(data, dict) or data.keys() != kinds.keys():
            raise self.fail(place, f"expected an object of {', '.join(kinds)}")
        for name, accepted in kinds.items():
            if type(data[name]) not in accepted:
                words = " or ".join(k.__name__ for k in accepted)
                raise self.fail(f"{place}, {name}", f"expected {words}, not {excerpt(data[name])}")
        return data

    def graph(self) -> Graph:
        """The graph of the file."""
        records: list[Json] = self.data["nodes"]
        if len(records) > MAX_NODES:
            raise self.fail("graph", f"{len(records)} nodes; at most {MAX_NODES} are allowed")
        self.sources = self.read_sources()
        for number, record in enumerate(records):
            self.nodes.append(self.node(number, record))
        if self.values:
            raise self.fail("arrays", f"{excerpt(min(self.values))} belongs to no constant")
        try:
            inputs = decode_indices(self.data["inputs"], len(self.nodes), "inputs")
            outputs = self.structure(self.data["outputs"], 0)
            updates = self.updates()
            arrays = [array_for(self.nodes[i]) for i in inputs]
            return Graph(arrays, outputs, updates, self.data["name"], unused="ignore")
        except (ValueError, TypeError) as error:
            raise self.fail("graph", str(error)) from error

    def read_sources(self) -> list[Source]:
        """The lines of the user's program, for messages about nodes."""
        out: list[Source] = []
        for number, text in enumerate(self.data["sources"]):
            source = read_source(text)
            if source is None:
                raise self.fail(
                    f"source {number}",
                    f"{excerpt(text)}; expected 'file:line', or a list of it, a scope and a name",
                )
            out.append(source)
        return out

    def node(self, number: int, record: Json) -> Node:
        """The node of a record, whose shape and dtype are those written."""
        if not isinstance(record, dict):
            raise self.fail(f"node {number}", f"expected an object, not {excerpt(record)}")
        place = f"node {number} ({excerpt(record.get('op'))})"
        try:
            return self.make_node(number, dict(record))
        except GraphFileError:
            raise
        except Exception as error:
            raise self.fail(place, str(error) or type(error).__name__) from error

    def make_node(self, number: int, record: dict[str, Json]) -> Node:
        op = decode_op(record)
        at = decode_indices(record.pop("at", []), len(self.sources), "at")
        inputs = tuple(
            self.nodes[i] for i in decode_indices(record.pop("inputs", []), number, "inputs")
        )
        if not isinstance(op, Part):
            for position, node in enumerate(inputs):
                if node.parts:
                    raise MalformedError(f"input {position} has several results; take a part")
        check_op(op, [(i.shape, i.dtype) for i in inputs])
        several = record.keys() == {"parts"}
        if not several and record.keys() != {"shape", "dtype"}:
            raise MalformedError(f"expected shape and dtype beside the op, not {list(record)}")
        with source_scope(tuple(self.sources[i] for i in at)):
            if several:
                return _check_type(make(op, inputs), record)
            shape, dtype = decode_shape(record["shape"]), decode_dtype(record["dtype"])
            if isinstance(op, Variable):
                if op.name and op.name in self.names:
                    raise MalformedError(f"two variables are called {op.name!r}")
                self.names.add(op.name)
                return Node(op, (), shape, dtype)
            if isinstance(op, Constant):
                return _check_type(constant(self.value(number)), record)
            if isinstance(op, Part):
                if op.index >= len(inputs[0].parts):
                    raise MalformedError(f"its input has {len(inputs[0].parts)} parts")
                return _check_type(part(inputs[0], op.index), record)
            return _check_type(make(op, inputs), record)

    def value(self, number: int) -> Value:
        """The value of a constant; no other has it."""
        name = array_name(number)
        if name not in self.values:
            raise MalformedError(f"there is no array {name!r}")
        return self.values.pop(name)

    def structure(self, item: Json, depth: int) -> Any:
        """The outputs, as arrays in their containers."""
        if depth > MAX_NESTING:
            raise MalformedError(f"outputs are nested more than {MAX_NESTING} deep")
        if not isinstance(item, dict):
            node = self.nodes[decode_index(item, len(self.nodes), "outputs")]
            if node.parts:
                raise MalformedError(f"outputs: {node.name} has several results; take a part")
            return array_for(node)
        if len(item) != 1 or not item.keys() <= {"tuple", "list", "dict"}:
            raise MalformedError(f"outputs: {excerpt(item)}; expected a tuple, list or dict")
        ((word, items),) = item.items()
        if not isinstance(items, list):
            raise MalformedError(f"outputs: {excerpt(items)}; expected a list")
        if word != "dict":
            inner = [self.structure(i, depth + 1) for i in items]
            return tuple(inner) if word == "tuple" else inner
        out: dict[Any, Any] = {}
        for pair in items:
            if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in _KEYS:
                raise MalformedError(f"outputs: {excerpt(pair)}; expected a key and what it is for")
            if pair[0] in out:
                raise MalformedError(f"outputs: the key {excerpt(pair[0])} occurs twice")
            out[pair[0]] = self.structure(pair[1], depth + 1)
        return out

    def updates(self) -> dict[Array, Array]:
        """What each updated variable becomes."""
        out: dict[Array, Array] = {}
        for pair in self.data["updates"]:
            ends = [self.nodes[i] for i in decode_indices(pair, len(self.nodes), "updates")]
            if len(ends) != 2 or ends[1].parts:
                raise MalformedError(f"updates: {excerpt(pair)}; expected a variable and a value")
            target = array_for(ends[0])
            if target in out:
                raise MalformedError(f"updates: variable {ends[0].name!r} is updated twice")
            out[target] = array_for(ends[1])
        return out


_KEYS: Final = (str, int, bool)


def _check_type(node: Node, record: Mapping[str, Json]) -> Node:
    """`node`, refused unless its shape and dtype are those written."""
    if "parts" in record:
        data = record["parts"]
        written = [decode_type(t) for t in data] if isinstance(data, list) else []
        agrees = bool(written) and tuple(written) == node.parts
    else:
        written = [(decode_shape(record["shape"]), decode_dtype(record["dtype"]))]
        agrees = not node.parts and written[0] == (node.shape, node.dtype)
    if not agrees:
        said = " ".join(f"{d}{list(s)}" for s, d in written)
        raise MalformedError(f"it gives {type_text(node)}, but {said or 'nothing'} is written")
    return node


# ---------------------------------------------------------------------- arrays


def save_arrays(path: Path, arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Write arrays by name to a file, as a program's state: `save_arrays(path, p.state)`.

    - `path`: the file, which is replaced; it is a safetensors file.
    - `arrays`: a dict from names to arrays.

    Raises TypeError for names that are no strings.

        tw.save_arrays("state.tawny", {"n": numpy.ones(3)})
        tw.load_arrays("state.tawny")["n"].tolist()   # -> [1.0, 1.0, 1.0]
    """
    values: dict[str, Value] = {}
    for name, array in arrays.items():
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error("save_arrays", f"the name {name!r} is no string")
        values[name] = as_value(array, "save_arrays")
    write(path, values, {"format": ARRAYS, "version": str(VERSION)}, "save_arrays")


def load_arrays(path: Path) -> dict[str, Value]:
    """The arrays of a file by name, as new NumPy arrays: `p.set(**load_arrays(path))`.

    - `path`: a file that `save_arrays` wrote, or a safetensors file of another library.

    Gives a dict.  Raises `tw.GraphFileError` for a file that is damaged, or no such file.

        tw.save_arrays("weights.tawny", {"w": numpy.zeros(2)})
        list(tw.load_arrays("weights.tawny"))         # -> ['w']
    """
    contents = read(path)
    name = os.fspath(path)
    if contents.text.get("format") == GRAPH:
        raise GraphFileError(name, "format", "this is a graph; read it with load")
    if contents.text.get("format") == ARRAYS and contents.text.get("version") != str(VERSION):
        raise GraphFileError(
            name,
            "version",
            f"{excerpt(contents.text.get('version'))}; this library reads version {VERSION}",
        )
    return contents.arrays
