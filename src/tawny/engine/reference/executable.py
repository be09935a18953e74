"""A plan run by NumPy: every value at its planned place in one arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tawny.engine.lowering import Place, is_leaf, result_of, types, view_base
from tawny.engine.protocol import Task
from tawny.engine.reference import INTO, compute, compute_into
from tawny.engine.reference.elementwise import SPELLING
from tawny.node import Node, Part, Value
from tawny.op import Elementwise
from tawny.ops.body import Body
from tawny.ops.fusion import ProductGroup
from tawny.scalar import Arg, PrimCall
from tawny.shape import Shape, size
from tawny.unique import Unique

StepThunk = Callable[[Sequence[Value], int], None]
"""Runs one step, given the variables and the number of the run."""

POISON = 0xFF
"""What fresh arena bytes hold: NaN in every floating dtype, so that a stray read shows."""


class ReferenceExecutable(Unique):
    """Steps over an arena; results are copied to their place from kernels' temporaries."""

    def __init__(self, task: Task, arena: npt.NDArray[np.uint8] | None = None) -> None:
        self._task = task
        self._lowered = task.lowered
        self.arena = np.full(task.layout.arena, POISON, np.uint8) if arena is None else arena
        self._offsets = task.layout.placement.offsets
        self._index = {node: i for i, node in enumerate(task.variables)}
        self._index |= {node: self._index[home] for node, home in task.in_place_updates.items()}
        self._homes = {result_of(node): self._index[node] for node in task.in_place_updates}
        self._thunks: dict[int, StepThunk] = {}
        self._reads: dict[Node, Callable[[Sequence[Value]], Value]] = {}
        self.completed_runs = 0

    def run(self, positions: Sequence[int], variables: Sequence[Value], draw: int) -> None:
        """Run some positions of the schedule, in order."""
        with np.errstate(all="ignore"):
            for position in positions:
                self.thunk(position)(variables, draw)

    def update(self, variables: Sequence[Value]) -> None:
        """Complete a run: let the updated variables take their new values."""
        for target, source in self._task.updates:
            np.copyto(variables[self._index[target]], self.value(source, variables))
        self.completed_runs += 1

    def advance(
        self, positions: Sequence[int], variables: Sequence[Value], draw: int, most: int
    ) -> int:
        """Run once."""
        del most
        self.run(positions, variables, draw)
        self.update(variables)
        return 1

    def thunk(self, position: int) -> StepThunk:
        """What runs at a position of the schedule."""
        known = self._thunks.get(position)
        if known is None:
            known = self._thunks[position] = self._thunk(position)
        return known

    def value(self, node: Node, variables: Sequence[Value]) -> Value:
        """The value of a kept node, as it lies in memory."""
        read = self._reads.get(node)
        if read is None:
            index = self._lowered.values[node, 0]
            placed = self._task.layout.schedule.final_storages
            read = self._reads[node] = self._operand(node, placed[index])
        return read(variables)

    # ------------------------------------------------------------------ memory

    def _at(self, offset: int, shape: Shape, dtype: np.dtype[Any]) -> Value:
        count = size(shape) * dtype.itemsize
        return self.arena[offset : offset + count].view(dtype).reshape(shape)

    def _memory_of(self, node: Node, storage: int) -> Value:
        """The memory of a node, through the views that lead to it."""
        chain: list[Node] = []
        root, part = node, 0
        while (base := self._base(root)) is not None:
            chain.append(root)
            root, part = base
        if is_leaf(root):
            assert root.value is not None
            value = root.value
        else:
            shape, dtype = types(root)[part]
            value = self._at(self._offsets[storage], shape, dtype)
        return self._through_views(chain, value)

    def _through_views(self, chain: Sequence[Node], value: Value) -> Value:
        """`value` through views, the last first."""
        for view in reversed(chain):
            if not isinstance(view.op, Part):
                value = compute(view, [value], 0)
        return value

    def _base(self, node: Node) -> tuple[Node, int] | None:
        if is_leaf(node) or node in self._lowered.step_of:
            return None
        return view_base(node, self._lowered.strided)

    # ------------------------------------------------------------------- steps

    def _thunk(self, position: int) -> StepThunk:
        """One step of the schedule, its operands and results found beforehand."""
        schedule = self._task.layout.schedule
        index = schedule.sequence[position]
        node = self._lowered.steps[index]
        reads, writes = schedule.reads[position], schedule.writes[position]
        operands = [
            self._operand(source, storage)
            for source, storage in zip(node.inputs, reads, strict=True)
        ]
        targets = [self._target((node, result), storage) for result, storage in enumerate(writes)]
        ufunc = single_ufunc(node)
        if ufunc is not None:
            (place,) = targets

            def direct(variables: Sequence[Value], draw: int) -> None:
                del draw
                ufunc(*(read(variables) for read in operands), out=place(variables))

            return direct
        if type(node.op) in INTO:
            (target,) = targets

            def written(variables: Sequence[Value], draw: int) -> None:
                del draw
                compute_into(node, [read(variables) for read in operands], target(variables))

            return written

        def general(variables: Sequence[Value], draw: int) -> None:
            result = compute(node, [read(variables) for read in operands], draw)
            values = result if node.parts else (result,)
            for target, value in zip(targets, values, strict=True):
                np.copyto(target(variables), value)

        return general

    def _target(self, result: Place, storage: int) -> Callable[[Sequence[Value]], Value]:
        """Where a result is written: in the arena, or in a variable given to the run."""
        home = self._homes.get(result)
        if home is not None:
            return lambda variables: variables[home]
        node, index = result
        place = self._at(self._offsets[storage], *types(node)[index])
        return lambda _: place

    def _operand(self, node: Node, storage: int) -> Callable[[Sequence[Value]], Value]:
        """How a step finds an operand: in the arena, or through the variables given to the run."""
        chain: list[Node] = []
        root = node
        while root not in self._index and (base := self._base(root)) is not None:
            chain.append(root)
            root = base[0]
        if root in self._index:
            index = self._index[root]
            return lambda variables: self._through_views(chain, variables[index])
        value = self._memory_of(node, storage)
        return lambda _: value


