"""The code of a product: its tiles, the packing of its panels, the gathering of its rows.

A product multiplies rows, which a `Source` finds, with a matrix of columns, and ends with an
epilogue.  Its common axis has a depth for each of some taps, the places of a window; matrices have
one tap.  The depth may be cut into blocks: in packed panels blocks follow each other, each with all
its taps.

Rows of zeros may stand for what lies outside of an input.  They add nothing to a sum, unless the
right matrix is not finite: then each row of the tile is computed again by itself, without them.

Each function is compiled for all it depends on and nothing else, so that products share them; what
a product calls is told by `FUNCTIONS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import Names, Numbers
from tawny.engine.cpu.products.blocking import STRIP_NUMBERS
from tawny.engine.cpu.products.epilogue import TileAddresses, TileEpilogue, finish
from tawny.engine.cpu.products.packing import Order, declare_pack
from tawny.engine.cpu.products.tile import FIRST_CACHE, RegisterTile, prefetch, unusual
from tawny.engine.llvm.ir.builder import I1, I64, PTR, VOID, Function, Module, Value

OPERANDS: Final = ("a", "b", "c", "residual", "bias")
"""What a product may have in memory: factors, result, and the operands of its epilogue."""

TILE_FUNCTIONS: Final = ("tall_tile", "short_tile", "finish", "pack")
FUNCTIONS: Final = ("gather", *TILE_FUNCTIONS, *[f"tail_{name}" for name in TILE_FUNCTIONS])
"""What a product may call: those for tiles as wide as whole blocks, and for those of the rest."""

NUMBERS: Final = (
    "length",
    *FUNCTIONS,
    *[f"{name}_cell" for name in (*OPERANDS, "scratch")],
    "depth",
    "taps",
    "b_start",
    "c_start",
    "b_row",
    "b_column",
    "b_depth",
    "panels",
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
    "block_bytes",
    "slots",
    "slot_bytes",
    "sums_at",
    "rows_at",
    "slices",
    "slice_a",
    "slice_b",
    "stop",
    "stack_axes",
    "stack_at",
)
"""Numbers of every product, before those of its source and its stack of products.

`length` is the number of cells of all that, `stack_at` the first of those of the stack.  A `cell`
of the row holds an address; it is -1 for what there is not.  A function is told by where it lies,
0 if there is none.  `b_depth` is how far blocks of the common axis move on in a right matrix that
is not packed; `block_bytes` is how far blocks of columns move on in all that has columns but for
packed panels; `scale_at` is how far the scale is from the bias.  The common axis may be cut into
`slices`, one of which is packed at a time: `slice_a` and `slice_b` are how far they are apart.
Where the cell at `stop` is not 0, nothing more is computed.
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
    "fetch": PTR,
    "before": PTR,
    "after": PTR,
    "column": I64,
    "columns": I64,
}

PACK_ARGUMENTS: Final = {"numbers": PTR, "source": PTR, "target": PTR, "columns": I64}
GATHER_ARGUMENTS: Final = {"numbers": PTR, "left": PTR, "first": I64, "last": I64, "room": PTR}
ALONE: Final = "alone"
ALONE_ARGUMENTS: Final = {**TILE_ARGUMENTS, "rows": I64, "room": PTR}
"""The function that computes rows of a tile one by one, and writes their sums."""

STACK_BYTES: Final = 16
"""What is aligned to more on the stack would take a register from the loops of a tile."""

FINISH_ARGUMENTS: Final = {
    "numbers": PTR,
    "sums": PTR,
    "result": PTR,
    "bias": PTR,
    "residual": PTR,
    "start": I64,
    "rows": I64,
    "columns": I64,
    "ungathered": PTR,
    "unpacked": PTR,
    "packed": PTR,
}


@dataclass(frozen=True, slots=True)
class TileCode:
    """The code of a tile while it is written."""

    f: Function
    element: Element
    epilogue: TileEpilogue
    tile: RegisterTile
    numbers: Numbers
    masks: Sequence[Value | None]
    """The mask of each vector of columns."""
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
    fetch: Value
    """Where a vector of the columns lies that are packed next; null if there is none to fetch."""
    before: Value
    after: Value
    """Where sums come from and go to; null where they begin and end.

    Where something else finishes they never end, and begin with the first slice.
    """
    column: Value
    """Bytes from the first column of all to the first of the tile."""
    columns: Value
    """How many columns it has, if some of its last vector are not used."""

    @property
    def scale(self) -> Value:
        """Where the scale is, if there is one."""
        return scale_of(self.f, self.epilogue, self.bias, self.numbers)

    def first_sums(self, further: Value | int = 0) -> list[Value]:
        """The sums a block begins with, which wait `further` bytes on."""
        f, element, count = self.f, self.element, self.tile.rows * self.tile.vectors

        def kept() -> list[Value]:
            first = f.offset(self.before, further)
            places = [f.offset(first, i * element.sum_bytes) for i in range(count)]
            return [f.load(element.vector, place, element.sum_bytes) for place in places]

        zeros = [element.zero(f)] * count
        return f.either(self.before.equals(f.constant(PTR, 0)), lambda: zeros, kept)

    def keep(self, sums: Sequence[Value], place: Value) -> None:
        """Put sums where they wait for the next block."""
        nbytes = self.element.sum_bytes
        for i, value in enumerate(sums):
            self.f.store(value, self.f.offset(place, i * nbytes), nbytes)


