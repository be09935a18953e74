"""Joining, splitting, repeating and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, as_value, known_value, lift, store, wrap
from tawny.attributes import Bounds, Natural
from tawny.dtype import as_dtype
from tawny.errors import (
    ValuesNeededError,
    index_error,
    needs_values,
    type_error,
    value_error,
)
from tawny.node import Node, Value, constant, make
from tawny.op import MOST_OPERANDS, BatchOperand, Gradient, Op, Trait, Type
from tawny.operator import check_casting, public
from tawny.ops.assignment import assignment_value
from tawny.ops.creation import cast_node, cast_to_common
from tawny.ops.indexing import slice_node, take_node
from tawny.ops.movement import (
    Copy,
    batch_size,
    broadcast_node,
    expand_node,
    flatten_node,
    repeat_in_batch,
    reshape_node,
    transpose_node,
    zeros_node,
)
from tawny.ops.reduction import sum_node
from tawny.rows import Rows, RowSlice, row_axis
from tawny.shape import Shape, as_shape, normalise_axis, replace_size


def check_joined(shapes: Sequence[Shape], joined: int, op: str) -> None:
    """Refuse shapes that differ along another axis than the one they are joined along."""
    first = shapes[0]
    for position, shape in enumerate(shapes):
        if len(shape) != len(first):
            raise value_error(
                op,
                f"operand {position} has shape {shape}; it must have as many axes as operand 0 "
                f"of shape {first}",
            )
        for axis, (n, m) in enumerate(zip(shape, first, strict=True)):
            if n != m and axis != joined:
                raise value_error(
                    op,
                    f"operand {position} has shape {shape}; its axis {axis} must be {m} to "
                    f"match operand 0 of shape {first}; they are joined along axis {joined}",
                )


class Concat(
    Op,
    may_fail=False,
    name="concat",
    arity=None,
    traits=Trait.EXACT,
    oracle="numpy.concatenate",
    gradient=Gradient.LINEAR,
):
    """The operands one after the other along `axis`."""

    axis: int

    def infer_shape(self, *shapes: Shape) -> Shape:
        check_joined(shapes, self.axis, "concat")
        return replace_size(shapes[0], self.axis, sum(s[self.axis] for s in shapes))

    def slice_rows(self, shape: Shape, operands: Sequence[Shape], rows: Rows) -> RowSlice | None:
        """Where rows are not what is joined."""
        axis = row_axis(shape)
        whole = self.axis == axis or any(row_axis(given) != axis for given in operands)
        return None if whole else RowSlice(self, (rows,) * len(operands), rows)

    def operand_counts(self) -> Sequence[int]:
        return range(1, MOST_OPERANDS)

    def pullback(self, cotangent: Array, result: Array, *arrays: Array) -> list[Array]:
        cotangents: list[Array] = []
        start = 0
        for x in arrays:
            stop = start + x.shape[self.axis]
            cotangents.append(wrap(slice_node(cotangent.node, self.axis, slice(start, stop))))
            start = stop
        return cotangents

    def pushforward(
        self, tangents: tuple[Array | None, ...], result: Array, *arrays: Array
    ) -> Array:
        """Integers among the operands stand still."""
        pieces = [
            zeros_node(x.shape, result.dtype) if t is None else t.node
            for t, x in zip(tangents, arrays, strict=True)
        ]
        return wrap(make(self, tuple(pieces)))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        size = batch_size(operands)
        return make(Concat(self.axis + 1), tuple([repeat_in_batch(x, size) for x in operands]))


class Tile(
    Op,
    may_fail=False,
    name="tile",
    oracle="numpy.tile",
    gradient=Gradient.LINEAR,
    traits=Trait.EXACT,
):
    """The whole operand repeated, `repetitions[i]` times along axis `i`."""

    repetitions: Annotated[tuple[int, ...], Bounds(0)]

    def infer_shape(self, *shapes: Shape) -> Shape:
        return tuple(n * r for n, r in zip(shapes[0], self.repetitions, strict=True))

    def mistake(self, types: Sequence[Type]) -> str | None:
        rank = len(types[0][0])
        if len(self.repetitions) != rank:
            return f"repetitions are {self.repetitions}; operand 0 has {rank} axes"
        return None

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        pairs = zip(self.repetitions, x.shape, strict=True)
        shape = tuple(n for pair in pairs for n in pair)
        copies = tuple(range(0, len(shape), 2))
        return wrap(sum_node(reshape_node(cotangent.node, shape), copies))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(Tile((1, *self.repetitions)), (operands[0].node,))


class Repeat(
    Op,
    may_fail=False,
    name="repeat",
    oracle="numpy.repeat",
    gradient=Gradient.LINEAR,
    traits=Trait.EXACT,
):
    """Each element repeated in place, `repeats` times along `axis`."""

    repeats: Natural
    axis: int

    def infer_shape(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        return replace_size(shape, self.axis, shape[self.axis] * self.repeats)

    def pullback(self, cotangent: Array, result: Array, x: Array) -> Array:
        copies = self.axis + 1
        shape = (*x.shape[:copies], self.repeats, *x.shape[copies:])
        return wrap(sum_node(reshape_node(cotangent.node, shape), (copies,)))

    def batch(self, operands: Sequence[BatchOperand]) -> Node:
        return make(Repeat(self.repeats, self.axis + 1), (operands[0].node,))


# --------------------------------------------------------------------- joining


def _nodes(arrays: Any, op: str) -> list[Node]:
    """The arrays of a sequence, or those along the first axis of one array."""
    if isinstance(arrays, (Array, np.ndarray)):
        arrays = unstack(cast("ArrayLike", arrays))
    if not isinstance(arrays, (list, tuple)):
        raise type_error(op, f"arrays must be a sequence of arrays, not {type(arrays).__name__}")
    nodes = [lift(x, op, i) for i, x in enumerate(cast("Sequence[Any]", arrays))]
    if not nodes:
        raise value_error(op, "no arrays came; at least one is needed")
    return nodes


def concat_nodes(nodes: Sequence[Node], axis: int) -> Node:
    """The nodes one after the other along `axis`, in their common dtype."""
    return make(Concat(axis), cast_to_common(nodes))


def _concat(
    op: str,
    nodes: Sequence[Node],
    axis: int | None,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Array:
    check_casting(casting, op)
    if axis is None:
        nodes, axis = [flatten_node(n) for n in nodes], 0
    for position, node in enumerate(nodes):
        if not node.shape:
            raise value_error(
                op, f"operand {position} has no axes and cannot be joined; use np.stack"
            )
    along = normalise_axis(axis, len(nodes[0].shape), op)
    check_joined([n.shape for n in nodes], along, op)
    return wrap(concat_nodes(_cast_each(nodes, dtype, op), along))


def _cast_each(nodes: Sequence[Node], dtype: Any, op: str) -> Sequence[Node]:
    """The nodes, in the given dtype if there is one."""
    if dtype is None:
        return nodes
    wanted = as_dtype(dtype, op)
    for position, node in enumerate(nodes):
        if not dt.can_cast(node.dtype, wanted, "same_kind"):
            raise type_error(
                op,
                f"operand {position} has dtype {node.dtype}, which does not cast to {wanted}; "
                "convert it with np.astype first",
            )
    return [cast_node(n, wanted) for n in nodes]


@public()
def concat(
    arrays: Sequence[ArrayLike],
    /,
    axis: int | None = 0,
    out: Out = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Array:
    """The arrays one after the other along `axis`; flattened first when it is None."""
    return store(out, _concat("concat", _nodes(arrays, "concat"), axis, dtype, casting), "concat")


@public()
def concatenate(
    arrays: Sequence[ArrayLike],
    /,
    axis: int | None = 0,
    out: Out = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Array:
    """The arrays one after the other along `axis`; flattened first when it is None."""
    return store(
        out,
        _concat("concatenate", _nodes(arrays, "concatenate"), axis, dtype, casting),
        "concatenate",
    )


@public()
def stack(
    arrays: Sequence[ArrayLike],
    axis: int = 0,
    out: Out = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Array:
    """The arrays, all of one shape, along a new axis."""
    check_casting(casting, "stack")
    nodes = _cast_each(_nodes(arrays, "stack"), dtype, "stack")
    for position, node in enumerate(nodes):
        if node.shape != nodes[0].shape:
            raise value_error(
                "stack",
                f"operand {position} has shape {node.shape}; it must have that of operand 0, "
                f"{nodes[0].shape}",
            )
    along = normalise_axis(axis, len(nodes[0].shape) + 1, "stack")
    return store(out, wrap(concat_nodes([expand_node(n, (along,)) for n in nodes], along)), "stack")


@public()
def vstack(tup: Sequence[ArrayLike], *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """The arrays below each other; those of one axis are rows."""
    return _concat("vstack", [_rows(n) for n in _nodes(tup, "vstack")], 0, dtype, casting)


def _rows(node: Node) -> Node:
    rank = len(node.shape)
    return expand_node(node, range(2 - rank)) if rank < 2 else node


@public()
def hstack(tup: Sequence[ArrayLike], *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """The arrays beside each other: along the second axis, or the first if there is but one."""
    nodes = [n if n.shape else expand_node(n, (0,)) for n in _nodes(tup, "hstack")]
    axis = 0 if len(nodes[0].shape) == 1 else 1
    return _concat("hstack", nodes, axis, dtype, casting)


@public()
def dstack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays behind each other, along the third axis."""
    nodes = [_rows(n) for n in _nodes(tup, "dstack")]
    return _concat("dstack", [expand_node(n, (2,)) if len(n.shape) == 2 else n for n in nodes], 2)


