"""Contractions by tensor cores: how a sum of products is cut into tiles, and what is launched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tawny.engine.gpu.kernels.contraction import (
    ColumnAxis,
    Contraction,
    DepthAxis,
    Ending,
    RowAxis,
    StackAxis,
    reads_outside,
)
from tawny.engine.gpu.kernels.warp import WARP
from tawny.op import Elementwise
from tawny.shape import collapse_axes

ITEM: Final = 4
"""Bytes of a number."""

VECTOR: Final = 4
"""Numbers that a thread copies at once where they lie side by side."""

FARTHEST: Final = 1 << 31
"""Bytes between the first and the last element of an operand: offsets have 32 bits."""

MULTIPROCESSORS: Final = 132
"""The multiprocessors of a device that tiles are chosen for, which are the same everywhere."""


class ProductTile(NamedTuple):
    """The part of the result that a block computes."""

    rows: int
    columns: int
    warp_rows: int
    """Rows of a warp's own part."""
    warps: int
    """Warps of the block."""
    depth: int
    """Numbers of a slice along the depth."""
    stages: int
    """Slices of the operands that are in memory of the block at a time."""
    rate: int
    """Products that a multiprocessor adds in a cycle, as an H200 did; where factors are split, and
    0 where the tile has too many sums for that."""
    split_rate: int

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return WARP * self.warps

    @property
    def warps_down(self) -> int:
        """How many warps share the rows."""
        return self.rows // self.warp_rows

    @property
    def warp_columns(self) -> int:
        """Columns of a warp's own part."""
        return self.columns * self.warps_down // self.warps


TILES: Final = (
    ProductTile(128, 128, 64, 4, 16, 4, 329, 0),
    ProductTile(128, 128, 64, 4, 32, 3, 341, 0),
    ProductTile(128, 64, 64, 4, 16, 4, 248, 117),
    ProductTile(128, 64, 64, 4, 32, 3, 252, 113),
    ProductTile(64, 128, 32, 4, 16, 4, 288, 119),
    ProductTile(64, 128, 32, 4, 32, 3, 295, 112),
    ProductTile(128, 32, 32, 4, 16, 4, 140, 97),
    ProductTile(64, 64, 32, 4, 16, 4, 198, 103),
    ProductTile(64, 64, 32, 4, 32, 3, 212, 108),
    ProductTile(64, 32, 32, 4, 16, 4, 125, 83),
    ProductTile(32, 64, 16, 4, 16, 4, 143, 84),
)

PARTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Into how many parts the depth may be cut, each with blocks of its own."""


class OperandOrder(NamedTuple):
    """The order in which an operand is read."""

    by_depth: bool
    """Whether neighbours are along the depth."""
    each: int
    """Neighbours that a thread copies at once."""
    is_linear: bool
    """Whether its step along the depth is the same everywhere."""


class ReadEnding(NamedTuple):
    """An op applied to the sums, and where its other operand, if any, is read."""

    op: Elementwise
    has_operand: bool
    by_column: bool
    """Whether the operand is the same in all rows and products of the stack."""
    step: int
    """Bytes from an element of the operand to the next along a row."""


class TensorStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    axes: tuple[int, int, int, int]
    """How many of the stack, the rows, the columns and the depth."""
    windows: tuple[tuple[int, int], ...]
    """The axes of rows and depth that each ties."""
    tile: ProductTile
    a: OperandOrder
    b: OperandOrder
    store_each: int
    """Neighbours along a row that a thread stores at once."""
    has_linear_rows: bool
    """Whether the steps of what is stored, and read by endings, are the same for all rows."""
    endings: tuple[ReadEnding, ...]
    has_parts: bool
    """Whether the depth is cut into parts, whose sums wait in scratch memory."""
    precision: str | None
    """What factors are rounded to; None splits each into two TF32 numbers: it rounds nothing."""


class TensorProduct(NamedTuple):
    """A contraction as tensor cores compute it."""

    structure: TensorStructure
    numbers: tuple[int, ...]
    sizes: tuple[int, int, int, int]
    """Of the stack, the rows, the columns and the depth."""
    parts: int
    """Parts of the depth."""

    @property
    def blocks(self) -> int:
        """How many blocks compute it."""
        stack, rows, columns, _ = self.sizes
        tile = self.structure.tile
        across, down = -(-columns // tile.columns), -(-rows // tile.rows)
        return across * down * self.parts * stack

    @property
    def scratch(self) -> int:
        """Bytes for the sums of parts of the depth."""
        stack, rows, columns, _ = self.sizes
        return self.parts * stack * rows * columns * ITEM if self.parts > 1 else 0


def tensor_product(
    found: Contraction, aligned: Sequence[bool], precision: str | None
) -> TensorProduct | None:
    """How tensor cores compute a contraction of float32 numbers; None where they cannot.

    `aligned` says of each operand whether it begins at a multiple of 16 bytes.
    """
    found, a_start = simplify_axes(found)
    sizes = _sizes(found)
    if not math.prod(sizes) or not _has_short_offsets(found):
        return None
    tile, parts = choose_tile(sizes, precision is None)
    depth = sizes[3]
    chunk = -(-depth // (tile.depth * parts)) * tile.depth
    parts = -(-depth // chunk)
    a, b = _order_of_a(found, aligned[0], a_start), _order_of_b(found, aligned[1])
    columns_at_once = _stored_at_once(found, aligned)
    after = len(found.stack) + len(found.rows)
    structure = TensorStructure(
        (len(found.stack), len(found.rows), len(found.columns), len(found.depth)),
        tuple([(w.row, w.depth) for w in found.windows]),
        *(tile, a, b, columns_at_once, _has_linear_rows(found)),
        tuple(
            [
                ReadEnding(
                    *(e.op, e.operand is not None, not any(e.steps[:after])),
                    e.steps[-1] if e.operand is not None and columns_at_once > 1 else 0,
                )
                for e in found.endings
            ]
        ),
        *(parts > 1, precision),
    )
    numbers = [a_start, found.b_start, found.c_start, chunk, parts]
    for axes in (found.stack, found.rows, found.columns, found.depth):
        numbers += [n for axis in axes for n in axis]
    numbers += [n for w in found.windows for n in w[2:]]
    read = [e for e in found.endings if e.operand is not None]
    numbers += [n for e in read for n in (e.start, *e.steps)]
    return TensorProduct(structure, tuple(numbers), sizes, parts)


def _sizes(found: Contraction) -> tuple[int, int, int, int]:
    stack, rows, columns, depth = (
        math.prod([axis.size for axis in axes])
        for axes in (found.stack, found.rows, found.columns, found.depth)
    )
    return stack, rows, columns, depth


# ---------------------------------------------------------------------- simpler axes


def simplify_axes(found: Contraction) -> tuple[Contraction, int]:
    """A contraction of equal value with fewer axes, and where its left operand begins.

    A window that never reads outside is a step along both of its axes, and the stack has no axis
    along which the right operand is the same.
    """
    found = _with_rows_of_stack(found)
    rows, depth, start = list(found.rows), list(found.depth), 0
    windows = [w for w in found.windows if reads_outside(found, w)]
    for w in found.windows:
        if w not in windows:
            start += w.origin * w.a
            rows[w.row] = rows[w.row]._replace(a=rows[w.row].a + w.row_step * w.a)
            depth[w.depth] = depth[w.depth]._replace(a=depth[w.depth].a + w.depth_step * w.a)
    ends = [e.steps for e in found.endings if e.operand is not None]
    first, second = len(found.stack), len(found.stack) + len(rows)
    own = [[e[:first] for e in ends], [e[first:second] for e in ends], [e[second:] for e in ends]]
    tied_rows, tied = {w.row for w in windows}, {w.depth for w in windows}
    stack, stack_ends = _collapse(found.stack, own[0], set())
    new_rows, row_ends = _collapse(rows, own[1], tied_rows)
    columns, column_ends = _collapse(found.columns, own[2], set())
    new_depth, _ = _collapse(depth, [], tied)
    if windows:  # axes that windows tie keep their order; those beside them may be gone
        kept_rows = [i for i, r in enumerate(rows) if r.size != 1 or i in tied_rows]
        kept = [i for i, d in enumerate(depth) if d.size != 1 or i in tied]
        windows = [
            w._replace(row=kept_rows.index(w.row), depth=kept.index(w.depth)) for w in windows
        ]
    parts = zip(stack_ends, row_ends, column_ends, strict=True)
    steps = iter([(*a, *b, *c) for a, b, c in parts])
    endings = [e if e.operand is None else e._replace(steps=next(steps)) for e in found.endings]
    return (
        Contraction(
            tuple([StackAxis(*axis) for axis in stack]),
            tuple([RowAxis(*axis) for axis in new_rows]),
            tuple([ColumnAxis(*axis) for axis in columns]),
            tuple([DepthAxis(*axis) for axis in new_depth]),
            tuple(windows),
            found.b_start,
            found.c_start,
            tuple(endings),
        ),
        start,
    )


def _with_rows_of_stack(found: Contraction) -> Contraction:
    """A contraction of equal value: axes of its stack that the right operand lacks are rows."""
    moved = [i for i, axis in enumerate(found.stack) if not axis.b]
    kept = [i for i, axis in enumerate(found.stack) if axis.b]
    first = len(found.stack)
    return found._replace(
        stack=tuple([found.stack[i] for i in kept]),
        rows=(*[RowAxis(x.size, x.a, x.c) for i in moved for x in [found.stack[i]]], *found.rows),
        windows=tuple([w._replace(row=w.row + len(moved)) for w in found.windows]),
        endings=tuple(
            [
                e._replace(steps=(*[e.steps[i] for i in (*kept, *moved)], *e.steps[first:]))
                if e.operand is not None
                else e
                for e in found.endings
            ]
        ),
    )


def _collapse(
    axes: Sequence[tuple[int, ...]], ends: Sequence[tuple[int, ...]], tied: set[int]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Axes without those of size 1, neighbours made one; and what endings step along them.

    Where windows tie some, none is made one with another.
    """
    kept = [i for i, axis in enumerate(axes) if axis[0] != 1 or i in tied]
    columns = [tuple([axes[i][k] for i in kept]) for k in range(1, len(axes[0]))] if axes else []
    columns += [tuple([e[i] for i in kept]) for e in ends]
    sizes: tuple[int, ...] = tuple([axes[i][0] for i in kept])
    own = len(columns) - len(ends)
    if not tied:
        sizes, columns = collapse_axes(sizes, columns)
    if not axes:
        return [], [() for _ in ends]
    return [(n, *[c[i] for c in columns[:own]]) for i, n in enumerate(sizes)], columns[own:]


