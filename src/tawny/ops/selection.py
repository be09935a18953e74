"""Keys and places: parts of arrays by NumPy's rules.

A key is worked out once, into a `Selection`: a range along every axis, and index arrays that
pick along some of them.  Reading it is a `Slice`, a `Reshape` and a `Gather`; writing it is a
`Scatter` (see `tawny.ops.assignment`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, SupportsIndex

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, as_value, known_value, lift, store, view_of, wrap
from tawny.dtype import as_dtype, check_categories
from tawny.errors import index_error, needs_values, type_error, value_error
from tawny.node import Node, Value, constant, make, variables
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.creation import Cast
from tawny.ops.indexing import Gather, Range, Slice, check_indices, positions, take_node
from tawny.ops.movement import expand_node, flatten_node, reshape_node
from tawny.shape import Shape, as_shape, broadcast, normalise_axis

# ------------------------------------------------------------------------ keys


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection that a key makes from an array; axes count after its new axes are put in."""

    expanded: Shape
    """The array's shape with its new axes, which have size 1."""
    new: tuple[int, ...]
    """The new axes."""
    ranges: tuple[Range, ...]
    dropped: tuple[int, ...]
    """Axes given by an integer, which the result has not."""
    axes: tuple[int, ...]
    """Axes given by an index array."""
    indices: tuple[Node, ...]
    together: bool
    """Whether the result's axes for the index arrays stand where these did, and not in front."""

    @property
    def lengths(self) -> Shape:
        """Sizes of the ranges."""
        return tuple(length for _, length, _ in self.ranges)

    @property
    def whole(self) -> bool:
        """Whether the ranges are all of the array, in order."""
        return all(r == (0, n, 1) for r, n in zip(self.ranges, self.expanded, strict=True))

    @property
    def place(self) -> int:
        """How many axes stand before those of the index arrays."""
        return self.axes[0] if self.axes and self.together else 0

    def gather(self) -> Gather:
        """The op that picks, once the integers' axes are dropped."""
        fewer = [sum(d < a for d in self.dropped) for a in self.axes]
        place = self.place - fewer[0] if self.axes and self.together else 0
        return Gather(tuple(a - f for a, f in zip(self.axes, fewer, strict=True)), place)


Item = None | EllipsisType | slice | int | Node | Value
"""A part of a key: index arrays are nodes, boolean masks are values."""


def select(key: Any, shape: Shape, op: str) -> Selection:
    """Work out `key` on an array of `shape`."""
    items = [_item(part, op) for part in parts_of(key)]
    used = sum(map(_axes_used, items))
    if used > len(shape):
        raise index_error(
            op, f"operand 0 has shape {shape}; {used} indices came and at most {len(shape)} fit"
        )
    if sum(i is Ellipsis for i in items) > 1:
        raise index_error(op, "a key may have one '...', not several")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    walk = _KeyReader(op, shape)
    for position, item in enumerate(items):
        walk.take(position, item, len(shape) - used)
    return walk.selection()


def parts_of(key: Any) -> tuple[Any, ...]:
    """The items of a key, which is one item unless it is a tuple."""
    return key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]


class _KeyReader:
    """A pass over a key, an item at a time, along the array's axes."""

    def __init__(self, op: str, shape: Shape) -> None:
        self.op = op
        self.shape = shape
        self.axis = 0
        self.sizes: list[int] = []
        self.ranges: list[Range] = []
        self.new: list[int] = []
        self.dropped: list[int] = []
        self.axes: list[int] = []
        self.indices: list[Node] = []
        self.picked: list[int] = []

    def selection(self) -> Selection:
        spread = self.picked[-1] - self.picked[0] + 1 if self.picked else 0
        _check_broadcast(self.op, self.indices)
        return Selection(
            expanded=tuple(self.sizes),
            new=tuple(self.new),
            ranges=tuple(self.ranges),
            dropped=tuple(self.dropped),
            axes=tuple(self.axes),
            indices=tuple(self.indices),
            together=spread == len(set(self.picked)),
        )

    def take(self, position: int, item: Item, omitted: int) -> None:
        if item is None:
            self.insert()
        elif isinstance(item, EllipsisType):
            for _ in range(omitted):
                self.range(slice(None))
        elif isinstance(item, slice):
            self.range(item)
        elif isinstance(item, int):
            self.picked.append(position)
            self.integer(item)
        elif isinstance(item, Node):
            self.picked.append(position)
            check_bounds(self.op, self.axis, self.shape[self.axis], item)
            self.pick(item)
        elif item.ndim:
            self.picked.append(position)
            self.mask(item)
        else:
            self.picked.append(position)
            self.insert()
            self.new_index(constant(np.zeros(int(item), np.int64)))

    def advance(self, extent: Range) -> None:
        self.sizes.append(self.shape[self.axis])
        self.ranges.append(extent)
        self.axis += 1

    def insert(self) -> None:
        self.new.append(len(self.sizes))
        self.sizes.append(1)
        self.ranges.append((0, 1, 1))

    def range(self, part: slice) -> None:
        n = self.shape[self.axis]
        start, stop, step = _bounds(part, n, self.op)
        length = len(range(start, stop, step))
        if length > 1:
            self.advance((start, length, step))
        else:
            self.advance((start, 1, 1) if length else (0, 0, 1))

    def integer(self, index: int) -> None:
        n = self.shape[self.axis]
        if not -n <= index < n:
            raise _out_of_bounds(self.op, index, self.axis, n)
        self.dropped.append(len(self.sizes))
        self.advance((index % n, 1, 1))

    def pick(self, index: Node) -> None:
        self.axes.append(len(self.sizes))
        self.indices.append(index)
        self.advance((0, self.shape[self.axis], 1))

    def new_index(self, index: Node) -> None:
        self.axes.append(len(self.sizes) - 1)
        self.indices.append(index)

    def mask(self, mask: Value) -> None:
        covered = self.shape[self.axis : self.axis + mask.ndim]
        if mask.ndim != len(covered) or any(
            m not in (0, n) for m, n in zip(mask.shape, covered, strict=True)
        ):
            raise index_error(
                self.op,
                f"operand 0 has shape {self.shape}; a boolean index of shape {mask.shape} must "
                f"have the shape of the axes it covers, {covered}, or sizes of 0",
            )
        for index in mask.nonzero():
            self.pick(constant(index))


