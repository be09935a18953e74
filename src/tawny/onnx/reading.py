"""From bytes to records: nothing of a model file is believed before it is checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tawny.files.reading import GraphFileError, excerpt, open_regular
from tawny.node import Value
from tawny.onnx.element_types import UnsupportedTypeError
from tawny.onnx.package import onnx_package
from tawny.onnx.records import (
    AttributeValue,
    Dimension,
    FunctionKey,
    FunctionRecord,
    GraphRecord,
    ModelRecord,
    NodeOfFile,
    OptionalType,
    Reference,
    SequenceType,
    StringTensor,
    TensorType,
    TypeValue,
    ValueType,
    domain_of,
)
from tawny.onnx.tensors import TensorReader

MOST_DEPTH: Final = 16
"""Graphs within graphs within graphs; models nest a few."""

GRAPHS: Final = (5, 10)
"""The types of attributes that are graphs."""

CONTROL: Final = frozenset({"If", "Loop", "Scan"})
"""Operators with graphs that are read as they are, never by the standard's description of them."""

STRING: Final = 8
"""The element type of strings."""


def read_model(source: str | os.PathLike[str] | bytes, op: str) -> ModelRecord:
    """The records of a file, or of its bytes.

    - `source`: the path, or the bytes.
    - `op`: who asks, as an error says it.
    """
    onnx = onnx_package(op)
    if isinstance(source, bytes):
        name, folder, data = "model", None, source
    else:
        name, folder = os.fspath(source), Path(source).parent
        with open_regular(source) as file:
            data = file.read()

    def fail(place: str, detail: str) -> GraphFileError:
        return GraphFileError(name, place, detail)

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # a DecodeError, whose module depends on protobuf's version
        raise fail("file", f"expected an ONNX model: {error}") from None
    if not model.HasField("graph"):
        raise fail("file", "expected an ONNX model; there is no graph in it")
    return _ModelReader(name, TensorReader(folder, fail)).read(model)


