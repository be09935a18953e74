"""What NumPy's ufuncs of two operands have besides being called: `np.add.reduce` and its kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from tawny.array import Array, ArrayLike
from tawny.bad_calls import explain_bad_calls
from tawny.errors import type_error, value_error
from tawny.methods import PUBLIC_FUNCTIONS
from tawny.ops import cumulative, reduction
from tawny.ops import elementwise as e
from tawny.ops.assignment import at
from tawny.ops.creation import asarray, astype, full
from tawny.ops.joining import concat
from tawny.ops.movement import expand_dims, reshape, squeeze
from tawny.shape import normalise_axes, normalise_axis

Function = Callable[..., Any]


class Ufunc(NamedTuple):
    """A function of two arrays, as NumPy's ufunc of its name has methods."""

    name: str
    call: Function

    @property
    def identity(self) -> Any:
        """What changes no other operand; None where there is no such number."""
        return getattr(np, self.name).identity

    def refusal(self, method: str, way_out: str) -> TypeError:
        """The error for a method that is not here."""
        return type_error(f"{self.name}.{method}", f"this has no lazy counterpart; {way_out}")


REDUCE: Final[dict[str, Function]] = {
    "add": reduction.sum,
    "multiply": reduction.prod,
    "maximum": reduction.max,
    "minimum": reduction.min,
    "logical_and": reduction.all,
    "logical_or": reduction.any,
}
"""The functions that reduce by a ufunc in one step."""

ACCUMULATE: Final[dict[str, Function]] = {
    "add": cumulative.cumulative_sum,
    "multiply": cumulative.cumulative_prod,
}
"""The functions that give all partial results of a ufunc in one step."""

ASSOCIATIVE: Final = frozenset(REDUCE) | {
    *("fmax", "fmin", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("gcd", "lcm", "hypot", "logaddexp", "logaddexp2"),
}
"""Ufuncs whose operands may be taken in any order, up to rounding."""

UPDATES: Final = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
"""The method of `x.at[index]` that does what a ufunc's `at` does."""

_LOOP: Final = "use tw.fold or tw.scan, or NumPy on the value"


def reduce(
    ufunc: Ufunc,
    array: ArrayLike,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: ArrayLike = True,
) -> Any:
    """The elements along an axis (0 unless given, all of them if None), taken together."""
    name = f"{ufunc.name}.reduce"
    if ufunc.name not in ASSOCIATIVE:
        raise ufunc.refusal("reduce", _LOOP)
    x = asarray(array) if dtype is None else asarray(array, dtype=dtype)
    if ufunc.name in REDUCE and (initial is None or not ufunc.name.startswith("logical")):
        options = {} if initial is None else {"initial": initial}
        return REDUCE[ufunc.name](x, axis, out=out, keepdims=keepdims, where=where, **options)
    x = _as_operand(ufunc, x)
    neutral = initial if ufunc.identity is None else ufunc.identity
    if where is not True:
        if neutral is None:
            raise value_error(name, "where= needs initial=, which stands for an empty selection")
        x = astype(e.where(where, x, neutral), x.dtype)
    axes = normalise_axes(axis, x.ndim, name)
    for place in reversed(axes):
        x = expand_dims(_fold(ufunc, x, place, neutral), axis=place)
    result = x if keepdims else squeeze(x, axis=axes)
    if initial is not None:
        result = ufunc.call(result, astype(asarray(initial), result.dtype))
    return e.positive(result, out=out) if out is not None else result


def accumulate(
    ufunc: Ufunc, array: ArrayLike, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    """The elements along an axis up to each place, taken together."""
    if ufunc.name not in ASSOCIATIVE:
        raise ufunc.refusal("accumulate", _LOOP)
    x = asarray(array) if dtype is None else asarray(array, dtype=dtype)
    if ufunc.name in ACCUMULATE:
        return ACCUMULATE[ufunc.name](x, axis=axis, dtype=dtype, out=out)
    x = _as_operand(ufunc, x)
    place = normalise_axis(axis, x.ndim, f"{ufunc.name}.accumulate")
    distance, count = 1, x.shape[place]
    while distance < count:
        later = ufunc.call(_part(x, place, 0, count - distance), _part(x, place, distance, count))
        x = concat([_part(x, place, 0, distance), later], axis=place)
        distance *= 2
    return e.positive(x, out=out) if out is not None else x


def outer(ufunc: Ufunc, a: ArrayLike, b: ArrayLike, /, **options: Any) -> Any:
    """The function of each element of `a` with each element of `b`."""
    x, y = asarray(a), asarray(b)
    return ufunc.call(reshape(x, (*x.shape, *(1,) * y.ndim)), y, **options)


def update_at(ufunc: Ufunc, a: Any, indices: Any, b: ArrayLike | None = None) -> None:
    """Let the name of an array stand for one whose elements at `indices` are taken with `b`."""
    if not isinstance(a, Array):
        raise type_error(
            f"{ufunc.name}.at",
            f"operand 0 is {type(a).__name__}; accepted: a lazy array, which can be changed: "
            "np.asarray(x) makes one",
        )
    if ufunc.name not in UPDATES or b is None:
        raise ufunc.refusal("at", "use x.at[index].set(values), whose result is a new array")
    a[...] = getattr(at(a)[indices], UPDATES[ufunc.name])(b)


def reduceat(ufunc: Ufunc, *_: Any, **__: Any) -> Any:
    """Reductions between indices, which are refused."""
    raise ufunc.refusal("reduceat", "reduce the parts of np.split, or use x.at[index].add(values)")


def _as_operand(ufunc: Ufunc, x: Array) -> Array:
    """`x` in the dtype of the ufunc's results."""
    return astype(x, ufunc.call(x, x).dtype)


def _part(x: Array, axis: int, begin: int, end: int) -> Array:
    return x[(slice(None),) * axis + (slice(begin, end),)]


def _fold(ufunc: Ufunc, x: Array, axis: int, neutral: Any) -> Array:
    """An array without one of its axes: halves are taken together until one element is left."""
    count = x.shape[axis]
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    if not count:
        if neutral is None:
            name = f"{ufunc.name}.reduce"
            raise value_error(name, f"axis {axis} has no element; give initial=")
        return full(rest, neutral, dtype=x.dtype)
    left = list[Array]()
    while count > 1:
        if count % 2:
            left.append(_part(x, axis, count - 1, count))
        count //= 2
        x = ufunc.call(_part(x, axis, 0, count), _part(x, axis, count, 2 * count))
    for part in left:
        x = ufunc.call(x, part)
    return reshape(x, rest)


METHODS: Final[dict[str, Function]] = {
    "reduce": reduce,
    "accumulate": accumulate,
    "outer": outer,
    "at": update_at,
    "reduceat": reduceat,
}
"""The methods by NumPy's names of them."""


def ufuncs() -> Iterator[Ufunc]:
    """The public functions that are ufuncs of two operands in NumPy."""
    for name, function in PUBLIC_FUNCTIONS.items():
        theirs = getattr(np, name, None)
        if isinstance(theirs, np.ufunc) and (theirs.nin, theirs.nout, theirs.signature) == (
            2,
            1,
            None,
        ):
            yield Ufunc(theirs.__name__, function)


def attach_methods() -> None:
    """Give the public functions that are NumPy's ufuncs their methods."""
    for ufunc in ufuncs():
        for name, method in METHODS.items():
            bound: Any = partial(method, ufunc)
            bound.__name__ = f"{ufunc.name}.{name}"
            bound.__doc__ = method.__doc__
            setattr(ufunc.call, name, explain_bad_calls(bound))
