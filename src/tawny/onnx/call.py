"""One call of an operator: its operands and attributes, read with their types checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol, TypeVar, cast

import numpy as np

from tawny.array import Array, has_value
from tawny.files.reading import GraphFileError, excerpt
from tawny.node import Value, toposort, variables
from tawny.onnx.integers import IntegerNotes
from tawny.onnx.records import (
    AttributeValue,
    GraphRecord,
    NodeOfFile,
    StringTensor,
    TypeValue,
    ValueType,
)
from tawny.onnx.values import FlowValue, SequenceValue
from tawny.op import nbytes

T = TypeVar("T")

MOST_KNOWN_BYTES: Final = 2**28
"""Bytes that finding a value that shapes depend on may take: 256 MB; real ones take little."""

MOST_ELEMENTS: Final = 2**24
"""Elements of an array that an operator makes while a file is read; real ones have thousands."""

MOST_STEPS: Final = 10_000
"""Steps of a loop, parts of an axis or places in a window that are written out one by one."""


class UnknownValueError(ValueError):
    """A shape depends on what an input will hold; says on which inputs."""

    def __init__(self, place: str, detail: str, inputs: Sequence[str]) -> None:
        super().__init__(f"{place}: {detail}")
        self.inputs = tuple(inputs)


class GraphRunner(Protocol):
    """Runs the graphs that some operators have as attributes."""

    def __call__(
        self, graph: GraphRecord, arguments: Sequence[FlowValue], /
    ) -> tuple[FlowValue, ...]: ...


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A node while it is read into the graph."""

    node: NodeOfFile
    opset: int
    """The version of the operators of the node's domain."""
    operands: tuple[FlowValue | None, ...]
    """Operands by position; None where one is left out."""
    attributes: Mapping[str, AttributeValue]
    run: GraphRunner
    error: Callable[[str, str], GraphFileError]
    notes: IntegerNotes
    """What is known of values of the model that stand for integers."""

    # ----------------------------------------------------------------- operands

    @property
    def wants(self) -> tuple[bool, ...]:
        """Whether each output is used."""
        return tuple(map(bool, self.node.outputs))

    def fail(self, detail: str) -> NoReturn:
        """Refuse the node."""
        raise self.error(self.node.place, detail)

    def check_elements(self, count: float, what: str) -> None:
        """Refuse arrays too large to be made while the file is read."""
        if not 0 <= count <= MOST_ELEMENTS:
            self.fail(f"{what}: {count} elements; at most {MOST_ELEMENTS} are made")

    def check_steps(self, count: int, what: str) -> None:
        """Refuse what is written out step by step, and has too many steps."""
        if not 0 <= count <= MOST_STEPS:
            self.fail(f"{what}: {count} steps; at most {MOST_STEPS} are written out")

    def value(self, i: int) -> FlowValue:
        """An operand that must be there."""
        found = self.operands[i] if i < len(self.operands) else None
        if found is None:
            self.fail(f"operand {i} is left out, which is not possible")
        return found

    def array(self, i: int) -> Array:
        """An array that must be there."""
        return self.as_array(self.value(i), i)

    def as_array(self, value: FlowValue, i: int) -> Array:
        """The array that operand `i` is."""
        if not isinstance(value, Array):
            kind = "sequence" if isinstance(value, SequenceValue) else "missing optional value"
            self.fail(f"operand {i} is a {kind}; accepted: an array")
        return value

    def optional(self, i: int) -> Array | None:
        """An array that may be left out."""
        found = self.operands[i] if i < len(self.operands) else None
        return None if found is None else self.as_array(found, i)

    def arrays(self) -> list[Array]:
        """All operands, each an array."""
        return [self.array(i) for i in range(len(self.operands))]

    def sequence(self, i: int) -> tuple[FlowValue, ...]:
        """A sequence that must be there."""
        found = self.value(i)
        if not isinstance(found, SequenceValue):
            kind = "an array" if isinstance(found, Array) else "a missing optional value"
            self.fail(f"operand {i} is {kind}; accepted: a sequence")
        return found.items

    def is_known(self, i: int) -> bool:
        """Whether an operand's value depends on no input."""
        found = self.operands[i] if i < len(self.operands) else None
        return isinstance(found, Array) and found.node.known

    def known_operand(self, i: int) -> Value:
        """The value of an operand, which must depend on no input."""
        return self.known_value(self.array(i), f"operand {i} decides shapes")

    def known_value(self, array: Array, what: str) -> Value:
        """The value of an array that must depend on no input; `what` says why, as errors do."""
        if not array.node.known:
            names = tuple(variables([array.node]))
            listed = ", ".join(map(repr, names[:3]))
            raise UnknownValueError(
                self.node.place,
                f"{what}, and depends on what input {listed} holds; give it by "
                f"values={{{names[0]!r}: ...}}",
                names,
            )
        needed = toposort([array.node], has_value)
        if sum(nbytes((n.shape, n.dtype)) for n in needed) > MOST_KNOWN_BYTES:
            self.fail(f"{what}, and takes too much memory to be computed")
        return array.numpy()

    def known_ints(self, i: int) -> tuple[int, ...]:
        """A known operand of integers on one axis, or one alone."""
        found = self.known_operand(i)
        if found.dtype.kind not in "iu" or found.ndim > 1:
            self.fail(
                f"operand {i} has shape {found.shape} and dtype {found.dtype}; "
                "accepted: integers on one axis"
            )
        return tuple(map(int, found.ravel()))

    def known_int(self, i: int) -> int:
        """A known operand of one integer."""
        found = self.known_ints(i)
        if len(found) != 1:
            self.fail(f"operand {i} has {len(found)} numbers; accepted: 1")
        return found[0]

    def known_optional_ints(self, i: int) -> tuple[int, ...] | None:
        """A known operand of integers that may be left out."""
        return None if self.optional(i) is None else self.known_ints(i)

    # --------------------------------------------------------------- attributes

    def _attribute(self, name: str, kinds: type | tuple[type, ...], word: str) -> Any:
        found = self.attributes[name]
        if not isinstance(found, kinds):
            self.fail(f"attribute {name!r} is {excerpt(found)}; accepted: {word}")
        return found

    def has(self, name: str) -> bool:
        """Whether an attribute is there."""
        return name in self.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer; without a default it must be there."""
        if name not in self.attributes:
            return self._or_refuse(name, default)
        return cast("int", self._attribute(name, int, "an integer"))

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer that says yes or no."""
        return self.integer(name, int(default)) != 0

    def number(self, name: str, default: float | None = None) -> float:
        """A number; without a default it must be there."""
        if name not in self.attributes:
            return self._or_refuse(name, default)
        return float(cast("float", self._attribute(name, (int, float), "a number")))

    def text(self, name: str, default: str | None = None) -> str:
        """A string; without a default it must be there."""
        if name not in self.attributes:
            return self._or_refuse(name, default)
        return cast("bytes", self._attribute(name, bytes, "a string")).decode("utf-8", "replace")

    def choice(self, name: str, default: str, accepted: Sequence[str]) -> str:
        """A string that is one of a few."""
        found = self.text(name, default)
        if found not in accepted:
            self.fail(f"attribute {name!r} is {excerpt(found)}; accepted: {', '.join(accepted)}")
        return found

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Integers; without a default they must be there."""
        if name not in self.attributes:
            return tuple(self._or_refuse(name, default))
        return self._items(name, int, "integers")

    def floats(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """Numbers; without a default they must be there."""
        if name not in self.attributes:
            return tuple(self._or_refuse(name, default))
        return self._items(name, (int, float), "numbers")

    def texts(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """Strings; without a default they must be there."""
        if name not in self.attributes:
            return tuple(self._or_refuse(name, default))
        found: tuple[bytes, ...] = self._items(name, bytes, "strings")
        return tuple(x.decode("utf-8", "replace") for x in found)

    def _items(self, name: str, kinds: type | tuple[type, ...], word: str) -> tuple[Any, ...]:
        found = cast("tuple[Any, ...]", self._attribute(name, tuple, word))
        if not all(isinstance(x, kinds) for x in found):
            self.fail(f"attribute {name!r} is {excerpt(found)}; accepted: {word}")
        return found

    def tensor(self, name: str) -> Value:
        """An array."""
        if name not in self.attributes:
            self.fail(f"attribute {name!r} is left out, which is not possible")
        found = self.attributes[name]
        if isinstance(found, StringTensor):
            self.fail(f"attribute {name!r} holds strings, which are not supported")
        return cast("Value", self._attribute(name, np.ndarray, "an array"))

    def graph(self, name: str) -> GraphRecord:
        """A graph."""
        if name not in self.attributes:
            self.fail(f"attribute {name!r} is left out, which is not possible")
        return cast("GraphRecord", self._attribute(name, GraphRecord, "a graph"))

    def type_value(self, name: str) -> ValueType:
        """A type that is there, or None."""
        if name not in self.attributes:
            return None
        return cast("TypeValue", self._attribute(name, TypeValue, "a type")).type

    def _or_refuse(self, name: str, default: T | None) -> T:
        if default is None:
            self.fail(f"attribute {name!r} is left out, which is not possible")
        return default

    # -------------------------------------------------------------------- axes

    def axis(self, axis: int, rank: int) -> int:
        """An axis that an array of `rank` axes has, counted from the front."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of bounds for {rank} axes")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Different axes, counted from the front."""
        found = tuple(self.axis(a, rank) for a in axes)
        if len(set(found)) != len(found):
            self.fail(f"axes are {tuple(axes)}; each may be there once")
        return found

    def axes_since(self, since: int, position: int) -> tuple[int, ...] | None:
        """Axes that are an attribute before a version, and an operand from it on."""
        if self.opset >= since:
            return self.known_optional_ints(position)
        return self.ints("axes") if self.has("axes") else None

    def count(self, least: int, most: int) -> None:
        """Refuse another number of operands."""
        n = len(self.operands)
        if not least <= n <= most:
            accepted = str(least) if least == most else f"{least} to {most}"
            self.fail(f"{n} operands came; accepted: {accepted}")
