"""Ops as plain data: each attribute is written and read as the type its op declares.

Nothing is guessed from the data: an attribute declared `tuple[int, ...]` is a list of integers or
is refused, and a type that has no form here cannot be written.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import types
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from tawny import dtype as dt
from tawny.dtype import DType
from tawny.files.functions import registered_function, registered_name
from tawny.files.op_checks import MalformedError, check_op
from tawny.files.places import read_source, write_source
from tawny.files.reading import MAX_RANK, Json, excerpt, is_natural
from tawny.node import Constant, Node, Part, Value, Variable, constant, make, part, source_scope
from tawny.op import CLASSES, ELEMENTWISE, Elementwise, Op, Type
from tawny.ops.body import Body, BodyStep
from tawny.ops.delay import Delay, UserObject
from tawny.ops.fusion import Group
from tawny.ops.loops import BodyOp
from tawny.ops.random import Draw
from tawny.ops.subgraph import Subgraph
from tawny.shape import Shape, size

_DTYPES: Final = dt.dtype_names()
_FLOATS: Final = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_MAX_BITS: Final = 1024
_UNIONS: Final = (Union, types.UnionType)


# ------------------------------------------------------------------------- ops


def encode_op(op: Op) -> dict[str, Json]:
    """An op's name and attributes."""
    name = op.facts().name
    if isinstance(op, Elementwise):
        return {"op": name}
    if CLASSES.get(name) is not type(op):
        raise MalformedError(f"op {name} is not one of the library's")
    attributes: dict[str, Json] = {}
    for field, kind in field_types(type(op)).items():
        try:
            attributes[field] = encode(getattr(op, field), kind)
        except MalformedError as error:
            raise MalformedError(f"attribute {field}: {error}") from None
    return {"op": name, "attributes": attributes} if attributes else {"op": name}


LATER_ATTRIBUTES: Final = {"always": False}
"""Attributes that not all files of this version have, and what they are there."""

FORMER_ATTRIBUTES: Final = {"named"}
"""Attributes that some files of this version have and that say nothing any more."""


def decode_op(record: dict[str, Json]) -> Op:
    """The op that `encode_op` wrote; its keys are taken out of `record`."""
    name, attributes = record.pop("op", None), record.pop("attributes", {})
    if not isinstance(name, str) or (name not in ELEMENTWISE and name not in CLASSES):
        raise MalformedError(f"op {excerpt(name)} is not known")
    if not isinstance(attributes, dict):
        raise MalformedError(f"op {name}: expected an object of attributes")
    kinds = {} if name in ELEMENTWISE else field_types(CLASSES[name])
    for field in attributes:
        if field not in kinds and field not in FORMER_ATTRIBUTES:
            raise MalformedError(
                f"op {name}: attribute {excerpt(field)} is not known; {_expected_names(kinds)}"
            )
    values: list[Any] = []
    for field, kind in kinds.items():
        if field not in attributes:
            if field not in LATER_ATTRIBUTES:
                raise MalformedError(f"op {name}: attribute {field} is missing")
            values.append(LATER_ATTRIBUTES[field])
            continue
        try:
            values.append(decode(attributes[field], kind))
        except MalformedError as error:
            raise MalformedError(f"op {name}: attribute {field}: {error}") from None
    return ELEMENTWISE[name] if name in ELEMENTWISE else CLASSES[name](*values)


def _expected_names(names: Sequence[str] | dict[str, Any]) -> str:
    return f"expected: {', '.join(names) or 'none'}"


def field_types(cls: type[Op]) -> dict[str, Any]:
    """The declared type of each attribute."""
    return {field: _hints(cls)[field] for field in cls.fields}


# ---------------------------------------------------------------------- values


def encode(value: Any, kind: Any) -> Json:
    """`value` as data, for an attribute declared as `kind`."""
    if get_origin(kind) in _UNIONS:
        for choice in get_args(kind):
            try:
                return encode(value, choice)
            except MalformedError:
                continue
    elif get_origin(kind) is tuple and isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return [encode(v, k) for v, k in zip(items, _items(kind, len(items)), strict=True)]
    elif get_origin(kind) is np.dtype and dt.is_supported(value):
        return encode_dtype(value)
    elif kind is UserObject:
        return _encode_held(value)
    elif kind is Body and isinstance(value, Body):
        return _encode_body(value)
    elif kind is Subgraph:
        return _encode_subgraph(value)
    elif isinstance(kind, type):
        return _encode_plain(value.item() if isinstance(value, np.generic) else value, kind)
    raise _no_form(value, kind)


