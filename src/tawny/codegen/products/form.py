"""What a product is, and the code of its tiles.

A product multiplies rows, which a `Source` finds, with a matrix of columns, and ends with an
epilogue.  Its common axis has a depth for each of some taps, the places of a window; matrices have
one tap.  The depth may be cut into blocks: in packed panels blocks follow each other, each with all
its taps.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tawny.codegen.products.blocking import NUMBERS, Blocking
from tawny.codegen.builder import I64, PTR, VOID, Function, Module, Value
from tawny.codegen.element import Element
from tawny.codegen.products.epilogue import Ending, Places, finish
from tawny.codegen.products.packing import Order
from tawny.codegen.products.row import Names, Numbers
from tawny.codegen.products.stack import stack_names
from tawny.codegen.products.tile import Tile

_NUMBERS: Final = (
    "depth",
    "taps",
    "b_start",
    "c_start",
    "b_row",
    "b_column",
    *NUMBERS,
    "slots",
    "slot_bytes",
    "sums_at",
    "rows_at",
)


class Panels(enum.Enum):
    """How the right matrix is read."""

    DIRECT = "where it lies, elements of a row side by side"
    PACKED = "from panels that each worker packs before it uses them"
    PREPARED = "from panels that were packed before the run"


class Depth(enum.Enum):
    """How the common axis is walked."""

    WHOLE = "at once for each tile"
    BLOCKED = "block by block for each panel: blocks stay in the cache for many tiles"
    STREAMED = "block by block for all panels: a large right matrix is read in order"


@dataclass(frozen=True, slots=True)
class Form:
    """All that the code of a product depends on; the rest are numbers it is told."""

    element: Element
    ending: Ending
    full: tuple[Tile, ...]
    """Tiles of whole blocks of columns, by height, the tallest first; none without such blocks."""
    tail: tuple[Tile, ...]
    """Tiles of the rest of the columns; none without a rest."""
    panels: Panels
    order: Order
    stack: int
    """How many axes the stack of products has."""
    depth: Depth
    source: Source

    @staticmethod
    def of(
        element: Element,
        ending: Ending,
        cut: Blocking,
        panels: Panels,
        order: Order,
        stack: int,
        source: Source,
    ) -> Form:
        """The form of a product that is cut so."""
        full = cut.full.shapes if cut.blocks else ()
        tail = () if cut.tail is None else cut.tail.shapes
        depth = Depth.STREAMED if cut.streamed else Depth.BLOCKED
        if cut.depth_blocks == 1:
            depth = Depth.WHOLE
        return Form(element, ending, full, tail, panels, order, stack, depth, source)

    def names(self) -> Names:
        """The numbers it is told."""
        return Names([*_NUMBERS, *stack_names(self.stack), *self.source.numbers])


@dataclass(frozen=True, slots=True)
class TileCode:
    """The code of a tile while it is written."""

    f: Function
    form: Form
    tile: Tile
    numbers: Numbers
    left: Value
    panel: Value
    place: Value
    """Which product of the stack it belongs to."""
    start: Value
    """The first of its rows."""
    lower: Value
    upper: Value
    """The block of the common axis."""
    ahead: Value
    masks: Sequence[Value | None]

    @property
    def packed(self) -> bool:
        """Whether the panel is a copy."""
        return self.form.panels is not Panels.DIRECT

    @property
    def panel_step(self) -> Value:
        """Bytes from one row of the panel to the next."""
        if self.packed:
            return self.f.constant(I64, self.tile.width(self.form.element))
        return self.numbers["b_row"]

    @property
    def block(self) -> Value:
        """Where the block begins in the panel."""
        row = self.lower * self.numbers["taps"] if self.packed else self.lower
        return self.f.advanced(self.panel, row * self.panel_step)


@dataclass(frozen=True, slots=True)
class PackCode:
    """The packing of a panel while it is written."""

    f: Function
    numbers: Numbers
    function: str
    columns: Value
    width: int
    """Bytes of a row of the panel."""

    def rows(self, source: Value, count: Value, target: Value) -> None:
        """Pack some rows."""
        steps = self.numbers["b_row"], self.numbers["b_column"]
        self.f.call(self.function, VOID, source, *steps, count, target, self.columns)


class Source(ABC):
    """Where the rows of the left matrix and of the result are."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[str, ...]:
        """The numbers it must be told."""

    def declare(self, module: Module, element: Element) -> None:
        """Declare what the code of tiles refers to."""

    @abstractmethod
    def accumulate(self, code: TileCode, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of a block of the common axis added."""

    @abstractmethod
    def places(self, code: TileCode, base: Value, name: str) -> list[Value]:
        """Addresses of a tile's rows in the result ("c") or in the residual."""

    def gathered(
        self, f: Function, numbers: Numbers, left: Value, rows: tuple[Value, Value], room: Value
    ) -> Value:
        """Where rows `rows[0]` to `rows[1]` can be read: `left`, or a copy made in `room`."""
        return left

    def pack(self, code: PackCode, source: Value, target: Value) -> None:
        """Pack a panel: all of the common axis."""
        code.rows(source, code.numbers["depth"], target)


TILE_ARGUMENTS: Final = {
    "numbers": PTR,
    "left": PTR,
    "panel": PTR,
    "result": PTR,
    "bias": PTR,
    "residual": PTR,
    "place": I64,
    "start": I64,
    "lower": I64,
    "upper": I64,
    "ahead": I64,
    "before": PTR,
    "after": PTR,
    "columns": I64,
}
"""Sums come from `before` and go to `after`; where these are null they begin and end."""


def declare_tile(module: Module, name: str, form: Form, tile: Tile) -> None:
    """The function that computes a block of the common axis of one tile."""
    with module.function(name, TILE_ARGUMENTS, internal=True, attributes="noinline") as f:
        given = dict(zip(TILE_ARGUMENTS, f.arguments, strict=True))
        code = TileCode(
            f,
            form,
            tile,
            Numbers(f, form.names(), given["numbers"]),
            *[given[n] for n in ("left", "panel", "place", "start", "lower", "upper", "ahead")],
            tile.masks(f, form.element, given["columns"]),
        )
        sums = form.source.accumulate(code, _begun(code, given["before"]))

        def end() -> list[Value]:
            _ended(code, sums, given["result"], given["bias"], given["residual"])
            return []

        def keep() -> list[Value]:
            nbytes = form.element.sum_bytes
            for i, value in enumerate(sums):
                f.store(value, f.advanced(given["after"], i * nbytes), 64)
            return []

        if form.depth is Depth.WHOLE:
            end()
        else:
            f.either(given["after"].equals(f.constant(PTR, 0)), end, keep)


def _begun(code: TileCode, before: Value) -> list[Value]:
    """The sums a block begins with."""
    f, element, count = code.f, code.form.element, code.tile.rows * code.tile.vectors
    zeros = [element.zero(f)] * count

    def kept() -> list[Value]:
        places = [f.advanced(before, i * element.sum_bytes) for i in range(count)]
        return [f.load(element.vector, place, 64) for place in places]

    if code.form.depth is Depth.WHOLE:
        return zeros
    return f.either(before.equals(f.constant(PTR, 0)), lambda: zeros, kept)


def _ended(
    code: TileCode, sums: Sequence[Value], result: Value, bias: Value, residual: Value
) -> None:
    """The epilogue."""
    source, ending = code.form.source, code.form.ending
    residuals = source.places(code, residual, "residual") if ending.epilogue.residual else ()
    places = Places(source.places(code, result, "c"), bias, residuals)
    finish(code.f, code.form.element, code.tile, ending, sums, places, code.masks)
