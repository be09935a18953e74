"""Many transforms at once, a lane for each: of any length, however they lie in memory."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from tawny.engine.cpu.transforms.chain import UNSCALED, Chain, Limit, RowLayout, Scale
from tawny.engine.cpu.transforms.driver import TileAxis, TileLoop
from tawny.engine.cpu.transforms.gathers import GATHER, gather_library
from tawny.engine.cpu.transforms.lengths import CALL, passes_of
from tawny.engine.cpu.transforms.lines import AxisTransforms, TransformKind
from tawny.engine.cpu.transforms.passes import ColumnForm, Factors
from tawny.engine.cpu.transforms.real_columns import (
    SPECTRUM,
    extend_rows_library,
    tangle_rows_library,
    untangle_rows_library,
)
from tawny.engine.cpu.transforms.roots import chirp, filter_of, number_table, spaced_factors
from tawny.engine.cpu.transforms.stage import SOURCE, TARGET, bits
from tawny.engine.cpu.transforms.turns import ROWS, rows_in_library, rows_out_library
from tawny.engine.llvm.runtime.library import Library

TILE_BYTES: Final = 2**14
"""Bytes of a tile: it stays in the first cache if the length is short (`benchmarks/fft.py`)."""

RUN_BLOCKS: Final = 4
"""Blocks of rows that are read or written as they lie, if a tile is no larger than `RUN_BYTES`:
what is farther apart takes longer to come from memory (`benchmarks/fft.py`)."""

RUN_BYTES: Final = 2**18

MANY: Final = 2**40
"""More elements than a row has."""


class TileOrder(enum.Enum):
    """An order in which the columns of a tile lie in the program's memory."""

    COLUMNS = 0
    """Columns are neighbours."""
    ROWS = 1
    """The elements of a column are neighbours."""
    ANYHOW = 2


class Tiling(NamedTuple):
    """The axis whose elements are the columns of tiles, how they lie, and the other axes."""

    step: TileAxis
    source: TileOrder
    target: TileOrder
    outer: tuple[TileAxis, ...]


def tiling_of(lines: AxisTransforms) -> Tiling:
    """Along an axis whose elements are neighbours, if there is one; else along the last."""
    items = lines.source_item, lines.target_item
    in_result = [s for s in lines.others if s.target == items[1]]
    in_operand = [s for s in lines.others if s.source == items[0]]
    some = in_result or in_operand or lines.others[-1:] or [TileAxis(1, items[0], items[1])]
    step = some[-1]
    outer = tuple([s for s in lines.others if s is not step])
    ways = [
        TileOrder.COLUMNS if by == item else TileOrder.ROWS if along == item else TileOrder.ANYHOW
        for by, along, item in zip(step[1:], lines.axis, items, strict=True)
    ]
    return Tiling(step, ways[0], ways[1], outer)


