"""The loops of products: tasks, chunks of tiles, blocks of columns and of the common axis.

Each worker takes some tasks: a part of the rows and a chunk of the columns of one product of the
stack.  It packs the columns where that is asked for, and computes tiles one after another.  Where
the common axis is cut into blocks, sums wait in scratch memory meanwhile.  Where it is cut into
slices, columns are packed and multiplied for one after another.

The loops are compiled once: products bring the numbers of `NUMBERS`, functions among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tawny.engine.cpu.kernels.kernel import KERNEL, Names, Numbers
from tawny.engine.cpu.products.blocking import STRIP_NUMBERS
from tawny.engine.cpu.products.sharing import offsets_of, shares, stack_size
from tawny.engine.cpu.products.tile_code import (
    FINISH_ARGUMENTS,
    NUMBERS,
    OPERANDS,
    TILE_ARGUMENTS,
    TILE_FUNCTIONS,
)
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library

_SHARE: Final = {"row": PTR, "numbers": PTR, "worker": I64, "workers": I64}

FEWEST_ADDRESSES: Final = 3
MOST_ADDRESSES: Final = len(OPERANDS) + 1
"""How many addresses a row begins with: factors and result, what an epilogue reads, scratch.

What is used up by other code may need more.
"""


def kernel_symbol(addresses: int) -> str:
    """The name of the kernel whose row begins with a number of addresses."""
    return f"kernel{addresses}"


@lazy_library
def products_library(module: Module, most: int) -> None:
    """Kernels that compute a worker's share of some products, one after another.

    After the addresses, which are `most` at most, their rows have the count of products and the
    numbers of each.
    """
    module.finished = True
    with module.function("share", _SHARE, internal=True, attributes="noinline") as f:
        _ShareWriter(f).write()
    with module.function("products", _SHARE, internal=True, attributes="noinline") as f:
        row, numbers, worker, workers = f.arguments
        count, first = f.cell(numbers, 0), f.element(numbers, 1, I64)
        with f.loop(0, count, carried=[first]) as loop:
            (own,) = loop.carried
            f.call("share", VOID, row, own, worker, workers)
            loop.carry(f.element(own, Numbers(f, Names(NUMBERS), own)["length"], I64))
    for addresses in range(FEWEST_ADDRESSES, most + 1):
        with module.function(kernel_symbol(addresses), KERNEL) as f:
            row, worker, workers = f.arguments
            f.call("products", VOID, row, f.element(row, addresses, I64), worker, workers)


@dataclass(frozen=True, slots=True)
class _Bases:
    """Addresses of one product of the stack."""

    place: Value
    left: Value
    right: Value
    result: Value
    residual: Value
    bias: Value
    begins: Value
    """Whether the slice of the common axis is the first."""
    ends: Value
    """Whether the slice of the common axis is the last."""
    packs: Value
    """Whether the worker packs what comes next of the right matrix: the next slice or chunk."""
    following: Value
    """Where the right matrix begins in the next slice or chunk."""
    later: Value
    """By how many blocks of columns the next chunk is further on."""


@dataclass(frozen=True, slots=True)
class _StripNumbers:
    """The strip of whole blocks, which is number 0, or that of the rest, number 1."""

    number: Value
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class _TileBlock:
    """Tiles of a strip, one below the other, and the blocks of columns they are computed for."""

    strip: _StripNumbers
    bases: _Bases
    left: Value
    origin: Value
    """The first block of the task."""
    blocks: tuple[Value, Value]
    tiles: tuple[Value, Value]
    begins: Value
    """Whether they are the first tiles of the task."""


class _ShareWriter:
    """Writes the kernel that computes one worker's share of one product."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.row, numbers, self.worker, self.workers = f.arguments
        self.numbers = Numbers(f, Names(NUMBERS), numbers)
        self.null = f.constant(PTR, 0)
        offset = self.worker * self.numbers["slot_bytes"]
        self.slot = f.offset(self._address("scratch"), offset)
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

    def _strip(self, number: Value) -> _StripNumbers:
        """A strip and its numbers."""
        f, names = self.f, Names(STRIP_NUMBERS)
        first = self.numbers.names[STRIP_NUMBERS[0]]
        address = f.element(self.numbers.address, number * len(names) + first, I64)
        return _StripNumbers(number, Numbers(f, names, address))

    def _function(self, name: str, strip: Value) -> Value:
        """Where one of a strip's functions is; null if there is none."""
        f, n = self.f, self.numbers
        place = strip * len(TILE_FUNCTIONS) + n.names[name]
        return f.load(PTR, f.element(n.address, place, I64), 8)

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
            last_part = (part + 1).equals(n["parts"])
            more = (task.index + 1 < last) & (chunk + 1 < n["chunks"])
            right = f.offset(self._address("b"), at.b + n["b_start"])
            with f.loop(0, n["slices"]) as slice_:
                own = f.offset(right, slice_.index * n["slice_b"])
                ends = (slice_.index + 1).equals(n["slices"])
                bases = _Bases(
                    place,
                    f.offset(self._address("a"), at.a + slice_.index * n["slice_a"]),
                    own,
                    f.offset(self._address("c"), at.c + n["c_start"]),
                    f.offset(self._address("residual"), at.residual),
                    f.offset(self._address("bias"), at.bias),
                    slice_.index.equals(0),
                    ends,
                    self.is_packed & ((slice_.index + 1 < n["slices"]) | (last_part & more)),
                    f.select(ends, right, f.offset(own, n["slice_b"])),
                    f.select(ends, n["chunk_blocks"], 0),
                )
                is_new = columns.differs(task.carried[0]) | (n["slices"] > 1)
                with f.when(self.is_packed & is_new):
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
        f, n = self.f, self.numbers
        first, last, ends = self._chunk(chunk)
        with f.loop(first, last + f.convert("zext", ends, I64)) as block:
            strip = self._strip(f.convert("zext", block.index.equals(n["blocks"]), I64))
            source = f.offset(bases.right, block.index * n["columns"] * n["b_column"])
            panel = self._panel(bases, block.index, first)
            arguments = n.address, source, panel, strip.numbers["columns"]
            self.f.call_address(self._function("pack", strip.number), *arguments)

    def _panel(self, bases: _Bases, block: Value, origin: Value) -> Value:
        """Where the panel of a block is; `origin` is the first block that was packed."""
        f = self.f
        step = f.select(self.is_direct, self.numbers["block_bytes"], self.panel_bytes)
        number = f.select(self.is_packed, block - origin, block)
        return f.offset(f.select(self.is_packed, self.slot, bases.right), number * step)

    def _columns(self, bases: _Bases, chunk: Value, part: Value) -> None:
        """The tiles of a task: those of whole blocks, then those of the rest."""
        f, n = self.f, self.numbers
        first, last, ends = self._chunk(chunk)
        with f.loop(0, f.select(ends, f.constant(I64, 2), 1)) as strip:
            is_rest = strip.index.differs(0)
            blocks = f.select(is_rest, n["blocks"], first), f.select(is_rest, n["blocks"] + 1, last)
            self._rows(self._strip(strip.index), bases, part, first, blocks)

    # ---------------------------------------------------------------------- rows

    def _start(self, strip: _StripNumbers, tile: Value) -> Value:
        """The first row of a tile."""
        return tile * strip.numbers["height"] - self.f.maximum(tile - strip.numbers["tall"], 0)

    def _rows(
        self,
        strip: _StripNumbers,
        bases: _Bases,
        part: Value,
        origin: Value,
        blocks: tuple[Value, Value],
    ) -> None:
        """A part of a strip's rows: chunks of tiles, and for each the blocks of columns."""
        f, n = self.f, self.numbers
        tiles, parts = strip.numbers["tiles"], n["parts"]
        begin, end = tiles * part // parts, tiles * (part + 1) // parts
        with f.loop(begin, end, n["chunk_tiles"]) as chunk:
            to = f.minimum(chunk.index + n["chunk_tiles"], end)
            left = self._gather_rows(strip, bases, chunk.index, to)
            some, begins = (chunk.index, to), chunk.index.equals(begin)
            self._blocks(_TileBlock(strip, bases, left, origin, blocks, some, begins))

    def _gather_rows(self, strip: _StripNumbers, bases: _Bases, first: Value, last: Value) -> Value:
        """Where the rows of some tiles are read: where they lie, or a copy."""
        f, n = self.f, self.numbers
        gather = self._function("gather", f.constant(I64, 0))

        def copied() -> list[Value]:
            rows = self._start(strip, first), self._start(strip, last)
            room = f.offset(self.slot, n["rows_at"])
            return [f.call_address(gather, n.address, bases.left, *rows, room, returns=PTR)]

        return f.either(gather.differs(self.null), copied, lambda: [bases.left])[0]

    def _blocks(self, group: _TileBlock) -> None:
        """Blocks of columns and of the common axis: those of one inside of those of the other."""
        f, n = self.f, self.numbers
        first, last = group.blocks
        depths, count = n["depth_blocks"], last - first
        streamed = n["streamed"].differs(0)
        with f.loop(0, f.maximum(count, 0) * depths) as loop:
            inner = f.select(streamed, count, depths)
            fast, slow = loop.index % inner, loop.index // inner
            block, depth = f.select(streamed, fast, slow), f.select(streamed, slow, fast)
            with f.when(self._goes_on()):
                self._tiles(group, first + block, depth)

    def _goes_on(self) -> Value:
        """Whether nobody asked the product to stop."""
        f = self.f
        stop = f.cell(self.numbers.address, self.numbers.names["stop"], PTR)
        return f.load_atomic(I64, stop, "monotonic").equals(0)

    def _tiles(self, group: _TileBlock, block: Value, depth: Value) -> None:
        """Tiles one below the other, with a block of columns and one of the common axis."""
        f, n, strip, bases = self.f, self.numbers, group.strip, group.bases
        panel = self._panel(bases, block, group.origin)
        given = self._arguments(group, block, depth, panel)
        lie = {
            "ungathered": bases.left,
            "unpacked": f.offset(bases.right, block * n["columns"] * n["b_column"]),
            "packed": panel,
        }
        ahead = self._bytes_to_next_panel(strip, given["lower"], given["upper"])
        later = block + bases.later
        fetches = bases.packs & group.begins & (later < n["blocks"])
        following = f.offset(bases.following, later * n["columns"] * n["b_column"])
        first, last = group.tiles
        tall, short, finish = (
            self._function(name, strip.number) for name in ("tall_tile", "short_tile", "finish")
        )
        finishes, at_end = finish.differs(self.null), (depth + 1).equals(n["depth_blocks"])
        begins = f.select(finishes, bases.begins, depth.equals(0))
        with f.loop(first, last) as tile:
            number = tile.index - first
            sums = self._sums(group, block, number)
            given["start"] = self._start(strip, tile.index)
            given["before"] = f.select(begins, self.null, sums)
            given["after"] = f.select(at_end & finish.equals(self.null), self.null, sums)
            vector, exists = number * n["vector_bytes"], number < strip.numbers["vectors"]
            given["ahead"] = f.select(exists, ahead + vector, 0)
            given["fetch"] = f.select(fetches & exists, f.offset(following, vector), self.null)
            own = f.select(tile.index < strip.numbers["tall"], tall, short)
            self.f.call_address(own, *[given[name] for name in TILE_ARGUMENTS])
            with f.when(finishes & at_end & bases.ends):
                rows = self._start(strip, tile.index + 1) - given["start"]
                numbers = {**given, **lie, "sums": sums, "rows": rows}
                self.f.call_address(finish, *[numbers[name] for name in FINISH_ARGUMENTS])

    def _arguments(
        self, group: _TileBlock, block: Value, depth: Value, panel: Value
    ) -> dict[str, Value]:
        """The arguments that the tiles of a block of columns and one of the common axis share."""
        f, n, strip, bases = self.f, self.numbers, group.strip, group.bases
        column = block * n["block_bytes"]
        lower = depth * n["depth"] // n["depth_blocks"]
        upper = (depth + 1) * n["depth"] // n["depth_blocks"]
        step = f.select(self.is_direct, n["b_row"], strip.numbers["width"])
        begin = f.select(self.is_direct, lower * n["b_depth"], lower * n["taps"] * step)
        return {
            "numbers": n.address,
            "left": group.left,
            "panel": f.offset(panel, begin),
            "panel_step": step,
            "result": f.offset(bases.result, column),
            "bias": f.offset(bases.bias, column * n["bias_moves"]),
            "residual": f.offset(bases.residual, column),
            "place": bases.place,
            "lower": lower,
            "upper": upper,
            "column": column,
            "columns": strip.numbers["columns"],
        }

    def _bytes_to_next_panel(self, strip: _StripNumbers, lower: Value, upper: Value) -> Value:
        """Bytes from where a panel is read to where the next one will be."""
        f, n = self.f, self.numbers
        width, count, block = strip.numbers["width"], upper - lower, n["block_bytes"]
        following = f.select(
            upper.equals(n["depth"]), block - lower * n["b_row"], count * n["b_row"]
        )
        direct = f.select(n["streamed"].differs(0), block, following)
        return f.select(self.is_direct, direct, count * n["taps"] * width)

    def _sums(self, group: _TileBlock, block: Value, tile: Value) -> Value:
        """Where the sums of a tile wait."""
        f, n, (first, last) = self.f, self.numbers, group.tiles
        other = (block - group.blocks[0]) * (last - first)
        place = f.select(n["streamed"].differs(0), other + tile, tile)
        return f.offset(self.slot, n["sums_at"] + place * group.strip.numbers["sums"])
