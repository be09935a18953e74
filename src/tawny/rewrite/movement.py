"""Movement: chains of views become one, and what only moves a filled array is no work at all."""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from tawny.dtype import kind_of
from tawny.node import Node, constant, make
from tawny.op import Op
from tawny.ops.creation import Cast
from tawny.ops.indexing import Pad, Range, Slice
from tawny.ops.joining import Concat, Repeat, Tile
from tawny.ops.movement import (
    BroadcastTo,
    Copy,
    Flip,
    Reshape,
    Roll,
    Transpose,
    flip_node,
    transpose_node,
)
from tawny.ops.sorting import Sort
from tawny.rewrite.facts import NodeFacts, broadcast_to, full_like, is_lossless, reshape_to
from tawny.rewrite.flow import Kind
from tawny.rewrite.pattern import Capture, Fill, Match, RewriteRule, any_of, call, rule
from tawny.shape import size

EXACT: Final = Kind.EXACT
x: Final = Capture("x")


# -------------------------------------------------------------------- one view


def _same_type(node: Node, facts: NodeFacts) -> bool:
    """The view shows all of the operand as it is."""
    del facts
    source = node.inputs[0]
    return node.shape == source.shape and node.dtype == source.dtype


def _in_order(node: Node, facts: NodeFacts) -> bool:
    del facts
    return _transpose(node).axes == tuple(range(len(node.shape)))


def _transpose(node: Node) -> Transpose:
    return cast("Transpose", node.op)


def _only_moves_ones(node: Node, facts: NodeFacts) -> bool:
    """No axis of more than one element passes another."""
    del facts
    shape = node.inputs[0].shape
    long = [a for a in _transpose(node).axes if shape[a] != 1]
    return long == sorted(long)


def _as_reshape(m: Match) -> Node:
    return reshape_to(m["x"], m.node.shape)


def _whole_slice(node: Node, facts: NodeFacts) -> bool:
    del facts
    shape = node.inputs[0].shape
    return node.shape == shape and all(r[0] == 0 and r[2] == 1 for r in _ranges(node))


def _ranges(node: Node) -> tuple[Range, ...]:
    return cast("Slice", node.op).ranges


def _flips_nothing(node: Node, facts: NodeFacts) -> bool:
    del facts
    return all(node.shape[a] <= 1 for a in cast("Flip", node.op).axes)


def _rolls_nothing(node: Node, facts: NodeFacts) -> bool:
    del facts
    return not any(cast("Roll", node.op).shifts)


def _pads_nothing(node: Node, facts: NodeFacts) -> bool:
    del facts
    return not any(w for pair in cast("Pad", node.op).widths for w in pair)


# ------------------------------------------------------------------- two views


def _inner(m: Match) -> tuple[Node, Node]:
    """The inner view of two, and what it shows."""
    inner = m["inner"]
    return inner, inner.inputs[0]


def _reshape_twice(m: Match) -> Node:
    return reshape_to(_inner(m)[1], m.node.shape)


def _broadcast_twice(m: Match) -> Node:
    return broadcast_to(_inner(m)[1], m.node.shape)


def _transpose_twice(m: Match) -> Node:
    inner, source = _inner(m)
    first = _transpose(inner).axes
    return transpose_node(source, tuple(first[a] for a in _transpose(m.node).axes))


def _flip_twice(m: Match) -> Node:
    inner, source = _inner(m)
    axes = set(cast("Flip", m.node.op).axes) ^ set(cast("Flip", inner.op).axes)
    return flip_node(source, tuple(sorted(axes)))


def _roll_twice(m: Match) -> Node:
    inner, source = _inner(m)
    pairs = zip(cast("Roll", m.node.op).shifts, cast("Roll", inner.op).shifts, strict=True)
    shifts = tuple((a + b) % n if n else 0 for (a, b), n in zip(pairs, source.shape, strict=True))
    return make(Roll(shifts), (source,))


def _compose_ranges(outer: Range, inner: Range) -> Range:
    """The elements that `outer` takes of those that `inner` took."""
    start, length, step = outer
    first, _, stride = inner
    return (first + start * stride, length, step * stride) if length else (0, 0, 1)


def _slice_twice(m: Match) -> Node:
    inner, source = _inner(m)
    pairs = zip(_ranges(m.node), _ranges(inner), strict=True)
    return make(Slice(tuple(_compose_ranges(o, i) for o, i in pairs)), (source,))


