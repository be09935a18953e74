"""Few rows times a matrix whose columns lie in memory one after another.

Each sum is made of as many partial sums as a vector has lanes, and some more to keep the machine
busy; they are added in one order in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tawny.codegen.builder import I64, PTR, Function, Module, Value
from tawny.codegen.element import Element
from tawny.codegen.kernel import Compiled
from tawny.codegen.library import Library, compiled
from tawny.codegen.products.epilogue import Ending, Places, finish
from tawny.codegen.products.matrices import Matrices
from tawny.codegen.products.row import Names, Numbers
from tawny.codegen.products.stack import offsets_of, shares, stack_size
from tawny.codegen.products.tile import Tile, spaced

MOST_ROWS: Final = 6
"""With more rows it is better to pack the right matrix."""

TOGETHER: Final = 4
"""Columns that are walked side by side."""

BUSY: Final = 12
"""Partial sums that do not wait for each other."""

_NUMBERS: Final = (
    "columns",
    "depth",
    "blocks",
    "a_row",
    "b_column",
    "c_row",
    "residual_row",
    "stack_axes",
)
"""What the code is told, before the axes of the stack."""


@dataclass(frozen=True, slots=True)
class DotForm:
    """All that the code depends on."""

    element: Element
    ending: Ending
    rows: int
    columns: int
    """How many columns are walked side by side."""
    operands: tuple[str, ...]

    @property
    def unroll(self) -> int:
        """Vectors of a column whose products are summed apart."""
        return max(BUSY // (self.rows * self.columns), 1)


def dot_kernel(
    element: Element,
    ending: Ending,
    matrices: Matrices,
    operands: tuple[str, ...],
    *,
    shared: bool,
) -> Compiled:
    """The kernel of products that are not too many rows high, with neighbours along their depth."""
    together = 1 << (min(TOGETHER, element.lanes, max(matrices.columns, 1)).bit_length() - 1)
    form = DotForm(element, ending, matrices.rows, together, operands)
    numbers = {
        **matrices.numbers,
        "blocks": -(-matrices.columns // element.lanes),
        "stack_axes": len(matrices.stack),
    }
    stack = [n for axis in matrices.stack for n in axis]
    return Compiled(_library(form), "kernel", (*Names(_NUMBERS).values(numbers), *stack), shared, 0)


@lru_cache(256)
def _library(form: DotForm) -> Library:
    module = Module()
    with module.function("kernel", {"row": PTR, "worker": I64, "workers": I64}) as f:
        _Dots(f, form).write()
    return compiled(module.text())


class _Dots:
    """What one worker computes."""

    def __init__(self, f: Function, form: DotForm) -> None:
        self.f = f
        self.form = form
        self.element = form.element
        self.row, self.worker, self.workers = f.arguments
        self.numbers = Numbers(f, Names(_NUMBERS), f.element(self.row, len(form.operands), I64))
        self.sums = f.room(form.rows * form.element.sum_bytes)

    def _address(self, name: str, offset: Value) -> Value:
        """A place in an operand; null for one there is not."""
        if name not in self.form.operands:
            return self.f.constant(PTR, 0)
        base = self.f.cell(self.row, self.form.operands.index(name), PTR)
        return self.f.advanced(base, offset)

    def write(self) -> None:
        """All blocks of columns of the worker, in order: as many as a vector has lanes."""
        f, n, lanes = self.f, self.numbers, self.element.lanes
        stack, axes = f.element(n.address, len(_NUMBERS), I64), n["stack_axes"]
        tasks = n["blocks"] * stack_size(f, stack, axes)
        first, last = shares(f, tasks, self.worker, self.workers)
        with f.loop(first, last) as task:
            start = task.index % n["blocks"] * lanes
            at = offsets_of(f, stack, axes, task.index // n["blocks"])
            count = f.minimum(n["columns"] - start, lanes)
            right = self._address("b", at.b + start * n["b_column"])
            with f.loop(0, count, self.form.columns) as group:
                columns = [
                    f.advanced(right, f.minimum(group.index + j, count - 1) * n["b_column"])
                    for j in range(self.form.columns)
                ]
                self._keep(self._dots(self._address("a", at.a), columns), group.index)
            moved = start * self.element.nbytes
            bias = at.bias if self.form.ending.constant_bias else at.bias + moved
            result, residual = (
                self._rows(name, offset + moved)
                for name, offset in (("c", at.c), ("residual", at.residual))
            )
            self._finish(Places(result, self._address("bias", bias), residual), count)

    def _rows(self, name: str, offset: Value) -> list[Value]:
        """The rows of the result or the residual; none of one there is not."""
        if name not in self.form.operands:
            return []
        return spaced(
            self.f, self._address(name, offset), self.numbers[f"{name}_row"], self.form.rows
        )

    def _keep(self, totals: Sequence[Value], column: Value) -> None:
        """Put the sums of some columns, row by row, where all of a block are."""
        f = self.f
        for i, total in enumerate(totals):
            row, j = divmod(i, self.form.columns)
            place = f.advanced(self.sums, row * self.element.sum_bytes)
            f.store(total, f.element(place, column + j, self.element.computed))

    def _finish(self, places: Places, count: Value) -> None:
        """The epilogue of a block of so many columns."""
        f, form, element = self.f, self.form, self.element
        nbytes = element.sum_bytes
        sums = [
            f.load(element.vector, f.advanced(self.sums, row * nbytes), nbytes)
            for row in range(form.rows)
        ]
        masks = [f.first_lanes(count, element.lanes)]
        finish(f, element, Tile(form.rows, 1, masked=True), form.ending, sums, places, masks)

    def _dots(self, left: Value, columns: Sequence[Value]) -> list[Value]:
        """The sums of products of each row with each column."""
        f, element, unroll = self.f, self.element, self.form.unroll
        rows = spaced(f, left, self.numbers["a_row"], self.form.rows)
        count, step = len(rows) * len(columns), unroll * element.lanes

        def added(
            sums: Sequence[Value], index: Value, vector: int, mask: Value | None = None
        ) -> list[Value]:
            """The sums with a vector of each row and column multiplied."""

            def loaded(base: Value) -> Value:
                place = f.element(base, index, element.stored)
                return element.load(f, f.advanced(place, vector * element.vector_bytes), mask)

            ours, theirs = [loaded(r) for r in rows], [loaded(c) for c in columns]
            pairs = [(a, b) for a in ours for b in theirs]
            return [
                element.multiply_add(f, a, b, total)
                for (a, b), total in zip(pairs, sums, strict=True)
            ]

        def split(sums: Sequence[Value]) -> list[Sequence[Value]]:
            return [sums[u * count : (u + 1) * count] for u in range(unroll)]

        depth = self.numbers["depth"]
        whole = depth - depth % step
        with f.loop(0, whole, step, carried=[element.zero(f)] * (count * unroll)) as loop:
            parts = enumerate(split(loop.carried))
            loop.carry(*[v for u, part in parts for v in added(part, loop.index, u)])
        sums, *others = split(loop.carried)
        for part in others:
            sums = [a + b for a, b in zip(sums, part, strict=True)]
        with f.loop(whole, depth, element.lanes, carried=sums) as rest:
            mask = f.first_lanes(depth - rest.index, element.lanes)
            rest.carry(*added(rest.carried, rest.index, 0, mask))
        return [_folded(f, total) for total in rest.carried]


def _folded(f: Function, vector: Value) -> Value:
    """The sum of a vector's lanes, halves first."""
    lanes = vector.type.lanes
    while lanes > 1:
        lanes //= 2
        lower = f.shuffle(vector, None, range(lanes))
        upper = f.shuffle(vector, None, range(lanes, 2 * lanes))
        vector = lower + upper
    return f.lane(vector, 0)
