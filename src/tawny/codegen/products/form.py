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
from typing import Final, Protocol

from tawny.codegen.builder import I64, PTR, VOID, Function, Module, Value
from tawny.codegen.element import Element
from tawny.codegen.products.blocking import NUMBERS, Blocking
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
    streamed: bool
    """Whether blocks of the common axis are multiplied with all panels, one block after another."""
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
        return Form(element, ending, full, tail, panels, order, stack, cut.streamed, source)

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
    """Bytes from an element of the panel to one that is fetched meanwhile."""
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


class Rows(Protocol):
    """Rows of a tile, found in the left matrix and in the result."""

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of a block of the common axis added."""
        ...

    def places(self, base: Value, name: str) -> list[Value]:
        """Addresses of the rows in the result ("c") or in the residual."""
        ...


class Source(ABC):
    """Where the rows of the left matrix and of the result are."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[str, ...]:
        """The numbers it must be told."""

    def constants(self, element: Element) -> list[str]:
        """Definitions of constants that the code of tiles refers to."""
        return []

    @abstractmethod
    def rows(self, code: TileCode) -> Rows:
        """The rows of a tile."""

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
            left=given["left"],
            panel=given["panel"],
            place=given["place"],
            start=given["start"],
            lower=given["lower"],
            upper=given["upper"],
            ahead=given["ahead"],
            masks=tile.masks(f, form.element, given["columns"]),
        )
        rows = form.source.rows(code)
        sums = rows.accumulate(_begun(code, given["before"]))

        def end() -> list[Value]:
            epilogue = form.ending.epilogue
            residuals = rows.places(given["residual"], "residual") if epilogue.residual else ()
            places = Places(rows.places(given["result"], "c"), given["bias"], residuals)
            finish(f, form.element, tile, form.ending, sums, places, code.masks)
            return []

        def keep() -> list[Value]:
            nbytes = form.element.sum_bytes
            for i, value in enumerate(sums):
                f.store(value, f.advanced(given["after"], i * nbytes), 64)
            return []

        f.either(given["after"].equals(f.constant(PTR, 0)), end, keep)


def _begun(code: TileCode, before: Value) -> list[Value]:
    """The sums a block begins with."""
    f, element, count = code.f, code.form.element, code.tile.rows * code.tile.vectors
    zeros = [element.zero(f)] * count

    def kept() -> list[Value]:
        places = [f.advanced(before, i * element.sum_bytes) for i in range(count)]
        return [f.load(element.vector, place, 64) for place in places]

    return f.either(before.equals(f.constant(PTR, 0)), lambda: zeros, kept)
