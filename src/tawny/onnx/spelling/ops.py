"""Ops with attributes in ONNX: movement, reductions, indices, products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tawny.dtype import BOOL, INT64, kind_of
from tawny.node import Node, Value
from tawny.onnx.writer import GraphWriter, refuse
from tawny.op import Op
from tawny.ops.creation import Arange, Cast, Eye
from tawny.ops.cumulative import CumulativeSum
from tawny.ops.differentiation import StopGradient
from tawny.ops.einsum import Einsum
from tawny.ops.indexing import Gather, Pad, Scatter, Slice
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.linalg import Matmul
from tawny.ops.movement import BroadcastTo, Copy, Flip, Reshape, Roll, Transpose
from tawny.ops.reduction import (
    Accumulation,
    AllTrue,
    AnyTrue,
    ArgExtremum,
    ArgMax,
    ArgMin,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Reduction,
    Sum,
    Var,
)
from tawny.ops.sorting import Sort
from tawny.ops.systems import Det
from tawny.shape import broadcast

OpSpelling = Callable[[GraphWriter, Node, Any, Sequence[str]], str]
"""Adds the nodes of an op, given its node and the names of its operands."""

SPELLINGS: Final[dict[type[Op], OpSpelling]] = {}


def spells(*kinds: type[Op]) -> Callable[[OpSpelling], OpSpelling]:
    """Declare how ops of these kinds are said."""

    def declare(spelling: OpSpelling) -> OpSpelling:
        for kind in kinds:
            SPELLINGS[kind] = spelling
        return spelling

    return declare


# ------------------------------------------------------------------- movement


@spells(Copy, StopGradient)
def _identity(w: GraphWriter, node: Node, op: Op, names: Sequence[str]) -> str:
    return w.add("Identity", *names)


@spells(Cast)
def _cast(w: GraphWriter, node: Node, op: Cast, names: Sequence[str]) -> str:
    given = node.inputs[0].dtype
    if "c" in {kind_of(given), kind_of(node.dtype)}:
        refuse(node, ", which has no arithmetic of complex numbers")
    if op.dtype == BOOL:
        return w.as_truth(names[0], given)
    return w.cast(names[0], given, op.dtype)


@spells(Reshape)
def _reshape(w: GraphWriter, node: Node, op: Reshape, names: Sequence[str]) -> str:
    return w.shape(names[0], op.shape)


@spells(BroadcastTo)
def _broadcast(w: GraphWriter, node: Node, op: BroadcastTo, names: Sequence[str]) -> str:
    return w.add("Expand", names[0], w.ints(op.shape))


@spells(Transpose)
def _transpose(w: GraphWriter, node: Node, op: Transpose, names: Sequence[str]) -> str:
    return w.add("Transpose", names[0], perm=list(op.axes))


@spells(Flip)
def _flip(w: GraphWriter, node: Node, op: Flip, names: Sequence[str]) -> str:
    made, far = names[0], -(2**62)
    for axis in op.axes:
        made = w.slice(made, axis, -1, far, -1)
    return made


@spells(Roll)
def _roll(w: GraphWriter, node: Node, op: Roll, names: Sequence[str]) -> str:
    made = names[0]
    for axis, (shift, n) in enumerate(zip(op.shifts, node.shape, strict=True)):
        first = shift % n if n else 0
        if first:
            parts = w.slice(made, axis, n - first, n), w.slice(made, axis, 0, n - first)
            made = w.add("Concat", *parts, axis=axis)
    return made


@spells(Slice)
def _slice(w: GraphWriter, node: Node, op: Slice, names: Sequence[str]) -> str:
    return _take_ranges(w, names[0], op.ranges, node.inputs[0].shape)


def _take_ranges(w: GraphWriter, name: str, ranges: Sequence[Any], shape: Sequence[int]) -> str:
    """Elements at equal distances of some axes."""
    chosen = [a for a, r in enumerate(ranges) if tuple(r) != (0, shape[a], 1)]
    if not chosen:
        return name
    far = 2**62
    starts = [ranges[a][0] for a in chosen]
    steps = [ranges[a][2] for a in chosen]
    ends: list[int] = []
    for a in chosen:
        start, length, step = ranges[a]
        end = start + length * step
        ends.append(end if end >= 0 else -far)
    return w.add("Slice", name, w.ints(starts), w.ints(ends), w.ints(chosen), w.ints(steps))


@spells(Pad)
def _pad(w: GraphWriter, node: Node, op: Pad, names: Sequence[str]) -> str:
    x, fill = (w.cast(n, i.dtype, node.dtype) for n, i in zip(names, node.inputs, strict=True))
    flat = [b for b, _ in op.widths] + [a for _, a in op.widths]
    if node.inputs[1].shape:
        fill = w.shape(fill, ())
    return w.add("Pad", x, w.ints(flat), fill)


@spells(Concat)
def _concat(w: GraphWriter, node: Node, op: Concat, names: Sequence[str]) -> str:
    own = [w.cast(n, i.dtype, node.dtype) for n, i in zip(names, node.inputs, strict=True)]
    return w.add("Concat", *own, axis=op.axis)


@spells(Tile)
def _tile(w: GraphWriter, node: Node, op: Tile, names: Sequence[str]) -> str:
    return w.add("Tile", names[0], w.ints(op.repetitions))


@spells(Repeat)
def _repeat(w: GraphWriter, node: Node, op: Repeat, names: Sequence[str]) -> str:
    shape = node.inputs[0].shape
    split = (*shape[: op.axis + 1], 1, *shape[op.axis + 1 :])
    wide = (*shape[: op.axis + 1], op.repeats, *shape[op.axis + 1 :])
    return w.shape(w.add("Expand", w.shape(names[0], split), w.ints(wide)), node.shape)


@spells(Arange)
def _arange(w: GraphWriter, node: Node, op: Arange, names: Sequence[str]) -> str:
    steps: Value = np.arange(op.length, dtype=np.int64 if op.dtype.kind in "iub" else np.float64)
    return w.array((steps * op.step + op.start).astype(op.dtype))


@spells(Eye)
def _eye(w: GraphWriter, node: Node, op: Eye, names: Sequence[str]) -> str:
    return w.array(np.eye(op.rows, op.columns, op.offset, op.dtype))


# ----------------------------------------------------------------- reductions

REDUCTIONS: Final[dict[type[Reduction], str]] = {
    Sum: "ReduceSum",
    Prod: "ReduceProd",
    Mean: "ReduceMean",
    Max: "ReduceMax",
    Min: "ReduceMin",
    LogSumExp: "ReduceLogSumExp",
}


@spells(*REDUCTIONS)
def _reduction(w: GraphWriter, node: Node, op: Reduction, names: Sequence[str]) -> str:
    name, given = names[0], node.inputs[0].dtype
    wanted = op.dtype if isinstance(op, Accumulation) else given
    if wanted == BOOL:
        made = _fold_axes(
            w, "ReduceMax" if isinstance(op, Max) else "ReduceMin", op, w.cast(name, BOOL, INT64)
        )
        return w.as_truth(made, INT64)
    if wanted.kind == "c":
        refuse(node, ", which has no arithmetic of complex numbers")
    made = _fold_axes(w, REDUCTIONS[type(op)], op, w.cast(name, given, wanted))
    return w.cast(made, wanted, node.dtype)


def _fold_axes(w: GraphWriter, operator: str, op: Reduction, name: str) -> str:
    keep = int(op.keepdims)
    return w.add(operator, name, w.ints(op.axes), keepdims=keep, noop_with_empty_axes=1)


@spells(AllTrue, AnyTrue)
def _truth(w: GraphWriter, node: Node, op: Reduction, names: Sequence[str]) -> str:
    truth = w.as_truth(names[0], node.inputs[0].dtype)
    fold = "ReduceMin" if isinstance(op, AllTrue) else "ReduceMax"
    return w.as_truth(_fold_axes(w, fold, op, w.cast(truth, BOOL, INT64)), INT64)


@spells(Var)
def _variance(w: GraphWriter, node: Node, op: Var, names: Sequence[str]) -> str:
    if kind_of(node.dtype) != "f":
        refuse(node, ", which has no arithmetic of complex numbers")
    x = w.cast(names[0], node.inputs[0].dtype, node.dtype)
    axes = w.ints(op.axes)
    mean = w.add("ReduceMean", x, axes, keepdims=1, noop_with_empty_axes=1)
    inner = w.add("Sub", x, mean)
    squares = w.add("Mul", inner, inner)
    total = w.add("ReduceSum", squares, axes, keepdims=int(op.keepdims), noop_with_empty_axes=1)
    count = math.prod(node.inputs[0].shape[a] for a in op.axes) - op.correction
    return w.add("Div", total, w.number(count, node.dtype))


@spells(ArgMax, ArgMin)
def _place(w: GraphWriter, node: Node, op: ArgExtremum, names: Sequence[str]) -> str:
    name, shape = names[0], node.inputs[0].shape
    if node.inputs[0].dtype == BOOL:
        name = w.cast(name, BOOL, INT64)
    operator = "ArgMax" if isinstance(op, ArgMax) else "ArgMin"
    axis, keep = op.axis, op.keepdims
    if axis is None:
        name, axis = w.shape(name, (math.prod(shape),)), 0
        return w.shape(w.add(operator, name, axis=0, keepdims=0), node.shape)
    return w.add(operator, name, axis=axis, keepdims=int(keep))


@spells(CumulativeSum)
def _running(w: GraphWriter, node: Node, op: CumulativeSum, names: Sequence[str]) -> str:
    name = w.cast(names[0], node.inputs[0].dtype, node.dtype)
    made = w.add("CumSum", name, w.array(np.array(op.axis, np.int64)))
    if not op.include_initial:
        return made
    shape = [1 if a == op.axis else n for a, n in enumerate(node.shape)]
    zero = w.add("Expand", w.number(0, node.dtype), w.ints(shape))
    return w.add("Concat", zero, made, axis=op.axis)


@spells(Sort)
def _sort(w: GraphWriter, node: Node, op: Sort, names: Sequence[str]) -> str:
    if node.dtype == BOOL:
        refuse(node, " for booleans")
    count = w.ints([node.shape[op.axis]])
    parts = w.add_parts(
        "TopK", names[0], count, count=2, axis=op.axis, largest=int(op.descending), sorted=1
    )
    return parts[0]


# --------------------------------------------------------------------- places


@spells(Gather)
def _gather(w: GraphWriter, node: Node, op: Gather, names: Sequence[str]) -> str:
    x, indices = names[0], names[1:]
    if len(op.axes) == 1:
        (axis,) = op.axes
        whole = w.cast(indices[0], node.inputs[1].dtype, INT64)
        made = w.add("Gather", x, whole, axis=axis)
        rank = len(node.inputs[1].shape)
        return w.transpose(made, _block_order(len(node.shape), axis, rank, op.place))
    rank = len(node.inputs[0].shape)
    rest = [a for a in range(rank) if a not in op.axes]
    moved = w.transpose(x, (*op.axes, *rest))
    places, depth = _places(w, node.inputs[1:], indices)
    made = w.add("GatherND", moved, places)
    return w.transpose(made, _block_order(len(node.shape), 0, depth, op.place))


def _places(w: GraphWriter, nodes: Sequence[Node], names: Sequence[str]) -> tuple[str, int]:
    """Indices on a last axis, and how many axes they have before it."""
    shape = broadcast("places", [n.shape for n in nodes])
    parts = [
        w.shape(w.add("Expand", w.cast(name, node.dtype, INT64), w.ints(shape)), (*shape, 1))
        for name, node in zip(names, nodes, strict=True)
    ]
    return w.add("Concat", *parts, axis=len(shape)), len(shape)


def _block_order(rank: int, here: int, length: int, wanted: int) -> list[int]:
    """The order of axes that moves a block of them from one place to another."""
    block = list(range(here, here + length))
    rest = [a for a in range(rank) if a not in block]
    return [*rest[:wanted], *block, *rest[wanted:]]


SCATTER_MODES: Final = {"set": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@spells(Scatter)
def _scatter(w: GraphWriter, node: Node, op: Scatter, names: Sequence[str]) -> str:
    """Every element that is written, by its place among all of them."""
    shape = node.shape
    lengths = [length for _, length, _ in op.ranges]
    whole = all(tuple(r) == (0, n, 1) for r, n in zip(op.ranges, shape, strict=True))
    if op.axes and not whole:
        refuse(node, " with both slices and indices")
    x, value, indices = names[0], names[1], names[2:]
    if not op.axes:
        grid = np.ix_(*(start + step * np.arange(n) for start, n, step in op.ranges))
        written = np.stack(np.broadcast_arrays(*grid), -1).astype(np.int64)
        update = w.add("Expand", value, w.ints(lengths))
        return w.add("ScatterND", x, w.array(written), update, reduction=SCATTER_MODES[op.mode])
    rest = [a for a in range(len(shape)) if a not in op.axes]
    order = (*op.axes, *rest)
    places, depth = _places(w, node.inputs[2:], indices)
    block = broadcast("places", [n.shape for n in node.inputs[2:]])
    part = (*[shape[a] for a in rest[: op.place]], *block, *[shape[a] for a in rest[op.place :]])
    update = w.add("Expand", value, w.ints(part))
    front = [op.place + i for i in range(depth)]
    others = [a for a in range(len(part)) if a not in front]
    update = w.transpose(update, (*front, *others))
    moved = w.transpose(x, order)
    made = w.add("ScatterND", moved, places, update, reduction=SCATTER_MODES[op.mode])
    return w.transpose(made, np.argsort(order).tolist())


# ------------------------------------------------------------------- products


@spells(Matmul)
def _matmul(w: GraphWriter, node: Node, op: Op, names: Sequence[str]) -> str:
    if node.dtype.kind == "c" or node.dtype == BOOL:
        refuse(node, f" of {node.dtype}")
    own = [w.cast(n, i.dtype, node.dtype) for n, i in zip(names, node.inputs, strict=True)]
    return w.add("MatMul", *own)


@spells(Einsum)
def _einsum(w: GraphWriter, node: Node, op: Einsum, names: Sequence[str]) -> str:
    if node.dtype.kind == "c" or node.dtype == BOOL:
        refuse(node, f" of {node.dtype}")
    own = [w.cast(n, i.dtype, node.dtype) for n, i in zip(names, node.inputs, strict=True)]
    return w.add("Einsum", *own, equation=op.subscripts)


@spells(Det)
def _determinant(w: GraphWriter, node: Node, op: Op, names: Sequence[str]) -> str:
    return w.add("Det", names[0])
