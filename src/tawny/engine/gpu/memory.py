"""Memory of programs on a GPU: one arena, and a buffer for each variable and constant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tawny.engine.gpu.array import GpuArray, as_bytes, fetch_array
from tawny.engine.gpu.driver import DeviceDriver
from tawny.engine.gpu.launch import VECTOR_BYTES
from tawny.engine.layout import Memory, StridedView, Views
from tawny.engine.lowering import Place, is_leaf, result_of, types
from tawny.engine.protocol import BindableArray, MemoryRange, Task
from tawny.memory.schedule import RESIDENT
from tawny.node import Node, Value
from tawny.shape import size
from tawny.unique import Unique


class BufferPlace(NamedTuple):
    """A place in a device's memory."""

    buffer: Any
    offset: int


class Location(NamedTuple):
    """The beginning of a value: in a variable, a constant or the arena."""

    variable: int | None
    buffer: Any
    """None for a variable, whose buffer may be another one later."""
    offset: int

    def place(self, variables: Sequence[BufferPlace | None]) -> BufferPlace:
        """The place, given those of the variables."""
        if self.variable is None:
            return BufferPlace(self.buffer, self.offset)
        own = variables[self.variable]
        assert own is not None
        return BufferPlace(own.buffer, own.offset + self.offset)


class DeviceMemory(Unique):
    """All memory of a task on a device; its arena is given."""

    def __init__(self, task: Task, driver: DeviceDriver, arena: BufferPlace) -> None:
        self.task, self.driver, self.arena = task, driver, arena
        self.views = Views()
        self.variables: list[BufferPlace | None] = [None] * len(task.variables)
        """Where each variable lies."""
        self._not_owned = set(range(len(task.variables)))
        """The variables without memory of their own."""
        self._constants: dict[Node, Any] = {}
        self._last: dict[Node, tuple[StridedView, Location]] = {}
        """Values when a run has ended, those that were asked for."""
        self._index: dict[Place, int] = {(node, 0): i for i, node in enumerate(task.variables)}
        self._index |= {
            result_of(node): self._index[home, 0] for node, home in task.in_place_updates.items()
        }

    # --------------------------------------------------------------- variables

    def write(self, values: Sequence[tuple[int, Value]]) -> None:
        """Copy values into the buffers of variables; none takes its value unless all have one."""
        missing = [i for i, _ in values if i in self._not_owned]
        made = [self.driver.allocate(max(_nbytes(self.task.variables[i]), 1)) for i in missing]
        for index, buffer in zip(missing, made, strict=True):
            self.variables[index] = BufferPlace(buffer, 0)
            self._not_owned.discard(index)
        for index, value in values:
            node, place = self.task.variables[index], self.variables[index]
            assert place is not None
            whole = np.ascontiguousarray(np.broadcast_to(value, node.shape), node.dtype)
            self.driver.write(*place, as_bytes(whole))

    def locate(self, index: int, array: object) -> BindableArray | None:
        """The bytes of an array of the device that a variable may be bound to."""
        node = self.task.variables[index]
        own = array if isinstance(array, GpuArray) else self.driver.adopt(array)
        if own is None or own.driver is not self.driver:
            return None
        if (own.shape, own.dtype) != (node.shape, node.dtype) or not own.memory.contiguous:
            return None
        place = BufferPlace(own.buffer, own.offset)
        found = self._range(place, own.nbytes, own.writeable)
        return None if found.start % VECTOR_BYTES else BindableArray(own, found)

    def bind(self, arrays: Iterable[tuple[int, Any]]) -> None:
        """Let variables lie in these arrays."""
        for index, array in arrays:
            self._not_owned.add(index)
            self.variables[index] = BufferPlace(array.buffer, array.offset)

    def variable_range(self, index: int) -> MemoryRange:
        """The bytes of a variable."""
        place = self.variables[index]
        assert place is not None
        return self._range(place, _nbytes(self.task.variables[index]))

    @property
    def arena_range(self) -> MemoryRange:
        """The bytes of all that a run computes."""
        return self._range(self.arena, self.task.layout.arena)

    def _range(self, place: BufferPlace, nbytes: int, writeable: bool = True) -> MemoryRange:
        first = self.driver.address(place.buffer) + place.offset
        return MemoryRange(first, first + nbytes, writeable)

    # ------------------------------------------------------------------ values

    def read(self, nodes: Iterable[Node]) -> list[Value]:
        """Copies of the values of variables and kept nodes."""
        return [self.view(node).numpy() for node in nodes]

    def direct_run(self, *_: object) -> None:
        """None: all runs go by `advance`."""

    def view(self, node: Node) -> GpuArray:
        """The value of a variable or a kept node where it lies."""
        seen, location = self._final(node)
        return GpuArray(self.driver, *location.place(self.variables), seen.memory)

    def _final(self, node: Node) -> tuple[StridedView, Location]:
        """A value when a run has ended."""
        if (known := self._last.get(node)) is not None:
            return known
        seen = self.views(node)
        storages, number = self.task.layout.schedule.final_storages, self.task.lowered.values
        storage = RESIDENT if self._is_outside(seen) else storages[number[node, 0]]
        found = self._last[node] = seen, self.operand(seen, storage)
        return found

    # ------------------------------------------------------------------- places

    def operand(self, seen: StridedView, storage: int) -> Location:
        """Where a value begins that is read from a storage of the arena, or lies outside it."""
        variable = self._index.get((seen.root, seen.part))
        if variable is not None:
            return Location(variable, None, seen.offset)
        if is_leaf(seen.root):
            return Location(None, self._constant(seen.root), seen.offset)
        return self.within_arena(self.task.layout.placement.offsets[storage] + seen.offset)

    def result(self, node: Node, part: int, storage: int) -> Location:
        """Where a result is written: in the variable that it updates, or in the arena."""
        variable = self._index.get((node, part))
        if variable is not None:
            return Location(variable, None, 0)
        return self.within_arena(self.task.layout.placement.offsets[storage])

    def within_arena(self, offset: int) -> Location:
        """Where a part of the arena begins."""
        return Location(None, self.arena.buffer, self.arena.offset + offset)

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


def fetch(
    driver: DeviceDriver,
    variables: Sequence[BufferPlace | None],
    memory: Memory,
    location: Location,
) -> Value:
    """A value as an array of the host."""
    return fetch_array(driver, *location.place(variables), memory)


def _nbytes(node: Node, part: int = 0) -> int:
    shape, dtype = types(node)[part]
    return size(shape) * int(dtype.itemsize)