@dataclass(frozen=True, slots=True)
class PackCode:
    """The packing of a panel while it is written."""

    f: Function
    numbers: Numbers
    function: str
    source: Value
    target: Value
    columns: Value
    element: Element
    tile: RegisterTile
    order: Order

    @property
    def width(self) -> int:
        """Bytes of a row of the panel."""
        return self.tile.width(self.element)

    def rows(self, source: Value, count: Value, target: Value) -> None:
        """Pack some rows."""
        steps = self.numbers["b_row"], self.numbers["b_column"]
        self.f.call(self.function, VOID, source, *steps, count, target, self.columns)


@dataclass(frozen=True, slots=True)
class FinishCode:
    """The making of results from sums while it is written."""

    f: Function
    element: Element
    epilogue: TileEpilogue
    vectors: int
    """Vectors of a row of the tile."""
    numbers: Numbers
    masks: Sequence[Value | None]
    sums: Value
    result: Value
    bias: Value
    residual: Value
    start: Value
    """The first row of the tile."""
    rows: Value
    columns: Value
    ungathered: Value
    """Where the left matrix lies, from its last slice on."""
    unpacked: Value
    """Where the right matrix lies, from its last slice on, if it is packed in this run."""
    packed: Value
    """Where the panel lies, of the last slice."""

    @property
    def scale(self) -> Value:
        """Where the scale is, if there is one."""
        return scale_of(self.f, self.epilogue, self.bias, self.numbers)


def scale_of(f: Function, epilogue: TileEpilogue, bias: Value, numbers: Numbers) -> Value:
    """Where the scale is, if there is one: in the row below the bias."""
    return f.offset(bias, numbers["scale_at"]) if epilogue.parts.scaled else bias


class Rows(Protocol):
    """Rows of a tile, found in the left matrix and in the result."""

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        """The sums with the products of a block of the common axis added."""
        ...

    def places(self, base: Value, name: str) -> list[Value]:
        """Addresses of the rows in the result ("c") or in the residual."""
        ...


