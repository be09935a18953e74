"""Rows times a matrix whose columns lie in memory one after another, where neither is packed.

Each sum is made of as many partial sums as a vector has lanes, and some more to keep the machine
busy; they are added in one order in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import KERNEL, CompiledKernel, Names, Numbers
from tawny.engine.cpu.products.epilogue import TileAddresses, TileEpilogue, finish
from tawny.engine.cpu.products.matrices import Matrices
from tawny.engine.cpu.products.packing import lanes_of
from tawny.engine.cpu.products.sharing import Offsets, offsets_of, shares, stack_size
from tawny.engine.cpu.products.tile import RegisterTile, evenly_spaced
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.library import lazy_library

HEIGHT: Final = 6
"""The most rows that are walked side by side."""

TOGETHER: Final = 4
"""Columns that are walked side by side."""

BUSY: Final = 12
"""Partial sums that do not wait for each other."""

_NUMBERS: Final = (
    "columns",
    "depth",
    "blocks",
    "groups",
    "tall",
    "a_row",
    "b_column",
    "c_row",
    "residual_row",
    "scale_at",
    "stack_axes",
)
"""Numbers that compiled code reads, before the axes of the stack."""


@dataclass(frozen=True, slots=True)
class DotForm:
    """All that the code depends on."""

    element: Element
    epilogue: TileEpilogue
    rows: int
    """How many rows are walked side by side."""
    uneven: bool
    """Whether some groups of rows have one fewer."""
    columns: int
    """How many columns are walked side by side."""
    operands: tuple[str, ...]

    @property
    def unroll(self) -> int:
        """Vectors of a column whose products are summed apart."""
        return max(BUSY // (self.rows * self.columns * self.element.parts), 1)

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows of each group of rows, the tallest first."""
        return (self.rows, self.rows - 1) if self.uneven else (self.rows,)