def _axes_used(item: Item) -> int:
    """How many axes of the array an item of a key takes up."""
    if isinstance(item, np.ndarray):
        return item.ndim
    return 0 if item is None or item is Ellipsis else 1


def _item(part: Any, op: str) -> Item:
    """An item of a key in its plain form."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part  # pyright: ignore[reportUnknownVariableType]
    if isinstance(part, (bool, np.bool_)):
        return np.array(part)
    if not isinstance(part, (Array, np.ndarray)) and isinstance(part, SupportsIndex):
        return operator.index(part)
    node = index_node(part, op)
    if node.dtype == dt.BOOL:
        if 0 in node.shape:  # it selects nothing, whatever its values
            return np.zeros(node.shape, bool)
        return known_value(
            part if isinstance(part, Array) else wrap(node),
            op,
            "the number of elements a boolean index selects must be known: "
            "use np.where(mask, x, y), or x.at[mask].add(v)",
        )
    if not node.shape and node.value is not None:
        return int(node.value)
    return node


def index_node(part: Any, op: str) -> Node:
    """A boolean or integer array of a key as a node."""
    if isinstance(part, (str, bytes)) or not isinstance(part, (Array, np.ndarray, Sequence)):
        raise index_error(
            op,
            f"{part!r} is not an index; accepted: integers, slices, '...', None, and integer or "
            "boolean arrays",
        )
    node = lift(part, op)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(part, Sequence) and 0 in node.shape:
        return constant(np.zeros(node.shape, np.int64))
    if node.dtype.kind not in "biu":
        raise index_error(
            op, f"an index array has dtype {node.dtype}; accepted: integer and boolean dtypes"
        )
    return node


def _bounds(part: slice, n: int, op: str) -> tuple[int, int, int]:
    for bound in (part.start, part.stop, part.step):
        if isinstance(bound, Array) and not bound.node.known:
            raise needs_values(
                op,
                variables([bound.node]),
                "the length of a slice must be known: "
                "use np.take(x, start + np.arange(length), axis=axis)",
            )
    try:
        return part.indices(n)
    except ValueError:
        raise value_error(op, "the step of a slice is 0; it must be positive or negative") from None
    except TypeError:
        raise type_error(
            op, f"{part} has bounds that are not integers; accepted: integers and None"
        ) from None


def _out_of_bounds(op: str, index: int, axis: int, n: int) -> IndexError:
    return index_error(op, describe_outside(index, axis, n))


def describe_outside(index: int, axis: int, n: int) -> str:
    """Why an index cannot be taken from an axis of size `n`."""
    accepted = f"{-n} to {n - 1}" if n else "none, since it is empty"
    return f"index {index} is out of bounds for axis {axis} of size {n}; accepted: {accepted}"


def check_bounds(op: str, axis: int, n: int, index: Node) -> None:
    """Refuse a constant index array that leaves an axis of size `n`."""
    if index.value is None or not index.value.size:
        return
    low, high = int(index.value.min()), int(index.value.max())
    if low < -n or high >= n:
        raise _out_of_bounds(op, low if low < -n else high, axis, n)


def _check_broadcast(op: str, indices: Sequence[Node]) -> None:
    try:
        broadcast(op, [n.shape for n in indices] or [()])
    except ValueError:
        listed = " and ".join(str(n.shape) for n in indices)
        raise index_error(
            op,
            f"index arrays of shapes {listed} do not broadcast together; accepted: "
            "shapes that agree from the last axis, or are 1",
        ) from None


# --------------------------------------------------------------------- reading


@public()
def getitem(x: ArrayLike, key: Any, /) -> Array:
    """`x[key]`, by NumPy's rules; index arrays may depend on variables, boolean ones may not."""
    node = lift(x, "getitem")
    chosen = select(key, node.shape, "getitem")
    ranges = tuple(r for a, r in enumerate(chosen.ranges) if a not in chosen.new)
    if not chosen.whole:
        node = make(Slice(ranges), (node,))
    node = reshape_node(
        node, tuple(n for a, n in enumerate(chosen.lengths) if a not in chosen.dropped)
    )
    if chosen.axes:
        node = make(chosen.gather(), (node, *chosen.indices))
    return view_of(x, node)


