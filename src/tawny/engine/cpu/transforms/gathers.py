"""Stages for what lies anyhow, and for zeros."""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.transforms.lanes import Lanes
from tawny.engine.cpu.transforms.passes import ColumnForm
from tawny.engine.cpu.transforms.stage import COUNT, STAGE, SYMBOL, StageNumbers
from tawny.engine.llvm.ir.builder import Module, Type, Value
from tawny.engine.llvm.runtime.library import lazy_library

GATHER: Final = Names(
    (
        "source",
        "source_at",
        "source_row",
        "source_column",
        "target",
        "target_at",
        "target_row",
        "rows",
        "given",
        "between",
        "turn",
    )
)
"""Numbers of a gather: bytes from row to row and from column to column; of halves, how many rows
are given of real numbers, and the bytes between two of them; what imaginary parts are multiplied
by."""


@lazy_library
def gather_library(module: Module, scalar: Type, form: ColumnForm) -> None:
    """Numbers, reals or halves that lie anyhow, as blocks."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, GATHER), Lanes.of(scalar)
        source, target = given.place("source"), given.place("target")
        row_step, column_step = given["source_row"], given["source_column"]
        columns, turn = given.cell(COUNT), given.real("turn", scalar)
        reals, between, zero = given["given"], given["between"], f.constant(scalar, 0)

        def imaginary(place: Value, row: Value) -> Value:
            match form:
                case ColumnForm.NUMBERS:
                    return f.load(scalar, f.element(place, 1, scalar)) * turn
                case ColumnForm.HALVES:
                    is_given = row * 2 + 1 < reals
                    number = f.load(scalar, f.offset(place, f.select(is_given, between, 0)))
                    return f.select(is_given, number, zero)
                case _:
                    return zero

        with f.loop(0, given["rows"]) as row, f.loop(0, columns) as column:
            shift = row.index * row_step + column.index * column_step
            place = f.offset(source, shift)
            block = column.index.unsigned_over(lanes.count) * lanes.block
            lane = column.index.unsigned_rest(lanes.count)
            out = f.element(f.offset(target, row.index * given["target_row"] + block), lane, scalar)
            f.store(f.load(scalar, place), out)
            f.store(imaginary(place, row.index), f.offset(out, lanes.nbytes))


CLEAR: Final = Names(("target", "target_at", "vectors"))
"""Numbers of zeros: how many vectors of them."""


@lazy_library
def clear_library(module: Module, scalar: Type) -> None:
    """Zeros."""
    with module.function(SYMBOL, STAGE) as f:
        given, lanes = StageNumbers(f, CLEAR), Lanes.of(scalar)
        target, zero = given.place("target"), f.constant(lanes.vector, 0)
        with f.loop(0, given["vectors"]) as loop:
            f.store(zero, f.offset(target, loop.index * lanes.nbytes))