def _slice_broadcast(m: Match) -> Node:
    """The part of the source that is shown, repeated."""
    inner, source = _inner(m)
    ranges = _ranges(m.node)[len(inner.shape) - len(source.shape) :]
    shown = inner.shape[len(inner.shape) - len(source.shape) :]
    kept = tuple(
        r if n == size else (0, 1, 1)
        for r, n, size in zip(ranges, source.shape, shown, strict=True)
    )
    whole = all(r == (0, n, 1) for r, n in zip(kept, source.shape, strict=True))
    return broadcast_to(source if whole else make(Slice(kept), (source,)), m.node.shape)


def _slice_concat(m: Match) -> Node | None:
    """The slice of the one operand that it lies in."""
    axis = cast("Concat", m["inner"].op).axis
    ranges = _ranges(m.node)
    start, length, step = ranges[axis]
    if not length:
        return None
    low, high = sorted((start, start + (length - 1) * step))
    offset = 0
    for source in m["inner"].inputs:
        end = offset + source.shape[axis]
        if offset <= low and high < end:
            if source.dtype != m.node.dtype:
                return None
            moved = (start - offset, length, step)
            return make(Slice((*ranges[:axis], moved, *ranges[axis + 1 :])), (source,))
        offset = end
    return None


def _cast_twice(m: Match) -> Node | None:
    """One conversion, where the first loses nothing and the kind of number is kept."""
    inner, source = _inner(m)
    to = m.node.dtype
    if not is_lossless(source.dtype, inner.dtype):
        return None
    if kind_of(source.dtype) == "f" and kind_of(to) in "iu":
        return None
    if kind_of(source.dtype) in "biu" and kind_of(inner.dtype) in "fc" and kind_of(to) in "iu":
        return None
    return source if source.dtype == to else make(Cast(to), (source,))


# --------------------------------------------------------------------- joining


def _concat_flat(m: Match) -> Node | None:
    """Operands that are joined along the same axis, one after the other; empty ones left out."""
    op = cast("Concat", m.node.op)
    flat: list[Node] = []
    for source in m.node.inputs:
        same = type(source.op) is Concat and source.op == op and source.dtype == m.node.dtype
        flat += source.inputs if same else (source,)
    full = [n for n in flat if n.shape[op.axis]] or flat[:1]
    if tuple(full) == m.node.inputs and len(full) > 1:
        return None
    joined = full[0] if len(full) == 1 else make(op, tuple(full))
    return joined if joined.dtype == m.node.dtype else make(Cast(m.node.dtype), (joined,))


def _repeat_as_broadcast(m: Match) -> Node | None:
    """Repeating the one element of an axis is broadcasting it."""
    op = cast("Repeat", m.node.op)
    return broadcast_to(m["x"], m.node.shape) if m["x"].shape[op.axis] == 1 else None


def _tile_as_broadcast(m: Match) -> Node | None:
    repetitions = cast("Tile", m.node.op).repetitions
    if any(r != 1 and n != 1 for r, n in zip(repetitions, m["x"].shape, strict=True)):
        return None
    return broadcast_to(m["x"], m.node.shape)


def _pad_twice(m: Match) -> Node | None:
    inner, source = _inner(m)
    if inner.inputs[1] is not m["fill"]:
        return None
    widths = zip(cast("Pad", m.node.op).widths, cast("Pad", inner.op).widths, strict=True)
    total = tuple((b + d, a + c) for (b, a), (d, c) in widths)
    return make(Pad(total), (source, m["fill"]))


def _sort_twice(m: Match) -> Node | None:
    return m["x"] if m["x"].op == m.node.op else None


# -------------------------------------------------------------- filled arrays


def _still_filled(m: Match) -> Node:
    """A filled array, moved, is a filled array of another shape; of one element, a constant."""
    node, value = m.node, m.fill("k")
    if size(node.shape) == 1:
        return constant(np.full(node.shape, value, node.dtype))
    return full_like(value, node)


MOVES: Final[tuple[type[Op], ...]] = (Reshape, Transpose, Flip, Roll, Slice, Repeat, Tile)


def _pad_filled(m: Match) -> Node | None:
    """A filled array padded with the value that fills it."""
    value, fill = m.facts.fill(m["x"]), m.facts.fill(m["fill"])
    same = value is not None and fill is not None and value.tobytes() == fill.tobytes()
    if not same or m["fill"].dtype != m.node.dtype:
        return None
    return broadcast_to(m["fill"], m.node.shape)


# ------------------------------------------------------------------- the table

fill: Final = Capture("fill")


