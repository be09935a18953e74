"""Parts of arrays: taken out, put in and surrounded; ops that are each other's transposes.

A range along every axis, and index arrays that pick along some of them, say which part; the
indices that sort are such an array.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, wrap
from tawny.attributes import Bounds
from tawny.dtype import DType, check_categories
from tawny.errors import type_error, value_error
from tawny.node import Constant, Node, make, scalar
from tawny.op import (
    ELEMENTWISE,
    BatchOperand,
    Cost,
    Gradient,
    Op,
    Overwrites,
    Trait,
    Type,
    ViewStrides,
    dtype_mismatch,
    nbytes,
)
from tawny.ops import elementwise as e
from tawny.ops.creation import Arange, Cast, cast_node
from tawny.ops.differentiation import scale_cotangent
from tawny.ops.movement import (
    align_batch,
    batch_size,
    behind_batch,
    broadcast_node,
    expand_dims,
    expand_node,
    flip,
    flip_node,
    moveaxis,
    repeat_in_batch,
    reshape,
    reshape_node,
    transpose_node,
    zeros_node,
)
from tawny.rows import Rows, RowSlice, broadcast_rows, row_axis
from tawny.shape import Shape, broadcast, size

Range = tuple[int, int, int]
"""Start, length and step along an axis."""

Indices = tuple[Node, ...]
Pair = tuple[Array, Array]

COMBINE: Final = {
    "add": ELEMENTWISE["add"],
    "mul": ELEMENTWISE["multiply"],
    "min": ELEMENTWISE["minimum"],
    "max": ELEMENTWISE["maximum"],
}
"""What each mode but "set" makes of an old element and a value."""


class Slice(
    Op,
    may_fail=False,
    name="slice",
    traits=Trait.WINDOW,
    oracle="operator.getitem",
    gradient=Gradient.LINEAR,
):
    """Along each axis the elements `start`, `start + step`, and so on, `length` of them."""

    ranges: tuple[Range, ...]

    def infer_shape(self, *shapes: Shape) -> Shape:
        check_ranges("slice", self.ranges, shapes[0])
        return tuple(length for _, length, _ in self.ranges)

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        """From each start by each step."""
        pairs = list(zip(self.ranges, strides, strict=True))
        first = sum([start * stride for (start, _, _), stride in pairs])
        return ViewStrides(first, tuple([step * stride for (_, _, step), stride in pairs]))

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Where all rows are taken."""
        axis, (given,) = row_axis(shape), operands
        if axis != row_axis(given) or self.ranges[axis] != (0, given[axis], 1):
            return None
        taken = (0, rows[1] - rows[0], 1)
        op = Slice((*self.ranges[:axis], taken, *self.ranges[axis + 1 :]))
        return RowSlice(op, (rows,), rows)

    def mistake(self, types: Sequence[Type]) -> str | None:
        return range_mistake(self.ranges, types[0][0])

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        """A contiguous part is padded with zeros, a backwards one after turning it round."""
        if any(abs(step) != 1 for _, _, step in self.ranges):
            scatter = Scatter(self.ranges, (), 0, "add")
            return wrap(make(scatter, (zeros_node(x.shape, cotangent.dtype), cotangent.node)))
        backwards = tuple(a for a, (_, _, step) in enumerate(self.ranges) if step < 0)
        widths: list[tuple[int, int]] = []
        for (start, length, step), n in zip(self.ranges, x.shape, strict=True):
            first = start if step > 0 else start - length + 1
            widths.append((first, n - first - length))
        turned = flip_node(cotangent.node, backwards)
        if turned.shape == x.shape:
            return wrap(turned)
        return wrap(pad_node(turned, widths, 0))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        ((x, _),) = operands
        return make(Slice(((0, x.shape[0], 1), *self.ranges)), (x,))