@public()
def column_stack(tup: Sequence[ArrayLike]) -> Array:
    """The arrays beside each other; those of one axis are columns."""
    nodes = _nodes(tup, "column_stack")
    columns = [
        reshape_node(n, (flatten_node(n).shape[0], 1)) if len(n.shape) < 2 else n for n in nodes
    ]
    return _concat("column_stack", columns, 1)


@public()
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`arr` followed by `values` along `axis`; both flattened when it is None."""
    return _concat("append", [lift(arr, "append"), lift(values, "append", 1)], axis)


@public()
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """Coordinates of a grid: each array along its own axis and repeated along the others.

    With `indexing="xy"` the first array runs along the second axis, and the second along the first.
    """
    del copy
    if indexing not in ("xy", "ij"):
        raise value_error("meshgrid", f"indexing {indexing!r} is not known; accepted: 'xy', 'ij'")
    nodes = [lift(x, "meshgrid", i) for i, x in enumerate(xi)]
    for position, node in enumerate(nodes):
        if len(node.shape) > 1:
            raise value_error(
                "meshgrid", f"operand {position} has shape {node.shape}; it must have one axis"
            )
    axes = list(range(len(nodes)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
    lines = [
        reshape_node(
            n, tuple(flatten_node(n).shape[0] if a == along else 1 for a in range(len(nodes)))
        )
        for n, along in zip(nodes, axes, strict=True)
    ]
    common = np.broadcast_shapes(*(n.shape for n in lines))
    grids = lines if sparse else [broadcast_node(n, common) for n in lines]
    return tuple(
        wrap(make(Copy(), (g,))) if g is n else wrap(g) for g, n in zip(grids, nodes, strict=True)
    )


# ------------------------------------------------------------------- splitting


@public()
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along `axis`, one for each place."""
    node = lift(x, "unstack")
    along = normalise_axis(axis, len(node.shape), "unstack")
    shape = (*node.shape[:along], *node.shape[along + 1 :])
    parts = (slice_node(node, along, slice(i, i + 1)) for i in range(node.shape[along]))
    return tuple(wrap(reshape_node(p, shape)) for p in parts)


