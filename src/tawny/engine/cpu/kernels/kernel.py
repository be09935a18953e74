"""What generators of kernels take and give."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, SupportsIndex, final

import numpy as np

from tawny.dtype import DType
from tawny.engine.llvm.ir.values import I64, PTR
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
    """How an array lies in memory: strides are in bytes, 0 along repeated axes."""

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
