"""Assignment to parts of arrays: `x[key] = value` and `x.at[key].add(value)`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeGuard, final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift, wrap
from tawny.bad_calls import explain_bad_calls
from tawny.dtype import DType, kind_of
from tawny.errors import needs_values, overflow_error, type_error, value_error
from tawny.foreign_attributes import UPDATE, raise_missing
from tawny.node import Node, Value, make, scalar, variables
from tawny.op import ELEMENTWISE
from tawny.operator import public
from tawny.ops.creation import cast_node
from tawny.ops.indexing import COMBINE, Scatter, fits, gather_shape
from tawny.ops.movement import Copy, broadcast_node, expand_node, reshape_node
from tawny.ops.selection import Selection, getitem, parts_of, select
from tawny.shape import Shape

# ---------------------------------------------------------------------- values


def assignment_value(value: Any, dtype: DType, op: str, position: int = 1) -> Node:
    """`value` in `dtype`, as NumPy converts what is assigned.

    Python integers, alone or in lists, must fit; arrays are cast.
    """
    if dt.is_weak(value):
        return _number(value, dtype, op, position)
    node = lift(value, op, position)
    if node.dtype.kind == "c" and dtype.kind != "c":
        raise type_error(
            op, f"operand {position} has dtype {node.dtype}, which has no {dtype} value"
        )
    if isinstance(value, (list, tuple)) and node.value is not None:
        _check_numbers(node.value, dtype, op, position)
    return cast_node(node, dtype)


def _number(value: Any, dtype: DType, op: str, position: int) -> Node:
    what = f"operand {position} is {value}"
    if isinstance(value, complex) and dtype.kind != "c":
        raise type_error(op, f"{what}, which has no {dtype} value")
    if isinstance(value, float) and dtype.kind in "iu":
        if not math.isfinite(value):
            raise value_error(op, f"{what}, which has no {dtype} value")
        value = int(value)
    if isinstance(value, int) and kind_of(dtype) in "fc" and abs(value) > 2**1023:
        raise overflow_error(op, f"{what}, too large for {dtype}")
    return scalar(value, dtype, op)


def _check_numbers(values: Value, dtype: DType, op: str, position: int) -> None:
    """Refuse numbers of which some have no value in an integer `dtype`."""
    if dtype.kind not in "iu":
        return
    if values.dtype.kind in "biu":
        dt.check_all_fit(values, dtype, op, f"operand {position}")
    elif not np.isfinite(values).all():
        raise value_error(
            op, f"operand {position} has NaN or infinity, which have no {dtype} value"
        )


def _operands(x: Node, value: Any, mode: str, op: str) -> tuple[Node, Node]:
    """`x` and `value` in one dtype, converted as NumPy converts what is assigned or added."""
    dtype = x.dtype
    node = None if dt.is_weak(value) else lift(value, op, 1)
    if mode != "set":
        kind = dt.weak_dtype(_kind(value), dtype) if node is None else node.dtype
        common = dt.promote(dtype, kind)
        if not dt.can_cast(common, dtype, "same_kind"):
            raise type_error(
                op,
                f"operand 1 has dtype {kind}, which gives {common} with operand 0; it must cast to "
                f"operand 0's {dtype}: convert one with np.astype",
            )
        if mode in ("min", "max") and common.kind in "iu":  # a narrower integer would wrap
            dtype = common
    return cast_node(x, dtype), assignment_value(value, dtype, op)


def _kind(value: object) -> type:
    return type(value)


def _restore_dropped_axes(value: Node, chosen: Selection, op: str) -> Node:
    """`value` with the axes of what the key's integers drop put back, with size 1."""
    gather = chosen.gather()
    kept = tuple(n for a, n in enumerate(chosen.lengths) if a not in chosen.dropped)
    shapes = [n.shape for n in chosen.indices]
    target = gather_shape(op, kept, gather.axes, gather.place, shapes)
    given = value.shape
    while len(given) > len(target) and given[0] == 1:
        given = given[1:]
    if not fits(given, target):
        raise value_error(
            op,
            f"operand 1 has shape {value.shape}, which does not broadcast to the shape of what the "
            f"key selects, {target}",
        )
    if not given or not chosen.dropped:
        return reshape_node(value, given)
    padded = [*(1,) * (len(target) - len(given)), *given]
    block = len(target) - len(kept) + len(gather.axes)
    sizes = iter([*padded[: gather.place], *padded[gather.place + block :]])
    left = [
        1 if a in chosen.dropped else next(sizes)
        for a in range(len(chosen.lengths))
        if a not in chosen.axes
    ]
    place = chosen.place
    index_axes = padded[gather.place : gather.place + block]
    return reshape_node(value, (*left[:place], *index_axes, *left[place:]))


# --------------------------------------------------------------------- writing


