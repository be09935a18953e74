"""Rules for ops that move elements: shapes, orders of axes and of elements, parts, joining."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Final, NamedTuple

from tawny.distributed.blocks.boxes import (
    Box,
    Chunks,
    Sizes,
    Span,
    bounds,
    box_shape,
    from_bounds,
    meet,
    overlaps,
    relative,
    whole,
)
from tawny.distributed.blocks.cuts import (
    Cut,
    Read,
    Rule,
    apply_op,
    broadcast_box,
    common_chunks,
    pass_on,
)
from tawny.node import Node, make
from tawny.op import Family
from tawny.ops.indexing import Gather, Pad, Scatter, Slice
from tawny.ops.joining import Concat
from tawny.ops.movement import (
    BroadcastTo,
    Flip,
    Reshape,
    Roll,
    Transpose,
    reshape_node,
)
from tawny.shape import Shape, size

# ------------------------------------------------------------------ orders of axes


def _broadcast_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    (x,), (chunks,) = node.inputs, given
    new = len(node.shape) - len(x.shape)
    old = [c if m == n else (n,) for c, m, n in zip(chunks, x.shape, node.shape[new:], strict=True)]
    return (*[(n,) for n in node.shape[:new]], *old)


def _broadcast_cut(node: Node, box: Box) -> Cut:
    (x,) = node.inputs
    return apply_op(BroadcastTo(box_shape(box)), (x, broadcast_box(x.shape, box)))


def _transpose_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    assert isinstance(node.op, Transpose)
    return tuple([given[0][axis] for axis in node.op.axes])


def _transpose_cut(node: Node, box: Box) -> Cut:
    assert isinstance(node.op, Transpose)
    read: list[Span] = [(0, 0)] * len(box)
    for place, axis in enumerate(node.op.axes):
        read[axis] = box[place]
    return apply_op(node.op, (node.inputs[0], tuple(read)))


# --------------------------------------------------------------------------- shape


class ReshapeGroup(NamedTuple):
    """Axes that a reshape makes of others: as many elements on both sides."""

    old: tuple[int, int]
    """The first of the operand's axes, and the one after the last."""
    new: tuple[int, int]


def axis_groups(old: Shape, new: Shape) -> list[ReshapeGroup]:
    """The smallest groups of axes, in order; all axes together where there is no element."""
    if not size(old):
        return [ReshapeGroup((0, len(old)), (0, len(new)))]
    groups: list[ReshapeGroup] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, start = i, j
        ours, theirs = 1, 1
        if i < len(old):
            ours, i = old[i], i + 1
        if j < len(new) and not (ours == 1 and new[j] != 1 and i == first + 1):
            theirs, j = new[j], j + 1
        while ours != theirs:
            if ours < theirs:
                ours, i = ours * old[i], i + 1
            else:
                theirs, j = theirs * new[j], j + 1
        groups.append(ReshapeGroup((first, i), (start, j)))
    return groups


def _lead(shape: Shape) -> int:
    """The first axis of more than one element, or the last one."""
    return next((a for a, n in enumerate(shape) if n != 1), max(0, len(shape) - 1))