def _encode_plain(value: Any, kind: type[Any]) -> Json:
    if kind in (bool, str, types.NoneType) and type(value) is kind:
        return cast("Json", value)
    if kind in (int, float) and type(value) is int:
        return _integer(value)
    if kind is float and isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if kind is complex and isinstance(value, complex):
        return [_encode_plain(value.real, float), _encode_plain(value.imag, float)]
    if issubclass(kind, enum.Enum) and isinstance(value, kind):
        return value.name
    if issubclass(kind, Op) and type(value) is kind:
        return encode_op(value)
    if dataclasses.is_dataclass(kind) and type(value) is kind:
        return {f: encode(getattr(value, f), k) for f, k in _hints(kind).items()}
    raise _no_form(value, kind)


def decode(data: Json, kind: Any) -> Any:
    """The value that `encode` wrote for an attribute declared as `kind`."""
    if get_origin(kind) in _UNIONS:
        for choice in get_args(kind):
            try:
                return decode(data, choice)
            except MalformedError:
                continue
    elif get_origin(kind) is tuple and isinstance(data, list):
        return tuple(decode(d, k) for d, k in zip(data, _items(kind, len(data)), strict=True))
    elif get_origin(kind) is np.dtype:
        return decode_dtype(data)
    elif kind is UserObject:
        return _decode_held(data)
    elif kind is Body:
        return _decode_body(data)
    elif kind is Subgraph:
        return _decode_subgraph(data)
    elif isinstance(kind, type):
        return _decode_plain(data, kind)
    raise _mismatch(data, kind)


def _decode_plain(data: Json, kind: type[Any]) -> Any:
    if kind in (bool, str, types.NoneType) and type(data) is kind:
        return data
    if kind in (int, float) and type(data) is int:
        return _integer(data)
    if kind is float and type(data) is float and math.isfinite(data):
        return data
    if kind is float and isinstance(data, str) and data in _FLOATS:
        return _FLOATS[data]
    if kind is complex and isinstance(data, list) and len(data) == 2:
        return complex(_decode_plain(data[0], float), _decode_plain(data[1], float))
    if issubclass(kind, enum.Enum) and isinstance(data, str) and data in kind.__members__:
        return kind[data]
    if (
        issubclass(kind, Op)
        and isinstance(data, dict)
        and data.get("op") == kind.declaration.name
        and data.keys() <= {"op", "attributes"}
    ):
        return decode_op(dict(data))
    if dataclasses.is_dataclass(kind) and isinstance(data, dict):
        fields = _hints(kind)
        if data.keys() == fields.keys():
            return kind(**{f: decode(data[f], k) for f, k in fields.items()})
    raise _mismatch(data, kind)


def _integer(value: int) -> int:
    if value.bit_length() > _MAX_BITS:
        raise MalformedError(
            f"an integer of {value.bit_length()} bits; expected at most {_MAX_BITS}"
        )
    return value


def _items(kind: Any, count: int) -> Sequence[Any]:
    """The declared types of a tuple's items."""
    items = get_args(kind)
    if len(items) == 2 and items[1] is Ellipsis:
        return (items[0],) * count
    if len(items) != count:
        raise MalformedError(f"{count} items; expected {len(items)}")
    return items


_HINTS: Final[dict[object, dict[str, Any]]] = {}


def _hints(kind: type[Any]) -> dict[str, Any]:
    """The types a class declares for its fields, worked out once."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def _no_form(value: object, kind: Any) -> MalformedError:
    return MalformedError(
        f"{type(value).__name__} {excerpt(value)} cannot be written as plain data; "
        f"it is declared {_type_text(kind)}"
    )


def _mismatch(data: Json, kind: Any) -> MalformedError:
    return MalformedError(f"{excerpt(data)} is not of the declared type {_type_text(kind)}")


def _type_text(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


# ------------------------------------------------------------ shapes and types


def encode_shape(shape: Shape) -> Json:
    """A shape as data."""
    if len(shape) > MAX_RANK:
        raise MalformedError(f"{len(shape)} axes; at most {MAX_RANK} can be written")
    if not all(map(is_natural, shape)):
        raise MalformedError(f"shape {excerpt(shape)} is larger than any array")
    return list(shape)


def decode_shape(data: Json) -> Shape:
    """A shape, of at most as many axes as NumPy's arrays have."""
    if not isinstance(data, list) or len(data) > MAX_RANK or not all(map(is_natural, data)):
        raise MalformedError(
            f"shape is {excerpt(data)}; expected at most {MAX_RANK} integers from 0"
        )
    return tuple(cast("list[int]", data))


def encode_dtype(dtype: DType) -> str:
    """A dtype's name."""
    return str(dtype)


