"""Operators of sequences and of values that may be missing; their lengths are known."""

from __future__ import annotations

import numpy

import tawny.numpy as np
from tawny.array import Array
from tawny.onnx.call import NodeCall
from tawny.onnx.table import operator
from tawny.onnx.values import FlowValue, NoValue, SequenceValue


@operator("SequenceConstruct")
def construct(call: NodeCall) -> SequenceValue:
    """The operands as a sequence."""
    return SequenceValue(tuple(call.arrays()))


@operator("SequenceEmpty")
def empty(call: NodeCall) -> SequenceValue:
    """A sequence of nothing."""
    del call
    return SequenceValue(())


@operator("SequenceLength")
def length(call: NodeCall) -> Array:
    """The number of items."""
    return np.asarray(numpy.array(len(call.sequence(0)), numpy.int64))


def _place(call: NodeCall, position: int, most: int) -> int:
    place = call.known_int(position)
    if not -most <= place < max(most, 1):
        call.fail(f"place {place} is out of bounds for {most} items")
    return place % most if most else 0


@operator("SequenceAt")
def at(call: NodeCall) -> FlowValue:
    """One item."""
    items = call.sequence(0)
    if not items:
        call.fail("the sequence is empty")
    return items[_place(call, 1, len(items))]


@operator("SequenceInsert")
def insert(call: NodeCall) -> SequenceValue:
    """An item put in, at the end or at a place."""
    items = call.sequence(0)
    place = len(items)
    if call.optional(2) is not None:
        place = call.known_int(2)
        if not -len(items) <= place <= len(items):
            call.fail(f"place {place} is out of bounds for {len(items)} items")
        place += len(items) if place < 0 else 0
    return SequenceValue((*items[:place], call.array(1), *items[place:]))


@operator("SequenceErase")
def erase(call: NodeCall) -> SequenceValue:
    """An item taken out, of the end or of a place."""
    items = call.sequence(0)
    if not items:
        call.fail("the sequence is empty")
    place = len(items) - 1 if call.optional(1) is None else _place(call, 1, len(items))
    return SequenceValue((*items[:place], *items[place + 1 :]))


@operator("ConcatFromSequence")
def concat(call: NodeCall) -> Array:
    """All items behind each other, along an axis that there is or a new one."""
    arrays = [call.as_array(x, 0) for x in call.sequence(0)]
    if not arrays:
        call.fail("the sequence is empty")
    axis, new = call.integer("axis"), call.flag("new_axis")
    axis = call.axis(axis, arrays[0].ndim + new)
    return np.stack(arrays, axis) if new else np.concat(arrays, axis)


@operator("Optional")
def optional(call: NodeCall) -> FlowValue:
    """A value that may be missing."""
    return call.value(0) if call.operands else NoValue()


@operator("OptionalHasElement")
def has_element(call: NodeCall) -> Array:
    """Whether a value is there."""
    there = bool(call.operands) and not isinstance(call.operands[0], NoValue | None)
    return np.asarray(numpy.array(there))


@operator("OptionalGetElement")
def get_element(call: NodeCall) -> FlowValue:
    """A value that must be there."""
    value = call.value(0)
    if isinstance(value, NoValue):
        call.fail("operand 0 has no element")
    return value