def dot_kernel(
    element: Element,
    epilogue: TileEpilogue,
    matrices: Matrices,
    operands: tuple[str, ...],
    *,
    shared: bool,
    scale_at: int = 0,
) -> CompiledKernel:
    """The kernel of products that are not too many rows high, with neighbours along their depth."""
    together = 1 << (min(TOGETHER, element.lanes, max(matrices.columns, 1)).bit_length() - 1)
    groups = -(-matrices.rows // (HEIGHT // element.parts))
    height = -(-matrices.rows // groups)
    tall = matrices.rows - groups * (height - 1)
    form = DotForm(element, epilogue, height, tall < groups, together, operands)
    numbers = {
        **matrices.numbers,
        "groups": groups,
        "tall": tall,
        "blocks": -(-matrices.columns // element.lanes),
        "scale_at": scale_at,
        "stack_axes": len(matrices.stack),
    }
    stack = [n for axis in matrices.stack for n in axis]
    return CompiledKernel(
        _library(form), "kernel", (*Names(_NUMBERS).values(numbers), *stack), shared, 0
    )


@lazy_library
def _library(module: Module, form: DotForm) -> None:
    with module.function("kernel", KERNEL) as f:
        _DotWriter(f, form).write()


class _DotWriter:
    """Writes the kernel that computes one worker's rows and columns."""

    def __init__(self, f: Function, form: DotForm) -> None:
        self.f = f
        self.form = form
        self.element = form.element
        self.row, self.worker, self.workers = f.arguments
        self.numbers = Numbers(f, Names(_NUMBERS), f.element(self.row, len(form.operands), I64))
        self.sums = f.stack_buffer(form.rows * form.element.sum_bytes)

    def _address(self, name: str, offset: Value) -> Value:
        """A place in an operand; null for one there is not."""
        if name not in self.form.operands:
            return self.f.constant(PTR, 0)
        base = self.f.cell(self.row, self.form.operands.index(name), PTR)
        return self.f.offset(base, offset)

    def write(self) -> None:
        """All blocks of columns of the worker, in order: as many as a vector has lanes."""
        f, n, lanes = self.f, self.numbers, self.element.lanes
        stack, axes = f.element(n.address, len(_NUMBERS), I64), n["stack_axes"]
        tasks = n["blocks"] * stack_size(f, stack, axes)
        first, last = shares(f, tasks, self.worker, self.workers)
        with f.loop(first, last) as task:
            start = task.index % n["blocks"] * lanes
            at = offsets_of(f, stack, axes, task.index // n["blocks"])
            first_row = f.constant(I64, 0)
            bounds = f.constant(I64, 0), n["tall"], n["groups"]
            for height, begin, end in zip(self.form.heights, bounds, bounds[1:], strict=False):
                with f.loop(begin, end, carried=[first_row]) as group:
                    self._block(at, start, group.carried[0], height)
                    group.carry(group.carried[0] + height)
                (first_row,) = group.carried

    def _block(self, at: Offsets, start: Value, first: Value, height: int) -> None:
        """Some rows times a block of columns."""
        f, n, lanes = self.f, self.numbers, self.element.lanes
        count = f.minimum(n["columns"] - start, lanes)
        right = self._address("b", at.b + start * n["b_column"])
        left = self._rows("a", at.a, first, height)
        with f.loop(0, count, self.form.columns) as group:
            columns = [
                f.offset(right, f.minimum(group.index + j, count - 1) * n["b_column"])
                for j in range(self.form.columns)
            ]
            for row, totals in enumerate(self._dots(left, columns)):
                place = f.offset(self.sums, row * self.element.sum_bytes)
                index = group.index * self.element.parts
                f.store(totals, f.element(place, index, self.element.computed))
        moved = start * self.element.nbytes
        bias = at.bias if self.form.epilogue.constant_bias else at.bias + moved
        result, residual = (
            self._rows(name, offset + moved, first, height)
            for name, offset in (("c", at.c), ("residual", at.residual))
        )
        added = self._address("bias", bias)
        scale = f.offset(added, n["scale_at"]) if self.form.epilogue.parts.scaled else added
        self._finish(TileAddresses(result, added, scale, residual), count, height)

    def _rows(self, name: str, offset: Value, first: Value, height: int) -> list[Value]:
        """Some rows of an operand or the result; none of one there is not."""
        if name not in self.form.operands:
            return []
        step = self.numbers[f"{name}_row"]
        return evenly_spaced(self.f, self._address(name, offset + first * step), step, height)

    def _finish(self, places: TileAddresses, count: Value, height: int) -> None:
        """The epilogue of some rows of a block of `count` columns."""
        f, form, element = self.f, self.form, self.element
        nbytes = element.sum_bytes
        sums = [
            f.load(element.vector, f.offset(self.sums, row * nbytes), nbytes)
            for row in range(height)
        ]
        masks = [element.first(f, count)]
        finish(f, element, RegisterTile(height, 1, masked=True), form.epilogue, sums, places, masks)

    def _dots(self, rows: Sequence[Value], columns: Sequence[Value]) -> list[Value]:
        """For each row the sums of products with each column, made part by part of its elements."""
        f, element, unroll = self.f, self.element, self.form.unroll
        count, step = len(rows) * element.parts * len(columns), unroll * element.lanes

        def added(
            sums: Sequence[Value], index: Value, vector: int, mask: Value | None = None
        ) -> list[Value]:
            """The sums with a vector of each row and column multiplied."""

            def loaded(base: Value) -> Value:
                place = f.element(base, index, element.memory_type)
                return element.load(f, f.offset(place, vector * element.vector_bytes), mask)

            ours, theirs = [loaded(r) for r in rows], [loaded(c) for c in columns]
            pairs = [(p, b) for a in ours for p in element.vector_parts(f, a) for b in theirs]
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
            mask = element.first(f, depth - rest.index)
            rest.carry(*added(rest.carried, rest.index, 0, mask))
        many, found = len(columns), rest.carried
        totals = [found[i : i + many] for i in range(0, count, many)]
        if element.parts > 1:
            both = zip(totals[::2], totals[1::2], strict=True)
            totals = [
                [a + element.times_i(f, b) for a, b in zip(*pair, strict=True)] for pair in both
            ]
        return [fold_vectors(f, total, element.parts) for total in totals]


def fold_vectors(f: Function, vectors: Sequence[Value], parts: int = 1) -> Value:
    """The sum of each vector's elements, halves first; vectors are 1, 2, 4, 8 ...

    An element has some `parts`, side by side.
    """

    def halved(vector: Value, other: Value | None, sums: int) -> Value:
        """What is left of sums, in one vector or in two: the first half of each and the second."""
        length = vector.type.lanes // parts * (1 if other is None else 2) // sums
        lower = [s * length + i for s in range(sums) for i in range(length // 2)]
        upper = [i + length // 2 for i in lower]
        halves = [f.shuffle(vector, other, lanes_of(half, parts)) for half in (lower, upper)]
        return halves[0] + halves[1]

    found, sums = list(vectors), 1
    while len(found) > 1:
        sums *= 2
        found = [halved(a, b, sums) for a, b in zip(found[::2], found[1::2], strict=True)]
    (total,) = found
    while total.type.lanes > sums * parts:
        total = halved(total, None, sums)
    return total
