"""What generators of kernels take and give, and the rows of cells that kernels are called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, SupportsIndex, TypeVar, final

import numpy as np

from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Value
from tawny.engine.llvm.runtime.library import Library, MachineCode
from tawny.shape import Shape

KERNEL: Final = {"row": PTR, "worker": I64, "workers": I64}
"""Arguments of every kernel: its row of cells, and which of how many workers calls it."""


@final
class StopCell:
    """The address of a cell that is always 0: it tells kernels that could be stopped to go on.

    It is no plain number, since sizes and strides among the parameters could equal it.
    """

    def __init__(self) -> None:
        self._cell = np.zeros(1, np.int64)

    def __index__(self) -> int:
        place: int = self._cell.__array_interface__["data"][0]
        return place


NEVER: Final = StopCell()
"""A program puts the address of its own cell in its place."""


class ArrayLayout(Protocol):
    """The layout of an array in memory: strides are in bytes, 0 along repeated axes."""

    @property
    def shape(self) -> Shape: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...


class CompiledKernel(NamedTuple):
    """A compiled function of (row, worker, workers) and what its row holds after the addresses."""

    library: Library | MachineCode
    symbol: str
    parameters: tuple[SupportsIndex, ...]
    """Numbers; a function is an `Address`, which is a number once its code is made."""
    parallel: bool
    scratch: int
    """Bytes of scratch memory; its address comes after those of operands and results, if any."""


class KernelSequence(NamedTuple):
    """A compiled function, and those of its library that are called after it with the same row."""

    kernel: CompiledKernel
    after: tuple[tuple[str, bool], ...]
    """Their symbols, and whether workers share them."""


N = TypeVar("N")


class Names:
    """Cells in a row, each called by a name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._places = {name: i for i, name in enumerate(names)}
        if len(self._places) < len(self.names):
            raise ValueError(f"a name stands for two cells: {', '.join(names)}")

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> int:
        return self._places[name]

    def values(self, given: Mapping[str, N]) -> tuple[N, ...]:
        """Numbers in the order of their cells."""
        return tuple([given[name] for name in self.names])


class Numbers:
    """Integers in memory, read where they are asked for, once in each block of code."""

    def __init__(self, f: Function, names: Names, address: Value) -> None:
        self.f = f
        self.names = names
        self.address = address
        self._read: dict[tuple[str, str], Value] = {}

    def __getitem__(self, name: str) -> Value:
        place = self.f.current_block, name
        if place not in self._read:
            self._read[place] = self.f.cell(self.address, self.names[name], I64)
        return self._read[place]
