"""Models of files: graphs once shapes are known, and functions that compile for each shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

import numpy as np

from tawny.array import Array, wrap
from tawny.errors import list_accepted, list_some, type_error, value_error
from tawny.forking import fork_safe_lock
from tawny.graph.graph import Graph
from tawny.graph.program import Program
from tawny.memory.lru import LRUCache
from tawny.node import Value, variable
from tawny.onnx.call import UnknownValueError
from tawny.onnx.element_types import UnsupportedTypeError, element_dtype
from tawny.onnx.importer import Importer, as_constant
from tawny.onnx.records import (
    Dimension,
    ModelRecord,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
)
from tawny.onnx.values import FlowValue, NoValue, SequenceValue
from tawny.shape import Shape, as_shape

Shapes = Mapping[str, Any]
"""Shapes of inputs by name, lists of them for sequences, and sizes of axes by name."""

MOST_PROGRAMS: Final = 16
"""Programs that a model keeps."""

MOST_SHAPE_NUMBERS: Final = 64
"""Numbers of an input that a program may be compiled for: shapes, axes and scales have few."""


@final
class Model:
    """A model whose shapes are not all said by its file: a function of arrays.

    A call compiles a program for the shapes that come, and keeps it for later calls; the least
    recently used go first.  Inputs that shapes depend on are part of what is compiled for.
    """

    def __init__(self, record: ModelRecord, options: Mapping[str, Any]) -> None:
        self._record = record
        graph = record.graph
        self.inputs: Mapping[str, ValueType] = {
            name: kind for name, kind in graph.inputs.items() if name not in graph.constants
        }
        """Types of inputs by name, as the file says them."""
        self.outputs: tuple[str, ...] = tuple(graph.outputs)
        """Names of outputs."""
        self._options: dict[str, Any] = {"incremental": False, **options}
        self._static: frozenset[str] = frozenset()
        self._programs: LRUCache[Program] = LRUCache(MOST_PROGRAMS)
        self._lock = fork_safe_lock()

    def __repr__(self) -> str:
        names = ", ".join(self.inputs)
        return f"<model of {self._record.path}: {names} -> {', '.join(self.outputs)}>"

    @property
    def is_static(self) -> bool:
        """Whether the file says all shapes of inputs."""
        return all(
            isinstance(t, TensorType)
            and t.dims is not None
            and all(isinstance(d, int) for d in t.dims)
            for t in self.inputs.values()
        )

    def graph(self, shapes: Shapes | None = None, values: Mapping[str, Any] | None = None) -> Graph:
        """The graph for some shapes; inputs and outputs are named as in the file.

        - `shapes`: shapes of inputs by name, and sizes of axes by the names the file gives them.
        - `values`: inputs that are fixed, by name: those that shapes depend on must be.
        """
        shapes, values = dict(shapes or {}), dict(values or {})
        self._check_names(shapes, values)
        given: dict[str, FlowValue] = {}
        inputs: list[Array] = []
        for name, kind in self.inputs.items():
            if name in values:
                given[name] = self._fix(name, kind, values[name])
            else:
                given[name] = self._variables(name, kind, shapes, inputs)
        made = Importer(self._record).outputs(given)
        outputs = {name: _structure(x) for name, x in made.items() if not isinstance(x, NoValue)}
        name = self._record.graph.name
        if not outputs:
            raise self._record.fail(f"graph {name!r}", "it has no output")
        return Graph(inputs, outputs, name=name or None, unused="ignore")

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Outputs by name, of inputs by position or by name."""
        given = self._inputs_of(args, kwargs)
        key = self._key(given)
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._compile(given)
                self._programs.put(self._key(given), program, 1)
        flat = {
            path: x
            for name, value in given.items()
            if name not in self._static
            for path, x in _leaves(name, value)
        }
        made: dict[str, Any] = program(**flat)
        return made

    # ----------------------------------------------------------------- programs

    def _compile(self, given: Mapping[str, Any]) -> Program:
        """A program for the shapes of some arrays, and for the values that shapes depend on."""
        while True:
            values = {name: given[name] for name in self._static if name in given}
            shapes = {n: _shapes(x) for n, x in given.items() if n not in values}
            try:
                return self.graph(shapes, values).compile(**self._options)
            except UnknownValueError as error:
                needed = {name for name in error.inputs if _is_shape_like(given.get(name))}
                if not needed - self._static:
                    raise
                self._static |= needed

    def _key(self, given: Mapping[str, Any]) -> tuple[object, ...]:
        static = self._static
        return tuple(
            [_content(x) if name in static else repr(_shapes(x)) for name, x in given.items()]
        )

    def _inputs_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What a call gives for each input, as arrays of the dtypes of the file."""
        names = list(self.inputs)
        if len(args) > len(names):
            raise type_error("model", f"{len(args)} values came; the inputs are {list_some(names)}")
        found = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.inputs or name in found:
                problem = "came twice" if name in found else "is no input"
                listed = list_accepted(names, name)
                raise type_error("model", f"{name!r} {problem}; the inputs are {listed}")
            found[name] = value
        absent = [n for n in names if n not in found]
        absent = [n for n in absent if not isinstance(self.inputs[n], OptionalType)]
        if absent:
            raise type_error("model", f"no value came for {list_some([*map(repr, absent)])}")
        return {n: self._array(n, self.inputs[n], found.get(n)) for n in names}

    def _array(self, name: str, kind: ValueType, value: Any) -> Any:
        match kind:
            case SequenceType(item):
                if not isinstance(value, (list, tuple)):
                    raise type_error("model", f"{name!r} is a sequence; a list is expected")
                items = cast("list[object]", value)
                return [self._array(f"{name}.{i}", item, x) for i, x in enumerate(items)]
            case OptionalType(item):
                return None if value is None else self._array(name, item, value)
            case TensorType(element):
                dtype = self._dtype(name, element)
                array = np.asarray(value)
                if array.dtype != dtype:
                    if isinstance(value, np.ndarray):
                        raise type_error(
                            "model", f"{name!r} has dtype {array.dtype}; accepted: {dtype}"
                        )
                    array = array.astype(dtype)
                return array
            case None:
                return np.asarray(value)

    # ------------------------------------------------------------------- inputs

    def _check_names(self, shapes: Shapes, values: Mapping[str, Any]) -> None:
        axes = {d: None for t in self.inputs.values() for d in _names_of_axes(t)}
        for name in (*shapes, *values):
            if name not in self.inputs and (name in values or name not in axes):
                listed = ", ".join([*self.inputs, *axes])
                raise value_error("onnx.load", f"{name!r} is no input or axis; accepted: {listed}")

    def _dtype(self, name: str, element: int) -> np.dtype[Any]:
        try:
            return element_dtype(element)
        except UnsupportedTypeError as error:
            raise self._record.fail(f"input {name!r}", str(error)) from None

    def _fix(self, name: str, kind: ValueType, value: Any) -> FlowValue:
        """A value that an input always has."""

        def convert(x: Any) -> FlowValue:
            if x is None:
                return NoValue()
            if isinstance(x, list):
                return SequenceValue(tuple(map(convert, cast("list[object]", x))))
            own: Value = np.array(x)
            return as_constant(own)

        return convert(self._array(name, kind, value))

    def _variables(
        self, name: str, kind: ValueType, shapes: dict[str, Any], inputs: list[Array]
    ) -> FlowValue:
        """The variable of an input, or those of its items."""
        given = shapes.get(name)
        match kind:
            case SequenceType(item):
                if not isinstance(given, list):
                    raise value_error(
                        "onnx.load", f"input {name!r} is a sequence; give a list of shapes for it"
                    )
                places = enumerate(cast("list[object]", given))
                items = [
                    self._variables(f"{name}.{i}", item, {**shapes, f"{name}.{i}": shape}, inputs)
                    for i, shape in places
                ]
                return SequenceValue(tuple(items))
            case OptionalType(item):
                return NoValue() if given is None else self._variables(name, item, shapes, inputs)
            case TensorType(element, dims):
                shape = self._shape(name, dims, shapes)
                made = wrap(variable(name, shape, self._dtype(name, element)))
                inputs.append(made)
                return made
            case None:
                raise self._record.fail(f"input {name!r}", "its type is not said")

    def _shape(
        self, name: str, dims: tuple[Dimension, ...] | None, shapes: Mapping[str, Any]
    ) -> Shape:
        if name in shapes:
            shape = as_shape(shapes[name], "onnx.load", f"the shape of {name!r}")
            if dims is not None and (
                len(dims) != len(shape)
                or any(isinstance(d, int) and d != n for d, n in zip(dims, shape, strict=True))
            ):
                said = ", ".join("?" if d is None else str(d) for d in dims)
                raise value_error(
                    "onnx.load", f"input {name!r} is given shape {shape}; the file says ({said})"
                )
            return shape
        if dims is None:
            raise value_error("onnx.load", f"the shape of input {name!r} is needed: shapes={{...}}")
        sizes = [shapes.get(d) if isinstance(d, str) else d for d in dims]
        if any(n is None for n in sizes):
            said = ", ".join("?" if d is None else str(d) for d in dims)
            raise value_error(
                "onnx.load",
                f"input {name!r} has shape ({said}); give it by shapes={{{name!r}: (...)}}",
            )
        return as_shape(sizes, "onnx.load", f"the shape of {name!r}")


def _names_of_axes(kind: ValueType) -> Sequence[str]:
    if not isinstance(kind, TensorType):
        return ()
    return [d for d in kind.dims or () if isinstance(d, str)]


def _content(value: Any) -> tuple[object, ...]:
    return value.shape, value.tobytes()


def _shapes(value: Any) -> Any:
    """The shape of what is given for an input; lists of them for sequences."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_shapes(x) for x in cast("list[object]", value)]
    return value.shape


def _leaves(name: str, value: Any) -> list[tuple[str, Value]]:
    """Names of variables, and what is given for them."""
    if value is None:
        return []
    if isinstance(value, list):
        items = enumerate(cast("list[object]", value))
        return [leaf for i, x in items for leaf in _leaves(f"{name}.{i}", x)]
    return [(name, value)]


def _is_shape_like(value: Any) -> bool:
    """Whether a program may be compiled for one value of an input."""
    return isinstance(value, np.ndarray) and value.size <= MOST_SHAPE_NUMBERS


def _structure(value: FlowValue) -> Any:
    if isinstance(value, SequenceValue):
        return [_structure(x) for x in value.items]
    return value
