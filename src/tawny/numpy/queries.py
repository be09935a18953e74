"""Questions about arrays: what they are, where their extremes lie, and which elements to take."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, known_value, lift, lift_all, store, wrap
from tawny.dtype import kind_of
from tawny.errors import value_error
from tawny.node import Value, constant, scalar
from tawny.numpy.composite import where
from tawny.numpy.grids import apply_index_mode
from tawny.operator import public
from tawny.ops import elementwise as e
from tawny.ops import reduction
from tawny.ops.assignment import assignment_value
from tawny.ops.creation import astype, copy, zeros_like
from tawny.ops.joining import unstack
from tawny.ops.movement import broadcast_to
from tawny.ops.selection import integers, take
from tawny.shape import Shape, broadcast, normalise_axes
from tawny.shape import size as count

# -------------------------------------------------------------- what an array is


@public()
def shape(a: ArrayLike) -> Shape:
    """Sizes of the axes, as Python integers."""
    return lift(a, "shape").shape


@public()
def ndim(a: ArrayLike) -> int:
    """Number of axes."""
    return len(lift(a, "ndim").shape)


@public()
def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """Number of elements, in all or along `axis`."""
    sizes = lift(a, "size").shape
    return count(tuple(sizes[i] for i in normalise_axes(axis, len(sizes), "size")))


@public()
def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype is complex, whatever the values."""
    return lift(x, "iscomplexobj").dtype.kind == "c"


@public()
def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype is not complex, whatever the values."""
    return lift(x, "isrealobj").dtype.kind != "c"


@public()
def iterable(y: object) -> bool:
    """Whether one can iterate over `y`; not over an array without axes."""
    return np.iterable(y)


@public()
def real_if_close(a: ArrayLike, tol: float = 100) -> Array:
    """The real part, if known imaginary parts are all within `tol` of zero, else `a`.

    A `tol` above 1 counts roundings of the dtype.
    """
    array = wrap(lift(a, "real_if_close"))
    if array.dtype.kind != "c":
        return array
    way_out = "whether the result is real must be known: take np.real(x)"
    imaginary = known_value(e.imag(array), "real_if_close", way_out)
    limit = tol * dt.finfo(array.dtype).eps if tol > 1 else tol
    return e.real(array) if bool((np.abs(imaginary) < limit).all()) else array


@public()
def isscalar(element: object) -> bool:
    """Whether `element` is a number or string, and no array."""
    return isinstance(element, (numbers.Number, np.generic, str, bytes, memoryview))


@public()
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays, broadcast together, have the same elements."""
    first, second = (wrap(lift(a, "array_equiv", i)) for i, a in enumerate((a1, a2)))
    try:
        broadcast("array_equiv", [first.shape, second.shape])
    except ValueError:
        return wrap(scalar(False, dt.BOOL, "array_equiv"))
    return reduction.all(e.equal(first, second))


# ---------------------------------------------------------------------- extremes


@public()
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: Out = None, *, keepdims: bool = False
) -> Array:
    """Index of the first greatest element along `axis` that is not NaN; 0 where all are.

    Values that are known are refused where all are NaN.
    """
    values = _without_nan(a, float("-inf"), axis, "nanargmax")
    return store(out, reduction.argmax(values, axis=axis, keepdims=keepdims), "nanargmax")


@public()
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: Out = None, *, keepdims: bool = False
) -> Array:
    """Index of the first least element along `axis` that is not NaN; 0 where all are.

    Values that are known are refused where all are NaN.
    """
    values = _without_nan(a, float("inf"), axis, "nanargmin")
    return store(out, reduction.argmin(values, axis=axis, keepdims=keepdims), "nanargmin")


def _without_nan(a: ArrayLike, instead: float, axis: int | None, op: str) -> Array:
    """`a` with `instead` for NaN."""
    array = wrap(lift(a, op))
    if kind_of(array.dtype) not in "fc":
        return array
    along = normalise_axes(axis, array.ndim, op)
    value = array.node.value
    if value is not None and bool(np.isnan(value).all(axis=along).any()):
        raise value_error(op, f"operand 0 has nothing but NaN along axis {axis}")
    return cast("Array", where(e.isnan(array), instead, array))


# ------------------------------------------------------------------ what to take


def _known_mask(x: ArrayLike, op: str) -> Value:
    way_out = "how many elements are taken must be known: use np.where(condition, x, y)"
    return known_value(wrap(lift(x, op)), op, way_out)


