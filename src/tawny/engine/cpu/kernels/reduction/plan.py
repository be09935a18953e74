"""Reductions, and groups of elementwise steps around them, as loops over rows.

One axis of the space is walked in vectors.  Where it is folded, a row's elements are folded into
lanes, and the lanes at last into one number.  Where it is not, each lane has a row of its own.
Partial results are formed over blocks of fixed size and combined in one order, so that the bits of
a sum do not depend on the number of threads.

Few long rows are cut into parts of fixed size, whose partial results wait in scratch memory until
another function combines them; then the next sweep begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.kernel import ArrayLayout, CompiledKernel, KernelSequence
from tawny.engine.cpu.kernels.reduction.code import ReductionLayout
from tawny.engine.cpu.kernels.reduction.recall import RECALLED_BYTES, recalled_bytes
from tawny.engine.cpu.kernels.reduction.rows import reduction_library, stages
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.scalar.bodies import Read, over_space
from tawny.engine.llvm.scalar.coordinates import COUNTER
from tawny.engine.llvm.scalar.folds import SLOT, ReductionFold
from tawny.engine.llvm.scalar.reduction_bodies import (
    Computation,
    StagedBody,
    stage_body,
    widest_lane_bytes,
)
from tawny.ops.body import Body
from tawny.shape import Shape, collapse_axes

PART: Final = 1 << 15
"""Elements of a part of a long row."""

EXACT_PART: Final = 1 << 13
"""Elements of a part where nothing is rounded: more parts, so that threads have equal shares."""

FEW_ROWS: Final = 64
"""Rows up to which long ones are cut into parts, so that threads share them."""

FEW_SWEPT_ROWS: Final = 6
"""Rows swept several times up to which they are cut into parts: one may stay in the cache."""

SHARED_ELEMENTS: Final = 1 << 14
"""Elements from which threads share the work; see `workshare`."""

TILED_BYTES: Final = 1 << 20
"""Bytes of the elements of an array from which rows side by side are walked in tiles: more than
stays in the caches, where an element's neighbours in a row are far from it."""

LEAST_FOLDED: Final = 16
"""Elements along the outermost folded axis from which rows are walked in tiles."""

TILE_BYTES: Final = 1 << 13
"""Bytes side by side that a tile has of an array: two pages; processors look ahead in each."""

TILE_TOTALS: Final = 1 << 15
"""Bytes of a tile's partial results at most: they stay in the first cache."""

HEAVY: Final = 6
"""With more steps for each element, fewer vectors are walked at once."""


class ReductionPlan(NamedTuple):
    """A layout to run a staged body with, and the parameters that go with it."""

    layout: ReductionLayout
    parameters: tuple[int, ...]
    rows: int
    scratch: int


def reduction_kernel(
    body: Body, operands: Sequence[ArrayLayout], results: Sequence[ArrayLayout]
) -> KernelSequence | None:
    """A compiled kernel of a body with reductions, given how its operands lie in memory.

    None where it has none, or a step that is left to NumPy.
    """
    if not host().has_fma:
        return None
    found = stage_body(body)
    if found is None:
        return None
    plan = _plan_reduction(found, operands, results)
    key = found.code(len(operands))
    library = reduction_library(key, plan.layout)
    shared = plan.rows > 1 and math.prod(found.space) > SHARED_ELEMENTS
    (first, _), *after = stages(key, plan.layout)
    kernel = CompiledKernel(library, first, plan.parameters, shared, plan.scratch)
    return KernelSequence(kernel, tuple(after))


# -------------------------------------------------------------------- planning


def _numbering(found: StagedBody) -> tuple[int, ...]:
    """Along each axis how far apart the numbers of neighbours are, among those of a row."""
    out, step = [0] * len(found.space), 1
    for axis in sorted(found.folded, reverse=True):
        out[axis] = step
        step *= found.space[axis]
    return tuple(out)