Sections = int | Sequence[int] | ArrayLike


def _split(op: str, x: ArrayLike, sections: Sections, axis: int, even: bool) -> list[Array]:
    """Parts of `x`: a number of them, or between the given places."""
    node = lift(x, op)
    along = normalise_axis(axis, len(node.shape), op)
    n = node.shape[along]
    places = known_integers(sections, op, "indices_or_sections")
    if places.ndim == 0:
        count = int(places)
        if count < 1:
            raise value_error(op, f"the number of sections is {count}; it must be at least 1")
        if even and n % count:
            raise value_error(
                op,
                f"operand 0 has shape {node.shape}; its axis {along} of size {n} does not divide "
                f"into {count} equal parts; use np.array_split",
            )
        small, larger = divmod(n, count)
        cuts = [i * small + min(i, larger) for i in range(1, count)]
    else:
        cuts = [int(i) for i in places.reshape(-1)]
    starts: list[int | None] = [0, *cuts]
    stops: list[int | None] = [*cuts, None]
    bounds = zip(starts, stops, strict=True)
    return [wrap(slice_node(node, along, slice(start, stop))) for start, stop in bounds]


def known_integers(x: Any, op: str, word: str) -> Value:
    """Integers that say what shape a result has, so must be known."""
    why = f"{word} must be known, since the result's shape depends on it"
    if isinstance(x, Array):
        value = known_value(x, op, why)
    else:
        try:
            value = as_value(x, op, 1)
        except ValuesNeededError as error:  # a sequence holds lazy arrays
            raise needs_values(op, error.variables, why) from None
    if not value.size:
        return value.astype(np.int64)
    if value.dtype.kind not in "iub":
        raise type_error(op, f"{word} has dtype {value.dtype}; accepted: integers")
    return value


@public()
def split(ary: ArrayLike, indices_or_sections: Sections, axis: int = 0) -> list[Array]:
    """Parts of `ary` along `axis`: a number of equal ones, or between the given places."""
    return _split("split", ary, indices_or_sections, axis, even=True)


