"""The loops of every product: tasks, chunks, blocks and tiles.

A product multiplies rows, which are found by a `Source`, with a matrix of columns.  Each worker
takes some tasks, packs the columns of a task where that is asked for, and computes its tiles one
after another.  Where the common axis is cut into blocks, sums wait in scratch memory meanwhile.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tawny.codegen.blocking import CHUNK_TILES, Blocking, Strip
from tawny.codegen.builder import I64, PTR, VOID, Function, Module, Value
from tawny.codegen.element import Element
from tawny.codegen.epilogue import Ending, Places, finish
from tawny.codegen.packing import Order, declare_pack
from tawny.codegen.row import Cells, Row
from tawny.codegen.tile import Tile

OWN_STACK: Final = ("a", "b", "result", "bias", "residual")
"""What moves on from one product of a stack to the next."""


class Panels(enum.Enum):
    """How the right matrix is read."""

    DIRECT = "where it lies, its rows' elements side by side"
    PACKED = "from panels that each worker packs before it uses them"
    PREPARED = "from panels that were packed when the program was made"


@dataclass(frozen=True, slots=True)
class TileCode:
    """A tile's function while it is written."""

    f: Function
    row: Row
    element: Element
    tile: Tile
    panels: Panels
    start: Value
    """The first of its rows."""
    left: Value
    panel: Value
    count: Value
    """Elements of a block of the common axis, for each tap."""
    masks: Sequence[Value | None]

    @property
    def panel_step(self) -> Value:
        """Bytes from one row of the right matrix to the next."""
        if self.panels is Panels.DIRECT:
            return self.row["b_row"]
        return self.f.constant(I64, self.tile.width(self.element))


class Source(ABC):
    """Where the rows of the left matrix and of the result are found."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[str, ...]:
        """The numbers it must be told."""

    @abstractmethod
    def accumulate(self, code: TileCode, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of a block of the common axis added."""

    @abstractmethod
    def places(self, code: TileCode, base: Value, name: str) -> list[Value]:
        """Addresses of a tile's rows in the `result` or the `residual`."""

    def pack(self, pack: PackCode) -> None:
        """Pack one panel: all of the common axis."""
        pack.rows(pack.source, pack.row["depth"], pack.target)


@dataclass(frozen=True, slots=True)
class PackCode:
    """The packing of a panel while it is written."""

    f: Function
    row: Row
    name: str
    source: Value
    target: Value
    columns: Value

    def rows(self, source: Value, count: Value, target: Value) -> None:
        """Pack some rows."""
        steps = self.row["b_row"], self.row["b_column"]
        self.f.call(self.name, VOID, source, *steps, count, target, self.columns)


@dataclass(frozen=True)
class Form:
    """All that the code of a product depends on; the rest are numbers it is told."""

    element: Element
    ending: Ending
    full: Tile
    full_heights: tuple[int, ...]
    tail: Tile | None
    tail_heights: tuple[int, ...]
    blocks: bool
    panels: Panels
    order: Order
    stack: int
    blocked: bool
    operands: tuple[str, ...]
    source: Source

    @staticmethod
    def of(
        element: Element,
        ending: Ending,
        blocking: Blocking,
        panels: Panels,
        order: Order,
        stack: int,
        operands: tuple[str, ...],
        source: Source,
    ) -> Form:
        """The form of a product that is cut in this way."""
        tail = blocking.tail
        return Form(
            element,
            ending,
            blocking.full.tile,
            blocking.full.heights if blocking.blocks else (),
            None if tail is None else tail.tile,
            () if tail is None else tail.heights,
            blocking.blocks > 0,
            panels,
            order,
            stack,
            blocking.depth_blocks > 1,
            operands,
            source,
        )
