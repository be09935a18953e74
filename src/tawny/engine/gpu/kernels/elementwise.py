"""Elementwise bodies: a thread for each place of their space.

Operands that lie as the result does, or are one element for all, need no coordinates.  Others are
found by their strides along the axes of the space, neighbours made one where every operand allows.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.engine.gpu.launch import (
    VECTOR_BYTES,
    DeviceArray,
    GpuKernel,
    KernelCode,
    Launch,
    ThreadGrid,
    blocks_for,
    grid_kernel,
)
from tawny.engine.llvm.ir.builder import I32, Module, Value
from tawny.engine.llvm.ir.places import coordinates, distance
from tawny.engine.llvm.scalar.bodies import (
    ElementCode,
    ElementwiseLoop,
    Read,
    emit,
    lower_body,
    shifts_of_reads,
    strides_of_reads,
)
from tawny.engine.llvm.scalar.coordinates import COUNTER
from tawny.engine.llvm.scalar.numbers import Number, compute_type, load_scalar, store_scalar
from tawny.ops.body import Body
from tawny.shape import Shape, collapse_axes, contiguous_strides

MOST_PLACES: Final = 56
"""Buffers of a kernel, at most: its arguments take 16 bytes for each, and 1,024 are granted."""


class Access(enum.Enum):
    """The way in which a read is found."""

    FLAT = "by the number of the place"
    ONE = "it is the same for all"
    STRIDED = "by coordinates"
    ROLLED = "by coordinates, moved along axes first"
    COUNTED = "it is the number of a place along an axis, and not memory"


class MapStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    code: ElementCode
    accesses: tuple[Access, ...]
    rank: int
    """Axes of the space; 0 where nothing needs coordinates."""
    each: int
    """Neighbours that a thread computes."""


def elementwise_kernel(
    body: Body, operands: Sequence[DeviceArray], results: Sequence[DeviceArray]
) -> GpuKernel | None:
    """The kernel of a body of elementwise steps; None where it has none."""
    loop = lower_body(body)
    if loop is None or len(loop.reads) + len(results) > MOST_PLACES:
        return None
    total = math.prod(loop.space)
    sizes, strides, shifts = _axes(loop, operands)
    accesses: list[Access] = []
    numbers: list[int] = []
    for read, dtype, moves, turns in zip(loop.reads, loop.code.reads, strides, shifts, strict=True):
        access = _access(read, moves, turns, contiguous_strides(sizes, dtype.itemsize))
        accesses.append(access)
        if access not in (Access.FLAT, Access.ONE):
            numbers += moves
            numbers += turns if access is Access.ROLLED else []
    plain = not numbers
    aligned = all(
        operands[r.operand].aligned
        for r, a in zip(loop.reads, accesses, strict=True)
        if a is Access.FLAT
    )
    each = _neighbours(loop.code, total) if plain and aligned else 1
    structure = MapStructure(loop.code, tuple(accesses), 0 if plain else len(sizes), each)
    places = [r.operand for r in loop.reads if r.operand != COUNTER]
    places += range(len(operands), len(operands) + len(results))
    launch = Launch(
        KernelCode(write_map, structure),
        tuple(places),
        (total // each, *(() if plain else sizes), *numbers),
        blocks_for(total // each),
    )
    return GpuKernel((launch,) if total else ())


def _access(read: Read, moves: Sequence[int], turns: Sequence[int], own: Sequence[int]) -> Access:
    """How a read is found that has these strides and shifts over the space."""
    if read.operand == COUNTER:
        return Access.COUNTED
    if any(turns):
        return Access.ROLLED
    if not any(moves):
        return Access.ONE
    return Access.FLAT if tuple(moves) == tuple(own) else Access.STRIDED


def _neighbours(code: ElementCode, total: int) -> int:
    """How many neighbours a thread loads at once."""
    dtypes = [*code.reads, *[code.dtype(r) for r in code.results]]
    count = VECTOR_BYTES // max([d.itemsize for d in dtypes])
    return count if count > 1 and not total % count else 1


def _axes(
    loop: ElementwiseLoop, operands: Sequence[DeviceArray]
) -> tuple[Shape, list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Sizes of the space, and strides and shifts of each read along them."""
    strides = strides_of_reads(loop, [m.strides for m in operands])
    shifts = shifts_of_reads(loop)
    if any(any(s) for s in shifts):
        return loop.space or (1,), [m or (0,) for m in strides], [s or (0,) for s in shifts]
    own = contiguous_strides(loop.space, 1)
    sizes, moves = collapse_axes(loop.space, [*strides, own])
    return sizes, moves[:-1], [(0,) * len(sizes) for _ in strides]