class _Axes(NamedTuple):
    """Axes that are walked together: sizes, and for each one the strides of all arrays."""

    sizes: Shape
    strides: tuple[tuple[int, ...], ...]
    """The strides of each array."""

    @staticmethod
    def of(axes: Sequence[int], space: Shape, moves: Sequence[tuple[int, ...]]) -> _Axes:
        """Some axes of the space, neighbours made one where that is possible."""
        if not axes:
            return _Axes((), tuple([() for _ in moves]))
        sizes = tuple([space[a] for a in axes])
        merged, strides = collapse_axes(sizes, [tuple([m[a] for a in axes]) for m in moves])
        return _Axes(merged, tuple(strides))

    def without_last(self) -> _Axes:
        """All but the last one."""
        return _Axes(self.sizes[:-1], tuple([s[:-1] for s in self.strides]))


class _ReductionWalk(NamedTuple):
    """A walk over the space: along the lanes, along other axes of rows, and inside a row."""

    lane: int | None
    """The axis that vectors lie along; None where the space has none."""
    columns: bool
    """Whether that axis is not folded: each lane has a row of its own."""
    length: int
    """The size of that axis, with neighbours that are one with it."""
    steps: tuple[int, ...]
    """The stride of each array along it."""
    outer: _Axes
    """The other axes of rows."""
    inner: _Axes
    """The other folded axes."""


