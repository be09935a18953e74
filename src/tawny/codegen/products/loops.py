"""The loops of a product: tasks, chunks of tiles, blocks of columns and of the common axis.

Each worker takes some tasks: a part of the rows and a chunk of the columns of one product of the
stack.  It packs the columns where that is asked for, and computes tiles one after another.  Where
the common axis is cut into blocks, sums wait in scratch memory meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from tawny.codegen.builder import I64, PTR, VOID, Function, Module, Value
from tawny.codegen.kernel import Compiled
from tawny.codegen.library import Library, compiled
from tawny.codegen.products.blocking import CHUNK_TILES
from tawny.codegen.products.form import (
    TILE_ARGUMENTS,
    Form,
    PackCode,
    Panels,
    declare_tile,
)
from tawny.codegen.products.packing import declare_pack
from tawny.codegen.products.row import Addresses, Names, Numbers
from tawny.codegen.products.stack import Bases, bases_of, shares
from tawny.codegen.products.tile import Tile

_ARGUMENTS: Final = {"addresses": PTR, "numbers": PTR, "worker": I64, "workers": I64}

Numbered = tuple[Form, Mapping[str, int]]
"""A product: its form, and the numbers it is told."""


def kernel_of(
    products: Sequence[Numbered], operands: Sequence[str], parallel: bool, scratch: int
) -> Compiled:
    """The kernel that computes products one after another; all are told the same numbers.

    `operands` names the addresses of its row, to which scratch memory is added.
    """
    forms: dict[Form, int] = {}
    parameters = [len(products)]
    for form, numbers in products:
        parameters += [forms.setdefault(form, len(forms)), *form.names().values(numbers)]
    addresses = (*operands, "scratch") if scratch else tuple(operands)
    library = _library(tuple(forms), addresses)
    return Compiled(library, "kernel", tuple(parameters), parallel, scratch)


@lru_cache(1024)
def _library(forms: tuple[Form, ...], addresses: tuple[str, ...]) -> Library:
    module = Module()
    module.globals += forms[0].source.constants(forms[0].element)
    for number, form in enumerate(forms):
        _Product(module, form, f"product{number}", Names(addresses)).declare()
    arguments = {"row": PTR, "worker": I64, "workers": I64}
    with module.function("kernel", arguments) as f:
        row, worker, workers = f.arguments
        count = f.cell(row, len(addresses))
        first = f.element(row, len(addresses) + 1, I64)
        with f.loop(0, count, carried=[first]) as loop:
            (place,) = loop.carried
            numbers = f.element(place, 1, I64)
            which = f.cell(place, 0)
            for number in range(len(forms)):
                with f.when(which.equals(number)):
                    f.call(f"product{number}", VOID, row, numbers, worker, workers)
            loop.carry(f.element(numbers, len(forms[0].names()), I64))
    return compiled(module.text())


@dataclass(frozen=True, slots=True)
class _Strip:
    """Which tiles a strip has, what they are called, and what its numbers are called after."""

    tiles: tuple[Tile, ...]
    name: str
    prefix: str

    @property
    def tile(self) -> Tile:
        """The tallest."""
        return self.tiles[0]


@dataclass(frozen=True, slots=True)
class _Group:
    """Tiles of a strip, one below the other, and the blocks of columns they are computed for."""

    strip: _Strip
    bases: Bases
    left: Value
    origin: Value
    """The first block of the task."""
    blocks: tuple[Value, Value]
    tiles: tuple[Value, Value]


class _Product:
    """The functions of a product of one form."""

    def __init__(self, module: Module, form: Form, name: str, addresses: Names) -> None:
        self.module = module
        self.form = form
        self.name = name
        self.addresses = addresses
        self.full = _Strip(form.full, f"{name}_full", "")
        self.tail = _Strip(form.tail, f"{name}_tail", "tail_")

    def declare(self) -> None:
        """Tiles, panels, and the function that computes a worker's share."""
        form = self.form
        for strip in (self.full, self.tail):
            for tile in strip.tiles:
                declare_tile(self.module, f"{strip.name}{tile.rows}", form, tile)
            if strip.tiles and form.panels is Panels.PACKED:
                name = f"{strip.name}_pack"
                declare_pack(self.module, name, form.element, strip.tile, form.order)
        with self.module.function(self.name, _ARGUMENTS, internal=True) as f:
            _Share(self, f).write()


