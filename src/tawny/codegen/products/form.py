"""The code of a product: its tiles, and the packing of its panels.

A product multiplies rows, which a `Source` finds, with a matrix of columns, and ends with an
epilogue.  Its common axis has a depth for each of some taps, the places of a window; matrices have
one tap.  The depth may be cut into blocks: in packed panels blocks follow each other, each with all
its taps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Protocol

from tawny.codegen.builder import I64, PTR, VOID, Function, Module, Value
from tawny.codegen.element import Element
from tawny.codegen.products.blocking import STRIP_NUMBERS
from tawny.codegen.products.epilogue import Ending, Places, finish
from tawny.codegen.products.packing import Order, declare_pack
from tawny.codegen.products.row import Names, Numbers
from tawny.codegen.products.tile import FIRST_CACHE, Tile, prefetch
from tawny.record import record

OPERANDS: Final = ("a", "b", "c", "residual", "bias")
"""What a product may have in memory: factors, result, and the operands of its epilogue."""

NUMBERS: Final = (
    "length",
    "form",
    *[f"{name}_cell" for name in (*OPERANDS, "scratch")],
    "depth",
    "taps",
    "b_start",
    "c_start",
    "b_row",
    "b_column",
    "b_depth",
    "panels",
    "pack",
    "tail_pack",
    "bias_moves",
    "scale_at",
    *STRIP_NUMBERS,
    *[f"tail_{name}" for name in STRIP_NUMBERS],
    "blocks",
    "depth_blocks",
    "chunks",
    "chunk_blocks",
    "parts",
    "chunk_tiles",
    "streamed",
    "vector_bytes",
    "slots",
    "slot_bytes",
    "sums_at",
    "rows_at",
    "stack_axes",
    "stack_at",
)
"""What every product is told, before what its source needs and its stack of products.

