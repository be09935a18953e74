"""Movement: the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from tawny.array import Array, ArrayLike, lift, view_of, wrap
from tawny.attributes import AnyShape
from tawny.dtype import DType
from tawny.errors import value_error
from tawny.node import Node, make, scalar
from tawny.op import BatchOperand, Gradient, Op, Overwrites, Trait, Type, ViewStrides
from tawny.operator import public
from tawny.rows import Rows, RowSlice, broadcast_rows, row_axis, row_count, shape_of_rows
from tawny.shape import (
    Shape,
    as_elements,
    as_int,
    as_shape,
    broadcast,
    broadcast_strides,
    normalise_axes,
    normalise_axis,
    ordered_axes,
    reduction_axes,
    size,
    splits,
)

Axis = int | tuple[int, ...] | None


class Reshape(
    Op,
    may_fail=False,
    name="reshape",
    traits=Trait.WINDOW,
    oracle="numpy.reshape",
    gradient=Gradient.LINEAR,
):
    """The elements of operand 0, read row by row, in another shape."""

    shape: AnyShape

    def infer_shape(self, *shapes: Shape) -> Shape:
        (given,) = shapes
        if size(given) != size(self.shape):
            raise value_error(
                "reshape",
                f"operand 0 has shape {given}, which is {size(given)} elements; "
                f"shape {self.shape} needs {size(self.shape)}",
            )
        return self.shape

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides | None:
        """Each axis cut into those it becomes; axes that become one are not evenly spaced."""
        groups = splits(shape, self.shape)
        if groups is None:
            return None
        made = [1] * len(self.shape)
        for group, stride in zip(groups, strides, strict=True):
            step = stride
            for axis in reversed(group):
                made[axis] = step
                step *= self.shape[axis]
        return ViewStrides(0, tuple(made))

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Rows of the other shape that hold them, if rows of one are whole rows of the other."""
        first, last = rows
        ours, theirs = row_count(shape), row_count(operands[0])
        if not theirs % ours:
            each = theirs // ours
            op = Reshape(shape_of_rows(self.shape, rows))
            return RowSlice(op, ((first * each, last * each),), rows)
        if not ours % theirs:
            each = ours // theirs
            read = first // each, -(-last // each)
            made = read[0] * each, read[1] * each
            return RowSlice(Reshape(shape_of_rows(self.shape, made)), (read,), made)
        return None

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return wrap(reshape_node(cotangent.node, x.shape))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        ((x, _),) = operands
        return make(Reshape((x.shape[0], *self.shape)), (x,))


class BroadcastTo(
    Op,
    may_fail=False,
    name="broadcast_to",
    oracle="numpy.broadcast_to",
    gradient=Gradient.LINEAR,
):
    """The operand repeated along new axes and axes of size 1."""

    shape: AnyShape

    def infer_shape(self, *shapes: Shape) -> Shape:
        (given,) = shapes
        padded = (1,) * (len(self.shape) - len(given)) + given
        if len(padded) > len(self.shape) or any(
            n not in (1, m) for n, m in zip(padded, self.shape, strict=True)
        ):
            raise value_error(
                "broadcast_to",
                f"operand 0 has shape {given}, which does not broadcast to {self.shape}; "
                "each axis, counted from the last, must be equal or 1",
            )
        return self.shape

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        return ViewStrides(0, broadcast_strides(shape, strides, self.shape))

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice:
        """Repeated less often, or fewer rows repeated."""
        return RowSlice(
            BroadcastTo(shape_of_rows(self.shape, rows)),
            (broadcast_rows(operands[0], shape, rows),),
            rows,
        )

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return cotangent

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        (x,) = operands
        wide = align_batch(x, len(self.shape))
        return broadcast_node(wide, (wide.shape[0], *self.shape))