# ------------------------------------------------------------------------ writing


def write_map(module: Module, name: str, structure: MapStructure) -> None:
    """Write the kernel of a map."""
    code, accesses, rank, _ = structure
    places = sum(a is not Access.COUNTED for a in accesses) + len(code.results)
    each = [rank * _NUMBERS.get(a, 0) for a in accesses]
    with grid_kernel(module, name, places, 1 + rank + sum(each)) as grid:
        number = grid.number
        with grid.f.when(number < grid.numbers[0]):
            write = _compute_place if structure.each == 1 else _compute_neighbours
            write(grid, structure, number)


_NUMBERS: Final = {Access.STRIDED: 1, Access.COUNTED: 1, Access.ROLLED: 2}
"""How many numbers an access has for each axis."""


def _compute_neighbours(grid: ThreadGrid, structure: MapStructure, number: Value) -> None:
    """Read, compute and write at neighbouring places, which are loaded and stored at once."""
    f, (code, accesses, _, each) = grid.f, structure
    dtypes = [*code.reads, *[code.dtype(r) for r in code.results]]
    starts = [
        base if access is Access.ONE else f.offset(base, number * (each * dtype.itemsize))
        for base, access, dtype in zip(
            grid.places, [*accesses, *[Access.FLAT] * len(code.results)], dtypes, strict=True
        )
    ]

    def at(place: int, neighbour: int) -> tuple[Value, int]:
        """An address, and to how many bytes it is aligned."""
        item = dtypes[place].itemsize
        whole = min(item * each, VECTOR_BYTES)
        return f.offset(starts[place], neighbour * item), item if neighbour else whole

    ones = {
        i: load_scalar(f, code.reads[i], starts[i])
        for i, a in enumerate(accesses)
        if a is Access.ONE
    }
    values = [
        [
            ones[i] if i in ones else load_scalar(f, dtype, *at(i, k))
            for i, dtype in enumerate(code.reads)
        ]
        for k in range(each)
    ]
    results = [emit(f, code, numbers) for numbers in values]
    for place in range(len(code.reads), len(dtypes)):
        for k in range(each):
            address, align = at(place, k)
            store_scalar(f, dtypes[place], results[k][place - len(code.reads)], address, align)


def _compute_place(grid: ThreadGrid, structure: MapStructure, number: Value) -> None:
    """Read, compute and write at one place of the space."""
    f, (code, accesses, rank, _) = grid.f, structure
    sizes = grid.numbers[1 : 1 + rank]
    at = coordinates(number, sizes)
    left, bases = iter(grid.numbers[1 + rank :]), iter(grid.places)
    values: list[Number] = []
    for access, dtype in zip(accesses, code.reads, strict=True):
        moves = [next(left) for _ in at] if access in _NUMBERS else []
        where = at
        if access is Access.ROLLED:
            turns = [next(left) for _ in at]
            where = [_place_before_roll(grid, *turn) for turn in zip(at, turns, sizes, strict=True)]
        if access is Access.COUNTED:
            place = distance(where, moves)
            kind = compute_type(dtype)
            values.append(f.convert("trunc", place, kind) if kind == I32 else place)
            continue
        base = next(bases)
        if access is Access.FLAT:
            base = f.offset(base, number * dtype.itemsize)
        elif access is not Access.ONE:
            base = f.offset(base, distance(where, moves))
        values.append(load_scalar(f, dtype, base))
    for value, result in zip(emit(f, code, values), code.results, strict=True):
        dtype = code.dtype(result)
        store_scalar(f, dtype, value, f.offset(next(bases), number * dtype.itemsize))


def _place_before_roll(grid: ThreadGrid, place: Value, shift: Value, size: Value) -> Value:
    """The place along an axis whose element a roll moves here."""
    return grid.f.select(place < shift, place - shift + size, place - shift)