VIEWS: Final[tuple[RewriteRule, ...]] = (
    rule("copy", EXACT, call(Copy, x), x, "copy(x) = x"),
    rule("cast_same", EXACT, call(Cast, x), x, "astype(x, its dtype) = x", only=_same_type),
    rule("reshape_same", EXACT, call(Reshape, x), x, "reshape(x, its shape) = x", only=_same_type),
    rule(
        "broadcast_same",
        EXACT,
        call(BroadcastTo, x),
        x,
        "broadcast_to(x, its shape) = x",
        only=_same_type,
    ),
    rule(
        "transpose_same", EXACT, call(Transpose, x), x, "transpose(x, in order) = x", only=_in_order
    ),
    rule("slice_whole", EXACT, call(Slice, x), x, "x[:] = x", only=_whole_slice),
    rule("flip_ones", EXACT, call(Flip, x), x, "flip of axes of size 1 = x", only=_flips_nothing),
    rule("roll_nothing", EXACT, call(Roll, x), x, "roll(x, 0) = x", only=_rolls_nothing),
    rule("pad_nothing", EXACT, call(Pad, x, fill), x, "pad(x, 0) = x", only=_pads_nothing),
    rule("repeat_once", EXACT, call(Repeat, x), x, "repeat(x, 1) = x", only=_same_type),
    rule("tile_once", EXACT, call(Tile, x), x, "tile(x, 1) = x", only=_same_type),
    rule(
        "move_filled",
        EXACT,
        any_of(MOVES, Fill("k")),
        _still_filled,
        "reshape(zeros(a), b) = zeros(b), and so for every movement",
    ),
    rule("pad_filled", EXACT, call(Pad, x, fill), _pad_filled, "pad(zeros(a), w, 0) = zeros(b)"),
    rule(
        "transpose_ones",
        EXACT,
        call(Transpose, x),
        _as_reshape,
        "transpose that moves axes of size 1 = reshape",
        only=_only_moves_ones,
    ),
)

CHAINS: Final[tuple[RewriteRule, ...]] = (
    rule(
        "reshape_reshape",
        EXACT,
        call(Reshape, call(Reshape, x, name="inner")),
        _reshape_twice,
        "reshape(reshape(x, a), b) = reshape(x, b)",
    ),
    rule(
        "broadcast_broadcast",
        EXACT,
        call(BroadcastTo, call(BroadcastTo, x, name="inner")),
        _broadcast_twice,
        "broadcast_to(broadcast_to(x, a), b) = broadcast_to(x, b)",
    ),
    rule(
        "transpose_transpose",
        EXACT,
        call(Transpose, call(Transpose, x, name="inner")),
        _transpose_twice,
        "transpose(transpose(x, p), q) = transpose(x, p[q])",
    ),
    rule(
        "flip_flip",
        EXACT,
        call(Flip, call(Flip, x, name="inner")),
        _flip_twice,
        "flip(flip(x, a), b) = flip(x, a ^ b)",
    ),
    rule(
        "roll_roll",
        EXACT,
        call(Roll, call(Roll, x, name="inner")),
        _roll_twice,
        "roll(roll(x, a), b) = roll(x, a + b)",
    ),
    rule(
        "slice_slice",
        EXACT,
        call(Slice, call(Slice, x, name="inner")),
        _slice_twice,
        "x[a:b][c:d] = x[a + c : a + d]",
    ),
    rule(
        "slice_broadcast",
        EXACT,
        call(Slice, call(BroadcastTo, x, name="inner")),
        _slice_broadcast,
        "broadcast_to(x, s)[i] = broadcast_to(x[i], s[i])",
    ),
    rule(
        "slice_concat",
        EXACT,
        call(Slice, any_of([Concat], name="inner")),
        _slice_concat,
        "concat(x, y)[i] = x[i] where i lies in x",
    ),
    rule(
        "cast_cast",
        EXACT,
        call(Cast, call(Cast, x, name="inner")),
        _cast_twice,
        "astype(astype(x, a), b) = astype(x, b) where a holds every value",
    ),
    rule(
        "concat_flat",
        EXACT,
        any_of([Concat]),
        _concat_flat,
        "concat(x) = x; concat(concat(x, y), z) = concat(x, y, z)",
    ),
    rule(
        "repeat_broadcast",
        EXACT,
        call(Repeat, x),
        _repeat_as_broadcast,
        "repeat(x, n) = broadcast_to(x) along an axis of size 1",
    ),
    rule(
        "tile_broadcast",
        EXACT,
        call(Tile, x),
        _tile_as_broadcast,
        "tile(x, n) = broadcast_to(x) along axes of size 1",
    ),
    rule(
        "pad_pad",
        EXACT,
        call(Pad, call(Pad, x, Capture("inner_fill"), name="inner"), fill),
        _pad_twice,
        "pad(pad(x, a, v), b, v) = pad(x, a + b, v)",
    ),
    rule("sort_sort", EXACT, call(Sort, x), _sort_twice, "sort(sort(x)) = sort(x)"),
)