def read_function(data: bytes, schema: Any, model: ModelRecord) -> FunctionRecord:
    """The record of a function's bytes, as a schema of the standard has them.

    Attributes that a call leaves out are as the schema says.
    """
    onnx = onnx_package("onnx.load")
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    reader = _ModelReader(model.path, TensorReader(None, model.fail))
    made = reader.function(function)
    defaults = {
        name: reader.attribute(attribute.default_value, f"operator {schema.name}")
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    return replace(made, attributes={**made.attributes, **defaults})


@dataclass(slots=True)
class _ModelReader:
    path: str
    tensors: TensorReader
    depth: int = field(default=0, init=False)

    def fail(self, place: str, detail: str) -> GraphFileError:
        """The error for a place in this file."""
        return self.tensors.fail(place, detail)

    def text(self, given: Any, place: str) -> str:
        """A name; protobuf gives bytes where it is no UTF-8."""
        if not isinstance(given, str):
            raise self.fail(place, f"{excerpt(given)} is no text")
        return given

    def texts(self, given: Any, place: str) -> tuple[str, ...]:
        """Names."""
        return tuple(self.text(x, place) for x in given)

    def read(self, model: Any) -> ModelRecord:
        """The whole file."""
        opsets = self._opsets(model.opset_import, "file")
        if not opsets:
            raise self.fail("file", "it does not say which version of the operators it uses")
        functions: dict[FunctionKey, FunctionRecord] = {}
        for made in map(self.function, model.functions):
            if made.key in functions:
                raise self.fail(f"function {made.key[1]!r}", "there are two of this name")
            functions[made.key] = made
        return ModelRecord(self.path, opsets, self.graph(model.graph), functions, self.tensors.fail)

    def _opsets(self, entries: Any, place: str) -> dict[str, int]:
        opsets: dict[str, int] = {}
        for entry in entries:
            domain = domain_of(self.text(entry.domain, place))
            if opsets.get(domain, entry.version) != entry.version:
                raise self.fail(place, f"two versions of the operators of {domain or 'ai.onnx'!r}")
            if entry.version < 1:
                raise self.fail(place, f"version {entry.version} of operators; expected at least 1")
            opsets[domain] = entry.version
        return opsets

    def function(self, function: Any) -> FunctionRecord:
        """An operator made of others."""
        place = f"function {function.name!r}"
        overload = getattr(function, "overload", "")
        attributes: dict[str, AttributeValue | None] = {}
        attributes.update(dict.fromkeys(self.texts(function.attribute, place)))
        for entry in function.attribute_proto:
            attributes[self.text(entry.name, place)] = self.attribute(entry, place)
        return FunctionRecord(
            (
                domain_of(self.text(function.domain, place)),
                self.text(function.name, place),
                self.text(overload, place),
            ),
            self.texts(function.input, place),
            self.texts(function.output, place),
            attributes,
            self._opsets(function.opset_import, place),
            tuple(map(self._node, function.node)),
        )

    def graph(self, graph: Any) -> GraphRecord:
        """A graph, with those inside its nodes."""
        if self.depth >= MOST_DEPTH:
            raise self.fail(
                f"graph {graph.name!r}", f"graphs are nested more than {MOST_DEPTH} deep"
            )
        self.depth += 1
        place = f"graph {graph.name!r}"
        inputs = self._values(graph.input, place, "input")
        outputs = self._values(graph.output, place, "output")
        constants: dict[str, Value] = {}
        unsupported: dict[str, str] = {}
        dense = ((t.name, t, self.tensors.read) for t in graph.initializer)
        sparse = ((t.values.name, t, self.tensors.read_sparse) for t in graph.sparse_initializer)
        entries: Iterable[tuple[str, Any, Callable[[Any, str], Value]]] = (*dense, *sparse)
        for given, tensor, read in entries:
            name = self.text(given, place)
            if not name or name in constants or name in unsupported:
                problem = "there are two of this name" if name else "it has no name"
                raise self.fail(f"initialiser {name!r}", problem)
            try:
                constants[name] = read(tensor, f"initialiser {name!r}")
            except UnsupportedTypeError as error:
                unsupported[name] = str(error)
        nodes = tuple(map(self._node, graph.node))
        self.depth -= 1
        return GraphRecord(
            self.text(graph.name, place), inputs, outputs, constants, unsupported, nodes
        )

    def _values(self, entries: Any, place: str, word: str) -> dict[str, ValueType]:
        found: dict[str, ValueType] = {}
        for entry in entries:
            name = self.text(entry.name, place)
            if not name:
                raise self.fail(place, f"an {word} has no name")
            if name in found:
                raise self.fail(place, f"there are two {word}s of the name {excerpt(name)}")
            found[name] = self._type(entry.type, f"{word} {name!r}")
        return found

    def _type(self, proto: Any, place: str, depth: int = 0) -> ValueType:
        kind = proto.WhichOneof("value")
        if depth > MOST_DEPTH:
            raise self.fail(place, f"types are nested more than {MOST_DEPTH} deep")
        if kind is None:
            return None
        if kind == "sequence_type":
            return SequenceType(self._type(proto.sequence_type.elem_type, place, depth + 1))
        if kind == "optional_type":
            return OptionalType(self._type(proto.optional_type.elem_type, place, depth + 1))
        if kind != "tensor_type":
            raise self.fail(
                place, f"a {kind} is not supported; accepted: tensors, and lists of them"
            )
        tensor = proto.tensor_type
        if not tensor.HasField("shape"):
            return TensorType(tensor.elem_type, None)
        return TensorType(tensor.elem_type, tuple(self._dims(tensor.shape.dim, place)))

    def _dims(self, dims: Any, place: str) -> Iterable[Dimension]:
        for dim in dims:
            kind = dim.WhichOneof("value")
            if kind == "dim_value":  # some writers say -1 for a size that is open
                yield dim.dim_value if dim.dim_value >= 0 else None
            else:
                yield self.text(dim.dim_param, place) or None

    def _node(self, node: Any) -> NodeOfFile:
        attributes: dict[str, AttributeValue] = {}
        has_graph = any(entry.type in GRAPHS for entry in node.attribute)
        place = f"node {node.name!r}"
        record = NodeOfFile(
            self.text(node.name, place),
            self.text(node.op_type, place),
            domain_of(self.text(node.domain, place)),
            self.text(getattr(node, "overload", ""), place),
            self.texts(node.input, place),
            self.texts(node.output, place),
            attributes,
            node.SerializeToString() if has_graph and node.op_type not in CONTROL else b"",
        )
        for entry in node.attribute:
            name = self.text(entry.name, place)
            if name in attributes:
                raise self.fail(record.place, f"two attributes of the name {excerpt(name)}")
            attributes[name] = self.attribute(entry, record.place)
        return record

    def attribute(self, entry: Any, place: str) -> AttributeValue:
        """The value of an attribute."""
        if entry.ref_attr_name:
            return Reference(self.text(entry.ref_attr_name, place))
        place = f"{place}, attribute {entry.name!r}"
        match entry.type:
            case 1:
                return float(entry.f)
            case 2:
                return int(entry.i)
            case 3:
                return bytes(entry.s)
            case 4:
                return self.tensor(entry.t, place)
            case 5:
                return self.graph(entry.g)
            case 6:
                return tuple(map(float, entry.floats))
            case 7:
                return tuple(map(int, entry.ints))
            case 8:
                return tuple(map(bytes, entry.strings))
            case 10:
                return tuple(map(self.graph, entry.graphs))
            case 11:
                return self.sparse(entry.sparse_tensor, place)
            case 13:
                return TypeValue(self._type(entry.tp, place))
            case other:
                raise self.fail(place, f"an attribute of type {other} is not supported")

    def tensor(self, tensor: Any, place: str) -> Value | StringTensor:
        """An array in an attribute."""
        if tensor.data_type == STRING:
            return StringTensor(tuple(tensor.string_data))
        try:
            return self.tensors.read(tensor, place)
        except UnsupportedTypeError as error:
            raise self.fail(place, str(error)) from None

    def sparse(self, tensor: Any, place: str) -> Value:
        """A sparse array in an attribute."""
        try:
            return self.tensors.read_sparse(tensor, place)
        except UnsupportedTypeError as error:
            raise self.fail(place, str(error)) from None