def _update_node(x: Node, key: Any, value: Any, mode: str, op: str) -> Node:
    """`x` with `value` put into, or combined with, what `key` selects."""
    old, new = _operands(x, value, mode, op)
    mask = _mask(key, x.shape)
    if mask is not None:
        result = _where(old, lift(mask, op), new, mode, op)
        if result is not None:
            return cast_node(result, x.dtype)
    chosen = select(key, x.shape, op)
    new = _restore_dropped_axes(new, chosen, op)
    if mode == "set" and chosen.whole and not chosen.axes:
        return reshape_node(broadcast_node(new, chosen.expanded), x.shape)
    scatter = Scatter(chosen.ranges, chosen.axes, chosen.place, mode)
    result = make(scatter, (reshape_node(old, chosen.expanded), new, *chosen.indices))
    return cast_node(reshape_node(result, x.shape), x.dtype)


def _mask(key: Any, shape: Shape) -> Array | Value | None:
    """The boolean array over the leading axes that alone makes up `key`, if one does."""
    first, *rest = parts_of(key) or (None,)
    if not _is_boolean(first):
        return None
    plain = all(p is Ellipsis or (isinstance(p, slice) and p == slice(None)) for p in rest)
    slices = sum(p is not Ellipsis for p in rest)
    if not plain or len(rest) - slices > 1 or first.ndim + slices > len(shape):
        return None
    return first if first.shape == shape[: first.ndim] else None


def _is_boolean(x: object) -> TypeGuard[Array | Value]:
    if isinstance(x, Array):
        return x.dtype == dt.BOOL
    return isinstance(x, np.ndarray) and x.dtype.kind == "b"  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _where(x: Node, mask: Node, value: Node, mode: str, op: str) -> Node | None:
    """The update as a choice between old and new elements; None if the mask must be known.

    The mask covers the leading axes; the value either spreads over the trailing ones or has an
    element for each of `x`.
    """
    covered = len(mask.shape)
    trailing = x.shape[covered:]
    if not fits(value.shape, trailing):
        if mask.known:
            return None
        if value.shape[:covered] != mask.shape or not fits(value.shape, x.shape):
            raise needs_values(
                op,
                variables([mask]),
                f"operand 1 of shape {value.shape} must broadcast to the axes the mask does not "
                f"cover, {trailing}, or have the shape of operand 0, {x.shape}: "
                "use np.where(mask, y, x)",
            )
    new = value if mode == "set" else make(COMBINE[mode], (x, value))
    wide = expand_node(mask, range(covered, len(x.shape)))
    return make(ELEMENTWISE["where"], (wide, new, x))


@public()
def setitem(x: Array, key: Any, value: ArrayLike, /) -> Array:
    """`x` after `x[key] = value`, by NumPy's rules."""
    return wrap(_update_node(x.node, key, value, "set", "setitem"))


@final
class IndexUpdate:
    """A part of an array, to be read or updated; updates give a new array."""

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: Any) -> None:
        self._array = array
        self._key = key

    def __repr__(self) -> str:
        return "<part of an array: .set(value), .add, .mul, .min and .max give an array, .get() it>"

    if not TYPE_CHECKING:  # which would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise_missing(self, "at[...]", name, UPDATE.get(name))

    def get(self) -> Array:
        """The part."""
        return getitem(self._array, self._key)

    @explain_bad_calls
    def set(self, value: ArrayLike) -> Array:
        """The array with `value` in this part."""
        return self._update(value, "set")

    @explain_bad_calls
    def add(self, value: ArrayLike) -> Array:
        """The array with `value` added to this part."""
        return self._update(value, "add")

    @explain_bad_calls
    def mul(self, value: ArrayLike) -> Array:
        """The array with this part multiplied by `value`."""
        return self._update(value, "mul")

    @explain_bad_calls
    def min(self, value: ArrayLike) -> Array:
        """The array with this part no greater than `value`."""
        return self._update(value, "min")

    @explain_bad_calls
    def max(self, value: ArrayLike) -> Array:
        """The array with this part no less than `value`."""
        return self._update(value, "max")

    def _update(self, value: ArrayLike, mode: str) -> Array:
        x = self._array.node
        node = _update_node(x, self._key, value, mode, f"at[...].{mode}")
        return wrap(make(Copy(), (node,))) if _is_operand(node, x, value) else wrap(node)


def _is_operand(node: Node, x: Node, value: ArrayLike) -> bool:
    return node is x or (isinstance(value, Array) and node is value.node)


@final
class At:
    """`x.at`, which waits for a key."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> IndexUpdate:
        return IndexUpdate(self._array, key)


@public()
def at(x: ArrayLike, /) -> At:
    """Functional updates: `at(x)[key].set(value)`, `.add`, `.mul`, `.min`, `.max`, `.get()`.

    - `x`: the array, which stays as it is; `x.at` is the same.

    Each gives a new array; `key` is anything that indexes an array.

        np.at([1, 2, 3])[0].set(9).numpy().tolist()   # -> [9, 2, 3]
        np.at([1, 2, 3])[[0, 0]].add(5).numpy().tolist()   # -> [11, 2, 3]
    """
    return At(x if isinstance(x, Array) else wrap(lift(x, "at")))