class Gather(Op, name="gather", arity=None, oracle="operator.getitem", gradient=Gradient.LINEAR):
    """Elements of operand 0 at the places that the other operands, broadcast together, give.

    Operand `1 + i` indexes axis `axes[i]`; negative indices count from the end.  The axes of the
    index arrays stand in the result before axis `place` of those that are left.
    """

    axes: tuple[int, ...]
    place: int

    def infer_shape(self, *shapes: Shape) -> Shape:
        return gather_shape("gather", shapes[0], self.axes, self.place, shapes[1:])

    def infer_dtype(self, *dtypes: DType) -> DType:
        check_indices("gather", dtypes[1:], 1)
        return dtypes[0]

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Where each row of indices picks a row; what is picked from is read whole."""
        places = len(shape) - (len(operands[0]) - len(self.axes))
        if not self.place <= row_axis(shape) < self.place + places:
            return None
        picked = shape[self.place : self.place + places]
        reads = [broadcast_rows(given, picked, rows) for given in operands[1:]]
        return RowSlice(self, (None, *reads), rows)

    def operand_counts(self) -> Sequence[int]:
        return (1 + len(self.axes),)

    def mistake(self, types: Sequence[Type]) -> str | None:
        problem = super().mistake(types)
        if problem is None and list(self.axes) != sorted(self.axes):
            return f"axes are {self.axes}; expected in order"
        return problem

    def pullback(
        self, cotangent: Array, result: Array, x: Array, *indices: Array
    ) -> list[Array | None]:
        """An element that was taken several times gets the sum of their cotangents."""
        places = tuple([i.node for i in indices])
        added = scatter_add(cotangent.node, x.shape, self.axes, self.place, places)
        return [wrap(added), *[None] * len(indices)]

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Batched indices pick along the batch too, each from its own array."""
        (x, batched), *indices = operands
        if not any(i.batched for i in indices):
            moved = Gather(behind_batch(self.axes), self.place + 1)
            return make(moved, (x, *[i.node for i in indices]))
        places = _align_indices(indices)
        if batched:
            own = _number_batch(batch_size(operands), places)
            made = make(Gather((0, *behind_batch(self.axes)), self.place), (x, own, *places))
        else:
            made = make(self, (x, *places))
        return _axis_to_front(made, self.place)

    def cost(self, result: Type, operands: Sequence[Type]) -> Cost:
        """What is picked is read, not all it is picked from."""
        read = nbytes(result) + sum(map(nbytes, operands[1:]))
        return Cost(size(result[0]), read, nbytes(result))


