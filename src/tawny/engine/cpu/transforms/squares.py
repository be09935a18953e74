"""One transform at a time, as a matrix: its columns, a turn, its rows.

The numbers of a transform of n1 n2 points are the rows of a matrix of n2 columns.  Each column is
transformed, a lane for each; then the element in row k and column j is multiplied by
exp(-2 pi i k j / n), rows become columns, and those are transformed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tawny.engine.cpu.transforms.chain import UNSCALED, Chain, Limit, RowLayout, Scale
from tawny.engine.cpu.transforms.driver import TileAxis, TileLoop
from tawny.engine.cpu.transforms.halves import (
    HALF,
    extend_library,
    mirror_library,
    tangle_library,
    untangle_library,
)
from tawny.engine.cpu.transforms.lanes import Lanes
from tawny.engine.cpu.transforms.lengths import passes_of, sides_of
from tawny.engine.cpu.transforms.lines import AxisTransforms, TransformKind
from tawny.engine.cpu.transforms.passes import ColumnForm, Factors
from tawny.engine.cpu.transforms.roots import (
    block_table,
    chirp,
    filter_of,
    neighbour_factors,
    spaced_factors,
    turn_factors,
)
from tawny.engine.cpu.transforms.stage import SOURCE, TARGET, ConstantTable, bits
from tawny.engine.cpu.transforms.turns import TURN, turn_library


@dataclass(frozen=True)
class TransformMatrix:
    """The matrix of a transform, or of the longer ones of its convolution with a chirp."""

    length: int
    """Points of the transform."""
    rows: int
    columns: int

    @property
    def is_convolution(self) -> bool:
        """Whether the matrix has more elements than the transform."""
        return self.rows * self.columns != self.length


def square_of(length: int, lanes: Lanes) -> TransformMatrix | None:
    """The square of a length; None where it has no factors that fit."""
    sides = sides_of(passes_of(length).length, lanes.count)
    return None if sides is None else TransformMatrix(length, *sides)


def square_part(lines: AxisTransforms, square: TransformMatrix) -> TileLoop:
    """The part that computes one transform after the other."""
    lanes = lines.lanes
    tall = lanes.pad(square.rows) * lanes.width(square.columns)
    flat = lanes.pad(square.columns) * lanes.width(square.rows)
    writer = _MatrixTransform(lines, square, Chain(lanes, max(tall, flat)))
    writer.write()
    return TileLoop(
        (*lines.outer, *lines.others, TileAxis(1, 0, 0)),
        1,
        1,
        tuple(writer.chain.stages),
        writer.chain.room,
        lines.source,
        lines.target,
    )


class _MatrixTransform:
    """Makes the stages of a transform."""

    def __init__(self, lines: AxisTransforms, square: TransformMatrix, chain: Chain) -> None:
        self.lines, self.square, self.chain, self.lanes = lines, square, chain, lines.lanes

    def write(self) -> None:
        """Bring, transform, leave."""
        lines = self.lines
        source, target = self._operand(), self._result()
        if self.square.is_convolution:
            self._convolve(source, target)
        else:
            self._transform(source, target, lines.turn, lines.result_scale)
        if lines.is_even and lines.kind is not TransformKind.REAL:
            pairs = lines.complex_length // 2
            add_untangle(self.chain, lines, count=pairs)
            if lines.kind is TransformKind.WHOLE:
                add_mirror(self.chain, lines, count=(lines.length - 1) // 2)

    def _operand(self) -> RowLayout:
        """The rows of the matrix, where they lie or as they are made."""
        lines, square = self.lines, self.square
        if lines.kind is TransformKind.REAL:
            width = self.lanes.width(square.columns)
            target = self.chain.free_rows(width)
            numbers = {"rows": square.rows, "row_length": square.columns, "columns": square.columns}
            add_spectrum(self.chain, lines, target, numbers)
            return target
        real = lines.kind is not TransformKind.COMPLEX
        form = ColumnForm.REALS if real and not lines.is_even else ColumnForm.NUMBERS
        each = 1 if form is ColumnForm.REALS else 2
        given = lines.given * (1 if real else 2)
        whole = square.rows * square.columns * each
        limit = Limit(given, square.columns * each) if given < whole else None
        item = each * self.lanes.scalar.nbytes
        return RowLayout(SOURCE, 0, square.columns * item, form, limit)

    def _result(self) -> RowLayout:
        """The rows that are left: those of the turned matrix, unless it was turned twice."""
        lines, square = self.lines, self.square
        width = square.columns if square.is_convolution else square.rows
        form = (
            ColumnForm.REALS
            if lines.kind is TransformKind.REAL and not lines.is_even
            else ColumnForm.NUMBERS
        )
        each = 1 if form is ColumnForm.REALS else 2
        count = lines.complex_length
        if lines.kind is TransformKind.HALF and not lines.is_even:
            count = lines.half
        limit = Limit(count * each, width * each) if count < square.rows * square.columns else None
        item = each * self.lanes.scalar.nbytes
        return RowLayout(TARGET, 0, width * item, form, limit)

    def _transform(
        self,
        source: RowLayout,
        target: RowLayout | None,
        turn: float = 1.0,
        scale: Scale = UNSCALED,
        *,
        turned: bool = False,
    ) -> RowLayout:
        """The transform of a matrix, or of the `turned` one."""
        chain, lanes = self.chain, self.lanes
        rows, columns = self.square.rows, self.square.columns
        if turned:
            rows, columns = columns, rows
        found = chain.add_passes(
            passes_of(rows).factors,
            source,
            None,
            lanes.blocks(columns),
            columns=columns,
            turn=turn,
        )
        other = chain.free_rows(lanes.width(rows))
        chain.add(
            turn_library(lanes.scalar),
            TURN,
            source=found.cell,
            source_at=found.at,
            source_row=found.nbytes,
            target=other.cell,
            target_at=other.at,
            target_row=other.nbytes,
            row_blocks=lanes.blocks(rows),
            blocks=lanes.blocks(columns),
            factors=turn_factors(rows, columns, lanes),
        )
        return chain.add_passes(
            passes_of(columns).factors,
            other,
            target,
            lanes.blocks(rows),
            columns=rows,
            scale=scale,
        )

    def _convolve(self, source: RowLayout, target: RowLayout) -> None:
        """A convolution with the chirp, which is a product of longer transforms."""
        lines, square, lanes = self.lines, self.square, self.lanes
        rows, columns = square.rows, square.columns
        n, longer = square.length, rows * columns
        waves = np.zeros(longer, np.clongdouble)
        waves[:n] = chirp(n)
        table = block_table(waves.reshape(rows, columns), lanes)
        turn = lines.turn if source.cell == SOURCE else 1.0
        first = self._weigh(source, None, rows, columns, table, turn)
        found = self._transform(first, None)
        weights = (filter_of(n, longer) / longer).reshape(columns, rows)
        product = self._weigh(found, None, columns, rows, block_table(weights, lanes), -1.0)
        found = self._transform(product, None, turned=True)
        self._weigh(found, target, rows, columns, table, -1.0, lines.result_scale)

    def _weigh(
        self,
        source: RowLayout,
        target: RowLayout | None,
        rows: int,
        columns: int,
        table: ConstantTable,
        turn: float,
        scale: Scale = UNSCALED,
    ) -> RowLayout:
        """Each number, conjugated where `turn` is -1, times its own factor."""
        chain = self.chain
        there = chain.free_rows(self.lanes.width(columns)) if target is None else target
        chain.add_pass(
            1,
            (rows, 1),
            source,
            there,
            columns=columns,
            factors=(Factors.BLOCKS, table),
            turn=turn,
            scale=scale,
        )
        return there


# ------------------------------------------------------------- halves, in rows


def chunk_of(lines: AxisTransforms) -> int:
    """How many neighbours share a factor of the table of factors that are far apart."""
    pairs = max(lines.length // 4, 1)
    return lines.lanes.pad(max(int(pairs**0.5), 1))


def add_untangle(chain: Chain, lines: AxisTransforms, *, count: int = 0, per_tile: int = 0) -> None:
    """The first half of the transform of real numbers, from that of half as many complex ones."""
    lanes, n = lines.lanes, lines.length
    chunk = chunk_of(lines)
    chain.add(
        untangle_library(lanes.scalar),
        HALF,
        source=TARGET,
        target=TARGET,
        length=n // 2,
        count=count,
        per_tile=per_tile,
        chunk=chunk,
        near=neighbour_factors(n, chunk, lanes),
        far=spaced_factors(n, max(-(-(n // 4) // chunk), 1), chunk, 1, lanes),
        scale_re=bits(lines.scale / 2),
        scale_im=bits(lines.scale * lines.sign / 2),
    )


def add_mirror(chain: Chain, lines: AxisTransforms, *, count: int = 0, per_tile: int = 0) -> None:
    """The second half of the transform of real numbers, behind the first."""
    chain.add(
        mirror_library(lines.lanes.scalar),
        HALF,
        source=TARGET,
        target=TARGET,
        length=lines.length,
        count=count,
        per_tile=per_tile,
    )


def add_spectrum(
    chain: Chain, lines: AxisTransforms, target: RowLayout, numbers: dict[str, int]
) -> None:
    """The conjugated transform that real numbers of the first half of one come from, in blocks.

    `numbers` say which rows and columns of it are made.
    """
    lanes, n = lines.lanes, lines.length
    places = {"target": target.cell, "target_at": target.at, "target_row": target.nbytes}
    if not lines.is_even:
        library = extend_library(lanes.scalar)
        chain.add(library, HALF, source=SOURCE, **places, **numbers, length=n, limit=lines.given)
        return
    row_length = numbers["row_length"]
    chain.add(
        tangle_library(lanes.scalar),
        HALF,
        source=SOURCE,
        **places,
        **numbers,
        length=n // 2,
        limit=lines.given,
        near=neighbour_factors(n, row_length, lanes),
        far=spaced_factors(n, numbers["rows"], row_length, 0, lanes),
    )