`length` is the number of cells of all that, `stack_at` the first of those of the stack.  A `cell`
of the row holds an address; it is -1 for what there is not.  `pack` is where a function lies.
`b_depth` is how far blocks of the common axis move on in a right matrix that is not packed;
`scale_at` is how far the scale is from the bias.
"""

TILE_ARGUMENTS: Final = {
    "numbers": PTR,
    "left": PTR,
    "panel": PTR,
    "panel_step": I64,
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
    "column": I64,
    "columns": I64,
}

PACK_ARGUMENTS: Final = {"numbers": PTR, "source": PTR, "target": PTR, "columns": I64}
GATHER_ARGUMENTS: Final = {"numbers": PTR, "left": PTR, "first": I64, "last": I64, "room": PTR}

FUNCTIONS: Final = ("tall", "short", "tail_tall", "tail_short", "gather")
"""The functions of a form, in the order of its table; null for those it does not have."""


@record(slots=True)
class Form:
    """All that the code of a product depends on; the rest are numbers it is told."""

    element: Element
    ending: Ending
    full: tuple[Tile, ...]
    """Tiles of whole blocks of columns, by height, the tallest first; none without such blocks."""
    tail: tuple[Tile, ...]
    """Tiles of the rest of the columns; none without a rest."""
    source: Source

    def names(self) -> Names:
        """The numbers it is told."""
        return Names([*NUMBERS, *self.source.numbers])


@record(slots=True)
class TileCode:
    """The code of a tile while it is written."""

    f: Function
    element: Element
    ending: Ending
    tile: Tile
    numbers: Numbers
    masks: Sequence[Value | None]
    """Of each vector of columns."""
    left: Value
    panel: Value
    """Where the block of the common axis begins in the panel."""
    panel_step: Value
    """Bytes from one row of the panel to the next."""
    result: Value
    bias: Value
    residual: Value
    place: Value
    """Which product of the stack it belongs to."""
    start: Value
    """The first of its rows."""
    lower: Value
    upper: Value
    """The block of the common axis."""
    ahead: Value
    """Bytes from an element of the panel to one that is fetched meanwhile."""
    before: Value
    after: Value
    """Where sums come from and go to; null where they begin and end."""
    column: Value
    """Bytes from the first column of all to the first of the tile."""

    @property
    def scale(self) -> Value:
        """Where the scale is, if there is one: in the row below the bias."""
        if not self.ending.epilogue.scaled:
            return self.bias
        return self.f.advanced(self.bias, self.numbers["scale_at"])

    def begun(self) -> list[Value]:
        """The sums a block begins with."""
        f, element, count = self.f, self.element, self.tile.rows * self.tile.vectors

        def kept() -> list[Value]:
            places = [f.advanced(self.before, i * element.sum_bytes) for i in range(count)]
            return [f.load(element.vector, place, element.sum_bytes) for place in places]

        zeros = [element.zero(f)] * count
        return f.either(self.before.equals(f.constant(PTR, 0)), lambda: zeros, kept)

    def keep(self, sums: Sequence[Value], place: Value) -> None:
        """Put sums where they wait for the next block."""
        nbytes = self.element.sum_bytes
        for i, value in enumerate(sums):
            self.f.store(value, self.f.advanced(place, i * nbytes), nbytes)


@record(slots=True)
class PackCode:
    """The packing of a panel while it is written."""

    f: Function
    numbers: Numbers
    function: str
    source: Value
    target: Value
    columns: Value
    element: Element
    tile: Tile
    order: Order

    @property
    def width(self) -> int:
        """Bytes of a row of the panel."""
        return self.tile.width(self.element)

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
    def gathers(self) -> bool:
        """Whether rows are copied to scratch memory before they are used."""
        return False

    @property
    @abstractmethod
    def numbers(self) -> tuple[str, ...]:
        """The numbers it must be told."""

    @abstractmethod
    def rows(self, code: TileCode) -> Rows:
        """The rows of a tile."""

    def tile(self, code: TileCode) -> None:
        """Compute a block of the common axis of a tile."""
        f, rows, ending = code.f, self.rows(code), code.ending
        if ending.epilogue.residual:
            self._fetch(code, rows.places(code.residual, "residual"))
        sums = rows.accumulate(code.begun())

        def end() -> list[Value]:
            has_residual = ending.epilogue.residual
            residuals = rows.places(code.residual, "residual") if has_residual else ()
            places = Places(rows.places(code.result, "c"), code.bias, code.scale, residuals)
            finish(f, code.element, code.tile, ending, sums, places, code.masks)
            return []

        def keep() -> list[Value]:
            code.keep(sums, code.after)
            return []

        f.either(code.after.equals(f.constant(PTR, 0)), end, keep)

    def _fetch(self, code: TileCode, places: Sequence[Value]) -> None:
        """Fetch what is read at the end of a tile while its sums are made."""
        for place in places:
            for vector in range(code.tile.vectors):
                line = code.f.advanced(place, vector * code.element.vector_bytes)
                prefetch(code.f, line, FIRST_CACHE)

    def constants(self, element: Element) -> list[str]:
        """Definitions of constants that the code of tiles refers to."""
        return []

    def pack(self, code: PackCode) -> None:
        """Pack a panel: all of the common axis."""
        code.rows(code.source, code.numbers["depth"], code.target)

    def gather(self, f: Function, element: Element, numbers: Numbers) -> Value:
        """Copy the rows from `first` to `last`; from where they are read as if from `left`."""
        raise NotImplementedError


# ------------------------------------------------------------------- functions


def declare_form(module: Module, form: Form, name: str) -> None:
    """All functions of a form, and the table of their addresses called `name`."""
    entries: dict[str, str] = dict.fromkeys(FUNCTIONS, "null")
    for prefix, tiles in (("", form.full), ("tail_", form.tail)):
        for tile in tiles:
            _declare_tile(module, f"{name}_{prefix}{tile.rows}", form, tile)
        if tiles:
            entries[f"{prefix}tall"] = f"@{name}_{prefix}{tiles[0].rows}"
            entries[f"{prefix}short"] = f"@{name}_{prefix}{tiles[-1].rows}"
    if form.source.gathers:
        entries["gather"] = f"@{name}_gather"
        with module.function(f"{name}_gather", GATHER_ARGUMENTS, PTR, internal=True) as f:
            numbers = Numbers(f, form.names(), f.arguments[0])
            f.return_(form.source.gather(f, form.element, numbers))
    items = ", ".join(f"ptr {entry}" for entry in entries.values())
    module.globals.append(f"@{name} = internal constant [{len(entries)} x ptr] [{items}], align 8")


def pack_text(source: Source, element: Element, tile: Tile, order: Order) -> str:
    """A module whose function `pack` packs a panel for tiles of this width."""
    module = Module()
    declare_pack(module, "pack_rows", element, tile, order)
    with module.function("pack", PACK_ARGUMENTS) as f:
        address, start, target, columns = f.arguments
        numbers = Numbers(f, Names([*NUMBERS, *source.numbers]), address)
        given = "pack_rows", start, target, columns, element, tile, order
        source.pack(PackCode(f, numbers, *given))
    return module.text()


def _declare_tile(module: Module, name: str, form: Form, tile: Tile) -> None:
    """The function that computes a block of the common axis of one tile."""
    with module.function(name, TILE_ARGUMENTS, internal=True) as f:
        given = dict(zip(TILE_ARGUMENTS, f.arguments, strict=True))
        masks = tile.masks(f, form.element, given.pop("columns"))
        numbers = Numbers(f, form.names(), given.pop("numbers"))
        form.source.tile(TileCode(f, form.element, form.ending, tile, numbers, masks, **given))
