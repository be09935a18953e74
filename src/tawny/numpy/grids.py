"""Grids: spaced numbers, index arrays, and functions sampled on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, cast, final

import numpy as np

from tawny import dtype as dt
from tawny.array import Array, ArrayLike, check_device, known_value, lift, lift_all, wrap
from tawny.dtype import as_dtype
from tawny.errors import value_error
from tawny.node import constant, make
from tawny.numpy.composite import clip
from tawny.operator import check_like, public
from tawny.ops import elementwise as e
from tawny.ops.bounds import check_within
from tawny.ops.creation import (
    Linspace,
    arange,
    astype,
    filled_array,
    ones,
    rows_between,
    zeros,
)
from tawny.ops.joining import concat, stack
from tawny.ops.movement import broadcast_arrays, broadcast_to, expand_dims, moveaxis, reshape
from tawny.ops.selection import integers, nonzero
from tawny.shape import Shape, as_int, as_shape, broadcast, normalise_axis, size

# -------------------------------------------------------------- spaced numbers


@public()
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: str | None = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, with or without the end.

    Between arrays they run along a new `axis`.  With `retstep` the distance comes too.
    """
    check_device(device, "linspace")
    length = _length(num, "linspace")
    ends = lift_all("linspace", (start, stop))
    default = dt.weak_dtype(float, dt.promote(*(n.dtype for n in ends)))
    wanted = default if dtype is None else as_dtype(dtype, "linspace")
    if any(n.shape for n in ends):
        numbers = rows_between(wrap(ends[0]), wrap(ends[1]), length, bool(endpoint), wanted)
    else:
        numbers = wrap(make(Linspace(length, bool(endpoint), wanted), ends))
    result = moveaxis(numbers, 0, normalise_axis(axis, numbers.ndim, "linspace"))
    if not retstep:
        return result
    gaps = length - bool(endpoint)
    gap = e.subtract(*(astype(wrap(n), default, copy=False) for n in reversed(ends)))
    return result, e.divide(gap, gaps) if gaps > 0 else e.multiply(gap, math.nan)


def _length(num: int, op: str) -> int:
    length = as_int(num, op, "num")
    if length < 0:
        raise value_error(op, f"num is {length}; it must be at least 0")
    return length


@public()
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """`num` powers of `base`, their exponents evenly spaced from `start` to `stop`."""
    first, last = map(wrap, lift_all("logspace", (start, stop)))
    kind = dt.inexact_dtype(dt.promote(first.dtype, last.dtype))
    factor: ArrayLike = base
    if not dt.is_weak(base) and (array := wrap(lift(base, "logspace", 4))).ndim:
        shape = broadcast("logspace", [first.shape, last.shape, array.shape])
        first, last, factor = (broadcast_to(v, shape) for v in (first, last, array))
        factor = expand_dims(factor, normalise_axis(axis, len(shape) + 1, "logspace"))
    exponents = linspace(first, last, num, endpoint, dtype=kind, axis=axis)
    powers = e.pow(factor, exponents)
    return powers if dtype is None else astype(powers, dtype, copy=False)