class Scatter(
    Op,
    name="scatter",
    arity=None,
    overwrites=Overwrites.FIRST,
    oracle="numpy.ufunc.at",
):
    """Operand 0 with operand 1 put into, or combined with, a part of it.

    The part is what `Slice(ranges)` and then `Gather(axes, place)` by operands 2 and up would
    take; operand 1 broadcasts to its shape.  Where indices repeat, "set" keeps the last value and
    the other modes ("add", "mul", "min", "max") take in every one.

    So only the last value of a place gets a cotangent of "set".  "add" passes its cotangent to
    every value, "mul" scales it by all the other factors, "min" and "max" share it equally among
    the old element and the values that reach the extreme.
    """

    ranges: tuple[Range, ...]
    axes: tuple[int, ...]
    place: int
    mode: str

    def infer_shape(self, *shapes: Shape) -> Shape:
        shape, value, *indices = shapes
        check_ranges("scatter", self.ranges, shape)
        lengths = tuple(length for _, length, _ in self.ranges)
        part = gather_shape("scatter", lengths, self.axes, self.place, indices)
        if not fits(value, part):
            raise value_error(
                "scatter", f"operand 1 has shape {value}, which does not broadcast to {part}"
            )
        return shape

    def infer_dtype(self, *dtypes: DType) -> DType:
        check_indices("scatter", dtypes[2:], 2)
        if dtypes[1] != dtypes[0]:
            raise type_error(
                "scatter",
                f"operand 1 has dtype {dtypes[1]}; it must be that of operand 0, {dtypes[0]}",
            )
        return dtypes[0]

    def may_fail(self, dtype: DType) -> bool:
        """Where an index lies outside its axis."""
        return bool(self.axes)

    def failure_cause(self, operands: Sequence[Hashable]) -> Hashable | None:
        return (*operands[2:], *[self.ranges[axis][1] for axis in self.axes])

    def operand_counts(self) -> Sequence[int]:
        return (2 + len(self.axes),)

    def mistake(self, types: Sequence[Type]) -> str | None:
        problem = super().mistake(types)
        if problem is None and list(self.axes) != sorted(self.axes):
            return f"axes are {self.axes}; expected in order"
        modes = ("set", *COMBINE)
        if problem is None and self.mode not in modes:
            return f"mode is {self.mode!r}; expected one of {modes}"
        return problem or range_mistake(self.ranges, types[0][0])

    def pullback(
        self, cotangent: Array, result: Array, x: Array, value: Array, *indices: Array
    ) -> list[Array | None]:
        places = tuple([i.node for i in indices])
        match self.mode:
            case "add":
                pair = cotangent, _part(self, cotangent, places)
            case "set":
                pair = _pull_back_set(self, cotangent, places)
            case "mul":
                pair = _pull_back_mul(self, cotangent, x, value, places)
            case _:
                pair = _pull_back_extremum(self, cotangent, result, x, value, places)
        return [*pair, *[None] * len(indices)]

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Batched indices say a place along the batch too, each in its own array."""
        x, value, *indices = operands
        size, axes = batch_size(operands), behind_batch(self.axes)
        ranges, whole = ((0, size, 1), *self.ranges), repeat_in_batch(x, size)
        lengths = tuple([length for _, length, _ in self.ranges])
        shapes = [i.node.shape[i.batched :] for i in indices]
        part = gather_shape("scatter", lengths, self.axes, self.place, shapes)
        values = align_batch(value, len(part))
        if not any(i.batched for i in indices):
            moved = Scatter(ranges, axes, self.place + 1, self.mode)
            return make(moved, (whole, values, *[i.node for i in indices]))
        places = _align_indices(indices)
        own = _number_batch(size, places)
        if value.batched:  # the batch lies where the indices' axes begin
            order = (*range(1, self.place + 1), 0, *range(self.place + 1, len(part) + 1))
            values = transpose_node(values, order)
        elif len(values.shape) > len(part) - self.place:
            missing = len(part) - len(values.shape)
            values = expand_node(values, (max(self.place - missing, 0),))
        moved = Scatter(ranges, (0, *axes), self.place, self.mode)
        return make(moved, (whole, values, own, *places))


class Pad(
    Op,
    may_fail=False,
    name="pad",
    arity=2,
    oracle="numpy.pad",
    gradient=Gradient.LINEAR,
    traits=Trait.EXACT,
):
    """Operand 0 with elements before and after it along each axis, all of them operand 1."""

    widths: Annotated[tuple[tuple[int, int], ...], Bounds(0)]

    def infer_shape(self, *shapes: Shape) -> Shape:
        shape, fill = shapes
        if fill:
            raise value_error(
                "pad", f"operand 1 has shape {fill}; the fill value must have no axes"
            )
        return tuple(n + b + a for n, (b, a) in zip(shape, self.widths, strict=True))

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dtypes[0]

    def mistake(self, types: Sequence[Type]) -> str | None:
        rank = len(types[0][0])
        if len(self.widths) != rank:
            return f"widths are {self.widths}; operand 0 has {rank} axes"
        return dtype_mismatch(types)

    def pullback(
        self, cotangent: Array, result: Array, x: Array, fill: Array
    ) -> tuple[Array, Array | None]:
        """The fill value, which was repeated, gets what stands around the array."""
        ranges = tuple((before, n, 1) for (before, _), n in zip(self.widths, x.shape, strict=True))
        inside = wrap(make(Slice(ranges), (cotangent.node,)))
        if isinstance(fill.node.op, Constant):
            return inside, None
        nothing = scalar(0, cotangent.dtype, "pad")
        return inside, wrap(make(Scatter(ranges, (), 0, "set"), (cotangent.node, nothing)))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        """Where each has a fill value of its own, the arrays are put into these."""
        x, fill = operands
        if not fill.batched:
            return make(Pad(((0, 0), *self.widths)), (x.node, fill.node))
        count = batch_size(operands)
        shape = x.node.shape[x.batched :]
        ranges = tuple([(before, n, 1) for (before, _), n in zip(self.widths, shape, strict=True)])
        filled = broadcast_node(
            expand_node(fill.node, range(1, len(shape) + 1)),
            (count, *self.infer_shape(shape, ())),
        )
        return make(Scatter(((0, count, 1), *ranges), (), 0, "set"), (filled, x.node))


class ArgSort(Op, name="argsort", gradient=Gradient.ZERO, oracle="numpy.argsort"):
    """Indices that sort along `axis`, equal elements in the order they came."""

    axis: int
    descending: bool

    def infer_dtype(self, *dtypes: DType) -> DType:
        return dt.INT64

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(ArgSort(self.axis + 1, self.descending), (operands[0].node,))

    def operations(self, result: Shape, operands: Sequence[Shape]) -> int:
        """As many comparisons for each element as halvings of the axis."""
        return size(result) * max(result[self.axis].bit_length(), 1)


def range_mistake(ranges: tuple[Range, ...], shape: Shape) -> str | None:
    """What is wrong with ranges, where `check_ranges`, which knows the axes, does not look."""
    if any(length < 0 or not step for _, length, step in ranges):
        return f"ranges are {ranges}; lengths from 0, steps not 0"
    for (start, length, step), n in zip(ranges, shape, strict=False):
        if length < 2 and (abs(step) >= _MAX_LONE_STEP or not 0 <= start <= n):
            return f"ranges are {ranges}; operand 0 has shape {shape}"
    return None


_MAX_LONE_STEP: Final = 2**31
"""The bound of a step in a range of fewer than two elements, where no axis bounds it."""


def check_ranges(op: str, ranges: tuple[Range, ...], shape: Shape) -> None:
    """Refuse ranges that leave an array of `shape`."""
    if len(ranges) != len(shape):
        raise value_error(op, f"operand 0 has shape {shape}; {len(ranges)} ranges came")
    for axis, ((start, length, step), n) in enumerate(zip(ranges, shape, strict=True)):
        if length and not (0 <= start < n and 0 <= start + (length - 1) * step < n):
            raise value_error(
                op,
                f"operand 0 has shape {shape}; {length} elements from {start} by {step} leave its "
                f"axis {axis}",
            )


def check_indices(op: str, dtypes: Sequence[DType], first: int) -> None:
    """Refuse index arrays that are not integer; the first is operand `first`."""
    for position, dtype in enumerate(dtypes, first):
        check_categories(op, position, dtype, dt.INTEGER)


def gather_shape(
    op: str, shape: Shape, axes: tuple[int, ...], place: int, indices: Sequence[Shape]
) -> Shape:
    """The shape of what index arrays along `axes` pick from an array of `shape`."""
    left = tuple(n for a, n in enumerate(shape) if a not in axes)
    return (*left[:place], *broadcast(op, indices or [()]), *left[place:])


def fits(shape: Shape, target: Shape) -> bool:
    """Whether an array of `shape` broadcasts to `target`."""
    return len(shape) <= len(target) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(target), strict=False)
    )


# --------------------------------------------------------------------- batches


def _align_indices(indices: Sequence[BatchOperand]) -> list[Node]:
    """Index arrays, some of them batched, as arrays with the batch along their common axis 0."""
    rank = max([len(i.node.shape) - i.batched for i in indices])
    return [align_batch(i, rank) for i in indices]


def _number_batch(count: int, indices: Sequence[Node]) -> Node:
    """The numbers of a batch, along the axis where it lies in index arrays."""
    rank = max([len(i.shape) for i in indices])
    return reshape_node(positions(count), (count, *(1,) * (rank - 1)))


def _axis_to_front(node: Node, axis: int) -> Node:
    """`node` with one axis before the others."""
    rest = [a for a in range(len(node.shape)) if a != axis]
    return transpose_node(node, (axis, *rest))


# ----------------------------------------------------------------------- nodes


def slice_node(node: Node, axis: int, part: slice) -> Node:
    """`node` with `part` taken along one axis."""
    start, stop, step = part.indices(node.shape[axis])
    length = len(range(start, stop, step))
    extent = (start, length, step) if length else (0, 0, 1)
    if extent == (0, node.shape[axis], 1):
        return node
    ranges = tuple(extent if a == axis else (0, n, 1) for a, n in enumerate(node.shape))
    return make(Slice(ranges), (node,))


def take_node(node: Node, axis: int, indices: Node) -> Node:
    """Elements of `node` at `indices` along one axis."""
    return make(Gather((axis,), axis), (node, indices))


def positions(n: int, start: int = 0) -> Node:
    """`n` integers from `start` on."""
    return make(Arange(start, 1, n, dt.INT64))


def pad_node(node: Node, widths: Sequence[tuple[int, int]], fill: float) -> Node:
    """`node` with a number around it."""
    return make(Pad(tuple(widths)), (node, scalar(fill, node.dtype, "pad")))


def scatter_add(
    cotangent: Node, shape: Shape, axes: tuple[int, ...], place: int, indices: tuple[Node, ...]
) -> Node:
    """The transpose of `Gather(axes, place)` by `indices`, from an array of `shape`."""
    ranges = tuple((0, n, 1) for n in shape)
    return make(
        Scatter(ranges, axes, place, "add"),
        (zeros_node(shape, cotangent.dtype), cotangent, *indices),
    )


# ------------------------------------------------------- cotangents of updates


def _part(op: Scatter, x: Array, indices: Indices) -> Array:
    """The part of `x` that is updated."""
    node = x.node
    if any(r != (0, n, 1) for r, n in zip(op.ranges, x.shape, strict=True)):
        node = make(Slice(op.ranges), (node,))
    return wrap(make(Gather(op.axes, op.place), (node, *indices)) if op.axes else node)


def _with_mode(op: Scatter, mode: str, x: Array, value: Node, indices: Indices) -> Array:
    """`x` with the same part updated in another way."""
    return wrap(make(Scatter(op.ranges, op.axes, op.place, mode), (x.node, value, *indices)))


def _pull_back_set(op: Scatter, cotangent: Array, indices: Indices) -> Pair:
    kept = _with_mode(op, "set", cotangent, scalar(0, cotangent.dtype, "scatter"), indices)
    passed = _part(op, cotangent, indices)
    if _repeats(op, indices):
        passed = e.where(_is_last(op, indices), passed, 0)
    return kept, passed


def _pull_back_mul(op: Scatter, cotangent: Array, x: Array, value: Array, indices: Indices) -> Pair:
    factor = _part(op, x, indices)
    if _repeats(op, indices):
        factor = e.multiply(factor, _other_factors(op, value, factor.shape, indices))
    passed = scale_cotangent(_part(op, cotangent, indices), factor)
    return _with_mode(op, "mul", cotangent, value.node, indices), passed


def _pull_back_extremum(
    op: Scatter, cotangent: Array, y: Array, x: Array, value: Array, indices: Indices
) -> Pair:
    old, new = e.equal(x, y), e.equal(value, _part(op, y, indices))
    count = _with_mode(op, "add", _number(old, x), _number(new, x).node, indices)
    share = e.divide(cotangent, count)
    return e.where(old, share, 0), e.where(new, _part(op, share, indices), 0)


def _number(truth: Array, x: Array) -> Array:
    return wrap(make(Cast(x.dtype), (truth.node,)))


# ------------------------------------------------------------ repeated indices


def _lengths(op: Scatter) -> Shape:
    """Sizes of the axes that the index arrays pick from."""
    return tuple(op.ranges[a][1] for a in op.axes)


def _repeats(op: Scatter, indices: Indices) -> bool:
    """Whether a place may come twice; only constant indices tell that none does."""
    if not indices or size(broadcast("scatter", [i.shape for i in indices])) < 2:
        return False
    values = [i.value for i in indices if i.value is not None]
    if len(values) < len(indices):
        return True
    places = np.zeros((), np.int64)
    for value, n in zip(values, _lengths(op), strict=True):
        places = places * n + value.astype(np.int64) % n
    return np.unique(places).size < places.size


def _places(op: Scatter, indices: Indices) -> Array:
    """Where each value goes, as a number of the flattened indexed axes."""
    numbers = [
        e.remainder(wrap(cast_node(i, dt.INT64)), n)
        for i, n in zip(indices, _lengths(op), strict=True)
    ]
    places, *rest = numbers
    for number, n in zip(rest, _lengths(op)[1:], strict=True):
        places = e.add(e.multiply(places, n), number)
    return places


def _is_last(op: Scatter, indices: Indices) -> Array:
    """Whether each value is the last that is written to its place."""
    places = _places(op, indices)
    numbers = wrap(reshape_node(positions(places.size), places.shape))
    total = size(_lengths(op))
    writes = Scatter(((0, total, 1),), (0,), 0, "set")
    written = make(writes, (zeros_node((total,), dt.INT64), numbers.node, places.node))
    last = e.equal(_take(wrap(written), places), numbers)
    return _align(last, len(op.ranges) - len(op.axes) - op.place)


def _take(x: Array, places: Array) -> Array:
    """Elements along axis 0."""
    return wrap(take_node(x.node, 0, places.node))


def _order(x: Array) -> Array:
    """The places that sort a vector."""
    return wrap(make(ArgSort(0, False), (x.node,)))


def _align(block: Array, behind: int) -> Array:
    """An array of the index arrays' shape beside the part, which has further axes behind them."""
    return reshape(block, (*block.shape, *(1,) * behind))


