"""NumPy's small functions that other functions add up to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, Out, lift, lift_all, store, wrap
from tawny.dtype import check_categories, kind_of
from tawny.dtype_rules import floating
from tawny.errors import type_error, value_error
from tawny.node import Node, make, scalar
from tawny.op import ELEMENTWISE
from tawny.operator import emit, public
from tawny.ops import cumulative, reduction
from tawny.ops import elementwise as e
from tawny.ops.creation import Cast, asarray, cast_node
from tawny.ops.differentiation import distance, stop_gradient
from tawny.ops.indexing import slice_node
from tawny.ops.joining import concat_nodes
from tawny.ops.movement import Copy, broadcast_node, flatten_node
from tawny.ops.precision import in_single
from tawny.ops.selection import nonzero
from tawny.shape import as_int, normalise_axis, replace_size


def _array(x: ArrayLike, op: str, position: int = 0) -> Array:
    return x if isinstance(x, Array) else wrap(lift(x, op, position))


def _copy_of(x: Array) -> Array:
    return wrap(make(Copy(), (x.node,)))


# -------------------------------------------------------------------- choosing


def _truth(condition: ArrayLike, op: str) -> Node:
    node = lift(condition, op)
    if node.dtype == dt.BOOL:
        return node
    return make(ELEMENTWISE["not_equal"], (node, scalar(0, node.dtype, op)))


@public()
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /) -> Any:
    """Elements of `x` where the condition holds, else of `y`; with neither, `nonzero`."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise value_error("where", "both choices are needed, or neither")
    choices = lift_all("where", (x, y))
    return wrap(make(ELEMENTWISE["where"], (_truth(condition, "where"), *choices)))


@public()
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """Elements of the first choice whose condition holds; `default` where none does."""
    if len(condlist) != len(choicelist) or not condlist:
        raise value_error(
            "select",
            f"{len(condlist)} conditions and {len(choicelist)} choices came; there must be as many "
            "of both, and at least one",
        )
    conditions = [lift(c, "select", i) for i, c in enumerate(condlist)]
    for position, condition in enumerate(conditions):
        if condition.dtype != dt.BOOL:
            raise type_error(
                "select", f"condition {position} has dtype {condition.dtype}; accepted: bool"
            )
    choices = lift_all("select", (*choicelist, default))
    common = dt.promote(*(n.dtype for n in choices))
    *ordered, result = [cast_node(n, common) for n in choices]
    for condition, choice in zip(reversed(conditions), reversed(ordered), strict=True):
        result = make(ELEMENTWISE["where"], (condition, choice, result))
    return wrap(result)


@public()
def clip(
    a: ArrayLike,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    out: Out = None,
    *,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    dtype: Any = None,
) -> Array:
    """Elements of `a`, those below `a_min` raised to it and those above `a_max` lowered to it.

    `min` and `max` are the standard's names for the bounds.
    """
    if out is not None:
        return store(out, clip(a, a_min, a_max, min=min, max=max, dtype=dtype), "clip")
    for word, first, second in (("min", a_min, min), ("max", a_max, max)):
        if first is not None and second is not None:
            raise value_error("clip", f"a_{word} and {word} came; give one of them")
    array = _array(a, "clip")
    if dtype is not None:
        array = asarray(array, dtype=dtype)
    min, max = a_min if min is None else min, a_max if max is None else max
    if array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        min = None if type(min) is int and min <= info.min else min
        max = None if type(max) is int and max >= info.max else max
    if min is None and max is None:
        return _copy_of(array)
    if min is None or max is None:
        name, bound = ("maximum", min) if max is None else ("minimum", max)
        return wrap(make(ELEMENTWISE[name], lift_all("clip", (array, bound))))
    return wrap(make(ELEMENTWISE["clip"], lift_all("clip", (array, min, max))))


@public()
@in_single
def clip_by_norm(x: ArrayLike, limit: ArrayLike, /) -> Array:
    """`x` scaled down, where its Euclidean norm exceeds `limit`, to have that norm.

    - `x`: an array; the norm is that of all its elements.
    - `limit`: the greatest norm.

    Gives an array of the shape of `x`.

        np.clip_by_norm([3.0, 4.0], 1.0).numpy().round(6).tolist()   # -> [0.6, 0.8]
    """
    given = _array(x, "clip_by_norm")
    array = wrap(cast_node(given.node, dt.inexact_dtype(given.dtype)))
    norm = emit(distance, reduction.sum(e.square(e.abs(array))))
    bound = wrap(lift_all("clip_by_norm", (norm, limit))[1])
    return e.multiply(array, e.divide(bound, e.maximum(norm, bound)))