def _reshape_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    old, new = node.inputs[0].shape, node.shape
    made: list[Sizes] = [(n,) for n in new]
    for group in axis_groups(old, new) if size(new) else ():
        ours, theirs = old[slice(*group.old)], new[slice(*group.new)]
        if not ours or not theirs:
            continue
        lead, to = _lead(ours), _lead(theirs)
        inner, outer = prod(ours[lead + 1 :]), prod(theirs[to + 1 :])
        places = [p * inner // outer for p in bounds(given[0][group.old[0] + lead])]
        made[group.new[0] + to] = from_bounds(places)
    return tuple(made)


def flat_range(shape: Shape, box: Box) -> Span:
    """The range of a box's elements, counted row by row, from the first to behind the last."""
    first = last = 0
    for n, (start, stop) in zip(shape, box, strict=True):
        first, last = first * n + start, last * n + stop - 1
    return first, last + 1


def rows_around(shape: Shape, span: Span) -> Box:
    """The smallest box of whole rows, along one axis, that holds a range of elements."""
    box: list[Span] = []
    low, high = span
    inner = prod(shape)
    for axis, n in enumerate(shape):
        inner //= n
        first, last = low // inner, (high - 1) // inner
        if first != last:
            return (*box, (first, last + 1), *whole(shape[axis + 1 :]))
        box.append((first, first + 1))
        low, high = low - first * inner, high - first * inner
    return tuple(box)


def _reshape_cut(node: Node, box: Box) -> Cut:
    """Group by group; where a box is no range of elements, that of a box around is made first."""
    (x,) = node.inputs
    if not prod(box_shape(box)):
        nothing = ((0, 0), *whole(x.shape[1:])) if x.shape else ()
        return apply_op(Reshape(box_shape(box)), (x, nothing))
    read: list[Span] = []
    around: list[Span] = []
    ranges: list[tuple[int, int, int]] = []
    for group in axis_groups(x.shape, node.shape):
        ours, theirs = x.shape[slice(*group.old)], node.shape[slice(*group.new)]
        part = box[slice(*group.new)]
        wide = rows_around(theirs, flat_range(theirs, part))
        span = flat_range(theirs, wide)
        own = rows_around(ours, span)
        first = flat_range(ours, own)[0]
        read += own
        around += wide
        ranges.append((span[0] - first, span[1] - span[0], prod(box_shape(own))))
    return _reshape_box(x, tuple(read), tuple(around), ranges, box)


def _reshape_box(
    x: Node, read: Box, around: Box, ranges: list[tuple[int, int, int]], box: Box
) -> Cut:
    flat = tuple([length for _, _, length in ranges])
    taken = tuple([(start, length, 1) for start, length, _ in ranges])
    wide, inside = box_shape(around), relative(box, around)
    key = (Reshape, box_shape(read), flat, taken, wide, inside)

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        node = nodes[0]
        if any(n != length for _, n, length in ranges):
            node = make(Slice(taken), (reshape_node(node, flat),))
        node = reshape_node(node, wide)
        if inside != whole(wide):
            node = make(Slice(tuple([(a, b - a, 1) for a, b in inside])), (node,))
        return (node,)

    return Cut(((x, read),), key, build)


# -------------------------------------------------------------- orders of elements


def _flip_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    assert isinstance(node.op, Flip)
    return tuple([c[::-1] if a in node.op.axes else c for a, c in enumerate(given[0])])


def _flip_cut(node: Node, box: Box) -> Cut:
    op, shape = node.op, node.shape
    assert isinstance(op, Flip)
    turned = [(n - b, n - a) for n, (a, b) in zip(shape, box, strict=True)]
    read = [t if a in op.axes else s for a, (t, s) in enumerate(zip(turned, box, strict=True))]
    return apply_op(op, (node.inputs[0], tuple(read)))


def _same_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    del node
    return given[0]


def _roll_cut(node: Node, box: Box) -> Cut:
    """What lies before the shift; around the end it is in two pieces."""
    op, (x,) = node.op, node.inputs
    assert isinstance(op, Roll)
    pieces: list[list[Span]] = []
    for n, shift, (start, stop) in zip(x.shape, op.shifts, box, strict=True):
        first = (start - shift) % n if n else 0
        end = first + stop - start
        pieces.append([(first, end)] if end <= n else [(first, n), (0, end - n)])
    reads = tuple([(x, part) for part in product(*pieces)])
    counts = tuple(map(len, pieces))
    return Cut(reads, ("roll", counts), partial(_join_grid, counts=counts))


def _join_grid(nodes: Sequence[Node], counts: tuple[int, ...]) -> tuple[Node, ...]:
    """Pieces in row-major order, put together along every axis."""
    parts = list(nodes)
    for axis in reversed(range(len(counts))):
        if counts[axis] > 1:
            parts = [make(Concat(axis), tuple(parts[k : k + 2])) for k in range(0, len(parts), 2)]
    return (parts[0],)


# --------------------------------------------------------------------------- parts


def _slice_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    assert isinstance(node.op, Slice)
    made: list[Sizes] = []
    for (start, length, step), sizes in zip(node.op.ranges, given[0], strict=True):
        if step > 0:
            places = [-(-(b - start) // step) for b in bounds(sizes)]
        else:
            places = [(start - b) // -step + 1 for b in reversed(bounds(sizes))]
        made.append(from_bounds([0, *[min(max(p, 0), length) for p in places], length]))
    return tuple(made)


def _slice_cut(node: Node, box: Box) -> Cut:
    assert isinstance(node.op, Slice)
    read: list[Span] = []
    taken: list[tuple[int, int, int]] = []
    for (start, _, step), (first, stop) in zip(node.op.ranges, box, strict=True):
        count = stop - first
        if count <= 0:
            read.append((0, 0))
            taken.append((0, 0, 1))
            continue
        ends = start + first * step, start + (stop - 1) * step
        low, high = min(ends), max(ends) + 1
        read.append((low, high))
        taken.append((ends[0] - low, count, step if count > 1 else 1))
    return apply_op(Slice(tuple(taken)), (node.inputs[0], tuple(read)))


def _pad_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    assert isinstance(node.op, Pad)
    made: list[Sizes] = []
    for (before, after), sizes in zip(node.op.widths, given[0], strict=True):
        wide = list(sizes)
        wide[0] += before
        wide[-1] += after
        made.append(tuple(wide))
    return tuple(made)


def _pad_cut(node: Node, box: Box) -> Cut:
    op, (x, fill) = node.op, node.inputs
    assert isinstance(op, Pad)
    moved = tuple([(a - b, c - b) for (a, c), (b, _) in zip(box, op.widths, strict=True)])
    inside = meet(moved, whole(x.shape))
    if inside is None:
        return apply_op(BroadcastTo(box_shape(box)), (fill, ()))
    widths = [(i - a, b - j) for (a, b), (i, j) in zip(moved, inside, strict=True)]
    return apply_op(Pad(tuple(widths)), (x, inside), (fill, ()))


def _scatter_cut(node: Node, box: Box) -> Cut:
    """The part that is written, as far as it lies in the box."""
    op, (x, value) = node.op, node.inputs
    assert isinstance(op, Scatter)
    part = tuple([(start, start + length) for start, length, _ in op.ranges])
    met = meet(part, box)
    if met is None:
        return pass_on((x, box))
    inside = relative(met, box)
    ranges = tuple([(a, b - a, 1) for a, b in inside])
    read = broadcast_box(value.shape, relative(met, part))
    return apply_op(op.with_attributes(ranges=ranges), (x, box), (value, read))


def _writes_a_part(node: Node) -> bool:
    op = node.op
    assert isinstance(op, Scatter)
    return not op.axes and all(step == 1 or length == 1 for _, length, step in op.ranges)


# ------------------------------------------------------------------------- joining


def _concat_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    assert isinstance(node.op, Concat)
    axis = node.op.axis
    largest = max(range(len(given)), key=lambda i: size(node.inputs[i].shape))
    joined = [n for chunks in given for n in chunks[axis] if n]
    chunks = list(given[largest])
    chunks[axis] = tuple(joined) or (0,)
    return tuple(chunks)


def _concat_cut(node: Node, box: Box) -> Cut:
    assert isinstance(node.op, Concat)
    axis, lengths = node.op.axis, tuple([x.shape[node.op.axis] for x in node.inputs])
    found = overlaps(bounds(lengths), box[axis])
    if not found:
        return pass_on((node.inputs[0], replace_span(box, axis, (0, 0))))
    reads = [(node.inputs[i], replace_span(box, axis, own)) for i, own, _ in found]
    if len(reads) == 1:
        return pass_on(reads[0])
    return apply_op(node.op, *reads)


def replace_span(box: Box, axis: int, span: Span) -> Box:
    """A box with another range along an axis."""
    return (*box[:axis], span, *box[axis + 1 :])


# ------------------------------------------------------------------------- picking


def _gather_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    op, indices = node.op, node.inputs[1:]
    assert isinstance(op, Gather)
    left = [c for axis, c in enumerate(given[0]) if axis not in op.axes]
    rank = len(node.shape) - len(left)
    picked = list(_picked_chunks(node.shape[op.place : op.place + rank], indices, given[1:]))
    return tuple(left[: op.place] + picked + left[op.place :])


def _picked_chunks(shape: Shape, indices: Sequence[Node], given: Sequence[Chunks]) -> Chunks:
    return common_chunks(shape, [(i.shape, c) for i, c in zip(indices, given, strict=True)])


def _gather_cut(node: Node, box: Box) -> Cut:
    """What is picked from is read whole along the axes that indices name."""
    op, (x, *indices) = node.op, node.inputs
    assert isinstance(op, Gather)
    rank = len(node.shape) - (len(x.shape) - len(op.axes))
    picked = box[op.place : op.place + rank]
    left = iter(box[: op.place] + box[op.place + rank :])
    read = tuple([(0, n) if a in op.axes else next(left) for a, n in enumerate(x.shape)])
    reads: list[Read] = [(x, read), *[(i, broadcast_box(i.shape, picked)) for i in indices]]
    return apply_op(op, *reads)


MOVEMENT_RULES: Final[dict[Family, Rule]] = {
    BroadcastTo: Rule(_broadcast_chunks, _broadcast_cut),
    Transpose: Rule(_transpose_chunks, _transpose_cut),
    Reshape: Rule(_reshape_chunks, _reshape_cut),
    Flip: Rule(_flip_chunks, _flip_cut),
    Roll: Rule(_same_chunks, _roll_cut),
    Slice: Rule(_slice_chunks, _slice_cut),
    Pad: Rule(_pad_chunks, _pad_cut),
    Scatter: Rule(_same_chunks, _scatter_cut, _writes_a_part),
    Concat: Rule(_concat_chunks, _concat_cut),
    Gather: Rule(_gather_chunks, _gather_cut),
}