@public()
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before."""
    ends = [wrap(n) for n in lift_all("geomspace", (start, stop))]
    for word, end in zip(("start", "stop"), ends, strict=True):
        if end.node.value is not None and not end.node.value.all():
            raise value_error("geomspace", f"{word} is 0; a geometric sequence has no 0")
    asked = [] if dtype is None else [as_dtype(dtype, "geomspace")]
    common = dt.promote(dt.FLOAT64, *(end.dtype for end in ends), *asked)
    first, last = broadcast_arrays(*(astype(end, common, copy=False) for end in ends))
    # turned to begin on the positive axis, where the logarithm is real
    sign = e.sign(first)
    low, high = (e.log10(e.divide(end, sign)) for end in (first, last))
    numbers = e.multiply(logspace(low, high, num, endpoint), sign)
    rows = numbers.shape[0]
    exact = [expand_dims(first, 0)] if rows else []
    behind = [expand_dims(last, 0)] if rows > 1 and endpoint else []
    middle = numbers[len(exact) : rows - len(behind)]
    result = moveaxis(concat([*exact, middle, *behind]), 0, axis)
    return astype(result, common if dtype is None else dtype, copy=False)


# ---------------------------------------------------------------- index arrays


@public()
def indices(dimensions: Sequence[int], dtype: Any = int, sparse: bool = False) -> Any:
    """The index along each axis of an array of shape `dimensions`, an array for each.

    They are stacked along a first axis; if `sparse`, a tuple of arrays that broadcast together.
    """
    shape, kind = as_shape(dimensions, "indices", "dimensions"), as_dtype(dtype, "indices")
    lines = tuple(
        reshape(arange(n, dtype=kind), tuple(n if b == a else 1 for b in range(len(shape))))
        for a, n in enumerate(shape)
    )
    if sparse:
        return lines
    return stack([broadcast_to(x, shape) for x in lines]) if lines else zeros((0,), dtype=kind)


@public()
def fromfunction(
    function: Callable[..., Any],
    shape: Sequence[int],
    *,
    dtype: Any = float,
    like: None = None,
    **kwargs: Any,
) -> Any:
    """What `function` makes of the indices along each axis of an array of `shape`."""
    check_like(like, "fromfunction")
    grid = indices(shape, dtype)
    return function(*(grid[a] for a in range(grid.shape[0])), **kwargs)


@public()
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that together select the given places along each axis.

    A boolean array gives the places where it is true, which must be known.
    """
    return tuple(
        reshape(places, tuple(places.size if b == a else 1 for b in range(len(args))))
        for a, places in enumerate(_places(x, i) for i, x in enumerate(args))
    )


def _places(x: ArrayLike, position: int) -> Array:
    node = lift(x, "ix_", position)
    if len(node.shape) != 1:
        raise value_error(
            "ix_", f"operand {position} has shape {node.shape}; it must have one axis"
        )
    if node.dtype == dt.BOOL:
        way_out = "how many elements are true must be known: give the places as integers"
        return wrap(constant(known_value(wrap(node), "ix_", way_out).nonzero()[0]))
    if isinstance(x, Sequence) and not node.shape[0]:
        return filled_array(0, (0,), dt.INT64, "ix_")
    return wrap(node)


@public()
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of the elements on and below diagonal `k` of an `n` by `m` matrix."""
    return _triangle("tril_indices", n, k, m, lower=True)


@public()
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of the elements on and above diagonal `k` of an `n` by `m` matrix."""
    return _triangle("triu_indices", n, k, m, lower=False)


def _triangle(op: str, n: int, k: int, m: int | None, lower: bool) -> tuple[Array, Array]:
    rows, columns = as_shape((n, n if m is None else m), op, "n, m")
    offset = as_int(k, op, "k")
    below = np.tri(rows, columns, offset if lower else offset - 1, dtype=bool)
    first, second = np.nonzero(below if lower else ~below)
    return wrap(constant(first)), wrap(constant(second))


@public()
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices, along each of `ndim` axes, of the elements on the main diagonal."""
    (length, rank) = as_shape((n, ndim), "diag_indices", "n, ndim")
    return tuple(arange(length) for _ in range(rank))


def _matrix(arr: ArrayLike, op: str) -> tuple[int, int]:
    shape = lift(arr, op).shape
    if len(shape) != 2:
        raise value_error(op, f"operand 0 has shape {shape}; it must have two axes")
    return shape[0], shape[1]


@public()
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Indices of the lower triangle of a matrix of the shape of `arr`."""
    rows, columns = _matrix(arr, "tril_indices_from")
    return tril_indices(rows, k, columns)


@public()
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Indices of the upper triangle of a matrix of the shape of `arr`."""
    rows, columns = _matrix(arr, "triu_indices_from")
    return triu_indices(rows, k, columns)


@public()
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Indices of the main diagonal of an array of the shape of `arr`, whose axes are equal."""
    shape = lift(arr, "diag_indices_from").shape
    if len(shape) < 2 or len(set(shape)) != 1:
        raise value_error(
            "diag_indices_from", f"operand 0 has shape {shape}; it must have two equal axes or more"
        )
    return diag_indices(shape[0], len(shape))


