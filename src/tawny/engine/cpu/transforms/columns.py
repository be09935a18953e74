"""Many transforms at once, a lane for each: of any length, however they lie in memory."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from tawny.engine.cpu.transforms.chain import UNSCALED, Chain, Limit, RowLayout, Scale
from tawny.engine.cpu.transforms.driver import TileAxis, TileLoop
from tawny.engine.cpu.transforms.gathers import GATHER, gather_library
from tawny.engine.cpu.transforms.lengths import CALL, passes_of
from tawny.engine.cpu.transforms.lines import AxisTransforms, TransformKind
from tawny.engine.cpu.transforms.pairs import PAIR, pair_library, unpair_library
from tawny.engine.cpu.transforms.passes import ColumnForm, Factors
from tawny.engine.cpu.transforms.roots import chirp, filter_of, number_table
from tawny.engine.cpu.transforms.stage import SOURCE, TARGET, bits
from tawny.engine.cpu.transforms.turns import ROWS, rows_in_library, rows_out_library

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
        self.passes = passes_of(lines.length)
        self.paired = lines.kind is not TransformKind.COMPLEX
        lanes, most = lines.lanes, self.tiling.step.size
        rows = lanes.pad(max(self.passes.length, self._unpaired_rows()))
        column = rows * lanes.block
        blocks = max(TILE_BYTES // column, 1)
        if TileOrder.COLUMNS in (self.tiling.source, self.tiling.target):
            blocks = max(blocks, min(RUN_BYTES // column, RUN_BLOCKS))
        self.blocks = min(blocks, lanes.blocks(-(-most // 2) if self.paired else most))
        self.width = self.blocks * lanes.block
        pair = self.blocks * lanes.count if self.paired else 0
        self.per_tile = 2 * pair or self.blocks * lanes.count
        self.chain = Chain(lanes, rows * self.width, pair)

    def _unpaired_rows(self) -> int:
        """Rows that take as much memory as those of both halves of pairs."""
        match self.lines.kind:
            case TransformKind.COMPLEX:
                return 0
            case TransformKind.WHOLE:
                return 2 * self.lines.length
            case _:
                return 2 * self.lines.half

    def load(self) -> RowLayout:
        """Bring the operand; where its rows are as a pass reads them, it stays where it is."""
        lines, chain = self.lines, self.chain
        if lines.kind is not TransformKind.REAL:
            return self._bring(
                ColumnForm.PAIRS if self.paired else ColumnForm.NUMBERS, lines.length
            )
        found = RowLayout(SOURCE, 0, lines.axis[0], ColumnForm.NUMBERS)
        if self.tiling.source is not TileOrder.COLUMNS:
            found = self._bring(ColumnForm.NUMBERS, lines.half)
        target = chain.free_rows(self.width)
        chain.add(
            pair_library(self.lanes.scalar, found.form),
            PAIR,
            source=found.cell,
            source_at=found.at,
            source_row=found.nbytes,
            target=target.cell,
            target_at=target.at,
            target_row=target.nbytes,
            length=lines.length,
            rows=lines.given,
            pair=chain.pair,
        )
        return target

    def _bring(self, form: ColumnForm, length: int) -> RowLayout:
        """Rows of the operand, and zeros up to a length."""
        lines, lanes, chain, tiling = self.lines, self.lanes, self.chain, self.tiling
        given = min(lines.given, length)
        if tiling.source is TileOrder.COLUMNS:
            limit = Limit(given * MANY, MANY) if given < length else None
            return RowLayout(SOURCE, 0, lines.axis[0], form, limit)
        turn = lines.turn
        width = 2 * self.width if lines.kind is TransformKind.REAL else self.width
        target = chain.free_rows(width)
        places = {"target": target.cell, "target_at": target.at, "target_row": width}
        if tiling.source is TileOrder.ROWS:
            chain.add(
                rows_in_library(lanes.scalar, form is ColumnForm.PAIRS),
                ROWS,
                source=SOURCE,
                source_row=tiling.step.source,
                **places,
                columns=given,
                pair=chain.pair,
                turn=bits(turn),
            )
            group = lanes.count if form is ColumnForm.PAIRS else lanes.count // 2
            chain.clear(target, -(-given // group) * group, length)
        else:
            chain.add(
                gather_library(lanes.scalar, form),
                GATHER,
                source=SOURCE,
                source_row=lines.axis[0],
                source_column=tiling.step.source,
                **places,
                rows=given,
                pair=chain.pair,
                turn=bits(turn),
            )
            chain.clear(target, given, length)
        return target

    def store(self, source: RowLayout) -> None:
        """Transform, and leave the result where it belongs."""
        lines, tiling, chain = self.lines, self.tiling, self.chain
        in_columns = tiling.target is TileOrder.COLUMNS
        result = RowLayout(TARGET, 0, lines.axis[1], ColumnForm.NUMBERS)
        match lines.kind:
            case TransformKind.COMPLEX:
                found = self._transform(source, result if in_columns else None)
                if not in_columns:
                    self._leave_rows(found, lines.length, lines.result_scale)
            case TransformKind.REAL:
                pairs = result._replace(form=ColumnForm.PAIRS)
                found = self._transform(source, pairs if in_columns else None)
                if not in_columns:
                    self._leave_rows(found, lines.length, lines.result_scale, paired=True)
            case TransformKind.HALF | TransformKind.WHOLE:
                found = self._transform(source, None)
                target = result if in_columns else chain.free_rows(2 * self.width)
                self._unpair(found, target)
                if not in_columns:
                    count = lines.length if lines.kind is TransformKind.WHOLE else lines.half
                    self._leave_rows(target, count, UNSCALED)

    def _unpair(self, source: RowLayout, target: RowLayout) -> None:
        lines = self.lines
        self.chain.add(
            unpair_library(self.lanes.scalar, target.form, lines.kind is TransformKind.WHOLE),
            PAIR,
            source=source.cell,
            source_at=source.at,
            source_row=source.nbytes,
            target=target.cell,
            target_at=target.at,
            target_row=target.nbytes,
            length=lines.length,
            pair=self.chain.pair,
            scale_re=bits(lines.scale / 2),
            scale_im=bits(lines.scale * lines.sign / 2),
        )

    def _leave_rows(
        self, source: RowLayout, columns: int, scale: Scale, *, paired: bool = False
    ) -> None:
        self.chain.add(
            rows_out_library(self.lanes.scalar, paired, rotated=False),
            ROWS,
            source=source.cell,
            source_at=source.at,
            source_row=source.nbytes,
            target=TARGET,
            target_row=self.tiling.step.target,
            columns=columns,
            pair=self.chain.pair,
            scale_re=bits(scale.re),
            scale_im=bits(scale.im),
        )

    def _transform(self, source: RowLayout, target: RowLayout | None) -> RowLayout:
        """The transforms of columns."""
        lines, chain, passes = self.lines, self.chain, self.passes
        turn = lines.turn if source.cell == SOURCE else 1.0
        scale = lines.result_scale
        if passes.length == lines.length:
            return chain.add_passes(
                passes.factors, source, target, self.blocks, turn=turn, scale=scale
            )
        return self._convolve(source, target, turn)

    def _convolve(self, source: RowLayout, target: RowLayout | None, turn: float) -> RowLayout:
        """A convolution with the chirp, which is a product of longer transforms."""
        lines, lanes, chain, passes = self.lines, self.lanes, self.chain, self.passes
        n, longer, columns = lines.length, passes.length, self.blocks * lanes.count
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

PAIRS_COST: Final = 5.0
"""Cycles in which pairs are made, or taken apart, for each block."""

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
    passes, lanes = passes_of(lines.length), lines.lanes
    rounds = 1 if passes.length == lines.length else 2
    cost = rounds * passes.cost
    if 2 * passes.length * lanes.block > NEAR_BYTES:
        cost += rounds * len(passes.factors) * FAR_COST
    count, others = lines.count, ROWS_COST
    if lines.kind is not TransformKind.COMPLEX:
        count, others = -(-count // 2), others + PAIRS_COST
    if tiling_of(lines).step.source % PAGE == 0:
        others += PAGE_COST
    if rounds == 2:
        others += 3 * PAIRS_COST
    calls = CALL * (rounds * len(passes.factors) + 4)
    return lanes.blocks(count) * (passes.length * cost + lines.length * others) + calls
