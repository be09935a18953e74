"""The loops around elementwise code, shared by all kernels, which bring only the innermost one.

A kernel's `span(places, start, vectors)` computes whole vectors of neighbours: `places` is an array
of addresses, of its reads and then of its results, and `start` the number of the first element.
The functions here call it for a worker's share of a kernel's row:

    flat(row, worker, workers, span, shape)
    blocks(row, worker, workers, span, shape)
    rows(row, worker, workers, span, shape)

`shape` is a constant array: how many reads, how many results, the cell of the row with the first
parameter, the binary logarithm of the lanes, whether the row itself serves as `places`, and then
for each place its cell in the row, its element's bytes and its kind.  Parameters begin with the
number of elements; `blocks` has the rank, sizes and the strides of gathered reads after it; `rows`
the row's length, the number of outer axes, their sizes, and each read's strides along them.  Two
more ways, `tiles` and `rolled`, have modules of their own.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.kernel import KERNEL
from tawny.engine.cpu.kernels.loops.gather import call_gather
from tawny.engine.cpu.kernels.workshare import grain_share
from tawny.engine.llvm.ir.builder import I8, I64, PTR, VOID, Function, Module, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import provide

LIBRARY: Final = "loops"
BLOCK: Final = 256
"""Elements that are gathered at a time."""

GRAIN: Final = 64
"""Elements of which threads' shares are multiples, so that no two write one cache line."""

MOST_PLACES: Final = 64
MOST_AXES: Final = 64

_TAIL_BYTES: Final = 128
"""Bytes of a vector's elements at most: complex numbers take two registers."""


class AccessKind(enum.Enum):
    """The way in which a place's elements lie."""

    ONE = 0
    """One element all along."""
    RUN = 1
    """Neighbours in memory are neighbours in the loop."""
    GATHERED = 2
    """Elements lie anywhere, and are gathered."""
    COUNTED = 3
    """No elements: an address is the number of a place, and neighbours are one apart."""
    NUMBERED = 4
    """No elements: an address is the number of a place, the same all along."""


class ArrayAccess(NamedTuple):
    """A read or result: its cell in the row, its element's bytes, how its elements lie."""

    cell: int
    itemsize: int
    kind: AccessKind


class LoopStrategy(enum.Enum):
    """The function that walks over the elements."""

    FLAT = "flat"
    BLOCKS = "blocks"
    ROWS = "rows"
    TILES = "tiles"
    ROLLED = "rolled"


_HEAD: Final = 5
_WIDTH: Final = 3
SPAN: Final = {"places": PTR, "start": I64, "vectors": I64}
"""Arguments of a span."""

SEGMENT: Final = f"{LIBRARY}_segment"
_SEGMENT: Final = {"places": PTR, "start": I64, "count": I64, "span": PTR, "shape": PTR}
LOOP: Final = {**KERNEL, "span": PTR, "shape": PTR}


def loop_name(strategy: LoopStrategy) -> str:
    """The name of a shared function."""
    return f"{LIBRARY}_{strategy.value}"


def write_kernel(
    module: Module,
    symbol: str,
    strategy: LoopStrategy,
    reads: Sequence[ArrayAccess],
    writes: Sequence[ArrayAccess],
    lanes: int,
    library: str = LIBRARY,
) -> None:
    """Add the kernel of a module that has a `span`; `library` has the way."""
    places = [*reads, *writes]
    direct = strategy is LoopStrategy.FLAT and [p.cell for p in places] == list(range(len(places)))
    first = max(p.cell for p in places) + 1
    head = [len(reads), len(writes), first, lanes.bit_length() - 1, direct]
    cells = [n for p in places for n in (p.cell, p.itemsize, p.kind.value)]
    module.require(library)
    module.table("shape", I64, [*head, *cells])
    module.declare(loop_name(strategy), VOID, list(LOOP.values()))
    with module.function(symbol, KERNEL) as f:

        def around() -> Sequence[Value]:
            tables = f.global_address("span"), f.global_address("shape")
            f.call(loop_name(strategy), VOID, *f.arguments, *tables)
            return []

        def at_once() -> Sequence[Value]:
            f.call("span", VOID, row, total.of(0), total.shifted_down(lanes.bit_length() - 1))
            return []

        if not direct:
            around()
            return
        # Whole vectors for one worker, as small arrays often are, need no loop around them.
        row, _, workers = f.arguments
        total = f.cell(row, first)
        f.either(((total & (lanes - 1)) | (workers - 1)).equals(0), at_once, around)


def call_segment(f: Function, *arguments: Value) -> None:
    """Compute neighbours, given places, the first element, how many, the span and its shape."""
    f.call(SEGMENT, VOID, *arguments)


def use_segment(module: Module) -> None:
    """Let another module's functions call it."""
    module.require(LIBRARY)
    module.declare(SEGMENT, VOID, list(_SEGMENT.values()))


