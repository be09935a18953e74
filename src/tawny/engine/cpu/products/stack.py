"""Stacks of products: where each finds its operands, and which of them a worker computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tawny.engine.llvm.ir.builder import I64, Function, Value


class Axis(NamedTuple):
    """An axis of a stack: its size, and bytes from one product to the next in each array."""

    size: int
    a: int
    b: int
    c: int
    residual: int
    bias: int = 0


@dataclass(frozen=True, slots=True)
class Offsets:
    """Bytes to the operands of one product of a stack."""

    a: Value
    b: Value
    c: Value
    residual: Value
    bias: Value


def stack_size(f: Function, stack: Value, axes: Value) -> Value:
    """How many products a stack has; its axes are cells in memory."""
    with f.loop(0, axes, carried=[f.constant(I64, 1)]) as loop:
        axis = f.element(stack, loop.index * len(Axis._fields), I64)
        loop.carry(loop.carried[0] * f.cell(axis, 0))
    return loop.carried[0]


def offsets_of(f: Function, stack: Value, axes: Value, place: Value) -> Offsets:
    """Where the product with number `place` has its operands."""
    zeros = [f.constant(I64, 0)] * (len(Axis._fields) - 1)
    with f.loop(0, axes, carried=[place, *zeros]) as loop:
        rest, *offsets = loop.carried
        axis = f.element(stack, (axes - 1 - loop.index) * len(Axis._fields), I64)
        size = f.cell(axis, 0)
        index = rest % size
        moved = [o + index * f.cell(axis, i) for i, o in enumerate(offsets, 1)]
        loop.carry(rest // size, *moved)
    return Offsets(*loop.carried[1:])


def shares(f: Function, tasks: Value, worker: Value, workers: Value) -> tuple[Value, Value]:
    """A worker's tasks, from and to; none for a worker beyond the number of them."""
    first, last = (tasks * f.minimum(w, workers) // workers for w in (worker, worker + 1))
    return first, last
