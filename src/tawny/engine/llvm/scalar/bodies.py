"""Bodies of elementwise steps as straight-line code over one space of loops.

A step may see its input through a broadcast or through added axes of size 1.  Then the input is
another element of the same array, so what is computed is named by a value and a *view*: for each
axis of the value the axis of the space it runs along, or None where its size is 1.  What is read
through a roll is named by its shifts as well.

Steps that count, such as `arange`, read the number of each place along an axis of the space.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tawny.dtype import DType
from tawny.engine.llvm.ir.builder import Function
from tawny.engine.llvm.scalar.casts import cast
from tawny.engine.llvm.scalar.coordinates import (
    COUNTER,
    canonical_source,
    emit_source,
    index_dtype,
    is_source_supported,
)
from tawny.engine.llvm.scalar.expressions import emit_op, is_supported, loop_dtype
from tawny.engine.llvm.scalar.numbers import Number, lane_bytes
from tawny.op import Elementwise, Op
from tawny.ops.body import Body, BodyStep, nonunit
from tawny.ops.creation import SOURCES, Cast
from tawny.ops.movement import BroadcastTo, Copy, Reshape, Roll
from tawny.shape import Shape

View = tuple[int | None, ...]


class Read(NamedTuple):
    """An operand and how it lies over the space; `COUNTER` stands for the numbers of places."""

    operand: int
    view: View
    shifts: tuple[int, ...] = ()
    """Places by which its elements are moved up along each of its axes; none if they are not."""


class Instruction(NamedTuple):
    """An op on values that were read or made before, counted from the first read."""

    op: Op
    inputs: tuple[int, ...]
    dtype: DType


class ElementCode(NamedTuple):
    """The code for the elements at one place of the space, whatever its shape."""

    reads: tuple[DType, ...]
    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]
    """Numbers of values."""

    def dtype(self, value: int) -> DType:
        """The dtype of a value."""
        count = len(self.reads)
        return self.reads[value] if value < count else self.instructions[value - count].dtype

    def widest_lane_bytes(self) -> int:
        """Bytes of the widest lane that is computed with."""
        widths = [lane_bytes(d) for d in self.reads]
        for instruction in self.instructions:
            widths.append(lane_bytes(instruction.dtype))
            if isinstance(instruction.op, Elementwise):
                given = tuple([self.dtype(i) for i in instruction.inputs])
                widths.append(lane_bytes(loop_dtype(instruction.op, given)))
        return max(widths)


class ElementwiseLoop(NamedTuple):
    """A body brought into one space: its sizes other than 1, what is read, and the code."""

    space: Shape
    reads: tuple[Read, ...]
    code: ElementCode


@lru_cache(1024)
def lower_body(body: Body) -> ElementwiseLoop | None:
    """A body as code over one space; None where it is not elementwise or not supported.

    All results must have the same sizes, but for axes of size 1.
    """
    space = nonunit(body.type_of(body.results[0])[0])
    if any(nonunit(body.type_of(r)[0]) != space for r in body.results):
        return None
    if not all(is_step_supported(body, step) for step in body.steps):
        return None
    first = len(body.operands)
    wanted = [Read(r, whole_view(body.type_of(r)[0])) for r in body.results]
    needed = _dependencies(body, wanted)
    reads = [key for key in needed if key.operand < first]
    numbers = {key: i for i, key in enumerate(reads)}
    instructions: list[Instruction] = []
    for key in needed:
        if key.operand < first:
            continue
        step = body.steps[key.operand - first]
        sources = sources_of(body, step, key.view)
        inputs = tuple([numbers[source] for source in sources])
        if isinstance(step.op, (BroadcastTo, Reshape, Copy, Roll)):
            numbers[key] = inputs[0]
            continue
        numbers[key] = len(reads) + len(instructions)
        instructions.append(Instruction(canonical_source(step.op), inputs, step.dtype))
    counter = index_dtype(space)
    code = ElementCode(
        tuple([counter if r.operand == COUNTER else body.operands[r.operand][1] for r in reads]),
        tuple(instructions),
        tuple([numbers[key] for key in wanted]),
    )
    return ElementwiseLoop(space, tuple(reads), code)


def is_step_supported(body: Body, step: BodyStep) -> bool:
    """Whether code can be generated for a step."""
    op = step.op
    if isinstance(op, SOURCES):
        return is_source_supported(op, tuple([body.type_of(i)[1] for i in step.inputs]))
    if isinstance(op, Roll):
        return step.inputs[0] < len(body.operands)
    if isinstance(op, Elementwise):
        return is_supported(op, tuple([body.type_of(i)[1] for i in step.inputs]))
    if isinstance(op, Reshape):
        return nonunit(op.shape) == nonunit(body.type_of(step.inputs[0])[0])
    return isinstance(op, (Cast, Copy, BroadcastTo))


def whole_view(shape: Shape) -> View:
    """The view of an array that spans the space."""
    axes = iter(range(len(shape)))
    return tuple([None if n == 1 else next(axes) for n in shape])


def over_space(view: View, numbers: Sequence[int], rank: int) -> tuple[int, ...]:
    """Numbers for the axes of a view, such as its strides, along each axis of the space."""
    out = [0] * rank
    for axis, number in zip(view, numbers, strict=True):
        if axis is not None:
            out[axis] = number
    return tuple(out)


def strides_of_reads(
    loop: ElementwiseLoop, strides: Sequence[Sequence[int]]
) -> list[tuple[int, ...]]:
    """The strides of each read along the axes of the space, given those of the operands."""
    rank, counter = len(loop.space), (1,)
    return [
        over_space(r.view, counter if r.operand == COUNTER else strides[r.operand], rank)
        for r in loop.reads
    ]


def shifts_of_reads(loop: ElementwiseLoop) -> list[tuple[int, ...]]:
    """How far each read is rolled along the axes of the space."""
    rank = len(loop.space)
    return [over_space(r.view, r.shifts or (0,) * len(r.view), rank) for r in loop.reads]


def _dependencies(body: Body, results: Sequence[Read]) -> list[Read]:
    """All that must be read or computed, operands first, each step after its inputs."""
    first, seen, stack = len(body.operands), set(results), list(results)
    while stack:
        value, view, _ = stack.pop()
        if value >= first:
            for source in sources_of(body, body.steps[value - first], view):
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
    return sorted(seen, key=lambda r: (r.operand, [-1 if a is None else a for a in r.view], r[2:]))


def sources_of(body: Body, step: BodyStep, view: View) -> list[Read]:
    """A step's inputs and the views that the step seen through `view` has of them."""
    shapes = [body.type_of(i)[0] for i in step.inputs]
    if isinstance(step.op, Roll):
        return [Read(step.inputs[0], view, step.op.shifts)]
    if isinstance(step.op, Reshape):
        axes = iter([a for a in view if a is not None])
        views = [tuple([None if n == 1 else next(axes) for n in shapes[0]])]
    else:
        views = [_broadcast(shape, view) for shape in shapes]
    counters = [Read(COUNTER, (axis,)) for axis in view] if isinstance(step.op, SOURCES) else []
    return [*counters, *[Read(*pair) for pair in zip(step.inputs, views, strict=True)]]


def _broadcast(shape: Shape, view: View) -> View:
    """The view of an input that is stretched to an array seen through `view`."""
    aligned = view[len(view) - len(shape) :]
    return tuple([None if n == 1 else a for n, a in zip(shape, aligned, strict=True)])


def emit(f: Function, code: ElementCode, reads: Sequence[Number]) -> list[Number]:
    """Write the code for numbers that were read, scalars or vectors; the results."""
    values = list(reads)
    for op, inputs, dtype in code.instructions:
        given = [values[i] for i in inputs]
        dtypes = tuple([code.dtype(i) for i in inputs])
        if isinstance(op, Elementwise):
            values.append(emit_op(f, op, dtypes, given))
        elif isinstance(op, SOURCES):
            values.append(emit_source(f, op, dtypes, given))
        else:
            values.append(cast(f, given[0], dtypes[0], dtype))
    return [values[r] for r in code.results]