class AccessTable:
    """The constant array, inside a function."""

    def __init__(self, f: Function, base: Value) -> None:
        self.f = f
        self.base = base
        self.reads, self.writes, self.first, self.shift, self.direct = (
            f.cell(base, i) for i in range(_HEAD)
        )

    def place(self, number: Value) -> tuple[Value, Value, Value]:
        """Cell, bytes and kind of a place."""
        entry = self.f.element(self.base, number * _WIDTH + _HEAD, I64)
        cell, item, kind = (self.f.cell(entry, i) for i in range(_WIDTH))
        return cell, item, kind


def _library(module: Module) -> None:
    _write_segment(module)
    for strategy, write in (
        (LoopStrategy.FLAT, _flat),
        (LoopStrategy.BLOCKS, _blocks),
        (LoopStrategy.ROWS, _rows),
    ):
        with module.function(loop_name(strategy), LOOP) as f:
            row, worker, workers, span, base = f.arguments
            shape = AccessTable(f, base)
            parameters = f.element(row, shape.first, I64)
            low, high = grain_share(f, f.load(I64, parameters), worker, workers, GRAIN)
            write(f, row, span, shape, low, high, f.element(parameters, 1, I64))


provide(LIBRARY, _library)


# --------------------------------------------------------------- a row of elements


def _write_segment(module: Module) -> None:
    """`segment(places, start, count, span, shape)`: whole vectors, then what is left."""
    with module.function(SEGMENT, _SEGMENT) as f:
        places, start, count, span, base = f.arguments
        shift = f.cell(base, 3)
        whole = count.shifted_down(shift)
        done = whole << shift
        with f.when(whole > 0):
            f.call_address(span, places, start, whole)
        with f.when(count > done):
            f.call("tail", VOID, places, start + done, count - done, span, base)
    with module.function("tail", _SEGMENT, internal=True, attributes="noinline") as f:
        _tail(f, *f.arguments)


def _tail(f: Function, places: Value, start: Value, count: Value, span: Value, base: Value) -> None:
    """Less than a vector: copied to buffers, computed there, copied back."""
    shape = AccessTable(f, base)
    buffers = f.stack_buffer(MOST_PLACES * _TAIL_BYTES)
    others = f.stack_buffer(8 * MOST_PLACES)
    reads, total = shape.reads, shape.reads + shape.writes
    with f.loop(0, total) as loop:
        _, item, kind = shape.place(loop.index)
        address = f.load(PTR, f.element(places, loop.index, I64))
        buffer = f.offset(buffers, loop.index * _TAIL_BYTES)
        counted = kind.equals(AccessKind.COUNTED.value)
        still = kind.equals(AccessKind.ONE.value) | kind.equals(AccessKind.NUMBERED.value) | counted
        there = f.offset(address, f.select(counted, start, 0))
        f.store(f.select(still, there, buffer), f.element(others, loop.index, I64))
        with f.when((loop.index < reads) & ~still):
            f.store(f.constant(I8.by(_TAIL_BYTES), 0), buffer, 64)
            copy_bytes(f, buffer, f.offset(address, start * item), count * item)
    f.call_address(span, others, f.constant(I64, 0), f.constant(I64, 1))
    with f.loop(reads, total) as loop:
        _, item, _ = shape.place(loop.index)
        address = f.load(PTR, f.element(places, loop.index, I64))
        buffer = f.offset(buffers, loop.index * _TAIL_BYTES)
        copy_bytes(f, f.offset(address, start * item), buffer, count * item)


def copy_bytes(f: Function, to: Value, source: Value, nbytes: Value) -> None:
    """Copy a few bytes."""
    if not host().avx512:
        f.module.declare("memcpy", PTR, [PTR, PTR, I64])
        f.call("memcpy", PTR, to, source, nbytes)
        return
    vector = I8.by(host().vector_bytes)
    with f.loop(0, nbytes, vector.lanes) as loop:
        mask = f.first_lanes(f.convert("trunc", f.minimum(nbytes - loop.index, 64), I8), 64)
        value = f.masked_load(vector, f.offset(source, loop.index), mask, f.constant(vector, 0))
        f.masked_store(value, f.offset(to, loop.index), mask)


def list_places(f: Function, row: Value, shape: AccessTable) -> Value:
    """The places' addresses, taken from the row."""
    listed = f.stack_buffer(8 * MOST_PLACES)
    with f.loop(0, shape.reads + shape.writes) as loop:
        cell, _, _ = shape.place(loop.index)
        address = f.load(I64, f.element(row, cell, I64))
        f.store(address, f.element(listed, loop.index, I64))
    return listed


# ------------------------------------------------------------------------ ways


