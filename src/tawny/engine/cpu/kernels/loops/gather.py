"""Elements from anywhere, brought side by side: one shared function for each size of element.

    gather4(to, from, rank, sizes, strides, start, count)

copies `count` elements, beginning with number `start` in the order of the last axis first, from an
array with any strides, in bytes, to neighbouring places.  Up to `VECTOR` bytes behind them may be
overwritten too.
"""

from __future__ import annotations

from typing import Final

from tawny.engine.cpu.kernels.copies import ELEMENTS
from tawny.engine.llvm.ir.builder import I8, I64, PTR, VOID, Function, Module, Type, Value
from tawny.engine.llvm.runtime.host import host
from tawny.engine.llvm.runtime.library import provide

_LIBRARY: Final = "gather"
_MOST_AXES: Final = 64

VECTOR: Final = 64
"""Bytes, beyond the elements copied, that may be overwritten too."""

_ARGUMENTS: Final = {
    "to": PTR,
    "from": PTR,
    "rank": I64,
    "sizes": PTR,
    "strides": PTR,
    "start": I64,
    "count": I64,
}


def call_gather(f: Function, itemsize: int, *arguments: Value) -> None:
    """Gather elements of `itemsize` bytes; the arguments are those of the shared function."""
    f.module.require(_LIBRARY)
    name = f"{_LIBRARY}{itemsize}"
    f.module.declare(name, VOID, list(_ARGUMENTS.values()))
    f.call(name, VOID, *arguments)


def _library(module: Module) -> None:
    for itemsize, type in ELEMENTS.items():
        with module.function(f"{_LIBRARY}{itemsize}", _ARGUMENTS) as f:
            _gather(f, itemsize, type)


provide(_LIBRARY, _library)


def _gather(f: Function, itemsize: int, type: Type) -> None:
    """The body of the function for one size of element."""
    to, source, rank, sizes, strides, start, count = f.arguments
    places = f.stack_buffer(8 * _MOST_AXES)

    def at(array: Value, axis: Value) -> Value:
        return f.element(array, axis, I64)

    # The place of the first element: digits of its number, the last axis first.
    with f.loop(0, rank, carried=[start, source]) as digits:
        number, address = digits.carried
        axis = rank - 1 - digits.index
        size = f.load(I64, at(sizes, axis))
        place = number.unsigned_rest(size)
        f.store(place, at(places, axis))
        offset = place * f.load(I64, at(strides, axis))
        digits.carry(number.unsigned_over(size), f.offset(address, offset))
    last = rank - 1
    length, stride = f.load(I64, at(sizes, last)), f.load(I64, at(strides, last))
    first = f.load(I64, at(places, last))

    with f.repeat(digits.carried[1], to, count, first) as runs:
        address, target, left, place = runs.carried

        def one() -> list[Value]:
            run = f.minimum(length - place, left)
            _copy_run(f, itemsize, type, target, address, stride, run)
            return [f.offset(address, -(place * stride)), run]

        def several() -> list[Value]:
            rows = f.element(sizes, last - 1, I64), f.element(strides, last - 1, I64)
            before = f.element(places, last - 1, I64)
            count, step, number = (f.load(I64, cell) for cell in (*rows, before))
            most = f.minimum(count - number, left.unsigned_over(length))
            _repeat_each(f, itemsize, type, target, address, step, length, most)
            f.store(number + most - 1, before)
            return [f.offset(address, (most - 1) * step), most * length]

        few = stride.equals(0) & place.equals(0) & (length <= VECTOR // itemsize)
        many = few & (length <= left) & (last > 0)
        back, done = one() if itemsize == VECTOR // 4 else f.either(many, several, one)
        moved = f.offset(target, done * itemsize)
        after = _next_row(f, back, last, sizes, strides, places)
        runs.again(left - done > 0, after, moved, left - done, left.of(0))


def _repeat_each(
    f: Function,
    itemsize: int,
    type: Type,
    target: Value,
    source: Value,
    step: Value,
    length: Value,
    count: Value,
) -> None:
    """Write each of some elements `length` times, by vectors: the next one covers what is more."""
    lanes = VECTOR // itemsize
    with f.loop(0, count) as loop:
        item = f.load(type, f.offset(source, loop.index * step), itemsize)
        f.store(f.splat(item, lanes), f.offset(target, loop.index * length * itemsize), itemsize)


def _copy_run(
    f: Function, itemsize: int, type: Type, target: Value, source: Value, stride: Value, run: Value
) -> None:
    """Copy elements with one stride between them; neighbours and repetitions by vectors."""
    align = min(itemsize, 8)
    lanes = host().vector_bytes // itemsize
    whole = run & -lanes

    def apart(first: Value) -> None:
        with f.loop(first, run) as loop:
            item = f.load(type, f.offset(source, loop.index * stride), align)
            f.store(item, f.offset(target, loop.index * itemsize), align)

    def neighbours() -> list[Value]:
        vector = I8.by(host().vector_bytes)
        with f.loop(0, whole, lanes) as loop:
            offset = loop.index * itemsize
            f.store(f.load(vector, f.offset(source, offset)), f.offset(target, offset))
        return [whole]

    def repetitions() -> list[Value]:
        item = f.load(type, source, align)
        vector = f.shuffle(item, None, [0, 1] * lanes) if type.lanes else f.splat(item, lanes)
        with f.loop(0, whole, lanes) as loop:
            f.store(vector, f.offset(target, loop.index * itemsize), align)
        return [whole]

    def others() -> list[Value]:
        return f.either(stride.equals(0), repetitions, lambda: [run.of(0)])

    (done,) = f.either(stride.equals(itemsize), neighbours, others)
    apart(done)


def _next_row(
    f: Function, address: Value, last: Value, sizes: Value, strides: Value, places: Value
) -> Value:
    """Where the row after the one at `address` begins; the places on the other axes move on."""
    (result,) = f.either(
        last.equals(0),
        lambda: [address],
        lambda: [_carry(f, address, last, sizes, strides, places)],
    )
    return result


def _carry(
    f: Function, address: Value, last: Value, sizes: Value, strides: Value, places: Value
) -> Value:
    """Add one to the place on the axis before the last, and carry where it is full."""
    with f.repeat(address, last) as axes:
        here, after = axes.carried
        axis = after - 1
        stride = f.load(I64, f.element(strides, axis, I64))
        size = f.load(I64, f.element(sizes, axis, I64))
        place = f.load(I64, f.element(places, axis, I64)) + 1
        full = place.equals(size)
        f.store(f.select(full, 0, place), f.element(places, axis, I64))
        step = f.select(full, -(stride * (size - 1)), stride)
        axes.again(full & (axis > 0), f.offset(here, step), axis)
    return axes.carried[0]
