"""Rows of what a body gives: the body of all its ops on the rows that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tawny.op import Op
from tawny.ops.body import Body, BodyStep
from tawny.ops.indexing import Slice
from tawny.rows import Rows, RowSlice, row_axis, row_count, shape_of_rows
from tawny.shape import Shape, size


class Band(NamedTuple):
    """Some rows of the results of a body."""

    body: Body
    """What computes them."""
    reads: tuple[Rows | None, ...]
    """The rows of each operand that it is given; None for all of it."""
    rows: tuple[Rows, ...]
    """The rows of each result that it gives."""


def band(body: Body, rows: Sequence[Rows], *, views: bool = True) -> Band | None:
    """How to compute these rows of the results; None where some of it has to be computed whole.

    Steps may take views of rows that are computed for others too, unless that is forbidden.
    """
    asked = _NeededRows(body)
    for result, wanted in zip(body.results, rows, strict=True):
        asked.add(result, wanted)
    cuts = asked.slice_steps()
    if cuts is None or any(
        asked.rows[r] != wanted for r, wanted in zip(body.results, rows, strict=True)
    ):
        return None
    return _build_band(body, asked, cuts, tuple(rows), views)


class _NeededRows:
    """The rows of each value of a body that are needed."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.rows: dict[int, Rows] = {}
        self.whole: set[int] = set()

    def add(self, value: int, rows: Rows | None) -> None:
        """Some more rows are needed, or all; what is between is computed too."""
        if rows is None:
            self.whole.add(value)
        elif value in self.rows:
            first, last = self.rows[value]
            self.rows[value] = min(first, rows[0]), max(last, rows[1])
        else:
            self.rows[value] = rows

    def slice_steps(self) -> list[RowSlice] | None:
        """How each step computes what is needed of it; None where a step is needed whole."""
        body, first = self._body, len(self._body.operands)
        cuts: list[RowSlice] = []
        for value in range(first + len(body.steps) - 1, first - 1, -1):
            step = body.steps[value - first]
            if value in self.whole or value not in self.rows:
                return None
            shapes = [body.type_of(i)[0] for i in step.inputs]
            if row_count(step.shape) < 2 or not size(step.shape):
                return None
            found = step.op.slice_rows(step.shape, shapes, self.rows[value])
            if found is None:
                return None
            self.rows[value] = found.rows
            cuts.append(found)
            for source, read in zip(step.inputs, found.reads, strict=True):
                self.add(source, read)
        return cuts[::-1]


def _build_band(
    body: Body, asked: _NeededRows, cuts: Sequence[RowSlice], rows: tuple[Rows, ...], views: bool
) -> Band | None:
    """The body of what is needed."""
    first = len(body.operands)
    reads = tuple([None if v in asked.whole else asked.rows.get(v) for v in range(first)])
    held: list[Rows | None] = list(reads)
    operands = tuple(
        [
            (shape if read is None else shape_of_rows(shape, read), dtype)
            for (shape, dtype), read in zip(body.operands, reads, strict=True)
        ]
    )
    shapes: list[Shape] = [shape for shape, _ in operands]
    steps: list[BodyStep] = []
    new = list(range(first))
    sliced: dict[tuple[int, Rows], int] = {}

    def add(op: Op, inputs: tuple[int, ...], value: int) -> int:
        shape = op.infer_shape(*[shapes[i] for i in inputs])
        steps.append(BodyStep(op, inputs, shape, body.type_of(value)[1]))
        shapes.append(shape)
        return len(shapes) - 1

    def taken(value: int, read: Rows | None) -> int | None:
        """The value that holds just these rows of one."""
        if read == held[value]:
            return new[value]
        if read is None or not views:
            return None
        if (value, read) not in sliced:
            shape, start = body.type_of(value)[0], (held[value] or (0, 0))[0]
            axis, ranges = row_axis(shape), [(0, n, 1) for n in shapes[new[value]]]
            ranges[axis] = (read[0] - start, read[1] - read[0], 1)
            sliced[value, read] = add(Slice(tuple(ranges)), (new[value],), value)
        return sliced[value, read]

    for number, (step, found) in enumerate(zip(body.steps, cuts, strict=True)):
        inputs = [taken(v, read) for v, read in zip(step.inputs, found.reads, strict=True)]
        if any(i is None for i in inputs):
            return None
        new.append(add(found.op, tuple([i for i in inputs if i is not None]), first + number))
        held.append(found.rows)
    made = Body.of(operands, tuple(steps), tuple([new[r] for r in body.results]))
    return Band(made, reads, rows)