class Transpose(
    Op,
    may_fail=False,
    name="transpose",
    traits=Trait.WINDOW,
    oracle="numpy.transpose",
    gradient=Gradient.LINEAR,
):
    """The axes in another order: axis `i` of the result is axis `axes[i]` of the operand."""

    axes: tuple[int, ...]

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        if sorted(self.axes) != list(range(len(shape))):
            raise value_error(
                "transpose",
                f"operand 0 has shape {shape}; axes {self.axes} must name each of its "
                f"{len(shape)} axes once",
            )
        return tuple(shape[a] for a in self.axes)

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        return ViewStrides(0, tuple([strides[a] for a in self.axes]))

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Where rows stay rows."""
        moved = self.axes[row_axis(shape)] != row_axis(operands[0])
        return None if moved else RowSlice(self, (rows,), rows)

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        back = sorted(range(len(self.axes)), key=self.axes.__getitem__)
        return wrap(transpose_node(cotangent.node, tuple(back)))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(Transpose((0, *behind_batch(self.axes))), (operands[0].node,))


class Flip(
    Op,
    may_fail=False,
    name="flip",
    traits=Trait.WINDOW | Trait.INVOLUTION,
    oracle="numpy.flip",
    gradient=Gradient.LINEAR,
):
    """The elements in reverse order along `axes`."""

    axes: tuple[int, ...]

    def view(self, shape: Shape, strides: Sequence[int]) -> ViewStrides:
        """From the last element backwards."""
        first = sum([strides[a] * (shape[a] - 1) for a in self.axes])
        return ViewStrides(
            first, tuple([-s if a in self.axes else s for a, s in enumerate(strides)])
        )

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return wrap(flip_node(cotangent.node, self.axes))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(Flip(behind_batch(self.axes)), (operands[0].node,))


class Roll(
    Op,
    may_fail=False,
    name="roll",
    oracle="numpy.roll",
    gradient=Gradient.LINEAR,
    traits=Trait.EXACT,
):
    """Elements moved up by `shifts[i]` places along axis `i`; those pushed out come back in."""

    shifts: tuple[int, ...]

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Where rows are not what is moved."""
        return None if self.shifts[row_axis(shape)] else RowSlice(self, (rows,), rows)

    def mistake(self, types: Sequence[Type]) -> str | None:
        shape = types[0][0]
        fits = len(self.shifts) == len(shape)
        if fits and all(0 <= s < max(n, 1) for s, n in zip(self.shifts, shape, strict=True)):
            return None
        expected = f"one for each axis of {shape}, from 0 below its size"
        return f"shifts are {self.shifts}; expected {expected}"

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        back = tuple(-s % n if n else 0 for s, n in zip(self.shifts, x.shape, strict=True))
        return wrap(make(Roll(back), (cotangent.node,)))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(Roll((0, *self.shifts)), (operands[0].node,))


class Copy(
    Op,
    may_fail=False,
    name="copy",
    overwrites=Overwrites.SAME_SIZE,
    traits=Trait.EXACT,
    oracle="numpy.copy",
    gradient=Gradient.LINEAR,
):
    """A copy of operand 0 in memory of its own."""

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        return cotangent

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(self, (operands[0].node,))


# ----------------------------------------------------------------------- nodes


def reshape_node(node: Node, shape: Shape) -> Node:
    """`node` in another shape; itself when it has that shape already."""
    return node if node.shape == shape else make(Reshape(shape), (node,))


def transpose_node(node: Node, axes: tuple[int, ...]) -> Node:
    """`node` with its axes in another order; itself when the order is the same."""
    in_order = axes == tuple(range(len(node.shape)))
    return node if in_order else make(Transpose(axes), (node,))


def broadcast_node(node: Node, shape: Shape) -> Node:
    """`node` repeated to `shape`; itself when it has that shape already."""
    return node if node.shape == shape else make(BroadcastTo(shape), (node,))


def zeros_node(shape: Shape, dtype: DType) -> Node:
    """Zeros, which take no memory."""
    return broadcast_node(scalar(0, dtype, "zeros"), shape)


def flip_node(node: Node, axes: tuple[int, ...]) -> Node:
    """`node` reversed along `axes`; itself when there are none."""
    return make(Flip(axes), (node,)) if axes else node


def flatten_node(node: Node) -> Node:
    """`node` on one axis."""
    return reshape_node(node, (size(node.shape),))


