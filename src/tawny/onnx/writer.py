"""An ONNX graph while it is written: names, nodes and arrays."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import numpy as np

from tawny.dtype import BOOL, DType
from tawny.node import Node, Value
from tawny.onnx.element_types import element_number
from tawny.onnx.package import onnx_package
from tawny.source import describe

OPSET: Final = 18
"""The version of the operators that files are written in."""

IR_VERSION: Final = 8
"""The version of the format that came with it."""

MOST_SHARED_BYTES: Final = 1024
"""Larger arrays are not compared with each other."""


class UnspelledError(ValueError):
    """A node that has no meaning in ONNX."""


class GraphWriter:
    """Collects the nodes and arrays of a graph."""

    def __init__(self) -> None:
        self._onnx: Any = onnx_package("onnx.save")
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []
        self._taken: set[str] = set()
        self._known: dict[tuple[object, ...], str] = {}

    def name(self, wanted: str) -> str:
        """A name that nothing has yet."""
        made, number = wanted, 1
        while made in self._taken:
            number += 1
            made = f"{wanted}_{number}"
        self._taken.add(made)
        return made

    def add(self, op: str, *inputs: str, count: int = 1, **attributes: Any) -> str:
        """A node of an operator; the name of its first result."""
        return self.add_parts(op, *inputs, count=count, **attributes)[0]

    def add_parts(self, op: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """A node of an operator; the names of its results."""
        outputs = [self.name(op.lower()) for _ in range(count)]
        helper = self._onnx.helper
        given = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(
            helper.make_node(op, list(inputs), outputs, name=self.name(f"{op}_node"), **given)
        )
        return outputs

    def array(self, value: Value, wanted: str = "constant") -> str:
        """An array of the file; small ones that are equal are one."""
        own = np.ascontiguousarray(value).reshape(value.shape)
        key = (own.dtype, own.shape, own.tobytes()) if own.nbytes <= MOST_SHARED_BYTES else None
        name = self._known.get(key) if key is not None else None
        if name is None:
            name = self.name(wanted)
            self.arrays.append(self._onnx.numpy_helper.from_array(own, name))
            if key is not None:
                self._known[key] = name
        return name

    def ints(self, values: Sequence[int]) -> str:
        """An array of 64-bit integers."""
        return self.array(np.array(values, np.int64), "sizes")

    def number(self, value: float, dtype: DType) -> str:
        """An array of one number without axes."""
        return self.array(np.array(value, dtype), "number")

    def cast(self, name: str, given: DType, wanted: DType) -> str:
        """Elements of another dtype."""
        if given == wanted:
            return name
        return self.add("Cast", name, to=_element(wanted))

    def as_truth(self, name: str, given: DType) -> str:
        """Whether elements are not zero."""
        if given == BOOL:
            return name
        return self.add("Not", self.add("Equal", name, self.number(0, given)))

    def shape(self, name: str, shape: Sequence[int]) -> str:
        """Elements in another shape."""
        return self.add("Reshape", name, self.ints(shape), allowzero=int(0 in shape) or None)

    def transpose(self, name: str, axes: Sequence[int]) -> str:
        """Axes in another order."""
        if tuple(axes) == tuple(range(len(axes))):
            return name
        return self.add("Transpose", name, perm=list(axes))

    def slice(self, name: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """Part of an axis."""
        given = (self.ints([n]) for n in (start, end, axis, step))
        return self.add("Slice", name, *given)

    def rename(self, title: str, name: str) -> None:
        """Call a value by another name too."""
        self.nodes.append(
            self._onnx.helper.make_node("Identity", [name], [title], name=self.name("output_node"))
        )

    def value_info(self, name: str, node: Node) -> Any:
        """The type of an input or an output."""
        number = _element(node.dtype)
        return self._onnx.helper.make_tensor_value_info(name, number, list(node.shape))

    @contextmanager
    def nodes_aside(self) -> Generator[list[Any]]:
        """Within the block nodes are added to a list of their own."""
        outside, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outside

    def graph(
        self, name: str, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Any:
        """A graph among the attributes of a node, which reads arrays of those around it."""
        return self._onnx.helper.make_graph(list(nodes), name, list(inputs), list(outputs))

    def model(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The whole file, without what no output needs."""
        helper = self._onnx.helper
        needed = {output.name for output in outputs}
        nodes: list[Any] = []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.output):
                nodes.append(node)
                needed.update(_names_read(node))
        arrays = [array for array in self.arrays if array.name in needed]
        graph = helper.make_graph(nodes[::-1], name, inputs, outputs, arrays)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="tawny"
        )
        made.ir_version = IR_VERSION
        return made


def _names_read(node: Any) -> Iterator[str]:
    """The names that a node reads, those of its graphs too."""
    stack = [node]
    while stack:
        inner = stack.pop()
        yield from inner.input
        for attribute in inner.attribute:
            stack.extend(attribute.g.node)


def refuse(node: Node, why: str = "") -> NoReturn:
    """Say that a node cannot be said in ONNX."""
    where = describe(node.sources)
    place = f" at {where}" if where else ""
    raise UnspelledError(f"{node.op.facts().name}{place} has no meaning in ONNX{why}")


def _element(dtype: DType) -> int:
    """The number of the element type of a dtype."""
    number = element_number(dtype)
    if number is None:
        raise UnspelledError(f"no element type of ONNX is {dtype}")
    return number
