"""Rows of cells, by name: what kernels are called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tawny.engine.llvm.ir.builder import I64, Function, Value

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