# -------------------------------------------------------------------- how it is read


def _order_of_a(found: Contraction, aligned: bool, start: int) -> OperandOrder:
    """How the left operand is read."""
    rows, depth = ([(x.size, x.a) for x in axes] for axes in (found.rows, found.depth))
    by_depth = _closest(depth) <= _closest(rows)
    tied = {w.depth if by_depth else w.row for w in found.windows}
    others = [(x.size, x.a) for x in found.stack] + [(w.size, w.a) for w in found.windows]
    whole = (
        aligned
        and not start % (VECTOR * ITEM)
        and len(depth if by_depth else rows) - 1 not in tied
        and _in_vectors(depth if by_depth else rows, [*(rows if by_depth else depth), *others])
    )
    linear = not found.windows and len(found.depth) == 1
    return OperandOrder(by_depth, VECTOR if whole else 1, linear)


def _order_of_b(found: Contraction, aligned: bool) -> OperandOrder:
    """How the right operand is read."""
    columns, depth = ([(x.size, x.b) for x in axes] for axes in (found.columns, found.depth))
    by_depth = _closest(depth) < _closest(columns)
    others = [(x.size, x.b) for x in found.stack]
    whole = (
        aligned
        and not found.b_start % (VECTOR * ITEM)
        and _in_vectors(*(depth, [*columns, *others]) if by_depth else (columns, [*depth, *others]))
    )
    return OperandOrder(by_depth, VECTOR if whole else 1, _is_linear(depth))


def _in_vectors(fast: Sequence[_Axis], others: Sequence[_Axis]) -> bool:
    """Whether the last of some axes has vectors side by side, wherever one is on the others."""
    *before, (size, step) = fast
    return (
        step == ITEM and not size % VECTOR and _are_whole([step for _, step in (*before, *others)])
    )


def _are_whole(steps: Sequence[int]) -> bool:
    return not any(s % (VECTOR * ITEM) for s in steps)


_Axis = tuple[int, int]
"""A size and a step."""


def _closest(axes: Sequence[_Axis]) -> int:
    """The least distance of neighbours along some axes."""
    return min([abs(step) for _, step in axes if step], default=1 << 62)


def _is_linear(axes: Sequence[_Axis]) -> bool:
    """Whether elements numbered along some axes lie equally far apart."""
    return all(step == size * inner for (_, step), (size, inner) in pairwise(axes))


def _has_linear_rows(found: Contraction) -> bool:
    """Whether what is stored, and what endings read, is the same step further on in each row."""
    first = len(found.stack)
    steps = [[r.c for r in found.rows]]
    steps += [
        list(e.steps[first : first + len(found.rows)]) for e in _endings_that_read(found.endings)
    ]
    sizes = [r.size for r in found.rows]
    return all(_is_linear(list(zip(sizes, own, strict=True))) for own in steps)