def decode_dtype(data: Json) -> DType:
    """A supported dtype, by name."""
    if not isinstance(data, str) or data not in _DTYPES:
        raise MalformedError(f"dtype is {excerpt(data)}; {_expected_names(_DTYPES)}")
    return dt.dtype_named(data)


def encode_type(kind: Type) -> Json:
    """A shape and a dtype as data."""
    return [encode_shape(kind[0]), encode_dtype(kind[1])]


def decode_type(data: Json) -> Type:
    """A shape and a dtype."""
    if not isinstance(data, list) or len(data) != 2:
        raise MalformedError(f"{excerpt(data)}; expected a shape and a dtype")
    return decode_shape(data[0]), decode_dtype(data[1])


def decode_indices(data: Json, below: int, what: str) -> list[int]:
    """A list of integers from 0, all less than `below`."""
    if not isinstance(data, list):
        raise MalformedError(f"{what} are {excerpt(data)}; expected a list of integers")
    return [decode_index(i, below, what) for i in data]


def decode_index(data: Json, below: int, what: str) -> int:
    """An integer from 0, less than `below`."""
    if type(data) is not int or not is_natural(data) or data >= below:
        raise MalformedError(f"{what}: {excerpt(data)} is not an integer from 0 to {below - 1}")
    return data


# ------------------------------------------------------------- functions, bodies


def _encode_held(value: Any) -> Json:
    held: object = value.it
    if held is None:
        return None
    name = registered_name(held)
    if name is None:
        raise MalformedError(
            f"{value!r} is not registered; give it a name with tw.register_function(name, f), "
            "here and before loading"
        )
    return name


def _decode_held(data: Json) -> UserObject:
    if data is None:
        return UserObject(None)
    if not isinstance(data, str):
        raise MalformedError(f"{excerpt(data)}; expected the name of a registered function")
    function = registered_function(data)
    if function is None:
        raise MalformedError(
            f"no function is registered as {excerpt(data)}; "
            f"call tw.register_function({excerpt(data)}, f) before loading"
        )
    return UserObject(function)


def _encode_body(body: Body) -> Json:
    return {
        "operands": [encode_type(t) for t in body.operands],
        "steps": [
            {**encode_op(s.op), "inputs": list(s.inputs), "type": encode_type((s.shape, s.dtype))}
            for s in body.steps
        ],
        "results": list(body.results),
    }


def _decode_body(data: Json) -> Body:
    if not isinstance(data, dict) or data.keys() != {"operands", "steps", "results"}:
        raise MalformedError("expected an object of operands, steps and results")
    operands, records = data["operands"], data["steps"]
    if not isinstance(operands, list) or not isinstance(records, list) or not records:
        raise MalformedError("operands and steps: expected lists, and at least one step")
    values = [decode_type(t) for t in operands]
    count = len(values)
    steps: list[BodyStep] = []
    for number, record in enumerate(records):
        try:
            step = _decode_step(record, values)
        except MalformedError as error:
            raise MalformedError(f"step {number}: {error}") from None
        steps.append(step)
        values.append((step.shape, step.dtype))
    results = decode_indices(data["results"], len(values), "results")
    if not results:
        raise MalformedError("results: expected at least one")
    return Body.of(tuple(values[:count]), tuple(steps), tuple(results))


_NO_STEPS: Final = (Constant, Variable, Part, Delay, Draw, Group, BodyOp)


def _decode_step(record: Json, values: Sequence[Type]) -> BodyStep:
    if not isinstance(record, dict):
        raise MalformedError(f"{excerpt(record)}; expected an object")
    rest = dict(record)
    op = decode_op(rest)
    if rest.keys() != {"inputs", "type"} or isinstance(op, _NO_STEPS) or op.several:
        raise MalformedError(f"{op.facts().name} cannot be a step with {_expected_names(rest)}")
    inputs = decode_indices(rest["inputs"], len(values), "inputs")
    given = [values[i] for i in inputs]
    check_op(op, given)
    shape, dtype = op.infer_shape(*(s for s, _ in given)), op.infer_dtype(*(d for _, d in given))
    if (shape, dtype) != decode_type(rest["type"]):
        raise MalformedError(
            f"{op.facts().name} gives {dtype}{list(shape)}, not {excerpt(rest['type'])}"
        )
    return BodyStep(op, tuple(inputs), shape, dtype)


# ----------------------------------------------------------------- subgraphs


def _encode_subgraph(graph: Subgraph) -> Json:
    """Arguments by their types, then each node with the numbers of its inputs."""
    number: dict[Node, int] = {}
    for argument in graph.arguments:
        number[argument] = len(number)
    records: list[Json] = []
    for node in graph.order:
        if node not in number:
            records.append(_encode_node(node, [number[i] for i in node.inputs]))
            number[node] = len(number)
    return {
        "arguments": [encode_type(t) for t in graph.types],
        "nodes": records,
        "results": [number[r] for r in graph.results],
    }