def expand_node(node: Node, axes: Sequence[int]) -> Node:
    """`node` with new axes of size 1 at `axes` of the result."""
    sizes = iter(node.shape)
    rank = len(node.shape) + len(axes)
    return reshape_node(node, tuple(1 if a in axes else next(sizes) for a in range(rank)))


# --------------------------------------------------------------------- batches


def behind_batch(axes: Iterable[int]) -> tuple[int, ...]:
    """Axes of an operand as those of one that is batched."""
    return tuple([axis + 1 for axis in axes])


def batch_size(operands: Sequence[BatchOperand]) -> int:
    """The size of the batch."""
    return next(x.shape[0] for x, batched in operands if batched)


def align_batch(operand: BatchOperand, rank: int) -> Node:
    """An operand that lines up, from the last axis, with a batch of arrays of `rank` axes."""
    x, batched = operand
    missing = rank + 1 - len(x.shape)
    if not batched or missing <= 0:
        return x
    return reshape_node(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))


def repeat_in_batch(operand: BatchOperand, size: int) -> Node:
    """An operand that is batched, repeated for each of the batch if it was not."""
    x, batched = operand
    return x if batched else broadcast_node(x, (size, *x.shape))


# ---------------------------------------------------------------- broadcasting


@public()
def broadcast_to(array: ArrayLike, shape: int | Sequence[int], subok: bool = False) -> Array:
    """`array` repeated along new axes and axes of size 1 up to `shape`."""
    del subok
    return wrap(broadcast_node(lift(array, "broadcast_to"), as_shape(shape, "broadcast_to")))


@public()
def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Array, ...]:
    """The arrays, each repeated up to their common shape."""
    del subok
    nodes = [lift(x, "broadcast_arrays", i) for i, x in enumerate(args)]
    common = broadcast("broadcast_arrays", [n.shape for n in nodes] or [()])
    return tuple(wrap(broadcast_node(n, common)) for n in nodes)


@public()
def broadcast_shapes(*args: int | Sequence[int]) -> Shape:
    """The common shape of arrays of the given shapes."""
    return broadcast("broadcast_shapes", [as_shape(s, "broadcast_shapes") for s in args] or [()])


# ----------------------------------------------------------------------- shape


@public()
def reshape(
    a: ArrayLike, /, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None
) -> Array:
    """The elements of `a` in another shape, one size of which may be -1 and is then worked out.

    With `order="F"` elements are read and written column by column.
    """
    result = _reshape_in_order(lift(a, "reshape"), shape, order, "reshape")
    return wrap(make(Copy(), (result,))) if copy else view_of(a, result)


def _reshape_in_order(node: Node, shape: int | Sequence[int], order: str, op: str) -> Node:
    """`node` in another shape, read row by row ("C") or column by column ("F")."""
    wanted = _fill_in_size(node.shape, shape, op)
    if order in ("C", "A"):
        return reshape_node(node, wanted)
    if order != "F":
        raise value_error(op, f"order {order!r} is not known; accepted: 'C', 'F', 'A'")
    result = reshape_node(transpose_node(node, _reversed_axes(node)), wanted[::-1])
    return transpose_node(result, _reversed_axes(result))


def _fill_in_size(given: Shape, shape: int | Sequence[int], op: str) -> Shape:
    """`shape` with -1 replaced by the size that makes the number of elements right."""
    sizes = [as_int(n, op, "shape") for n in as_elements(shape)]
    unknown = [i for i, n in enumerate(sizes) if n == -1]
    if len(unknown) > 1:
        raise value_error(op, f"shape {tuple(sizes)} leaves several sizes open; one may be -1")
    if any(n < -1 for n in sizes):
        raise value_error(op, f"shape {tuple(sizes)} has a negative size; only -1 is accepted")
    for i in unknown:
        rest = size(tuple(n for n in sizes if n != -1))
        if rest == 0 or size(given) % rest:
            raise value_error(
                op,
                f"operand 0 has shape {given}, which is {size(given)} elements; no size "
                f"in place of -1 makes shape {tuple(sizes)} hold as many",
            )
        sizes[i] = size(given) // rest
    return tuple(sizes)


