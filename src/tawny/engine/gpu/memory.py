"""Memory of programs on a GPU: one arena, and a buffer for each variable and constant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tawny.engine.gpu.driver import Bytes, DeviceDriver
from tawny.engine.layout import Memory, StridedView, Views
from tawny.engine.lowering import Place, is_leaf, result_of, types
from tawny.engine.protocol import MemoryRange, Task
from tawny.memory.schedule import RESIDENT
from tawny.node import Node, Value
from tawny.shape import size
from tawny.unique import Unique


class Location(NamedTuple):
    """Where a value begins: in a variable, a constant or the arena."""

    variable: int | None
    buffer: Any
    """None for a variable, whose buffer may be another one later."""
    offset: int


class DeviceMemory(Unique):
    """All memory of a task on a device."""

    def __init__(self, task: Task, driver: DeviceDriver) -> None:
        self.task, self.driver = task, driver
        self.arena = driver.allocate(max(task.layout.arena, 1))
        self.views = Views()
        self.variables: list[Any] = [None] * len(task.variables)
        self._constants: dict[Node, Any] = {}
        self._index: dict[Place, int] = {(node, 0): i for i, node in enumerate(task.variables)}
        self._index |= {
            result_of(node): self._index[home, 0] for node, home in task.in_place_updates.items()
        }

    # --------------------------------------------------------------- variables

    def write(self, values: Sequence[tuple[int, Value]]) -> None:
        """Copy values into the buffers of variables; none takes its value unless all have one."""
        missing = [i for i, _ in values if self.variables[i] is None]
        made = [self.driver.allocate(max(_nbytes(self.task.variables[i]), 1)) for i in missing]
        for index, buffer in zip(missing, made, strict=True):
            self.variables[index] = buffer
        for index, value in values:
            node = self.task.variables[index]
            whole = np.ascontiguousarray(np.broadcast_to(value, node.shape), node.dtype)
            self.driver.write(self.variables[index], 0, as_bytes(whole))

    def locate(self, index: int, array: object) -> MemoryRange | None:
        """None: arrays of the host are not in the device's memory."""
        del index, array
        return None

    def bind(self, arrays: Iterable[tuple[int, Any]]) -> None:
        """Nothing can be located, so nothing is bound."""
        assert not list(arrays)

    def variable_range(self, index: int) -> MemoryRange:
        """No bytes that an array of the host could share."""
        del index
        return MemoryRange(0, 0, writeable=True)

    @property
    def arena_range(self) -> MemoryRange:
        """No bytes that an array of the host could share."""
        return MemoryRange(0, 0, writeable=True)

    # ------------------------------------------------------------------ values

    def read(self, nodes: Iterable[Node]) -> list[Value]:
        """Copies of the values of variables and kept nodes."""
        return [fetch(self.driver, self.variables, *self._final(node)).copy() for node in nodes]

    def view(self, node: Node) -> Value:
        """The value of a variable or a kept node, as a copy that may be read."""
        value = fetch(self.driver, self.variables, *self._final(node)).copy()
        value.flags.writeable = False
        return value

    def _final(self, node: Node) -> tuple[StridedView, Location]:
        """A value when a run has ended."""
        seen = self.views(node)
        storages, number = self.task.layout.schedule.final_storages, self.task.lowered.values
        storage = RESIDENT if self._is_outside(seen) else storages[number[node, 0]]
        return seen, self.operand(seen, storage)

    # ------------------------------------------------------------------- places

    def operand(self, seen: StridedView, storage: int) -> Location:
        """Where a value begins that is read from a storage of the arena, or lies outside it."""
        variable = self._index.get((seen.root, seen.part))
        if variable is not None:
            return Location(variable, None, seen.offset)
        if is_leaf(seen.root):
            return Location(None, self._constant(seen.root), seen.offset)
        return Location(None, self.arena, self.task.layout.placement.offsets[storage] + seen.offset)

    def result(self, node: Node, part: int, storage: int) -> Location:
        """Where a result is written: in the variable that it updates, or in the arena."""
        variable = self._index.get((node, part))
        if variable is not None:
            return Location(variable, None, 0)
        return Location(None, self.arena, self.task.layout.placement.offsets[storage])

    def _is_outside(self, seen: StridedView) -> bool:
        return (seen.root, seen.part) in self._index or is_leaf(seen.root)

    def _constant(self, node: Node) -> Any:
        buffer = self._constants.get(node)
        if buffer is None:
            assert node.value is not None
            value = np.ascontiguousarray(node.value)
            buffer = self._constants[node] = self.driver.allocate(max(value.nbytes, 1))
            self.driver.write(buffer, 0, as_bytes(value))
        return buffer


def buffer_of(location: Location, variables: Sequence[Any]) -> Any:
    """The buffer of a location, given those of the variables."""
    return location.buffer if location.variable is None else variables[location.variable]


def fetch(
    driver: DeviceDriver, variables: Sequence[Any], seen: StridedView, location: Location
) -> Value:
    """A value as an array of the host, through its view."""
    whole = _nbytes(seen.root, seen.part)
    first = location.offset - seen.offset
    data = driver.read(buffer_of(location, variables), first, whole)
    return strided_array(data[seen.offset :], seen.memory)


def as_bytes(array: Value) -> Bytes:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def strided_array(data: Bytes, memory: Memory) -> Value:
    """Bytes as an array of some strides."""
    if not size(memory.shape):
        return np.empty(memory.shape, memory.dtype)
    whole = data[: data.size // memory.dtype.itemsize * memory.dtype.itemsize].view(memory.dtype)
    return np.lib.stride_tricks.as_strided(whole, memory.shape, memory.strides)


def _nbytes(node: Node, part: int = 0) -> int:
    shape, dtype = types(node)[part]
    return size(shape) * int(dtype.itemsize)
