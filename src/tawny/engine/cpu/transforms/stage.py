"""Stages: functions that a transform is made of, and what they are called with.

A stage is called with its numbers, which say where it reads and writes, and with a frame of
addresses that the kernel around the stages fills for each task.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from tawny.engine.cpu.kernels.kernel import Names, Numbers
from tawny.engine.llvm.ir.builder import F64, I64, PTR, Function, Type, Value
from tawny.engine.llvm.runtime.library import Library

STAGE: Final = {"numbers": PTR, "frame": PTR}
"""Arguments of a stage."""

SYMBOL: Final = "stage"

SOURCE, TARGET, ROOM, SHARED, COUNT, TILE = range(6)
"""Cells of a frame: where the task's part of the operand begins, and that of the result, the
worker's own scratch memory, that of all workers, how many columns there are, and which tile of them
it is."""

FRAME: Final = 6
"""How many cells a frame has."""


class StageCall(NamedTuple):
    """A stage and its numbers."""

    library: Library
    numbers: tuple[SupportsIndex, ...]


class ConstantTable:
    """Constants that stages read; the number is where they lie."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = np.require(values, requirements=("C", "A"))

    def __index__(self) -> int:
        place: int = self.values.__array_interface__["data"][0]
        return place

    @property
    def nbytes(self) -> int:
        """Bytes of the constants."""
        return self.values.nbytes


def bits(number: float) -> int:
    """A number for a stage: the bits of a float64."""
    found: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return found


class StageNumbers:
    """The numbers of a stage being written, and the addresses of its frame."""

    def __init__(self, f: Function, names: Names) -> None:
        self.f = f
        given, self.frame = f.arguments
        self._numbers = Numbers(f, names, given)

    def __getitem__(self, name: str) -> Value:
        return self._numbers[name]

    def cell(self, number: int) -> Value:
        """A number of the frame."""
        return self.f.cell(self.frame, number)

    def place(self, name: str) -> Value:
        """An address, which two numbers say: the cell of the frame, and how far it is from that."""
        base = self.f.load(PTR, self.f.element(self.frame, self[name], I64), 8)
        return self.f.offset(base, self[f"{name}_at"])

    def table(self, name: str) -> Value:
        """Where a table lies."""
        return self.f.convert("inttoptr", self[name], PTR)

    def real(self, name: str, scalar: Type) -> Value:
        """A real number."""
        number = self.f.bitcast(self[name], F64)
        return number if scalar == F64 else self.f.convert("fptrunc", number, scalar)
