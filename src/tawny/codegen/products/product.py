"""A product and all it is told: how it is cut, where its operands are, what its source needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tawny.codegen.builder import I64, PTR, Module
from tawny.codegen.element import Element
from tawny.codegen.kernel import Compiled
from tawny.codegen.library import Library, written
from tawny.codegen.products.blocking import Blocking, Panels, Room
from tawny.codegen.products.epilogue import Ending
from tawny.codegen.products.form import OPERANDS, Form, Source, declare_form, pack_text
from tawny.codegen.products.loops import call_products
from tawny.codegen.products.packing import Order
from tawny.codegen.products.preparation import CompiledPreparation, Panel, Prepares
from tawny.codegen.products.stack import Axis
from tawny.record import record


@record(slots=True)
class Product:
    """A stack of products."""

    element: Element
    ending: Ending
    blocking: Blocking
    panels: Panels
    order: Order
    stack: tuple[Axis, ...]
    source: Source
    numbers: Mapping[str, int]
    """The lengths of the common axis, the right matrix' steps, and what the source is told."""
    rows_bytes: int = 0
    """Scratch memory for rows that are gathered."""
    preparation: Prepares | None = None
    """What packs the right matrix before the run."""

    @property
    def form(self) -> Form:
        """All that its code depends on."""
        cut = self.blocking
        return Form(
            self.element,
            self.ending,
            cut.full.shapes if cut.blocks else (),
            () if cut.tail is None else cut.tail.shapes,
            self.source,
        )

    @property
    def packing(self) -> tuple[Library | None, Library | None]:
        """What packs the panels of whole blocks and that of the rest; None where nothing does."""
        if self.panels is not Panels.PACKED:
            return None, None
        form = self.form
        found = [
            _packing(self.source, self.element, tiles[0], self.order) if tiles else None
            for tiles in (form.full, form.tail)
        ]
        return found[0], found[1]

    @property
    def room(self) -> Room:
        """Scratch memory of each worker."""
        packed = 0
        if self.panels is Panels.PACKED:
            length = self.numbers["depth"] * self.numbers["taps"]
            packed = self.blocking.packed_bytes(self.element, length)
        return Room(packed, self.blocking.sum_bytes(self.element), self.rows_bytes)

    def told(
        self, form: int, cells: Mapping[str, int], workers: int, slot: int, scale_at: int = 0
    ) -> list[int]:
        """All numbers, for slots of scratch memory so large, and a scale so far from the bias."""
        names, stack = self.form.names(), [n for axis in self.stack for n in axis]
        pack, tail_pack = self.packing
        given = {
            **self.numbers,
            **self.blocking.numbers(self.element),
            **self.room.numbers(workers, slot),
            **{f"{name}_cell": cells.get(name, -1) for name in (*OPERANDS, "scratch")},
            "length": len(names) + len(stack),
            "form": form,
            "panels": self.panels.value,
            "pack": 0 if pack is None else pack.address("pack"),
            "tail_pack": 0 if tail_pack is None else tail_pack.address("pack"),
            "bias_moves": not self.ending.constant_bias,
            "scale_at": scale_at,
            "stack_axes": len(self.stack),
            "stack_at": len(names),
        }
        return [*names.values(given), *stack]


PACKED_BY: Final = frozenset({"channels", "depth", "b_row", "b_column", "b_high", "b_wide"})
"""What packing code is told: products that differ in anything else share what is packed."""


def packed_before(product: Product) -> Product:
    """A product with packed panels as one whose panels are packed before the run, alike."""
    cut, numbers = product.blocking, product.numbers
    length = numbers["depth"] * numbers["taps"]
    panel = length * cut.full.tile.width(product.element)
    columns = cut.full.tile.vectors * product.element.lanes
    full, tail = product.packing

    def found(pack: Library, block: int, count: int) -> Panel:
        source = numbers["b_start"] + block * columns * numbers["b_column"]
        return Panel(pack, source, block * panel, count)

    panels: list[Panel] = []
    if full is not None:
        panels += [found(full, block, columns) for block in range(cut.blocks)]
    if tail is not None:
        panels.append(found(tail, cut.blocks, cut.rest))
    told = [numbers[name] if name in PACKED_BY else 0 for name in product.form.names().names]
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
) -> Compiled:
    """The kernel that computes products one after another, each worker its share of each.

    `operands` says what the addresses of its row are; `scale_at` is how many bytes from the bias
    the scale is, if there is one.
    """
    slots = workers if shared else 1
    slot = max([product.room.slot for product in products], default=0)
    cells = {name: i for i, name in enumerate([*operands, *["scratch"] * (slot > 0)])}
    forms: dict[Form, int] = {}
    parameters = [len(products)]
    for product in products:
        form = forms.setdefault(product.form, len(forms))
        parameters += product.told(form, cells, slots, slot, scale_at)
    library = _library(tuple(forms), len(operands))
    packs = [pack for product in products for pack in product.packing if pack is not None]
    library = replace(library, uses=(*library.uses, *packs)) if packs else library
    symbol = f"kernel{len(cells)}"
    return Compiled(library, symbol, tuple(parameters), shared, slot * slots)


_packing = written(pack_text)


@written
def _library(forms: tuple[Form, ...], operands: int) -> str:
    """The code of some forms; a kernel for so many addresses, and one with scratch memory, too."""
    module = Module()
    for form in forms:
        for text in form.source.constants(form.element):
            if text not in module.globals:
                module.globals.append(text)
    for number, form in enumerate(forms):
        declare_form(module, form, f"form{number}")
    tables = ", ".join(f"ptr @form{number}" for number in range(len(forms)))
    module.globals.append(f"@forms = internal constant [{len(forms)} x ptr] [{tables}], align 8")
    for addresses in (operands, operands + 1):
        arguments = {"row": PTR, "worker": I64, "workers": I64}
        with module.function(f"kernel{addresses}", arguments) as f:
            row, worker, workers = f.arguments
            numbers = f.element(row, addresses, I64)
            call_products(f, row, numbers, f.global_address("forms"), worker, workers)
    return module.text()
