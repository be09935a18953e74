"""Copies of the input's lines, channels side by side, with zeros around them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final

from tawny.engine.cpu.kernels.element import Element
from tawny.engine.cpu.kernels.kernel import Numbers
from tawny.engine.cpu.products.packing import LONGEST, transpose_square
from tawny.engine.llvm.ir.builder import Function, Value

LINE_NUMBERS: Final = ("pixel_bytes", "pixels", "first", "low", "high", "a_step")
"""Numbers of a line that compiled code reads."""

MOST_WOVEN: Final = 4
"""The most channels whose vectors are woven into each other; those of more are transposed."""


class PixelOrder(enum.Enum):
    """An order of the pixels of a line of the input in memory."""

    TOGETHER = "one after another, channels side by side"
    ALTERNATE = "apart, channels side by side"
    PLANES = "channel by channel, pixels side by side"
    SCATTERED = "nothing is side by side"

    @staticmethod
    def of(item: int, channels: int, pixel_step: int, channel_step: int) -> PixelOrder:
        """The order of pixels, given the bytes between pixels and between channels."""
        if channels == 1 or channel_step == item:
            whole = pixel_step == channels * item
            return PixelOrder.TOGETHER if whole else PixelOrder.ALTERNATE
        return PixelOrder.PLANES if pixel_step == item else PixelOrder.SCATTERED


def woven_channels(element: Element, order: PixelOrder, channels: int) -> int:
    """How many channels of planes are woven into each other; 0 where they are not few."""
    few = order is PixelOrder.PLANES and channels <= MOST_WOVEN and element.parts == 1
    return channels if few else 0


def copy_line(
    f: Function,
    element: Element,
    n: Numbers,
    source: Value,
    target: Value,
    inside: Value,
    axis: int,
    order: PixelOrder,
    woven: int = 0,
) -> None:
    """One line with zeros around it; nothing but zeros for one that is not inside of the input."""
    low, high = (f.select(inside, n[name], 0) for name in ("low", "high"))
    pixel = n["pixel_bytes"]
    _clear(f, element, target, low * pixel)
    _clear(f, element, f.offset(target, high * pixel), (n["pixels"] - high) * pixel)
    begin = f.offset(source, (n["first"] + low) * n[f"a_bytes{axis}"])
    place, count = f.offset(target, low * pixel), high - low
    if order is PixelOrder.TOGETHER:
        _copy(f, element, begin, place, count * pixel)
    elif woven:
        _weave(f, element, n, begin, place, count, woven)
    elif order is PixelOrder.PLANES and element.lanes <= LONGEST:
        _transpose(f, element, n, begin, place, count)
    else:
        _gather(f, element, n, begin, place, count, n[f"a_bytes{axis}"])


Step = Callable[[Value, Value | None], None]
"""What is done with the elements from a number on: a whole vector of them, or a mask of some."""


def _by_vectors(f: Function, element: Element, count: Value, step: Step) -> None:
    """Do a step for each vector of `count` elements, with a mask for those that are left over."""
    lanes = element.lanes
    whole = count - (count & (lanes - 1))
    with f.loop(0, whole, lanes) as loop:
        step(loop.index, None)
    with f.loop(whole, count, lanes) as loop:
        step(loop.index, element.first(f, count - loop.index))


def _load(f: Function, element: Element, address: Value, mask: Value | None) -> Value:
    """A vector of what lies in memory."""
    kind = element.neighbours
    if mask is None:
        return f.load(kind, address)
    return f.masked_load(kind, address, mask, f.constant(kind, 0))


def _store(f: Function, value: Value, address: Value, mask: Value | None) -> None:
    if mask is None:
        f.store(value, address)
    else:
        f.masked_store(value, address, mask)


def _copy(f: Function, element: Element, begin: Value, place: Value, length: Value) -> None:
    """Bytes that follow each other."""

    def step(index: Value, mask: Value | None) -> None:
        offset = index * element.nbytes
        _store(f, _load(f, element, f.offset(begin, offset), mask), f.offset(place, offset), mask)

    _by_vectors(f, element, length // element.nbytes, step)


def _weave(
    f: Function, element: Element, n: Numbers, begin: Value, place: Value, count: Value, woven: int
) -> None:
    """A vector of each of a few channels at a time, woven into as many vectors of pixels."""
    starts = [f.offset(begin, n["a_step"] * channel) for channel in range(woven)]

    def step(index: Value, mask: Value | None) -> None:
        offset = index * element.nbytes
        planes = [_load(f, element, f.offset(start, offset), mask) for start in starts]
        end = f.offset(place, offset * woven)
        for k, pixels in enumerate(weave(f, planes)):
            rest = (count - index) * woven - k * element.lanes
            own = None if mask is None else element.first(f, rest)
            _store(f, pixels, f.offset(end, k * element.vector_bytes), own)

    _by_vectors(f, element, count, step)


def weave(f: Function, planes: Sequence[Value]) -> list[Value]:
    """Vectors with the first lanes of all planes, then the second lanes of all, and so on."""
    lanes, count = planes[0].type.lanes, len(planes)
    made: list[Value] = []
    for k in range(count):
        wanted = [divmod(k * lanes + i, count) for i in range(lanes)]
        vector = planes[0]
        for channel in range(1, count):
            taken = [
                (lane if channel == 1 else i) if c < channel else lanes + lane
                for i, (lane, c) in enumerate(wanted)
            ]
            vector = f.shuffle(vector, planes[channel], taken)
        made.append(vector)
    return made


def _transpose(
    f: Function, element: Element, n: Numbers, begin: Value, place: Value, count: Value
) -> None:
    """Squares of as many pixels and channels as a vector has lanes."""
    lanes, kind, item = element.lanes, element.neighbours, element.nbytes
    pixel = n["pixel_bytes"]
    channels = pixel // item
    with f.loop(0, count, lanes) as across:
        pixels = count - across.index
        mask = element.first(f, pixels)
        start = f.offset(begin, across.index * item)
        with f.loop(0, channels, lanes) as down:
            rest, rows = channels - down.index, list[Value]()
            for lane in range(lanes):
                channel = f.minimum(down.index + lane, channels - 1)
                address = f.offset(start, channel * n["a_step"])
                rows.append(f.masked_load(kind, address, mask, f.constant(kind, 0)))
            end = f.offset(place, across.index * pixel + down.index * item)
            for i, values in enumerate(transpose_square(f, rows, element.parts)):
                some = element.first(f, f.select(pixels > i, rest, 0))
                f.masked_store(values, f.offset(end, pixel * i), some)


def _gather(
    f: Function,
    element: Element,
    n: Numbers,
    begin: Value,
    place: Value,
    count: Value,
    step: Value,
) -> None:
    """Element by element."""
    pixel = n["pixel_bytes"]
    with f.loop(0, count, carried=[begin, place]) as pixels:
        start, end = pixels.carried
        with f.loop(0, pixel, element.nbytes, carried=[start]) as channels:
            (at,) = channels.carried
            f.store(f.load(element.memory_type, at), f.offset(end, channels.index))
            channels.carry(f.offset(at, n["a_step"]))
        pixels.carry(f.offset(start, step), f.offset(end, pixel))


def _clear(f: Function, element: Element, place: Value, length: Value) -> None:
    """Write zeros to `length` bytes."""
    zero = f.constant(element.neighbours, 0)

    def step(index: Value, mask: Value | None) -> None:
        _store(f, zero, f.offset(place, index * element.nbytes), mask)

    _by_vectors(f, element, length // element.nbytes, step)
