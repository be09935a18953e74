"""Products cut into pieces, equal numbers of columns side by side, that elementwise code uses up.

The gates of a recurrent layer are such pieces.  A tile has one vector of columns of each piece, so
what the code needs at one place is all in registers, and the product is never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.elementwise import vector_lanes
from tawny.engine.cpu.kernels.kernel import Numbers
from tawny.engine.cpu.products.blocking import Extent, Panels, cut
from tawny.engine.cpu.products.epilogue import EpilogueCode, TileEpilogue, spill
from tawny.engine.cpu.products.matrices import Matrices
from tawny.engine.cpu.products.packing import Order
from tawny.engine.cpu.products.preparation import Array, KernelWithPacking, PanelPreparation
from tawny.engine.cpu.products.product import Product, kernel_of
from tawny.engine.cpu.products.tile import FIRST_CACHE, Walk, accumulate, evenly_spaced, prefetch
from tawny.engine.cpu.products.tile_code import RowSource, TileCode
from tawny.engine.llvm.ir.builder import I64, PTR, VOID, Function, Value
from tawny.engine.llvm.scalar.bodies import ElementCode, emit
from tawny.engine.llvm.scalar.numbers import Number, load_splat, load_vector, real, store_vector

MOVING, FIXED = -1, -2
"""What the code reads beside pieces: with an element of its own for each column, or without."""

_FUNCTION: Final = "use_up"
_ARGUMENTS: Final = {
    "numbers": PTR,
    "stored": PTR,
    "rows": I64,
    "bias": PTR,
    "residual": PTR,
    "start": I64,
    "column": I64,
}


@dataclass(frozen=True, slots=True)
class Operand:
    """A place that the code reads or writes: a cell of the row, and bytes from row to row."""

    cell: int
    row: int
    kind: int = MOVING


@dataclass(frozen=True, slots=True)
class PiecePreparation:
    """Packs a right matrix so that panels have vectors of all pieces side by side."""

    pieces: int
    panels: PanelPreparation

    @property
    def nbytes(self) -> int:
        """Bytes of all panels."""
        return self.panels.nbytes

    def __call__(self, array: Array) -> Array:
        """The panels of an array."""
        matrix = np.swapaxes(array, -1, -2) if self.panels.transposed else array
        depth, columns = matrix.shape
        lanes = self.panels.element.lanes
        cut = matrix.reshape(depth, self.pieces, columns // self.pieces // lanes, lanes)
        ordered = np.moveaxis(cut, 1, 2).reshape(depth, columns)
        return replace(self.panels, transposed=False)(ordered)


def pieces_kernel(
    element: Element,
    epilogue: TileEpilogue,
    matrices: Matrices,
    code: ElementCode,
    pieces: Sequence[int | Operand],
    results: Sequence[Operand],
    operands: Sequence[str],
    workers: int,
    count: int,
    *,
    prepared: bool = False,
    transposed: bool = False,
) -> KernelWithPacking:
    """The kernel of a product in `count` pieces and of code that uses it up.

    For each read of the code `pieces` says which piece it is, or where it lies.  `operands` says
    what the addresses of the kernel's row are; those of the code may have any name.  With
    `prepared` operand 1, perhaps `transposed`, is known before the run and packed for it.
    """
    extent = Extent(matrices.rows, matrices.columns, matrices.depth)
    apart = matrices.columns // count * element.nbytes
    panels = Panels.PREPARED if prepared else Panels.DIRECT
    blocking = replace(
        cut(element, extent, workers, panels=panels, wide=count),
        pieces=True,
        apart=0 if prepared else apart,
    )
    source = PieceRows(
        code,
        tuple([piece if isinstance(piece, int) else piece.kind for piece in pieces]),
        prepared,
    )
    numbers = _numbers(matrices, apart, [*pieces, *results])
    product = Product(element, epilogue, blocking, panels, Order.ROWS, (), source, numbers)
    addresses = len(operands) + (product.room.slot > 0)
    # The numbers of the product follow the addresses and the count of products.
    product = replace(product, numbers={**numbers, "row_at": -8 * (addresses + 1)})
    shared = extent.is_shared and workers > 1
    made = kernel_of([product], operands, workers, shared=shared)
    if not prepared:
        return KernelWithPacking(made)
    shape = 1, matrices.depth, 1, matrices.columns
    return KernelWithPacking(
        made, PiecePreparation(count, PanelPreparation(element, blocking, *shape, transposed))
    )


def _numbers(matrices: Matrices, apart: int, places: Sequence[int | Operand]) -> dict[str, int]:
    """The numbers that compiled code reads: those of a product, and of places in memory."""
    others = [operand for operand in places if isinstance(operand, Operand)]
    return {
        **matrices.numbers,
        "taps": 1,
        "b_depth": matrices.b_row,
        "b_start": 0,
        "c_start": 0,
        "apart": apart,
        "row_at": 0,
        **{f"cell{i}": operand.cell for i, operand in enumerate(others)},
        **{f"row{i}": operand.row for i, operand in enumerate(others)},
    }


@dataclass(frozen=True, slots=True)
class PieceRows(RowSource):
    """Rows that are evenly spaced, and what is computed from a place of each piece."""

    code: ElementCode
    reads: tuple[int, ...]
    """For each read of the code the piece it is; `MOVING` or `FIXED` for others."""
    prepared: bool
    """Whether panels hold the vectors of all pieces side by side."""

    @property
    def numbers(self) -> tuple[str, ...]:
        others = range(len(self.memory_kinds))
        named = [f"{name}{i}" for name in ("cell", "row") for i in others]
        return ("a_row", "a_step", "residual_row", "apart", "row_at", *named)

    @property
    def memory_kinds(self) -> list[int]:
        """The kinds of all that is in memory: reads that are no pieces, then results."""
        return [read for read in self.reads if read < 0] + [MOVING] * len(self.code.results)

    def rows(self, code: TileCode) -> _Apart:
        return _Apart(code, None if self.prepared else code.numbers["apart"])

    def tile(self, code: TileCode) -> None:
        f, rows = code.f, self.rows(code)
        if code.epilogue.parts.residual:
            for place in rows.places(code.residual, "residual"):
                for vector in range(code.tile.vectors):
                    line = f.offset(place, code.numbers["apart"] * vector)
                    prefetch(f, line, FIRST_CACHE)
        sums = rows.accumulate(code.first_sums())

        def end() -> list[Value]:
            self._finish(code, sums)
            return []

        def keep() -> list[Value]:
            code.keep(sums, code.after)
            return []

        f.either(code.after.equals(f.constant(PTR, 0)), end, keep)

    def _finish(self, code: TileCode, sums: Sequence[Value]) -> None:
        """What is computed from the sums, row by row; the code for it is written once."""
        f, element = code.f, code.element
        if f.module.first_time(_FUNCTION):
            with f.module.function(
                _FUNCTION, _ARGUMENTS, internal=True, attributes="noinline"
            ) as own:
                _PieceWriter(own, self, code).write()
        stored = spill(f, sums, element.sum_bytes)
        rows = f.constant(I64, code.tile.rows)
        places = code.bias, code.residual, code.start, code.column
        f.call(_FUNCTION, VOID, code.numbers.address, stored, rows, *places)


class _PieceWriter:
    """Writes the function that computes results from the sums of a tile."""

    def __init__(self, f: Function, source: PieceRows, code: TileCode) -> None:
        self.f, self.source, self.element = f, source, code.element
        self.vectors, self.has_residual = code.tile.vectors, code.epilogue.parts.residual
        address, self.stored, self.rows, self.bias, self.residual, self.start, self.column = (
            f.arguments
        )
        self.numbers = Numbers(f, code.numbers.names, address)
        none = [None] * self.vectors
        self.finish = EpilogueCode(f, self.element, code.epilogue, none, self.numbers["apart"])

    def write(self) -> None:
        """All rows: two at a time, where one would wait for what it computes, then what is left."""
        f = self.f
        self.affine = self.finish.affine(self.bias, self.bias)
        self.bases = self._bases()
        together = vector_lanes(self.source.code) // self.element.lanes
        whole = self.rows // together * together
        with f.loop(0, whole, together) as loop:
            self._use([loop.index + i for i in range(together)])
        if together > 1:
            with f.loop(whole, self.rows) as loop:
                self._use([loop.index])

    def _bases(self) -> list[Value]:
        """Where the first row of each other read and of each result has the tile's columns."""
        f, n, source = self.f, self.numbers, self.source
        row = f.offset(n.address, n["row_at"])
        bases: list[Value] = []
        for i, kind in enumerate(source.memory_kinds):
            base = f.load(PTR, f.element(row, n[f"cell{i}"], I64), 8)
            bases.append(f.offset(base, self.column) if kind == MOVING else base)
        return bases

    def _use(self, rows: Sequence[Value]) -> None:
        """The code for some rows, side by side in vectors."""
        f, code, lanes = self.f, self.source.code, self.element.lanes
        values = [self._values(row) for row in rows]
        places = [
            [
                f.offset(base, (self.start + row) * self.numbers[f"row{i}"])
                for i, base in enumerate(self.bases)
            ]
            for row in rows
        ]
        numbers, other = list[Number](), 0
        for read, dtype in zip(self.source.reads, code.reads, strict=True):
            if read >= 0:
                numbers.append(self._join_vectors([own[read] for own in values]))
                continue
            load = load_vector if read == MOVING else load_splat
            found = [real(load(f, dtype, own[other], lanes)) for own in places]
            numbers.append(self._join_vectors(found))
            other += 1
        results = emit(f, code, numbers)
        for place, (number, result) in enumerate(zip(code.results, results, strict=True), other):
            for i, own in enumerate(places):
                part = f.shuffle(real(result), None, range(i * lanes, (i + 1) * lanes))
                store_vector(f, code.dtype(number), part, own[place])

    def _values(self, row: Value) -> list[Value]:
        """A place of each piece in a row of the tile."""
        f, nbytes = self.f, self.element.sum_bytes
        own = f.offset(self.stored, row * (self.vectors * nbytes))
        sums = [
            f.load(self.element.vector, f.offset(own, v * nbytes), nbytes)
            for v in range(self.vectors)
        ]
        residual = None
        if self.has_residual:
            step = (self.start + row) * self.numbers["residual_row"]
            residual = f.offset(self.residual, step)
        return self.finish.values(sums, self.affine, residual)

    def _join_vectors(self, values: Sequence[Value]) -> Value:
        """One vector, or two as one."""
        if len(values) == 1:
            return values[0]
        first, second = values
        return self.f.shuffle(first, second, range(2 * self.element.lanes))


@dataclass(frozen=True, slots=True)
class _Apart:
    """Rows of a tile whose vectors of columns are one of each piece."""

    code: TileCode
    apart: Value | None

    def accumulate(self, sums: Sequence[Value]) -> list[Value]:
        code, f = self.code, self.code.f
        step, count = code.numbers["a_step"], code.upper - code.lower
        rows = self.places(f.offset(code.left, code.lower * step), "a")
        walk = Walk(rows, step, code.panel, code.panel_step, count, code.ahead, self.apart)
        return accumulate(f, code.element, code.tile, sums, walk, code.masks)

    def places(self, base: Value, name: str) -> list[Value]:
        code, step = self.code, self.code.numbers[f"{name}_row"]
        return evenly_spaced(code.f, code.f.offset(base, code.start * step), step, code.tile.rows)
