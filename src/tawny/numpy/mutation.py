"""NumPy's functions that change an array: the name that holds it gets the changed one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, lift
from tawny.array import wrap as array_of
from tawny.errors import type_error, value_error
from tawny.numpy.grids import apply_index_mode
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops.assignment import assignment_value, at
from tawny.ops.creation import astype
from tawny.ops.movement import broadcast_to, flatten_node, ravel, reshape
from tawny.ops.selection import along_axis, integers, nonzero, take
from tawny.shape import normalise_axis


def _target(array: Any, op: str) -> Array:
    if not isinstance(array, Array):
        raise type_error(
            op,
            f"operand 0 is {type(array).__name__}; accepted: a lazy array, which can be changed: "
            "np.asarray(x) makes one",
        )
    return array


def _change(array: Array, values: Array) -> None:
    """Let the name of an array stand for other values, as `x[...] = values` does."""
    array[...] = values


def _assign_where(truth: Array, values: ArrayLike, target: Array, op: str) -> Array:
    """`values`, in the dtype of an array, where a condition holds, else its own."""
    node = assignment_value(values, target.dtype, op)
    return broadcast_to(e.where(truth, array_of(node), target), target.shape)


@public()
def put(a: Any, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Put `v`, repeated as needed, at the places `ind` of the flat `a`."""
    target = _target(a, "put")
    places = ravel(array_of(integers(ind, "put")))
    if mode != "raise":
        places = apply_index_mode(places, target.size, mode, "put")
    values = ravel(array_of(lift(v, "put", 2)))
    if not places.size or not values.size:
        return
    order = np.arange(places.size) % values.size
    flat = at(ravel(target))[places].set(take(values, order))
    _change(target, reshape(flat, target.shape))


@public()
def put_along_axis(arr: Any, indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    """Put `values` at `indices`, which say a place along `axis` for every other position."""
    target = _target(arr, "put_along_axis")
    places = integers(indices, "put_along_axis")
    node = flatten_node(target.node) if axis is None else target.node
    along = normalise_axis(axis or 0, len(node.shape), "put_along_axis")
    everywhere = along_axis(node, places, along, "put_along_axis")
    changed = at(array_of(node))[tuple(map(array_of, everywhere))].set(values)
    _change(target, reshape(changed, target.shape))


@public()
def fill_diagonal(a: Any, val: ArrayLike, wrap: bool = False) -> None:
    """Put `val`, repeated as needed, on the main diagonal of `a`, which has equal axes.

    The diagonal of a tall matrix begins again after its end if `wrap`.
    """
    target = _target(a, "fill_diagonal")
    shape = target.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise value_error(
            "fill_diagonal",
            f"operand 0 has shape {shape}; accepted: a matrix, or an array of equal axes",
        )
    if len(shape) == 2:
        step, end = shape[1] + 1, target.size if wrap else shape[1] * shape[1]
    else:
        step, end = 1 + sum([shape[0] ** i for i in range(1, len(shape))]), target.size
    put(target, np.arange(target.size)[:end:step], val)


@public()
def place(arr: Any, mask: ArrayLike, vals: ArrayLike) -> None:
    """Put `vals`, one after the other and again from the first, where the known `mask` is true."""
    target = _target(arr, "place")
    marks = array_of(lift(mask, "place", 1))
    if marks.size != target.size:
        raise value_error(
            "place", f"operand 1 has {marks.size} elements; operand 0 has {target.size}"
        )
    (places,) = nonzero(ravel(astype(marks, dt.BOOL, copy=False)))
    if places.size and not array_of(lift(vals, "place", 2)).size:
        raise value_error("place", "operand 2 has no elements to put in")
    put(target, places, vals)


@public()
def putmask(a: Any, mask: ArrayLike, values: ArrayLike) -> None:
    """Put into `a` the elements of `values`, repeated to its size, where `mask` is true."""
    target = _target(a, "putmask")
    marks, given = array_of(lift(mask, "putmask", 1)), ravel(array_of(lift(values, "putmask", 2)))
    if marks.size != target.size:
        raise value_error(
            "putmask", f"operand 1 has {marks.size} elements; operand 0 has {target.size}"
        )
    if not target.size or not given.size:
        return
    spread = reshape(take(given, np.arange(target.size) % given.size), target.shape)
    truth = reshape(astype(marks, dt.BOOL, copy=False), target.shape)
    _change(target, _assign_where(truth, spread, target, "putmask"))


@public()
def copyto(dst: Any, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Put the values of `src`, broadcast, into `dst` where the condition holds."""
    target = _target(dst, "copyto")
    source = array_of(lift(src, "copyto", 1))
    weak = dt.is_weak(src)
    if not weak and not dt.can_cast(source.dtype, target.dtype, casting):
        raise type_error(
            "copyto", f"{source.dtype} does not cast to {target.dtype} by casting={casting!r}"
        )
    truth = broadcast_to(array_of(lift(where, "copyto", 3)), target.shape)
    _change(target, _assign_where(truth, src if weak else source, target, "copyto"))