@public()
def array_split(ary: ArrayLike, indices_or_sections: Sections, axis: int = 0) -> list[Array]:
    """Split along `axis`; where parts cannot be equal, the first ones are one longer."""
    return _split("array_split", ary, indices_or_sections, axis, even=False)


def _split_along(op: str, x: ArrayLike, sections: Sections, axis: int, rank: int) -> list[Array]:
    node = lift(x, op)
    if len(node.shape) < rank:
        raise value_error(op, f"operand 0 has shape {node.shape}; it must have {rank} axes or more")
    return _split(op, x, sections, axis, even=True)


@public()
def hsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Parts of `ary` beside each other: along the second axis, or the only one."""
    flat = len(lift(ary, "hsplit").shape) == 1
    return _split_along("hsplit", ary, indices_or_sections, 0 if flat else 1, 1)


@public()
def vsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Parts of `ary` below each other, along the first axis."""
    return _split_along("vsplit", ary, indices_or_sections, 0, 2)


@public()
def dsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Parts of `ary` behind each other, along the third axis."""
    return _split_along("dsplit", ary, indices_or_sections, 2, 3)


@public()
def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Array:
    """`arr` without the elements at `obj` (known integers, a slice or a mask) along `axis`."""
    node = lift(arr, "delete")
    if axis is None:
        node, axis = flatten_node(node), 0
    along = normalise_axis(axis, len(node.shape), "delete")
    n = node.shape[along]
    places = obj if isinstance(obj, slice) else known_integers(obj, "delete", "obj")  # pyright: ignore[reportUnknownVariableType]
    try:
        left = np.delete(np.arange(n), places)  # pyright: ignore[reportUnknownArgumentType]
    except (IndexError, ValueError) as error:
        raise index_error("delete", f"{error} (axis {along} has size {n})") from None
    return wrap(take_node(node, along, constant(left)))


@public()
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """`arr` with `values` put in before the elements at `obj` (known integers or a slice)."""
    node = lift(arr, "insert")
    new = assignment_value(values, node.dtype, "insert", 2)
    if axis is None:
        node, axis = flatten_node(node), 0
    rank = len(node.shape)
    along = normalise_axis(axis, rank, "insert")
    n = node.shape[along]
    places = (
        np.arange(*obj.indices(n))
        if isinstance(obj, slice)
        else known_integers(obj, "insert", "obj")
    )
    if places.dtype == np.bool_:
        places = np.flatnonzero(places)
    if places.size and (places.min() < -n or places.max() > n):
        raise index_error(
            "insert", f"obj {obj!r} leaves axis {along} of size {n}; accepted: {-n} to {n}"
        )
    count = places.size
    if count == 1:
        new = expand_node(new, range(rank - len(new.shape))) if len(new.shape) < rank else new
        if not places.ndim:  # a block whose first axis runs along `axis`
            order = [a for a in range(rank) if a]
            order.insert(along, 0)
            new = transpose_node(new, tuple(order))
        count = new.shape[along]
        places = np.full(count, places.reshape(-1)[0])
    new = broadcast_node(new, replace_size(node.shape, along, count))
    order_after = np.insert(np.arange(n), places, n + np.arange(count))
    return wrap(take_node(concat_nodes([node, new], along), along, constant(order_after)))


# ------------------------------------------------------------------- repeating


@public()
def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:  # noqa: N803
    """The whole of `A` repeated, `reps[i]` times along axis `i`."""
    node = lift(A, "tile")
    times = as_shape(reps, "tile", "reps")
    missing = len(node.shape) - len(times)
    times = (1,) * missing + times
    return wrap(make(Tile(times), (expand_node(node, range(-missing)) if missing < 0 else node,)))


@public()
def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Array:
    """Each element of `a` repeated: `repeats` times, or a number of times given for each.

    Without `axis` the elements are those of the flattened array.
    """
    node = lift(a, "repeat")
    if axis is None or not node.shape:
        node, axis = flatten_node(node), axis or 0
    along = normalise_axis(axis, len(node.shape), "repeat")
    times = known_integers(repeats, "repeat", "repeats")
    n = node.shape[along]
    if times.size and times.min() < 0:
        raise value_error("repeat", f"repeats is {times.min()}; it must be at least 0")
    if times.size == 1:
        return wrap(make(Repeat(int(times.reshape(-1)[0]), along), (node,)))
    if times.shape != (n,):
        raise value_error(
            "repeat",
            f"repeats has shape {times.shape}; it must be a number, or have shape {(n,)} to match "
            f"axis {along}",
        )
    return wrap(take_node(node, along, constant(np.repeat(np.arange(n), times))))
