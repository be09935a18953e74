"""From records to arrays: a model's graph, node after node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tawny.array import Array, wrap
from tawny.errors import ValuesNeededError
from tawny.files.reading import GraphFileError
from tawny.node import Value, borrowed_constant, constant
from tawny.onnx import operators
from tawny.onnx.call import NodeCall, UnknownValueError
from tawny.onnx.element_types import element_number
from tawny.onnx.integers import IntegerNotes
from tawny.onnx.package import onnx_package
from tawny.onnx.reading import read_function
from tawny.onnx.records import (
    AttributeValue,
    FunctionRecord,
    GraphRecord,
    ModelRecord,
    NodeOfFile,
    Reference,
)
from tawny.onnx.table import ON_INTEGERS, OPERATORS, Meaning
from tawny.onnx.values import FlowValue, NoValue, Results, SequenceValue
from tawny.scopes import scope

operators.load()

MOST_NODES: Final = 200_000
"""Nodes that are read, those of functions and loops as often as they are met."""

MOST_CALLS: Final = 32
"""Functions that call functions that call functions, at most."""

MOST_SHARED_BYTES: Final = 1024
"""Larger arrays of a file are taken as they are, and not compared with each other."""


@dataclass(slots=True)
class Frame:
    """The names that nodes see: those of their graph, then those of the graphs around it."""

    opsets: Mapping[str, int]
    attributes: Mapping[str, AttributeValue]
    """Attributes of the function whose body is read."""
    outer: Frame | None = None
    values: dict[str, FlowValue] = field(default_factory=dict[str, FlowValue])
    unsupported: dict[str, str] = field(default_factory=dict[str, str])
    depth: int = 0

    def find(self, name: str) -> FlowValue | str | None:
        """The value of a name, or why it has none."""
        frame: Frame | None = self
        while frame is not None:
            found = frame.values.get(name)
            if found is not None:
                return found
            if name in frame.unsupported:
                return frame.unsupported[name]
            frame = frame.outer
        return None


def as_constant(value: Value) -> Array:
    """The array that stands for one of the file."""
    return wrap(borrowed_constant(value) if value.nbytes > MOST_SHARED_BYTES else constant(value))


class Importer:
    """Reads graphs of one model."""

    def __init__(self, model: ModelRecord) -> None:
        self._model = model
        self._count = 0
        self._notes = IntegerNotes()

    def outputs(self, given: Mapping[str, FlowValue]) -> dict[str, FlowValue]:
        """The model's outputs by name, of the inputs by name."""
        graph = self._model.graph
        frame = Frame(self._model.opsets, {})
        frame.values.update(given)
        made = self._graph(graph, frame)
        return dict(zip(graph.outputs, made, strict=True))

    def is_supported(self, node: NodeOfFile) -> bool:
        """Whether a node's operator has a meaning here; graphs inside it are not looked at."""
        if (node.domain, node.op, node.overload) in self._model.functions:
            return True
        if (node.domain, node.op) in OPERATORS:
            return True
        defs = onnx_package("onnx.load").defs
        try:
            schema = defs.get_schema(node.op, self._model.opsets.get(node.domain, 1), node.domain)
        except defs.SchemaError:
            return False
        return bool(schema.has_function or schema.has_context_dependent_function)

    # ------------------------------------------------------------------- graphs

    def _graph(self, graph: GraphRecord, frame: Frame) -> tuple[FlowValue, ...]:
        for name, value in graph.constants.items():
            if name not in frame.values:
                frame.values[name] = as_constant(value)
        frame.unsupported.update(graph.unsupported)
        self._nodes(graph.nodes, frame)
        return tuple(self._result(name, frame, f"graph {graph.name!r}") for name in graph.outputs)

    def _result(self, name: str, frame: Frame, place: str) -> FlowValue:
        found = frame.find(name)
        if found is None or isinstance(found, str):
            raise self._model.fail(place, f"output {name!r} {found or 'is made by no node'}")
        return found

    def _nodes(self, nodes: Sequence[NodeOfFile], frame: Frame) -> None:
        for i, node in enumerate(nodes):
            results = self._node(node, frame, nodes[i:])
            for name, value in zip(node.outputs, results, strict=False):
                if name in frame.values or name in frame.unsupported:
                    raise self._model.fail(node.place, f"it makes {name!r}, which is there already")
                if name and value is not None:
                    frame.values[name] = value

    # -------------------------------------------------------------------- nodes

    def _node(
        self, node: NodeOfFile, frame: Frame, rest: Sequence[NodeOfFile]
    ) -> tuple[FlowValue | None, ...]:
        self._count += 1
        if self._count > MOST_NODES:
            raise self._model.fail(node.place, f"more than {MOST_NODES} nodes have to be read")
        call = NodeCall(
            node,
            frame.opsets.get(node.domain, 1),
            tuple(self._operand(name, node, frame, rest) for name in _without_end(node.inputs)),
            self._attributes(node, frame),
            lambda graph, arguments: self._subgraph(graph, arguments, frame, node),
            self._model.fail,
            self._notes,
        )
        meaning = self._meaning(node, frame)
        with scope(_scope_name(node)):
            try:
                made = self._on_integers(call)
                made = meaning(call) if made is None else made
            except ValuesNeededError as error:
                raise UnknownValueError(node.place, str(error), error.variables) from None
            except (UnknownValueError, GraphFileError):
                raise
            except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError) as error:
                raise self._model.fail(node.place, str(error)) from None
        return self._results(made, node)

    def _on_integers(self, call: NodeCall) -> Results | None:
        """What a node makes of operands that stand for integers; None for others."""
        notes, node = call.notes, call.node
        meaning = ON_INTEGERS.get((node.domain, node.op))
        if meaning is None or not any(
            isinstance(x, Array) and (x.node in notes.integers or x.node in notes.quantisers)
            for x in call.operands
        ):
            return None
        return meaning(call)

    def _results(self, made: Results, node: NodeOfFile) -> tuple[FlowValue | None, ...]:
        results = made if isinstance(made, tuple) else (made,)
        for i, name in enumerate(node.outputs):
            if name and (i >= len(results) or results[i] is None):
                raise self._model.fail(node.place, f"output {i} is not supported")
        return results

    def _operand(
        self, name: str, node: NodeOfFile, frame: Frame, rest: Sequence[NodeOfFile]
    ) -> FlowValue | None:
        if not name:
            return None
        found = frame.find(name)
        if isinstance(found, str):
            raise self._model.fail(node.place, f"operand {name!r}: {found}")
        if found is None:
            later = [n for n in rest if name in n.outputs]
            problem = (
                f"which {later[0].place}, itself or behind it, makes: nodes stand in order, and "
                "form no cycle"
                if later
                else "which nothing makes"
            )
            raise self._model.fail(node.place, f"it reads {name!r}, {problem}")
        return found

    def _attributes(self, node: NodeOfFile, frame: Frame) -> dict[str, AttributeValue]:
        """Attributes, with those of the function that the node stands in filled in."""
        found: dict[str, AttributeValue] = {}
        for name, value in node.attributes.items():
            if not isinstance(value, Reference):
                found[name] = value
            elif value.name in frame.attributes:
                found[name] = frame.attributes[value.name]
        return found

    def _subgraph(
        self, graph: GraphRecord, arguments: Sequence[FlowValue], outer: Frame, node: NodeOfFile
    ) -> tuple[FlowValue, ...]:
        if len(arguments) != len(graph.inputs):
            raise self._model.fail(
                node.place,
                f"graph {graph.name!r} takes {len(graph.inputs)} inputs; {len(arguments)} came",
            )
        frame = Frame(outer.opsets, outer.attributes, outer, depth=outer.depth)
        frame.values.update(zip(graph.inputs, arguments, strict=True))
        return self._graph(graph, frame)

    # ---------------------------------------------------------------- functions

    def _meaning(self, node: NodeOfFile, frame: Frame) -> Meaning:
        """What a node's operator means: a function of the file, our own, or the standard's."""
        own = self._model.functions.get((node.domain, node.op, node.overload))
        if own is not None:
            return lambda call: self._function(own, call, frame)
        meaning = OPERATORS.get((node.domain, node.op))
        if meaning is not None:
            return meaning
        return lambda call: self._standard(call, frame)

    def _standard(self, call: NodeCall, frame: Frame) -> Results:
        """An operator by the standard's own description, where it has one."""
        body = self._body(call)
        if body is None:
            call.fail("the operator is not supported")
        return self._function(body, call, frame)

    def _body(self, call: NodeCall) -> FunctionRecord | None:
        """The operators that an operator of the standard is made of."""
        defs = onnx_package("onnx.load").defs
        node = call.node
        try:
            schema = defs.get_schema(node.op, call.opset, node.domain)
        except defs.SchemaError:
            return None
        versions = [v for v in schema.function_opset_versions if v <= call.opset]
        if versions:
            data = schema.get_function_with_opset_version(max(versions))
            return read_function(data, schema, self._model) if data else None
        wanted = [v for v in schema.context_dependent_function_opset_versions if v <= call.opset]
        if not wanted:
            return None
        types = [_type_bytes(x) for x in call.operands]
        try:
            data = schema.get_context_dependent_function_with_opset_version(
                max(wanted), _node_bytes(call), types
            )
        except RuntimeError as error:  # the standard's own text does not fit such a node
            call.fail(f"its operators cannot be written out: {str(error).splitlines()[0]}")
        return read_function(data, schema, self._model) if data else None

    def _function(self, function: FunctionRecord, call: NodeCall, frame: Frame) -> Results:
        if frame.depth >= MOST_CALLS:
            call.fail(f"functions call each other more than {MOST_CALLS} deep")
        if len(call.operands) > len(function.inputs):
            call.fail(f"{len(call.operands)} operands came; accepted: {len(function.inputs)}")
        attributes = {n: v for n, v in function.attributes.items() if v is not None}
        attributes.update(call.attributes)
        opsets = {**frame.opsets, **function.opsets}
        inner = Frame(opsets, attributes, depth=frame.depth + 1)
        for name, value in zip(function.inputs, call.operands, strict=False):
            if value is not None:
                inner.values[name] = value
        absent = {n for n in function.inputs if n not in inner.values}
        nodes = [_without_operands(n, absent) for n in function.nodes] if absent else function.nodes
        self._nodes(nodes, inner)
        made = (inner.find(name) if name else None for name in function.outputs)
        return tuple(None if isinstance(x, str) else x for x in made)


