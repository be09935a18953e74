"""Elementwise kernels: a body of steps as a loop over its elements, with broadcasting and strides.

The code of one element stands in the innermost loop, over whole vectors of neighbours; the loops
around it are shared by all kernels (see `loops`).  They bring it neighbours:

- *flat*: each operand lies as the result does, or is one element for all;
- *rows*: in each of many long rows it is so;
- *tiles*: some operands lie crosswise, and tiles of them are transposed into a buffer;
- *rolled*: row by row, some operands read from elsewhere in the row or in another one;
- *blocks*: as flat, but the elements of some operands are gathered in a buffer, block by block.

Compiled code depends on the steps, the dtypes and which of these it is, for the loops and for each
operand; sizes and strides are parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.kernel import ArrayLayout, CompiledKernel
from tawny.engine.cpu.kernels.loops.common import (
    LIBRARY,
    MOST_AXES,
    MOST_PLACES,
    SPAN,
    AccessKind,
    ArrayAccess,
    LoopStrategy,
    write_kernel,
)
from tawny.engine.cpu.kernels.loops.rolls import ROLLED
from tawny.engine.cpu.kernels.loops.tiles import TILES
from tawny.engine.llvm.ir.builder import I64, PTR, Function, Module, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import lazy_library
from tawny.engine.llvm.scalar.bodies import (
    ElementCode,
    ElementwiseLoop,
    Instruction,
    emit,
    lower_body,
    shifts_of_reads,
    strides_of_reads,
)
from tawny.engine.llvm.scalar.coordinates import COUNTER
from tawny.engine.llvm.scalar.expressions import calls_of
from tawny.engine.llvm.scalar.numbers import (
    compute_type,
    load_splat,
    load_vector,
    real,
    store_vector,
)
from tawny.engine.llvm.scalar.reals import FUNCTIONS
from tawny.op import Elementwise
from tawny.ops.body import Body
from tawny.scalar import PrimCall
from tawny.shape import Shape, collapse_axes, contiguous_strides

SYMBOL: Final = "kernel"
LONG_ROW: Final = 96
"""Elements of a row from which rows are walked one by one; shorter ones are gathered into blocks.

Of all reads together that would be gathered: a call for each row against a copy of each element.
Chosen by hand on one, three and five windows of rows of 24 to 198 elements."""

SHORTEST_ROW: Final = 24
"""Elements of the shortest rows that are walked one by one, however many reads there are."""

WHOLE_ROW: Final = 64
"""Elements of a row of whole vectors, with no rest, from which rows are walked one by one."""

LEAST_SIDE: Final = 8
"""The shortest side of a tile, in elements: shorter ones do not pay for the copy."""

CLOSER: Final = 4
"""How many times closer elements lie along one side of a tile than along the other, at least."""

MANY_FUNCTIONS: Final = 3
"""Mathematical functions from which two vectors are computed at a time.