@public()
def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Array, ...]:
    """The indices of what a function as `np.triu(m, k)` leaves of an `n` by `n` matrix of ones."""
    (length,) = as_shape(as_int(n, "mask_indices", "n"), "mask_indices", "n")
    return nonzero(mask_func(ones((length, length), dt.INT64), k))


@final
class Grid:
    """`np.mgrid` and `np.ogrid`: coordinates of the grid that slices in brackets describe."""

    def __init__(self, sparse: bool) -> None:
        self._grid: Any = np.ogrid if sparse else np.mgrid

    def __getitem__(self, key: Any) -> Any:
        """The coordinates along each axis."""
        result = self._grid[key]
        if isinstance(result, (tuple, list)):
            return tuple([wrap(constant(x)) for x in cast("Sequence[Any]", result)])
        return wrap(constant(result))


mgrid: Final = Grid(sparse=False)
ogrid: Final = Grid(sparse=True)


def _strides(shape: Shape, order: str, op: str) -> tuple[int, ...]:
    """How far apart in the flattened array neighbours along each axis are."""
    if order not in ("C", "F"):
        raise value_error(op, f"order {order!r} is not known; accepted: 'C', 'F'")
    if order == "C":
        return tuple(size(shape[a + 1 :]) for a in range(len(shape)))
    return tuple(size(shape[:a]) for a in range(len(shape)))


@public()
def unravel_index(
    indices: ArrayLike, shape: int | Sequence[int], order: str = "C"
) -> tuple[Array, ...]:
    """The index along each axis of an array of `shape`, of places in the flattened array."""
    places = _indices(indices, "unravel_index")
    sizes = as_shape(shape, "unravel_index")
    _check_size(sizes, "unravel_index")
    places = check_within(places, size(sizes), "unravel_index")
    return tuple(
        e.remainder(e.floor_divide(places, max(step, 1)), max(n, 1))
        for n, step in zip(sizes, _strides(sizes, order, "unravel_index"), strict=True)
    )


def _indices(x: ArrayLike, op: str) -> Array:
    places = wrap(integers(x, op))
    return astype(places, dt.INT64, copy=False)


def _check_size(sizes: Shape, op: str) -> None:
    if size(sizes) > np.iinfo(np.intp).max:
        raise value_error(op, f"shape {sizes} has {size(sizes)} elements, more than can be counted")


def apply_index_mode(places: Array, n: int, mode: str, op: str) -> Array:
    """Indices of an axis of size `n`, those outside treated as `mode` says."""
    if mode == "wrap":
        return e.remainder(places, n)
    if mode == "clip":
        return clip(places, 0, n - 1)
    if mode != "raise":
        raise value_error(op, f"mode is {mode!r}; accepted: 'raise', 'wrap', 'clip'")
    return check_within(places, n, op)


@public()
def ravel_multi_index(
    multi_index: Sequence[ArrayLike] | ArrayLike,
    dims: int | Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> Array:
    """Places in the flattened array of shape `dims`, of indices along each axis.

    An index outside its axis is refused ("raise"; one that is not known yet, when it is), taken
    around it ("wrap") or moved to its end ("clip").
    """
    op = "ravel_multi_index"
    sizes = as_shape(dims, op, "dims")
    _check_size(sizes, op)
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    parts = _rows(multi_index)
    if len(parts) != len(sizes) or len(modes) != len(sizes):
        raise value_error(
            op,
            f"{len(parts)} indices and {len(modes)} modes came for {len(sizes)} axes; there must "
            "be as many",
        )
    total = filled_array(0, (), dt.INT64, op)
    for place, n, how, step in zip(parts, sizes, modes, _strides(sizes, order, op), strict=True):
        total = e.add(total, e.multiply(apply_index_mode(place, n, how, op), step))
    return total


def _rows(multi_index: Any) -> list[Array]:
    if isinstance(multi_index, (tuple, list)):
        items = cast("Sequence[Any]", multi_index)
        return [_indices(x, "ravel_multi_index") for x in items]
    rows = _indices(multi_index, "ravel_multi_index")
    return [rows[i] for i in range(rows.shape[0])]
