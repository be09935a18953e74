"""Stacks of products: where each finds its operands, and which of them a worker computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tawny.codegen.builder import I64, PTR, Function, Value
from tawny.codegen.products.row import Addresses, Numbers

STACKED: Final = ("a", "b", "c", "residual", "bias")
"""What moves on from one product of a stack to the next."""


@dataclass(frozen=True, slots=True)
class Bases:
    """Addresses of one product of a stack; null for what there is not."""

    place: Value
    """Its number in the stack."""
    left: Value
    right: Value
    result: Value
    residual: Value
    bias: Value


def stack_names(axes: int) -> list[str]:
    """The numbers that describe a stack of so many axes."""
    return [
        name
        for axis in range(axes)
        for name in (f"stack{axis}", *[f"{what}_stack{axis}" for what in STACKED])
    ]


def bases_of(f: Function, addresses: Addresses, n: Numbers, axes: int, place: Value) -> Bases:
    """Addresses of the product with number `place`."""
    offsets = {name: f.constant(I64, 0) for name in STACKED}
    rest = place
    for axis in reversed(range(axes)):
        index = rest % n[f"stack{axis}"]
        rest = rest // n[f"stack{axis}"]
        for name, offset in offsets.items():
            offsets[name] = offset + index * n[f"{name}_stack{axis}"]
    null = f.constant(PTR, 0)
    moved = [
        f.advanced(addresses[name], offset) if name in addresses else null
        for name, offset in offsets.items()
    ]
    return Bases(place, *moved)


def shares(f: Function, tasks: Value, worker: Value, workers: Value) -> tuple[Value, Value]:
    """A worker's tasks, from and to; none for a worker beyond the number of them."""
    first, last = (tasks * f.minimum(w, workers) // workers for w in (worker, worker + 1))
    return first, last