def columns_part(lines: AxisTransforms) -> TileLoop:
    """The part that computes all transforms."""
    writer = _Columns(lines)
    found = writer.load()
    writer.store(found)
    tiling, per_tile = writer.tiling, writer.per_tile
    tiles = -(-tiling.step.size // per_tile)
    along = TileAxis(tiles, per_tile * tiling.step.source, per_tile * tiling.step.target)
    return TileLoop(
        (*lines.outer, *tiling.outer, along),
        tiling.step.size,
        per_tile,
        tuple(writer.chain.stages),
        writer.chain.room,
        lines.source,
        lines.target,
    )


class _Columns:
    """Makes the stages of a tile."""

    def __init__(self, lines: AxisTransforms) -> None:
        self.lines, self.lanes, self.tiling = lines, lines.lanes, tiling_of(lines)
        self.passes = passes_of(lines.complex_length)
        self.real = lines.kind is not TransformKind.COMPLEX
        lanes, most = lines.lanes, self.tiling.step.size
        rows = lanes.pad(max(self.passes.length, self._rows()))
        column = rows * lanes.block
        blocks = max(TILE_BYTES // column, 1)
        if TileOrder.COLUMNS in (self.tiling.source, self.tiling.target):
            blocks = max(blocks, min(RUN_BYTES // column, RUN_BLOCKS))
        self.blocks = min(blocks, lanes.blocks(most))
        self.width = self.blocks * lanes.block
        self.per_tile = self.blocks * lanes.count
        between = lines.axis[1 if lines.kind is TransformKind.REAL else 0]
        self.chain = Chain(lanes, rows * self.width, between)

    def _rows(self) -> int:
        """Rows of the transforms of real numbers, or of what is given of them."""
        return self.lines.length if self.lines.kind is TransformKind.WHOLE else self.lines.half

    def load(self) -> RowLayout:
        """Bring the operand; where its rows are as a pass reads them, it stays where it is."""
        lines = self.lines
        if lines.kind is TransformKind.COMPLEX:
            return self._bring(ColumnForm.NUMBERS, lines.length, lines.given)
        if lines.kind is TransformKind.REAL:
            return self._bring_spectrum()
        if not lines.is_even:
            return self._bring(ColumnForm.REALS, lines.length, lines.given)
        given = -(-min(lines.given, lines.length) // 2)
        return self._bring(ColumnForm.HALVES, lines.complex_length, given)

    def _bring_spectrum(self) -> RowLayout:
        """The conjugates of complex transforms, from first halves of those of real numbers."""
        lines, chain, scalar = self.lines, self.chain, self.lanes.scalar
        found = RowLayout(SOURCE, 0, lines.axis[0], ColumnForm.NUMBERS)
        if self.tiling.source is not TileOrder.COLUMNS:
            found = self._bring(ColumnForm.NUMBERS, lines.half, lines.given)
        target = chain.free_rows(self.width)
        library = tangle_rows_library if lines.is_even else extend_rows_library
        self._add_spectrum(library(scalar, found.form), found, target)
        return target

    def _add_spectrum(
        self, library: Library, source: RowLayout, target: RowLayout, scale: Scale = UNSCALED
    ) -> None:
        lines = self.lines
        self.chain.add(
            library,
            SPECTRUM,
            source=source.cell,
            source_at=source.at,
            source_row=source.nbytes,
            target=target.cell,
            target_at=target.at,
            target_row=target.nbytes,
            length=lines.length,
            rows=lines.given,
            factors=spaced_factors(lines.length, lines.length // 4 + 1, 1, 0, self.lanes),
            scale_re=bits(scale.re),
            scale_im=bits(scale.im),
        )

    def _bring(self, form: ColumnForm, length: int, given: int) -> RowLayout:
        """As many rows of the operand, and zeros up to a length."""
        lines, tiling, chain = self.lines, self.tiling, self.chain
        given = min(given, length)
        halved = form is ColumnForm.HALVES
        if tiling.source is TileOrder.COLUMNS:
            limit = Limit(given * MANY, MANY) if given < length else None
            if halved and lines.given < lines.length:
                limit = Limit(lines.given * MANY, 2 * MANY)
            return RowLayout(SOURCE, 0, lines.axis[0] * (2 if halved else 1), form, limit)
        target = chain.free_rows(self.width)
        if tiling.source is TileOrder.ROWS and not (halved and lines.given < 2 * given):
            group = self._bring_rows(form, given, target)
            chain.clear(target, -(-given // group) * group, length)
        else:
            self._gather(form, given, target)
            chain.clear(target, given, length)
        return target

    def _bring_rows(self, form: ColumnForm, given: int, target: RowLayout) -> int:
        """Neighbours in memory; how many rows are brought at a time.

        Those of halves are the parts of one number after the other.
        """
        lanes, real = self.lanes, form is ColumnForm.REALS
        self.chain.add(
            rows_in_library(lanes.scalar, form if real else ColumnForm.NUMBERS),
            ROWS,
            source=SOURCE,
            source_row=self.tiling.step.source,
            target=target.cell,
            target_at=target.at,
            target_row=target.nbytes,
            columns=given,
            turn=bits(self.lines.turn),
        )
        return lanes.count if real else lanes.count // 2

    def _gather(self, form: ColumnForm, given: int, target: RowLayout) -> None:
        """Numbers that lie anyhow."""
        lines = self.lines
        self.chain.add(
            gather_library(self.lanes.scalar, form),
            GATHER,
            source=SOURCE,
            source_row=lines.axis[0] * (2 if form is ColumnForm.HALVES else 1),
            source_column=self.tiling.step.source,
            target=target.cell,
            target_at=target.at,
            target_row=target.nbytes,
            rows=given,
            given=lines.given,
            between=lines.axis[0],
            turn=bits(lines.turn),
        )

    def store(self, source: RowLayout) -> None:
        """Transform, and leave the result where it belongs."""
        lines = self.lines
        if lines.is_even and lines.kind is not TransformKind.REAL:
            self._untangle(self._transform(source, None))
            return
        form, count = ColumnForm.NUMBERS, lines.complex_length
        if lines.kind is TransformKind.REAL:
            form = ColumnForm.HALVES if lines.is_even else ColumnForm.REALS
        elif lines.kind is TransformKind.HALF:
            count = lines.half
        if self.tiling.target is TileOrder.COLUMNS:
            limit = Limit(count * MANY, MANY) if count < lines.complex_length else None
            row = lines.axis[1] * (2 if form is ColumnForm.HALVES else 1)
            self._transform(source, RowLayout(TARGET, 0, row, form, limit))
        else:
            self._leave_rows(form, self._transform(source, None), count, lines.result_scale)

    def _untangle(self, source: RowLayout) -> None:
        """Transforms of real numbers from those of half the length."""
        lines, whole = self.lines, self.lines.kind is TransformKind.WHOLE
        in_columns = self.tiling.target is TileOrder.COLUMNS
        target = RowLayout(TARGET, 0, lines.axis[1], ColumnForm.NUMBERS)
        if not in_columns:
            target = self.chain.free_rows(self.width)
        library = untangle_rows_library(self.lanes.scalar, target.form, whole)
        scale = Scale(lines.scale / 2, lines.scale * lines.sign / 2)
        self._add_spectrum(library, source, target, scale)
        if not in_columns:
            self._leave_rows(ColumnForm.NUMBERS, target, self._rows(), UNSCALED)

    def _leave_rows(self, form: ColumnForm, source: RowLayout, columns: int, scale: Scale) -> None:
        real = form is ColumnForm.REALS
        self.chain.add(
            rows_out_library(
                self.lanes.scalar, form if real else ColumnForm.NUMBERS, rotated=False
            ),
            ROWS,
            source=source.cell,
            source_at=source.at,
            source_row=source.nbytes,
            target=TARGET,
            target_row=self.tiling.step.target,
            columns=columns,
            scale_re=bits(scale.re),
            scale_im=bits(scale.im),
        )

    def _transform(self, source: RowLayout, target: RowLayout | None) -> RowLayout:
        """The transforms of columns."""
        lines, chain, passes = self.lines, self.chain, self.passes
        turn = lines.turn if source.cell == SOURCE else 1.0
        scale = lines.result_scale
        if passes.length == lines.complex_length:
            return chain.add_passes(
                passes.factors, source, target, self.blocks, turn=turn, scale=scale
            )
        return self._convolve(source, target, turn)

    def _convolve(self, source: RowLayout, target: RowLayout | None, turn: float) -> RowLayout:
        """A convolution with the chirp, which is a product of longer transforms."""
        lines, lanes, chain, passes = self.lines, self.lanes, self.chain, self.passes
        n, longer = lines.complex_length, passes.length
        columns = self.blocks * lanes.count
        waves = number_table(chirp(n), lanes)
        first = chain.free_rows(self.width)
        outside = source.form is not ColumnForm.BLOCKS
        chain.add_pass(
            1,
            (n, 1),
            source,
            first,
            columns=0 if outside else columns,
            factors=(Factors.ROWS, waves),
            turn=turn,
        )
        chain.clear(first, n, longer)
        found = chain.add_passes(passes.factors, first, None, self.blocks)
        product = chain.free_rows(self.width)
        chain.add_pass(
            1,
            (longer, 1),
            found,
            product,
            columns=columns,
            factors=(Factors.ROWS, number_table(filter_of(n, longer) / longer, lanes)),
            turn=-1.0,
        )
        found = chain.add_passes(passes.factors, product, None, self.blocks)
        target = chain.free_rows(self.width) if target is None else target
        chain.add_pass(
            1,
            (n, 1),
            found,
            target,
            columns=columns if target.form is ColumnForm.BLOCKS else 0,
            factors=(Factors.ROWS, waves),
            turn=-1.0,
            scale=lines.result_scale,
        )
        return target


ROWS_COST: Final = 12.0
"""Cycles in which a block is made of rows, and rows of a block."""

SPECTRUM_COST: Final = 8.0
"""Cycles in which a row of a spectrum is made or taken apart, for each block."""

FAR_COST: Final = 3.0
"""More cycles of a pass for each block, if a tile does not stay in the first cache."""

NEAR_BYTES: Final = 3 * 2**14
"""Bytes of the first cache."""

PAGE: Final = 2**12
"""Bytes: rows that are a multiple of them apart share few places of the first cache."""

PAGE_COST: Final = 16.0
"""More cycles for each block of such rows."""


def columns_cost(lines: AxisTransforms) -> float:
    """The estimated cycles of all transforms by columns, if they are rows in memory."""
    n, lanes = lines.complex_length, lines.lanes
    passes = passes_of(n)
    rounds = 1 if passes.length == n else 2
    cost = rounds * passes.cost
    if 2 * passes.length * lanes.block > NEAR_BYTES:
        cost += rounds * len(passes.factors) * FAR_COST
    others = ROWS_COST
    if lines.kind is TransformKind.REAL or lines.is_even:
        others += SPECTRUM_COST
    if tiling_of(lines).step.source % PAGE == 0:
        others += PAGE_COST
    if rounds == 2:
        others += 3 * SPECTRUM_COST
    calls = CALL * (rounds * len(passes.factors) + 4)
    return lanes.blocks(lines.count) * (passes.length * cost + n * others) + calls
