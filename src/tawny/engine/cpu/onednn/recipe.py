"""Recipes: primitives that run one after another, as a kernel of the engine."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import index
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tawny.engine.cpu.kernel_table import Kernel, Preparation
from tawny.engine.cpu.kernels.kernel import CompiledKernel
from tawny.engine.cpu.onednn.code import (
    ALONE,
    COMPUTES,
    COPIES,
    LIBRARY,
    MOST_ARGUMENTS,
    MOST_CELLS,
    OPENMP,
    SHARED,
    interpreter,
)
from tawny.engine.cpu.onednn.library import UNIMPLEMENTED, RefusedError
from tawny.engine.cpu.onednn.primitive import (
    SCRATCHPAD,
    SOURCE,
    TARGET,
    Descriptor,
    Primitive,
    library,
    reorder,
)
from tawny.engine.cpu.threads.pool import pool_of
from tawny.engine.llvm.runtime.library import MachineCode
from tawny.node import Value

PROVIDER: Final = "oneDNN"
LINE: Final = 64
"""Bytes of a cache line, with which every piece of memory begins."""

Cells = npt.NDArray[np.int64]

NO_CELL: Final = -1
"""A place that is a number."""


class RowPlace(NamedTuple):
    """A piece of memory: the cell of the row with its address, and the bytes from there."""

    cell: int
    offset: int = 0


class Call(NamedTuple):
    """A primitive and where its arguments are, or a kernel of ours and the cells of its row."""

    what: Primitive | CompiledKernel
    places: Mapping[int, RowPlace]
    kind: int

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory that it needs while it runs."""
        return self.what.scratch


@dataclass
class Recipe:
    """Primitives over a row of addresses: first the operands, then one result."""

    operands: int
    threads: int
    calls: list[Call] = field(default_factory=list[Call])
    prepared: list[tuple[int, Preparation]] = field(default_factory=list[tuple[int, Preparation]])
    rooms: int = 0
    """Bytes of scratch memory for what is between primitives."""

    @property
    def result(self) -> RowPlace:
        """Where the result lies."""
        return RowPlace(self.operands)

    def room(self, nbytes: int) -> RowPlace:
        """New scratch memory."""
        start = self.rooms
        self.rooms += -(-nbytes // LINE) * LINE
        return RowPlace(self.operands + 1, start)

    def run(
        self, primitive: Primitive, places: Mapping[int, RowPlace], *, copies: bool = False
    ) -> None:
        """Add a primitive."""
        self.calls.append(Call(primitive, places, COPIES if copies else COMPUTES))

    def finish(self, code: CompiledKernel) -> None:
        """Add a kernel of ours that reads the result and writes it anew."""
        cells = [self.result, self.result, *[RowPlace(NO_CELL, index(n)) for n in code.parameters]]
        if code.scratch or len(cells) > MOST_ARGUMENTS:
            raise RefusedError("a kernel of ours with such a row", UNIMPLEMENTED)
        kind = SHARED if code.parallel and self.threads > 1 else ALONE
        self.calls.append(Call(code, dict(enumerate(cells)), kind))

    def arrange(
        self, operand: int, lies: Descriptor, wanted: Descriptor, *, constant: bool
    ) -> RowPlace:
        """An operand as a primitive wants it: copied before the run, or in every one."""
        if lies.same(wanted):
            return RowPlace(operand)
        if constant:
            self.prepared.append((operand, Arrangement(lies, wanted)))
            return RowPlace(operand)
        place = self.room(wanted.nbytes)
        self.run(reorder(lies, wanted), {SOURCE: RowPlace(operand), TARGET: place})
        return place

    def kernel(self) -> Kernel:
        """The kernel that carries the recipe out."""
        scratch = self.rooms + max(call.scratch for call in self.calls)
        cells = self.operands + 1 + (scratch > 0)
        if cells > MOST_CELLS:
            raise ValueError(f"{cells} addresses; at most {MOST_CELLS} are possible")
        text = self._cells()
        code = interpreter()
        kept = MachineCode(code.addresses, (code, text, tuple(self.calls)), (), 0)
        return Kernel(
            kept,
            f"execute{cells}",
            (self.threads, address(text), pool_of(self.threads).resting, 0),
            scratch=scratch,
            prepared=tuple(self.prepared),
            fallible=True,
            provider=PROVIDER,
        )

    def _cells(self) -> Cells:
        """The recipe as the compiled function reads it."""
        pad = RowPlace(self.operands + 1, self.rooms)
        cells = [address(_functions()), len(self.calls)]
        for what, given, kind in self.calls:
            if isinstance(what, Primitive):
                places = {**given, SCRATCHPAD: pad} if what.scratch else given
                memory = {argument: what.memory[argument].value for argument in places}
                cells.append(what.value)
            else:
                places, memory = given, dict.fromkeys(given, 0)
                cells.append(what.library.address(what.symbol))
            cells += [kind, len(places)]
            for argument, place in places.items():
                cells += [argument, memory[argument], *place]
        return np.array(cells, np.int64)


@cache
def _functions() -> Cells:
    """The table of functions that the compiled function calls."""
    c = library()
    places = [*map(c.place, LIBRARY), *map(c.openmp_place, OPENMP), c.engine, c.stream]
    return np.array(places, np.int64)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Brings an operand that is known before the run to where a primitive wants its elements."""

    lies: Descriptor
    wanted: Descriptor

    @property
    def nbytes(self) -> int:
        """Bytes of what it makes."""
        return self.wanted.nbytes

    def __call__(self, array: Value) -> Value:
        """A copy of an array, which lies as it was said."""
        target = aligned_bytes(self.nbytes)
        recipe = Recipe(1, 1)
        recipe.run(reorder(self.lies, self.wanted), {SOURCE: RowPlace(0), TARGET: RowPlace(1)})
        execute(recipe.kernel(), array, target)
        return target


def execute(kernel: Kernel, *arrays: npt.NDArray[Any]) -> None:
    """Run a kernel on its operands and result, with scratch memory of its own."""
    scratch = [aligned_bytes(kernel.scratch)] if kernel.scratch else []
    places = [address(array) for array in (*arrays, *scratch)]
    row = np.array([*places, *map(index, kernel.parameters)], np.int64)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kind(kernel.library.address(kernel.symbol))(address(row), 0, 1)
    if row[-1]:
        raise RuntimeError(f"oneDNN could not run a primitive: status {row[-1]}")


def aligned_bytes(nbytes: int) -> Value:
    """New bytes that begin with a cache line."""
    whole = np.empty(nbytes + LINE, np.uint8)
    start = -address(whole) % LINE
    return whole[start : start + nbytes]


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's first element lies."""
    place: int = array.__array_interface__["data"][0]
    return place
