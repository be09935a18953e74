"""How values lie in memory: shapes, strides, and views, which are no steps but other strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from tawny.dtype import DType
from tawny.engine.lowering import is_leaf, types
from tawny.node import Node, Part, Variable
from tawny.op import Op
from tawny.ops.creation import BroadcastTo
from tawny.ops.diagonal import Diagonal
from tawny.ops.differentiation import Argument, StopGradient
from tawny.ops.indexing import Slice
from tawny.ops.movement import Flip, Reshape, Transpose
from tawny.shape import Shape, contiguous_strides, size, splits

MOST_CONTIGUOUS: Final = 1024
"""Shapes whose memory as new arrays is remembered: those that were asked for last."""


@dataclass(frozen=True, slots=True)
class Memory:
    """How an operand or result lies in memory: strides are in bytes, 0 along repeated axes."""

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


View = Callable[[Any, Memory], tuple[int, tuple[int, ...]]]
"""Of an op and its operand's memory: bytes to the first element, and strides."""

V = TypeVar("V", bound=View)

VIEWS: Final[dict[type[Op], View]] = {}


def _view(op: type[Op]) -> Callable[[V], V]:
    def declare(rule: V) -> V:
        VIEWS[op] = rule
        return rule

    return declare


@_view(StopGradient)
@_view(Argument)
def same(op: StopGradient | Argument, given: Memory) -> tuple[int, tuple[int, ...]]:
    """The operand as it lies."""
    del op
    return 0, given.strides


@_view(Transpose)
def transpose(op: Transpose, given: Memory) -> tuple[int, tuple[int, ...]]:
    """The strides in another order."""
    return 0, tuple([given.strides[a] for a in op.axes])


@_view(Flip)
def flip(op: Flip, given: Memory) -> tuple[int, tuple[int, ...]]:
    """From the last element backwards."""
    strides = list(given.strides)
    first = 0
    for axis in op.axes:
        first += strides[axis] * (given.shape[axis] - 1)
        strides[axis] = -strides[axis]
    return first, tuple(strides)


@_view(BroadcastTo)
def broadcast_to(op: BroadcastTo, given: Memory) -> tuple[int, tuple[int, ...]]:
    """Strides of 0 along repeated axes."""
    return 0, broadcast_strides(given, op.shape)


@_view(Slice)
def slice_of(op: Slice, given: Memory) -> tuple[int, tuple[int, ...]]:
    """From each start by each step."""
    pairs = list(zip(op.ranges, given.strides, strict=True))
    first = sum([start * stride for (start, _, _), stride in pairs])
    return first, tuple([step * stride for (_, _, step), stride in pairs])


@_view(Diagonal)
def diagonal(op: Diagonal, given: Memory) -> tuple[int, tuple[int, ...]]:
    """A row and a column on at each step."""
    *stack, down, across = given.strides
    first = max(-op.offset, 0) * down + max(op.offset, 0) * across
    return first, (*stack, down + across)


def broadcast_strides(given: Memory, shape: Shape) -> tuple[int, ...]:
    """Strides of what is repeated up to `shape`."""
    new = len(shape) - len(given.shape)
    kept = zip(given.strides, given.shape, shape[new:], strict=True)
    return (*(0,) * new, *[s if n == m else 0 for s, n, m in kept])


def _cut(given: Memory, shape: Shape, groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Strides of axes that are cut from others, each from those of its group."""
    strides = [given.dtype.itemsize] * len(shape)
    for group, stride in zip(groups, given.strides, strict=True):
        step = stride
        for axis in reversed(group):
            strides[axis] = step
            step *= shape[axis]
    return tuple(strides)


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
        if isinstance(op, Reshape):
            memory = contiguous(node.shape, node.dtype, base.memory.constant)
            if base.strided:
                groups = splits(base.memory.shape, node.shape)
                if groups is None:
                    return allocation_of(node)
                memory = memory.with_strides(_cut(base.memory, node.shape, groups))
            return base._replace(memory=memory)
        first, strides = VIEWS[type(op)](op, base.memory)
        if not size(node.shape):
            first = 0
        plain = contiguous(node.shape, node.dtype, base.memory.constant)
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
