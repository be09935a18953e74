"""Stable sorting along an axis, and searching.

Every thread finds the place of one element.  Chunks of a few elements are sorted by comparing all
with all; then neighbouring runs become one, again and again: an element's place is its place in its
own run, and how many of the other run come before it, which is searched for by halving.  What moves
are the numbers of elements within their row, from one half of the scratch memory to the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType, kind_of, real_dtype
from tawny.engine.blocks import CopyBlock
from tawny.engine.gpu.kernels.copies import copy_launch, move, offset_of
from tawny.engine.gpu.launch import (
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I32, I64, Function, Module, Value
from tawny.engine.llvm.ir.places import coordinates
from tawny.engine.llvm.scalar.expressions import primitive
from tawny.engine.llvm.scalar.numbers import Number, Pair, load_scalar, real
from tawny.scalar import Prim
from tawny.shape import contiguous_strides

CHUNK: Final = 32
"""Elements that are compared all with all."""

NUMBER_BYTES: Final = 4
"""Bytes of the number of an element within its row."""

MOST_ELEMENTS: Final = 1 << 31
"""A row of as many is left to the host."""


class SortStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    rank: int
    """Axes that are not sorted along."""
    reverse: bool
    """Whether greater elements come first, equal ones as they came."""
    merges: bool
    """Whether runs are merged; otherwise chunks are sorted."""
    writes: str
    """`numbers` of elements, for another pass, the `values` themselves, or their `places`."""
    flips: bool
    """Whether what is written last comes first."""


def sort_kernel(
    x: DeviceArray, axis: int, result: DeviceArray, *, places: bool, descending: bool
) -> GpuKernel | None:
    """The kernel that sorts values, or gives the places of elements in their order.

    None where the host must sort.
    """
    length, total = x.shape[axis], math.prod(x.shape)
    if not total:
        return GpuKernel(())
    if length >= MOST_ELEMENTS:
        return None
    others = [a for a in range(len(x.shape)) if a != axis]
    launches: list[Launch] = []
    scratch, where = 0, 0
    if not places:  # the result may be written over the operand
        steps = contiguous_strides(x.shape, x.dtype.itemsize)
        copy = copy_launch(CopyBlock(0, 0, x.shape, x.strides, 0, steps), x.dtype.itemsize, 2)
        assert copy is not None
        launches.append(copy)
        scratch, where = -(-total * x.dtype.itemsize // 16) * 16, 2
        x = DeviceArray(x.shape, steps, x.dtype)
    halves = [scratch, scratch + total * NUMBER_BYTES]
    widths = [0]
    while max(widths[-1], CHUNK) < length:
        widths.append(max(2 * widths[-1], CHUNK))
    plain = SortStructure(
        x.dtype, len(others), places and descending, False, "numbers", descending and not places
    )
    rows = [x.shape[a] for a in others]
    moves = [m.strides[a] for m in (x, result) for a in others]
    for number, width in enumerate(widths):
        last = number == len(widths) - 1
        structure = plain._replace(
            merges=width > 0, writes=("places" if places else "values") if last else "numbers"
        )
        numbers = [total, length, x.strides[axis], result.strides[axis]]
        numbers += [width, max(width, 1).bit_length(), halves[number % 2], halves[1 - number % 2]]
        launches.append(
            Launch(
                KernelCode(write_sort, structure),
                (where, 1, 2),
                (*numbers, *rows, *moves),
                blocks_for(total),
            )
        )
    return GpuKernel(tuple(launches), scratch + 2 * total * NUMBER_BYTES)


def write_sort(module: Module, name: str, structure: SortStructure) -> None:
    """Write the kernel of one pass of a sort."""
    numbers = 8 + 3 * structure.rank
    with (
        grid_kernel(module, name, 3, numbers) as grid,
        grid.f.when(grid.number < grid.numbers[0]),
    ):
        _SortWriter(grid, structure).write()


class _SortWriter:
    """Writes a kernel that finds the place of an element for each thread."""

    def __init__(self, grid: ThreadGrid, structure: SortStructure) -> None:
        self.grid, self.f, self.structure = grid, grid.f, structure
        f, rank = grid.f, structure.rank
        _, self.length, self.step, self.result_step, self.width, self.halvings, given, made = (
            grid.numbers[:8]
        )
        sizes, steps, result_steps = (
            grid.numbers[8 + k * rank : 8 + (k + 1) * rank] for k in range(3)
        )
        row = grid.number.unsigned_over(self.length)
        self.place = grid.number.unsigned_rest(self.length)
        at, zero = coordinates(row, sizes), f.constant(I64, 0)
        self.row = f.offset(grid.places[0], offset_of(at, steps, zero))
        self.result = f.offset(grid.places[1], offset_of(at, result_steps, zero))
        first = row * self.length * NUMBER_BYTES
        self.given, self.made = (f.offset(grid.places[2], first + half) for half in (given, made))

    def write(self) -> None:
        """Find the place, and write the element there."""
        f = self.f
        if self.structure.merges:
            number = self._number_at(self.place)
            place = self._place_in_pair(self._element(number))
        else:
            number = self.place
            place = self._place_in_chunk(self._element(number))
        writes = self.structure.writes
        if writes == "numbers":
            f.store(f.convert("trunc", number, I32), f.element(self.made, place, I32))
            return
        if self.structure.flips:
            place = self.length - 1 - place
        target = f.offset(self.result, place * self.result_step)
        if writes == "places":
            f.store(number, target)
        else:
            source = f.offset(self.row, number * self.step)
            move(self.grid, self.structure.dtype.itemsize, source, target)

    def _number_at(self, place: Value) -> Value:
        number = self.f.load(I32, self.f.element(self.given, place, I32))
        return self.f.convert("zext", number, I64)

    def _element(self, number: Value) -> Number:
        return load_scalar(
            self.f, self.structure.dtype, self.f.offset(self.row, number * self.step)
        )

    def _comes_first(self, one: Number, other: Number) -> Value:
        """Whether an element comes before another, wherever they are."""
        pair = (other, one) if self.structure.reverse else (one, other)
        return comes_before(self.f, self.structure.dtype, *pair)

    def _place_in_chunk(self, own: Number) -> Value:
        """How many of the chunk come before an element, after where the chunk begins."""
        f = self.f
        begin = self.place.unsigned_over(CHUNK) * CHUNK
        end = f.minimum(begin + CHUNK, self.length)
        with f.loop(begin, end, carried=[begin]) as loop:
            other = self._element(loop.index)
            earlier = (loop.index < self.place) & ~self._comes_first(own, other)
            found = earlier | self._comes_first(other, own)
            loop.carry(loop.carried[0] + f.convert("zext", found, I64))
        return loop.carried[0]

    def _place_in_pair(self, own: Number) -> Value:
        """The place in two runs that become one."""
        f, place = self.f, self.place
        begin = place.unsigned_over(self.width * 2) * (self.width * 2)
        middle = f.minimum(begin + self.width, self.length)
        in_left = place < middle
        low = f.select(in_left, middle, begin)
        high = f.select(in_left, f.minimum(middle + self.width, self.length), middle)
        with f.loop(0, self.halvings, carried=[low, high]) as loop:
            left, right = loop.carried
            going = left < right
            half = f.select(going, (left + right).unsigned_over(2), place)
            other = self._element(self._number_at(half))
            before = self._comes_first(other, own) | (~in_left & ~self._comes_first(own, other))
            loop.carry(
                f.select(going & before, half + 1, left), f.select(going & ~before, half, right)
            )
        # `loop.carried` has where the element belongs in the other run
        return f.select(in_left, place + loop.carried[0] - middle, place - middle + loop.carried[0])


def comes_before(f: Function, dtype: DType, one: Number, other: Number) -> Value:
    """Whether NumPy sorts a number before another: NaN last, complex ones by real part first."""
    if isinstance(one, Pair) and isinstance(other, Pair):
        part = real_dtype(dtype)
        a, b, c, d = one.real, one.imag, other.real, other.imag
        unknown_b, unknown_d = _is_nan(f, part, b), _is_nan(f, part, d)
        both = _is_nan(f, part, a) & _is_nan(f, part, c)
        imaginary = _is_less(f, part, b, d) | (unknown_d & ~unknown_b)
        known = _is_less(f, part, a, c) & (~unknown_b | unknown_d)
        beyond = _is_less(f, part, c, a) & unknown_d & ~unknown_b
        equal = _compare(f, Prim.EQ, part, a, c) | both
        ordered = _is_less(f, part, a, c) | _is_less(f, part, c, a) | equal
        return known | beyond | (equal & imaginary) | (~ordered & _is_nan(f, part, c))
    less = _is_less(f, dtype, one, other)
    if kind_of(dtype) != "f":
        return less
    return less | (_is_nan(f, dtype, other) & ~_is_nan(f, dtype, one))


def _compare(f: Function, prim: Prim, dtype: DType, one: Number, other: Number) -> Value:
    return real(primitive(f, prim, dtype, [one, other])[0])


def _is_less(f: Function, dtype: DType, one: Number, other: Number) -> Value:
    if dtype.kind == "b":
        return ~real(one) & real(other)
    return _compare(f, Prim.LT, dtype, one, other)


def _is_nan(f: Function, dtype: DType, number: Number) -> Value:
    return _compare(f, Prim.NE, dtype, number, number)


# ------------------------------------------------------------------------ searching


class SearchStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    rank: int
    right: bool


def search_kernel(
    x: DeviceArray, wanted: DeviceArray, result: DeviceArray, *, right: bool
) -> GpuKernel | None:
    """The kernel that finds where elements belong in a sorted row; None for dtypes that differ."""
    if x.dtype != wanted.dtype:
        return None
    total, (length,) = math.prod(wanted.shape), x.shape
    structure = SearchStructure(x.dtype, len(wanted.shape), right)
    numbers = total, length, x.strides[0], length.bit_length(), *wanted.shape, *wanted.strides
    code = KernelCode(write_search, structure)
    launch = Launch(code, (0, 1, 2), numbers, blocks_for(total))
    return GpuKernel((launch,) if math.prod(result.shape) else ())


def write_search(module: Module, name: str, structure: SearchStructure) -> None:
    """Write the kernel of a search: a thread for each element that is wanted."""
    dtype, rank, right = structure
    with grid_kernel(module, name, 3, 4 + 2 * rank) as grid:
        f, (total, length, step, halvings, *left) = grid.f, grid.numbers
        with f.when(grid.number < total):
            at = coordinates(grid.number, left[:rank])
            own = _element_at(f, dtype, grid.places[1], at, left[rank:])
            with f.loop(0, halvings, carried=[f.constant(I64, 0), length]) as loop:
                low, high = loop.carried
                going = low < high
                half = f.select(going, (low + high).unsigned_over(2), 0)
                other = load_scalar(f, dtype, f.offset(grid.places[0], half * step))
                before = (
                    ~comes_before(f, dtype, own, other)
                    if right
                    else comes_before(f, dtype, other, own)
                )
                loop.carry(
                    f.select(going & before, half + 1, low), f.select(going & ~before, half, high)
                )
            f.store(loop.carried[0], f.element(grid.places[2], grid.number, I64))


def _element_at(
    f: Function, dtype: DType, base: Value, at: Sequence[Value], strides: Sequence[Value]
) -> Number:
    return load_scalar(f, dtype, f.offset(base, offset_of(at, strides, f.constant(I64, 0))))