def single_ufunc(node: Node) -> np.ufunc | None:
    """The ufunc that computes the node by itself and can write to a given place."""
    op = node.op
    if not isinstance(op, Elementwise) or not isinstance(op.scalar, PrimCall):
        return None
    if [a for a in op.scalar.args if not isinstance(a, Arg)]:
        return None
    positions = [a.position for a in op.scalar.args if isinstance(a, Arg)]
    function = SPELLING[op.scalar.prim]
    if positions != list(range(len(node.inputs))) or not isinstance(function, np.ufunc):
        return None
    return function


class ReferenceEngine:
    """NumPy, one step at a time."""

    compiles_groups = False
    min_group_size = 0

    def can_fuse_product(self, op: ProductGroup, operands: Sequence[Node]) -> bool:
        """Never: products are whole in NumPy."""
        del op, operands
        return False

    def supports_bands(self, node: Node) -> bool:
        """Never: what NumPy computes is whole."""
        del node
        return False

    def should_group(self, body: Body) -> bool:
        """Always: nothing is compiled."""
        del body
        return True

    def warm_up(self) -> None:
        """Nothing: NumPy is there."""

    @property
    def nominal_threads(self) -> int:
        """NumPy is called by one thread."""
        return 1

    def threads(self, asked: int | None) -> int:
        """One, whatever is asked for."""
        del asked
        return self.nominal_threads

    def scratch(self, node: Node, threads: int) -> int:
        """Nothing: kernels allocate what they need."""
        del node, threads
        return 0

    def describe(self, steps: Sequence[Node], threads: int | None = None) -> str:
        """By NumPy, all of them."""
        del threads
        return f"reference: {len(steps)} steps by NumPy"

    def emit(self, task: Task) -> None:
        """Nothing: NumPy is there."""
        del task

    def prepare(self, task: Task) -> ReferenceExecutable:
        """Allocate the arena and find every operand's place."""
        return ReferenceExecutable(task)


ENGINE: Final = ReferenceEngine()
