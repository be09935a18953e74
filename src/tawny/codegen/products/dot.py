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
from tawny.codegen.products.row import Addresses, Names, Numbers
from tawny.codegen.products.stack import bases_of, shares, stack_names
from tawny.codegen.products.tile import Tile, spaced

MOST_ROWS: Final = 6
"""With more rows it is better to pack the right matrix."""

TOGETHER: Final = 4
"""Columns that are walked side by side."""

BUSY: Final = 12
"""Partial sums that do not wait for each other."""


@dataclass(frozen=True, slots=True)
class DotForm:
    """All that the code depends on."""

    element: Element
    ending: Ending
    rows: int
    columns: int
    """How many columns are walked side by side."""
    stack: int

    @property
    def unroll(self) -> int:
        """Vectors of a column whose products are summed apart."""
        return max(BUSY // (self.rows * self.columns), 1)

    def names(self) -> Names:
        """The numbers it is told."""
        own = ("columns", "depth", "blocks", "a_row", "b_column", "c_row", "residual_row")
        return Names([*own, *stack_names(self.stack)])


def dot_kernel(
    element: Element,
    ending: Ending,
    matrices: Matrices,
    operands: tuple[str, ...],
    *,
    shared: bool,
) -> Compiled:
    """The kernel of products that are not too many rows high, with neighbours along their depth."""
    together = min(TOGETHER, element.lanes, max(matrices.columns, 1))
    together = 1 << (together.bit_length() - 1)
    form = DotForm(element, ending, matrices.rows, together, len(matrices.stack))
    numbers = matrices.numbers | {"blocks": -(-matrices.columns // element.lanes)}
    library = _library(form, operands)
    return Compiled(library, "kernel", form.names().values(numbers), shared, 0)


@lru_cache(256)
def _library(form: DotForm, operands: tuple[str, ...]) -> Library:
    module = Module()
    arguments = {"row": PTR, "worker": I64, "workers": I64}
    with module.function("kernel", arguments) as f:
        row, worker, workers = f.arguments
        addresses = Addresses(f, Names(operands), row)
        n = Numbers(f, form.names(), f.element(row, len(operands), I64))
        tasks = n["blocks"]
        for axis in range(form.stack):
            tasks = tasks * n[f"stack{axis}"]
        lanes, nbytes = form.element.lanes, form.element.nbytes
        sums = f.room(form.rows * form.element.sum_bytes)
        first, last = shares(f, tasks, worker, workers)
        with f.loop(first, last) as task:
            start = task.index % n["blocks"] * lanes
            bases = bases_of(f, addresses, n, form.stack, task.index // n["blocks"])
            count = f.minimum(n["columns"] - start, lanes)
            with f.loop(0, count, form.columns) as group:
                columns = [
                    f.advanced(
                        bases.right,
                        (start + f.minimum(group.index + j, count - 1)) * n["b_column"],
                    )
                    for j in range(form.columns)
                ]
                totals = _dots(f, form, n, bases.left, columns)
                _put(f, form, totals, sums, group.index)
            offset = start * nbytes
            places = Places(
                spaced(f, f.advanced(bases.result, offset), n["c_row"], form.rows),
                bases.bias if form.ending.constant_bias else f.advanced(bases.bias, offset),
                spaced(f, f.advanced(bases.residual, offset), n["residual_row"], form.rows)
                if form.ending.epilogue.residual
                else (),
            )
            tile = Tile(form.rows, 1, masked=True)
            found = [
                f.load(form.element.vector, f.advanced(sums, r * form.element.sum_bytes), 64)
                for r in range(form.rows)
            ]
            finish(f, form.element, tile, form.ending, found, places, [f.first_lanes(count, lanes)])
    return compiled(module.text())


def _put(f: Function, form: DotForm, totals: Sequence[Value], room: Value, column: Value) -> None:
    """Write the sums of some columns, row by row."""
    for i, total in enumerate(totals):
        row, j = divmod(i, form.columns)
        place = f.advanced(room, row * form.element.sum_bytes)
        f.store(total, f.element(place, column + j, form.element.computed))


def _dots(
    f: Function, form: DotForm, n: Numbers, left: Value, columns: Sequence[Value]
) -> list[Value]:
    """The sums of products of each row with each column."""
    element, unroll = form.element, form.unroll
    lanes = element.lanes
    rows = spaced(f, left, n["a_row"], form.rows)
    count = form.rows * form.columns

    def added(
        sums: Sequence[Value], index: Value, vector: int, mask: Value | None = None
    ) -> list[Value]:
        """The sums with a vector of each row and column multiplied."""

        def loaded(base: Value) -> Value:
            place = f.element(base, index, element.stored)
            return element.load(f, f.advanced(place, vector * element.vector_bytes), mask)

        left_vectors, right_vectors = [loaded(r) for r in rows], [loaded(c) for c in columns]
        pairs = [(a, b) for a in left_vectors for b in right_vectors]
        return [
            element.multiply_add(f, a, b, total) for (a, b), total in zip(pairs, sums, strict=True)
        ]

    depth = n["depth"]
    step = unroll * lanes
    sums = [element.zero(f)] * (count * unroll)
    whole = depth - depth % step
    with f.loop(0, whole, step, carried=sums) as loop:
        parts = [loop.carried[u * count : (u + 1) * count] for u in range(unroll)]
        loop.carry(*[v for u, part in enumerate(parts) for v in added(part, loop.index, u)])
    parts = [loop.carried[u * count : (u + 1) * count] for u in range(unroll)]
    sums = parts[0]
    for part in parts[1:]:
        sums = [a + b for a, b in zip(sums, part, strict=True)]
    with f.loop(whole, depth, lanes, carried=sums) as rest:
        mask = f.first_lanes(depth - rest.index, lanes)
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
