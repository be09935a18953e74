"""Reductions by blocks: a part of each block, parts merged by a tree, and what ends it.

A fold says what is computed of a block (one array, or several, as count, mean and squares), how
parts are merged, in the order of the blocks, and how the last one becomes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final, NamedTuple

from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.distributed.blocks.boxes import Box, Chunks, box_shape
from tawny.distributed.blocks.cuts import Cut, apply_op
from tawny.distributed.blocks.lanes import own_axes
from tawny.distributed.blocks.products import (
    image_read,
    label_chunks,
    labels_of,
    product_reads,
)
from tawny.dtype import DType
from tawny.node import Node, make, scalar
from tawny.op import Family
from tawny.ops import elementwise as e
from tawny.ops.convolution import ConvolutionKernelGradient
from tawny.ops.creation import cast_node
from tawny.ops.joining import Concat
from tawny.ops.movement import expand_node
from tawny.ops.reduction import (
    AllTrue,
    AnyTrue,
    ArgExtremum,
    ArgMax,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Reduction,
    Sum,
    Var,
)
from tawny.shape import Shape, size

Parts = tuple[Node, ...]
"""What is known of some blocks."""

Count = Callable[[int], Node]
"""The node of an integer, by its number among those of a cut."""


class BlockFold(NamedTuple):
    """A reduction by blocks."""

    node: Node
    grid: Chunks
    """The blocks that are folded: of the operand, or of all labels of a product."""
    kept: tuple[int | None, ...]
    """For each axis of the result the axis of the grid that it is; None where it is not cut."""
    part: Callable[[Box], Cut]
    """What is computed of a block."""
    merge: Callable[[Sequence[Parts]], Parts]
    finish: Callable[[Parts], Node]
    key: Hashable
    """What is equal for folds that merge and finish alike."""


def fold_of(node: Node, given: Sequence[Chunks], forced: bool = False) -> BlockFold | None:
    """How a node is reduced by blocks; None for what is no reduction, or is not cut where it folds.

    If it is `forced`, it is made a fold of what is not cut yet, too.
    """
    if (labels := labels_of(node)) is not None:
        chunks = label_chunks(node, labels, given)
        if not labels.summed_labels or not (
            forced or any(len(chunks[k]) > 1 for k in labels.summed_labels)
        ):
            return None
        return _product_fold(node, chunks)
    if isinstance(node.op, ConvolutionKernelGradient):
        return _kernel_fold(node, given) if forced or len(given[0][0]) > 1 else None
    if not isinstance(node.op, (Reduction, ArgExtremum)):
        return None
    rank = len(node.inputs[0].shape)
    axes = _folded_axes(node)
    if not forced and not any(len(given[0][axis]) > 1 for axis in axes):
        return None
    keepdims: bool = node.op.keepdims
    kept = tuple([None if a in axes else a for a in range(rank) if keepdims or a not in axes])
    kind = KINDS[node.op.family](node)
    return BlockFold(node, given[0], kept, kind.part, kind.merge, kind.finish, kind.key)


def _folded_axes(node: Node) -> tuple[int, ...]:
    is_flat = isinstance(node.op, ArgExtremum) and node.op.axis is None
    return tuple(range(len(node.inputs[0].shape))) if is_flat else own_axes(node.op)


class FoldKind(NamedTuple):
    """The steps of a reduction: of a block, of several parts, of the last one."""

    part: Callable[[Box], Cut]
    merge: Callable[[Sequence[Parts]], Parts]
    finish: Callable[[Parts], Node]
    key: Hashable


def wide_dtype(dtype: DType) -> DType:
    """The dtype in which parts are kept: float32 for 16 bits, else their own."""
    return dt.FLOAT32 if dt.is_half(dtype) else dtype


def pairwise_merge(name: str, parts: Sequence[Parts]) -> Parts:
    """Each array of the parts combined by a function of two, neighbours first."""
    combine: Callable[[Array, Array], Array] = getattr(e, name)
    merged: list[Node] = []
    for column in zip(*parts, strict=True):
        row = [wrap(node) for node in column]
        while len(row) > 1:
            pairs = [combine(*row[k : k + 2]) for k in range(0, len(row) - 1, 2)]
            row = [*pairs, *row[2 * len(pairs) :]]
        merged.append(row[0].node)
    return tuple(merged)


def _first(parts: Parts) -> Node:
    return parts[0]


def _second(parts: Parts) -> Node:
    return parts[1]


# ----------------------------------------------------------------- sums and the like

COMBINE: Final[dict[Family, str]] = {
    Sum: "add", Prod: "multiply", Max: "maximum", Min: "minimum", AllTrue: "logical_and",
    AnyTrue: "logical_or",
}  # fmt: skip
"""Reductions of which parts are reduced alike."""


def _plain(node: Node) -> FoldKind:
    op, (x,) = node.op, node.inputs
    own = wide_dtype(node.dtype)
    if own != node.dtype and type(op) in (Sum, Prod):
        op = op.with_attributes(dtype=own)

    def part(box: Box) -> Cut:
        def build(nodes: Sequence[Node]) -> Parts:
            return (make(op, (cast_node(nodes[0], own) if own != node.dtype else nodes[0],)),)

        return Cut(((x, box),), op, build)

    name = COMBINE[op.family]
    finish = partial(_cast_first, dtype=node.dtype)
    return FoldKind(part, partial(pairwise_merge, name), finish, (name, node.dtype))


def _cast_first(parts: Parts, dtype: DType) -> Node:
    return cast_node(parts[0], dtype)


def _mean(node: Node) -> FoldKind:
    op, (x,) = node.op, node.inputs
    assert isinstance(op, Mean)
    own = wide_dtype(node.dtype)
    total = Sum(op.axes, op.keepdims, own)
    count = op.count(wrap(x))

    def part(box: Box) -> Cut:
        def build(nodes: Sequence[Node]) -> Parts:
            return (make(total, (cast_node(nodes[0], own),)),)

        return Cut(((x, box),), total, build)

    def finish(parts: Parts) -> Node:
        divisor = scalar(float(count), dt.real_dtype(own), "mean")
        return cast_node(e.divide(wrap(parts[0]), wrap(divisor)).node, node.dtype)

    return FoldKind(part, partial(pairwise_merge, "add"), finish, ("mean", count, node.dtype))


# ------------------------------------------------------------------------- moments


def _variance(node: Node) -> FoldKind:
    """Of each block its count, mean and squared distances from that: merged as Chan does."""
    op, (x,) = node.op, node.inputs
    assert isinstance(op, Var)
    own = wide_dtype(op.dtype)
    real = dt.real_dtype(own)
    mean, spread = Mean(op.axes, op.keepdims, own), Var(op.axes, op.keepdims, own, 0.0)

    def part(box: Box) -> Cut:
        count = size(tuple([box[a][1] - box[a][0] for a in op.axes]))

        def build(nodes: Sequence[Node]) -> Parts:
            block, number = cast_node(nodes[0], own), cast_node(nodes[1], real)
            squares = e.multiply(wrap(make(spread, (block,))), wrap(number))
            return number, make(mean, (block,)), squares.node

        return Cut(((x, box),), spread, build, (count,))

    def finish(parts: Parts) -> Node:
        correction = scalar(float(op.correction), real, "var")
        left = e.maximum(e.subtract(wrap(parts[0]), wrap(correction)), 0.0)
        return cast_node(e.divide(wrap(parts[2]), left).node, node.dtype)

    return FoldKind(part, _merge_moments, finish, ("var", float(op.correction), node.dtype))


def _merge_moments(parts: Sequence[Parts]) -> Parts:
    counts, means, squares = ([wrap(n) for n in column] for column in zip(*parts, strict=True))
    total = _total(counts)
    mean = e.divide(_total([e.multiply(m, n) for m, n in zip(means, counts, strict=True)]), total)
    away = [e.abs(e.subtract(m, mean)) for m in means]
    between = [e.multiply(e.multiply(d, d), n) for d, n in zip(away, counts, strict=True)]
    return total.node, mean.node, _total([*squares, *between]).node


def _total(terms: Sequence[Array]) -> Array:
    return wrap(pairwise_merge("add", [(t.node,) for t in terms])[0])


# ------------------------------------------------------------ logarithms of sums


def _log_sum(node: Node) -> FoldKind:
    op, (x,) = node.op, node.inputs
    assert isinstance(op, LogSumExp)

    def part(box: Box) -> Cut:
        return apply_op(op, (x, box))

    def merge(parts: Sequence[Parts]) -> Parts:
        return (make(LogSumExp((0,), False, op.dtype), (stack([p[0] for p in parts]),)),)

    return FoldKind(part, merge, _first, ("logsumexp", op.dtype))


def stack(nodes: Sequence[Node]) -> Node:
    """Nodes of one shape along a new first axis."""
    rows = [expand_node(node, (0,)) for node in nodes]
    return rows[0] if len(rows) == 1 else make(Concat(0), tuple(rows))


# ------------------------------------------------------------------ places of extremes

NOWHERE: Final = 2**63 - 1
"""Behind every place."""


def _extreme_place(node: Node) -> FoldKind:
    """The extreme of each block and its place; among equals, and among NaN, the first place."""
    op, (x,) = node.op, node.inputs
    assert isinstance(op, ArgExtremum)
    extreme = (Max if isinstance(op, ArgMax) else Min)(_folded_axes(node), op.keepdims)
    name = "maximum" if isinstance(op, ArgMax) else "minimum"

    def part(box: Box) -> Cut:
        starts = [start for start, _ in box]
        numbers = tuple(starts) if op.axis is None else (starts[op.axis],)

        def build(nodes: Sequence[Node]) -> Parts:
            place = make(op, (nodes[0],))
            if op.axis is None:
                place = _flat_place(place, box_shape(box), x.shape, nodes[1:])
            else:
                place = e.add(wrap(place), wrap(nodes[1])).node
            return make(extreme, (nodes[0],)), place

        return Cut(((x, box),), (op, box_shape(box)), build, numbers)

    def merge(parts: Sequence[Parts]) -> Parts:
        best = wrap(pairwise_merge(name, [p[:1] for p in parts])[0])
        is_nan = e.not_equal(best, best)
        places: list[Parts] = []
        for value, place in ([wrap(n) for n in p] for p in parts):
            chosen = e.where(is_nan, e.not_equal(value, value), e.equal(value, best))
            places.append((e.where(chosen, place, NOWHERE).node,))
        return best.node, pairwise_merge("minimum", places)[0]

    return FoldKind(part, merge, _second, (name, "place"))


def _flat_place(place: Node, block: Shape, shape: Shape, starts: Sequence[Node]) -> Node:
    """A place in a flattened block as that in the flattened array."""
    rest, found = wrap(place), wrap(scalar(0, dt.INT64, "argmax"))
    inner = step = 1
    for n, m, start in zip(reversed(block), reversed(shape), reversed(starts), strict=True):
        own = e.remainder(e.floor_divide(rest, inner), n)
        found = e.add(found, e.multiply(e.add(own, wrap(start)), step))
        inner, step = inner * n, step * m
    return found.node


KINDS: Final[dict[Family, Callable[[Node], FoldKind]]] = {
    **dict.fromkeys(COMBINE, _plain),
    Mean: _mean,
    Var: _variance,
    LogSumExp: _log_sum,
    ArgMax: _extreme_place,
    **dict.fromkeys(ArgExtremum.__subclasses__(), _extreme_place),
}


# ------------------------------------------------------------------------ products


def _product_fold(node: Node, chunks: dict[str, tuple[int, ...]]) -> BlockFold:
    """Products of blocks, which are added."""
    labels = labels_of(node)
    assert labels is not None
    names = labels.result + labels.summed_labels
    op, own = node.op, wide_dtype(node.dtype)

    def part(box: Box) -> Cut:
        reads = product_reads(node, labels, dict(zip(names, box, strict=True)))

        def build(nodes: Sequence[Node]) -> Parts:
            return (cast_node(make(op, tuple(nodes)), own),)

        return Cut(reads, op, build)

    combine = "logical_or" if node.dtype == dt.BOOL else "add"
    return BlockFold(
        node,
        tuple([chunks[name] for name in names]),
        tuple(range(len(labels.result))),
        part,
        partial(pairwise_merge, combine),
        partial(_cast_first, dtype=node.dtype),
        (combine, node.dtype),
    )


def _kernel_fold(node: Node, given: Sequence[Chunks]) -> BlockFold:
    """The gradient of a kernel: what some images add to it."""
    op, own = node.op, wide_dtype(node.dtype)

    def part(box: Box) -> Cut:
        def build(nodes: Sequence[Node]) -> Parts:
            return (cast_node(make(op, tuple(nodes)), own),)

        return Cut(tuple([image_read(x, box[0]) for x in node.inputs]), op, build)

    merge = partial(pairwise_merge, "add")
    finish = partial(_cast_first, dtype=node.dtype)
    kept = (None,) * len(node.shape)
    return BlockFold(node, (given[0][0],), kept, part, merge, finish, ("add", node.dtype))
