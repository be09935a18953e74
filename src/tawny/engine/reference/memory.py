"""Memory of engines that run where NumPy does: an arena, and an array for each variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from tawny.dtype import is_bfloat16
from tawny.engine.lowering import Place, is_leaf, result_of, types, view_base
from tawny.engine.protocol import BindableArray, DirectRun, MemoryRange, Task
from tawny.engine.reference import compute
from tawny.node import Node, Part, Value
from tawny.pages import Copies, empty_aligned
from tawny.shape import Shape, size
from tawny.unique import Unique

POISON: Final = 0xFF
"""What fresh arena bytes hold: NaN in every floating dtype, so that a stray read shows."""


HOST_DEVICES: Final = (1, 3, 13)
"""How DLPack calls memory that the host reads: its own, and what CUDA pinned or manages."""


def as_host_array(array: object) -> Value | None:
    """An array of the host, seen through DLPack where it is another library's; None for others."""
    if isinstance(array, np.ndarray):
        return cast("Value", array)
    exporter = cast("Any", array)
    try:
        if exporter.__dlpack_device__()[0] not in HOST_DEVICES:
            return None
        return cast("Value", np.from_dlpack(exporter))
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError):
        return None


class HostMemory(Unique):
    """All memory of a task, each value where the plan or its variable has it.

    A variable has memory of its own from its first value on, unless it is bound.
    """

    def __init__(self, task: Task, arena: npt.NDArray[np.uint8]) -> None:
        self.task = task
        self.arena = arena
        self.variables: list[Value] = [_NOWHERE] * len(task.variables)
        """Where each variable lies."""
        self._not_owned = set(range(len(task.variables)))
        """The variables without memory of their own."""
        self.copies = Copies()
        """Makes what a user is given of values."""
        self._index = {node: i for i, node in enumerate(task.variables)}
        homes = {node: self._index[home] for node, home in task.in_place_updates.items()}
        self._homes = {result_of(node): index for node, index in homes.items()}
        """The variables that results of steps are written to."""
        self._index |= homes
        self._values: dict[Node, Value] = {}
        """Values as they lie in memory, and the views of them that were given; until one moves."""
        self._views: dict[Node, Value] = {}

    # --------------------------------------------------------------- variables

    def write(self, values: Sequence[tuple[int, Value]]) -> None:
        """Copy values into the memory of variables; none takes its value unless all can."""
        if self._not_owned:
            self._allocate([i for i, _ in values if i in self._not_owned])
        variables = self.variables
        for index, value in values:
            variables[index][...] = value

    def locate(self, index: int, array: object) -> BindableArray | None:
        """An array that a variable may be bound to, and its bytes; None for any other object."""
        node, value = self.task.variables[index], as_host_array(array)
        if value is None or (value.shape, value.dtype) != (node.shape, node.dtype):
            return None
        if not (value.flags.c_contiguous and value.flags.aligned):
            return None
        return BindableArray(value, _range_of(value))

    def bind(self, arrays: Iterable[tuple[int, Any]]) -> None:
        """Let variables lie in these arrays."""
        for index, array in arrays:
            self._not_owned.add(index)
            self._move(index, np.asarray(array))

    def variable_range(self, index: int) -> MemoryRange:
        """The bytes of a variable."""
        return _range_of(self.variables[index])

    @property
    def arena_range(self) -> MemoryRange:
        """The bytes of all that a run computes."""
        return _range_of(self.arena)

    def _allocate(self, indices: Sequence[int]) -> None:
        """Give variables memory of their own."""
        nodes = [self.task.variables[i] for i in indices]
        made = [empty_aligned(node.shape, node.dtype) for node in nodes]
        for index, array in zip(indices, made, strict=True):
            self._not_owned.discard(index)
            self._move(index, array)

    def _move(self, index: int, array: Value) -> None:
        """Let a variable lie in other memory."""
        self.variables[index] = array
        self._values.clear()
        self._views.clear()

    def forget_bound(self) -> None:
        """Hold no array that a variable lies in; each is bound anew before the next run."""
        for index in self._not_owned:
            self.variables[index] = _NOWHERE
        self._values.clear()
        self._views.clear()

    # ------------------------------------------------------------------ values

    def read(self, nodes: Iterable[Node]) -> list[Value]:
        """Copies of the values of variables and kept nodes."""
        known = self._values
        copies: list[Value] = []
        for node in nodes:
            value = known.get(node)
            if value is None:
                value = self.value(node)
            copies.append(self.copies.copy(value))
        return copies

    def direct_run(
        self, variables: Sequence[int], positions: Sequence[int], nodes: Sequence[Node]
    ) -> DirectRun | None:
        """None: there is no shorter way."""
        return None

    def view(self, node: Node) -> Value:
        """The value of a variable or a kept node where it lies, through a view for reading."""
        view = self._views.get(node)
        if view is None:
            value = self.value(node)
            bits = value.view(np.uint16) if is_bfloat16(value.dtype) else value  # as buffers go
            view = self._views[node] = np.asarray(bits.data.toreadonly()).view(value.dtype)
        return view

    def value(self, node: Node) -> Value:
        """The value of a variable or a kept node as it lies in memory."""
        value = self._values.get(node)
        if value is None:
            placed, number = self.task.layout.schedule, self.task.lowered.values
            storage = 0 if node in self._index else placed.final_storages[number[node, 0]]
            value = self._values[node] = self.reader(node, storage)()
        return value

    def reader(self, node: Node, storage: int) -> Callable[[], Value]:
        """How to find a value, which is in a variable, or in a storage of the arena."""
        chain: list[Node] = []
        root, part = node, 0
        while root not in self._index and (base := self._base(root)) is not None:
            chain.append(root)
            root, part = base
        if root in self._index:
            index, variables = self._index[root], self.variables
            return lambda: _through_views(chain, variables[index])
        if is_leaf(root):
            assert root.value is not None
            value = root.value
        else:
            value = self._at(storage, *types(root)[part])
        value = _through_views(chain, value)
        return lambda: value

    def target(self, result: Place, storage: int) -> Callable[[], Value]:
        """How to find where a result is written: in a storage of the arena, or in a variable."""
        home = self._homes.get(result)
        if home is not None:
            variables = self.variables
            return lambda: variables[home]
        node, index = result
        place = self._at(storage, *types(node)[index])
        return lambda: place

    def _at(self, storage: int, shape: Shape, dtype: np.dtype[Any]) -> Value:
        first, count = self.task.layout.placement.offsets[storage], size(shape) * dtype.itemsize
        return self.arena[first : first + count].view(dtype).reshape(shape)

    def _base(self, node: Node) -> tuple[Node, int] | None:
        """What a node is a view of; None for one with memory of its own."""
        lowered = self.task.lowered
        if is_leaf(node) or node in lowered.step_of:
            return None
        return view_base(node, lowered.strided)


def _through_views(chain: Sequence[Node], value: Value) -> Value:
    """`value` through views, the last first."""
    for view in reversed(chain):
        if not isinstance(view.op, Part):
            value = compute(view, [value], 0)
    return value


def _range_of(array: Value) -> MemoryRange:
    start = array.__array_interface__["data"][0]
    return MemoryRange(start, start + array.nbytes, array.flags.writeable)


_NOWHERE: Final = np.empty(0)
"""In place of the memory of a variable that has none yet."""