@public()
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements of `a` on one axis."""
    return view_of(a, _reshape_in_order(lift(a, "ravel"), -1, order, "ravel"))


@public()
def expand_dims(a: ArrayLike, axis: int | tuple[int, ...]) -> Array:
    """`a` with a new axis of size 1 at each position of the result that `axis` names."""
    node = lift(a, "expand_dims")
    places = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = ordered_axes(places, len(node.shape) + len(places), "expand_dims")
    return view_of(a, expand_node(node, axes))


@public()
def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """`a` without its axes of size 1, or without those that `axis` names."""
    node = lift(a, "squeeze")
    if axis is None:
        return view_of(a, reshape_node(node, tuple(n for n in node.shape if n != 1)))
    axes = reduction_axes(axis, len(node.shape), "squeeze")
    for i in axes:
        if node.shape[i] != 1:
            raise value_error(
                "squeeze",
                f"operand 0 has shape {node.shape}; its axis {i} has size {node.shape[i]} and "
                "only axes of size 1 can be removed",
            )
    return view_of(
        a, reshape_node(node, tuple(n for i, n in enumerate(node.shape) if i not in axes))
    )


def _at_least(name: str, arrays: Sequence[ArrayLike], places: Sequence[tuple[int, ...]]) -> Any:
    """The arrays with new axes; `places[rank]` says where, for ranks that are too low."""
    out: list[Array] = []
    for i, x in enumerate(arrays):
        node = lift(x, name, i)
        rank = len(node.shape)
        out.append(view_of(x, expand_node(node, places[rank]) if rank < len(places) else node))
    return out[0] if len(out) == 1 else tuple(out)


@public()
def atleast_1d(*arys: ArrayLike) -> Any:
    """Arrays of at least one axis; a single array for a single argument."""
    return _at_least("atleast_1d", arys, ((0,),))


@public()
def atleast_2d(*arys: ArrayLike) -> Any:
    """Arrays of at least two axes, new ones first; a single array for a single argument."""
    return _at_least("atleast_2d", arys, ((0, 1), (0,)))


@public()
def atleast_3d(*arys: ArrayLike) -> Any:
    """Arrays of at least three axes, matrices in front; a single array for a single argument."""
    return _at_least("atleast_3d", arys, ((0, 1, 2), (0, 2), (2,)))


# --------------------------------------------------------------- order of axes


def _reversed_axes(node: Node) -> tuple[int, ...]:
    return tuple(reversed(range(len(node.shape))))


def _permute(name: str, x: ArrayLike, axes: Iterable[object] | None) -> Array:
    node = lift(x, name)
    if axes is None:
        return view_of(x, transpose_node(node, _reversed_axes(node)))
    order = ordered_axes(axes, len(node.shape), name)
    if len(order) != len(node.shape):
        raise value_error(
            name,
            f"operand 0 has shape {node.shape}; axes {order} must name each of its "
            f"{len(node.shape)} axes once",
        )
    return view_of(x, transpose_node(node, order))


@public()
def permute_dims(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """`a` with its axes in the given order, or reversed."""
    return _permute("permute_dims", a, axes)


@public()
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """`a` with its axes in the given order, or reversed."""
    return _permute("transpose", a, axes)


@public()
def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two axes exchanged."""
    node = lift(x, "matrix_transpose")
    rank = len(node.shape)
    if rank < 2:
        raise value_error(
            "matrix_transpose", f"operand 0 has shape {node.shape}; it must have two axes or more"
        )
    return view_of(x, transpose_node(node, (*range(rank - 2), rank - 1, rank - 2)))


