"""Long transforms in two phases, tile by tile, through the result's own memory.

They are computed as squares are, but that threads share a transform, and that no more than a tile
of it is in a worker's own memory.  The first phase transforms columns and leaves them as rows of
the result; the second one transforms columns again, in their place.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.transforms.chain import Chain, Limit, RowLayout
from tawny.engine.cpu.transforms.driver import TileAxis, TileLoop
from tawny.engine.cpu.transforms.lengths import passes_of
from tawny.engine.cpu.transforms.lines import AxisTransforms, TransformKind
from tawny.engine.cpu.transforms.passes import ColumnForm
from tawny.engine.cpu.transforms.roots import lane_factors, spaced_factors
from tawny.engine.cpu.transforms.squares import (
    TransformMatrix,
    add_mirror,
    add_spectrum,
    add_untangle,
    chunk_of,
)
from tawny.engine.cpu.transforms.stage import SOURCE, TARGET
from tawny.engine.cpu.transforms.turns import ROWS, rows_out_library

TILE_BYTES: Final = 2**18
"""Bytes of a tile: two of them stay in the second cache (`benchmarks/fft.py`)."""

TILE_PAIRS: Final = 2**13
"""About how many mirrored pairs a task has."""


def long_parts(lines: AxisTransforms, square: TransformMatrix) -> list[TileLoop]:
    """Parts, each a phase of its own, of transforms of complex numbers or of even length."""
    n1, n2 = square.rows, square.columns
    parts = [_columns_first(lines, n1, n2), _columns_again(lines, n1, n2)]
    if lines.kind in (TransformKind.HALF, TransformKind.WHOLE):
        pairs = lines.complex_length // 2
        chunk = chunk_of(lines)
        per_tile = -(-TILE_PAIRS // chunk) * chunk
        chain = Chain(lines.lanes, 0)
        add_untangle(chain, lines, per_tile=per_tile)
        parts.append(_pairs_part(lines, chain, pairs, per_tile))
    if lines.kind is TransformKind.WHOLE:
        per_tile = lines.lanes.pad(TILE_PAIRS)
        chain = Chain(lines.lanes, 0)
        add_mirror(chain, lines, per_tile=per_tile)
        parts.append(_pairs_part(lines, chain, (lines.length - 1) // 2, per_tile))
    return parts


def _tile(lines: AxisTransforms, rows: int, columns: int) -> int:
    """Columns of a tile."""
    lanes = lines.lanes
    blocks = max(TILE_BYTES // (lanes.pad(rows) * lanes.block), 1)
    return min(blocks, lanes.blocks(columns)) * lanes.count


def _columns_first(lines: AxisTransforms, n1: int, n2: int) -> TileLoop:
    """The columns, which become rows of the result."""
    lanes = lines.lanes
    n, tile = n1 * n2, _tile(lines, n1, n2)
    width = lanes.width(tile)
    chain = Chain(lanes, lanes.pad(n1) * width)
    if lines.kind is TransformKind.REAL:
        source = chain.free_rows(width)
        add_spectrum(chain, lines, source, {"rows": n1, "row_length": n2, "per_tile": tile})
        step = 0
    else:
        given = lines.given * (2 if lines.kind is TransformKind.COMPLEX else 1)
        limit = Limit(given, 2 * n2, 2 * tile) if given < 2 * n else None
        source = RowLayout(SOURCE, 0, n2 * lanes.number, ColumnForm.NUMBERS, limit)
        step = tile * lanes.number
    found = chain.add_passes(
        passes_of(n1).factors, source, None, lanes.blocks(tile), turn=lines.turn
    )
    low_bits = (n.bit_length() + 1) // 2
    chain.add(
        rows_out_library(lanes.scalar, ColumnForm.NUMBERS, rotated=True),
        ROWS,
        source=found.cell,
        source_at=found.at,
        source_row=found.nbytes,
        target=TARGET,
        target_row=n1 * lanes.number,
        columns=n1,
        near=lane_factors(n, n1, lanes),
        low=spaced_factors(n, 1 << low_bits, 1, 0, lanes),
        high=spaced_factors(n, (n >> low_bits) + 1, 1 << low_bits, 0, lanes),
        low_bits=low_bits,
        length=n,
        per_tile=tile,
    )
    axes = list(lines.others)
    axes.append(TileAxis(-(-n2 // tile), step, tile * n1 * lanes.number))
    return TileLoop(
        tuple(axes), n2, tile, tuple(chain.stages), chain.room, lines.source, lines.target
    )


def _columns_again(lines: AxisTransforms, n1: int, n2: int) -> TileLoop:
    """The columns of the rows that the first phase left, in their place."""
    lanes = lines.lanes
    tile = _tile(lines, n2, n1)
    chain = Chain(lanes, lanes.pad(n2) * lanes.width(tile))
    chain.add_passes(
        passes_of(n2).factors,
        RowLayout(SOURCE, 0, n1 * lanes.number, ColumnForm.NUMBERS),
        RowLayout(TARGET, 0, n1 * lanes.number, ColumnForm.NUMBERS),
        lanes.blocks(tile),
        scale=lines.result_scale,
    )
    axes = [TileAxis(axis.size, axis.target, axis.target) for axis in lines.others]
    step = tile * lanes.number
    axes.append(TileAxis(-(-n1 // tile), step, step))
    return TileLoop(
        tuple(axes), n1, tile, tuple(chain.stages), chain.room, lines.target, lines.target
    )


def _pairs_part(lines: AxisTransforms, chain: Chain, pairs: int, per_tile: int) -> TileLoop:
    """What is done to mirrored pairs of the result."""
    axes = [TileAxis(axis.size, axis.target, axis.target) for axis in lines.others]
    axes.append(TileAxis(-(-pairs // per_tile), 0, 0))
    return TileLoop(
        tuple(axes), pairs, per_tile, tuple(chain.stages), 0, lines.target, lines.target
    )