def _encode_node(node: Node, inputs: list[int]) -> Json:
    check_op(node.op, [(i.shape, i.dtype) for i in node.inputs])
    types = node.parts or ((node.shape, node.dtype),)
    record = {**encode_op(node.op), "inputs": cast("Json", inputs)}
    record["types"] = [encode_type(t) for t in types]
    if type(node.op) is Constant:
        assert node.value is not None
        record["value"] = base64.b64encode(node.value.tobytes()).decode("ascii")
    if node.sources:
        record["at"] = [write_source(source) for source in node.sources]
    return record


MAX_DEPTH: Final = 32
"""How deep loops may be in loops."""

_DEPTH: Final[ContextVar[int]] = ContextVar("depth", default=0)


def _decode_subgraph(data: Json) -> Subgraph:
    if not isinstance(data, dict) or data.keys() != {"arguments", "nodes", "results"}:
        raise MalformedError("expected an object of arguments, nodes and results")
    arguments, records = data["arguments"], data["nodes"]
    if not isinstance(arguments, list) or not isinstance(records, list):
        raise MalformedError("arguments and nodes: expected lists")
    if _DEPTH.get() == MAX_DEPTH:
        raise MalformedError(f"graphs are nested more than {MAX_DEPTH} deep")
    token = _DEPTH.set(_DEPTH.get() + 1)
    try:
        nodes = [Node(Variable(""), (), *decode_type(t), sources=()) for t in arguments]
        count = len(nodes)
        for position, record in enumerate(records):
            try:
                nodes.append(_decode_node(record, nodes))
            except MalformedError as error:
                raise MalformedError(f"node {position}: {error}") from None
    finally:
        _DEPTH.reset(token)
    results = [nodes[i] for i in decode_indices(data["results"], len(nodes), "results")]
    if any(n.parts for n in results):
        raise MalformedError("results: a node has several; take a part")
    return Subgraph(tuple(nodes[:count]), tuple(results))


def _decode_node(record: Json, nodes: Sequence[Node]) -> Node:
    if not isinstance(record, dict):
        raise MalformedError(f"{excerpt(record)}; expected an object")
    rest = dict(record)
    op = decode_op(rest)
    places, value = rest.pop("at", []), rest.pop("value", None)
    if rest.keys() != {"inputs", "types"} or isinstance(op, Variable):
        raise MalformedError(f"{op.facts().name} cannot be a node with {_expected_names(rest)}")
    inputs = tuple([nodes[i] for i in decode_indices(rest["inputs"], len(nodes), "inputs")])
    types = [decode_type(t) for t in rest["types"]] if isinstance(rest["types"], list) else []
    sources = [read_source(p) for p in places] if isinstance(places, list) else [None]
    if None in sources:
        raise MalformedError("at: expected places in a program")
    check_op(op, [(i.shape, i.dtype) for i in inputs])
    with source_scope(tuple([s for s in sources if s is not None])):
        made = _make_node(op, inputs, value, types)
    if tuple(types) != (made.parts or ((made.shape, made.dtype),)):
        raise MalformedError(f"{op.facts().name} does not give what is written")
    return made


def _make_node(op: Op, inputs: tuple[Node, ...], value: Json, types: Sequence[Type]) -> Node:
    if isinstance(op, Constant):
        if len(types) != 1:
            raise MalformedError("a constant has one type")
        return constant(_decode_value(value, *types[0]))
    if value is not None:
        raise MalformedError(f"{op.facts().name} has no value of its own")
    if isinstance(op, Part):
        if op.index >= len(inputs[0].parts):
            raise MalformedError(f"its input has {len(inputs[0].parts)} parts")
        return part(inputs[0], op.index)
    if any(i.parts for i in inputs):
        raise MalformedError("an input has several results; take a part")
    return make(op, inputs)


def _decode_value(data: Json, shape: Shape, dtype: DType) -> Value:
    """The value of a constant."""
    if not isinstance(data, str):
        raise MalformedError(f"value is {excerpt(data)}; expected base64")
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError as error:
        raise MalformedError(f"value is {excerpt(data)}; expected base64: {error}") from None
    if len(content) != size(shape) * dtype.itemsize:
        raise MalformedError(f"value has {len(content)} bytes")
    value = np.frombuffer(content, np.uint8).copy()
    if dtype.kind == "b" and (value > 1).any():
        raise MalformedError("value: booleans are 0 or 1")
    return value.view(dtype).reshape(shape)