@public()
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """`x` with `nan` for NaN, and the greatest or given numbers for the infinities."""
    array = _array(x, "nan_to_num")
    if kind_of(array.dtype) not in "fc":
        return _copy_of(array) if copy else array
    if array.dtype.kind == "c":
        parts = (nan_to_num(p(array), True, nan, posinf, neginf) for p in (e.real, e.imag))
        return complex_of(*parts)
    limits = dt.finfo(array.dtype)
    highest = float(limits.max) if posinf is None else posinf
    lowest = float(limits.min) if neginf is None else neginf
    result = array.node
    for condition, instead in (
        (e.isnan(array), nan),
        (isposinf(array), highest),
        (isneginf(array), lowest),
    ):
        value = cast_node(lift_all("nan_to_num", (array, instead))[1], array.dtype)
        result = make(ELEMENTWISE["where"], (condition.node, value, result))
    return wrap(broadcast_node(result, array.shape))


def complex_of(real: Array, imag: Array) -> Array:
    """The complex array with parts `real` and `imag`, which may be infinite or NaN."""
    turned = e.multiply(where(e.isfinite(imag), imag, 0), 1j)
    for number in (math.inf, -math.inf, math.nan):
        there = e.isnan(imag) if math.isnan(number) else e.equal(imag, number)
        turned = where(there, complex(0, number), turned)
    return e.add(real, turned)


# --------------------------------------------------------------------- numbers


@public("around")
@in_single
def round(a: ArrayLike, decimals: int = 0, out: Out = None) -> Array:
    """`a` to the given number of decimals, halves to the even one; negative ones count tens."""
    if out is not None:
        return store(out, round(a, decimals), "round")
    array = _array(a, "round")
    places = as_int(decimals, "round", "decimals")
    if array.dtype.kind in "iu" and places >= 0:
        return _copy_of(array)
    if places == 0:
        return e.rint(array)
    check_categories("round", 0, array.dtype, dt.NUMERIC)
    if array.dtype.kind == "c":
        return complex_of(*(round(p(array), places) for p in (e.real, e.imag)))
    scale = 10.0 ** abs(places)
    up, down = (e.multiply, e.divide) if places > 0 else (e.divide, e.multiply)
    rounded = down(e.rint(up(array, scale)), scale)
    return wrap(cast_node(rounded.node, array.dtype))


def _floating(x: ArrayLike, op: str) -> Array:
    """`x` in the least floating-point dtype that holds it."""
    array = _array(x, op)
    wanted = floating(op, [array.dtype])
    return array if array.dtype == wanted else wrap(make(Cast(wanted), (array.node,)))


@public(ufunc=True)
def fabs(x: ArrayLike, /) -> Array:
    """Absolute value, in floating point."""
    return e.abs(_floating(x, "fabs"))


@public(ufunc=True)
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Quotient rounded down, and remainder."""
    return e.floor_divide(x1, x2), e.remainder(x1, x2)


@public(ufunc=True)
def modf(x: ArrayLike, /) -> tuple[Array, Array]:
    """Fraction and whole part, both with the sign of `x`."""
    array = _floating(x, "modf")
    whole = e.trunc(array)
    fraction = where(e.isinf(array), 0.0, e.subtract(array, whole))
    return e.copysign(fraction, array), whole


@public(ufunc=True)
def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1` to the power `x2`, in double precision at least."""
    nodes = [lift(_as_float(x), "float_power", i) for i, x in enumerate((x1, x2))]
    wide = dt.promote(dt.FLOAT64, *(n.dtype for n in nodes))
    return wrap(make(ELEMENTWISE["pow"], tuple(cast_node(n, wide) for n in nodes)))


def _as_float(x: ArrayLike) -> ArrayLike:
    """A real Python number as a float, whatever its size; all else as it is."""
    return float(x) if isinstance(x, (bool, int)) else x


@public()
@in_single
def sinc(x: ArrayLike) -> Array:
    """`sin(pi x) / (pi x)`, which is 1 at 0."""
    angle = e.multiply(x, math.pi)
    near = e.less(e.abs(angle), 0.1)  # where the quotient's derivatives would lose digits
    safe = where(near, 1.0, angle)
    square = e.multiply(angle, angle)
    series = e.multiply(square, 1 / 362880)
    for coefficient in (-1 / 5040, 1 / 120, -1 / 6):
        series = e.multiply(e.add(series, coefficient), square)
    result: Array = where(near, e.add(series, 1.0), e.divide(e.sin(safe), safe))
    return result