class RowSource(ABC):
    """The places of the rows of the left matrix and of the result."""

    @property
    def gathers(self) -> bool:
        """Whether rows are copied to scratch memory before they are used."""
        return False

    @property
    def run(self) -> int:
        """How many rows, one after another, are cut as one."""
        return 1

    @property
    def finishes(self) -> bool:
        """Whether tiles keep their sums, and `finish` makes results of them."""
        return False

    @property
    @abstractmethod
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers that its code reads."""

    @abstractmethod
    def rows(self, code: TileCode) -> Rows:
        """The rows of a tile."""

    def single_row(self, code: TileCode) -> Rows:
        """The row of a tile that has one, with nothing from outside of the input."""
        raise AssertionError(f"rows of {type(self).__name__} have nothing from outside")

    def sees_outside(self, rows: Rows) -> Value | None:
        """Whether some rows have zeros from outside of the input; None where none ever has."""
        del rows
        return None

    def tile(self, code: TileCode) -> None:
        """Compute a block of the common axis of a tile."""
        f, rows, epilogue = code.f, self.rows(code), code.epilogue
        if epilogue.parts.residual:
            self._fetch(code, rows.places(code.residual, "residual"))
        sums = self._sums(code, rows)

        def end() -> list[Value]:
            has_residual = epilogue.parts.residual
            residuals = rows.places(code.residual, "residual") if has_residual else ()
            places = TileAddresses(rows.places(code.result, "c"), code.bias, code.scale, residuals)
            finish(f, code.element, code.tile, epilogue, sums, places, code.masks)
            return []

        def keep() -> list[Value]:
            code.keep(sums, code.after)
            return []

        f.either(code.after.equals(f.constant(PTR, 0)), end, keep)

    def _sums(self, code: TileCode, rows: Rows) -> list[Value]:
        """The sums of a tile with those of a block added, none of them from outside."""
        f, element = code.f, code.element
        sums, outside = rows.accumulate(code.first_sums()), self.sees_outside(rows)
        if outside is None or not element.computed.floating:
            return sums

        def again() -> list[Value]:
            nbytes = element.sum_bytes
            room = f.stack_buffer(len(sums) * nbytes, STACK_BYTES)
            given = dict(zip(TILE_ARGUMENTS, f.arguments, strict=True)) | {"start": code.start}
            f.call(ALONE, VOID, *given.values(), f.constant(I64, code.tile.rows), room)
            places = [f.offset(room, i * nbytes) for i in range(len(sums))]
            return [f.load(element.vector, place, STACK_BYTES) for place in places]

        # What is not finite in the right matrix has been multiplied by all rows: one of them tells.
        first = sums[: code.tile.vectors]
        (differs,) = f.either(outside, lambda: [unusual(f, first)], lambda: [f.constant(I1, 0)])
        if f.module.first_time(ALONE):
            _declare_alone(f.module, self, element, code.epilogue, code.tile)
        return f.either(differs, again, lambda: sums)

    def _fetch(self, code: TileCode, places: Sequence[Value]) -> None:
        """Fetch what is read at the end of a tile while its sums are made."""
        for place in places:
            for vector in range(code.tile.vectors):
                line = code.f.offset(place, vector * code.element.vector_bytes)
                prefetch(code.f, line, FIRST_CACHE)

    def pack(self, code: PackCode) -> None:
        """Pack a panel: all of the common axis."""
        code.rows(code.source, code.numbers["depth"], code.target)

    def gather(self, f: Function, element: Element, numbers: Numbers) -> Value:
        """Copy the rows from `first` to `last`; from where they are read as if from `left`."""
        raise AssertionError(f"rows of {type(self).__name__} are read where they lie")

    def finish(self, code: FinishCode) -> None:
        """Make the results of a tile from the sums that it kept."""
        raise AssertionError(f"tiles of {type(self).__name__} give their results themselves")


def zeros(f: Function, nbytes: int) -> Value:
    """Where `nbytes` zeros are, an equal number for all functions of a module."""
    if f.module.first_time("zeros"):
        f.module.zeros("zeros", nbytes)
    return f.global_address("zeros")


# ------------------------------------------------------------------- functions


def write_tiles(
    module: Module,
    source: RowSource,
    element: Element,
    epilogue: TileEpilogue,
    tiles: tuple[RegisterTile, ...],
) -> None:
    """Write a function for each tile: it computes a block of the common axis."""
    module.finished = epilogue.is_short
    for tile in tiles:
        with module.function(tile_symbol(tile), TILE_ARGUMENTS) as f:
            given = dict(zip(TILE_ARGUMENTS, f.arguments, strict=True))
            given["start"] = given["start"] * source.run
            masks = tile.masks(f, element, given["columns"])
            numbers, all_rows = numbers_at(source, f, given.pop("numbers")), tile.rows * source.run
            whole = RegisterTile(all_rows, tile.vectors, tile.masked)
            source.tile(TileCode(f, element, epilogue, whole, numbers, masks, **given))


def _declare_alone(
    module: Module, source: RowSource, element: Element, epilogue: TileEpilogue, tile: RegisterTile
) -> None:
    """The function for rows of tiles as wide as this one."""
    with module.function(ALONE, ALONE_ARGUMENTS, internal=True, attributes="noinline") as f:
        *arguments, count, room = f.arguments
        given = dict(zip(TILE_ARGUMENTS, arguments, strict=True))
        one = RegisterTile(1, tile.vectors, tile.masked)
        masks = one.masks(f, element, given["columns"])
        numbers, start = numbers_at(source, f, given.pop("numbers")), given.pop("start")
        with f.loop(0, count) as row:
            own = {**given, "start": start + row.index}
            code = TileCode(f, element, epilogue, one, numbers, masks, **own)
            offset = row.index * (one.vectors * element.sum_bytes)
            sums = source.single_row(code).accumulate(code.first_sums(offset))
            for v, value in enumerate(sums):
                place = f.offset(room, offset + v * element.sum_bytes)
                f.store(value, place, STACK_BYTES)


def tile_symbol(tile: RegisterTile) -> str:
    """What the function of a tile is called in its module."""
    return f"tile{tile.rows}"


def write_gather(module: Module, source: RowSource, element: Element) -> None:
    """Write the function `gather`, which copies rows to where tiles read them."""
    module.finished = True
    with module.function("gather", GATHER_ARGUMENTS, PTR) as f:
        f.return_(source.gather(f, element, numbers_at(source, f, f.arguments[0])))


def write_finish(
    module: Module, source: RowSource, element: Element, epilogue: TileEpilogue, tile: RegisterTile
) -> None:
    """Write the function `finish`, which makes results from the sums of tiles of this width."""
    module.finished = epilogue.is_short
    with module.function("finish", FINISH_ARGUMENTS) as f:
        given = dict(zip(FINISH_ARGUMENTS, f.arguments, strict=True))
        masks = tile.masks(f, element, given["columns"])
        numbers = numbers_at(source, f, given.pop("numbers"))
        source.finish(FinishCode(f, element, epilogue, tile.vectors, numbers, masks, **given))


def write_pack(
    module: Module, source: RowSource, element: Element, tile: RegisterTile, order: Order
) -> None:
    """Write the function `pack`, which packs a panel for tiles of this width."""
    module.finished = True
    declare_pack(module, "pack_rows", element, tile, order)
    with module.function("pack", PACK_ARGUMENTS) as f:
        address, start, target, columns = f.arguments
        numbers = numbers_at(source, f, address)
        given = "pack_rows", start, target, columns, element, tile, order
        source.pack(PackCode(f, numbers, *given))


def names_of(source: RowSource) -> Names:
    """Names of all numbers of a product with this source."""
    return Names([*NUMBERS, *source.numbers])


def numbers_at(source: RowSource, f: Function, address: Value) -> Numbers:
    """The numbers of a source of rows, which lie at an address."""
    return Numbers(f, names_of(source), address)
