"""Rows: what an op reads to compute some of the rows of its result.

The rows of an array lie along its first axis of more than one element, so that some of them, one
after the other, lie together in memory.  A rule says which rows of each operand are read for a
range of rows of the result; ops without a rule are computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from tawny.op import Elementwise, Op
from tawny.ops.body import Body, BodyStep
from tawny.ops.convolution import Convolution, ConvolutionInputGradient, ConvolutionOp
from tawny.ops.creation import BroadcastTo, Cast
from tawny.ops.fusion import FusedConvolution, FusedMatmul, Group
from tawny.ops.indexing import Gather, Slice
from tawny.ops.joining import Concat
from tawny.ops.linalg import Matmul
from tawny.ops.movement import Reshape, Roll, Transpose
from tawny.ops.pieces import GatherPieces
from tawny.ops.pooling import AvgPool, MaxPool, Pooling, Upsampling
from tawny.ops.reduction import ArgExtremum, Reduction
from tawny.ops.window import spans
from tawny.shape import Shape, replace_size, size

Rows = tuple[int, int]
"""The first of some rows, and the one after the last."""


def row_axis(shape: Shape) -> int:
    """The axis of the rows: the first of another size than 1, or the one past the last."""
    for axis, n in enumerate(shape):
        if n != 1:
            return axis
    return len(shape)


def row_count(shape: Shape) -> int:
    """How many rows there are."""
    axis = row_axis(shape)
    return shape[axis] if axis < len(shape) else 1


def shape_of_rows(shape: Shape, rows: Rows) -> Shape:
    """The shape of some of the rows."""
    return replace_size(shape, row_axis(shape), rows[1] - rows[0])


class RowSlice(NamedTuple):
    """How some rows of a result are computed."""

    op: Op
    reads: tuple[Rows | None, ...]
    """Of each operand, the rows that are read; None for all of it."""
    rows: Rows
    """The rows that are computed: those that were asked for, and maybe some around."""


Rule = Callable[[Any, Shape, Sequence[Shape], Rows], RowSlice | None]
"""Of an op, the shapes of its result and operands, and the rows asked for; None where it has to be
computed whole."""

R = TypeVar("R", bound=Rule)

RULES: Final[dict[type[Op], Rule]] = {}


def _rule(*ops: type[Op]) -> Callable[[R], R]:
    def declare(rule: R) -> R:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return declare


def slice_rows(op: Op, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """How to compute some rows of the result of an op; None where it has to be computed whole."""
    rule = next((RULES[kind] for kind in type(op).__mro__ if kind in RULES), None)
    if rule is None or row_count(shape) < 2 or not size(shape):
        return None
    return rule(op, shape, operands, rows)


# ------------------------------------------------------------------------ rules


def _broadcast_rows(given: Shape, shape: Shape, rows: Rows) -> Rows | None:
    """The rows of an operand that is spread to `shape`; None if it has no rows of its own."""
    axis = row_axis(shape) - (len(shape) - len(given))
    return rows if axis >= 0 and given[axis] == row_count(shape) else None


@_rule(Elementwise, Cast)
def elementwise(op: Op, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice:
    """Element by element."""
    return RowSlice(op, tuple([_broadcast_rows(given, shape, rows) for given in operands]), rows)


@_rule(BroadcastTo)
def broadcast_to(op: BroadcastTo, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice:
    """Repeated less often, or fewer rows repeated."""
    return RowSlice(
        BroadcastTo(shape_of_rows(op.shape, rows)),
        (_broadcast_rows(operands[0], shape, rows),),
        rows,
    )


@_rule(Reduction, ArgExtremum)
def reduction(
    op: Reduction | ArgExtremum, shape: Shape, operands: Sequence[Shape], rows: Rows
) -> RowSlice | None:
    """Each row by itself."""
    del shape
    axes = op.axes if isinstance(op, Reduction) else (op.axis,)
    return None if None in axes or row_axis(operands[0]) in axes else RowSlice(op, (rows,), rows)


@_rule(Reshape)
def reshape(op: Reshape, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """Rows of the other shape that hold them, where rows of one are whole rows of the other."""
    given, (first, last) = operands[0], rows
    ours, theirs = row_count(shape), row_count(given)
    if not theirs % ours:
        each = theirs // ours
        return RowSlice(
            Reshape(shape_of_rows(op.shape, rows)), ((first * each, last * each),), rows
        )
    if not ours % theirs:
        each = ours // theirs
        read = first // each, -(-last // each)
        made = read[0] * each, read[1] * each
        return RowSlice(Reshape(shape_of_rows(op.shape, made)), (read,), made)
    return None


@_rule(Transpose)
def transpose(
    op: Transpose, shape: Shape, operands: Sequence[Shape], rows: Rows
) -> RowSlice | None:
    """Where rows stay rows."""
    return (
        RowSlice(op, (rows,), rows) if op.axes[row_axis(shape)] == row_axis(operands[0]) else None
    )


@_rule(Roll)
def roll(op: Roll, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """Where rows are not what is moved."""
    del operands
    return None if op.shifts[row_axis(shape)] else RowSlice(op, (rows,), rows)


@_rule(Slice)
def slice_of(op: Slice, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """Where all rows are taken."""
    axis, (given,) = row_axis(shape), operands
    if axis != row_axis(given) or op.ranges[axis] != (0, given[axis], 1):
        return None
    first, last = rows
    taken = (0, last - first, 1)
    return RowSlice(Slice((*op.ranges[:axis], taken, *op.ranges[axis + 1 :])), (rows,), rows)


@_rule(Concat)
def concat(op: Concat, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """Where rows are not what is joined."""
    whole = op.axis == row_axis(shape) or any(row_axis(o) != row_axis(shape) for o in operands)
    return None if whole else RowSlice(op, (rows,) * len(operands), rows)


@_rule(Gather)
def gather(op: Gather, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """Where each row of indices picks a row; what is picked from is read whole."""
    places = len(shape) - (len(operands[0]) - len(op.axes))
    if not op.place <= row_axis(shape) < op.place + places:
        return None
    picked = shape[op.place : op.place + places]
    return RowSlice(
        op, (None, *[_broadcast_rows(given, picked, rows) for given in operands[1:]]), rows
    )


@_rule(GatherPieces)
def gather_pieces(
    op: GatherPieces, shape: Shape, operands: Sequence[Shape], rows: Rows
) -> RowSlice | None:
    """Rows of the indices, as those of `gather`."""
    indices = operands[-1]
    if row_axis(shape) >= len(indices):
        return None
    return RowSlice(op, (*[None] * (len(operands) - 1), rows), rows)


@_rule(Matmul, FusedMatmul)
def matmul(
    op: Matmul | FusedMatmul, shape: Shape, operands: Sequence[Shape], rows: Rows
) -> RowSlice | None:
    """Matrices of a stack by themselves; of one matrix, rows of the left one."""
    left, right, *others = operands
    axis = row_axis(shape)
    if min(len(left), len(right)) < 2 or axis == len(shape) - 1:
        return None
    stack = shape[:-2]
    if axis < len(stack):
        reads = [_broadcast_rows(given[:-2], stack, rows) for given in (left, right)]
    elif isinstance(op, FusedMatmul) and op.transpose_a:
        return None
    else:
        reads = [rows, None]
    return RowSlice(op, (*reads, *_epilogue_reads(op, shape, others, rows)), rows)


def _epilogue_reads(op: Op, shape: Shape, others: Sequence[Shape], rows: Rows) -> list[Rows | None]:
    """What is read of the bias and the residual of a fused product."""
    if not isinstance(op, (FusedMatmul, FusedConvolution)):
        return []
    residual = [_broadcast_rows(others[-1], shape, rows)] if op.epilogue.residual else []
    return [*[None] * op.epilogue.bias, *residual]


def _window_rows(
    shape: Shape, given: Shape, span: int, stride: int, pads: tuple[int, int], rows: Rows
) -> tuple[Rows, tuple[int, int]] | None:
    """The rows that windows of `span` rows see, and how much padding they see before and after.

    None where rows are no rows of an image, or windows see padding alone.
    """
    if row_axis(shape) != 1 or row_axis(given) != 1:
        return None
    first, last = rows[0] * stride - pads[0], (rows[1] - 1) * stride - pads[0] + span
    seen = max(first, 0), min(last, given[1])
    if seen[1] - seen[0] < 1:
        return None
    return seen, (seen[0] - first, last - seen[1])


@_rule(Convolution, FusedConvolution)
def convolution(
    op: Convolution | FusedConvolution, shape: Shape, operands: Sequence[Shape], rows: Rows
) -> RowSlice | None:
    """Images by themselves; of one image, the rows that windows see."""
    x, kernel, *others = operands
    extra = _epilogue_reads(op, shape, others, rows)
    if row_axis(shape) == 0:
        return RowSlice(op, (rows, None, *extra), rows)
    span = spans(kernel[:-2], op.dilation)[0]
    found = _window_rows(shape, x, span, op.strides[0], op.padding[0], rows)
    if found is None:
        return None
    seen, pads = found
    return RowSlice(_replace_padding(op, pads), (seen, None, *extra), rows)


def _replace_padding(op: ConvolutionOp | Pooling, pads: tuple[int, int]) -> Op:
    """The op with other padding of its first spatial axis."""
    attributes: dict[str, Any] = op.attributes() | {"padding": (pads, *op.padding[1:])}
    return type(op)(**attributes)


@_rule(ConvolutionInputGradient)
def convolution_input_gradient(
    op: ConvolutionInputGradient, shape: Shape, operands: Sequence[Shape], rows: Rows
) -> RowSlice | None:
    """Images by themselves."""
    del operands
    return RowSlice(op, (None, rows), rows) if row_axis(shape) == 0 else None


@_rule(MaxPool, AvgPool)
def pool(op: Pooling, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """Images by themselves; of one image, the rows that windows see."""
    if row_axis(shape) == 0:
        return RowSlice(op, (rows,), rows)
    found = _window_rows(shape, operands[0], op.window[0], op.strides[0], op.padding[0], rows)
    if found is None:
        return None
    seen, pads = found
    return RowSlice(_replace_padding(op, pads), (seen,), rows)


@_rule(Upsampling)
def upsampling(
    op: Upsampling, shape: Shape, operands: Sequence[Shape], rows: Rows
) -> RowSlice | None:
    """Images by themselves; of one image, whole blocks of equal rows."""
    if row_axis(shape) == 0:
        return RowSlice(op, (rows,), rows)
    if row_axis(shape) != 1 or row_axis(operands[0]) != 1:
        return None
    factor = op.factors[0]
    read = rows[0] // factor, -(-rows[1] // factor)
    return RowSlice(op, (read,), (read[0] * factor, read[1] * factor))


@_rule(Group)
def group(op: Group, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
    """All steps on the same rows."""
    del shape, operands
    found = band(op.body, (rows,), views=False) if len(op.body.results) == 1 else None
    return None if found is None else RowSlice(Group(found.body), found.reads, rows)


# ----------------------------------------------------------------------- bodies


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
    """Which rows of each value of a body are needed."""

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
            found = slice_rows(step.op, step.shape, shapes, self.rows[value])
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
