"""Transforms along one axis or several: the kernel that computes them, phase by phase."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tawny.engine.cpu.kernels.kernel import ArrayLayout, KernelSequence
from tawny.engine.cpu.transforms.columns import columns_cost, columns_part
from tawny.engine.cpu.transforms.driver import Phase, SharedRoom, TileAxis, TileLoop, phases_kernel
from tawny.engine.cpu.transforms.lanes import Lanes
from tawny.engine.cpu.transforms.lengths import CALL, square_cost
from tawny.engine.cpu.transforms.lines import AxisTransforms, TransformKind
from tawny.engine.cpu.transforms.long import long_parts
from tawny.engine.cpu.transforms.squares import TransformMatrix, square_of, square_part
from tawny.engine.cpu.transforms.stage import SHARED, SOURCE, TARGET
from tawny.engine.llvm.ir.builder import F32, F64
from tawny.shape import Shape, contiguous_strides

LONG: Final = 2**14
"""Complex numbers from which a transform is computed in two phases (`benchmarks/fft.py`)."""

TASK_BYTES: Final = 2**19
"""Bytes of an array's part up to which a task transforms it along several axes: it stays in the
second cache (`benchmarks/fft.py`)."""

LEAST_TASKS: Final = 8
"""Tasks of several axes are not fewer."""

SHARED_OPERATIONS: Final = 2**19
"""Operations from which threads share the work; see `workshare`."""

MOST_ROOM: Final = 2**28
"""Bytes of scratch memory of a worker above which there is no kernel."""


class StridedArray(NamedTuple):
    """An array that transforms read or leave: a cell of the frame, its shape and its strides."""

    cell: int
    shape: Shape
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Transforms:
    """Transforms along some axes of an array."""

    kind: TransformKind
    """Of the axis that is transformed first or, of `REAL`, last: it is the last of the axes.
    Others are `COMPLEX`."""
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    inverse: bool
    scale: float


class _Along(NamedTuple):
    """An axis that is transformed, from one array to another that are so large meanwhile."""

    kind: TransformKind
    axis: int
    size: int
    source: StridedArray
    target: StridedArray
    shape: Shape
    inverse: bool


def transform_kernel(
    task: Transforms, operand: ArrayLayout, result: ArrayLayout, workers: int
) -> KernelSequence | None:
    """The kernel of transforms; None where it would need too much memory."""
    lanes = Lanes.of(F32 if result.dtype.char in "fF" else F64)
    source = StridedArray(SOURCE, operand.shape, operand.strides)
    target = StridedArray(TARGET, result.shape, result.strides)
    middle = _middle(task, source, lanes)
    order = _order(task, source, target, middle)
    groups = _groups(order, result.dtype.itemsize)
    shared = SharedRoom(math.prod(middle.shape) * lanes.number if _has_middle(task) else 0)
    if len(groups) == 1 and groups[0].outer and _has_middle(task):
        # Each worker has a middle of its own, of one task.
        outer = groups[0].outer
        middle = middle._replace(strides=(*[0] * outer, *middle.strides[outer:]))
        order = _order(task, source, target, middle)
        groups = _groups(order, result.dtype.itemsize)
        shared = SharedRoom(math.prod(middle.shape[outer:]) * lanes.number, each=True)
    phases: list[Phase] = []
    for group in groups:
        scale = task.scale if group is groups[-1] else 1.0
        phases += _phases(group, lanes, scale)
    if max([part.room for phase in phases for part in phase.parts]) > MOST_ROOM:
        return None
    points = math.prod(task.sizes)
    operations = 5 * math.prod(result.shape) * max(points.bit_length() - 1, 1)
    parallel = operations > SHARED_OPERATIONS and any(phase.tasks > 1 for phase in phases)
    return phases_kernel(phases, workers if parallel else 1, shared, parallel=parallel)


# ------------------------------------------------------------------ axis by axis


def _has_middle(task: Transforms) -> bool:
    """Whether complex transforms leave something for those whose results are real numbers."""
    return task.kind is TransformKind.REAL and len(task.axes) > 1


def _middle(task: Transforms, source: StridedArray, lanes: Lanes) -> StridedArray:
    """What they leave."""
    shape = list(source.shape)
    for axis, n in zip(task.axes, task.sizes, strict=True):
        shape[axis] = n
    last = task.axes[-1]
    shape[last] = min(source.shape[last], task.sizes[-1] // 2 + 1)
    return StridedArray(SHARED, tuple(shape), contiguous_strides(tuple(shape), lanes.number))


def _order(
    task: Transforms, source: StridedArray, target: StridedArray, middle: StridedArray
) -> list[_Along]:
    """One axis after the other, from operand to result, then in its place.

    Axes that follow are as long as they are given meanwhile.  The first axes in memory are
    transformed last or, where real numbers are to come out, first.
    """
    pairs = list(zip(task.axes, task.sizes, strict=True))
    shape = [*source.shape]
    for axis, n in pairs:
        shape[axis] = min(shape[axis], n)
    real = task.kind is TransformKind.REAL
    *others, last = pairs
    if real:
        order = [*sorted(others), last]
        shape[last[0]] = middle.shape[last[0]]
    elif task.kind is TransformKind.COMPLEX:
        order = sorted(pairs, reverse=True)
    else:
        order = [last, *sorted(others, reverse=True)]
    found: list[_Along] = []
    here = source
    for number, (axis, n) in enumerate(order):
        is_last = number == len(order) - 1
        kind = task.kind if (is_last if real else number == 0) else TransformKind.COMPLEX
        there = middle if real and not is_last else target
        found.append(_Along(kind, axis, n, here, there, tuple(shape), task.inverse))
        shape[axis] = n // 2 + 1 if kind is TransformKind.HALF else n
        here = there
    return found


class _AxisGroup(NamedTuple):
    """Axes that a task transforms, for each place on the first `outer` axes of the array."""

    axes: tuple[_Along, ...]
    outer: int


def _groups(order: Sequence[_Along], itemsize: int) -> list[_AxisGroup]:
    """Axes in as few groups as there can be, if what a task works on is small enough."""
    groups: list[_AxisGroup] = []
    for one in order:
        if groups:
            together = (*groups[-1].axes, one)
            outer = min(along.axis for along in together)
            small = all(
                math.prod(along.shape[outer:]) * itemsize <= TASK_BYTES for along in together
            )
            if small and math.prod(one.shape[:outer]) >= LEAST_TASKS:
                groups[-1] = _AxisGroup(together, outer)
                continue
        groups.append(_AxisGroup((one,), 0))
    return groups


def _phases(group: _AxisGroup, lanes: Lanes, scale: float) -> list[Phase]:
    """The phases of a group of axes, of which the last scales the results."""
    lines = [_lines(along, group.outer, lanes) for along in group.axes]
    lines[-1] = replace(lines[-1], scale=scale)
    if group.outer:
        parts = [part for one in lines for part in parts_of(one)]
        return [Phase(tuple(parts), math.prod(group.axes[0].shape[: group.outer]))]
    return [Phase((part,), part.tiles) for one in lines for part in parts_of(one)]


def _lines(along: _Along, outer: int, lanes: Lanes) -> AxisTransforms:
    """Transforms along an axis; places on the first `outer` axes are not taken together."""
    kind, axis, n, source, target, shape, inverse = along
    steps = [TileAxis(*each) for each in zip(shape, source.strides, target.strides, strict=True)]
    others = [step for a, step in enumerate(steps) if a >= outer and a != axis and step.size != 1]
    return AxisTransforms(
        kind,
        lanes,
        n,
        shape[axis],
        (source.strides[axis], target.strides[axis]),
        _merge(others),
        tuple(steps[:outer]),
        inverse,
        1.0,
        source.cell,
        target.cell,
    )


def _merge(steps: Sequence[TileAxis]) -> tuple[TileAxis, ...]:
    """Axes that follow each other in memory as one."""
    found: list[TileAxis] = []
    for step in steps:
        whole = step.size * step.source, step.size * step.target
        if found and found[-1][1:] == whole:
            found[-1] = TileAxis(found[-1].size * step.size, step.source, step.target)
        else:
            found.append(step)
    return tuple(found)


# -------------------------------------------------------------------- one axis


def parts_of(lines: AxisTransforms) -> list[TileLoop]:
    """The parts that compute transforms along one axis."""
    if lines.in_rows:
        n = lines.complex_length
        square = square_of(n, lines.lanes)
        if square is not None:
            odd = lines.kind is not TransformKind.COMPLEX and not lines.is_even
            possible = not (odd or square.is_convolution or lines.outer)
            if n >= LONG and lines.source != lines.target and possible:
                return long_parts(lines, square)
            if _square_is_better(lines, square):
                return [square_part(lines, square)]
    return [columns_part(lines)]


def _square_is_better(lines: AxisTransforms, square: TransformMatrix) -> bool:
    """Whether transforms cost less one by one than in columns, as far as is estimated."""
    lanes = lines.lanes
    cost = square_cost(square.rows, square.columns, lanes.count)
    if square.is_convolution:
        cost = 2 * cost + 3 * (WEIGH_COST * lanes.blocks(square.rows * square.columns) + CALL)
    if lines.kind is not TransformKind.COMPLEX and lines.is_even:
        cost += HALVES_COST * lanes.blocks(square.length) + CALL
    return lines.count * cost < columns_cost(lines)


HALVES_COST: Final = 12.0
"""Cycles in which a block is made of halves, or halves of it."""

WEIGH_COST: Final = 7.0
"""Cycles in which a block is multiplied by another."""
