"""Arrays, graphs and plans for `pickle`: arrays and graphs as bytes of our own files.

What is called when such a pickle is read is here, takes bytes alone and checks them.  (A pickle as
a whole may call anything: read those of strangers with nothing.)

A plan is its tables, and the nodes they speak of as a list.  A plan that was read answers every
question the one written answers; it computes nothing.  Large constants are not written: zeros stand
for them, and names for users' functions.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, cast

import numpy as np

from tawny.array import Array, wrap
from tawny.dtype import DType
from tawny.files.places import read_source
from tawny.files.reading import GraphFileError
from tawny.files.safetensors import file_blocks, read_from
from tawny.graph.plan import Plan
from tawny.graph.saving import ARRAYS, VERSION
from tawny.node import (
    MOST_INTERNED_BYTES,
    Constant,
    Node,
    Part,
    Value,
    Variable,
    borrowed_constant,
    constant,
    make,
    part,
    source_scope,
    toposort,
)
from tawny.op import ELEMENTWISE, Elementwise, Op
from tawny.ops.body import Body
from tawny.ops.delay import UserObject
from tawny.ops.differentiation import DerivativeMarker
from tawny.shape import Shape
from tawny.source import Source

_NAME = "array"
_WHERE = "a pickled array"


def reduce_array(value: Value) -> Any:
    """How an array of this value is pickled."""
    return array_from, (value_bytes(value),)


def array_from(data: bytes) -> Array:
    """A known array."""
    return wrap(constant(value_from(data)))


def value_bytes(value: Value) -> bytes:
    """A value as the bytes of a file."""
    text = {"format": ARRAYS, "version": str(VERSION)}
    return b"".join(file_blocks({_NAME: value}, text, "pickle"))


def value_from(data: bytes) -> Value:
    """The value in such bytes."""
    contents = read_from(io.BytesIO(data), len(data), _WHERE)
    if contents.text.get("format") != ARRAYS or contents.arrays.keys() != {_NAME}:
        raise GraphFileError(_WHERE, "format", f"expected one array, {_NAME!r}")
    return contents.arrays[_NAME]


PROTOCOL: Final = 4
"""The version of the pickle format that plans are written in."""


def reduce_plan(plan: Plan) -> Any:
    """How a plan is pickled."""
    nodes = toposort(_nodes(plan))
    numbers = {node: number for number, node in enumerate(nodes)}
    stand_ins: dict[int, _FunctionName] = {}
    table = [_row(node, numbers) for node in nodes]
    fields = (
        *(
            plan.lowered,
            plan.layout,
            plan.kept,
            plan.engine,
            plan.user_results,
            dict(plan.in_place_updates),
        ),
        *(plan.threads, plan.adapted, dict(plan.names), plan.budget, plan.notes),
    )
    return plan_from, (_dump(table, {}, stand_ins), _dump(fields, numbers, stand_ins))


def plan_from(table: bytes, fields: bytes) -> Plan:
    """A plan that was pickled."""
    nodes: list[Node] = []
    for row in _load(table, ()):
        nodes.append(_node(row, nodes))
    return Plan(*_load(fields, nodes))


def _nodes(plan: Plan) -> list[Node]:
    """The nodes that a plan speaks of, beside those they are made from."""
    lowered = plan.lowered
    placed = [node for node, _ in lowered.values]
    updates = chain.from_iterable(plan.in_place_updates.items())
    return [
        *(*lowered.results, *lowered.steps, *placed),
        *(*plan.kept, *plan.user_results, *updates, *plan.names),
    ]


# ----------------------------------------------------------------------- nodes


Row = tuple[Op, tuple[int, ...], Any, Any, list[tuple[str, str, str]]]
"""Op, numbers of inputs, type or value, dtype, places in the program."""


def _row(node: Node, numbers: dict[Node, int]) -> Row:
    op = node.op
    kind: Any = node.shape
    if isinstance(op, Constant):
        assert node.value is not None, "a constant has a value"
        if node.value.nbytes <= MOST_INTERNED_BYTES:
            kind = node.value
    places = [(s.place, s.scope, s.name) for s in node.sources]
    return op, tuple([numbers[i] for i in node.inputs]), kind, node.dtype, places


def _node(row: Row, nodes: Sequence[Node]) -> Node:
    op, numbers, kind, dtype, places = row
    sources = [read_source([*place]) for place in places]
    inputs = tuple([nodes[i] for i in numbers])
    with source_scope(tuple([s for s in sources if isinstance(s, Source)])):
        if isinstance(op, Variable):
            return Node(op, (), kind, dtype)
        if isinstance(op, Constant):
            if isinstance(kind, np.ndarray):
                return constant(cast("Value", kind))
            return _unwritten(kind, dtype)
        return part(inputs[0], op.index) if isinstance(op, Part) else make(op, inputs)


def _unwritten(shape: Shape, dtype: DType) -> Node:
    """Stands for a large constant: zeros that share one element."""
    return borrowed_constant(np.broadcast_to(np.zeros((), dtype), shape))


class _FunctionName:
    """Stands for a user's function, which a plan only names."""

    def __init__(self, name: str) -> None:
        self.__qualname__ = name


# --------------------------------------------------------------------- pickles


def _dump(item: object, numbers: dict[Node, int], stand_ins: dict[int, _FunctionName]) -> bytes:
    file = io.BytesIO()
    _PlanWriter(file, numbers, stand_ins).dump(item)
    return file.getvalue()


def _load(data: bytes, nodes: Sequence[Node]) -> Any:
    return _PlanReader(io.BytesIO(data), nodes).load()


class _PlanWriter(pickle.Pickler):
    """Writes nodes as numbers, and ops and records by the values they are made from."""

    def __init__(
        self, file: io.BytesIO, numbers: dict[Node, int], stand_ins: dict[int, _FunctionName]
    ) -> None:
        super().__init__(file, PROTOCOL)
        self._numbers = numbers
        self._stand_ins = stand_ins

    def persistent_id(self, obj: object) -> int | None:
        return self._numbers[obj] if isinstance(obj, Node) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Elementwise):
            return _elementwise_named, (obj.facts().name,)
        if isinstance(obj, Op):
            values = [getattr(obj, field) for field in obj.fields]
            if isinstance(obj, DerivativeMarker):
                values[obj.fields.index("rule")] = None
            return type(obj), tuple(values)
        if isinstance(obj, UserObject):
            if obj.it is None:
                return UserObject, (None,)
            return UserObject, (self._stand_ins.setdefault(id(obj.it), _FunctionName(repr(obj))),)
        if isinstance(obj, Body):
            return Body.of, (obj.operands, obj.steps, obj.results)
        if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
            return obj.__class__, tuple([getattr(obj, f.name) for f in dataclasses.fields(obj)])
        return NotImplemented


class _PlanReader(pickle.Unpickler):
    """Reads what `_PlanWriter` writes: classes of this library, and NumPy's dtypes and arrays."""

    def __init__(self, file: io.BytesIO, nodes: Sequence[Node]) -> None:
        super().__init__(file)
        self._nodes = nodes

    def persistent_load(self, pid: Any) -> Node:
        return self._nodes[int(pid)]

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        known = module_name.partition(".")[0] in ("tawny", "numpy")
        if not known and (module_name, global_name) not in _PLAIN:
            raise pickle.UnpicklingError(f"a plan holds no {module_name}.{global_name}")
        return super().find_class(module_name, global_name)


_PLAIN: Final = {("builtins", "frozenset"), ("builtins", "getattr")}


def _elementwise_named(name: str) -> Elementwise:
    return ELEMENTWISE[name]
