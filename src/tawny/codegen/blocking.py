"""How a product of matrices is cut: tiles, blocks of columns and of the common axis, tasks.

Nothing here changes a result: each sum is made in the order of the common axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tawny.codegen.element import Element
from tawny.codegen.tile import Tile, tallest, vectors_for

PANEL_BYTES: Final = 2**18
"""A panel of a block of the common axis has at most so many bytes, to stay in the second cache."""

PACKED_COLUMNS_BYTES: Final = 2**10
"""So many bytes of a row of the right matrix are packed at a time."""

CHUNK_TILES: Final = 20
"""So many tiles, one below the other, are computed with a panel before the next is taken."""

SHARED_OPERATIONS: Final = 2**18
"""Workers share the work only of products with more multiplications."""


def over(number: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-number // divisor)


def aligned(nbytes: int) -> int:
    """So many bytes in whole cache lines."""
    return over(nbytes, 64) * 64


@dataclass(frozen=True, slots=True)
class Strip:
    """Tiles of one width that cover all rows: `tall` of the tile's height, the others one less."""

    tile: Tile
    tiles: int
    tall: int

    @staticmethod
    def of(rows: int, vectors: int, masked: bool) -> Strip:
        """As few tiles as there can be, of nearly equal height."""
        count = over(rows, tallest(vectors))
        height = over(rows, count)
        return Strip(Tile(height, vectors, masked), count, rows - count * (height - 1))

    @property
    def heights(self) -> tuple[int, ...]:
        """The heights that occur."""
        height = self.tile.rows
        return (height, height - 1) if self.tall < self.tiles else (height,)


@dataclass(frozen=True, slots=True)
class Blocking:
    """A product of (rows, depth * taps) and (depth * taps, columns), cut into tasks.

    Columns are cut into blocks as wide as the `full` strip and a rest, which is the `tail` strip's.
    """

    full: Strip
    tail: Strip | None
    blocks: int
    rest: int
    depth_blocks: int
    chunks: int
    """Columns are cut into so many chunks of `chunk_blocks` blocks; the last has the rest, too."""
    chunk_blocks: int
    parts: int
    """Tiles of a chunk are cut into so many parts: a task is one part of one chunk."""
    sum_bytes: int
    """Scratch memory for sums of blocks of the common axis."""

    @property
    def numbers(self) -> dict[str, int]:
        """What kernels are told."""
        tail = self.tail
        return {
            "blocks": self.blocks,
            "rest": self.rest,
            "tiles": self.full.tiles,
            "tall": self.full.tall,
            "tail_tiles": 0 if tail is None else tail.tiles,
            "tail_tall": 0 if tail is None else tail.tall,
            "depth_blocks": self.depth_blocks,
            "chunks": self.chunks,
            "chunk_blocks": self.chunk_blocks,
            "parts": self.parts,
        }


def cut(
    element: Element,
    rows: int,
    columns: int,
    depth: int,
    taps: int,
    *,
    packed: bool,
    stack: int,
    workers: int,
) -> Blocking:
    """The blocking of a stack of products that are not empty.

    Where the right matrix is packed by the worker that uses it, workers take columns of their own
    as far as there are enough of them; otherwise those that share the larger matrix.
    """
    lanes = element.lanes
    vectors = vectors_for(rows)
    full = Strip.of(rows, vectors, masked=False)
    blocks, rest = divmod(columns, vectors * lanes)
    tail = Strip.of(rows, over(rest, lanes), bool(rest % lanes)) if rest else None
    panel = vectors * element.vector_bytes
    depth_blocks = max(1, over(depth * taps * panel, PANEL_BYTES))
    depth_blocks = min(depth_blocks, max(depth // 8, 1))
    shared = stack * rows * columns * depth * taps > SHARED_OPERATIONS
    wanted = over(workers, stack) if shared else 1
    chunk_blocks = max(blocks, 1)
    if packed or columns > rows:
        chunk_blocks = over(chunk_blocks, wanted)
    if packed:
        chunk_blocks = min(chunk_blocks, max(PACKED_COLUMNS_BYTES // panel, 1))
    chunks = max(over(blocks, chunk_blocks), 1)
    tiles = full.tiles if blocks else (tail or full).tiles
    parts = min(over(wanted, chunks), tiles)
    sums = 0
    if depth_blocks > 1:
        strips = [s for s in (full, tail) if s is not None]
        sums = max(
            min(s.tiles, CHUNK_TILES) * s.tile.rows * s.tile.vectors * element.sum_bytes
            for s in strips
        )
    return Blocking(
        full, tail, blocks, rest, depth_blocks, chunks, chunk_blocks, parts, aligned(sums)
    )
