"""A product and the numbers that its code reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import NEVER, CompiledKernel
from tawny.engine.cpu.products.blocking import Blocking, Panels, Room
from tawny.engine.cpu.products.epilogue import TileEpilogue
from tawny.engine.cpu.products.loops import MOST_ADDRESSES, kernel_symbol, products_library
from tawny.engine.cpu.products.packing import Order
from tawny.engine.cpu.products.preparation import CompiledPreparation, Panel, Preparation
from tawny.engine.cpu.products.sharing import Axis
from tawny.engine.cpu.products.tile_code import (
    FUNCTIONS,
    OPERANDS,
    RowSource,
    names_of,
    tile_symbol,
    write_finish,
    write_gather,
    write_pack,
    write_tiles,
)
from tawny.engine.llvm.runtime.library import Address, lazy_library
from tawny.ops.fused_products import PLAIN

Functions = dict[str, Address]
"""What a product calls, by the names of `FUNCTIONS`."""


@dataclass(frozen=True, slots=True)
class Product:
    """A stack of products."""

    element: Element
    epilogue: TileEpilogue
    blocking: Blocking
    panels: Panels
    order: Order
    stack: tuple[Axis, ...]
    source: RowSource
    numbers: Mapping[str, int]
    """The lengths of the common axis, the right matrix' steps, and the numbers of the source."""
    rows_bytes: int = 0
    """Scratch memory for rows that are gathered."""
    preparation: Preparation | None = None
    """What packs the right matrix before the run."""

    @property
    def functions(self) -> Functions:
        """Functions that its loops call."""
        cut, source, element, epilogue = self.blocking, self.source, self.element, self.epilogue
        kept = TileEpilogue(PLAIN, epilogue.dtype) if source.finishes else epilogue
        found: Functions = {}
        for prefix, strip in (("", cut.full if cut.blocks else None), ("tail_", cut.tail)):
            if strip is None:
                continue
            tiles, any_height = strip.shapes, replace(strip.tile, rows=1)
            library = _tiles(source, element, kept, tiles)
            found[f"{prefix}tall_tile"] = Address(library, tile_symbol(tiles[0]))
            found[f"{prefix}short_tile"] = Address(library, tile_symbol(tiles[-1]))
            if source.finishes:
                finish = _finish(source, element, epilogue, any_height)
                found[f"{prefix}finish"] = Address(finish, "finish")
            if self.panels is Panels.PACKED:
                pack = _packing(source, element, any_height, self.order)
                found[f"{prefix}pack"] = Address(pack, "pack")
        if source.gathers:
            found["gather"] = Address(_gather(source, element), "gather")
        return found

    @property
    def room(self) -> Room:
        """Scratch memory of each worker."""
        packed = 0
        if self.panels is Panels.PACKED:
            length = self.numbers["depth"] * self.numbers["taps"]
            packed = self.blocking.packed_bytes(self.element, length)
        return Room(packed, self.blocking.sum_bytes(self.element), self.rows_bytes)

    def parameters(
        self,
        functions: Functions,
        cells: Mapping[str, int],
        workers: int,
        slot: int,
        scale_at: int = 0,
    ) -> list[SupportsIndex]:
        """All numbers; a worker has `slot` bytes of scratch, a scale is `scale_at` bytes on."""
        names, stack = names_of(self.source), [n for axis in self.stack for n in axis]
        given: dict[str, SupportsIndex] = {
            "slices": 1,
            "slice_a": 0,
            "slice_b": 0,
            **self.numbers,
            **self.blocking.numbers(self.element),
            **self.room.numbers(workers, slot),
            **{f"{name}_cell": cells.get(name, -1) for name in (*OPERANDS, "scratch")},
            **dict.fromkeys(FUNCTIONS, 0),
            **functions,
            "length": len(names) + len(stack),
            "panels": self.panels.value,
            "bias_moves": not self.epilogue.constant_bias,
            "scale_at": scale_at,
            "stop": NEVER,
            "stack_axes": len(self.stack),
            "stack_at": len(names),
        }
        return [*names.values(given), *stack]


def packed_before(product: Product, packed_by: Collection[str]) -> Product:
    """A product with packed panels as one whose panels are packed before the run, alike.

    `packed_by` names the numbers that packing code reads: products that differ in others share
    what is packed.
    """
    cut, numbers = product.blocking, product.numbers
    length = numbers["depth"] * numbers["taps"]
    panel = length * cut.full.tile.width(product.element)
    columns = cut.full.tile.vectors * product.element.lanes
    functions = product.functions

    def found(pack: Address, block: int, count: int) -> Panel:
        source = numbers["b_start"] + block * columns * numbers["b_column"]
        return Panel(pack, source, block * panel, count)

    panels: list[Panel] = []
    if "pack" in functions:
        panels += [found(functions["pack"], block, columns) for block in range(cut.blocks)]
    if "tail_pack" in functions:
        panels.append(found(functions["tail_pack"], cut.blocks, cut.rest))
    told = [numbers[name] if name in packed_by else 0 for name in names_of(product.source).names]
    nbytes = cut.prepared_bytes(product.element, length)
    return replace(
        product,
        panels=Panels.PREPARED,
        numbers={**numbers, "b_start": 0},
        preparation=CompiledPreparation(tuple(told), tuple(panels), nbytes),
    )


def kernel_of(
    products: Sequence[Product],
    operands: Sequence[str],
    workers: int,
    *,
    shared: bool,
    scale_at: int = 0,
) -> CompiledKernel:
    """The kernel that computes products one after another, each worker its share of each.

    `operands` says what the addresses of its row are; `scale_at` is how many bytes from the bias
    the scale is, if there is one.
    """
    slots = workers if shared else 1
    slot = max([product.room.slot for product in products], default=0)
    cells = {name: i for i, name in enumerate([*operands, *["scratch"] * (slot > 0)])}
    parameters: list[SupportsIndex] = [len(products)]
    for product in products:
        parameters += product.parameters(product.functions, cells, slots, slot, scale_at)
    most = MOST_ADDRESSES
    while most < len(cells):
        most *= 2
    symbol = kernel_symbol(len(cells))
    return CompiledKernel(products_library(most), symbol, tuple(parameters), shared, slot * slots)


_tiles = lazy_library(write_tiles)
_gather = lazy_library(write_gather)
_finish = lazy_library(write_finish)
_packing = lazy_library(write_pack)
