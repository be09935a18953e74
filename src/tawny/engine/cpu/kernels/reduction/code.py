"""What the code of a reduction depends on, and how its elements are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import I32, I64, PTR, Function, Value
from tawny.engine.llvm.scalar.coordinates import COUNTER
from tawny.engine.llvm.scalar.numbers import (
    Number,
    compute_type,
    load_splat,
    load_vector,
    parts,
    storage_type,
    store_vector,
)
from tawny.engine.llvm.scalar.reduction_bodies import ReductionCode


class ReductionLayout(NamedTuple):
    """All that compiled code depends on, besides the items."""

    columns: bool
    """Whether lanes are rows of their own; otherwise a row is folded into lanes."""
    outer: int
    """Axes that are not folded, besides the one of the lanes."""
    inner: int
    """Axes that are folded, besides the one of the lanes."""
    steps: tuple[int | None, ...]
    """For each read and result the bytes from lane to lane; None where they are a parameter."""
    lanes: int
    unroll: int
    """Vectors that are walked at once."""
    parts: bool
    """Whether rows are cut."""
    ordered: bool
    """Whether the elements of a row are walked in their order."""
    recalls: bool
    """Whether walks over a row write down what later ones would compute again."""
    tile: int
    """Units that are walked side by side, a few elements of each at a time; 0 for one by one."""


Numbers = dict[int, Number]
"""The numbers that items hold."""


class RowValues:
    """A row, or a vector of rows side by side: where its arrays begin, and what belongs to it."""

    def __init__(self, bases: Sequence[Value], counts: Sequence[Value | None]) -> None:
        self.bases = bases
        """Where each read and result begins."""
        self.counts = counts
        """For each vector of rows how many of its lanes are rows; None where rows are scalars."""
        self.numbers: list[Numbers] = [{} for _ in counts]


class Arrays:
    """The row of a function being written: its reads, its results, and the loops over them."""

    def __init__(self, f: Function, code: ReductionCode, layout: ReductionLayout) -> None:
        self.f, self.layout = f, layout
        row, arity = f.arguments[0], code.arity
        nowhere = f.constant(PTR, 0)
        operands = [nowhere if i == COUNTER else f.cell(row, i, PTR) for i in code.operands]
        self.counters = [number for number, i in enumerate(code.operands) if i == COUNTER]
        """Reads whose elements are numbers of places, which are their addresses."""
        results = [f.cell(row, arity + i, PTR) for i in range(len(code.results))]
        self.bases = [*operands, *results]
        self.dtypes = [code.dtypes[i] for i in [*code.reads, *[i for i, _ in code.results]]]
        place = arity + len(results)
        if layout.parts:
            self.scratch = f.cell(row, place, PTR)
            place += 1

        def take(count: int) -> list[Value]:
            nonlocal place
            place += count
            return [f.cell(row, place - count + i) for i in range(count)]

        self.outer, self.inner = take(layout.outer), take(layout.inner)
        self.length, self.blocks, self.cut, self.pieces = take(4)
        moves = [(take(layout.outer), take(layout.inner), take(1)[0]) for _ in self.bases]
        self.outer_steps = [m[0] for m in moves]
        self.inner_steps = [m[1] for m in moves]
        self.steps = [m[2] for m in moves]
        self.units = self.blocks
        """Rows, or vectors of rows."""
        for n in self.outer:
            self.units = self.units * n

    def count(self, left: Value, vector: int) -> Value:
        """How many lanes of a vector are used where `left` elements begin with the first vector."""
        rest = self.f.minimum(left - vector * self.layout.lanes, self.layout.lanes)
        return self.f.maximum(rest, 0)

    def offset_bases(
        self, bases: Sequence[Value], places: Sequence[Value], steps: Sequence[Sequence[Value]]
    ) -> list[Value]:
        """Addresses moved on by places along some axes."""
        out = list(bases)
        for number, along in enumerate(steps):
            for place, step in zip(places, along, strict=True):
                out[number] = self.f.offset(out[number], place * step)
        return out

    def at(self, number: int, base: Value, index: Value | int) -> Value:
        """The address of an element along the lanes' axis of a read or result."""
        step = self.layout.steps[number]
        if step == 0:
            return base
        place = index if isinstance(index, Value) else self.f.constant(I64, index)
        return self.f.offset(base, place * (self.steps[number] if step is None else step))

    def load(self, number: int, address: Value, count: Value | None) -> Number:
        """A vector; lanes from `count` on hold anything."""
        f, dtype, lanes, step = (
            self.f,
            self.dtypes[number],
            self.layout.lanes,
            self.layout.steps[number],
        )
        if step == 0:
            return load_splat(f, dtype, address, lanes)
        if step is not None and count is None:
            return load_vector(f, dtype, address, lanes)
        buffer = f.stack_buffer(lanes * dtype.itemsize)
        if step is None:
            self._copy(
                dtype, address, self.steps[number], buffer, f.constant(I64, dtype.itemsize), count
            )
        else:
            assert count is not None
            type = storage_type(dtype).by(lanes * parts(dtype))
            mask = f.first_lanes(f.convert("trunc", count * parts(dtype), I32), type.lanes)
            f.store(f.masked_load(type, address, mask, f.constant(type, 0)), buffer)
        return load_vector(f, dtype, buffer, lanes)

    def coordinates(self, number: int, base: Value, index: Value | int, vector: int) -> Value:
        """Numbers of places in the lanes of the vector with a number, counted from an index.

        Vectors side by side differ by a constant, so that the first number is spread once.
        """
        f, lanes, step = self.f, self.layout.lanes, self.layout.steps[number]
        kind = compute_type(self.dtypes[number])

        def narrow(value: Value) -> Value:
            return f.splat(value if kind == I64 else f.convert("trunc", value, kind), lanes)

        first = narrow(f.convert("ptrtoint", self.at(number, base, index), I64))
        if step == 0:
            return first
        along = narrow(self.steps[number]) if step is None else first.of(step)
        return first + (f.counting(kind, lanes) + vector * lanes) * along

    def store(self, number: int, value: Number, address: Value, count: Value | None) -> None:
        """Write a vector, as far as `count` lanes."""
        f, dtype, lanes, step = (
            self.f,
            self.dtypes[number],
            self.layout.lanes,
            self.layout.steps[number],
        )
        if step is not None and count is None:
            store_vector(f, dtype, value, address)
            return
        buffer = f.stack_buffer(lanes * dtype.itemsize)
        store_vector(f, dtype, value, buffer)
        if step is None:
            self._copy(
                dtype, buffer, f.constant(I64, dtype.itemsize), address, self.steps[number], count
            )
            return
        assert count is not None
        type = storage_type(dtype).by(lanes * parts(dtype))
        mask = f.first_lanes(f.convert("trunc", count * parts(dtype), I32), type.lanes)
        f.masked_store(f.load(type, buffer), address, mask)

    def _copy(
        self,
        dtype: DType,
        source: Value,
        stride: Value,
        target: Value,
        step: Value,
        count: Value | None,
    ) -> None:
        """Copy elements one by one."""
        f, kind = self.f, storage_type(dtype)
        with f.loop(0, self.layout.lanes if count is None else count) as loop:
            here, there = loop.index * stride, loop.index * step
            for part in range(parts(dtype)):
                offset = part * kind.nbytes
                value = f.load(kind, f.offset(source, here + offset))
                f.store(value, f.offset(target, there + offset))
