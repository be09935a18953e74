"""What a model file says, as plain records: graphs, nodes, attributes and types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tawny.files.reading import Fail
from tawny.node import Value

Dimension = int | str | None
"""The size of an axis: a number, a name that stands for one, or unknown."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """An array's type; `dims` is None where not even the number of axes is said."""

    element: int
    dims: tuple[Dimension, ...] | None


@dataclass(frozen=True, slots=True)
class SequenceType:
    """The type of a list of values of one type."""

    item: ValueType


@dataclass(frozen=True, slots=True)
class OptionalType:
    """The type of a value that may be missing."""

    item: ValueType


ValueType: TypeAlias = "TensorType | SequenceType | OptionalType | None"


@dataclass(frozen=True, slots=True)
class StringTensor:
    """An array of strings, which only some attributes have."""

    items: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as the value of an attribute."""

    type: ValueType


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute of the function that a node stands in."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeOfFile:
    """A call of an operator: names of what it reads and makes; an empty one is left out."""

    name: str
    op: str
    domain: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue]
    data: bytes = b""
    """The node as the file has it, where the standard is asked what its graphs mean."""

    @property
    def kind(self) -> str:
        """The operator with its domain, where that is not the standard's own."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def place(self) -> str:
        """The node as errors name it."""
        name = self.name or (f"that makes {self.outputs[0]}" if self.outputs else "without a name")
        return f"node {name!r} ({self.kind})" if self.name else f"node {name} ({self.kind})"


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """Nodes in order, with the arrays the file holds."""

    name: str
    inputs: Mapping[str, ValueType]
    outputs: Mapping[str, ValueType]
    constants: Mapping[str, Value]
    unsupported: Mapping[str, str]
    """Why an array of the file is none that can be computed with."""
    nodes: tuple[NodeOfFile, ...]


FunctionKey = tuple[str, str, str]
"""Domain, name and overload."""


@dataclass(frozen=True, slots=True)
class FunctionRecord:
    """An operator that a model or the standard says by other operators."""

    key: FunctionKey
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue | None]
    """Names of attributes, with the value of those that may be left out."""
    opsets: Mapping[str, int]
    nodes: tuple[NodeOfFile, ...]


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A whole file."""

    path: str
    opsets: Mapping[str, int]
    graph: GraphRecord
    functions: Mapping[FunctionKey, FunctionRecord]
    fail: Fail = field(repr=False, compare=False)
    """Makes the error for a place in the file."""


AttributeValue: TypeAlias = (
    int
    | float
    | bytes
    | Value
    | GraphRecord
    | TypeValue
    | StringTensor
    | Reference
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[bytes, ...]
    | tuple[Value, ...]
    | tuple[GraphRecord, ...]
)
"""What an attribute of a node may hold."""

STANDARD: Final = ("", "ai.onnx")
"""Names of the standard's own domain."""


def domain_of(name: str) -> str:
    """A domain by its one name."""
    return "" if name in STANDARD else name