def _other_factors(op: Scatter, value: Array, shape: Shape, indices: Indices) -> Array:
    """For each factor the product of those that go to the same place, but for itself.

    They are sorted by their places; then running products from both sides, which start anew at
    every place, give those before and those behind.
    """
    places = _places(op, indices)
    rank = places.ndim
    block = range(op.place, op.place + rank)
    lines = moveaxis(wrap(broadcast_node(value.node, shape)), block, range(rank))
    order = _order(reshape(places, (places.size,)))
    keys = _take(reshape(places, (places.size,)), order)
    factors = _take(reshape(lines, (places.size, *lines.shape[rank:])), order)
    before = _products_before(factors, keys)
    behind = flip(_products_before(flip(factors, axis=0), flip(keys)), axis=0)
    back = _order(order)
    others = reshape(_take(e.multiply(before, behind), back), lines.shape)
    return moveaxis(others, range(rank), block)


def _products_before(factors: Array, keys: Array) -> Array:
    """Along axis 0, the product of the earlier elements that have the same key."""
    distance = 1
    products = _earlier(factors, keys, 1)
    while distance < keys.size:
        products = e.multiply(products, _earlier(products, keys, distance))
        distance *= 2
    return products


def _earlier(x: Array, keys: Array, distance: int) -> Array:
    """The elements `distance` places before; 1 where the key is another."""
    n = keys.size
    same = e.equal(keys[distance:], keys[: n - distance])
    shifted = e.where(expand_dims(same, axis=tuple(range(1, x.ndim))), x[: n - distance], 1)
    widths = [(distance, 0), *[(0, 0)] * (x.ndim - 1)]
    return wrap(pad_node(shifted.node, widths, 1))
