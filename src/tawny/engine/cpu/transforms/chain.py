"""Stages one after another: what they read and write, in a worker's scratch memory or outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, SupportsIndex

from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.transforms.gathers import CLEAR, clear_library
from tawny.engine.cpu.transforms.lanes import Lanes
from tawny.engine.cpu.transforms.passes import PASS, ColumnForm, Factors, PassCode, pass_library
from tawny.engine.cpu.transforms.roots import pass_factors
from tawny.engine.cpu.transforms.stage import ROOM, ConstantTable, StageCall, bits
from tawny.engine.llvm.runtime.library import Library


class Limit(NamedTuple):
    """A number of elements, where a row and a tile have some number of them each."""

    elements: int
    row: int
    tile: int = 0


class RowLayout(NamedTuple):
    """Rows in memory: a cell of the frame, bytes from there, bytes of a row, and their form."""

    cell: int
    at: int
    nbytes: int
    form: ColumnForm = ColumnForm.BLOCKS
    limit: Limit | None = None


class Scale(NamedTuple):
    """The factors of real and imaginary parts of results."""

    re: float = 1.0
    im: float = 1.0


UNSCALED: Final = Scale()


@dataclass
class Chain:
    """Stages one after another; what is between them lies in one half of the room or the other."""

    lanes: Lanes
    half: int
    """Bytes of half of the room."""
    between: int = 0
    """Bytes from a row of real parts to that of the imaginary ones, in the program's memory."""
    stages: list[StageCall] = field(default_factory=list[StageCall])
    _next: int = 0

    @property
    def room(self) -> int:
        """Bytes of scratch memory."""
        return 2 * self.half

    def free_rows(self, nbytes: int) -> RowLayout:
        """Rows of blocks in the half that is not in use, which is in use from then on."""
        at, self._next = self._next, self.half - self._next
        return RowLayout(ROOM, at, nbytes)

    def add(self, library: Library, names: Names, **numbers: SupportsIndex) -> None:
        """Add a stage; numbers that are not given are 0."""
        zeros: dict[str, SupportsIndex] = dict.fromkeys(names.names, 0)
        self.stages.append(StageCall(library, names.values({**zeros, **numbers})))

    def clear(self, rows: RowLayout, first: int, end: int) -> None:
        """Fill rows with zeros."""
        vectors = (end - first) * rows.nbytes // self.lanes.nbytes
        if vectors > 0:
            at = rows.at + first * rows.nbytes
            library = clear_library(self.lanes.scalar)
            self.add(library, CLEAR, target=rows.cell, target_at=at, vectors=vectors)

    def add_pass(
        self,
        radix: int,
        counts: tuple[int, int],
        source: RowLayout,
        target: RowLayout,
        *,
        columns: int,
        factors: tuple[Factors, ConstantTable | None] = (Factors.NONE, None),
        turn: float = 1.0,
        scale: Scale = UNSCALED,
    ) -> None:
        """Add a pass of `counts` butterflies on rows of a number of columns."""
        kind, table = factors
        limited = source.limit is not None, target.limit is not None
        code = PassCode(radix, self.lanes.scalar, source.form, target.form, kind, *limited)
        numbers: dict[str, SupportsIndex] = {}
        for name, rows in (("source", source), ("target", target)):
            limit = Limit(0, 0) if rows.limit is None else rows.limit
            numbers |= {
                name: rows.cell,
                f"{name}_at": rows.at,
                f"{name}_row": rows.nbytes,
                f"{name}_unit": limit.row,
                f"{name}_tile": limit.tile,
                f"{name}_limit": limit.elements,
            }
        self.add(
            pass_library(code),
            PASS,
            **numbers,
            p_count=counts[0],
            q_count=counts[1],
            columns=columns,
            between=self.between,
            factors=0 if table is None else table,
            turn=bits(turn),
            scale_re=bits(scale.re),
            scale_im=bits(scale.im),
        )

    def add_passes(
        self,
        factors: Sequence[int],
        source: RowLayout,
        target: RowLayout | None,
        blocks: int,
        *,
        columns: int = 0,
        turn: float = 1.0,
        scale: Scale = UNSCALED,
    ) -> RowLayout:
        """Add the passes of a length with these factors, for rows of a number of blocks.

        In the program's memory a row has `columns`; if they are 0, the frame counts them.
        """
        lanes, length, done = self.lanes, math.prod(factors), 1
        for number, radix in enumerate(factors or (1,)):
            after = length // (done * radix)
            there = target if target is not None and after == 1 else None
            if there is None:
                there = self.free_rows(blocks * lanes.block)
            table = pass_factors(radix, after, lanes) if after > 1 else None
            counts, width, rows = (after, done), columns, (source, there)
            if source.form is there.form is ColumnForm.BLOCKS:
                width = blocks * lanes.count
                if source.nbytes == there.nbytes == blocks * lanes.block:
                    # All rows of one counter follow each other: they are one.
                    counts, width = (after, 1), width * done
                    wide = done * source.nbytes
                    rows = source._replace(nbytes=wide), there._replace(nbytes=wide)
            self.add_pass(
                radix,
                counts,
                *rows,
                columns=width,
                factors=(Factors.NONE if table is None else Factors.ROWS, table),
                turn=turn if number == 0 else 1.0,
                scale=scale,
            )
            source, done = there, done * radix
        return source
