"""Linear maps applied to many directions at once.

The map is a graph from a placeholder to results.  Nodes that depend on the placeholder get one
more axis, the first, along which the directions lie; an op that cannot be written with one more
axis is applied to each direction by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from tawny.node import Node, Part, make, part, source_scope, toposort
from tawny.op import Elementwise, Op
from tawny.ops.convolution import Convolution, ConvolutionInputGradient
from tawny.ops.creation import Cast
from tawny.ops.cumulative import CumulativeSum
from tawny.ops.diagonal import Diagonal
from tawny.ops.differentiation import Argument, StopGradient
from tawny.ops.indexing import Gather, Pad, Scatter, Slice, gather_shape
from tawny.ops.joining import Concat, Repeat
from tawny.ops.linalg import Matmul
from tawny.ops.movement import (
    BroadcastTo,
    Copy,
    Flip,
    Reshape,
    Roll,
    Transpose,
    broadcast_node,
    reshape_node,
)
from tawny.ops.reduction import Sum

Rule = Callable[..., Node | None]
R = TypeVar("R", bound=Rule)

RULES: Final[dict[type[Op], Rule]] = {}
"""How an op is written with one more axis; a rule may give None to say that it cannot be."""


def batch(results: Sequence[Node], holder: Node, directions: Node) -> list[Node]:
    """`results`, linear in `holder`, for each of the `directions` along their first axis."""
    count = directions.shape[0]
    made: dict[Node, Node] = {holder: directions}
    several: dict[Node, list[Node]] = {}
    for node in toposort(results, lambda n: n is holder):
        if node is holder or not any(x in made or x in several for x in node.inputs):
            continue
        with source_scope(node.sources):
            if isinstance(node.op, Part):
                made[node] = several[node.inputs[0]][node.op.index]
                continue
            if node.parts:
                several[node] = _apply_to_each(node, made, count)
                continue
            made[node] = _add_axis(node, made, count)
    return [made[r] if r in made else broadcast_node(r, (count, *r.shape)) for r in results]


def rule(*ops: type[Op]) -> Callable[[R], R]:
    """Declare how ops are written with one more axis.

    The rule takes the op and, for each operand, its node and whether that has the axis.
    """

    def declare(function: R) -> R:
        for op in ops:
            RULES[op] = function
        return function

    return declare


def _add_axis(node: Node, made: dict[Node, Node], count: int) -> Node:
    operands = [(made.get(x, x), x in made) for x in node.inputs]
    if isinstance(node.op, Elementwise):
        return make(node.op, tuple([_align_rank(x, has, len(node.shape)) for x, has in operands]))
    write = RULES.get(type(node.op))
    found = None if write is None else write(node.op, count, *operands)
    return _apply_to_each(node, made, count)[0] if found is None else found


def _align_rank(x: Node, has_axis: bool, rank: int) -> Node:
    """An operand whose further axes line up with those of a result of `rank`."""
    missing = rank + 1 - len(x.shape)
    if not has_axis or missing <= 0:
        return x
    return reshape_node(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))


def _apply_to_each(node: Node, made: dict[Node, Node], count: int) -> list[Node]:
    """The op applied to each direction; each of its results stacked."""
    kinds = node.parts or ((node.shape, node.dtype),)
    rows: list[list[Node]] = [[] for _ in kinds]
    for i in range(count):
        inputs = tuple([_row(made[x], i) if x in made else x for x in node.inputs])
        one = make(node.op, inputs)
        for index, row in enumerate(rows):
            value = part(one, index) if node.parts else one
            row.append(reshape_node(value, (1, *value.shape)))
    return [make(Concat(0), tuple(row)) for row in rows]


def _row(x: Node, i: int) -> Node:
    ranges = ((i, 1, 1), *((0, n, 1) for n in x.shape[1:]))
    return reshape_node(make(Slice(ranges), (x,)), x.shape[1:])


# ----------------------------------------------------------------------- rules

Operand = tuple[Node, bool]


def _with_batch_axis(operand: Operand, count: int) -> Node:
    """The operand with the axis, repeated along it if it had none."""
    x, has_axis = operand
    return x if has_axis else broadcast_node(x, (count, *x.shape))


@rule(Cast, Copy, Diagonal, Argument, StopGradient)
def _(op: Op, count: int, x: Operand) -> Node:
    return make(op, (x[0],))


@rule(Sum)
def _(op: Sum, count: int, x: Operand) -> Node:
    return make(Sum(tuple(a + 1 for a in op.axes), op.keepdims, op.dtype), (x[0],))


@rule(CumulativeSum)
def _(op: CumulativeSum, count: int, x: Operand) -> Node:
    return make(CumulativeSum(op.axis + 1, op.dtype, op.include_initial), (x[0],))


@rule(Reshape)
def _(op: Reshape, count: int, x: Operand) -> Node:
    return make(Reshape((count, *op.shape)), (x[0],))


@rule(BroadcastTo)
def _(op: BroadcastTo, count: int, x: Operand) -> Node:
    return broadcast_node(_align_rank(*x, len(op.shape)), (count, *op.shape))


@rule(Transpose)
def _(op: Transpose, count: int, x: Operand) -> Node:
    return make(Transpose((0, *(a + 1 for a in op.axes))), (x[0],))


@rule(Flip)
def _(op: Flip, count: int, x: Operand) -> Node:
    return make(Flip(tuple(a + 1 for a in op.axes)), (x[0],))


@rule(Roll)
def _(op: Roll, count: int, x: Operand) -> Node:
    return make(Roll((0, *op.shifts)), (x[0],))


@rule(Repeat)
def _(op: Repeat, count: int, x: Operand) -> Node:
    return make(Repeat(op.repeats, op.axis + 1), (x[0],))


@rule(Pad)
def _(op: Pad, count: int, x: Operand, fill: Operand) -> Node | None:
    return None if fill[1] else make(Pad(((0, 0), *op.widths)), (x[0], fill[0]))


@rule(Concat)
def _(op: Concat, count: int, *operands: Operand) -> Node:
    return make(Concat(op.axis + 1), tuple([_with_batch_axis(x, count) for x in operands]))


@rule(Slice)
def _(op: Slice, count: int, x: Operand) -> Node:
    return make(Slice(((0, count, 1), *op.ranges)), (x[0],))


@rule(Gather)
def _(op: Gather, count: int, x: Operand, *indices: Operand) -> Node | None:
    if any(has_axis for _, has_axis in indices):
        return None
    moved = Gather(tuple(a + 1 for a in op.axes), op.place + 1)
    return make(moved, (x[0], *[i for i, _ in indices]))


@rule(Scatter)
def _(op: Scatter, count: int, x: Operand, value: Operand, *indices: Operand) -> Node | None:
    if any(has_axis for _, has_axis in indices):
        return None
    ranges = ((0, count, 1), *op.ranges)
    moved = Scatter(ranges, tuple(a + 1 for a in op.axes), op.place + 1, op.mode)
    whole = _with_batch_axis(x, count)
    rank = len(_part_shape(op, x, indices))
    return make(moved, (whole, _align_rank(*value, rank), *[i for i, _ in indices]))


def _part_shape(op: Scatter, x: Operand, indices: Sequence[Operand]) -> tuple[int, ...]:
    """The shape of the part that one direction is scattered into."""
    lengths = tuple(length for _, length, _ in op.ranges)
    shapes = [i.shape for i, _ in indices]
    return gather_shape("scatter", lengths, op.axes, op.place, shapes)


@rule(Matmul)
def _(op: Matmul, count: int, a: Operand, b: Operand) -> Node | None:
    """Stacks of matrices: axes in front broadcast; vectors become matrices for the while."""
    (x, x_has), (y, y_has) = a, b
    x_rank, y_rank = len(x.shape) - x_has, len(y.shape) - y_has
    if x_rank == 1 or y_rank == 1:
        return None
    rank = max(x_rank, y_rank)
    return make(op, (_align_rank(x, x_has, rank), _align_rank(y, y_has, rank)))


@rule(Convolution)
def _(op: Convolution, count: int, x: Operand, kernel: Operand) -> Node | None:
    return None if kernel[1] else _apply_to_batch(op, x[0], lambda n: (n, kernel[0]))


@rule(ConvolutionInputGradient)
def _(op: ConvolutionInputGradient, count: int, kernel: Operand, cotangent: Operand) -> Node | None:
    return None if kernel[1] else _apply_to_batch(op, cotangent[0], lambda n: (kernel[0], n))


def _apply_to_batch(op: Op, x: Node, operands: Callable[[Node], tuple[Node, Node]]) -> Node:
    """Directions as further images of the batch."""
    count, batch, *rest = x.shape
    made = make(op, operands(reshape_node(x, (count * batch, *rest))))
    return reshape_node(made, (count, batch, *made.shape[1:]))