def _without_end(names: Sequence[str]) -> Sequence[str]:
    """Names of operands, without those left out at the end."""
    end = len(names)
    while end and not names[end - 1]:
        end -= 1
    return names[:end]


def _without_operands(node: NodeOfFile, absent: set[str]) -> NodeOfFile:
    """A node of a function's body, where some of the function's operands are left out."""
    if absent.isdisjoint(node.inputs):
        return node
    inputs = tuple("" if name in absent else name for name in node.inputs)
    return NodeOfFile(
        node.name, node.op, node.domain, node.overload, inputs, node.outputs, node.attributes
    )


def _scope_name(node: NodeOfFile) -> str:
    """The scope of what a node becomes."""
    name = node.name or next(filter(None, node.outputs), node.op)
    return name if name and name.isprintable() else "node"


def _type_bytes(value: FlowValue | None) -> bytes:
    """An operand's type, as the standard's schemas ask for it."""
    onnx: Any = onnx_package("onnx.load")
    match value:
        case Array():
            number = element_number(value.dtype)
            made = onnx.helper.make_tensor_type_proto(number, list(value.shape))
        case SequenceValue() | NoValue() | None:
            made = onnx.TypeProto()
    data: bytes = made.SerializeToString()
    return data


def _node_bytes(call: NodeCall) -> bytes:
    """A node as the standard's schemas read it."""
    onnx: Any = onnx_package("onnx.load")
    node = call.node
    if node.data:
        return node.data
    plain = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in call.attributes.items()
        if isinstance(value, (int, float, bytes, tuple))
    }
    if len(plain) != len(call.attributes):
        call.fail("the operator is not supported with these attributes")
    made = onnx.helper.make_node(
        node.op, list(node.inputs), list(node.outputs), domain=node.domain, **plain
    )
    data: bytes = made.SerializeToString()
    return data
