"""Right matrices that are known before the run, packed once into the panels that tiles read."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tawny import pages
from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import CompiledKernel
from tawny.engine.cpu.products.blocking import Blocking
from tawny.engine.llvm.runtime.library import Address

Array = npt.NDArray[Any]


class Preparation(Protocol):
    """Makes the array that a kernel reads in place of its right matrix."""

    @property
    def nbytes(self) -> int:
        """Bytes of what it makes."""
        ...

    def __call__(self, array: Array) -> Array:
        """What a kernel reads in place of an array."""
        ...


class KernelWithPacking(NamedTuple):
    """A kernel, and what makes the array it reads in place of its right matrix, if any does."""

    code: CompiledKernel
    preparation: Preparation | None = None


@dataclass(frozen=True, slots=True)
class PanelPreparation:
    """Packs a kernel of (*window, channels, groups * outputs), or a matrix, as tiles read it.

    Panels of whole blocks of columns come first, then that of the rest; in each, blocks of channels
    follow each other, each with all taps.
    """

    element: Element
    blocking: Blocking
    taps: int
    channels: int
    groups: int
    outputs: int
    transposed: bool = False
    """Whether rows and columns of the array are to be exchanged first."""

    @property
    def group_bytes(self) -> int:
        """Bytes of a group's panels."""
        return self.blocking.prepared_bytes(self.element, self.taps * self.channels)

    @property
    def nbytes(self) -> int:
        """Bytes of all panels."""
        return self.groups * self.group_bytes

    def __call__(self, array: Array) -> Array:
        """The panels of an array."""
        if self.transposed:
            array = np.swapaxes(array, -1, -2)
        kernel = array.reshape(self.taps, self.channels, self.groups, self.outputs)
        panels = pages.empty((self.nbytes // array.dtype.itemsize,), array.dtype)
        for group, target in enumerate(panels.reshape(self.groups, -1)):
            self._pack(kernel[:, :, group], target)
        return panels

    def _pack(self, kernel: Array, target: Array) -> None:
        blocks, rest = self.blocking.blocks, self.blocking.rest
        width = self.blocking.full.tile.vectors * self.element.lanes
        length = self.taps * self.channels
        if not length:
            return
        whole = target[: blocks * length * width].reshape(blocks, length, width)
        tail = target[whole.size :].reshape(length, -1 if rest else 0)
        for lower, upper in self._depths():
            part = kernel[:, lower:upper]
            shape, rows = part.shape[:2], slice(self.taps * lower, self.taps * upper)
            columns = part[..., : blocks * width].reshape(*shape, blocks, width)
            whole[:, rows].reshape(blocks, *shape, width)[...] = np.moveaxis(columns, 2, 0)
            if rest:
                place = tail[rows].reshape(*shape, -1)
                place[..., :rest] = part[..., blocks * width :]
                place[..., rest:] = 0

    def _depths(self) -> list[tuple[int, int]]:
        """Blocks of channels, as the code cuts them."""
        count = self.blocking.depth_blocks
        bounds = [number * self.channels // count for number in range(count + 1)]
        return list(pairwise(bounds))


class Panel(NamedTuple):
    """A panel that compiled code packs: some columns of an array."""

    pack: Address
    """A function of numbers, source, target and how many columns there are."""
    source: int
    """Bytes from the first element of the array."""
    target: int
    """Bytes from the first of the panels."""
    columns: int


@dataclass(frozen=True, slots=True)
class CompiledPreparation:
    """Packs an array by the code that would pack it in every run."""

    numbers: tuple[int, ...]
    panels: tuple[Panel, ...]
    nbytes: int

    def __call__(self, array: Array) -> Array:
        """The panels of an array."""
        made = pages.empty((self.nbytes // array.dtype.itemsize,), array.dtype)
        numbers = np.array(self.numbers, np.int64)
        source, target = array.ctypes.data, made.ctypes.data
        for panel in self.panels:
            pack = _PACK(index(panel.pack))
            places = source + panel.source, target + panel.target
            pack(numbers.ctypes.data, *places, panel.columns)
        return made


_PACK: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