@public()
def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Out = None) -> Array:
    """The slices of `a` along `axis`, or elements of the flattened array, marked by `condition`."""
    marks = _known_mask(condition, "compress")
    if marks.ndim != 1:
        raise value_error("compress", f"operand 0 has shape {marks.shape}; it must have one axis")
    return store(out, take(a, wrap(constant(marks.nonzero()[0])), axis=axis), "compress")


@public()
def extract(condition: ArrayLike, arr: ArrayLike) -> Array:
    """The elements of the flattened `arr` where the flattened `condition` holds."""
    return take(arr, wrap(constant(_known_mask(condition, "extract").ravel().nonzero()[0])))


@public()
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """The array without the zeros at its front ("f") and back ("b") along each of `axis`."""
    array = wrap(lift(filt, "trim_zeros"))
    if trim.lower() not in ("f", "b", "fb", "bf"):
        raise value_error("trim_zeros", f"trim is {trim!r}; accepted: 'f', 'b', 'fb'")
    along = tuple(axis) if isinstance(axis, Sequence) else axis
    axes = normalise_axes(along, array.ndim, "trim_zeros")
    way_out = "how many zeros there are must be known: compute it first, or pass it to tw.delay"
    places = known_value(array, "trim_zeros", way_out).nonzero()
    key: list[slice] = []
    for i in range(array.ndim):
        if i not in axes:
            key.append(slice(None))
        elif not places[i].size:
            key.append(slice(0, 0))
        else:
            start = int(places[i].min()) if "f" in trim.lower() else 0
            stop = int(places[i].max()) + 1 if "b" in trim.lower() else array.shape[i]
            key.append(slice(start, stop))
    return array[tuple(key)]


@public()
def choose(
    a: ArrayLike, choices: Sequence[ArrayLike] | ArrayLike, out: Out = None, mode: str = "raise"
) -> Array:
    """At each place the element of the choice that `a` numbers there.

    A number that no choice has is refused ("raise"; one that is not known yet, when it is), taken
    around ("wrap") or moved to the nearest ("clip").
    """
    number = wrap(integers(a, "choose"))
    if isinstance(choices, (Array, np.ndarray)):
        choices = unstack(cast("ArrayLike", choices))
    options = cast("Sequence[ArrayLike]", choices)
    if not options:
        raise value_error("choose", "there are no choices; at least one is needed")
    arrays = lift_all("choose", options)
    common = dt.promote(*(n.dtype for n in arrays))
    *before, result = [astype(wrap(n), common, copy=False) for n in arrays]
    number = apply_index_mode(number, len(arrays), mode, "choose")
    for i, option in reversed(list(enumerate(before))):
        result = where(e.equal(number, i), option, result)
    everywhere = broadcast("choose", [number.shape, *(n.shape for n in arrays)])
    return store(out, broadcast_to(result if before else copy(result), everywhere), "choose")


@public()
def piecewise(
    x: ArrayLike,
    condlist: Sequence[ArrayLike] | ArrayLike,
    funclist: Sequence[Callable[..., Any] | ArrayLike],
    *args: Any,
    **kw: Any,
) -> Array:
    """For each condition the function, or number, of `x` where it holds; the last that does counts.

    One function more than conditions is for where none holds, else it is 0 there.  A function is
    given all of `x`, and the further arguments.
    """
    array = wrap(lift(x, "piecewise"))
    conditions = [astype(c, dt.BOOL, copy=False) for c in _conditions(condlist, array.ndim)]
    if len(funclist) == len(conditions) + 1:
        some = functools.reduce(e.logical_or, conditions)
        conditions.append(e.logical_not(some))
    if len(funclist) != len(conditions):
        raise value_error(
            "piecewise",
            f"{len(funclist)} functions came for {len(conditions)} conditions; accepted: as many, "
            "or one more",
        )
    result = zeros_like(array)
    for condition, piece in zip(conditions, funclist, strict=True):
        value = piece(array, *args, **kw) if callable(piece) else piece
        result = where(condition, wrap(assignment_value(value, array.dtype, "piecewise")), result)
    return result


def _conditions(condlist: Any, rank: int) -> list[ArrayLike]:
    """The conditions of a list, or the only one, on an array of `rank` axes."""
    if isinstance(condlist, (Array, np.ndarray)):
        array = wrap(lift(condlist, "piecewise", 1))
        return list(unstack(array)) if array.ndim > (rank > 0) else [array]
    if isinstance(condlist, (list, tuple)):
        items = list(cast("Sequence[Any]", condlist))
        if not rank or (items and isinstance(items[0], (list, tuple, Array, np.ndarray))):
            return items
    return [cast("ArrayLike", condlist)]
