"""The loops of products: tasks, chunks of tiles, blocks of columns and of the common axis.

Each worker takes some tasks: a part of the rows and a chunk of the columns of one product of the
stack.  It packs the columns where that is asked for, and computes tiles one after another.  Where
the common axis is cut into blocks, sums wait in scratch memory meanwhile.

The loops are compiled once: forms bring tables of functions, products the numbers of `NUMBERS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tawny.codegen.builder import I64, PTR, VOID, Function, Module, Value
from tawny.codegen.library import provide
from tawny.codegen.products.form import FUNCTIONS, NUMBERS, TILE_ARGUMENTS
from tawny.codegen.products.row import Names, Numbers
from tawny.codegen.products.stack import offsets_of, shares, stack_size
from tawny.record import record

LIBRARY: Final = "products"
_ARGUMENTS: Final = {
    "row": PTR,
    "numbers": PTR,
    "forms": PTR,
    "worker": I64,
    "workers": I64,
}
_SHARE: Final = {**_ARGUMENTS, "functions": PTR}


def call_products(f: Function, *arguments: Value) -> None:
    """Compute a worker's share of products, given row, numbers, forms, worker and workers.

    The numbers begin with the count of products; `forms` are the tables of functions.
    """
    f.module.require(LIBRARY)
    f.module.declare(LIBRARY, VOID, list(_ARGUMENTS.values()))
    f.call(LIBRARY, VOID, *arguments)


def _text() -> str:
    module = Module()
    with module.function("share", _SHARE, internal=True, attributes="noinline") as f:
        _Share(f).write()
    with module.function(LIBRARY, _ARGUMENTS) as f:
        row, numbers, forms, worker, workers = f.arguments
        count, first = f.cell(numbers, 0), f.element(numbers, 1, I64)
        with f.loop(0, count, carried=[first]) as loop:
            (own,) = loop.carried
            told = Numbers(f, Names(NUMBERS), own)
            functions = f.load(PTR, f.element(forms, told["form"], I64), 8)
            f.call("share", VOID, row, own, forms, worker, workers, functions)
            loop.carry(f.element(own, told["length"], I64))
    return module.text()


provide(LIBRARY, _text)


@record(slots=True)
class _Bases:
    """Addresses of one product of the stack."""

    place: Value
    left: Value
    right: Value
    result: Value
    residual: Value
    bias: Value


@record(slots=True)
class _Group:
    """Tiles of a strip, one below the other, and the blocks of columns they are computed for."""

    prefix: str
    bases: _Bases
    left: Value
    origin: Value
    """The first block of the task."""
    blocks: tuple[Value, Value]
    tiles: tuple[Value, Value]


class _Share:
    """What one worker computes of one product; names of a strip's numbers have its prefix."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.row, numbers, _, self.worker, self.workers, self.functions = f.arguments
        self.numbers = Numbers(f, Names(NUMBERS), numbers)
        self.null = f.constant(PTR, 0)
        offset = self.worker * self.numbers["slot_bytes"]
        self.slot = f.advanced(self._address("scratch"), offset)
        self.panel_bytes = self._length() * self.numbers["width"]
        self.is_direct = self.numbers["panels"].equals(0)
        self.is_packed = self.numbers["panels"].equals(1)

    def _length(self) -> Value:
        """How long the common axis is, with all taps."""
        return self.numbers["depth"] * self.numbers["taps"]

    def _address(self, name: str) -> Value:
        """What the row has; null for what there is not."""
        f, cell = self.f, self.numbers[f"{name}_cell"]
        place = f.element(self.row, f.maximum(cell, 0), I64)
        return f.select(cell < 0, self.null, f.load(PTR, place, 8))

    def _function(self, name: str) -> Value:
        """Where one of the form's functions is."""
        place = self.f.element(self.functions, FUNCTIONS.index(name), I64)
        return self.f.load(PTR, place, 8)

    def _call(self, function: Value, arguments: Sequence[Value]) -> None:
        """Call a function that is found at run time."""
        self.f.effect(f"call void {function.text}({', '.join(map(repr, arguments))})")

    def write(self) -> None:
        """All tasks of the worker, in order."""
        f, n = self.f, self.numbers
        stack, axes = f.element(n.address, n["stack_at"], I64), n["stack_axes"]
        tasks = n["chunks"] * n["parts"] * stack_size(f, stack, axes)
        first, last = shares(f, tasks, self.worker, f.minimum(self.workers, n["slots"]))
        with f.loop(first, last, carried=[f.constant(I64, -1)]) as task:
            part, columns = task.index % n["parts"], task.index // n["parts"]
            chunk, place = columns % n["chunks"], columns // n["chunks"]
            at = offsets_of(f, stack, axes, place)
            bases = _Bases(
                place,
                f.advanced(self._address("a"), at.a),
                f.advanced(self._address("b"), at.b + n["b_start"]),
                f.advanced(self._address("c"), at.c + n["c_start"]),
                f.advanced(self._address("residual"), at.residual),
                f.advanced(self._address("bias"), at.bias),
            )
            with f.when(self.is_packed & columns.differs(task.carried[0])):
                self._pack(bases, chunk)
            self._columns(bases, chunk, part)
            task.carry(columns)

    # ------------------------------------------------------------------- columns

    def _chunk(self, chunk: Value) -> tuple[Value, Value, Value]:
        """The blocks of a chunk, from and to, and whether it has the rest of the columns."""
        f, n = self.f, self.numbers
        first = chunk * n["chunk_blocks"]
        last = f.minimum(first + n["chunk_blocks"], n["blocks"])
        ends = (chunk + 1).equals(n["chunks"]) & n["tail_columns"].differs(0)
        return first, last, ends

    def _pack(self, bases: _Bases, chunk: Value) -> None:
        """Pack the columns of a chunk."""
        f = self.f
        first, last, ends = self._chunk(chunk)
        with f.loop(first, last) as block:
            self._pack_panel("", bases, block.index, first)
        with f.when(ends):
            self._pack_panel("tail_", bases, self.numbers["blocks"], first)

    def _pack_panel(self, prefix: str, bases: _Bases, block: Value, origin: Value) -> None:
        f, n = self.f, self.numbers
        source = f.advanced(bases.right, block * n["columns"] * n["b_column"])
        arguments = n.address, source, self._panel(bases, block, origin), n[f"{prefix}columns"]
        pack = f.emit(PTR, f"inttoptr {n[f'{prefix}pack']} to ptr")
        self._call(pack, arguments)

    def _panel(self, bases: _Bases, block: Value, origin: Value) -> Value:
        """Where the panel of a block is; `origin` is the first block that was packed."""
        f = self.f
        step = f.select(self.is_direct, self.numbers["width"], self.panel_bytes)
        number = f.select(self.is_packed, block - origin, block)
        return f.advanced(f.select(self.is_packed, self.slot, bases.right), number * step)

    def _columns(self, bases: _Bases, chunk: Value, part: Value) -> None:
        """The tiles of a task."""
        first, last, ends = self._chunk(chunk)
        self._rows("", bases, part, first, (first, last))
        blocks = self.numbers["blocks"]
        with self.f.when(ends):
            self._rows("tail_", bases, part, first, (blocks, blocks + 1))

    # ---------------------------------------------------------------------- rows

    def _start(self, prefix: str, tile: Value) -> Value:
        """The first row of a tile."""
        n = self.numbers
        return tile * n[f"{prefix}height"] - self.f.maximum(tile - n[f"{prefix}tall"], 0)

    def _rows(
        self,
        prefix: str,
        bases: _Bases,
        part: Value,
        origin: Value,
        blocks: tuple[Value, Value],
    ) -> None:
        """A part of a strip's rows: chunks of tiles, and for each the blocks of columns."""
        f, n = self.f, self.numbers
        tiles, parts = n[f"{prefix}tiles"], n["parts"]
        begin, end = tiles * part // parts, tiles * (part + 1) // parts
        with f.loop(begin, end, n["chunk_tiles"]) as chunk:
            to = f.minimum(chunk.index + n["chunk_tiles"], end)
            left = self._gathered(prefix, bases, chunk.index, to)
            self._blocks(_Group(prefix, bases, left, origin, blocks, (chunk.index, to)))

    def _gathered(self, prefix: str, bases: _Bases, first: Value, last: Value) -> Value:
        """Where the rows of some tiles are read: where they lie, or a copy."""
        f, n = self.f, self.numbers
        gather = self._function("gather")

        def copied() -> list[Value]:
            rows = self._start(prefix, first), self._start(prefix, last)
            room = f.advanced(self.slot, n["rows_at"])
            given = ", ".join(map(repr, (n.address, bases.left, *rows, room)))
            return [f.emit(PTR, f"call ptr {gather.text}({given})")]

        return f.either(gather.differs(self.null), copied, lambda: [bases.left])[0]

    def _blocks(self, group: _Group) -> None:
        """Blocks of columns and of the common axis: those of one inside of those of the other."""
        f, n = self.f, self.numbers
        first, last = group.blocks
        depths, count = n["depth_blocks"], last - first
        streamed = n["streamed"].differs(0)
        with f.loop(0, f.maximum(count, 0) * depths) as loop:
            inner = f.select(streamed, count, depths)
            fast, slow = loop.index % inner, loop.index // inner
            block, depth = f.select(streamed, fast, slow), f.select(streamed, slow, fast)
            self._tiles(group, first + block, depth)

    def _tiles(self, group: _Group, block: Value, depth: Value) -> None:
        """Tiles one below the other, with a block of columns and one of the common axis."""
        f, n, prefix, bases = self.f, self.numbers, group.prefix, group.bases
        column = block * n["width"]
        lower = depth * n["depth"] // n["depth_blocks"]
        upper = (depth + 1) * n["depth"] // n["depth_blocks"]
        step = f.select(self.is_direct, n["b_row"], n[f"{prefix}width"])
        begin = f.select(self.is_direct, lower * n["b_depth"], lower * n["taps"] * step)
        given = {
            "numbers": n.address,
            "left": group.left,
            "panel": f.advanced(self._panel(bases, block, group.origin), begin),
            "panel_step": step,
            "result": f.advanced(bases.result, column),
            "bias": f.advanced(bases.bias, column * n["bias_moves"]),
            "residual": f.advanced(bases.residual, column),
            "place": bases.place,
            "lower": lower,
            "upper": upper,
            "column": column,
            "columns": n[f"{prefix}columns"],
        }
        ahead = self._ahead(prefix, lower, upper)
        begins, ends = depth.equals(0), (depth + 1).equals(n["depth_blocks"])
        first, last = group.tiles
        with f.loop(first, last) as tile:
            number = tile.index - first
            sums = self._sums(group, block, number)
            given["start"] = self._start(prefix, tile.index)
            given["before"] = f.select(begins, self.null, sums)
            given["after"] = f.select(ends, self.null, sums)
            given["ahead"] = f.select(
                number < n[f"{prefix}vectors"], ahead + number * n["vector_bytes"], 0
            )
            self._tile(prefix, tile.index, given)

    def _ahead(self, prefix: str, lower: Value, upper: Value) -> Value:
        """Bytes from where a panel is read to where the next one will be."""
        f, n = self.f, self.numbers
        width, count = n[f"{prefix}width"], upper - lower
        following = f.select(
            upper.equals(n["depth"]), width - lower * n["b_row"], count * n["b_row"]
        )
        direct = f.select(n["streamed"].differs(0), width, following)
        return f.select(self.is_direct, direct, count * n["taps"] * width)

    def _sums(self, group: _Group, block: Value, tile: Value) -> Value:
        """Where the sums of a tile wait."""
        f, n, (first, last) = self.f, self.numbers, group.tiles
        other = (block - group.blocks[0]) * (last - first)
        place = f.select(n["streamed"].differs(0), other + tile, tile)
        return f.advanced(self.slot, n["sums_at"] + place * n[f"{group.prefix}sums"])

    def _tile(self, prefix: str, tile: Value, given: Mapping[str, Value]) -> None:
        """Compute a tile of the height that it has."""
        is_tall = tile < self.numbers[f"{prefix}tall"]
        tall, short = self._function(f"{prefix}tall"), self._function(f"{prefix}short")
        self._call(self.f.select(is_tall, tall, short), [given[name] for name in TILE_ARGUMENTS])
