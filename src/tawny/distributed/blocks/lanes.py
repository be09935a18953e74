"""Rules for ops along some axes, which read these whole: reductions, running folds, sorts, FFT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.distributed.blocks.boxes import Box, Chunks, relative, whole
from tawny.distributed.blocks.cuts import Cut, Rule, apply_op
from tawny.node import Node, make
from tawny.op import Family, Op
from tawny.ops.cumulative import CumulativeProd, CumulativeSum
from tawny.ops.fft import FFT, InverseRealFFT, RealFFT
from tawny.ops.indexing import ArgSort, Slice
from tawny.ops.reduction import REDUCTIONS
from tawny.ops.sorting import Digitize, IsIn, SearchSorted, Sort


def own_axes(op: Op) -> tuple[int, ...]:
    """The axes along which an op looks at all elements together."""
    axes: tuple[int, ...] | None = getattr(op, "axes", None)
    axis: int | None = getattr(op, "axis", None)
    return axes if axes is not None else () if axis is None else (axis,)


# ---------------------------------------------------------------------- reductions


def reduced_chunks(axes: Sequence[int], keepdims: bool, chunks: Chunks) -> Chunks:
    """Chunks of what is reduced over axes."""
    made = [(1,) if axis in axes else c for axis, c in enumerate(chunks)]
    return tuple([c for axis, c in enumerate(made) if keepdims or axis not in axes])


def _reduction_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    keepdims: bool = getattr(node.op, "keepdims", False)
    return reduced_chunks(own_axes(node.op), keepdims, given[0])


def _reduction_cut(node: Node, box: Box) -> Cut:
    (x,), axes = node.inputs, own_axes(node.op)
    keepdims: bool = getattr(node.op, "keepdims", False)
    left = iter(box)
    read: list[tuple[int, int]] = []
    for axis, n in enumerate(x.shape):
        span = next(left) if keepdims or axis not in axes else (0, n)
        read.append((0, n) if axis in axes else span)
    return apply_op(node.op, (x, tuple(read)))


def _has_axes(node: Node) -> bool:
    return getattr(node.op, "axis", 0) is not None


REDUCTION: Final = Rule(_reduction_chunks, _reduction_cut, _has_axes)


# ----------------------------------------------------------------- ops along axes


def _lane_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    axes = own_axes(node.op)
    pairs = enumerate(zip(node.shape, given[0], strict=True))
    return tuple([(n,) if axis in axes else chunks for axis, (n, chunks) in pairs])


def _lane_cut(node: Node, box: Box) -> Cut:
    """All of each lane, of which the box may be a part."""
    (x,), op, axes = node.inputs, node.op, own_axes(node.op)
    read = tuple([(0, x.shape[a]) if a in axes else span for a, span in enumerate(box)])
    around = tuple([(0, node.shape[a]) if a in axes else span for a, span in enumerate(box)])
    if around == box:
        return apply_op(op, (x, read))
    ranges = tuple([(a, b - a, 1) for a, b in relative(box, around)])

    def build(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return (make(Slice(ranges), (make(op, tuple(nodes)),)),)

    return Cut(((x, read),), (op, ranges), build)


LANES: Final = (CumulativeSum, CumulativeProd, Sort, ArgSort, FFT, RealFFT, InverseRealFFT)

LANE: Final = Rule(_lane_chunks, _lane_cut)


# ------------------------------------------------------------------------- look-ups


def _lookup_operand(op: Op) -> int:
    """The operand whose elements are looked up, one by one; the other is read whole."""
    return 1 if isinstance(op, SearchSorted) else 0


def _lookup_chunks(node: Node, given: Sequence[Chunks]) -> Chunks:
    return given[_lookup_operand(node.op)]


def _lookup_cut(node: Node, box: Box) -> Cut:
    wanted = _lookup_operand(node.op)
    reads = [(x, box if i == wanted else whole(x.shape)) for i, x in enumerate(node.inputs)]
    return apply_op(node.op, *reads)


LOOKUP: Final = Rule(_lookup_chunks, _lookup_cut)

LANE_RULES: Final[dict[Family, Rule]] = {
    **dict.fromkeys(REDUCTIONS, REDUCTION),
    **dict.fromkeys(LANES, LANE),
    **dict.fromkeys((SearchSorted, Digitize, IsIn), LOOKUP),
}
