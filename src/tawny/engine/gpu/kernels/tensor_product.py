"""Contractions by tensor cores: the kernels.

A block of warps computes a tile of the result.  Slices of both operands are copied to memory of the
block while earlier ones are multiplied; each warp has a part of the tile in registers.

A float32 number is the sum of two TF32 numbers and a rest beyond float32's accuracy; the products
of three of the four pairs, added up as float32, are as accurate as float32 is.  Such a sum is NaN
where an infinity is split, and where padding meets one: sums that are NaN are added up once more,
product by product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tawny.engine.gpu.kernels.contraction import Contraction
from tawny.engine.gpu.kernels.copies import offset_of
from tawny.engine.gpu.kernels.product_slices import (
    FIRST_AXIS,
    OperandPlaces,
    ProductState,
    SliceCopier,
    shared_bytes,
    sum_row,
)
from tawny.engine.gpu.kernels.product_sums import (
    ResultPlaces,
    apply_endings,
    load_neighbours,
    sum_launch,
)
from tawny.engine.gpu.kernels.tiles import ITEM, TensorStructure, tensor_product
from tawny.engine.gpu.kernels.warp import (
    WARP,
    end_copies,
    multiply,
    nearest_tf32,
    wait_for_copies,
)
from tawny.engine.gpu.launch import KernelCode, Launch, grid_kernel
from tawny.engine.llvm.ir import bfloat16
from tawny.engine.llvm.ir.builder import F32, I32, Function, Module, Value
from tawny.engine.llvm.ir.places import coordinates

AT_ONCE: Final = {1: 8, 4: 4}
"""Rows of which a thread reads and stores elements at a time, by its neighbours along a row."""


def tensor_launches(
    found: Contraction, aligned: Sequence[bool], precision: str | None, result: int
) -> tuple[tuple[Launch, ...], int] | None:
    """The launches that compute operands 0 and 1 into a result, and their bytes of scratch memory.

    None where tensor cores do not compute it.
    """
    product = tensor_product(found, aligned, precision)
    if product is None:
        return None
    structure, numbers = product.structure, product.numbers
    read = tuple([e.operand for e in found.endings if e.operand is not None])
    shared, threads = shared_bytes(structure), structure.tile.threads
    if product.parts == 1:
        code = KernelCode(write_product, structure, long=True, shared=shared)
        whole = Launch(code, (0, 1, *read, result), numbers, product.blocks, threads)
        return (whole,), 0
    code = KernelCode(write_product, structure._replace(endings=()), long=True, shared=shared)
    own = numbers[: len(numbers) - len(read) * (1 + sum(structure.axes[:3]))]
    scratch = result + 1
    parts = Launch(code, (0, 1, scratch), own, product.blocks, threads)
    return (parts, sum_launch(product, (*read, result, scratch))), product.scratch


def write_product(module: Module, name: str, structure: TensorStructure) -> None:
    """Write the kernel of a product."""
    stack, rows, columns, depth = structure.axes
    count = FIRST_AXIS + 4 * stack + 3 * (rows + columns + depth) + 5 * len(structure.windows)
    read = sum([e.has_operand for e in structure.endings])
    count += read * (1 + stack + rows + columns)
    with grid_kernel(module, name, 3 + read, count) as grid:
        _ProductWriter(grid, structure).write()


class _ProductWriter(ProductState):
    """Writes a kernel that has a tile of the result for each block."""

    def write(self) -> None:
        """Compute a tile."""
        f, tile = self.f, self.tile
        across = (self.column_count + (tile.columns - 1)).unsigned_over(tile.columns)
        down = (self.row_count + (tile.rows - 1)).unsigned_over(tile.rows)
        number = self.grid.register("ctaid")
        self.first_column = number.unsigned_rest(across) * tile.columns
        number = number.unsigned_over(across)
        self.first_row = number.unsigned_rest(down) * tile.rows
        number = number.unsigned_over(down)
        if self.structure.has_parts:
            self.part = number.unsigned_rest(self.numbers.parts)
            number = number.unsigned_over(self.numbers.parts)
            self.begin = self.part * self.numbers.chunk
            self.end = f.minimum(self.depth_count, self.begin + self.numbers.chunk)
        self._enter_stack(number)
        totals = self._multiply_slices()
        wait_for_copies(f, 0)
        self.grid.barrier()
        self._keep_sums(totals)
        self.grid.barrier()
        self._store()

    def _enter_stack(self, number: Value) -> None:
        """Move on to the operands of one product of the stack."""
        f, own = self.f, self.numbers
        self.product = number
        a, b, c = (
            f.offset(base, start)
            for base, start in zip((self.a, self.b, self.c), own.wide_starts, strict=True)
        )
        places = [self.grid.widen(n) for n in coordinates(number, [x[0] for x in own.stack])]
        for at, (_, a_step, b_step, c_step) in zip(places, own.wide_stack, strict=True):
            a, b, c = f.offset(a, at * a_step), f.offset(b, at * b_step), f.offset(c, at * c_step)
        self.a, self.b = a, b
        if not self.structure.has_parts:
            self.c = c
        self.read = [
            f.offset(base, offset_of(places, steps, start))
            for base, (start, *steps) in zip(self.read, own.wide_ends, strict=True)
        ]

    # -------------------------------------------------------------------- slices

    def _multiply_slices(self) -> list[Value]:
        """Go along the depth; gives the sums that this thread has."""
        f, tile = self.f, self.tile
        copy_a = SliceCopier(self, 0, self.structure.a)
        copy_b = SliceCopier(self, 1, self.structure.b)
        for stage in range(tile.stages - 1):
            base = f.offset(self.shared, stage * self.stage_bytes)
            depth = self.begin + stage * tile.depth
            copy_a.copy(base, depth)
            copy_b.copy(base, depth)
            end_copies(f)
        zero, count = f.constant(F32, 0.0), tile.warp_rows * tile.warp_columns // WARP
        whole = tile.stages * self.stage_bytes
        places = [f.constant(I32, 0), f.constant(I32, (tile.stages - 1) * self.stage_bytes)]
        step = f.constant(I32, tile.depth)
        with f.loop(self.begin, self.end, step, carried=[*places, *[zero] * count]) as loop:
            now, then, *totals = loop.carried
            wait_for_copies(f, tile.stages - 2)
            self.grid.barrier()
            base, depth = self.in_shared(then), loop.index + (tile.stages - 1) * tile.depth
            copy_a.copy(base, depth)
            copy_b.copy(base, depth)
            end_copies(f)
            totals = self._multiply_slice(self.in_shared(now), totals)
            after = [n + self.stage_bytes for n in (now, then)]
            after = [f.select(n.equals(whole), 0, n) for n in after]
            loop.carry(*after, *totals)
        return loop.carried[2:]

    def _multiply_slice(self, base: Value, totals: list[Value]) -> list[Value]:
        """Add the products of one slice."""
        tile, found = self.tile, list(totals)
        down, across = tile.warp_rows // 16, tile.warp_columns // 8
        corner = self._warp_corner()
        lanes = [self._lane_place(n, base, first) for n, first in enumerate(corner)]
        for k in range(0, tile.depth, 8):
            halves = [(q, h) for q in range(2) for h in range(2)]
            left = [
                [self._factor(0, lanes[0], 16 * i + 8 * h, k + 4 * q) for q, h in halves]
                for i in range(down)
            ]
            for j in range(across):
                right = [self._factor(1, lanes[1], 8 * j, k + 4 * q) for q in range(2)]
                for i in range(down):
                    at = 4 * (i * across + j)
                    found[at : at + 4] = self._add_products(left[i], right, found[at : at + 4])
        return found

    def _warp_corner(self) -> tuple[Value, Value]:
        """The first row and column of the warp's part of the tile."""
        tile = self.tile
        down = self.warp.unsigned_rest(tile.warps_down)
        return down * tile.warp_rows, self.warp.unsigned_over(tile.warps_down) * tile.warp_columns

    def _lane_place(self, operand: int, base: Value, first: Value) -> Value:
        """Where the first element lies that this thread multiplies."""
        own = self.slices[operand]
        offset = (first + self.group) * own.line_step + self.member * own.depth_step + own.begin
        return self.f.offset(base, self.grid.widen(offset))

    def _factor(self, operand: int, lane: Value, line: int, depth: int) -> tuple[Value, Value]:
        """A number's nearest TF32 number, and the rest, where it is needed."""
        f, own = self.f, self.slices[operand]
        place = f.offset(lane, line * own.line_step + depth * own.depth_step)
        number = f.load(F32, place)
        if self.structure.precision == "bfloat16":
            near = f.convert("zext", f.bits(bfloat16.narrow(f, number)), I32) << 16
        else:
            near = nearest_tf32(f, number)
        if self.structure.precision is not None:
            return near, near
        return near, f.bitcast(number - f.bitcast(near, F32), I32)

    def _add_products(
        self,
        a: Sequence[tuple[Value, Value]],
        b: Sequence[tuple[Value, Value]],
        totals: Sequence[Value],
    ) -> list[Value]:
        """Products of small tiles added to sums, the smallest first.

        Tensor cores cut sums off where float32 rounds them: long sums are added up elsewhere.
        """
        f = self.f
        if self.structure.precision is not None:
            return multiply(f, [x[0] for x in a], [x[0] for x in b], totals)
        found = [f.constant(F32, 0.0)] * 4
        for i, j in ((1, 0), (0, 1), (0, 0)):
            found = multiply(f, [x[i] for x in a], [x[j] for x in b], found)
        return [total + one for total, one in zip(totals, found, strict=True)]

    # ---------------------------------------------------------------------- sums

    def _sum_place(self, number: Value) -> tuple[Value, Value]:
        """The row and column in the tile of one of this thread's sums."""
        across = self.tile.warp_columns // 8
        which, of_tile = number & 3, number.shifted_down(2)
        down, right = of_tile.unsigned_over(across), of_tile.unsigned_rest(across)
        row, column = self._warp_corner()
        row = row + down * 16 + self.group + which.shifted_down(1) * 8
        return row, column + right * 8 + self.member * 2 + (which & 1)

    def _keep_sums(self, totals: Sequence[Value]) -> None:
        """Write this thread's sums to memory of the block; those that are NaN, found anew."""
        f, row_bytes = self.f, sum_row(self.structure)
        row, column = self._warp_corner()
        place = (row + self.group) * row_bytes + (column + self.member * 2) * ITEM
        base = self.in_shared(place)
        across = self.tile.warp_columns // 8
        wrong = f.constant(I32, 0).differs(0)
        for n, total in enumerate(totals):
            which, tile = n % 4, n // 4
            at = (16 * (tile // across) + 8 * (which // 2)) * row_bytes
            at += (8 * (tile % across) + which % 2) * ITEM
            f.store(total, f.offset(base, at), ITEM if which % 2 else 2 * ITEM)
            wrong = wrong | total.differs(total)
        with (
            f.when(wrong),
            f.loop(f.constant(I32, 0), f.constant(I32, len(totals)), _one(f)) as loop,
        ):
            row, column = self._sum_place(loop.index)
            place = self.in_shared(row * row_bytes + column * ITEM)
            total = f.load(F32, place)
            with f.when(total.differs(total)):
                f.store(self._sum_again(row + self.first_row, column + self.first_column), place)

    def _sum_again(self, row: Value, column: Value) -> Value:
        """A sum of the products whose factors are there, one by one."""
        f = self.f
        left, right = OperandPlaces(self, 0), OperandPlaces(self, 1)
        a, b = left.line(row), right.line(column)
        zero = f.constant(F32, 0.0)
        with f.loop(self.begin, self.end, _one(f), carried=[zero]) as loop:
            (total,) = loop.carried
            (in_a, a_offset), (in_b, b_offset) = (
                operand.element(line, operand.depth(loop.index))
                for operand, line in ((left, a), (right, b))
            )

            def added() -> list[Value]:
                factors = [
                    f.load(F32, f.offset(base, self.sign_extended(offset)))
                    for base, offset in ((self.a, a_offset), (self.b, b_offset))
                ]
                return [f.fma(factors[0], factors[1], total)]

            loop.carry(*f.either(in_a & in_b, added, lambda: [total]))
        return loop.carried[0]

    # --------------------------------------------------------------------- store

    def _store(self) -> None:
        """Store the sums, and what endings make of them: a column for each thread, rows at once."""
        f, tile, each = self.f, self.tile, self.structure.store_each
        side = min(tile.threads, tile.columns // each)
        own_column, own_row = (self.thread & (side - 1)) * each, self.thread.unsigned_over(side)
        column = self.first_column + own_column
        ends = ResultPlaces(self, column)
        down = tile.threads // side
        rows = AT_ONCE[each] * down
        start, stop = f.constant(I32, 0), f.constant(I32, tile.rows)
        with f.when(column < self.column_count):
            ends.read_columns()
            with f.loop(start, stop, f.constant(I32, rows)) as loop:
                first = loop.index + own_row
                base = self.in_shared(first * sum_row(self.structure) + own_column * ITEM)
                with f.when(self.first_row + first < self.row_count):
                    self._store_rows(ends, first, base, down)

    def _store_rows(self, ends: ResultPlaces, first: Value, base: Value, step: int) -> None:
        """Store elements of some rows of a column, or of neighbouring ones."""
        f, each = self.f, self.structure.store_each
        last, count = self.row_count - 1, AT_ONCE[each]
        numbers = [self.first_row + first + step * n for n in range(count)]
        within = [f.minimum(n, last) for n in numbers]
        totals = [
            load_neighbours(f, f.offset(base, step * n * sum_row(self.structure)), each)
            for n in range(count)
        ]
        rows = [ends.row_places(n) for n in within]
        read = [ends.read(places) for places in rows]
        for number, own, places, operands in zip(numbers, totals, rows, read, strict=True):
            ended = [
                apply_endings(f, self.structure.endings, own[n], [o[n] for o in operands])
                for n in range(each)
            ]
            with f.when(number < self.row_count):
                place = ends.result(number, places)
                for n, value in enumerate(ended):
                    align = ITEM if n else each * ITEM
                    f.store(value, f.offset(place, n * ITEM), align)


def _one(f: Function) -> Value:
    return f.constant(I32, 1)
