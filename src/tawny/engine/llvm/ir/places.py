"""Arithmetic on places: the coordinates of a number, and how far coordinates are from the first."""

from __future__ import annotations

from collections.abc import Sequence

from tawny.engine.llvm.ir.builder import Value


def coordinates(number: Value, sizes: Sequence[Value]) -> list[Value]:
    """The places along some axes of the element with a number; the last axis runs fastest."""
    places: list[Value] = []
    for size in reversed(sizes[1:]):
        places.append(number.unsigned_rest(size))
        number = number.unsigned_over(size)
    return [number, *reversed(places)] if sizes else []


def distance(places: Sequence[Value], steps: Sequence[Value]) -> Value:
    """How far places along some axes, one at least, are from the first."""
    total = places[0] * steps[0]
    for place, step in zip(places[1:], steps[1:], strict=True):
        total = total + place * step
    return total