@public()
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Angle of a complex number with the positive real axis, in radians or degrees."""
    array = _array(z, "angle")
    if array.dtype.kind == "c":
        radians = e.atan2(e.imag(array), e.real(array))
    else:
        radians = e.atan2(0, stop_gradient(array))  # a sign only, which has no slope
    return e.multiply(radians, 180.0 / math.pi) if deg else radians


# ----------------------------------------------------------------------- tests


@public()
def isposinf(x: ArrayLike, out: Out = None) -> Array:
    """Whether each element is plus infinity."""
    array = _array(x, "isposinf")
    check_categories("isposinf", 0, array.dtype, dt.REAL)
    return store(out, e.equal(array, math.inf), "isposinf")


@public()
def isneginf(x: ArrayLike, out: Out = None) -> Array:
    """Whether each element is minus infinity."""
    array = _array(x, "isneginf")
    check_categories("isneginf", 0, array.dtype, dt.REAL)
    return store(out, e.equal(array, -math.inf), "isneginf")


@public()
def isreal(x: ArrayLike) -> Array:
    """Whether each element has no imaginary part."""
    return e.equal(e.imag(x), 0)


@public()
def iscomplex(x: ArrayLike) -> Array:
    """Whether each element has an imaginary part."""
    return e.not_equal(e.imag(x), 0)


@public()
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Array:
    """Whether `a` is within `atol + rtol * abs(b)` of `b`; equal infinities are close."""
    expected = _inexact(b, "isclose")
    got: ArrayLike = a if dt.is_weak(a) else _array(a, "isclose")
    near = e.less_equal(
        e.abs(e.subtract(got, expected)), e.add(atol, e.multiply(rtol, e.abs(expected)))
    )
    close = e.logical_or(e.logical_and(near, e.isfinite(expected)), e.equal(got, expected))
    if equal_nan:
        close = e.logical_or(close, e.logical_and(e.isnan(got), e.isnan(expected)))
    return close


def _inexact(x: ArrayLike, op: str) -> ArrayLike:
    """`x` as floating-point or complex numbers; a Python number stays one."""
    if dt.is_weak(x):
        return x if isinstance(x, (float, complex)) else float(x)  # type: ignore[arg-type]
    node = lift(x, op, 1)
    if kind_of(node.dtype) in "fc":
        return x if isinstance(x, Array) else wrap(node)
    return wrap(make(Cast(dt.FLOAT64), (node,)))


@public()
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements of `a` and `b` are close; see `isclose`."""
    return reduction.all(isclose(a, b, rtol, atol, equal_nan))


@public()
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and elements."""
    first, second = _array(a1, "array_equal"), _array(a2, "array_equal", 1)
    if first.shape != second.shape:
        return wrap(scalar(False, dt.BOOL, "array_equal"))
    same = e.equal(first, second)
    if equal_nan:
        same = e.logical_or(same, e.logical_and(e.isnan(first), e.isnan(second)))
    return reduction.all(same)


# ------------------------------------------------------- sums and differences


@public()
def cumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: Out = None) -> Array:
    """Running sum along `axis`, or of the flattened array."""
    array = _array(a, "cumsum")
    if axis is None and array.ndim != 1:
        array = wrap(flatten_node(array.node))
    return store(out, cumulative.cumulative_sum(array, axis=axis, dtype=dtype), "cumsum")


@public()
def cumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: Out = None) -> Array:
    """Running product along `axis`, or of the flattened array."""
    array = _array(a, "cumprod")
    if axis is None and array.ndim != 1:
        array = wrap(flatten_node(array.node))
    return store(out, cumulative.cumulative_prod(array, axis=axis, dtype=dtype), "cumprod")


@public()
@in_single
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Differences of neighbours along `axis`, `n` times over; for booleans, whether they differ."""
    node = lift(a, "diff")
    times = as_int(n, "diff", "n")
    if times < 0:
        raise value_error("diff", f"n is {times}; it must be at least 0")
    if not node.shape:
        raise value_error("diff", "operand 0 has no axes; it must have one or more")
    along = normalise_axis(axis, len(node.shape), "diff")
    if times == 0:
        return wrap(make(Copy(), (node,)))
    ends = [_end(node, end, along) for end in (prepend, append)]
    pieces = [p for p in (ends[0], node, ends[1]) if p is not None]
    node = concat_nodes(pieces, along) if len(pieces) > 1 else node
    name = "not_equal" if node.dtype == dt.BOOL else "subtract"
    for _ in range(times):
        later, earlier = (
            slice_node(node, along, slice(1, None)),
            slice_node(node, along, slice(0, -1)),
        )
        node = make(ELEMENTWISE[name], (later, earlier))
    return wrap(node)


def _end(node: Node, values: ArrayLike | None, axis: int) -> Node | None:
    """What stands before or after `node` along `axis`; a number is repeated as needed."""
    if values is None:
        return None
    end = lift(values, "diff")
    return end if end.shape else broadcast_node(end, replace_size(node.shape, axis, 1))
