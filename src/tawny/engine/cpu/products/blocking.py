"""How a product is cut: tiles, blocks of columns and of the common axis, tasks for workers.

Nothing here changes a result: each sum is made in the order of the common axis.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.products.packing import Order
from tawny.engine.cpu.products.sharing import Extents, ceil_divide, tasks_of
from tawny.engine.cpu.products.tile import RegisterTile, tallest, vectors_for

PANEL_BYTES: Final = 2**18
"""The most bytes of a panel of a block of the common axis: it stays in the second cache.

Rows that do not follow each other in memory share fewer places of the cache: half of that, then.
"""

PACKED_BYTES: Final = 2**10
"""Bytes of each row of the right matrix that are packed at a time."""

TURNED_BYTES: Final = 2**8
"""Bytes packed at a time where columns lie together: rows are not read in one go anyway."""

CHUNK_TILES: Final = 20
"""Tiles, one below the other, whose rows stay in the second cache."""

LEAST_DEPTH: Final = 16
"""Blocks of the common axis are not made smaller."""

STREAMED_DEPTH: Final = 8
"""Rows of a large right matrix that are read side by side."""

UNLIMITED: Final = 2**31
"""The number of workers where none needs scratch memory."""

SHARED_OPERATIONS: Final = 2**18
"""Workers share the work only of products with more multiplications."""


def whole_lines(nbytes: int) -> int:
    """A number of bytes, rounded up to whole cache lines."""
    return ceil_divide(nbytes, 64) * 64


class Panels(enum.Enum):
    """The way in which the right matrix is read; compiled code reads the values."""

    DIRECT = 0
    """Where it lies, elements of a row side by side."""
    PACKED = 1
    """From panels that each worker packs before it uses them."""
    PREPARED = 2
    """From panels that were packed before the run."""


@dataclass(frozen=True, slots=True)
class TileStrip:
    """Tiles of one width, one below the other; the first `tall` are a row higher than the rest."""

    tile: RegisterTile
    tiles: int
    tall: int

    @staticmethod
    def of(rows: int, vectors: int, masked: bool = False, most: int = 0) -> TileStrip:
        """As few tiles as there can be, of nearly equal height, which is `most` rows at most."""
        count = ceil_divide(rows, most or tallest(vectors))
        height = ceil_divide(rows, count)
        return TileStrip(RegisterTile(height, vectors, masked), count, rows - count * (height - 1))

    @property
    def shapes(self) -> tuple[RegisterTile, ...]:
        """The tiles that occur, or would for some other number of rows."""
        tile = self.tile
        if self.tiles == 1 or tile.rows == 1:
            return (tile,)
        return (tile, RegisterTile(tile.rows - 1, tile.vectors, tile.masked))

    def sum_bytes(self, element: Element, tiles: int) -> int:
        """Bytes of the sums of a number of tiles, or of all if they are fewer."""
        return min(self.tiles, tiles) * self.tile.rows * self.tile.vectors * element.sum_bytes

    def numbers(self, element: Element, columns: int, sets: int) -> tuple[int, ...]:
        """The numbers of a strip with some columns: `STRIP_NUMBERS`."""
        rows, vectors = self.tile.rows, self.tile.vectors
        sums = rows * vectors * element.sum_bytes * sets
        return self.tiles, self.tall, rows, self.tile.width(element), columns, sums, vectors


STRIP_NUMBERS: Final = ("tiles", "tall", "height", "width", "columns", "sums", "vectors")
"""Numbers of a strip that compiled code reads; bytes of a tile's width and of its sums."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """Blocks of columns as wide as the `full` strip; the rest of the columns is the `tail`'s."""

    full: TileStrip
    tail: TileStrip | None
    blocks: int
    rest: int
    depth_blocks: int
    chunks: int
    """Into how many chunks of `chunk_blocks` blocks columns are cut; the last has the rest, too."""
    chunk_blocks: int
    parts: int
    """Into how many parts tiles are cut: a task is one part of one chunk."""
    chunk_tiles: int
    """Tiles, one below the other, that are computed with a panel before the next is taken."""
    streamed: bool
    """Whether all panels are multiplied with a block of the common axis before the next block."""
    sets: int = 1
    """How many sets of sums wait for each tile."""
    pieces: bool = False
    """Whether each vector of a tile is of another piece, so that blocks are a vector wide there."""
    apart: int = 0
    """Bytes from a vector of a tile to the next in the right matrix; 0 if they are side by side."""

    def numbers(self, element: Element) -> dict[str, int]:
        """Numbers that compiled code reads."""
        columns = self.full.tile.vectors * element.lanes
        full = self.full.numbers(element, columns, self.sets)
        tail = (0,) * len(full)
        if self.tail is not None:
            tail = self.tail.numbers(element, self.rest, self.sets)
        return {
            **dict(zip(STRIP_NUMBERS, full, strict=True)),
            **{f"tail_{name}": n for name, n in zip(STRIP_NUMBERS, tail, strict=True)},
            "blocks": self.blocks,
            "depth_blocks": self.depth_blocks,
            "chunks": self.chunks,
            "chunk_blocks": self.chunk_blocks,
            "parts": self.parts,
            "chunk_tiles": self.chunk_tiles,
            "streamed": self.streamed,
            "vector_bytes": self.apart or element.vector_bytes,
            "block_bytes": element.vector_bytes if self.pieces else self.full.tile.width(element),
        }

    def sum_bytes(self, element: Element) -> int:
        """Bytes of scratch memory for sums that wait for the next block of the common axis."""
        if self.depth_blocks == 1:
            return 0
        panels = min(self.chunk_blocks, self.blocks) if self.streamed else 1
        full = self.full.sum_bytes(element, self.chunk_tiles) * panels if self.blocks else 0
        tail = 0 if self.tail is None else self.tail.sum_bytes(element, self.chunk_tiles)
        return whole_lines(max(full, tail) * self.sets)

    def packed_bytes(self, element: Element, length: int) -> int:
        """Bytes of scratch memory for the panels of a chunk; `length` is the common axis'."""
        width = self.full.tile.width(element) * min(self.chunk_blocks, self.blocks)
        if self.tail is not None:
            width += self.tail.tile.width(element)
        return whole_lines(length * width)

    def prepared_bytes(self, element: Element, length: int) -> int:
        """Bytes of all panels of one product."""
        width = self.full.tile.width(element) * self.blocks
        if self.tail is not None:
            width += self.tail.tile.width(element)
        return length * width


