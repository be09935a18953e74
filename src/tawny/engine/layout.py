"""How values lie in memory: shapes, strides, and views, which are no steps but other strides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from tawny.dtype import DType
from tawny.engine.lowering import is_leaf, types
from tawny.node import Node, Part, Variable
from tawny.ops.movement import Reshape
from tawny.shape import Shape, contiguous_strides, size

MOST_CONTIGUOUS: Final = 1024
"""Shapes whose memory as new arrays is remembered: those that were asked for last."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The layout of an operand or result in memory: strides in bytes, 0 along repeated axes."""

    shape: Shape
    strides: tuple[int, ...]
    dtype: DType
    constant: bool = False
    """Whether what it holds is known when the program is prepared."""

    @property
    def contiguous(self) -> bool:
        """Whether it lies as a new array would."""
        return self.strides == contiguous(self.shape, self.dtype).strides

    def with_strides(self, strides: tuple[int, ...]) -> Memory:
        """Memory of the same shape whose elements lie at other strides."""
        return Memory(self.shape, strides, self.dtype, self.constant)


@lru_cache(MOST_CONTIGUOUS)
def contiguous(shape: Shape, dtype: DType, constant: bool = False) -> Memory:
    """The memory of a new array."""
    return Memory(shape, contiguous_strides(shape, int(dtype.itemsize)), dtype, constant)


class StridedView(NamedTuple):
    """A node's value: `offset` bytes into the memory of result `part` of `root`."""

    root: Node
    part: int
    offset: int
    memory: Memory
    strided: bool
    """Whether it may not lie as a new array would."""


class Views:
    """Finds where the values of nodes lie; remembers what it found."""

    def __init__(self) -> None:
        self._known: dict[Node, StridedView] = {}

    def __call__(self, node: Node) -> StridedView:
        """Where the value of `node` lies."""
        known, base = self._known, node
        chain: list[Node] = []
        while (seen := known.get(base)) is None and base.op.facts().view and not is_leaf(base):
            chain.append(base)
            base = base.inputs[0]
        if seen is None:
            seen = known[base] = allocation_of(base)
        for view in reversed(chain):
            seen = known[view] = self._view_of(view, seen)
        return seen

    def _view_of(self, node: Node, base: StridedView) -> StridedView:
        """Where a view lies, given where its input does."""
        op = node.op
        if isinstance(op, Part):
            return allocation_of(node.inputs[0], op.index)
        plain = contiguous(node.shape, node.dtype, base.memory.constant)
        if isinstance(op, Reshape) and not base.strided:
            return base._replace(memory=plain)
        item = node.dtype.itemsize
        found = op.view(base.memory.shape, [stride // item for stride in base.memory.strides])
        if found is None:
            return allocation_of(node)
        first = found.first * item if size(node.shape) else 0
        strides = tuple([stride * item for stride in found.strides])
        memory = plain if _same_places(plain, strides) else plain.with_strides(strides)
        return StridedView(base.root, base.part, base.offset + first, memory, strided=True)


def _same_places(memory: Memory, strides: tuple[int, ...]) -> bool:
    """Whether elements lie in the same places with other strides: one element has no next."""
    if strides == memory.strides:
        return True
    return 1 in memory.shape and all(
        n == 1 or one == other
        for n, one, other in zip(memory.shape, memory.strides, strides, strict=True)
    )


def allocation_of(node: Node, part: int = 0) -> StridedView:
    """A result with memory of its own."""
    constant = is_leaf(node) and not isinstance(node.op, Variable)
    return StridedView(node, part, 0, contiguous(*types(node)[part], constant), strided=False)