def integers(indices: ArrayLike, op: str) -> Node:
    """Indices given to a function, as an integer node."""
    node = lift(indices, op, 1)
    if isinstance(indices, Sequence) and 0 in node.shape:
        return constant(np.zeros(node.shape, np.int64))
    if node.dtype == dt.BOOL:
        return make(Cast(dt.INT64), (node,))
    check_indices(op, [node.dtype], 1)
    return node


@public()
def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Out = None, mode: str = "raise"
) -> Array:
    """Elements of `a` at `indices` along `axis`, or of the flattened array.

    Indices outside are refused ("raise"), taken around ("wrap") or moved to the end ("clip").
    """
    node, places = lift(a, "take"), integers(indices, "take")
    if axis is None or not node.shape:
        node, axis = flatten_node(node), axis or 0
    along = normalise_axis(axis, len(node.shape), "take")
    n = node.shape[along]
    if mode == "wrap":
        places = e.remainder(wrap(places), max(n, 1)).node
    elif mode == "clip":
        places = e.clip(wrap(places), 0, max(n - 1, 0)).node
    elif mode != "raise":
        raise value_error("take", f"mode is {mode!r}; accepted: 'raise', 'wrap', 'clip'")
    check_bounds("take", along, n, places)
    return store(out, wrap(take_node(node, along, places)), "take")


def along_axis(node: Node, indices: Node, axis: int, op: str) -> tuple[Node, ...]:
    """Index arrays for every axis of `node`: `indices` along `axis`, its own places elsewhere."""
    rank = len(node.shape)
    if len(indices.shape) != rank:
        raise value_error(
            op,
            f"operand 1 has shape {indices.shape}; it must have as many axes as operand 0, "
            f"of shape {node.shape}",
        )
    check_bounds(op, axis, node.shape[axis], indices)
    return tuple(
        indices if a == axis else expand_node(positions(n), [i for i in range(rank) if i != a])
        for a, n in enumerate(node.shape)
    )


@public()
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """Elements of `arr` at `indices`, which say a place along `axis` for every other position."""
    node, given = lift(arr, "take_along_axis"), lift(indices, "take_along_axis", 1)
    if given.dtype == dt.BOOL:
        raise index_error("take_along_axis", "operand 1 has dtype bool; accepted: integers")
    places = integers(indices, "take_along_axis")
    if axis is None:
        node, axis = flatten_node(node), 0
    along = normalise_axis(axis, len(node.shape), "take_along_axis")
    everywhere = along_axis(node, places, along, "take_along_axis")
    return wrap(make(Gather(tuple(range(len(everywhere))), 0), (node, *everywhere)))


@public()
def one_hot(x: ArrayLike, /, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """1 at the place each element of `x` names along a new axis, 0 elsewhere.

    - `x`: integers; those that name no place give zeros alone.
    - `num_classes`: the size of the new axis.
    - `dtype`: the dtype of the result; float64 when None.
    - `axis`: where the new axis goes; by default it is the last.

    Gives an array with one axis more than `x`.

        np.one_hot([0, 2], 3).numpy().tolist()        # -> [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    node = lift(x, "one_hot")
    check_categories("one_hot", 0, node.dtype, dt.INTEGER)
    (count,) = as_shape(num_classes, "one_hot", "num_classes")
    rank = len(node.shape) + 1
    along = normalise_axis(axis, rank, "one_hot")
    classes = expand_node(positions(count), [a for a in range(rank) if a != along])
    hot = e.equal(wrap(expand_node(node, (along,))), wrap(classes))
    wanted = dt.FLOAT64 if dtype is None else as_dtype(dtype, "one_hot")
    return hot if wanted == dt.BOOL else wrap(make(Cast(wanted), (hot.node,)))


# --------------------------------------------------------------- finding places


def _nonzero(x: ArrayLike, op: str) -> Value:
    array = x if isinstance(x, Array) else wrap(constant(as_value(x, op)))
    return known_value(
        array, op, "how many elements are not zero must be known: use np.where(x, a, b)"
    )


@public()
def nonzero(a: ArrayLike) -> tuple[Array, ...]:
    """Indices of the elements that are not zero, an array for each axis."""
    value = _nonzero(a, "nonzero")
    if not value.ndim:
        raise value_error("nonzero", "operand 0 has no axes; use np.atleast_1d(x)")
    return tuple(wrap(constant(i)) for i in value.nonzero())


@public()
def argwhere(a: ArrayLike) -> Array:
    """Indices of the elements that are not zero, a row for each."""
    return wrap(constant(np.argwhere(_nonzero(a, "argwhere"))))


@public()
def flatnonzero(a: ArrayLike) -> Array:
    """Indices, in the flattened array, of the elements that are not zero."""
    return wrap(constant(np.flatnonzero(_nonzero(a, "flatnonzero"))))