@dataclass(frozen=True, slots=True)
class Extent:
    """A stack of products of (rows, taps * depth) and (taps * depth, columns) matrices."""

    rows: int
    columns: int
    depth: int
    taps: int = 1
    stack: int = 1

    @property
    def operations(self) -> int:
        """Multiplications."""
        return self.stack * self.rows * self.columns * self.taps * self.depth

    @property
    def empty(self) -> bool:
        """Whether the result has no elements."""
        return not (self.stack and self.rows and self.columns)

    @property
    def is_shared(self) -> bool:
        """Whether there is enough work for several workers."""
        return self.operations > SHARED_OPERATIONS


def cut(
    element: Element,
    extent: Extent,
    workers: int,
    *,
    panels: Panels = Panels.DIRECT,
    order: Order = Order.ROWS,
    streamed: bool = False,
    wide: int | None = None,
    high: int = 0,
) -> Blocking:
    """The blocking of a stack of products; an empty one has no tasks.

    Tiles are as wide as is best, or `wide` vectors, and at most as high as can be, or `high`.
    """
    rows, columns, lanes = max(extent.rows, 1), max(extent.columns, 1), element.lanes
    vectors = vectors_for(rows) if wide is None else wide
    full = TileStrip.of(rows, vectors, most=high)
    blocks, rest = divmod(columns, vectors * lanes)
    tail = TileStrip.of(rows, ceil_divide(rest, lanes), bool(rest % lanes), high) if rest else None
    width = full.tile.width(element)
    tiles = (full if blocks else tail or full).tiles
    packed, most_blocks = panels is Panels.PACKED, max(blocks, 1)
    if packed:
        together = PACKED_BYTES if order is Order.ROWS else TURNED_BYTES
        most_blocks = max(together // width, 1)
    narrow = 0 if tail is None else tail.tile.vectors / vectors
    extents = Extents(extent.stack, rows, tiles, blocks, narrow)
    chunk_blocks, parts = tasks_of(extents, workers if extent.is_shared else 1, most_blocks, packed)
    chunks = 0 if extent.empty else max(ceil_divide(blocks, chunk_blocks), 1)
    most = PANEL_BYTES // 2 if panels is Panels.DIRECT else PANEL_BYTES
    depth_blocks = ceil_divide(extent.depth * extent.taps * width, most)
    depth_blocks = max(min(depth_blocks, extent.depth // LEAST_DEPTH), 1)
    if streamed:
        depth_blocks = max(extent.depth // STREAMED_DEPTH, 1)
    tasks = depth_blocks, chunks, chunk_blocks, parts
    return Blocking(full, tail, blocks, rest, *tasks, CHUNK_TILES, streamed)


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of scratch memory that each worker needs, one thing after another."""

    packed: int = 0
    sums: int = 0
    rows: int = 0

    @property
    def slot(self) -> int:
        """Bytes of everything."""
        return self.packed + self.sums + self.rows

    def numbers(self, workers: int, slot: int | None = None) -> dict[str, int]:
        """Numbers that compiled code reads; a slot may be larger than is needed."""
        nbytes = self.slot if slot is None else slot
        return {
            "slots": workers if nbytes else UNLIMITED,
            "slot_bytes": nbytes,
            "sums_at": self.packed,
            "rows_at": self.packed + self.sums,
        }