def _flat(
    f: Function,
    row: Value,
    span: Value,
    shape: AccessTable,
    low: Value,
    high: Value,
    parameters: Value,
) -> None:
    """All elements one after another."""
    del parameters
    (places,) = f.either(
        shape.direct.differs(0), lambda: [row], lambda: [list_places(f, row, shape)]
    )
    call_segment(f, places, low, high - low, span, shape.base)


def _blocks(
    f: Function,
    row: Value,
    span: Value,
    shape: AccessTable,
    low: Value,
    high: Value,
    parameters: Value,
) -> None:
    """All elements one after another; some reads are gathered into buffers, block by block."""
    listed = list_places(f, row, shape)
    rank, sizes = f.load(I64, parameters), f.element(parameters, 1, I64)
    bytes_each = BLOCK * 16
    buffers = f.stack_array(shape.reads * bytes_each)
    with f.loop(low, high, BLOCK) as block:
        start, count = block.index, f.minimum(high - block.index, BLOCK)
        first = f.element(sizes, rank, I64)
        with f.loop(0, shape.reads, carried=[first]) as loop:
            (strides,) = loop.carried
            cell, item, kind = shape.place(loop.index)
            far = kind.equals(AccessKind.GATHERED.value)
            with f.when(far):
                buffer = f.offset(buffers, loop.index * bytes_each)
                source = f.load(PTR, f.element(row, cell, I64))
                for size in (1, 2, 4, 8, 16):
                    with f.when(item.equals(size)):
                        call_gather(f, size, buffer, source, rank, sizes, strides, start, count)
                # The span adds the start, which the buffer does not know.
                f.store(f.offset(buffer, -(start * item)), f.element(listed, loop.index, I64))
            loop.carry(f.element(strides, f.select(far, rank, 0), I64))
        call_segment(f, listed, start, count, span, shape.base)


def _rows(
    f: Function,
    row: Value,
    span: Value,
    shape: AccessTable,
    low: Value,
    high: Value,
    parameters: Value,
) -> None:
    """Row by row; a read is a run in each row, or one element.

    Rows that are neighbours along the last outer axis are a step apart, whatever is read.
    """
    listed, steps = list_places(f, row, shape), f.stack_buffer(8 * MOST_PLACES)
    length, outer = f.cell(parameters, 0), f.cell(parameters, 1)
    sizes = f.element(parameters, 2, I64)
    strides = f.element(sizes, outer, I64)
    places = f.stack_buffer(8 * MOST_AXES)
    across = f.maximum(f.load(I64, f.element(sizes, outer - 1, I64)), 1)
    first, last = low.unsigned_over(length), (high + length - 1).unsigned_over(length)
    lines = (last + across - 1).unsigned_over(across)
    with f.loop(first.unsigned_over(across), lines) as line:
        lower = f.maximum(line.index * across, first)
        upper = f.minimum((line.index + 1) * across, last)
        write_digits(f, lower, outer, sizes, places)
        with f.loop(0, shape.reads) as each:
            cell, item, kind = shape.place(each.index)
            own = f.element(strides, each.index * outer, I64)
            back = f.select(moves_along(kind), length * item, 0)
            offset = offset_of(f, outer, places, own) - lower * back
            base = f.load(I64, f.element(row, cell, I64))
            f.store(base + offset, f.element(listed, each.index, I64))
            step = f.load(I64, f.element(own, outer - 1, I64)) - back
            f.store(step, f.element(steps, each.index, I64))
        with f.loop(lower, upper) as loop:
            begin = loop.index * length
            start, end = f.maximum(low, begin), f.minimum(high, begin + length)
            call_segment(f, listed, start, end - start, span, shape.base)
            with f.loop(0, shape.reads) as each:
                place = f.element(listed, each.index, I64)
                step = f.load(I64, f.element(steps, each.index, I64))
                f.store(f.load(I64, place) + step, place)


def moves_along(kind: Value) -> Value:
    """Whether a span adds its start to an address; that is counted from the first row."""
    return kind.equals(AccessKind.RUN.value) | kind.equals(AccessKind.COUNTED.value)


def write_digits(f: Function, number: Value, axes: Value, sizes: Value, places: Value) -> None:
    """Write the places of a row, given its number, on axes of these sizes."""
    with f.loop(1, axes, carried=[number]) as loop:
        (left,) = loop.carried
        axis = axes - loop.index
        size = f.load(I64, f.element(sizes, axis, I64))
        f.store(left.unsigned_rest(size), f.element(places, axis, I64))
        loop.carry(left.unsigned_over(size))
    f.store(loop.carried[0], places)


def offset_of(f: Function, axes: Value, places: Value, strides: Value) -> Value:
    """The offset of a row."""
    with f.loop(0, axes, carried=[axes.of(0)]) as loop:
        (sum,) = loop.carried
        place = f.load(I64, f.element(places, loop.index, I64))
        stride = f.load(I64, f.element(strides, loop.index, I64))
        loop.carry(sum + place * stride)
    return loop.carried[0]