Chosen by hand: they wait less for each other, but take twice the registers."""

SHARED_WORK: Final = 30_000
"""Vector instructions from which the work is shared by threads."""

LOOP: Final = 10
"""Instructions of a loop around the steps."""

PLACE: Final = 3
"""Instructions of loading or storing a vector."""

FUNCTION: Final = 50
"""Instructions of a mathematical function: the middle of what the generators of float32 write."""


class LoopVariant(NamedTuple):
    """All that compiled code depends on, besides the code of one element."""

    operands: tuple[int, ...]
    """For each read, the operand it is of, or that it counts."""
    arity: int
    """How many operands there are."""
    kinds: tuple[AccessKind, ...]
    strategy: LoopStrategy


Strides = tuple[int, ...]


class LoopPlan(NamedTuple):
    """A pattern and the parameters that go with it."""

    variant: LoopVariant
    parameters: tuple[int, ...]


def elementwise_kernel(
    body: Body, operands: Sequence[ArrayLayout], results: Sequence[ArrayLayout]
) -> CompiledKernel | None:
    """A compiled kernel of a body of elementwise steps, given how its operands lie in memory.

    The results lie as new arrays do.  A result may lie exactly over an operand that lies as it
    does.  None where a step is no elementwise one, or one that is left to NumPy.
    """
    if not host().has_fma:
        return None
    planned = lower_body(body)
    if planned is None or not _fits_loops(planned):
        return None
    del results
    strides = strides_of_reads(planned, [m.strides for m in operands])
    plan = _plan_loop(planned, strides, len(operands))
    vectors = math.prod(planned.space) // register_lanes(planned.code)
    shared = vectors * _instructions(planned.code) > SHARED_WORK
    return CompiledKernel(_library(planned.code, plan.variant), SYMBOL, plan.parameters, shared, 0)


def _fits_loops(loop: ElementwiseLoop) -> bool:
    """Whether the shared loops have room for it."""
    places = len(loop.reads) + len(loop.code.results)
    return places <= MOST_PLACES and len(loop.space) <= MOST_AXES


# -------------------------------------------------------------------- planning


def _plan_loop(loop: ElementwiseLoop, strides: Sequence[Strides], arity: int) -> LoopPlan:
    """Flat where every operand is whole or one element, or rows are short; else by rows."""
    total = math.prod(loop.space)
    counts = [r.operand == COUNTER for r in loop.reads]
    items = [
        1 if is_counter else d.itemsize
        for is_counter, d in zip(counts, loop.code.reads, strict=True)
    ]
    operands = tuple([r.operand for r in loop.reads])
    first = (0, total) if any(counts) else (total,)

    def plan(strategy: LoopStrategy, kinds: Sequence[AccessKind], *parameters: int) -> LoopPlan:
        return LoopPlan(LoopVariant(operands, arity, tuple(kinds), strategy), (*first, *parameters))

    if total and any(any(r.shifts) for r in loop.reads):
        sizes, moves, shifts = _rolled_axes(loop, strides)
        inner = _kinds(sizes[-1:], [m[-1:] for m in moves], items, counts)
        pairs = zip(moves, shifts, strict=True)
        each = [n for m, s in pairs for n in (*m[:-1], *s[:-1], m[-1], s[-1])]
        return plan(LoopStrategy.ROLLED, inner, sizes[-1], len(sizes) - 1, *sizes[:-1], *each)
    sizes, moves = collapse_axes(loop.space, [*strides, contiguous_strides(loop.space, 1)])
    moves = moves[:-1]
    kinds = _kinds(sizes, moves, items, counts)
    inner = _kinds(sizes[-1:], [m[-1:] for m in moves], items, counts)
    if AccessKind.GATHERED not in kinds and AccessKind.NUMBERED not in inner:
        return plan(LoopStrategy.FLAT, kinds)
    whole = sizes[-1] >= WHOLE_ROW and sizes[-1] % vector_lanes(loop.code) == 0
    apart = kinds.count(AccessKind.GATHERED)
    long = whole or sizes[-1] >= max(LONG_ROW // max(apart, 1), SHORTEST_ROW)
    if (long or AccessKind.NUMBERED in inner) and AccessKind.GATHERED not in inner:
        outer = [n for m in moves for n in m[:-1]]
        return plan(LoopStrategy.ROWS, inner, sizes[-1], len(sizes) - 1, *sizes[:-1], *outer)
    axis = _crosswise_axis(sizes, moves, inner)
    if axis is not None:
        return plan(LoopStrategy.TILES, inner, *_tile_parameters(sizes, moves, axis))
    far = [
        n for m, kind in zip(moves, kinds, strict=True) if kind is AccessKind.GATHERED for n in m
    ]
    return plan(LoopStrategy.BLOCKS, kinds, len(sizes), *sizes, *far)


def _rolled_axes(
    loop: ElementwiseLoop, strides: Sequence[Strides]
) -> tuple[Shape, list[Strides], list[Strides]]:
    """Sizes, strides and shifts of all reads; there is an axis around the rows.

    Neighbouring axes are one where all step over both alike and none is rolled along the inner.
    """
    space = loop.space
    shifts = shifts_of_reads(loop)
    arrays = [*strides, contiguous_strides(space, 1)]
    parts, first = list[tuple[int, int]](), 0
    for axis in range(1, len(space)):
        if any(s[axis] for s in shifts):
            parts.append((first, axis))
            first = axis
    parts.append((first, len(space)))
    sizes, moves, turns = [1], [[0] for _ in strides], [[0] for _ in strides]
    for low, high in parts:
        lengths, steps = collapse_axes(space[low:high], [a[low:high] for a in arrays])
        inside = math.prod(space[low + 1 : high]) // math.prod(lengths[1:])
        sizes += lengths
        for n, shift in enumerate(shifts):
            moves[n].extend(steps[n])
            turns[n].extend([shift[low] * inside, *[0] * (len(lengths) - 1)])
    return tuple(sizes), [tuple(m) for m in moves], [tuple(t) for t in turns]


def _crosswise_axis(
    sizes: Shape, moves: Sequence[Strides], inner: Sequence[AccessKind]
) -> int | None:
    """The axis along which all reads that are no runs in a row have much smaller strides."""
    far = [m for m, kind in zip(moves, inner, strict=True) if kind is AccessKind.GATHERED]
    if not far or sizes[-1] < LEAST_SIDE:
        return None
    for axis in range(len(sizes) - 2, -1, -1):
        if sizes[axis] >= LEAST_SIDE and all(0 < CLOSER * abs(m[axis]) <= abs(m[-1]) for m in far):
            return axis
    return None


def _tile_parameters(sizes: Shape, moves: Sequence[Strides], axis: int) -> tuple[int, ...]:
    """Parameters of the way by tiles: `axis` becomes the last of the outer ones."""
    order = [a for a in range(len(sizes) - 1) if a != axis] + [axis]
    strides = [n for m in moves for n in (*[m[a] for a in order], m[-1])]
    own = contiguous_strides(sizes, 1)
    outer = [sizes[a] for a in order]
    return (sizes[-1], len(order), *outer, *strides, *[own[a] for a in order])


def _kinds(
    sizes: Shape, moves: Sequence[Strides], items: Sequence[int], counts: Sequence[bool]
) -> list[AccessKind]:
    """How each read lies over some axes."""
    found = [_kind(sizes, m, item) for m, item in zip(moves, items, strict=True)]
    return [_COUNTS.get(k, k) if c else k for k, c in zip(found, counts, strict=True)]


_COUNTS: Final = {AccessKind.ONE: AccessKind.NUMBERED, AccessKind.RUN: AccessKind.COUNTED}


def _kind(sizes: Shape, strides: Strides, itemsize: int) -> AccessKind:
    """How a read lies over some axes."""
    if not any(strides):
        return AccessKind.ONE
    return AccessKind.RUN if strides == contiguous_strides(sizes, itemsize) else AccessKind.GATHERED


# ------------------------------------------------------------------ generation


def register_lanes(code: ElementCode) -> int:
    """Lanes of a register: as many as the widest numbers leave room for."""
    return max(host().vector_bytes // code.widest_lane_bytes(), 1)


@lru_cache(4096)
def vector_lanes(code: ElementCode) -> int:
    """Lanes that are computed at a time: a register, or two of them where functions are many.

    Steps of two vectors stand side by side then, so that one does not wait for the other however
    far ahead the next vector is.
    """
    lanes = register_lanes(code)
    dtypes = [*code.reads, *[i.dtype for i in code.instructions]]
    many = sum(len(_functions(i)) for i in code.instructions) >= MANY_FUNCTIONS
    real = all(d.kind != "c" for d in dtypes)
    return 2 * lanes if many and real and host().avx512 else lanes


@lru_cache(4096)
def _instructions(code: ElementCode) -> int:
    """About how many instructions a register of elements takes."""
    count = LOOP + PLACE * (len(code.reads) + len(code.results))
    for instruction in code.instructions:
        calls, functions = len(_calls(instruction)), len(_functions(instruction))
        parts = 4 if instruction.dtype.kind == "c" else 1
        count += parts * (max(calls, 1) + FUNCTION * functions)
    return count


def _functions(instruction: Instruction) -> list[PrimCall]:
    """The mathematical functions that an instruction computes."""
    return [call for call in _calls(instruction) if call.prim in FUNCTIONS]


def _calls(instruction: Instruction) -> list[PrimCall]:
    """The primitives that an instruction computes, each call once."""
    return calls_of(instruction.op.scalar) if isinstance(instruction.op, Elementwise) else []


@lazy_library
def _library(module: Module, code: ElementCode, variant: LoopVariant) -> None:
    _ElementwiseWriter(module, code, variant).write()


class _ElementwiseWriter:
    """Writes the kernel of one code and pattern."""

    def __init__(self, module: Module, code: ElementCode, variant: LoopVariant) -> None:
        self.module = module
        self.code = code
        self.variant = variant
        self.lanes = vector_lanes(code)
        self.results = [code.dtype(r) for r in code.results]

    def write(self) -> None:
        """Write the kernel."""
        self._write_span()
        arity = self.variant.arity
        counter = arity + len(self.results)
        reads = [
            ArrayAccess(counter, 1, kind)
            if operand == COUNTER
            else ArrayAccess(operand, dtype.itemsize, kind)
            for operand, dtype, kind in zip(
                self.variant.operands, self.code.reads, self.variant.kinds, strict=True
            )
        ]
        writes = [
            ArrayAccess(arity + i, d.itemsize, AccessKind.RUN) for i, d in enumerate(self.results)
        ]
        strategy = self.variant.strategy
        library = {LoopStrategy.TILES: TILES, LoopStrategy.ROLLED: ROLLED}.get(strategy, LIBRARY)
        write_kernel(self.module, SYMBOL, strategy, reads, writes, self.lanes, library)

    def _write_span(self) -> None:
        """The loop over whole vectors."""
        with self.module.function("span", SPAN, internal=True) as f:
            places, start, vectors = f.arguments
            dtypes = [*self.code.reads, *self.results]
            kinds = [*self.variant.kinds, *[AccessKind.RUN] * len(self.results)]
            bases = [f.cell(places, i, PTR) for i in range(len(dtypes))]
            fixed = {
                i: load_splat(f, self.code.reads[i], bases[i], self.lanes)
                for i, kind in enumerate(self.variant.kinds)
                if kind is AccessKind.ONE
            }
            for i, kind in enumerate(self.variant.kinds):
                if kind in (AccessKind.COUNTED, AccessKind.NUMBERED):
                    fixed[i] = self._numbers(f, bases[i], i)
            with f.loop(start, start + vectors * self.lanes, self.lanes) as loop:
                addresses = [
                    f.offset(base, loop.index * dtype.itemsize)
                    if kind in (AccessKind.RUN, AccessKind.GATHERED)
                    else base
                    for base, dtype, kind in zip(bases, dtypes, kinds, strict=True)
                ]
                numbers = [
                    fixed[i] if i in fixed else load_vector(f, dtype, addresses[i], self.lanes)
                    for i, dtype in enumerate(self.code.reads)
                ]
                for i, kind in enumerate(self.variant.kinds):
                    if kind is AccessKind.COUNTED:
                        numbers[i] = real(fixed[i]) + self._spread(f, loop.index, i)
                results = emit(f, self.code, numbers)
                targets = addresses[len(numbers) :]
                for dtype, number, address in zip(self.results, results, targets, strict=True):
                    store_vector(f, dtype, number, address)

    def _numbers(self, f: Function, base: Value, read: int) -> Value:
        """The numbers of the first places of a read that counts, as they are before the start."""
        first = self._spread(f, f.convert("ptrtoint", base, I64), read)
        if self.variant.kinds[read] is AccessKind.NUMBERED:
            return first
        return first + f.counting(first.type.scalar, self.lanes)

    def _spread(self, f: Function, number: Value, read: int) -> Value:
        """A number of a place in every lane."""
        kind = compute_type(self.code.reads[read])
        return f.splat(number if kind == I64 else f.convert("trunc", number, kind), self.lanes)