@public()
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two axes exchanged."""
    node = lift(a, "swapaxes")
    order = list(range(len(node.shape)))
    first, second = (normalise_axis(a, len(order), "swapaxes") for a in (axis1, axis2))
    order[first], order[second] = second, first
    return view_of(a, transpose_node(node, tuple(order)))


@public()
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """`a` with axes `source` moved to `destination`; the others keep their order."""
    node = lift(a, "moveaxis")
    rank = len(node.shape)
    sources, destinations = (
        ordered_axes(as_elements(a), rank, "moveaxis") for a in (source, destination)
    )
    if len(sources) != len(destinations):
        raise value_error(
            "moveaxis",
            f"source names {len(sources)} axes and destination {len(destinations)}; "
            "they must name as many",
        )
    order = [a for a in range(rank) if a not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return view_of(a, transpose_node(node, tuple(order)))


@public()
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`a` with `axis` moved before the axis now at `start`."""
    node = lift(a, "rollaxis")
    rank = len(node.shape)
    moved = normalise_axis(axis, rank, "rollaxis")
    before = rank if start == rank else normalise_axis(start, rank, "rollaxis")
    order = [a for a in range(rank) if a != moved]
    order.insert(before - 1 if before > moved else before, moved)
    return view_of(a, transpose_node(node, tuple(order)))


# ----------------------------------------------------------- order of elements


@public()
def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """`m` with its elements in reverse order along `axis` (all axes when None)."""
    node = lift(m, "flip")
    return view_of(m, flip_node(node, normalise_axes(axis, len(node.shape), "flip")))


def _needs_axes(name: str, node: Node, count: int) -> Node:
    if len(node.shape) < count:
        plural = "axis" if count == 1 else "axes"
        raise value_error(
            name, f"operand 0 has shape {node.shape}; it must have {count} {plural} or more"
        )
    return node


@public()
def fliplr(m: ArrayLike) -> Array:
    """`m` with its columns in reverse order."""
    return wrap(flip_node(_needs_axes("fliplr", lift(m, "fliplr"), 2), (1,)))


@public()
def flipud(m: ArrayLike) -> Array:
    """`m` with its rows in reverse order."""
    return wrap(flip_node(_needs_axes("flipud", lift(m, "flipud"), 1), (0,)))


@public()
def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """`m` turned by `k` quarter turns in the plane of `axes`, from the first towards the second."""
    node = lift(m, "rot90")
    plane = ordered_axes(axes, len(node.shape), "rot90")
    if len(plane) != 2:
        raise value_error("rot90", f"axes {plane} must be two")
    first, second = plane
    order = list(range(len(node.shape)))
    order[first], order[second] = second, first
    match as_int(k, "rot90", "k") % 4:
        case 0:
            return view_of(m, node)
        case 1:
            return view_of(m, transpose_node(flip_node(node, (second,)), tuple(order)))
        case 2:
            return view_of(m, flip_node(node, tuple(sorted(plane))))
        case _:
            return view_of(m, flip_node(transpose_node(node, tuple(order)), (second,)))


@public()
def roll(a: ArrayLike, shift: int | Sequence[int], axis: Axis = None) -> Array:
    """`a` with its elements moved up by `shift` along `axis`; those pushed out come back in.

    Without `axis` the elements move through the flattened array.
    """
    node = lift(a, "roll")
    if axis is None:
        places = _shifts((size(node.shape),), shift, 0)
        return wrap(reshape_node(make(Roll(places), (flatten_node(node),)), node.shape))
    return wrap(make(Roll(_shifts(node.shape, shift, axis)), (node,)))


def _items(value: object) -> Sequence[object]:
    """The items of a tuple or list; anything else alone."""
    return cast("Sequence[object]", value) if isinstance(value, (tuple, list)) else (value,)


def _shifts(shape: Shape, shift: object, axis: object) -> tuple[int, ...]:
    """Places to move along each axis, from 0 to its size less 1."""
    shifts = [as_int(s, "roll", "shift") for s in _items(shift)]
    axes = [normalise_axis(a, len(shape), "roll") for a in _items(axis)]
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise value_error(
            "roll", f"shift has {len(shifts)} items and axis {len(axes)}; they must match"
        )
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    out = [0] * len(shape)
    for i in range(count):
        out[axes[i % len(axes)]] += shifts[i % len(shifts)]
    return tuple(s % n if n else 0 for s, n in zip(out, shape, strict=True))
