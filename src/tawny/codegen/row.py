"""The row of cells a kernel is called with, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawny.codegen.builder import I64, PTR, Function, Value


class Cells:
    """Which cell of a row holds what: addresses first, then numbers."""

    def __init__(self, addresses: Sequence[str], numbers: Sequence[str]) -> None:
        self.numbers = tuple(numbers)
        self._pointers = frozenset(addresses)
        self._places = {name: i for i, name in enumerate([*addresses, *numbers])}

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def read(self, f: Function, row: Value, name: str) -> Value:
        """What the cell called `name` holds."""
        return f.cell(row, self._places[name], PTR if name in self._pointers else I64)

    def parameters(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """The numbers in their order."""
        return tuple([values[name] for name in self.numbers])


class Row:
    """A row inside a function: cells are read where they are asked for."""

    def __init__(self, f: Function, cells: Cells, address: Value) -> None:
        self.f = f
        self.cells = cells
        self.address = address

    def __getitem__(self, name: str) -> Value:
        return self.cells.read(self.f, self.address, name)