def _stored_at_once(found: Contraction, aligned: Sequence[bool]) -> int:
    """How many neighbours along a row a thread stores at once."""
    columns = [(x.size, x.c) for x in found.columns]
    others = [(x.size, x.c) for x in found.stack] + [(x.size, x.c) for x in found.rows]
    if found.c_start % (VECTOR * ITEM) or not _in_vectors(columns, others):
        return 1
    for ending in _endings_that_read(found.endings):
        assert ending.operand is not None
        *before, step = ending.steps
        if step == ITEM and not (aligned[ending.operand] and _are_whole([ending.start, *before])):
            return 1
        if step not in (0, ITEM):
            return 1
    return VECTOR


def _endings_that_read(endings: Sequence[Ending]) -> list[Ending]:
    return [e for e in endings if e.operand is not None]


def _has_short_offsets(found: Contraction) -> bool:
    """Whether offsets in bytes within each operand have 32 bits."""
    rows, columns, depth = found.rows, found.columns, found.depth
    a = [(x.size, x.a) for x in rows] + [(x.size, x.a) for x in depth]
    a += [(w.size, w.a) for w in found.windows]
    b = [(x.size, x.b) for x in columns] + [(x.size, x.b) for x in depth]
    c = [(x.size, x.c) for x in rows] + [(x.size, x.c) for x in columns]
    sizes = [x.size for x in rows] + [x.size for x in columns]
    ends = [
        list(zip(sizes, e.steps[len(found.stack) :], strict=True))
        for e in _endings_that_read(found.endings)
    ]
    reaches = [sum([n * abs(step) for n, step in axes]) for axes in (a, b, c, *ends)]
    return 2 * max(*reaches, *_sizes(found)[1:]) < FARTHEST


# ------------------------------------------------------------------------ the choice


class CostModel(NamedTuple):
    """The cycles of a multiprocessor that products take: fitted to those that an H200 took."""

    step: float = 220.0
    """A slice of 16 numbers along the depth at least, and for each 1,000 elements of a tile."""
    step_of_tile: float = 15.7
    split: float = 11.3
    """How much more of the latter a slice takes where factors are split."""
    start: float = 10_674.0
    """A launch; and a block, for each 1,000 elements."""
    block: float = 174.0
    sums: float = 502.0
    """The launch that adds up parts, and the bytes of them that are moved in a cycle."""
    sum_bytes: float = 7501.0
    bytes: float = 2200.0
    """Bytes of operands and results that are moved in a cycle."""

    def at_once(self, area: int) -> float:
        """Blocks that share a multiprocessor, by the elements of their tile."""
        return 1.64 if area >= 1 << 14 else 2.01 if area >= 1 << 13 else 4.77


MODEL: Final = CostModel()


def choose_tile(sizes: tuple[int, int, int, int], is_split: bool) -> tuple[ProductTile, int]:
    """The tile, and the parts of the depth, for which least time is expected."""
    tiles = [t for t in TILES if not is_split or t.split_rate]
    ways = [(tile, parts) for parts in PARTS for tile in tiles]
    return min(ways, key=lambda way: _cycles(sizes, way[0], way[1], is_split))


def _cycles(
    sizes: tuple[int, int, int, int], tile: ProductTile, parts: int, is_split: bool
) -> float:
    """Cycles that a product may take."""
    stack, rows, columns, depth = sizes
    steps = -(-depth // (tile.depth * parts)) * tile.depth / 16
    if parts > 1 and steps < LEAST_STEPS:
        return math.inf
    blocks = -(-rows // tile.rows) * -(-columns // tile.columns) * stack * parts
    area = tile.rows * tile.columns
    each = -(-blocks // MULTIPROCESSORS)
    rounds = math.ceil(each / MODEL.at_once(area))
    slice_cycles = area * 16 / (tile.split_rate if is_split else tile.rate)
    alone = MODEL.step + MODEL.step_of_tile * area / 1000 * (MODEL.split if is_split else 1)
    cycles = steps * max(each * slice_cycles, rounds * alone)
    cycles += MODEL.start + rounds * MODEL.block * area / 1000
    if parts > 1:
        kept = parts * stack * rows * columns * ITEM
        cycles += MODEL.sums + 2 * kept / (MODEL.sum_bytes if kept < CACHED else MODEL.bytes)
    moved = (rows * depth + depth * columns + rows * columns) * stack * ITEM
    return max(cycles, moved / MODEL.bytes)


CACHED: Final = 30_000_000
"""Bytes of sums of parts that stay in a device's cache until they are added up."""

LEAST_STEPS: Final = 4
"""Slices of a part of the depth, at least."""