class _Share:
    """What one worker computes."""

    def __init__(self, product: _Product, f: Function) -> None:
        self.product = product
        self.form = product.form
        self.f = f
        addresses, numbers, self.worker, self.workers = f.arguments
        self.numbers = Numbers(f, product.form.names(), numbers)
        self.addresses = Addresses(f, product.addresses, addresses)
        self.null = f.constant(PTR, 0)
        self.slot = self.null
        if "scratch" in self.addresses:
            offset = self.worker * self.numbers["slot_bytes"]
            self.slot = f.advanced(self.addresses["scratch"], offset)

    def write(self) -> None:
        """All tasks of the worker, in order."""
        f, n = self.f, self.numbers
        tasks = n["chunks"] * n["parts"]
        for axis in range(self.form.stack):
            tasks = tasks * n[f"stack{axis}"]
        active = f.minimum(self.workers, n["slots"])
        first, last = shares(f, tasks, self.worker, active)
        with f.loop(first, last, carried=[f.constant(I64, -1)]) as task:
            part, columns = task.index % n["parts"], task.index // n["parts"]
            chunk, place = columns % n["chunks"], columns // n["chunks"]
            bases = self._moved(bases_of(f, self.addresses, n, self.form.stack, place))
            if self.form.panels is Panels.PACKED:
                with f.when(columns.differs(task.carried[0])):
                    self._pack(bases, chunk)
            self._columns(bases, chunk, part)
            task.carry(columns)

    def _moved(self, bases: Bases) -> Bases:
        """From the start of the arrays to where this product begins in them."""
        f, n = self.f, self.numbers
        return replace(
            bases,
            right=f.advanced(bases.right, n["b_start"]),
            result=f.advanced(bases.result, n["c_start"]),
        )

    # ------------------------------------------------------------------- columns

    def _chunk(self, chunk: Value) -> tuple[Value, Value, Value]:
        """The blocks of a chunk, from and to, and whether it has the rest of the columns."""
        first = chunk * self.numbers["chunk_blocks"]
        last = self.f.minimum(first + self.numbers["chunk_blocks"], self.numbers["blocks"])
        return first, last, (chunk + 1).equals(self.numbers["chunks"])

    @property
    def _block_width(self) -> int:
        """Bytes of a row of a whole block."""
        return self.product.full.tile.width(self.form.element) if self.form.full else 0

    def _panel_bytes(self) -> Value:
        """Bytes of a packed panel of a whole block."""
        length = self.numbers["depth"] * self.numbers["taps"]
        return length * self._block_width

    def _pack(self, bases: Bases, chunk: Value) -> None:
        """Pack the columns of a chunk."""
        f = self.f
        first, last, ends = self._chunk(chunk)
        if self.form.full:
            with f.loop(first, last) as block:
                target = f.advanced(self.slot, (block.index - first) * self._panel_bytes())
                self._pack_panel(self.product.full, bases.right, block.index, target)
        if self.form.tail:
            with f.when(ends):
                target = f.advanced(self.slot, (last - first) * self._panel_bytes())
                self._pack_panel(self.product.tail, bases.right, self.numbers["blocks"], target)

    def _pack_panel(self, strip: _Strip, right: Value, block: Value, target: Value) -> None:
        f, element = self.f, self.form.element
        column = block * (self._block_width // element.nbytes)
        source = f.advanced(right, column * self.numbers["b_column"])
        width = strip.tile.width(element)
        columns = self._strip_columns(strip)
        code = PackCode(f, self.numbers, f"{strip.name}_pack", columns, width)
        self.form.source.pack(code, source, target)

    def _strip_columns(self, strip: _Strip) -> Value:
        """How many columns a panel of the strip has."""
        if strip.prefix:
            return self.numbers["rest"]
        return self.f.constant(I64, strip.tile.vectors * self.form.element.lanes)

    def _panel(self, right: Value, block: Value, origin: Value) -> Value:
        """Where the panel of a block is; `origin` is the first block that was packed."""
        f = self.f
        match self.form.panels:
            case Panels.DIRECT:
                return f.advanced(right, block * self._block_width)
            case Panels.PACKED:
                return f.advanced(self.slot, (block - origin) * self._panel_bytes())
            case Panels.PREPARED:
                return f.advanced(right, block * self._panel_bytes())

    def _columns(self, bases: Bases, chunk: Value, part: Value) -> None:
        """The tiles of a task."""
        first, last, ends = self._chunk(chunk)
        if self.form.full:
            self._rows(self.product.full, bases, part, first, (first, last))
        if self.form.tail:
            blocks = self.numbers["blocks"]
            with self.f.when(ends):
                self._rows(self.product.tail, bases, part, first, (blocks, blocks + 1))

    # ---------------------------------------------------------------------- rows

    def _start(self, strip: _Strip, tile: Value) -> Value:
        """The first row of a tile."""
        short = self.f.maximum(tile - self.numbers[f"{strip.prefix}tall"], 0)
        return tile * strip.tile.rows - short

    def _rows(
        self,
        strip: _Strip,
        bases: Bases,
        part: Value,
        origin: Value,
        blocks: tuple[Value, Value],
    ) -> None:
        """A part of a strip's rows: chunks of tiles, and for each the blocks of columns."""
        f, n = self.f, self.numbers
        tiles, parts = n[f"{strip.prefix}tiles"], n["parts"]
        begin, end = tiles * part // parts, tiles * (part + 1) // parts
        with f.loop(begin, end, CHUNK_TILES) as chunk:
            to = f.minimum(chunk.index + CHUNK_TILES, end)
            rows = self._start(strip, chunk.index), self._start(strip, to)
            room = f.advanced(self.slot, n["rows_at"])
            left = self.form.source.gathered(f, n, bases.left, rows, room)
            self._blocks(_Group(strip, bases, left, origin, blocks, (chunk.index, to)))

    def _blocks(self, group: _Group) -> None:
        """Blocks of columns and of the common axis, in the form's order."""
        f, depths = self.f, self.numbers["depth_blocks"]
        first, last = group.blocks
        if self.form.streamed:
            with f.loop(0, depths) as depth, f.loop(first, last) as block:
                self._tiles(group, block.index, depth.index)
        else:
            with f.loop(first, last) as block, f.loop(0, depths) as depth:
                self._tiles(group, block.index, depth.index)

    def _tiles(self, group: _Group, block: Value, depth: Value) -> None:
        """Tiles one below the other, with a block of columns and one of the common axis."""
        f, n, strip, bases = self.f, self.numbers, group.strip, group.bases
        column = block * self._block_width
        given = {
            "numbers": n.address,
            "left": group.left,
            "panel": self._panel(bases.right, block, group.origin),
            "result": f.advanced(bases.result, column),
            "bias": bases.bias
            if self.form.ending.constant_bias
            else f.advanced(bases.bias, column),
            "residual": f.advanced(bases.residual, column),
            "place": bases.place,
            "lower": depth * n["depth"] // n["depth_blocks"],
            "upper": (depth + 1) * n["depth"] // n["depth_blocks"],
            "columns": self._strip_columns(strip),
        }
        first, last = group.tiles
        ahead = self._ahead(strip, given["lower"], given["upper"])
        begins, ends = depth.equals(0), (depth + 1).equals(n["depth_blocks"])
        with f.loop(first, last) as tile:
            given["start"] = self._start(strip, tile.index)
            number = tile.index - first
            given["ahead"] = f.select(
                number < strip.tile.vectors, ahead + number * self.form.element.vector_bytes, 0
            )
            sums = self._sums(group, block, tile.index)
            given["before"] = f.select(begins, self.null, sums)
            given["after"] = f.select(ends, self.null, sums)
            self._call(strip, tile.index, [given[name] for name in TILE_ARGUMENTS])

    def _ahead(self, strip: _Strip, lower: Value, upper: Value) -> Value:
        """Bytes from where a panel is read to where the next one will be."""
        f, n = self.f, self.numbers
        width = f.constant(I64, strip.tile.width(self.form.element))
        if self.form.panels is not Panels.DIRECT:
            return (upper - lower) * n["taps"] * width
        if self.form.streamed:
            return width
        ends = upper.equals(n["depth"])
        return f.select(ends, width - lower * n["b_row"], (upper - lower) * n["b_row"])

    def _sums(self, group: _Group, block: Value, tile: Value) -> Value:
        """Where the sums of a tile wait."""
        f, (first, last) = self.f, group.tiles
        place = tile - first
        if self.form.streamed:
            place = (block - group.blocks[0]) * (last - first) + place
        shape = group.strip.tile
        step = shape.rows * shape.vectors * self.form.element.sum_bytes
        return f.advanced(self.slot, self.numbers["sums_at"] + place * step)

    def _call(self, strip: _Strip, tile: Value, arguments: Sequence[Value]) -> None:
        """Compute a tile of the height that it has."""
        f = self.f
        tall, *short = [f"{strip.name}{t.rows}" for t in strip.tiles]
        if not short:
            f.call(tall, VOID, *arguments)
            return
        is_tall = tile < self.numbers[f"{strip.prefix}tall"]
        with f.when(is_tall):
            f.call(tall, VOID, *arguments)
        with f.when(~is_tall):
            f.call(short[0], VOID, *arguments)