def _plan_reduction(
    found: StagedBody, operands: Sequence[ArrayLayout], results: Sequence[ArrayLayout]
) -> ReductionPlan:
    """The loops over arrays that lie like these, and the numbers that their code reads."""
    moves, items = _moves(found, operands, results)
    walk = _walk(found, moves, items)
    columns, length, outer, inner = walk.columns, walk.length, walk.outer, walk.inner
    lanes = _lanes(found)
    unroll = _unroll(found, -(-length // lanes))
    blocks = -(-length // (lanes * unroll)) if columns else 1
    rows = math.prod(outer.sizes) * blocks
    cut, pieces = _cut(found, columns, inner.sizes, length, rows, lanes * unroll)
    short = length * recalled_bytes(found.code(len(operands))) <= RECALLED_BYTES
    layout = ReductionLayout(
        columns=columns,
        outer=len(outer.sizes),
        inner=len(inner.sizes),
        steps=tuple([s if s in (0, n) else None for s, n in zip(walk.steps, items, strict=True)]),
        lanes=lanes,
        unroll=unroll,
        parts=pieces > 1,
        ordered=columns or walk.lane == max(found.folded, default=walk.lane),
        recalls=short and not (columns or inner.sizes or pieces > 1),
        tile=_tile(found, walk, items, lanes * unroll),
    )
    parameters = [*outer.sizes, *inner.sizes, length, blocks, cut, pieces]
    for number, step in enumerate(walk.steps):
        parameters += [*outer.strides[number], *inner.strides[number], step]
    folds = sum([isinstance(i, ReductionFold) for i in found.items])
    slot = SLOT * (lanes * unroll if columns else 1)
    kept = rows * (pieces + (found.sweeps > 1))
    scratch = kept * folds * slot if pieces > 1 else 0
    return ReductionPlan(layout, tuple(parameters), rows * pieces, -(-scratch // 64) * 64)


def _tile(found: StagedBody, walk: _ReductionWalk, items: Sequence[int], width: int) -> int:
    """How many units of rows side by side, `width` of them each, are walked together."""
    if not walk.columns or not walk.inner.sizes or walk.inner.sizes[0] < LEAST_FOLDED:
        return 0
    itemsize = max([n for n, step in zip(items, walk.steps, strict=True) if step], default=0)
    if math.prod(walk.inner.sizes) * walk.length * itemsize < TILED_BYTES:
        return 0
    folds = sum([isinstance(i, ReductionFold) for i in found.items])
    most = TILE_TOTALS // (folds * SLOT * width)
    tile = min(TILE_BYTES // (itemsize * width), most)
    return tile if tile > 1 else 0


def _moves(
    found: StagedBody, operands: Sequence[ArrayLayout], results: Sequence[ArrayLayout]
) -> tuple[list[tuple[int, ...]], list[int]]:
    """For all that is read, then for results, the strides over the space and an element's bytes."""
    rank = len(found.space)
    moves, items = list[tuple[int, ...]](), list[int]()
    for i, read in enumerate(found.items):
        if not isinstance(read, Read):
            continue
        if read.operand == COUNTER:
            moves.append(_numbering(found))
            items.append(1)
        else:
            moves.append(over_space(read.view, operands[read.operand].strides, rank))
            items.append(found.dtypes[i].itemsize)
    for (item, view), array in zip(found.results, results, strict=True):
        moves.append(over_space(view, array.strides, rank))
        items.append(found.dtypes[item].itemsize)
    return moves, items


def _walk(
    found: StagedBody, moves: Sequence[tuple[int, ...]], items: Sequence[int]
) -> _ReductionWalk:
    """The axis for the lanes is that along which most arrays have neighbours side by side.

    Before that counts along which the fewest are gathered for each element.
    """
    space, rank = found.space, len(found.space)
    reads = [item for item in found.items if isinstance(item, Read)]
    counters = [n for n, read in enumerate(reads) if read.operand == COUNTER]

    def density(axis: int) -> tuple[int, int, int]:
        """How few arrays are gathered, and how many have neighbours side by side along an axis."""
        dense = [m[axis] == n for m, n in zip(moves, items, strict=True)]
        gathered = [n not in counters and not dense[n] and all(moves[n]) for n in range(len(reads))]
        return -sum(gathered), sum(dense) - sum([dense[n] for n in counters]), axis

    lane = max(range(rank), key=density) if rank else None
    columns = lane is not None and lane not in found.folded
    alike = [a for a in range(rank) if a != lane and (a in found.folded) != columns]
    others = [a for a in range(rank) if a != lane and (a in found.folded) == columns]
    walked = _Axes.of([*alike, *([] if lane is None else [lane])], space, moves)
    if lane is None:
        walked = _Axes((1,), tuple([(0,) for _ in moves]))
    rest, other = walked.without_last(), _Axes.of(others, space, moves)
    outer, inner = (rest, other) if columns else (other, rest)
    steps = tuple([s[-1] for s in walked.strides])
    return _ReductionWalk(lane, columns, walked.sizes[-1], steps, outer, inner)


def _lanes(found: StagedBody) -> int:
    return max(host().vector_bytes // widest_lane_bytes(found), 1)


def _unroll(found: StagedBody, vectors: int) -> int:
    """Vectors at once: several where little is done to each, so that none waits for another."""
    steps = [i for i, row in zip(found.items, found.of_row, strict=True) if not row]
    heavy = sum([isinstance(i, Computation) for i in steps])
    most = 4 if heavy <= 2 else 2 if heavy <= HEAVY else 1
    while most > max(vectors, 1):
        most //= 2
    return most


def _cut(
    found: StagedBody, columns: bool, inner: Shape, length: int, rows: int, width: int
) -> tuple[int, int]:
    """The length of the parts a row is cut into, along its first folded axis, and how many."""
    few = FEW_ROWS if found.sweeps == 1 else FEW_SWEPT_ROWS
    folded = math.prod(inner) * (1 if columns else length)
    if rows > few or folded * (width if columns else 1) < 2 * PART:
        return folded, 1
    if columns and not inner:
        return folded, 1
    along = inner[0] if inner else length
    each = folded // along * (width if columns else 1)
    folds = [item for item in found.items if isinstance(item, ReductionFold)]
    cut = max((EXACT_PART if all(fold.exact for fold in folds) else PART) // each, 1)
    return cut, -(-along // cut)
